"""The events of a VTN that a VEN knows: read from it, compared with the versions before, and what they mean now.

What becomes of an event that is repeated, older, changed or no longer listed is the table of ``ven``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wattqueue.errors import InputError
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.signals import Series
from wattqueue_grid.openadr.client import VtnClient
from wattqueue_grid.openadr.memory import KnownEvent, VenMemory
from wattqueue_grid.openadr.objects import VtnEvent, VtnProgram, parse
from wattqueue_grid.openadr.reading import KEPT_S, EventLimit, EventReading, GridAlert, SignalFigure, read_event
from wattqueue_grid.openadr.section import OpenADRSection, SiteRules
from wattqueue_grid.openadr.targets import load_targets, series_of
from wattqueue_grid.openadr.times import changed_s


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
class KnownEvents:
    """Events and programs in the memory of a VEN.

    Attributes:
        client: Requests to the VTN.
        section: Configuration of the VEN.
        rules: What an event means here.
        memory: Where they are kept.
        log: Takes what happened.
        problems: Takes what a person should act on, by subject.
        unreadable: Events of the last answer that cannot be read, and why.
    """

    client: VtnClient
    section: OpenADRSection
    rules: SiteRules
    memory: VenMemory
    log: list[str]
    problems: dict[str, str]
    unreadable: dict[str, str] = field(default_factory=dict)

    def poll(self, now_s: float) -> None:
        """Read programs and events, and compare them with what is known. Raises: VtnError."""
        named = {"targets": list(self.section.targets)} if self.section.targets else {}
        programs = self._programs(named)
        alone = {"programID": next(iter(programs))} if len(programs) == 1 and self.section.programs else {}
        listed, self.unreadable = set(), {}
        for raw in self.client.all_of("/events", active="true", **named, **alone):
            try:
                event = parse(VtnEvent, raw)
                changed_s(event)
            except InputError as error:
                raw_id = str(raw.get("id", ""))[:40] if isinstance(raw, dict) else ""
                listed.add(raw_id)  # a version that cannot be read does not cancel the one before it
                self.unreadable[f"event {raw_id}"] = str(error)
                continue
            if event.program_id in programs:
                listed.add(event.id)
                self._take(event, raw, now_s)
        self._drop(listed, now_s)

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
        note(self.problems, "programs", f"the VTN has no program {', '.join(sorted(missing))}" if missing else "")
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
            end_s = self.reading(event_id, now_s).end_s
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

    def reading(self, event_id: str, now_s: float) -> EventReading:
        """Return what one known event says."""
        known = self.memory.events[event_id]
        program = self.memory.programs.get(known.event.program_id)
        parsed = None if program is None else parse(VtnProgram, program)
        until_s = math.inf if known.cancelled_s is None else known.cancelled_s
        return read_event(known.event, parsed, self.rules, now_s, until_s)

    def outcome(self, now_s: float, out: set[str]) -> Outcome:
        """Return what all known events mean at an instant, but those that we opted out of; asks nobody."""
        limits: list[EventLimit] = []
        figures: list[SignalFigure] = []
        alerts: list[GridAlert] = []
        taken, refused = [], [f"{key}: {why}" for key, why in sorted(self.unreadable.items())]
        unusable = list(refused)
        for event_id, known in sorted(self.memory.events.items()):
            reading = self.reading(event_id, now_s)
            label = f"event {event_id}" + (f" ({known.event.name[:40]!r})" if known.event.name else "")
            if event_id in out:
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


def note(problems: dict[str, str], subject: str, problem: str) -> None:
    """Keep the problem of a subject; empty for none."""
    if problem:
        problems[subject] = problem
    else:
        problems.pop(subject, None)


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
