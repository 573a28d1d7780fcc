"""Bring the table of jobs and the controller's stored state up to date with a snapshot, before anything is planned."""

from __future__ import annotations

from collections.abc import Iterable

from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.moldable import range_mark
from wattqueue.live.never_starts import why_held
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.watts.licences import REQUEUED, REWRITTEN


@stage(
    reads="snapshot",
    writes="nodes jobs.row jobs.name jobs.shown_w jobs.counted_stage jobs.request jobs.stage",
)
def observe(now: RoundState) -> None:
    """Forget jobs that are gone, and follow those that were requeued or held again.

    Forget releases whose job is held because the controller was killed before it released them. A job that was released
    and is held again was refused, by Slurm (BadConstraints: no node can serve it as pinned) or by an administrator:
    without a back-off it would be released every round, and hold watts on an idle machine in between.
    """
    planner, memory, jobs = now.planner, now.planner.memory, now.snapshot.by_key
    # after a start nothing is known of the snapshot before but what was released by then, or what another planner saw
    before, planner.inherited = () if now.jobs.slot else planner.inherited or memory.placed, ()
    now.jobs.update(now.snapshot.jobs)
    new = now.jobs.rows(now.jobs.new)
    _follow_requeued(now, now.jobs.gone or [key for key in before if key not in jobs], new)
    now.nodes = planner.decider.orders.expected(now.snapshot.nodes, now.now_s)
    planner.parking.sync(now.snapshot.jobs)
    planner.draining.sync(now.snapshot.nodes)
    memory.forget([key for key in memory.known() if key not in jobs])
    # from here on every key of the memory is a job of this snapshot
    planner.released &= memory.placed.keys()
    _keep_ranges(now, new)
    again = [row.key for row in new if row.pending and row.key in planner.ran]  # requeued under the same key
    memory.unplace(again)
    memory.mark(again, REWRITTEN, present=False)
    memory.mark(again, REQUEUED)
    for key in [key for key in memory.placed if jobs[key].held]:
        row = jobs[key]
        if row.held_by != "failed" and (key in planner.released or row.held_by == "manager"):
            planner.refuse(key, why_held(row), now.now_s)
        else:
            memory.unplace([key])


def _keep_ranges(now: RoundState, new: Iterable[Job]) -> None:
    """Store the range of nodes of jobs that somebody else released: Slurm then shows an estimate as the least number.

    An estimate of four nodes for ``-N 1-4`` would be counted and pinned, and such a job may never fit.
    """
    planner = now.planner
    for before, row in zip(now.jobs.before, new, strict=True):
        if before is not None and before.held and row.pending and not row.held and row.key not in planner.memory.placed:
            least, most = planner.node_range(before)
            if most > least:
                planner.memory.mark([row.key], range_mark(least, most))


def _follow_requeued(now: RoundState, gone: Iterable[JobKey], new: Iterable[Job]) -> None:
    """Carry the first submission of jobs that were requeued over to their new keys.

    A requeue resets the submit time, so that one key is gone and the same name is back with another one.
    """
    memory, back = now.planner.memory, {row.key.name: row.key for row in new}
    for key in gone:
        other = back.get(key.name)
        details = None if other is None else now.snapshot.details.get(other)
        if other is not None and details is not None and details.restarts > 0:
            memory.requeued(other, memory.origin.get(key, key.submit_s))
            now.planner.placement.carry_over(key, other)
