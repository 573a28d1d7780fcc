"""Write what the operator page shows beside status and reasons: nodes, names, what is announced, history, events.

``page.json`` (mode 0640, it holds names of users and jobs): who writes, the machine, nodes by partition and state, the
first jobs that wait and run with their users, cap and limit of the next day, and the sources of power.

``history.csv`` (0640): a row a minute of what counted at most in it, for the last day and somewhat more.

``events.jsonl`` (0640): changes of the cap, load targets, writes that failed, actions that were refused; the last ones.

A page is served by another process (``wattqueue.page``) that reads these files, so that nobody who asks can delay a
round. A round costs what the first ``MOST`` jobs cost, whatever the length of the queue.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.live.cluster import Job, Snapshot
from wattqueue.live.extension import Extension, beside
from wattqueue.live.files.liveness import ProcessId
from wattqueue.live.files.page_files import (
    COLUMNS,
    EVENTS,
    HISTORY,
    MOST,
    PAGE,
    ROW_S,
    ROWS,
    domain_rows,
    finite,
    kilowatts,
    limits_ahead,
    whole,
)
from wattqueue.live.files.status import put
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.domains import domain_watts
from wattqueue.live.reports.why import waits_in
from wattqueue.live.reports.why_file import queue_rows

EVENTS_KEPT = 200
AGAIN_S = 300.0
"""An event that repeats is written again after so long."""


@dataclass
class PageFile:
    """Writes the files of the page from round to round."""

    folder: Path
    sources: Sequence[str] = ()
    """Names of the sources of power."""
    every_s: float = 5.0
    _at_s: float = -math.inf
    _row: dict[str, float] = field(default_factory=dict)
    """The row of the history that is being gathered."""
    _before: dict[str, Any] = field(default_factory=dict)
    """What events are found by: values of the round before."""
    _told: dict[str, float] = field(default_factory=dict)
    """When each event was written last."""
    _appended: dict[str, int] = field(default_factory=dict)
    """Lines that were appended to each file since it was shortened."""

    def write(self, now: RoundState) -> None:
        """Write what a round shows. Raises: OutputError, OSError where the folder cannot be written."""
        found = list(self._events(now))
        if found:
            self._append(EVENTS, (json.dumps(one, separators=(",", ":")) for one in found), EVENTS_KEPT)
        self._history(now)
        if not 0.0 <= now.now_s - self._at_s < self.every_s:
            self._at_s = now.now_s
            put(self.folder / PAGE, json.dumps(self._values(now), separators=(",", ":"), sort_keys=True) + "\n", 0o640)

    def _values(self, now: RoundState) -> dict[str, Any]:
        """Return the content of ``page.json``."""
        planner, jobs = now.planner, now.jobs
        waiting = [now.planner.jobs.row[int(slot)] for slot in now.waiting[queue_rows(now)[:MOST]]]
        waiting += jobs.rows(jobs.undecided()[:MOST])
        return {
            "time_s": now.now_s,
            "process": ProcessId.own(),
            "machine": planner.layout.machine.name,
            "policy": planner.policy.name,
            "nodes": nodes_by_state(now.snapshot),
            "waiting": [_named(row, now.snapshot, jobs.first_s[jobs.slot[row.key]]) for row in waiting],
            "running": [_running(row, now.snapshot) for row in jobs.rows(now.running[:MOST])],
            "ahead": limits_ahead(planner.cap, now.now_s),
            "domains": domain_rows(domain_watts(now), planner.layout.machine.supply),
            "sources": self._sources(now),
            "cap_problem": now.cap_problem,
            "unusable_targets": now.unusable_targets,
            "state_problem": planner.memory.problem,
        }

    def _sources(self, now: RoundState) -> dict[str, tuple[int, float | None]]:
        """Return of each source of power how many nodes it measures, and the time of its oldest sample."""
        found: dict[str, tuple[int, float | None]] = dict.fromkeys(self.sources, (0, None))
        for one in now.power.values():
            if one.label == "measured":
                nodes, oldest_s = found.get(one.source, (0, None))
                found[one.source] = nodes + 1, one.taken_s if oldest_s is None else min(oldest_s, one.taken_s)
        return found

    # -- history ---------------------------------------------------------------------------------
    def _history(self, now: RoundState) -> None:
        """Gather a row a minute: the greatest watts, the lowest limits, and what the cap held at the minute's end."""
        measured = [one for one in now.power.values() if one.label == "measured"]
        seen = {
            "cap_w": now.alone_w,
            "limit_w": now.stated_w,
            "counted_w": now.counted_w,
            "measured_w": sum(p.power_w for p in now.power.values()) if measured else math.nan,
        }
        minute = now.now_s // ROW_S
        if self._row and self._row["time_s"] != minute:
            row, self._row = self._row, {}
            held, kept = self._held()
            row |= {"time_s": row["time_s"] * ROW_S, "held_jobs": held, "kept_nodes": kept}
            self._append(HISTORY, [",".join(_figure(row[name]) for name in COLUMNS)], ROWS)
        lowest = ("cap_w", "limit_w")
        for name, value in seen.items():
            known = self._row.get(name, value)
            self._row[name] = (np.fmin if name in lowest else np.fmax)(known, value)
        self._row["time_s"] = minute

    def _held(self) -> tuple[int, int]:
        """Return what the cap holds now, by the explanations that this controller writes.

        Nothing for a file that is missing or damaged: a round does not end by it.
        """
        found = waits_in(self.folder)
        return (0, 0) if found is None else found.held_by_watts()

    # -- events ----------------------------------------------------------------------------------
    def _events(self, now: RoundState) -> Iterable[dict[str, Any]]:
        """Return what happened in a round. ``text`` holds figures of ours; ``detail`` words of others."""
        planner = now.planner
        found: dict[str, Any] = {"cap_w": finite(now.alone_w), "target": now.in_target, "mode": planner.rules.mode}
        before, self._before = self._before, found
        if not before:
            yield _event(now, "start", f"the controller begins: mode {found['mode']}, policy {planner.policy.name}")
        elif before["cap_w"] != found["cap_w"]:
            yield _event(
                now, "cap", f"the cap changes from {kilowatts(before['cap_w'])} to {kilowatts(found['cap_w'])}"
            )
        if before.get("target", False) != found["target"]:
            ends = f"a load target is over; the limit is {kilowatts(finite(now.stated_w))}"
            begins = f"a load target is in force: {kilowatts(finite(now.stated_w))}"
            yield _event(now, "target", begins if found["target"] else ends)
        failed = [(f"{o.write.kind} {o.write.target} failed", o.error) for o in now.outcomes if o.error]
        refused = [(f"{type(one.action).__name__} refused", one.reason) for one in now.refusals]
        self._told = {key: at_s for key, at_s in self._told.items() if now.now_s - at_s < AGAIN_S}
        for kind, texts in (("failure", failed), ("refusal", refused)):
            for text, detail in texts[:5]:
                key = f"{text}: {detail}"
                if key not in self._told:
                    self._told[key] = now.now_s
                    yield _event(now, kind, text, str(detail)[:200])

    # -- files -----------------------------------------------------------------------------------
    def _append(self, name: str, lines: Iterable[str], keep: int) -> None:
        """Append lines to a file, which is shortened to the last ``keep`` when it has grown by a tenth."""
        path, text = self.folder / name, "".join(f"{line}\n" for line in lines)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640), "a") as file:
            file.write(text)
        count = self._appended.get(name, keep) + 1  # a new process does not know how long the file is
        self._appended[name] = count
        if count > keep // 10:
            self._appended[name] = 0
            put(path, "".join(path.read_text(errors="replace").splitlines(keepends=True)[-keep:]), 0o640)


