"""A virtual end node: it registers, reads events, says what they mean here, opts out, and reports.

It is stepped by whoever runs it, in one thread. A notification, by webhook or by MQTT, is only a reason to look at the
VTN at once: what is acted on always comes from the VTN itself, over a connection that it was authenticated on. So a
notification that is repeated, out of order or forged changes nothing.

=========================== ========================================================================================
the VTN                     what follows
=========================== ========================================================================================
does not answer, or 5xx     events that are known stay in force; tried again after 5 s, 10 s, ... up to the period
repeats an event            nothing: the same id and time of modification
sends an older version      nothing: the newer one stays
changes an event            the new version holds from when it is read; one that cannot be read leaves the old one
no longer lists an event    before its end it is cancelled: its limit ends at once; after its end it is over
has another clock           the difference is reported; times of events are read on our clock
=========================== ========================================================================================

Reference: OpenADR 3.1.0, user guide, 6.2 to 6.7, 7.9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError, OutputError
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.client import VtnClient, VtnError
from wattqueue_grid.openadr.events import KnownEvents, Outcome, note
from wattqueue_grid.openadr.memory import VenMemory, load_memory, opted_out, save_memory
from wattqueue_grid.openadr.objects import ResourceObject, VenObject, parse
from wattqueue_grid.openadr.power_log import PowerLog
from wattqueue_grid.openadr.reports import SiteState, report_body, state_body
from wattqueue_grid.openadr.requests import DueReport, due_reports
from wattqueue_grid.openadr.section import OpenADRSection, SiteRules

FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 3600.0
"""Longest wait that a VTN can ask for (Retry-After)."""
REPORT_CHECK_S = 5.0
"""Time between two looks for reports that are due."""
IDLE_MARGIN = 1.05
"""Share of idle watts up to which the machine counts as idle."""
MOST_KEPT = 5_000
"""Most keys of reports that are kept."""


@dataclass
class Ven:
    """One VEN of a site.

    Attributes:
        client: Requests to the VTN.
        section: Its configuration.
        rules: What an event means here.
        folder: Where it keeps what outlasts a restart.
        power: What the machine drew.
        baseline_w: Power in the absence of load control.
        consenting_w: Watts that running jobs with consent count for; None where the site asks no consent.
        ven_id: Its id at the VTN; empty until it is registered.
        problems: What a person should act on, by subject.
        log: What happened since somebody took these lines.
        failures: Looks at the VTN that failed in a row.
        next_s: When to look again.
    """

    client: VtnClient
    section: OpenADRSection
    rules: SiteRules
    folder: Path
    power: PowerLog = field(default_factory=PowerLog)
    baseline_w: Series | None = None
    consenting_w: float | None = None
    memory: VenMemory = field(init=False)
    events: KnownEvents = field(init=False)
    ven_id: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    failures: int = 0
    next_s: float = 0.0
    _out: set[str] = field(default_factory=set)
    _report_s: float = 0.0
    _asked_s: float = 0.0

    def __post_init__(self) -> None:
        """Take up what was kept."""
        self.memory, problem = load_memory(self.folder, f"{self.section.vtn} {self.section.client_id}")
        self.events = KnownEvents(self.client, self.section, self.rules, self.memory, self.log, self.problems)
        self._note("memory", problem)
        self._look_at_opt_outs()

    def step(self, now_s: float, *, notified: bool = False) -> bool:
        """Look at the VTN if it is time, or if it notified us, then send what is due. Return whether it was asked.

        Nothing that a VTN does raises an error here: it is in ``problems``.
        """
        self._look_at_opt_outs()
        # A clock that was set back must not put the next look off.
        asked = notified or now_s >= self.next_s or now_s < self._asked_s
        if asked:
            self._asked_s = now_s
            try:
                if not self.ven_id:
                    self.register()
                self.events.poll(now_s)
                self.save()
                self._compare_clocks()
                self.failures, self.next_s = 0, now_s + self.section.poll_s
                self._note("vtn", "")
            except (VtnError, InputError) as error:
                self._failed(error, now_s)
        if self.section.reports and self.ven_id and not self.failures and (asked or now_s >= self._report_s):
            self._report_s = now_s + REPORT_CHECK_S
            self._report(now_s)
        return asked

    def register(self) -> None:
        """Find or create this VEN at the VTN, and its resource. Raises: VtnError, InputError."""
        name, resource = self.section.ven_name, self.section.resource_name
        self.ven_id = _find_or_create(
            self.client, VenObject, "/vens", {"venName": name}, {"objectType": "VEN_VEN_REQUEST", "venName": name}
        )
        attributes = []
        if self.rules.maximum_w is not None:
            attributes.append(
                {"type": "MAX_POWER_CONSUMPTION", "values": [(self.rules.maximum_w + self.rules.uncounted_w) / 1e3]}
            )
        wanted = {"objectType": "VEN_RESOURCE_REQUEST", "resourceName": resource, "venID": self.ven_id}
        of = {"resourceName": resource, "venID": self.ven_id}
        _find_or_create(self.client, ResourceObject, "/resources", of, {**wanted, "attributes": attributes})
        self.log.append(f"registered as {name}")

    def outcome(self, now_s: float) -> Outcome:
        """Return what all known events mean at an instant; asks nobody."""
        return self.events.outcome(now_s, self._out)

    def state_of(self, begin_s: float, end_s: float) -> str:
        """Return the operating state in an interval."""
        drawn_w = self.power.over(begin_s, end_s).mean_w if end_s > begin_s else self.power.latest_w(begin_s)
        idle = drawn_w is not None and 0 < drawn_w <= (self.rules.idle_w + self.rules.uncounted_w) * IDLE_MARGIN
        last_s = max(end_s, begin_s + 1.0)
        out = held = False
        for event_id in self.memory.events:
            meets = any(w.begin_s < last_s and w.end_s > begin_s for w in self.events.reading(event_id, begin_s).limits)
            out |= meets and event_id in self._out
            held |= meets and event_id not in self._out
        what = "CURTAILED" if held else "OPTED_OUT" if out else "NORMAL"
        return f"{'IDLE' if idle else 'RUNNING'}_{what}"

    def save(self) -> None:
        """Keep what must outlast a restart; a failure is a problem and no error."""
        try:
            save_memory(self.memory, self.folder)
            self._note("memory", "")
        except OutputError as error:
            self._note("memory", str(error))

    def pop_log(self) -> list[str]:
        """Return what happened since the last call."""
        lines = [*self.log]
        self.log.clear()
        return lines

    def _report(self, now_s: float) -> None:
        """Send opt-outs and the reports that are due; what fails is tried again after the next look."""
        site = SiteState(self.power, self.state_of, self.baseline_w, self.rules.emergency_w, now_s, self.consenting_w)
        try:
            for event_id, known in list(self.memory.events.items()):
                self._report_opt_out(event_id, now_s)
                try:
                    due = due_reports(known.event, self.section.ven_name, known.first_s, now_s)
                except InputError:
                    continue  # the outcome says why the event is refused
                for one in due:
                    if self._wanted(one, now_s):
                        self._send_report(event_id, one, site)
        except VtnError as error:
            self._note("reports", str(error))
            self._failed(error, now_s)

    def _wanted(self, due: DueReport, now_s: float) -> bool:
        """Whether a report was not sent yet; a state whose time we choose, whether it has changed."""
        if due.open and due.request.payload_type == "OPERATING_STATE":
            return self.memory.states.get(due.of) != self.state_of(now_s, now_s)
        return due.key not in self.memory.sent

    def _send_report(self, event_id: str, due: DueReport, site: SiteState) -> None:
        """Send one report. Raises: VtnError where it may be sent later."""
        try:
            body = report_body(due, event_id, self.section.ven_name, self.section.resource_name, site)
        except InputError as error:
            self.log.append(f"event {event_id}: {error}")
        else:
            self._post_report(event_id, due.request.payload_type, body)
        if due.open:
            self.memory.states[due.of] = self.state_of(site.now_s, site.now_s)
        self._sent(due.key, site.now_s)

    def _report_opt_out(self, event_id: str, now_s: float) -> None:
        """Report that we opted out of an event, or in again, once. Raises: VtnError."""
        before, out = self.memory.states.get(event_id, ""), event_id in self._out
        if out == before.endswith("OPTED_OUT"):
            return
        reading = self.events.reading(event_id, now_s)
        idle = self.state_of(now_s, now_s).startswith("IDLE")
        state = f"{'IDLE' if idle else 'RUNNING'}_OPTED_OUT" if out else self.state_of(now_s, now_s)
        names = (self.section.ven_name, self.section.resource_name)
        self._post_report(event_id, state, state_body(event_id, state, *names, now_s, reading.end_s))
        self.memory.states[event_id] = state
        self.save()

    def _post_report(self, event_id: str, what: str, body: dict[str, Any]) -> None:
        """Send a report; one that the VTN refuses for good is not sent again. Raises: VtnError where it may be."""
        try:
            self.client.post("/reports", body)
            self.log.append(f"event {event_id}: reported {what}")
            self._note("reports", "")
        except VtnError as error:
            if error.status not in (400, 403, 404, 409, 422):
                raise
            self.log.append(f"event {event_id}: report {what} was refused: {error}")

    def _sent(self, key: str, now_s: float) -> None:
        """Keep that a report was sent."""
        self.memory.sent[key] = now_s
        if len(self.memory.sent) > MOST_KEPT:
            newest = sorted(self.memory.sent.items(), key=lambda row: row[1])[-MOST_KEPT // 2 :]
            self.memory.sent = dict(newest)
        self.save()

    def _compare_clocks(self) -> None:
        """Report a clock of the VTN that is far from ours."""
        offset_s = self.client.offset_s or 0.0
        far = abs(offset_s) > self.section.clock_tolerance_s
        direction = "ahead of" if offset_s > 0 else "behind"
        self._note(
            "clock", f"the VTN's clock is {abs(offset_s):.0f} s {direction} ours: is NTP at work?" if far else ""
        )

    def _look_at_opt_outs(self) -> None:
        try:
            self._out = opted_out(self.folder)
            self._note("opt-outs", "")
        except InputError as error:
            self._note("opt-outs", str(error))

    def _failed(self, error: VtnError | InputError, now_s: float) -> None:
        """Put off the next look: longer with every failure, or as long as the VTN asks."""
        self.failures += 1
        wait_s = min(FIRST_RETRY_S * 2.0 ** min(self.failures - 1, 20), self.section.poll_s)
        asked_s = error.retry_s if isinstance(error, VtnError) else None
        if asked_s is not None:
            wait_s = max(wait_s, min(asked_s, LONGEST_RETRY_S))
        self.next_s = now_s + wait_s
        self._note("vtn", f"{error}; what is known stays in force, tried again in {wait_s:.0f} s")

    def _note(self, subject: str, problem: str) -> None:
        """Keep the problem of a subject; empty for none."""
        note(self.problems, subject, problem)


def _find_or_create(
    client: VtnClient, kind: type[VenObject | ResourceObject], path: str, of: dict[str, str], body: dict[str, Any]
) -> str:
    """Return the id of our object of a name, created if there is none. Raises: VtnError, InputError."""
    wanted = next(iter(of.values()))

    def existing() -> str:
        for raw in client.all_of(path, **of):
            one = parse(kind, raw)
            if one.name == wanted:
                return one.id
        return ""

    if found := existing():
        return found
    try:
        return parse(kind, client.post(path, body)).id
    except VtnError as error:
        if error.status == 409 and (found := existing()):  # made by another process meanwhile
            return found
        raise
