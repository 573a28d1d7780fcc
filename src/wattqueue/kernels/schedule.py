"""The pass: the one function that simulator and live controller both call."""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._jit import direct, inlined, lent
from wattqueue.kernels.greedy import pass_greedy
from wattqueue.kernels.plan import pass_conservative
from wattqueue.kernels.state import View


@inlined
def schedule(view: View) -> None:
    """One scheduling pass: writes starts into the view's buffer and updates the view only."""
    if view.counter[codes.QUEUED] > 0:
        if view.counter[codes.CODE] == codes.CONSERVATIVE:
            pass_conservative(view)
        else:
            pass_greedy(view)
    view.num[codes.LAST_PASS] = view.num[codes.NOW]


@inlined
def set_budget(view: View) -> None:
    """Watts that starting jobs may still take, after a change of cap, base, margin or ledger."""
    count = view.counter
    if count[codes.CAP] >= codes.NO_CAP:
        count[codes.AVAILABLE] = codes.NO_CAP - count[codes.LEDGER]
    else:
        budget = count[codes.CAP] - count[codes.BASE]
        if count[codes.BY_CHANCE] != 0:
            budget = math.floor(budget / view.num[codes.CHANCE_SHARE])
        count[codes.AVAILABLE] = budget - count[codes.MARGIN] - count[codes.LEDGER]
    count[codes.DIRTY] = 1


@direct
def schedule_once(view: View) -> None:
    """``schedule`` for callers in Python, on a view whose budget may have changed."""
    view = lent(view)
    set_budget(view)
    schedule(view)


@direct
def budget_once(view: View) -> None:
    """``set_budget`` for callers in Python."""
    view = lent(view)
    set_budget(view)
