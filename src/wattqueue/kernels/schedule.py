"""The scheduling pass.

``schedule`` is the one function that decides which entries start. The simulator's loop calls it at every instant with
an event, the live controller once a round on a view that is built from a snapshot: the simulated policy *is* the live
policy.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import entry, inlined
from wattqueue.kernels.announced import look_ahead
from wattqueue.kernels.entries import holds_starts
from wattqueue.kernels.greedy import try_in_order
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.plan import pass_conservative
from wattqueue.kernels.progress import start_one
from wattqueue.kernels.shortest import try_shortest
from wattqueue.kernels.state import KernelView


@inlined
def schedule(view: KernelView) -> None:
    """Run one scheduling pass: write starts into the view's buffer, and update the view only.

    The view already counts what it started (units, watts, running jobs). Times, true watts and energy of the new
    jobs are the driver's to set (``loop.apply_starts``).
    """
    if view.now.queued > 0 and not holds_starts(view):
        if view.now.looks_ahead != 0:
            look_ahead(view)
        if view.now.backfill == codes.CONSERVATIVE:
            pass_conservative(view)
        else:
            tried = try_in_order(view)
            if view.now.backfill == codes.SHORTEST:
                tried = try_shortest(view, tried)
            view.now.tried = tried
        if view.now.running == 0 and view.now.queued > 0:
            start_one(view)
    view.now.last_pass_s = view.now.time_s


@entry
def schedule_once(view: KernelView) -> None:
    """Compute the budget and run a pass, for callers in Python: a view from a snapshot, or one with a new margin."""
    set_budget(view)
    schedule(view)
