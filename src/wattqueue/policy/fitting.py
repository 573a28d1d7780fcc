"""Which queued entries fit now, as arrays: what a pass in Python looks at, in place of calls for single figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wattqueue.model.ranges import ranges
from wattqueue.policy.state_view import own_kernel

if TYPE_CHECKING:
    from wattqueue.policy.state_view import Floats, Ints, StateView


class Fitting(NamedTuple):
    """Pairs of a queued entry and an option at which it fits now, beside nothing else that starts. Shapes (k,).

    In queue order; of one entry the highest frequency first.
    """

    entry: Ints
    """Row of the entry, as ``Start.entry``."""
    option: Ints
    """The option, as ``Start.option``."""
    job: Ints
    """Row of the job in ``View.jobs``; a job may have entries in several partitions."""
    partition: Ints
    """The entry's partition."""
    nodes: Ints
    """Units that the job needs."""
    net_w: Floats
    """Watts that the ledger would count, as ``View.net_watts``."""
    walltime_s: Floats
    """Requested seconds."""


def fitting(view: StateView) -> Fitting:
    """Return the pairs that have the units and the watts now (``View.fitting``).

    Power domains are not asked: a start that they have no room for is refused when it is chosen (rule 22).
    """
    own, queue = own_kernel(view), view.queue
    job = own.entries.job[queue]
    partition = (np.searchsorted(own.entries.start, queue, side="right") - 1).astype(np.int32)
    kept = np.flatnonzero(own.nodes[job] <= own.units.free[partition])
    if not len(kept):
        nothing = np.empty(0, np.int32)
        return Fitting(nothing, nothing, nothing, nothing, nothing, np.empty(0), np.empty(0))
    queue, job, partition = queue[kept], job[kept], partition[kept]
    if own.now.in_target or len(own.by_unit.factors.table):
        # Windows and watts follow from consent or from the very units: kernels know them entry by entry.
        options = [view.entry_options(entry) for entry in queue.tolist()]
        option = np.array([each.start for each in options], np.int64)
        last = np.array([each.stop - 1 for each in options], np.int64)
    else:
        option, last = own.entries.first[queue], own.entries.plain[queue]
    if (last > option).any():
        count = np.maximum(last, option).astype(np.int64) - option + 1
        option = ranges(option.astype(np.int64), count)
        queue, job, partition = np.repeat(queue, count), np.repeat(job, count), np.repeat(partition, count)
    net_w = view.net_watts_of(job, option)
    fits = np.flatnonzero(net_w <= view.available_w)
    job = job[fits]
    return Fitting(
        queue[fits],
        option[fits].astype(np.int32),
        job,
        partition[fits],
        own.nodes[job],
        net_w[fits],
        view.jobs.walltime_s[job],
    )
