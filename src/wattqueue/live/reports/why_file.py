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
from wattqueue.live.cluster import USER_HELD, Job
from wattqueue.live.extension import Extension, beside
from wattqueue.live.features.budgets import BARRED
from wattqueue.live.never_starts import BY_SLURM, is_impossible
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.why import WHY, Record
from wattqueue.live.table import OPEN_STAGES, Owner, Stage
from wattqueue.live.world import Layout
from wattqueue.parts.contracts import Entries
from wattqueue.policy.build import queue_order

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

    def write(self, plan: RoundState) -> None:
        """Write the records of a round. Raises: OutputError where the folder cannot be written."""
        if 0.0 <= plan.now_s - self._at_s < self.every_s:
            return
        self._at_s, layout = plan.now_s, plan.planner.layout
        free, free_w = _free(plan, layout)
        body = (
            f'"mode":"{plan.planner.rules.mode}","free":{_text(free)},"free_w":{_text(free_w)},'
            f'"ends":{self._ends_of(plan, layout)},'
            f'"turns":{self._turns_of(plan, layout)},"jobs":{_text(_records(plan))}'
        )
        body += "".join(f',"{kind}":{_text(records())}' for kind, records in plan.explained.items())
        if body != self._last:
            text = f'{{"time_s":{plan.now_s:.0f},{body}}}\n'
            atomic_text(self.folder / WHY, text, mode=0o644, sync=False)
            self._last = body

    def _ends_of(self, plan: RoundState, layout: Layout) -> str:
        """Return when running jobs end as text, that of the last time where the same jobs run with the same ends."""
        running = plan.view.running
        now = running.expected_end_s.tobytes(), running.net_uw.tobytes(), plan.jobs.part[plan.holding].tobytes()
        if now != self._running:
            self._running, self._ends = now, _text(_ends(plan, layout))
        return self._ends

    def _turns_of(self, plan: RoundState, layout: Layout) -> str:
        """Return the columns of the waiting jobs as text, that of the last time where the queue is the same."""
        # The planner replaces jobs, predictions, entries and windows together, when the queue has changed.
        if plan.view.entries is not self._entries:
            self._entries, self._turns = plan.view.entries, _columns(plan, layout)
        return self._turns


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def queue_rows(plan: RoundState) -> NDArray[np.int64]:
    """Return the waiting jobs in the policy's order, as rows of ``plan.waiting``."""
    entries, order = _ordered(plan)[:2]
    job = entries.job[order]
    return job[np.sort(np.unique(job, return_index=True)[1])].astype(np.int64)


def _ordered(plan: RoundState) -> tuple[Entries, NDArray[np.int64], NDArray[np.bool_]]:
    """Return the entries of waiting jobs, their order, and which of all entries they are."""
    entries = plan.view.entries
    waiting = entries.job < len(plan.waiting)  # behind them those of running jobs, for controls
    entries = Entries(entries.job[waiting], entries.partition[waiting], entries.priority[waiting])
    order = queue_order(plan.view.jobs.submit_s[entries.job], entries)
    return entries, np.arange(len(entries.job)) if order is None else order, waiting


def _columns(plan: RoundState, layout: Layout) -> str:
    """Return the policy's entries as columns of text.

    Names and nodes are of jobs in the policy's order; of each entry the row of its job, its partition and the watts
    that it needs.
    """
    view = plan.view
    entries, order, waiting = _ordered(plan)
    job = entries.job[order]
    first = np.full(len(plan.waiting), -1, np.int64)
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


def _names(names: list[str]) -> str:
    """Return a list of names as text; the plain ones of all clusters known need no JSON encoder (2 ms for 10,000)."""
    return '["' + '","'.join(names) + '"]' if names and PLAIN.fullmatch("".join(names)) else _text(names)


def _encoded(column: NDArray[Any]) -> str:
    return base64.b64encode(column.astype("<i4").tobytes()).decode("ascii")


