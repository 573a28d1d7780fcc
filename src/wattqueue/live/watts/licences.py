"""Licences of running jobs: how far they may be lowered, what they leave uncovered, and which are to be written.

Written are counts that Slurm lost, watts of nodes that were not counted, and watts that follow what is measured. How
far the last may fall is decided in each round (``live.watts.bound``).
"""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np

from wattqueue.live.cluster import JobKey, Snapshot
from wattqueue.live.goal import JobGoal
from wattqueue.live.parking import PARKED
from wattqueue.live.planner import RoundState
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.watts.bound import HeldWatts
from wattqueue.live.watts.tracking import CORRECTED, DEADBAND

HOLDS_WATTS = frozenset({"starting", "running", "stopped"})
"""States in which a job's watts can be changed; a completing job is about to give them back."""
REWRITTEN = "reasserted"
"""Mark of a requeued job whose watts were written again."""
REQUEUED = "requeued"
"""Mark of a job that was seen running and then pending under the same key."""


def lower_licences(now: RoundState) -> int:
    """Let licences of running jobs fall no further than the bound allows; return the watts uncovered beyond it.

    Under a ledger that promises a share of time the machine's meter corrects what follows. A job whose nodes have
    limits in force may have any licence; of all others together the accepted overshoot may be uncovered, in the order
    of the jobs. A licence that has become too low is raised in this round, whatever the pool: what it stands for is
    drawn.
    """
    jobs, slots = now.jobs, np.array(now.counted, np.int64)
    jobs.net_w[slots], jobs.wanted_w[slots], jobs.least_w[slots] = jobs.counted_w[slots], jobs.licence_w[slots], 0
    low = slots[jobs.start_w[slots] > np.minimum(jobs.shown_w[slots], jobs.licence_w[slots])]
    if now.planner.promised:
        return 0
    left_w, uncovered_w = now.overshoot_w, 0
    for slot in low[(jobs.shown_w[low] >= 0) & (jobs.label[low] != PARKED)].tolist():
        row, start_w, least_w = jobs.row[slot], int(jobs.start_w[slot]), 0
        covered = now.in_force.cover(row)
        if not covered:
            given_w = int(min(max(0, start_w - int(jobs.licence_w[slot])), left_w))
            left_w -= given_w
            least_w = start_w - given_w
            _raise(now, slot, least_w)
        if not (covered and now.in_force.hold_cap):
            raised_w = least_w if row.state in HOLDS_WATTS else 0
            uncovered_w += max(0, start_w - max(row.watts, raised_w))
    return max(0, uncovered_w - math.floor(now.overshoot_w))


def _raise(now: RoundState, slot: int, least: int) -> None:
    """Let the licence of a job not be below ``least``."""
    jobs, shown = now.jobs, int(now.jobs.shown_w[slot])
    jobs.least_w[slot] = least
    if jobs.wanted_w[slot] < least:
        near = shown * (1.0 - DEADBAND) - 1.0 <= least < shown
        licence = shown if near else least
        jobs.wanted_w[slot], jobs.net_w[slot] = licence, max(int(jobs.net_w[slot]), licence)


def held_watts(now: RoundState) -> dict[JobKey, HeldWatts]:
    """Return what running jobs and jobs under way hold, for the bound.

    Under a ledger that promises a share of time, and where limits in force keep the cap, a licence counts as it is.
    """
    jobs, promised, held = now.jobs, now.planner.promised, dict[JobKey, HeldWatts]()
    for slot in now.under_way:
        licence = max(int(jobs.shown_w[slot]), 0)
        held[jobs.row[slot].key] = HeldWatts(licence, licence)
    for slot in now.holding[: now.holders]:
        row, licence, still = jobs.row[slot], max(int(jobs.shown_w[slot]), 0), jobs.row[slot].state == "stopped"
        start_w = int(jobs.start_w[slot]) if still or not promised else 0
        counted_w = 0 if row.state == "suspended" else licence
        most_w = max(int(jobs.net_w[slot]), 0) if row.watts < 0 else max(licence, start_w)
        covered = row.watts >= 0 and now.in_force.hold_cap and now.in_force.cover(row)
        if still:
            held[row.key] = HeldWatts(counted_w, licence, max(licence, start_w))
        else:
            follows = covered or (promised and row.watts >= 0)
            held[row.key] = HeldWatts(counted_w, licence if covered else most_w, None, follows)
    return held


