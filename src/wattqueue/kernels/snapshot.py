"""A view from a snapshot: what runs, what is out of use, what waits."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import entry, lent, wide
from wattqueue.kernels.entries import enqueue_job
from wattqueue.kernels.placement import take_interval, withhold_unit
from wattqueue.kernels.running import running_insert, running_partition
from wattqueue.kernels.state import Array, View


@entry
def load_running(view: View, rows: Array, net_uw: Array) -> None:
    """Jobs that run already: ``held`` says where, until when and at which option."""
    view = lent(view)
    for k in range(len(rows)):
        job = wide(rows[k])
        p = running_partition(view, job)
        for i in range(view.held.first[job], view.held.first[job] + view.held.pieces[job]):
            take_interval(view.units, p, wide(view.held.low[i]), wide(view.held.high[i]))
        view.units.free[p] -= view.nodes[job]
        running_insert(view, job, net_uw[k])


@entry
def load_queue(view: View, rows: Array) -> None:
    """Jobs that wait."""
    view = lent(view)
    for k in range(len(rows)):
        enqueue_job(view, wide(rows[k]))
    view.counter[codes.DIRTY] = 1


@entry
def load_unusable(view: View, units: Array) -> None:
    """Free units that are down, off or on their way."""
    view = lent(view)
    for k in range(len(units)):
        withhold_unit(view.units, wide(units[k]))