def nodes_by_state(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Return the number of nodes by their first partition, and by state in the resource manager's own words."""
    found: dict[str, dict[str, int]] = {}
    for node in snapshot.nodes:
        states = found.setdefault(node.partitions[0] if node.partitions else "", {})
        state = node.state if node.power == "on" else f"{node.state}, {node.power}"
        states[state] = states.get(state, 0) + 1
    return found


def _named(row: Job, snapshot: Snapshot, first_s: float) -> list[Any]:
    """Return a waiting job: name, nodes, partition, time of submission, user, job name."""
    known = snapshot.details.get(row.key)
    user, app = (known.user, known.app) if known is not None else ("", "")
    return [row.key.name, row.nodes, row.partition, round(first_s or row.key.submit_s), user, app[:80]]


def _running(row: Job, snapshot: Snapshot) -> list[Any]:
    """Return a running job: name, nodes, partition, watts, start, latest end, user, job name."""
    end_s = row.start_s + row.walltime_s
    name, nodes, partition, _, user, app = _named(row, snapshot, row.key.submit_s)
    return [name, nodes, partition, row.watts, whole(row.start_s), whole(end_s), user, app]


def _event(now: RoundState, kind: str, text: str, detail: str = "") -> dict[str, Any]:
    return {"time_s": round(now.now_s), "kind": kind, "text": text, "detail": detail}


def _figure(value: float) -> str:
    """Return a figure of the history: whole, and nothing for one that is not there."""
    return str(round(value)) if math.isfinite(value) else ""


def page_extension(file: PageFile) -> Extension:
    """Return the stage that writes the files of the page."""
    return Extension({"report": beside("the files of the page", file.write)}, keeps=file)
