"""Write why jobs wait (``why``): what each needs, and when running jobs end.

The file of a large queue is most of a round's work, so it is written in pieces that change at different times. What
waiting jobs need and their order are columns of the policy's entries, turned into text when the queue changes; what is
free and when running jobs end is small; records of single jobs are written for those alone that the policy does not
decide about.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.cluster import Job, JobKey, Snapshot
from wattqueue.live.consent import Consents, StatedConsent
from wattqueue.live.impossible import BY_SLURM, is_impossible
from wattqueue.live.planner import Plan
from wattqueue.live.sorting import USER_HELD
from wattqueue.live.state.memory import Memory
from wattqueue.live.why import WHY, Record
from wattqueue.live.world import Layout
from wattqueue.parts.contracts import Entries

FAR_S = 10 * 365.0 * 86400.0
"""A start further away than this is a hold of the user's (job_submit.lua), no time that somebody waits for."""

PLAIN = re.compile(r"[\w+.\-]*", re.ASCII)
"""Names that are the same in quotes."""
MOST = 2**31 - 1
"""Greatest figure of a column, in watts more than any machine has."""


@dataclass
class WhyFile:
    """Writes the records of a round, at most every ``every_s`` and only if they changed."""

    folder: Path
    every_s: float = 5.0
    _at_s: float = field(default=-1e18)
    _last: str = ""
    _entries: Any = None
    """The policy's entries of which ``_turns`` is the text."""
    _turns: str = ""
    _running: Any = None
    """Ends and watts of running jobs of which ``_ends`` is the text."""
    _ends: str = ""

    def write(
        self, snapshot: Snapshot, plan: Plan, memory: Memory, layout: Layout, consents: Consents | None = None
    ) -> None:
        """Write the records of a round. Raises: OutputError where the folder cannot be written."""
        if 0.0 <= snapshot.taken_s - self._at_s < self.every_s:
            return
        self._at_s = snapshot.taken_s
        free, free_w = _free(plan, layout)
        body = (
            f'"free":{_text(free)},"free_w":{_text(free_w)},"ends":{self._ends_of(plan, layout)},'
            f'"turns":{self._turns_of(plan, layout)},"jobs":{_text(_records(snapshot, plan, memory, layout))}'
        )
        if consents is not None:
            body += f',"consent":{_text({row.key.name: _consent(consents.of(row.key)) for row in snapshot.jobs})}'
        if body != self._last:
            text = f'{{"time_s":{snapshot.taken_s:.0f},{body}}}\n'
            atomic_text(self.folder / WHY, text, mode=0o644, sync=False)
            self._last = body

    def _ends_of(self, plan: Plan, layout: Layout) -> str:
        """Return when running jobs end as text, that of the last time where the same jobs run with the same ends."""
        running = plan.view.running
        known, now = self._running, (running.expected_end_s, running.net_uw)
        if known is None or now[0] is not known[0] or now[1] is not known[1]:
            self._running, self._ends = now, _text(_ends(plan, layout))
        return self._ends

    def _turns_of(self, plan: Plan, layout: Layout) -> str:
        """Return the columns of the waiting jobs as text, that of the last time where the queue is the same."""
        # The planner replaces jobs, predictions, entries and windows together, when the queue has changed.
        if plan.view.entries is not self._entries:
            self._entries, self._turns = plan.view.entries, _columns(plan, layout)
        return self._turns


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _consent(stated: StatedConsent) -> Record:
    """Return the record of a job's consent: whether it is given, what decides, and the limits that are stated."""
    limits = (stated.slowdown, stated.until_s, stated.price, stated.checkpoint_s)
    return [int(stated.allowed), stated.source, *(None if np.isnan(limit) else limit for limit in limits)]


def _columns(plan: Plan, layout: Layout) -> str:
    """Return the policy's entries as columns of text.

    Names and nodes are of jobs in the policy's order; of each entry the row of its job, its partition and the watts
    that it needs.
    """
    view = plan.view
    entries = view.entries
    waiting = entries.job < len(plan.sorted.waiting)  # behind them those of running jobs, for controls
    entries = Entries(entries.job[waiting], entries.partition[waiting], entries.priority[waiting])
    order = _policy_order(entries)
    job = entries.job[order]
    first = np.full(len(plan.sorted.waiting), -1, np.int64)
    first[job[::-1]] = np.arange(len(job))[::-1]  # of several entries of a job the first one stands
    jobs = job[np.flatnonzero(first[job] == np.arange(len(job)))]
    place = np.empty(len(first), np.int64)
    place[jobs] = np.arange(len(jobs))
    idle_w = np.array([p.idle_w for p in layout.machine.partitions])
    if layout.machine.cap_scope == "jobs":
        idle_w = np.zeros_like(idle_w)
    node_w = view.prediction.watts(entries.job, np.asarray(view.window[0])[waiting]) - idle_w[entries.partition]
    needs_w = np.maximum(np.ceil(node_w - 1e-6), 0.0) * view.jobs.nodes[entries.job]
    columns = {
        "nodes": view.jobs.nodes[jobs],
        "job": place[job],
        "partition": entries.partition[order],
        "watts": np.minimum(np.rint(needs_w[order]), MOST),
    }
    # As base64 of 32-bit integers: text of so many figures takes several milliseconds of a round.
    texts = [f'"{name}":"{_encoded(column)}"' for name, column in columns.items()]
    return f'{{"names":{_names(view.jobs.job_id[jobs].tolist())},{",".join(texts)}}}'


