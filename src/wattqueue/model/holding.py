"""What held a job of a run back: units, watts under the cap, a power domain, or its turn (rules 8, 13 and 22).

At each instant of its wait a job is tested as the pass tests it, at the watts that the ledger counted when it started:
free units of its partition, room under the cap, then the most units that fit under all domains. Of domains that hold it
back the one is named that forbids most units. A job that passes all three waits for its *turn*: jobs before it in the
queue, a reservation, a policy that holds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule
from wattqueue.model.signals import Cap
from wattqueue.model.supply_over_time import BindingTree, Moment, UnitsHeld, event_times, moments

UNITS, CAP, TURN = -1, -2, -3
"""Causes that are no domain."""


class Hold(NamedTuple):
    """What held a job back for some time."""

    begin_s: float
    end_s: float
    cause: int
    """The number of a domain in the machine's tree; or UNITS, CAP or TURN."""


def holds_of(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap, job: int) -> list[Hold]:
    """Return what held a job that ran back, from its submission to its last start."""
    submit, start = float(jobs.submit_s[job]), float(schedule.start_s[job])
    times = event_times(jobs, schedule, machine, cap)
    head = np.where((times >= submit) & (times < start), job, -1)
    cause = _causes(jobs, schedule, machine, cap, times, head)
    inside = np.flatnonzero(head >= 0)
    if not len(inside):
        return []
    cuts = inside[np.diff(cause[inside], prepend=-99) != 0]
    ends = [*(float(t) for t in times[cuts[1:]]), start]
    return [Hold(float(times[k]), end, int(cause[k])) for k, end in zip(cuts, ends, strict=True)]


def held_by_domain(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap) -> dict[int, float]:
    """Return for how many seconds each domain held back the job that waited longest, by number; none at all left out.

    Jobs that never ran are not looked at: nothing says where they would have run.
    """
    if not machine.supply or not schedule.ran.any():
        return {}
    times = event_times(jobs, schedule, machine, cap)
    cause = _causes(jobs, schedule, machine, cap, times, _longest_waiting(jobs, schedule, times))[:-1]
    seconds = np.bincount(np.maximum(cause, 0), np.diff(times) * (cause >= 0), len(machine.supply_tree.domains))
    return {int(k): float(seconds[k]) for k in np.flatnonzero(seconds)}


def _longest_waiting(jobs: Jobs, schedule: Schedule, times: Floats) -> NDArray[np.int64]:
    """Return the job that waits longest at each time, the first of several; -1 where none waits. Shape (k,)."""
    order = np.flatnonzero(schedule.ran)
    order = order[np.argsort(jobs.submit_s[order], kind="stable")]
    latest = np.maximum.accumulate(schedule.start_s[order])  # the first whose start is later: all before it run
    row = np.searchsorted(latest, times, side="right")
    there = row < len(order)
    found = np.where(there, order[np.minimum(row, len(order) - 1)], -1)
    return np.where(there & (jobs.submit_s[found] <= times), found, -1)


def _causes(
    jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap, times: Floats, head: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return what holds a job back at each time, TURN where ``head`` is -1. Shapes (k,)."""
    held = UnitsHeld.of(jobs, schedule, machine)
    tree = held.tree(machine)
    part = machine.option_partition[np.maximum(schedule.option, 0)].astype(np.int64)
    found, first = np.full(len(times), TURN), 0
    for moment in moments(tree, held, times, machine, cap):
        here = slice(first, first + len(moment.time_s))
        first = here.stop
        there = np.flatnonzero(head[here] >= 0)
        job = head[here][there]
        need, each = jobs.nodes[job].astype(np.float64), np.maximum(held.job_w[job], 1e-9)
        at = Moment(*(column[..., there] for column in moment))
        free = at.free[part[job], :, np.arange(len(there))].T
        found[here][there] = _cause(tree, at, free, need, each)
    return found


def _cause(tree: BindingTree, at: Moment, free: Floats, need: Floats, each: Floats) -> NDArray[np.int64]:
    """Return what holds a job of ``need`` units of ``each`` watts back. ``free`` (G + 1, T): units of its partition."""
    below, cause, most = free.copy(), np.full(len(need), TURN), np.zeros(len(need))
    for k, parent in enumerate(tree.parent):  # those below others first
        fed = np.clip(np.floor((at.limit_w[k] - at.load_w[k]) / each + 1e-9), 0.0, below[k])
        forbidden = below[k] - fed
        cause[forbidden > most] = tree.domain[k]
        most = np.maximum(most, forbidden)
        below[parent] += fed
    cause[below[-1] >= need] = TURN
    cause[need * each > at.root_w - at.load_w[-1] + 1e-6] = CAP
    cause[free.sum(axis=0) < need] = UNITS
    return cause