def _held(plan: RoundState, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return partition, units and watts of each busy job. Shapes (b,)."""
    running = plan.view.running
    partition = layout.machine.option_partition[running.option].astype(np.int64)
    return partition, plan.view.jobs.nodes[running.row].astype(np.int64), running.net_uw / 1e6


def _free(plan: RoundState, layout: Layout) -> tuple[list[int], int | None]:
    """Return the nodes free in each partition, and the watts free."""
    partition, units, net_w = _held(plan, layout)
    parts = len(layout.machine.partitions)
    taken = np.bincount(partition, units, parts).astype(np.int64)
    down = np.bincount(np.searchsorted(layout.first, plan.view.unusable, side="right") - 1, minlength=parts)
    free = np.diff(layout.first) - taken - down
    return free.tolist(), None if plan.pool_w is None else round(plan.pool_w - float(net_w.sum()))


def _ends(plan: RoundState, layout: Layout) -> list[tuple[int | None, int, int, int]]:
    """Return what running jobs hold, in the order of their ends.

    An end is (time, None for a job without a limit; partition; units; watts).
    """
    partition, units, net_w = _held(plan, layout)
    end_s = plan.view.running.expected_end_s
    order = np.argsort(end_s, kind="stable")
    at = [None if math.isinf(end) else int(end) for end in np.rint(end_s[order]).tolist()]
    watts = np.rint(net_w[order]).astype(np.int64).tolist()
    return list(zip(at, partition[order].tolist(), units[order].tolist(), watts, strict=True))


def _records(plan: RoundState) -> dict[str, Record]:
    """Return the record of each job that waits without a turn of the policy, starts in this round, or is parked."""
    jobs, memory = plan.jobs, plan.planner.memory
    out: dict[str, Record] = {jobs.name[slot]: _record(plan, slot) for slot in jobs.undecided()}
    for row in plan.rows_at(Stage.PARKED):
        if (parked := memory.parked.get(row.key)) is not None:  # none that was continued in this round
            out[row.key.name] = ["parked", round(parked.since_s), parked.watts, parked.why]
    kind = "new" if plan.planner.rules.mode == "control" else "would"
    if plan.starts or kind == "would":
        out |= {str(plan.view.jobs.job_id[int(row)]): [kind] for row in plan.decision.rows}
    return out


def _record(plan: RoundState, slot: int) -> Record:
    """Return the record of a job that the policy does not decide about in this round."""
    jobs, stage = plan.jobs, plan.jobs.stage[slot]
    if slot in plan.never:
        return ["never", plan.never[slot]]
    if stage == Stage.BARRED and jobs.reason[slot]:
        return ["budget" if jobs.reason[slot].startswith(BARRED) else "site", jobs.reason[slot][:160]]
    if (waits := _waits(plan, jobs.row[slot])) is not None:
        return waits
    handed = jobs.owner[slot] == Owner.HANDED_OVER and stage == Stage.HELD
    if handed or stage in (Stage.FREE, Stage.STALLED):
        return ["slurm", jobs.row[slot].reason]
    return ["starting", jobs.row[slot].reason] if stage in OPEN_STAGES else ["new"]


def _waits(plan: RoundState, row: Job) -> Record | None:
    """Return the record of a job that waits for something else than its start; None for any other."""
    memory, now_s = plan.planner.memory, plan.now_s
    refused = memory.refused.get(row.key)
    if not plan.planner.layout.allowed(row.partition):
        held = [row.watts] if row.watts > 0 else []  # job_submit.lua gives watts to jobs of partitions it does not know
        shared = plan.shared.partitions.issuperset(row.partition.split(","))
        return ["shared", row.partition] if shared else ["elsewhere", row.partition, *held]
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
        reason = refused.reason.removeprefix(BY_SLURM) if impossible else refused.reason
        return ["impossible" if impossible else "refused", refused.times, reason[:120], round(refused.until_s)]
    return None


def why_extension(file: WhyFile) -> Extension:
    """Return the stage that writes the records of each round."""
    return Extension({"report": beside("the explanations", file.write)}, keeps=file)
