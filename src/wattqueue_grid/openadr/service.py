"""A VEN in a thread beside the controller, which takes what it knows and never waits for the VTN."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.formats.cap import UNITS_W
from wattqueue.formats.series import read_steps
from wattqueue.model.bounds import CAP_W
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.client import VtnClient, VtnError
from wattqueue_grid.openadr.events import Outcome
from wattqueue_grid.openadr.memory import alone
from wattqueue_grid.openadr.notifier import MqttNotifier, offered, topics_of
from wattqueue_grid.openadr.section import OpenADRSection, SiteRules
from wattqueue_grid.openadr.ven import Ven
from wattqueue_grid.openadr.webhook import Webhook

STEP_S = 1.0
"""Time between two steps, and so between two looks at a VTN that notifies without end."""
NOTIFIER_RETRY_S = 300.0
"""Time after which the webhook is subscribed again, and MQTT that could not be set up is tried again."""
MOST_SHOWN = 5
"""Events that cannot be used of which the status has a line each."""
KW = UNITS_W["kw"]


def rules_of(section: OpenADRSection, machine: Machine) -> SiteRules:
    """Return what an event means at this site."""

    def watts(kilowatts: float | None) -> float | None:
        return None if kilowatts is None else kilowatts * KW

    ramp = section.ramp_kw_per_s
    return SiteRules(
        section.ven_name, machine.scope_max_w(), machine.scope_idle_w(), machine.idle_w - machine.scope_idle_w(),
        section.other_kw * KW,
        watts(section.emergency_kw), section.setpoint, watts(section.reference_kw), section.currency,
        float("inf") if ramp is None else ramp * KW,
    )  # fmt: skip


def ven_of(
    section: OpenADRSection, secret: str, machine: Machine, folder: Path, clock: Callable[[], float] = time.time
) -> Ven:
    """Return the VEN of a configuration. Raises: InputError where one of its files cannot be used."""
    baseline = None
    if section.baseline is not None:
        rows = read_steps(section.baseline, "time_s", "power_w", bound=CAP_W)
        baseline = Series(rows.time_s, rows.value)
    client = VtnClient(section, secret, clock)
    return Ven(client, section, rules_of(section, machine), folder, baseline_w=baseline)


def same_targets(one: LoadTargets, other: LoadTargets) -> bool:
    """Whether two tables of load targets are equal."""
    return len(one) == len(other) and all(one.row(row) == other.row(row) for row in range(len(one)))


@dataclass
class VenService:
    """A VEN that runs in a thread.

    Attributes:
        ven: The VEN; only the thread steps it.
        clock: Gives seconds since the epoch.
    """

    ven: Ven
    clock: Callable[[], float] = time.time
    webhook: Webhook | None = None
    notifier: MqttNotifier | None = None
    _wake: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _outcome: Outcome = field(init=False)
    _problems: tuple[str, ...] = ()
    _stated: bool = False
    """Whether the log has what cannot be used of the events that were kept."""
    _set_up_s: dict[str, float] = field(default_factory=dict)
    _say: Callable[[str], None] = field(init=False, repr=False)
    _held: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """Take up what was kept: it is in force from the first round on."""
        self._outcome = self.ven.outcome(self.clock())

    def start(self, say: Callable[[str], None]) -> None:
        """Begin; ``say`` gets each line of what happened.

        Raises: InputError where another process runs this VEN, or the webhook cannot listen.
        """
        self._say = say
        self._held.enter_context(alone(self.ven.folder))
        if self.ven.section.callback is not None:
            self.webhook = Webhook(self.ven.section.callback, self._wake.set)
            self.webhook.open()
        self._thread = threading.Thread(target=self._run, name="openadr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, the subscription and the connections."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(3 * self.ven.section.timeout_s)
        if self.notifier is not None:
            self.notifier.close()
        if self.webhook is not None:
            with suppress(VtnError, InputError):  # the subscription is replaced at the next start
                self.webhook.unsubscribe(self.ven.client)
            self.webhook.close()
        self.ven.client.close()
        self._held.close()

    def outcome(self) -> Outcome:
        """Return what the events mean, as of the last step."""
        with self._lock:
            return self._outcome

    def targets(self) -> LoadTargets:
        """Return the load targets, the same object as long as they are the same."""
        return self.outcome().targets

    def problems(self) -> Sequence[str]:
        """Return what a person should act on."""
        with self._lock:
            return self._problems

    def unusable(self) -> int:
        """Return how many payloads of events cannot be used."""
        return len(self.outcome().unusable)

    def measured(self, time_s: float, power_w: float, *, measured: bool, consenting_w: float | None = None) -> None:
        """Take a figure of what the machine draws; ``measured`` where all of it was."""
        self.ven.power.add(time_s, power_w, measured=measured)
        self.ven.consenting_w = consenting_w

    def _run(self) -> None:
        """Step until stopped. A defect of ours must not end what keeps the targets: it is a problem, too."""
        while not self._stop.is_set():
            notified = self._wake.is_set()
            self._wake.clear()
            now_s = self.clock()
            try:
                self.ven.step(now_s, notified=notified)
                if self.ven.ven_id and not self.ven.failures:
                    self._set_up(now_s)
                outcome = self.ven.outcome(now_s)
                self.ven.problems.pop("defect", None)
            except Exception as error:  # noqa: BLE001 - whatever it is, the last outcome stays in force
                self.ven.problems["defect"] = f"{type(error).__name__}: {self.ven.client.secrets.hide(str(error))}"
                outcome = self.outcome()
            if same_targets(outcome.targets, self._outcome.targets):
                outcome = outcome._replace(targets=self._outcome.targets)
            for text in outcome.unusable:
                if text not in self._outcome.unusable or not self._stated:
                    self._say(f"OpenADR: cannot be used: {text}")
            self._stated = True
            with self._lock:
                self._outcome = outcome
                found = [f"OpenADR: {text}" for text in self.ven.problems.values()]
                if self.notifier is not None and self.notifier.problem:
                    found.append(f"OpenADR: {self.notifier.problem}")
                found += [f"OpenADR cannot be used: {text}" for text in outcome.unusable[:MOST_SHOWN]]
                if len(outcome.unusable) > MOST_SHOWN:
                    found.append(f"OpenADR cannot be used: {len(outcome.unusable) - MOST_SHOWN} more")
                self._problems = tuple(found)
            for line in self.ven.pop_log():
                self._say(f"OpenADR: {line}")
            if not self._stop.wait(STEP_S if notified else 0.0):
                self._wake.wait(STEP_S)

    def _set_up(self, now_s: float) -> None:
        """Subscribe the webhook every few minutes, and connect to the broker once; what fails is tried again later."""
        hook, section = self.webhook, self.ven.section
        if hook is not None and self._may("webhook", now_s):  # again and again: a VTN may have forgotten it
            try:
                hook.subscribe(self.ven.client, section)
                self.ven.problems.pop("webhook", None)
            except (VtnError, InputError) as error:
                self.ven.problems["webhook"] = f"no webhook, the VTN is asked every {section.poll_s:g} s: {error}"
        if section.mqtt and self.notifier is None and self._may("mqtt", now_s):
            try:
                self._connect()
                self.ven.problems.pop("mqtt", None)
            except (VtnError, InputError) as error:
                self.ven.problems["mqtt"] = f"no MQTT, the VTN is asked every {section.poll_s:g} s: {error}"

    def _connect(self) -> None:
        """Connect to the VTN's broker where it offers one. Raises: VtnError, InputError."""
        offer = offered(self.ven.client)
        if offer is None:
            return
        topics = topics_of(self.ven.client, self.ven.ven_id, sorted(self.ven.memory.programs))
        if topics:
            notifier = MqttNotifier(self.ven.client, offer, topics, self._wake.set)
            notifier.open()
            self.notifier = notifier

    def _may(self, what: str, now_s: float) -> bool:
        """Whether it is time to try to set something up."""
        if now_s < self._set_up_s.get(what, -1e18):
            return False
        self._set_up_s[what] = now_s + NOTIFIER_RETRY_S
        return True
