"""Read the state files of a controller as the sections of its page.

A section is a JSON value that is sent again when it changed. There are two versions of each: with names, for those who
have the token, and without: then no name of a user or job is in it, nor any text that was not made of figures here
(reasons of Slurm, problems, errors), since such a text may hold a name.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from wattqueue.live.files.lease import BEAT
from wattqueue.live.files.liveness import BLIND, Liveness, ProcessId, liveness_of
from wattqueue.live.files.page_files import (
    DAY_S,
    EVENTS,
    HISTORY,
    MOST,
    PAGE,
    ROW_S,
    read_events,
    read_history,
)
from wattqueue.live.files.stamp import Stamp, stamp_of
from wattqueue.live.files.status import COMPILING, STATUS
from wattqueue.live.reports.waits import Waits, waits_of
from wattqueue.live.reports.why import WHY, sentence

SHOWN_EVENTS = 60
Sections = dict[str, Any]
"""Values by the name of the section."""
KINDS = {
    "site": "rules of the site", "never": "fits under no limit to come", "failed": "launch failed",
    "user": "held by the user", "depends": "depends on another job", "refused": "start failed, tried again",
    "impossible": "start failed, tried again", "later": "start asked for later", "elsewhere": "another partition",
    "shared": "another partition", "parked": "parked with consent", "starting": "about to start",
    "slurm": "scheduled by Slurm", "new": "new", "would": "the policy would start it", "budget": "an energy budget",
}  # fmt: skip
"""Reasons in a few words, by the code of a record."""


@dataclass
class LiveState:
    """The files of one controller, read again when they changed."""

    folder: Path
    """The run folder."""
    beats: Path
    """The folder of the heartbeat."""
    away_s: float
    _stamps: tuple[Stamp, ...] = ()
    _read: tuple[Any, ...] = ()
    _sections: tuple[Sections, Sections] = field(default_factory=lambda: ({}, {}))
    _found: Liveness | None = None

    def sections(self, now_s: float) -> tuple[Sections, Sections]:
        """Return the sections without names, and with them; the same objects while nothing changed."""
        files = (STATUS, PAGE, WHY, HISTORY, EVENTS, BLIND, COMPILING)
        stamps = (*(stamp_of(self.folder / name) for name in files), stamp_of(self.beats / BEAT))
        if stamps[:5] != self._stamps[:5] or not self._read:
            self._read = (_json(self.folder / STATUS), _json(self.folder / PAGE), *_waits(self.folder))
        status, page, waits, records, broken = self._read
        found = liveness_of(self.folder, self.beats, _usable(status), _process(page), now_s, self.away_s)
        if stamps[:5] == self._stamps[:5] and found == self._found and self._sections[0]:
            return self._sections
        self._stamps, self._found = stamps, found
        events, history = read_events(self.folder)[:SHOWN_EVENTS], read_history(self.folder)
        made = []
        for names in (False, True):
            state = Shown(_usable(status) or {}, page, waits, history, now_s, names, records)
            troubles = broken if names else []
            made.append(state.sections(found, [_event(one, names) for one in events], state.health(found, troubles)))
        self._sections = made[0], made[1]
        return self._sections


@dataclass
class Shown:
    """Makes the sections of one version, with names or without."""

    status: Mapping[str, Any]
    page: Mapping[str, Any]
    waits: Waits | None
    rows: list[list[int | None]]
    now_s: float
    names: bool
    records: Mapping[str, list[Any]] = field(default_factory=dict)
    """Reasons of waiting jobs that are not in ``waits``."""
    place: Callable[[float], time.struct_time] = time.localtime
    """The clock of the cluster."""

    @property
    def history(self) -> list[list[int | None]]:
        """Rows of the last day."""
        return [row for row in self.rows if (row[0] or 0) >= self.now_s - DAY_S]

    def sections(self, found: Liveness, events: list[Any], health: list[list[str]]) -> Sections:
        """Return all sections."""
        return {
            "now": self.now(found), "queue": self.queue(), "nodes": self.page.get("nodes", {}), "events": events,
            "running": self.running(), "domains": self.page.get("domains", []), "health": health,
            "ahead": self.ahead(), "history": self.history,
        }  # fmt: skip

    def now(self, found: Liveness) -> dict[str, Any]:
        """Return the state of this moment."""
        s = self.status
        held, kept = (0, 0) if self.waits is None else self.waits.held_by_watts()
        for_watts = [] if self.waits is None else self.waits.at_s[self.waits.for_watts].tolist()
        problems = [*s.get("problems", ()), *s.get("errors", ())]
        idle = [row[6] for row in self.history if row[6] is not None]
        figures = ("mode", "cap_w", "limit_w", "counted_w", "measured_w", "pool_w", "jobs", "telemetry", "time_s")
        return {
            **{name: s.get(name) for name in figures},
            "machine": self.page.get("machine", ""),
            "policy": self.page.get("policy", ""),
            "state": found.state,
            "text": f"{found.text} ({found.detail})" if self.names and found.detail else found.text,
            "names": self.names,
            "zone_s": self.place(self.now_s).tm_gmtoff,
            "summary": summary(s, for_watts, self.place),
            "for_watts": len(for_watts),
            "held": held,
            "kept_nodes": kept,
            "kept_hours": round(sum(idle) * ROW_S / 3600.0, 1) if idle or not self.rows else None,
            "problems": problems if self.names else [],
            "problem_count": len(problems),
        }

    def queue(self) -> dict[str, Any]:
        """Return the first waiting jobs with reasons and expected starts, and how many wait for what."""
        known = {row[0]: row for row in self.page.get("waiting", ())}
        rows, kinds = [], Counter[str]()
        if self.waits is not None:
            short = int(self.waits.for_watts.sum())
            kinds.update({"watts": short, "nodes or their turn": len(self.waits.names) - short})
            for k, name in enumerate(self.waits.names[:MOST]):
                at_s = float(self.waits.at_s[k])
                start = round(at_s / 60.0) * 60 if math.isfinite(at_s) else None
                kind = "watts" if self.waits.for_watts[k] else self._turn(k)
                rows.append(self._row(name, known.get(name), int(self.waits.watts[k]), start, kind, ""))
        for name, kind, text in self.others():
            kinds[kind] += 1
            if len(rows) < 2 * MOST:
                rows.append(self._row(name, known.get(name), None, None, kind, text()))
        return {"rows": rows, "total": sum(kinds.values()), "kinds": [pair for pair in kinds.most_common() if pair[1]]}

    def others(self) -> Iterator[tuple[str, str, Callable[[], str]]]:
        """Yield (job, reason in a few words, in full) of waiting jobs that are not in ``waits``."""
        for name, record in self.records.items():
            kind = KINDS.get(str(record[0]), "new")
            yield name, kind, partial(self._text, name, record, kind)

    def _turn(self, k: int) -> str:
        waits = self.waits
        assert waits is not None  # noqa: S101 - rows are of waits
        return "nodes" if int(waits.nodes[k]) > waits.free[int(waits.partition[k])] else "jobs before it"

    def _text(self, name: str, record: list[Any], kind: str) -> str:
        """Return a record in words; without names those that hold no text of others."""
        try:
            return sentence(name, record).partition(": ")[2] if self.names else kind
        except (ValueError, TypeError, LookupError):
            return kind

    def _row(self, name: str, known: list[Any] | None, *about: Any) -> list[Any]:
        """Return name, nodes, partition, submission, watts, start, kind, text; with names user and job name."""
        row = [name, *(known[1:4] if known else (None, "", None)), *about]
        return [*row, *(known[4:6] if known else ("", ""))] if self.names else row

    def running(self) -> list[list[Any]]:
        """Return the first running jobs; without names their first six columns."""
        rows = [list(row) for row in self.page.get("running", ())]
        return rows if self.names else [row[:6] for row in rows]

    def ahead(self) -> dict[str, Any]:
        """Return cap and limit of the next day, and the watts that jobs which run now hold until their ends."""
        ends = []
        if self.waits is not None and self.status.get("counted_w") is not None:
            ends = self._ends(float(self.status["counted_w"]))
        return {"limits": self.page.get("ahead", []), "jobs": ends}

    def _ends(self, counted_w: float) -> list[list[float]]:
        """Return (time, watts) at which what counts now falls, as running jobs end: at most 300 steps."""
        assert self.waits is not None  # noqa: S101 - as above
        end_s, freed_w = self.waits.ends
        steps = [[round(t), round(counted_w - w)] for t, w in zip(end_s.tolist(), freed_w.tolist(), strict=True)]
        steps = [one for one in steps if self.now_s < one[0] <= self.now_s + DAY_S]
        every = max(1, math.ceil(len(steps) / 300))
        return steps[every - 1 :: every]

    def health(self, found: Liveness, troubles: list[str]) -> list[list[str]]:
        """Return (source, state, text) of everything that the page depends on; the state is ok, warn or bad."""
        s, page = self.status, self.page
        state = "ok" if found.works else "warn" if found.state == "starting" else "bad"
        rows = [["controller", state, found.text or f"a round takes {1e3 * s.get('round_s', 0.0):.0f} ms"]]
        if not s:
            return rows
        seen = found.state not in ("blind", "dead", "hung", "stopped", "stale")
        rows.append(["Slurm", "ok" if seen else "bad", f"read at {_clock(s['time_s'], self.place)}"])
        count = s.get("telemetry", {})
        total = sum(count.values())
        for name, (nodes, oldest_s) in sorted(page.get("sources", {}).items()):
            age = "" if oldest_s is None else f", the oldest sample {max(0.0, page['time_s'] - oldest_s):.0f} s old"
            rows.append([f"power: {name}", "ok" if nodes else "bad", f"{nodes:,} nodes measured{age}"])
        if total and not page.get("sources"):
            rows.append(["power", "warn", "no source is configured: each node counts as predicted"])
        lacking = total - count.get("measured", 0)
        if page.get("sources") and lacking:
            rows.append(["nodes without a reading", "warn", f"{lacking:,} of {total:,} count at their maximum"])
        cap = page.get("cap_problem", "")
        rows.append(
            ["cap", "bad" if cap else "ok", (cap if self.names else "its file cannot be used") if cap else "read"]
        )
        if unusable := page.get("unusable_targets", 0):
            rows.append(["load targets", "bad", f"{unusable:,} cannot be used"])
        stored = page.get("state_problem", "")
        rows.append(["state database", "bad" if stored else "ok", "cannot be written" if stored else "written"])
        return rows + [["state files", "bad", text] for text in troubles]


def summary(
    status: Mapping[str, Any], for_watts: list[float], place: Callable[[float], time.struct_time] = time.localtime
) -> str:
    """Return the page's first line: power of the limit, and who waits for watts until when."""
    if not status:
        return "Nothing is known yet"
    counted, limit = status.get("counted_w"), status.get("limit_w")
    text = f"{_kw(counted)} kW, no cap" if limit is None else f"{_kw(counted)} of {_kw(limit)} kW"
    if not for_watts:
        return f"{text}; no job waits for watts"
    first_s = min(for_watts)
    until = f", the first until about {_clock(first_s, place)[:5]}" if math.isfinite(first_s) else ""
    jobs = "1 job waits" if len(for_watts) == 1 else f"{len(for_watts):,} jobs wait"
    return f"{text}; {jobs} for watts{until}"


