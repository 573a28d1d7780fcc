"""The margin of a chance ledger: watts that stay free so that the cap is exceeded only with a small probability.

Model: a running job with net prediction x draws ``share (1 + e) x``. The errors e have a variance ``own`` of
each job's own and a part ``common`` that all jobs share. The sum over running jobs then has mean
``share * sum x`` and variance ``share^2 (own * sum x^2 + common * (sum x)^2)``. The parts (``parts/ledger/chance.py``)
fold the quantile for the allowed probability into ``own`` and ``common``, and ``set_budget`` divides the cap by
``share``; here remains

    margin = sqrt(own * sum x^2 + common * (sum x)^2)

The margin grows with each start, by an amount that depends on what runs: a start must fit with the margin that it
causes, and a reservation counts the margin of what runs at its shadow time, with the reserved job. All sums are
integers (microwatts; squares in whole W^2), so that they do not depend on the order of starts and ends.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import inlined, kernel
from wattqueue.kernels.state import KernelView


@inlined
def square_w(net: int) -> int:
    """Return the square of net microwatts, in whole W^2. Of squares of microwatts an int64 could hold one of 3 kW."""
    watts = net / codes.MICRO
    return round(watts * watts)


@inlined
def square_of(view: KernelView, job: int, net: int) -> int:
    """Return what a job of ``net`` microwatts adds to the sum of squares (W^2): less where it was measured."""
    if len(view.evidence.left) == 0:
        return square_w(net)
    return round(float(view.evidence.left[job]) * square_w(net))


@inlined
def square_kept(view: KernelView, job: int, net: int) -> int:
    """Return ``square_of`` under a chance ledger, 0 under others."""
    return square_of(view, job, net) if view.now.by_chance != 0 else 0


@inlined
def margin_uw(view: KernelView, ledger: int, squares: int) -> int:
    """Return the microwatts that must stay free beside ``ledger`` microwatts.

    ``squares`` is the sum of the squares of the net watts in that ledger (W^2).
    """
    watts = ledger / codes.MICRO
    spread = view.now.chance_own * squares + view.now.chance_common * watts * watts
    return math.ceil(math.sqrt(max(spread, 0.0)) * codes.MICRO)


@inlined
def keeps_margin(view: KernelView) -> bool:
    """Return whether watts stay free that follow from what runs: under a chance ledger, below a cap."""
    return bool(view.now.by_chance != 0 and view.now.cap_uw < codes.NO_CAP)


@inlined
def margin_beside(view: KernelView, ledger: int, squares: int) -> int:
    """Return the microwatts that must stay free beside such a ledger; 0 where none must."""
    return margin_uw(view, ledger, squares) if keeps_margin(view) else 0


@inlined
def with_margin(view: KernelView, net: int, ledger: int, squares: int) -> int:
    """Return what a job of ``net`` microwatts takes beside a ledger: its own, and what the margin grows by."""
    if not keeps_margin(view):
        return net
    return net + margin_uw(view, ledger + net, squares + square_w(net)) - margin_uw(view, ledger, squares)


@inlined
def fits_watts(view: KernelView, net: int) -> bool:
    """Return whether a job of ``net`` microwatts may start beside what runs (rule 13 of docs/semantics.md)."""
    now = view.now
    if net > now.available_uw:
        return False
    if not keeps_margin(view):
        return True
    more = margin_uw(view, now.ledger_uw + net, now.squares_w2 + square_w(net)) - now.margin_uw
    return bool(net + more <= now.available_uw)


@kernel
def most_net(view: KernelView) -> int:
    """Return the greatest net microwatts that may start beside what runs, or a little more: a bound for searches.

    With B watts free and kept free together, x fits where x + sqrt(own (S + x^2) + common (L + x)^2) <= B: below the
    smaller root of (1 - own - common) x^2 - 2 (B + common L) x + B^2 - own S - common L^2. One watt more, and one
    standard deviation of one watt, cover the rounding of squares and margins.
    """
    now, own, common = view.now, view.now.chance_own, view.now.chance_common
    available = now.available_uw
    if now.by_chance == 0 or now.cap_uw >= codes.NO_CAP or available <= 0:
        return int(available)
    free, ledger = (available + now.margin_uw) / codes.MICRO, now.ledger_uw / codes.MICRO
    middle = free + common * ledger
    rest = max(free * free - own * now.squares_w2 - common * ledger * ledger, 0.0)
    root = math.sqrt(max(middle * middle - (1.0 - own - common) * rest, 0.0))
    most = rest / (middle + root) + 1.0 + math.sqrt(own)
    return int(min(float(available), math.ceil(most * codes.MICRO)))


@inlined
def fits_change(view: KernelView, more: int, squares: int) -> bool:
    """Return whether the ledger may grow by ``more`` microwatts, and its sum of squares by ``squares`` W^2.

    What lowers the ledger always may, also where it is above the cap already.
    """
    now = view.now
    if more <= 0 or now.cap_uw >= codes.NO_CAP:
        return True
    if more > now.available_uw:
        return False
    if now.by_chance == 0:
        return True
    margin = margin_uw(view, now.ledger_uw + more, now.squares_w2 + squares)
    return bool(more + margin - now.margin_uw <= now.available_uw)
