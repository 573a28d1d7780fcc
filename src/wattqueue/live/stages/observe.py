"""Bring the controller's stored state up to date with a snapshot, before anything is planned on it."""

from __future__ import annotations

from wattqueue.live.impossible import why_held
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.watts.licences import REASSERTED, REQUEUED


@stage(reads="snapshot", writes="nodes")
def observe(now: RoundState) -> None:
    """Forget jobs that are gone, and follow those that were requeued or held again.

    Forget releases whose job is held because the controller was killed before it released them. A job that was released
    and is held again was refused, by Slurm (BadConstraints: no node can serve it as pinned) or by an administrator:
    without a back-off it would be released every round, and hold watts on an idle machine in between.
    """
    planner, memory, jobs = now.planner, now.planner.memory, now.snapshot.by_key
    now.nodes = planner.decider.orders.expected(now.snapshot.nodes, now.now_s)
    _follow_requeued(now)
    planner.parking.settle(now.snapshot.jobs)
    planner.draining.settle(now.snapshot.nodes)
    memory.forget([key for key in memory.known() if key not in jobs])
    # from here on every key of the memory is a job of this snapshot
    planner.released &= memory.placed.keys()
    again = [key for key in planner.ran if key in jobs and jobs[key].pending]  # requeued under the same key
    memory.unplace(again)
    memory.mark(again, REASSERTED, present=False)
    memory.mark(again, REQUEUED)
    for key in [key for key in memory.placed if jobs[key].held]:
        row = jobs[key]
        if row.held_by != "failed" and (key in planner.released or row.held_by == "manager"):
            planner.refuse(key, why_held(row), now.now_s)
        else:
            memory.unplace([key])


def _follow_requeued(now: RoundState) -> None:
    """Carry the first submission of jobs that were requeued over to their new keys.

    A requeue resets the submit time, so the same name comes back with another key.
    """
    planner, memory, names = now.planner, now.planner.memory, now.snapshot.by_name
    before = planner.names
    # after a restart: requeued while nobody looked
    old = before.values() if before else list(memory.placed)
    for key in old:
        new = names.get(key.name)
        if new is None or new == key:
            continue
        details = now.snapshot.details.get(new)
        if details is not None and details.restarts > 0:
            memory.requeued(new, memory.origin.get(key, key.submit_s))
            planner.placement.carry_over(key, new)
    planner.names = names