def lost_licences(memory: ControllerState, snapshot: Snapshot, key: JobKey) -> bool:
    """Whether Slurm may hold no watts for a job although it shows them.

    Slurm 25.05 and 25.11.0 to 25.11.6 free the licences of a job that is requeued and do not take
    them again when it starts; the text of its request stays as it was. So the watts of every
    requeued job are written once after each requeue, whatever they show.
    """
    details, marked = snapshot.details.get(key), memory.marked
    requeued = (details is not None and details.restarts > 0) or marked(key, REQUEUED)
    return requeued and not marked(key, REWRITTEN)


def licences_of_running(now: RoundState, other: set[JobKey]) -> list[JobGoal]:
    """Return goals for licences whose count Slurm may have lost, and for those that follow what is measured.

    ``other`` are jobs whose licence is decided elsewhere.
    """
    corrections = [goal for goal in _corrected(now) if goal.key not in other]
    if not now.planner.rules.track_running:
        return corrections
    return corrections + _measured(now, other | {goal.key for goal in corrections})


def _corrected(now: RoundState) -> list[JobGoal]:
    """Return goals for running jobs whose licence in Slurm is not what they may draw.

    These are written whether or not the pool has room: the watts are in use already, and a pool
    that shows them keeps others from starting.
    """
    jobs, memory, slots, goals = now.jobs, now.planner.memory, np.array(now.counted, np.int64), []
    for slot in slots[jobs.restarted[slots] | (jobs.given_w[slots] > jobs.shown_w[slots])].tolist():
        row, wanted = jobs.row[slot], int(jobs.given_w[slot])
        lost = lost_licences(memory, now.snapshot, row.key)
        if row.watts >= 0 and row.state in HOLDS_WATTS and (lost or wanted > row.watts):
            why = "requeued: Slurm may have freed its watts" if lost else f"it was given {row.nodes} nodes"
            goals.append(JobGoal(row.key, watts=wanted, why=why, rewrite_watts=lost))
    return goals


def _measured(now: RoundState, other: Container[JobKey]) -> list[JobGoal]:
    """Return goals for licences that follow what was measured.

    How far one may be lowered has been decided (``lower_licences``); what it has to be raised by for that is raised at
    once. Raising beyond that takes room that is free in the pool now, in the order of the jobs: Slurm does not check it
    on a running job (it would let the pool be exceeded). Parked jobs are left to ``live.parking``.
    """
    jobs, pool, slots = now.jobs, now.snapshot.pool, np.array(now.counted, np.int64)
    if pool is None:
        return []
    # the greater of what Slurm counts and what the rows show: either list may be a moment older
    room = pool.open_w - max(pool.used, int(np.maximum(jobs.shown_w[slots], 0).sum()))
    goals = []
    for slot in now.counted:
        row, shown, wanted = jobs.row[slot], int(jobs.shown_w[slot]), int(jobs.wanted_w[slot])
        least_w = int(jobs.least_w[slot])
        if wanted > shown and wanted - shown > room:
            wanted = min(wanted, max(shown, least_w))
        if shown < 0 or wanted == shown or row.key in other or row.state not in HOLDS_WATTS:
            continue
        if jobs.label[slot] == PARKED:
            continue
        room -= max(0, wanted - shown)
        word = "lowered" if wanted < shown else "raised"
        corrected = jobs.label[slot] == CORRECTED
        what = "its corrected prediction" if corrected else "measured power plus the margin"
        if shown < wanted == least_w:
            what = "what it may draw without a limit in force"
        goals.append(JobGoal(row.key, watts=wanted, why=f"{word} to {what}"))
    return goals