def _kw(watts: float | None) -> str:
    kw = (watts or 0.0) / 1e3
    return f"{kw:,.{0 if kw >= 1000 else 1 if kw >= 10 else 2}f}"


def _clock(time_s: float, place: Callable[[float], time.struct_time]) -> str:
    return time.strftime("%H:%M:%S", place(time_s))


def _event(one: Mapping[str, Any], names: bool) -> list[Any]:
    detail = one["detail"] if names else ""
    return [one["time_s"], one["kind"], f"{one['text']}: {detail}" if detail else one["text"]]


def _json(path: Path) -> dict[str, Any]:
    """Return a file of the controller; empty where there is none, or none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _usable(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return status if isinstance(status.get("time_s"), int | float) else None


def _process(page: Mapping[str, Any]) -> ProcessId | None:
    try:
        return ProcessId(*page["process"])
    except (LookupError, TypeError):
        return None


def _waits(folder: Path) -> tuple[Waits | None, dict[str, list[Any]], list[str]]:
    """Return the jobs that wait for their turn, records of other waiting jobs, and what cannot be read."""
    values = _json(folder / WHY)
    try:
        return (waits_of(values) if "turns" in values else None), dict(values.get("jobs", {})), []
    except (LookupError, TypeError, ValueError, AttributeError):
        return None, {}, [f"{WHY} is no file of this version of the controller"]
