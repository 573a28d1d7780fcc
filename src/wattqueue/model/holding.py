"""What held a job of a run back: units, watts under the cap, a power domain, or its turn (rules 8, 13 and 22).

At each instant of its wait a job is tested as the pass tests it, at the watts that the ledger counted when it started:
free units of its partition (or nodes with free GPUs, rule 23), room under the cap, then the most units that fit under
all domains. Of domains that hold it back the one is named that forbids most units; where several forbid as many, as
equal racks do, the first of them stands for all, and their number is given. A job that passes all three waits for its
*turn*: jobs before it in the queue, a reservation, a policy that holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.gpu_nodes import short_of_nodes
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
    equal: int = 1
    """Domains that forbid as many units as that one, itself included."""


def holds_of(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap, job: int) -> list[Hold]:
    """Return what held a job that ran back, from its submission to its last start."""
    submit, start = float(jobs.submit_s[job]), float(schedule.start_s[job])
    times = event_times(jobs, schedule, machine, cap)
    head = np.where((times >= submit) & (times < start), job, -1)
    cause, equal = np.full(len(times), TURN), np.ones(len(times), np.int64)
    for here, found, tied in _causes(jobs, schedule, machine, cap, times, head):
        cause[here], equal[here] = found, np.maximum(tied.sum(axis=0), 1)
    inside = np.flatnonzero(head >= 0)
    if not len(inside):
        return []
    cuts = inside[(np.diff(cause[inside], prepend=-99) != 0) | (np.diff(equal[inside], prepend=-99) != 0)]
    ends = [*(float(t) for t in times[cuts[1:]]), start]
    return [Hold(float(times[k]), end, int(cause[k]), int(equal[k])) for k, end in zip(cuts, ends, strict=True)]


def held_by_domain(jobs: Jobs, schedule: Schedule, machine: Machine, cap: Cap) -> dict[int, float]:
    """Return for how many seconds each domain held back the job that waited longest, by number; none at all left out.

    Domains that forbid as many units share the seconds evenly. Jobs that never ran are not looked at: nothing says
    where they would have run.
    """
    if not machine.supply or not schedule.ran.any():
        return {}
    times = event_times(jobs, schedule, machine, cap)
    seconds, length = np.zeros(len(machine.supply_tree.domains)), np.diff(times, append=times[-1:])
    for here, _, tied in _causes(jobs, schedule, machine, cap, times, longest_waiting(jobs, schedule, times)):
        seconds += (tied * (length[here] / np.maximum(tied.sum(axis=0), 1))).sum(axis=1)
    return {int(k): float(seconds[k]) for k in np.flatnonzero(seconds)}


def longest_waiting(jobs: Jobs, schedule: Schedule, times: Floats) -> NDArray[np.int64]:
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
) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield what holds a job back at some of the times, TURN where ``head`` is -1: which times, causes, and domains.

    Shapes (T,) and (D, T): all domains that forbid most units, where a domain is the cause.
    """
    held = UnitsHeld.of(jobs, schedule, machine)
    tree = held.tree(machine)
    domains = machine.supply_tree.domains
    part = machine.option_partition[np.maximum(schedule.option, 0)].astype(np.int64)
    short, first = short_of_nodes(jobs, schedule, machine, times, head), 0
    for moment in moments(tree, held, times, machine, cap):
        here = slice(first, first + len(moment.time_s))
        first = here.stop
        there = np.flatnonzero(head[here] >= 0)
        job = head[here][there]
        need, each = jobs.nodes[job].astype(np.float64), np.maximum(held.job_w[job], 1e-9)
        at = Moment(*(column[..., there] for column in moment))
        free = at.free[part[job], :, np.arange(len(there))].T
        found, tied = np.full(len(moment.time_s), TURN), np.zeros((len(domains), len(moment.time_s)), np.bool_)
        found[there], most = _cause(tree, at, free, need, each)
        found[short[here] & (found == TURN)] = UNITS
        tied[np.array(tree.domain, np.int64)[:, np.newaxis], there] = most
        yield here, found, tied


def _cause(
    tree: BindingTree, at: Moment, free: Floats, need: Floats, each: Floats
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return what holds a job of ``need`` units of ``each`` watts back, and which domains forbid most units, (G, T).

    ``free`` (G + 1, T): units of its partition.
    """
    below, cause, most = free.copy(), np.full(len(need), TURN), np.zeros(len(need))
    forbids = np.zeros((len(tree.parent), len(need)))
    for k, parent in enumerate(tree.parent):  # those below others first
        fed = np.clip(np.floor((at.limit_w[k] - at.load_w[k]) / each + 1e-9), 0.0, below[k])
        forbids[k] = forbidden = below[k] - fed
        cause[forbidden > most] = tree.domain[k]
        most = np.maximum(most, forbidden)
        below[parent] += fed
    cause[below[-1] >= need] = TURN
    cause[need * each > at.root_w - at.load_w[-1] + 1e-6] = CAP
    cause[free.sum(axis=0) < need] = UNITS
    return cause, (forbids == most) & (cause >= 0)