def _policy_order(entries: Entries) -> NDArray[np.int64]:
    """Return the order of entries by priority, highest first, and by job; most queues are in that order already."""
    priority, job = entries.priority, entries.job
    falls = priority[1:] < priority[:-1]
    if (falls | ((priority[1:] == priority[:-1]) & (job[1:] >= job[:-1]))).all():
        return np.arange(len(job))
    return np.lexsort((job, -priority))


def _names(names: list[str]) -> str:
    """Return a list of names as text; the plain ones of all clusters known need no JSON encoder (2 ms for 10,000)."""
    return '["' + '","'.join(names) + '"]' if names and PLAIN.fullmatch("".join(names)) else _text(names)


def _encoded(column: NDArray[Any]) -> str:
    return base64.b64encode(column.astype("<i4").tobytes()).decode("ascii")


def _held(plan: Plan, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return partition, units and watts of each busy job. Shapes (b,)."""
    running = plan.view.running
    partition = layout.machine.option_partition[running.option].astype(np.int64)
    return partition, plan.view.jobs.nodes[running.row].astype(np.int64), running.net_uw / 1e6


def _free(plan: Plan, layout: Layout) -> tuple[list[int], int | None]:
    """Return the nodes free in each partition, and the watts free."""
    partition, units, net_w = _held(plan, layout)
    parts = len(layout.machine.partitions)
    taken = np.bincount(partition, units, parts).astype(np.int64)
    down = np.bincount(np.searchsorted(layout.first, plan.view.unusable, side="right") - 1, minlength=parts)
    free = np.diff(layout.first) - taken - down
    return free.tolist(), None if plan.pool_w is None else round(plan.pool_w - float(net_w.sum()))


def _ends(plan: Plan, layout: Layout) -> list[tuple[int | None, int, int, int]]:
    """Return what running jobs hold, in the order of their ends.

    An end is (time, None for a job without a limit; partition; units; watts).
    """
    partition, units, net_w = _held(plan, layout)
    end_s = plan.view.running.expected_end_s
    order = np.argsort(end_s, kind="stable")
    at = [None if math.isinf(end) else int(end) for end in np.rint(end_s[order]).tolist()]
    watts = np.rint(net_w[order]).astype(np.int64).tolist()
    return list(zip(at, partition[order].tolist(), units[order].tolist(), watts, strict=True))


def _records(snapshot: Snapshot, plan: Plan, memory: Memory, layout: Layout) -> dict[str, Record]:
    """Return the record of each job that waits without a turn of the policy, starts in this round, or is parked."""
    rows = plan.sorted
    under_way = {row.key for row in rows.under_way}
    foreign = {row.key for row in (*rows.foreign, *rows.hand_over)}
    out: dict[str, Record] = {}
    said: dict[JobKey, Record] = {key: ["site", text[:120]] for key, text in rows.barred.items()}
    said |= {key: ["never", text] for key, text in rows.never.items()}
    for row in rows.aside:
        out[row.key.name] = said.get(row.key) or _record(
            row, snapshot.taken_s, memory, layout, plan.shared.partitions, row.key in under_way, row.key in foreign
        )
    for row in rows.running:
        if row.state == "stopped" and (parked := memory.parked.get(row.key)) is not None:
            out[row.key.name] = ["parked", round(parked.since_s), parked.watts, parked.why]
    if plan.starts:
        out |= {str(plan.view.jobs.job_id[int(row)]): ["new"] for row in plan.decision.rows}
    return out


def _record(
    row: Job, now_s: float, memory: Memory, layout: Layout, shared: frozenset[str], under_way: bool, foreign: bool
) -> Record:
    """Return the record of a job that the policy does not decide about in this round."""
    refused = memory.refused.get(row.key)
    if not layout.allowed(row.partition):
        held = [row.watts] if row.watts > 0 else []  # job_submit.lua gives watts to jobs of partitions it does not know
        return (
            ["shared", row.partition]
            if shared.issuperset(row.partition.split(","))
            else ["elsewhere", row.partition, *held]
        )
    if row.held_by == "failed":
        return ["failed"]
    if row.held and row.start_s > now_s + FAR_S:
        return ["user"]
    if not row.eligible:
        return ["later", round(row.start_s)] if row.start_s > now_s else ["depends"]
    if row.held and row.held_by == "user" and memory.marked(row.key, USER_HELD):
        return ["user"]
    if refused is not None and refused.until_s > now_s and row.held:
        impossible = is_impossible(row, refused)
        kind, reason = (
            ("impossible", refused.reason.removeprefix(BY_SLURM)) if impossible else ("refused", refused.reason)
        )
        return [kind, refused.times, reason[:120], round(refused.until_s)]
    if foreign:
        return ["slurm", row.reason]
    return ["starting", row.reason] if under_way else ["new"]
