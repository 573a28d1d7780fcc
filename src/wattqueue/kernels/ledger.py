"""The ledger and the budget: the only kernels that change LEDGER, BASE and AVAILABLE.

The watts that starting jobs may still take, ``counter[AVAILABLE]``, are kept up to date rather than computed: a
start and an end change it by the job's net watts (``change_ledger``), and ``set_budget`` derives it again after a
change of cap, base or margin:

    available = cap - base - margin - ledger            (rules 13 and 14 of docs/semantics.md)

A measured ledger (``kernels/measured.py``) also counts idle units that share a sensor with busy ones.

Without a cap it is ``NO_CAP - ledger``, a number that no machine reaches, so that no test asks for a special case.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined
from wattqueue.kernels.chance import margin_uw, square_kept
from wattqueue.kernels.state import KernelView


@inlined
def change_ledger(view: KernelView, job: int, net: int, sign: int) -> None:
    """Add (1) or take (-1) a job of ``net`` microwatts: ledger, budget, and the margin of a chance ledger."""
    count_again(view, sign * net, sign * square_kept(view, job, net))


@inlined
def count_again(view: KernelView, more: int, squares: int) -> None:
    """Add ``more`` microwatts to the ledger, and so many W^2 to the sum of squares of a chance ledger."""
    count = view.counter
    count[codes.LEDGER] += more
    count[codes.AVAILABLE] -= more
    if count[codes.BY_CHANCE] != 0:
        count[codes.SQUARES] += squares
        margin = margin_uw(view, count[codes.LEDGER], count[codes.SQUARES])
        if count[codes.CAP] < codes.NO_CAP:
            count[codes.AVAILABLE] -= margin - count[codes.MARGIN]
        count[codes.MARGIN] = margin


@inlined
def change_base(view: KernelView, more: int) -> None:
    """Add ``more`` microwatts to the idle watts that the cap covers and no job does; the budget follows."""
    view.counter[codes.BASE] += more
    set_budget(view)


@inlined
def change_idle_above(view: KernelView, more: int) -> None:
    """Add ``more`` microwatts to what a measured ledger counts for idle units; the budget follows."""
    if more != 0:
        view.counter[codes.IDLE_ABOVE] += more
        set_budget(view)


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
    return available_under(view, as_int64(view.counter[codes.CAP]), more)


@inlined
def available_under(view: KernelView, cap: int, more: int) -> int:
    """Return the microwatts that starting jobs could take under another cap, and such a base."""
    count = view.counter
    if cap >= codes.NO_CAP:
        return int(codes.NO_CAP - count[codes.LEDGER])
    budget = cap - count[codes.BASE] - more
    if count[codes.BY_CHANCE] != 0:
        budget = math.floor(budget / view.num[codes.CHANCE_SHARE])
    return int(budget - count[codes.MARGIN] - count[codes.LEDGER] - count[codes.IDLE_ABOVE])
