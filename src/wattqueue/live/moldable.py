"""Choose the number of nodes of jobs that accept a range (``sbatch -N 1-4``).

The pass places jobs of a fixed size, so a waiting job with a range stands in the queue at its least number. When it
starts it is given more, as Slurm would, but only what nobody else could use now: the pass is run a second time with
the greater numbers, and its result counts only if everything that started the first time starts again. Reservations
are kept by the pass itself: a job that would delay the head of the queue with its greater size does not start in the
second pass, and the first result stands.

Why not the greatest number from the start? A job that waits for four nodes while one is free waits longer than its
user asked for. Why not the least number only? Users state a range because they can use more, and Slurm alone gives
the greatest number that is free; with the controller at work a job should not get less than without it.

Whatever number is decided is pinned in the same update that sets the licence (``slurm.goal``), so Slurm can neither
give more nodes than the watts stand for nor fewer.

Cost: one more pass in rounds in which a job with a range starts, none in others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from wattqueue.live.world import Layout
from wattqueue.policy.actions import StartJob
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.identity import JobNames

Decide = Callable[[PolicySnapshot], Sequence[StartJob]]


def grow(
    view: PolicySnapshot, starts: Sequence[StartJob], most: Mapping[str, int], layout: Layout, decide: Decide
) -> tuple[PolicySnapshot, Sequence[StartJob]]:
    """Return view and starts, with as many nodes for jobs with a range as fit beside all other starts.

    ``most`` is the greatest number of nodes by job, of jobs that accept more than they have.
    Jobs get more in the order of their starts.
    """
    # a custom ``decide`` may start a job on more nodes than it has: such a start is left as it is
    wide = [start for start in starts if most.get(start.job, 0) > len(start.nodes)]
    if not wide:
        return view, starts
    names = JobNames(view.jobs.job_id)
    free, room_w = _left(view, starts, names, layout)
    nodes = view.jobs.nodes.copy()
    for start in wide:
        each_w = _net_w(view, start, names, layout)
        fits = free[start.partition] if each_w <= 0 else min(free[start.partition], _whole(room_w / each_w))
        more = max(0, min(most[start.job] - len(start.nodes), fits))
        nodes[names.row(start.job)] += more
        free[start.partition] -= more
        room_w -= more * each_w
    if np.array_equal(nodes, view.jobs.nodes):
        return view, starts
    # the predictions stay: they are watts of one node
    wider = replace(view, jobs=replace(view.jobs, nodes=nodes))
    again = decide(wider)
    if {start.job for start in starts} <= {start.job for start in again}:
        return wider, again
    return view, starts


def _left(view: PolicySnapshot, starts: Sequence[StartJob], names: JobNames, layout: Layout) -> tuple[list[int], float]:
    """Return free units by partition, and net watts of the cap, that running jobs and the starts leave."""
    taken = np.zeros(view.machine.units, np.bool_)
    taken[view.unusable] = True
    for low, high in zip(view.running.low, view.running.high, strict=True):
        taken[low : high + 1] = True
    for start in starts:
        taken[list(start.nodes)] = True
    edges = layout.first
    free = [int(np.count_nonzero(~taken[edges[p] : edges[p + 1]])) for p in range(len(edges) - 1)]
    if not math.isfinite(view.cap_w):
        return free, math.inf
    used_w = float(view.running.net_uw.sum() + (view.base_uw or 0)) / 1e6
    used_w += sum(_net_w(view, start, names, layout) * len(start.nodes) for start in starts)
    return free, view.cap_w - view.margin_w - used_w


def _net_w(view: PolicySnapshot, start: StartJob, names: JobNames, layout: Layout) -> float:
    """Return the net watts of one node of a start."""
    row = int(view.prediction.rows(np.array(names.row(start.job), np.int32)))
    return float(layout.net_w(view.prediction.power_w[row])[start.option])


def _whole(value: float) -> int:
    """Return how many whole nodes a quotient of watts is; 1e-6 absorbs rounding."""
    return 10**9 if math.isinf(value) else math.floor(value + 1e-6)
