"""The scheduling pass, and the budget of watts that it spends.

``schedule`` is the one function that decides which entries start. The simulator's loop calls it at every instant with
an event, the live controller once a round on a view that is built from a snapshot: the simulated policy *is* the live
policy.

The watts that starting jobs may still take, ``counter[AVAILABLE]``, are kept up to date rather than computed: a
start and an end change it by the job's net watts (``running``), and ``set_budget`` derives it again after a change of
cap, base or margin:

    available = cap - base - margin - ledger            (rules 13 and 14 of docs/semantics.md)

Without a cap it is ``NO_CAP - ledger``, a number that no machine reaches, so that no test asks for a special case.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, by_reference, entry, inlined
from wattqueue.kernels.greedy import pass_greedy
from wattqueue.kernels.plan import pass_conservative
from wattqueue.kernels.state import KernelView


@inlined
def schedule(view: KernelView) -> None:
    """Run one scheduling pass: write starts into the view's buffer, and update the view only.

    The view already counts what it started (units, watts, running jobs). Times, true watts and energy of the new
    jobs are the driver's to set (``loop.apply_starts``).
    """
    if view.counter[codes.QUEUED] > 0:
        if view.counter[codes.CODE] == codes.CONSERVATIVE:
            pass_conservative(view)
        else:
            pass_greedy(view)
    view.num[codes.LAST_PASS] = view.num[codes.NOW]


@inlined
def set_budget(view: KernelView) -> None:
    """Compute the watts that starting jobs may still take, after a change of cap, base, margin or ledger.

    Under a chance ledger a watt of prediction stands for ``CHANCE_SHARE`` expected watts, so the budget is divided by
    it. Sets DIRTY: entries that did not fit before may fit now, and the next pass looks at all of them.
    """
    view.counter[codes.AVAILABLE] = available_with(view, as_int64(0))
    view.counter[codes.DIRTY] = 1


@inlined
def available_with(view: KernelView, more: int) -> int:
    """Return the microwatts that starting jobs could take if the base were ``more`` microwatts higher."""
    count = view.counter
    if count[codes.CAP] >= codes.NO_CAP:
        return int(codes.NO_CAP - count[codes.LEDGER])
    budget = count[codes.CAP] - count[codes.BASE] - more
    if count[codes.BY_CHANCE] != 0:
        budget = math.floor(budget / view.num[codes.CHANCE_SHARE])
    return int(budget - count[codes.MARGIN] - count[codes.LEDGER])


@entry
def schedule_once(view: KernelView) -> None:
    """Compute the budget and run a pass, for callers in Python: a view from a snapshot, or one with a new margin."""
    view = by_reference(view)
    set_budget(view)
    schedule(view)


@entry
def budget_once(view: KernelView) -> None:
    """Compute the budget, for callers in Python."""
    view = by_reference(view)
    set_budget(view)
