"""Licences of running jobs that are not what they should be: counts that Slurm lost, and watts that were measured."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING

from wattqueue.live.cluster import JobKey, Snapshot
from wattqueue.live.goal import JobGoal
from wattqueue.live.parking import PARKED
from wattqueue.live.state.memory import Memory
from wattqueue.live.tracking import CORRECTED

if TYPE_CHECKING:
    from wattqueue.live.running_jobs import RunningJob

HOLDS_WATTS = frozenset({"starting", "running", "stopped"})
"""States in which a job's watts can be changed; a completing job is about to give them back."""
REASSERTED = "reasserted"
"""Mark of a requeued job whose watts were written again."""
REQUEUED = "requeued"
"""Mark of a job that was seen running and then pending under the same key."""


def lost_licences(memory: Memory, snapshot: Snapshot, key: JobKey) -> bool:
    """Whether Slurm may hold no watts for a job although it shows them.

    Slurm 25.05 and 25.11.0 to 25.11.6 free the licences of a job that is requeued and do not take
    them again when it starts; the text of its request stays as it was. So the watts of every
    requeued job are written once after each requeue, whatever they show.
    """
    details, marked = snapshot.details.get(key), memory.marked
    requeued = (details is not None and details.restarts > 0) or marked(key, REQUEUED)
    return requeued and not marked(key, REASSERTED)


def licences_of_running(
    memory: Memory, snapshot: Snapshot, running: Sequence[RunningJob], other: Collection[JobKey], *, follow: bool
) -> list[JobGoal]:
    """Return goals for licences whose count Slurm may have lost, and for those that follow what is measured.

    ``other`` are jobs whose licence is decided elsewhere. ``follow`` is whether licences follow measured watts.
    """
    corrections = [goal for goal in corrected_licences(memory, snapshot, running) if goal.key not in other]
    if not follow:
        return corrections
    return corrections + measured_licences(snapshot, running, {*other, *(goal.key for goal in corrections)})


def corrected_licences(memory: Memory, snapshot: Snapshot, running: Sequence[RunningJob]) -> list[JobGoal]:
    """Return goals for running jobs whose licence in Slurm is not what they may draw.

    These are written whether or not the pool has room: the watts are in use already, and a pool
    that shows them keeps others from starting.
    """
    goals = []
    # two fields of each running job, so that a round of ten thousand of them stays cheap
    for job in [job for job in running if job.restarted or job.given_w > job.row.watts]:
        row, lost, wanted = job.row, lost_licences(memory, snapshot, job.row.key), job.given_w
        if row.watts >= 0 and row.state in HOLDS_WATTS and (lost or wanted > row.watts):
            why = "requeued: Slurm may have freed its watts" if lost else f"it was given {row.nodes} nodes"
            goals.append(JobGoal(row.key, watts=wanted, why=why, reassert=lost))
    return goals


def measured_licences(snapshot: Snapshot, running: Sequence[RunningJob], corrected: Container[JobKey]) -> list[JobGoal]:
    """Return goals for licences that follow what was measured.

    How far one may be lowered has been decided (``bound.allot``); what it has to be raised by for that is raised at
    once. Raising beyond that takes room that is free in the pool now, in the order of the jobs: Slurm does not check it
    on a running job (it would let the pool be exceeded). Parked jobs are left to ``live.parking``.
    """
    if snapshot.pool is None:
        return []
    # the greater of what Slurm counts and what the rows show: either list may be a moment older
    held = max(snapshot.pool.used, sum(max(job.row.watts, 0) for job in running))
    room = snapshot.pool.open_w - held
    goals = []
    for job in running:
        now, wanted = job.row.watts, job.counted.licence
        if wanted > now and wanted - now > room:
            wanted = min(wanted, max(now, job.least_w))
        if now < 0 or wanted == now or job.row.key in corrected or job.row.state not in HOLDS_WATTS:
            continue
        if job.counted.label == PARKED:
            continue
        room -= max(0, wanted - now)
        word = "lowered" if wanted < now else "raised"
        corrected_one = job.counted.label == CORRECTED
        what = "its corrected prediction" if corrected_one else "measured power plus the margin"
        if now < wanted == job.least_w:
            what = "what it may draw without a limit in force"
        goals.append(JobGoal(job.row.key, watts=wanted, why=f"{word} to {what}"))
    return goals
