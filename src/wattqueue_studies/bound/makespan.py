"""A proven bound on the last end: no certificate is needed, whole numbers are added up."""

from __future__ import annotations

import numpy as np

from wattqueue_studies.bound.instance import Instance, Whole


def makespan_ticks(instance: Instance) -> int:
    """Return the earliest tick by which all jobs can have ended: a bound for every schedule.

    A job alone ends at its release and its shortest run. For each release, what is free from then on must hold the
    work of all jobs released then or later: in units of all partitions together, and in watts.
    """
    alone = int((instance.release + instance.least(instance.run)).max())
    ordered = np.unique(instance.release)
    ends = [alone]
    for work, free in _resources(instance):
        order = np.argsort(-instance.release, kind="stable")
        left = np.cumsum(work[order])
        after = left[np.searchsorted(-instance.release[order], -ordered, side="right") - 1]
        ends.append(int(_first_time(instance.time, free, ordered, after).max()))
    return max(ends)


def _resources(instance: Instance) -> list[tuple[Whole, Whole]]:
    """Return the least work of each job, and what is free, of each resource and of all nodes together."""
    works = [instance.least(column * instance.run) for column in instance.amount.T]
    found = list(zip(works, instance.free, strict=True))
    # Wherever a job runs, it takes its nodes: its work adds up over partitions, of which each alone may be avoided.
    every = instance.least(instance.amount[:, : instance.parts].sum(axis=1) * instance.run)
    return [*found, (every, instance.free[: instance.parts].sum(axis=0))]


def _first_time(time: Whole, free: Whole, begin: Whole, work: Whole) -> Whole:
    """Return the first tick by which what is free since each begin is the work. Shapes (k,)."""
    reached = np.append(0, np.cumsum(free[:-1] * np.diff(time)))
    row = np.searchsorted(time, begin, side="right") - 1
    need = reached[row] + free[row] * (begin - time[row]) + work
    last = np.maximum(np.searchsorted(reached, need, side="left") - 1, 0)
    more = np.maximum(need - reached[last], 0)
    found: Whole = time[last] + -(-more // np.maximum(free[last], 1))
    return np.maximum(found, begin)
