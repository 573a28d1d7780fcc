"""The margin of a chance ledger: what must stay free so that the cap is broken with a small probability only.

If a running job draws its net prediction times ``share (1 + e)``, with errors e of variance ``own`` and a common
part of variance ``common``, the sum has the variance share^2 (own sum x^2 + common (sum x)^2). All sums are of
integers, so that they do not depend on the order of starts and ends.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined
from wattqueue.kernels.state import View


@inlined
def square_w(net: int) -> int:
    """Square of net microwatts, in whole W^2."""
    watts = net / codes.MICRO
    return round(watts * watts)


@inlined
def margin_uw(view: View, ledger: int, squares: int) -> int:
    """Microwatts that must stay free beside ``ledger`` microwatts with ``squares`` W^2."""
    watts = ledger / codes.MICRO
    spread = view.num[codes.CHANCE_OWN] * squares + view.num[codes.CHANCE_COMMON] * watts * watts
    return math.ceil(math.sqrt(max(spread, 0.0)) * codes.MICRO)


@inlined
def fits_watts(view: View, net: int) -> bool:
    """Whether a job of ``net`` microwatts may start beside what runs."""
    count = view.counter
    if net > count[codes.AVAILABLE]:
        return False
    if count[codes.BY_CHANCE] == 0 or count[codes.CAP] >= codes.NO_CAP:
        return True
    more = margin_uw(view, count[codes.LEDGER] + net, count[codes.SQUARES] + square_w(net)) - count[codes.MARGIN]
    return bool(net + more <= count[codes.AVAILABLE])


@inlined
def follow_margin(view: View, net: int, sign: int) -> None:
    """A job of ``net`` microwatts started (1) or ended (-1), and stands in the ledger: the margin follows."""
    count = view.counter
    count[codes.SQUARES] += sign * square_w(net)
    margin = margin_uw(view, count[codes.LEDGER], count[codes.SQUARES])
    if count[codes.CAP] < codes.NO_CAP:
        count[codes.AVAILABLE] -= margin - count[codes.MARGIN]
    count[codes.MARGIN] = margin
