"""The ledger and the budget: the only kernels that change LEDGER, BASE and AVAILABLE.

The watts that starting jobs may still take, ``now.available_uw``, are kept up to date rather than computed: a
start and an end change it by the job's net watts (``change_ledger``), and ``set_budget`` derives it again after a
change of cap, base or margin:

    available = cap - base - margin - ledger            (rules 13 and 14 of docs/semantics.md)

A measured ledger (``kernels/measured.py``) also counts idle units that share a sensor with busy ones.

Without a cap it is ``NO_CAP - ledger``, a number that no machine reaches, so that no test asks for a special case.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined
from wattqueue.kernels.chance import margin_uw, square_kept
from wattqueue.kernels.state import KernelView


@inlined
def change_ledger(view: KernelView, job: int, net: int, sign: int) -> None:
    """Add (1) or take (-1) a job of ``net`` microwatts: ledger, budget, and the margin of a chance ledger."""
    count_again(view, sign * net, sign * square_kept(view, job, net))


@inlined
def count_again(view: KernelView, more: int, squares: int) -> None:
    """Add ``more`` microwatts to the ledger, and so many W^2 to the sum of squares of a chance ledger."""
    now = view.now
    now.ledger_uw += more
    now.available_uw -= more
    if now.by_chance != 0:
        now.squares_w2 += squares
        margin = margin_uw(view, now.ledger_uw, now.squares_w2)
        if now.cap_uw < codes.NO_CAP:
            now.available_uw -= margin - now.margin_uw
        now.margin_uw = margin


@inlined
def change_base(view: KernelView, more: int) -> None:
    """Add ``more`` microwatts to the idle watts that the cap covers and no job does; the budget follows."""
    view.now.base_uw += more
    set_budget(view)


@inlined
def change_idle_above(view: KernelView, more: int) -> None:
    """Add ``more`` microwatts to what a measured ledger counts for idle units; the budget follows."""
    if more != 0:
        view.now.idle_above_uw += more
        set_budget(view)


@entry
@inlined
def set_budget(view: KernelView) -> None:
    """Compute the watts that starting jobs may still take, after a change of cap, base, margin or ledger.

    Under a chance ledger a watt of prediction stands for ``chance_share`` expected watts, so the budget is divided by
    it. Sets ``dirty``: entries that did not fit before may fit now, and the next pass looks at all of them.
    """
    view.now.available_uw = available_with(view, as_int64(0))
    view.now.dirty = 1


@inlined
def available_with(view: KernelView, more: int) -> int:
    """Return the microwatts that starting jobs could take if the base were ``more`` microwatts higher."""
    return available_under(view, as_int64(view.now.cap_uw), more)


@inlined
def available_under(view: KernelView, cap: int, more: int) -> int:
    """Return the microwatts that starting jobs could take under another cap, and such a base."""
    now = view.now
    if cap >= codes.NO_CAP:
        return int(codes.NO_CAP - now.ledger_uw)
    budget = cap - now.base_uw - more
    if now.by_chance != 0:
        budget = math.floor(budget / now.chance_share)
    return int(budget - now.margin_uw - now.ledger_uw - now.idle_above_uw)
