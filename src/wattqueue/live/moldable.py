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
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from wattqueue.kernels import codes
from wattqueue.live.cluster import Job
from wattqueue.live.world import Layout
from wattqueue.parts.actions import StartJob
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.round import Round

RANGE = "nodes="
"""Mark with the range of nodes of a job before it was pinned, as ``nodes=1-4``."""


def range_mark(least: int, most: int) -> str:
    """Return the mark that stores a range of nodes."""
    return f"{RANGE}{least}-{most}"


def node_range(row: Job, marks: Iterable[str], layout: Layout) -> tuple[int, int]:
    """Return the least and the greatest number of nodes of a waiting job.

    One that was pinned for a start that did not happen shows that number only; its range was stored as a mark.
    """
    for mark in marks:
        if mark.startswith(RANGE):
            low, _, high = mark.removeprefix(RANGE).partition("-")
            return int(low), int(high)
    least = least_nodes(row, layout)
    return least, max(least, row.most_nodes)


def least_nodes(row: Job, layout: Layout) -> int:
    """Return the least nodes of a waiting job: as stated, or what its CPUs need (squeue shows 1 for ``-n 64``)."""
    partitions = [layout.machine.partitions[p] for p in layout.allowed(row.partition)]
    cores = [p.sockets_per_node * p.cores_per_socket for p in partitions]
    fewest = min((c for c in cores if c > 1), default=0)
    return max(row.nodes, math.ceil(row.cpus / fewest) if fewest else 1)


def grow(
    view: PolicySnapshot,
    now: Round,
    most: Callable[[int], int],
    layout: Layout,
    again: Callable[[PolicySnapshot], Round | None],
) -> tuple[PolicySnapshot, Round]:
    """Return view and round, with as many nodes for jobs with a range as fit beside all other starts.

    ``now`` is the round after its decision. ``most`` returns the greatest number of nodes that a job accepts, by its
    row in ``view.jobs``. ``again`` decides once more on a snapshot with greater jobs; None where that fails. Jobs get
    more in the order of their starts.
    """
    rows, starts = now.start_rows(), now.starts()
    # a control may start a job on more nodes than it has: such a start is left as it is
    wide = [(row, start) for row, start in zip(rows, starts, strict=True) if most(row) > len(start.nodes)]
    if not wide:
        return view, now
    kernel = now.kernel
    free = kernel.units.free.tolist()
    limited = view.cap_w < np.inf
    room_w = float(kernel.now.available_uw) / codes.MICRO if limited else math.inf
    nodes = view.jobs.nodes.copy()
    for row, start in wide:
        each_w = _net_w(view, row, start, layout)
        fits = free[start.partition] if each_w <= 0 else min(free[start.partition], _whole(room_w / each_w))
        more = max(0, min(most(row) - len(start.nodes), fits))
        nodes[row] += more
        free[start.partition] -= more
        room_w -= more * each_w
    if np.array_equal(nodes, view.jobs.nodes):
        return view, now
    # the predictions stay: they are watts of one node
    wider = replace(view, jobs=replace(view.jobs, nodes=nodes))
    second = again(wider)
    if second is not None and set(rows) <= set(second.start_rows()):
        return wider, second
    return view, now


def _net_w(view: PolicySnapshot, row: int, start: StartJob, layout: Layout) -> float:
    """Return the net watts of one node of a start, the worst of its partition where nodes differ."""
    watts, factor = view.prediction.watts(np.array([row], np.int32), start.option), view.prediction.unit_factor
    code, low, high = int(view.jobs.app.codes[row]), *layout.first[start.partition : start.partition + 2]
    worst = 1.0 if factor is None or code < 0 else max(1.0, np.nan_to_num(factor[code, low:high], nan=1.0).max())
    return layout.net_uw(float(watts[0] * worst), [int(low)]) / codes.MICRO


def _whole(value: float) -> int:
    """Return how many whole nodes a quotient of watts is; 1e-6 absorbs rounding."""
    return 10**9 if math.isinf(value) else math.floor(value + 1e-6)
