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

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from wattqueue.errors import InputError, OutputError
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.client import VtnClient, VtnError
from wattqueue_grid.openadr.config import OpenADRSection
from wattqueue_grid.openadr.memory import KnownEvent, VenMemory, load_memory, opted_out, save_memory
from wattqueue_grid.openadr.objects import ResourceObject, VenObject, VtnEvent, VtnProgram, parse
from wattqueue_grid.openadr.power_log import PowerLog
from wattqueue_grid.openadr.reading import KEPT_S, EventLimit, EventReading, GridAlert, SignalFigure, read_event
from wattqueue_grid.openadr.reports import SiteState, report_body, state_body
from wattqueue_grid.openadr.requests import DueReport, due_reports
from wattqueue_grid.openadr.rules import SiteRules
from wattqueue_grid.openadr.targets import load_targets, series_of
from wattqueue_grid.openadr.times import changed_s

FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 3600.0
"""Longest wait that a VTN can ask for (Retry-After)."""
REPORT_CHECK_S = 5.0
"""Time between two looks for reports that are due."""
IDLE_MARGIN = 1.05
"""Share of idle watts up to which the machine counts as idle."""
MOST_KEPT = 5_000
"""Most keys of reports that are kept."""


class Outcome(NamedTuple):
    """What the events mean now. ``taken`` and ``refused`` are lines for people, in the order of event ids."""

    targets: LoadTargets
    price: Series | None
    """A price per MWh in the site's currency."""
    intensity: Series | None
    """gCO2/kWh."""
    alerts: tuple[GridAlert, ...]
    taken: tuple[str, ...]
    refused: tuple[str, ...]
    unusable: tuple[str, ...] = ()
    """Those of ``refused`` that are not over and that a person should act on: neither opted out nor in the past."""


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
    ven_id: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    failures: int = 0
    next_s: float = 0.0
    _unreadable: dict[str, str] = field(default_factory=dict)
    _out: set[str] = field(default_factory=set)
    _report_s: float = 0.0
    _asked_s: float = 0.0

    def __post_init__(self) -> None:
        """Take up what was kept."""
        self.memory, problem = load_memory(self.folder, f"{self.section.vtn} {self.section.client_id}")
        self._note("memory", problem)
        self._look_at_opt_outs()

    # -- steps ---------------------------------------------------------------------------------
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
                self._poll(now_s)
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
        self.ven_id = self._find_or_create(
            VenObject, "/vens", {"venName": name}, {"objectType": "VEN_VEN_REQUEST", "venName": name}
        )
        attributes = []
        if self.rules.maximum_w is not None:
            attributes.append(
                {"type": "MAX_POWER_CONSUMPTION", "values": [(self.rules.maximum_w + self.rules.uncounted_w) / 1e3]}
            )
        wanted = {"objectType": "VEN_RESOURCE_REQUEST", "resourceName": resource, "venID": self.ven_id}
        of = {"resourceName": resource, "venID": self.ven_id}
        self._find_or_create(ResourceObject, "/resources", of, {**wanted, "attributes": attributes})
        self.log.append(f"registered as {name}")

    def outcome(self, now_s: float) -> Outcome:
        """Return what all known events mean at an instant; asks nobody."""
        limits: list[EventLimit] = []
        figures: list[SignalFigure] = []
        alerts: list[GridAlert] = []
        taken, refused = [], [f"{key}: {why}" for key, why in sorted(self._unreadable.items())]
        unusable = list(refused)
        for event_id, known in sorted(self.memory.events.items()):
            reading = self._reading(event_id, now_s)
            label = f"event {event_id}" + (f" ({known.event.name[:40]!r})" if known.event.name else "")
            if event_id in self._out:
                refused.append(f"{label}: opted out")
                continue
            if math.isfinite(reading.end_s) and reading.end_s <= known.first_s:
                refused.append(
                    f"{label}: in the past: it ended {known.first_s - reading.end_s:.0f} s before it was read"
                )
                continue
            limits, figures = limits + reading.limits, figures + reading.figures
            alerts += [a for a in reading.alerts if a.end_s > now_s]
            refused += [f"{label}: {reason}" for reason in reading.refused]
            if not math.isfinite(reading.end_s) or reading.end_s > now_s:
                unusable += [f"{label}: {reason}" for reason in reading.refused]
            if what := _summary(reading):
                taken.append(f"{label}: {what}")
        known_s = {key: known.known_s for key, known in self.memory.events.items()}
        return Outcome(
            load_targets(limits, known_s, self.rules.ramp_w_per_s),
            series_of("price", figures), series_of("ghg", figures), tuple(alerts), tuple(taken), tuple(refused),
            tuple(unusable),
        )  # fmt: skip

    def state_of(self, begin_s: float, end_s: float) -> str:
        """Return the operating state in an interval."""
        drawn_w = self.power.over(begin_s, end_s).mean_w if end_s > begin_s else self.power.latest_w(begin_s)
        idle = drawn_w is not None and 0 < drawn_w <= (self.rules.idle_w + self.rules.uncounted_w) * IDLE_MARGIN
        last_s = max(end_s, begin_s + 1.0)
        out = held = False
        for event_id in self.memory.events:
            meets = any(w.begin_s < last_s and w.end_s > begin_s for w in self._reading(event_id, begin_s).limits)
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
        lines, self.log = self.log, []
        return lines

    # -- events --------------------------------------------------------------------------------
    def _poll(self, now_s: float) -> None:
        """Read programs and events, and compare them with what is known. Raises: VtnError."""
        named = {"targets": list(self.section.targets)} if self.section.targets else {}
        programs = self._programs(named)
        alone = {"programID": next(iter(programs))} if len(programs) == 1 and self.section.programs else {}
        listed, self._unreadable = set(), {}
        for raw in self.client.all_of("/events", active="true", **named, **alone):
            try:
                event = parse(VtnEvent, raw)
                changed_s(event)
            except InputError as error:
                raw_id = str(raw.get("id", ""))[:40] if isinstance(raw, dict) else ""
                listed.add(raw_id)  # a version that cannot be read does not cancel the one before it
                self._unreadable[f"event {raw_id}"] = str(error)
                continue
            if event.program_id in programs:
                listed.add(event.id)
                self._take(event, raw, now_s)
        self._drop(listed, now_s)
        self.save()
        offset_s = self.client.offset_s or 0.0
        far = abs(offset_s) > self.section.clock_tolerance_s
        direction = "ahead of" if offset_s > 0 else "behind"
        self._note(
            "clock", f"the VTN's clock is {abs(offset_s):.0f} s {direction} ours: is NTP at work?" if far else ""
        )

    def _programs(self, named: dict[str, Any]) -> dict[str, VtnProgram]:
        """Return the programs whose events are taken, by id. Raises: VtnError."""
        found: dict[str, VtnProgram] = {}
        raws: dict[str, Any] = {}
        for raw in self.client.all_of("/programs", **named):
            try:
                program = parse(VtnProgram, raw)
            except InputError as error:
                self.log.append(f"program left out: {error}")
                continue
            if not self.section.programs or program.name in self.section.programs:
                found[program.id], raws[program.id] = program, raw
        missing = set(self.section.programs) - {program.name for program in found.values()}
        self._note("programs", f"the VTN has no program {', '.join(sorted(missing))}" if missing else "")
        # Programs of events that are no longer listed are kept: these still say what their values mean.
        used = {known.event.program_id for known in self.memory.events.values()}
        self.memory.programs = {k: raw for k, raw in self.memory.programs.items() if k in used} | raws
        return found

    def _take(self, event: VtnEvent, raw: dict[str, Any], now_s: float) -> None:
        """Compare an event with the version that is known."""
        known = self.memory.events.get(event.id)
        if known is None:
            self.memory.events[event.id] = KnownEvent(raw=raw, known_s=now_s, first_s=now_s)
            self.log.append(f"event {event.id}: new")
            return
        known_changed_s = changed_s(known.event)
        if changed_s(event) < known_changed_s:
            self.log.append(f"event {event.id}: an older version was sent, the newer one stays")
        elif raw != known.raw or known.cancelled_s is not None:
            self.memory.events[event.id] = KnownEvent(raw=raw, known_s=now_s, first_s=known.first_s)
            self.log.append(f"event {event.id}: changed")

    def _drop(self, listed: set[str], now_s: float) -> None:
        """Cancel events that are listed no more before their end, and forget those that are over."""
        for event_id, known in list(self.memory.events.items()):
            if event_id in listed:
                continue
            end_s = self._reading(event_id, now_s).end_s
            if known.cancelled_s is None and end_s > now_s:
                known.cancelled_s = now_s
                self.log.append(f"event {event_id}: cancelled")
            last_s = min(end_s, math.inf if known.cancelled_s is None else known.cancelled_s)
            if last_s < now_s - KEPT_S:
                del self.memory.events[event_id]
                of = (event_id, f"{event_id}:")
                self.memory.states = {
                    k: v for k, v in self.memory.states.items() if k != of[0] and not k.startswith(of[1])
                }

    def _reading(self, event_id: str, now_s: float) -> EventReading:
        """Return what one known event says."""
        known = self.memory.events[event_id]
        program = self.memory.programs.get(known.event.program_id)
        parsed = None if program is None else parse(VtnProgram, program)
        until_s = math.inf if known.cancelled_s is None else known.cancelled_s
        return read_event(known.event, parsed, self.rules, now_s, until_s)

    # -- reports -------------------------------------------------------------------------------
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
        reading = self._reading(event_id, now_s)
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

    # -- small things --------------------------------------------------------------------------
    def _find_or_create(
        self, kind: type[VenObject | ResourceObject], path: str, of: dict[str, str], body: dict[str, Any]
    ) -> str:
        """Return the id of our object of a name, created if there is none. Raises: VtnError, InputError."""
        wanted = next(iter(of.values()))

        def existing() -> str:
            for raw in self.client.all_of(path, **of):
                one = parse(kind, raw)
                if one.name == wanted:
                    return one.id
            return ""

        if found := existing():
            return found
        try:
            return parse(kind, self.client.post(path, body)).id
        except VtnError as error:
            if error.status == 409 and (found := existing()):  # made by another process meanwhile
                return found
            raise

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
        if problem:
            self.problems[subject] = problem
        else:
            self.problems.pop(subject, None)


def _summary(reading: EventReading) -> str:
    """Return in words what was taken of an event; empty for nothing."""
    parts = []
    if reading.limits:
        watts = sorted({limit.limit_w for limit in reading.limits})
        span = f"{watts[0] / 1e3:.6g}" if len(watts) == 1 else f"{watts[0] / 1e3:.6g} to {watts[-1] / 1e3:.6g}"
        parts.append(f"{len(reading.limits)} limit{'s' if len(reading.limits) > 1 else ''} of {span} kW")
    for kind, words in (("price", "prices"), ("ghg", "carbon intensities")):
        if count := sum(figure.kind == kind for figure in reading.figures):
            parts.append(f"{count} {words}")
    parts += [f"alert {alert.text!r}" for alert in reading.alerts]
    return ", ".join(parts)
