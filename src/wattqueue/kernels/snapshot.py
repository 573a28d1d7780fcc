"""Load a snapshot into a new view: running jobs, units out of use, queued jobs.

``policy/decide.py`` builds an idle view (``policy/build.py``), fills ``held`` and the counters, and calls these three
in this order. A test holds that the view then starts the same jobs as one that was kept up to date all along.
"""

from __future__ import annotations

from wattqueue.kernels._numba import as_int64, entry
from wattqueue.kernels.entries import enqueue_job
from wattqueue.kernels.placement import take_interval, withhold_unit
from wattqueue.kernels.running import running_insert, running_partition
from wattqueue.kernels.state import Array, KernelView
from wattqueue.kernels.supply import has_supply, list_leaves, move_listed, variance_of
from wattqueue.kernels.supply_changes import change_free
from wattqueue.kernels.supply_classes import put_limits
from wattqueue.kernels.supply_load import each_of


@entry
def load_running(view: KernelView, rows: Array, net_uw: Array) -> None:
    """Add jobs that run already.

    ``rows`` (k,) int32 are the jobs, ``net_uw`` (k,) int64 what each counts for in the ledger. ``held`` must already
    hold their units, expected ends and options.
    """
    if has_supply(view):
        put_limits(view)  # those of now
    for k in range(len(rows)):
        job = as_int64(rows[k])
        p = running_partition(view, job)
        for i in range(view.held.first[job], view.held.first[job] + view.held.pieces[job]):
            take_interval(view.units, p, as_int64(view.held.low[i]), as_int64(view.held.high[i]))
        view.units.free[p] -= view.nodes[job]
        running_insert(view, job, net_uw[k])
        if has_supply(view):
            each = each_of(as_int64(net_uw[k]), int(view.nodes[job]))
            move_listed(view.supply, list_leaves(view, job), each, variance_of(view, job), as_int64(1))


@entry
def load_queue(view: KernelView, rows: Array) -> None:
    """Add jobs that wait. ``rows`` (k,) int32."""
    for k in range(len(rows)):
        enqueue_job(view, as_int64(rows[k]))
    view.now.dirty = 1


@entry
def load_unusable(view: KernelView, units: Array) -> None:
    """Take units out of use that are down, off, shutting down or booting. ``units`` (k,) int32; none may hold a job."""
    for k in range(len(units)):
        withhold_unit(view.units, as_int64(units[k]))
        if has_supply(view):
            change_free(view, as_int64(units[k]), as_int64(-1))
