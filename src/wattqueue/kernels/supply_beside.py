"""Which candidates certainly delay a reservation under power domains, whatever units they would get (rule 22).

A candidate that outlives the shadow time must fit into what is expected then with the reserved entry: n units of w
microwatts beside m of v. A leaf of f free units below a domain with room r holds at most so many watts of both kinds::

    most(leaf) = max (x w + y v)   over   x w + y v <= r,   x + y <= f

so n w + m v is at most the sum over leaves. That is far less than what all rooms add up to, where racks bind: each has
left what is too little for a unit. And where w is at least v, the n units leave room for as many of v, so that n + m is
at most the number of units of v that fit then.

Both are necessary conditions: a search leaves out what they refuse, and the test of the very units decides about the
others. The first falls with w, so the bound of a class of watts (``kernels/supply_classes.py``) is that of its least
watts, and also bounds all classes of more. It is counted where a candidate of the class is met, once for a reservation:
what is expected at a shadow time only becomes less.
"""

from __future__ import annotations

import math

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.state import KernelView
from wattqueue.kernels.supply import CLASSES
from wattqueue.kernels.supply_classes import class_of_unit, exceeds_class
from wattqueue.kernels.supply_load import MARGIN
from wattqueue.kernels.tree import Limits

LONGEST = 4
"""Reserved units on a leaf up to which mixes are tried; of a leaf that holds more, all of its room counts."""
ROUNDING = 1e-12
"""By which a quotient is too large rather than too small."""


@inlined
def forget_beside(view: KernelView, p: int) -> None:
    """Forget the bounds of the last reservation of partition p."""
    classes = view.supply.classes
    for c in range(CLASSES):
        classes.beside[p, c] = codes.ANY_NEED
        classes.is_known[p, c] = 0


@inlined
def is_hopeless(view: KernelView, p: int, leaf: int, limits: Limits) -> bool:
    """Return whether the entry at a leaf of partition p's queue certainly does not fit, or delays p's reservation."""
    return exceeds_class(view, p, leaf) or delays_reserved(view, p, leaf, limits)


@kernel
def delays_reserved(view: KernelView, p: int, leaf: int, limits: Limits) -> bool:
    """Return whether it certainly delays the reservation of partition p."""
    at = as_int64(view.tree.offset[p, 0] + leaf)
    if view.tree.wall[at] <= limits.wall or view.reserved.nodes[p] < 0 or view.supply.marks[MARGIN] != 0:
        return False
    need, supply = as_int64(view.tree.need[at]), view.supply
    if view.tree.watt[at] >= need * supply.then_each[p]:
        reserved = as_int64(view.entries.job[view.reserved.entry[p]])
        return bool(need > supply.then_total[p] - view.nodes[reserved])
    c = class_of_unit(supply, as_int64(view.tree.watt[at] // need))
    if need > supply.classes.beside[p, c]:
        return True
    if supply.classes.is_known[p, c] != 0:
        return False
    bound_beside(view, p, c)
    return bool(need > supply.classes.beside[p, c])


@separate
def bound_beside(view: KernelView, p: int, c: int) -> None:
    """Count the units of class ``c`` that may outlive the shadow time, at most; it bounds classes of more watts."""
    classes, each, w = view.supply.classes, float(view.supply.then_each[p]), float(view.supply.classes.least[c])
    classes.is_known[p, c] = 1
    if w < 1.0 or each < 1.0:
        return
    need = float(view.nodes[view.entries.job[view.reserved.entry[p]]])
    left = mixes_of_leaves(view, p, w, each) * (1.0 + ROUNDING) + 1.0 - need * each
    most = as_int64(math.floor(left / w)) if left >= 0.0 else as_int64(-1)
    for k in range(c, CLASSES):
        classes.beside[p, k] = min(as_int64(classes.beside[p, k]), most)


@kernel
def mixes_of_leaves(view: KernelView, p: int, w: float, each: float) -> float:
    """Return the sum over leaves of the most microwatts of units of ``w`` and of ``each`` that one holds then.

    Loops without branches over arrays of floats, which are exact: several leaves at once.
    """
    supply, room, free, best = view.supply, view.supply.placement.pull, view.supply.placement.weight, view.supply.mix
    first, end, longest = as_int64(supply.leaf_start[p]), as_int64(supply.leaf_start[p + 1]), 0.0
    greatest, share, reserved = max(w, each), (1.0 + ROUNDING) / w, (1.0 + ROUNDING) / each
    for leaf in range(first, end):
        domain, units = as_int64(supply.leaf_domain[leaf]), float(supply.then_free[p, leaf])
        here = units * greatest
        if domain >= 0:
            here = min(here, max(supply.then_room[p, domain] * (1.0 + ROUNDING) / supply.gain[domain], 0.0))
        held = min(units, np.floor(here * reserved))
        longest = max(longest, min(held, LONGEST - 1.0))
        room[leaf], free[leaf], best[leaf] = here, units, here if held >= LONGEST else 0.0
    y = 0.0
    while y <= longest:
        taken = y * each
        for leaf in range(first, end):
            mix = min(np.floor((room[leaf] - taken) * share), free[leaf] - y) * w + taken
            best[leaf] = max(best[leaf], mix if y <= free[leaf] and taken <= room[leaf] else 0.0)
        y += 1.0
    total = 0.0
    for leaf in range(first, end):
        total += best[leaf]
    return total
