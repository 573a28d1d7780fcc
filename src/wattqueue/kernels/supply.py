"""Jobs under power domains: does a job fit, and which units does it get? (rule 22 of docs/semantics.md)

All units of a job count the same watts. Then the most units that fit under all limits follow from the bottom up, the
rank of a laminar matroid (docs/adr/0028)::

    most(leaf)   = free units
    most(domain) = min(sum of most below it, floor(room / watts of a unit))
    fits         = sum of most at the top >= units of the job

That is exact: units that are taken one after the other, in any order, skipping those without room, reach this number.
A start takes what its placement proposes (``kernels/supply_placement.py``), and whether that is enough is the test. A
reservation needs no units, only the state that is expected at its shadow time (``kernels/supply_reservations.py``). A
search of the queue leaves out what no domain has room for (``kernels/supply_classes.py``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.first_match import first_from
from wattqueue.kernels.fresh import no_domains_ahead
from wattqueue.kernels.state import Array, KernelView, SupplyClasses, SupplyLimits, SupplyPlacement, SupplyUnits
from wattqueue.kernels.supply_load import (
    BY_UNIT,
    COUNTED,
    GIVEN,
    KEY,
    MARKS,
    ONE_TOP,
    REFUSED,
    TOUCHED,
    VERSION,
    each_of,
    load_now,
    take_listed,
)

CLASSES = 32


def new_supply(
    parent: NDArray[np.int32],
    gain: NDArray[np.float64],
    base: NDArray[np.int64],
    limits: NDArray[np.int64],
    time: NDArray[np.float64],
    of_unit: NDArray[np.int32],
    unit_start: NDArray[np.int32],
    sample: NDArray[np.int64],
    *,
    of_node: NDArray[np.int32],
) -> SupplyLimits:
    """Make the tree of a machine on which nothing runs.

    ``parent``, ``gain``, ``base`` (G,), ``limits`` (K, G) and ``time`` (K,) as in SupplyLimits;
    ``of_unit`` (U,) lowest domain of each unit; ``unit_start`` (P + 1,) first unit of each partition; ``sample`` net
    microwatts of units, whose quantiles separate the classes (any sample gives the same starts); ``of_node`` (P,) GPUs
    of a node in partitions that give them by node, else 0.
    """
    cut = np.ones(len(of_unit), np.bool_)
    cut[1:] = np.diff(of_unit) != 0
    cut[unit_start[:-1]] = True
    for p, units in enumerate(of_node):
        if units:
            cut[unit_start[p] : unit_start[p + 1] : units] = True
    first = np.flatnonzero(cut).astype(np.int32)
    leaf_start = np.searchsorted(first, unit_start).astype(np.int32)
    leaves, domains, partitions = len(first), len(parent), len(unit_start) - 1
    leaf_unit = np.append(first, len(of_unit)).astype(np.int32)
    by_domain = np.zeros((partitions, domains), np.int64)
    free = np.diff(leaf_unit).astype(np.int64)
    marks = np.zeros(MARKS, np.int64)
    marks[[KEY, REFUSED]] = -1
    marks[TOUCHED] = leaves
    marks[ONE_TOP] = np.count_nonzero(parent < 0) == 1 and bool((of_unit >= 0).all())
    spare = SupplyPlacement(np.zeros(domains), np.zeros(leaves), np.zeros(leaves), np.zeros(leaves, np.int64))
    return SupplyLimits(
        np.arange(domains, dtype=np.int32), parent, gain, limits[0] - base, limits[0].copy(), base,
        np.zeros((2, domains), np.int64),
        np.array([1.0, 0.0, 0.0]), time, limits,
        np.maximum.accumulate(limits[::-1], axis=0)[::-1].copy(),
        leaf_start, leaf_unit, of_unit[first], (np.cumsum(cut) - 1).astype(np.int32), of_node,
        np.full((2, partitions), -1, np.int64), free,
        np.zeros((partitions, leaves), np.int64), by_domain, np.zeros((partitions, 2, domains), np.int64),
        by_domain.copy(), by_domain.copy(),
        np.zeros(partitions, np.int64), np.zeros(partitions, np.int64),
        by_domain.copy(), by_domain.copy(), np.zeros(partitions, np.int64), np.full(partitions, -1, np.int64),
        np.zeros(leaves, np.int32), np.zeros(leaves, np.int64),
        np.zeros(domains, np.int64), np.zeros(domains, np.int64), np.zeros(leaves, np.int64),
        np.zeros(domains, np.int64), np.zeros((2, domains), np.int64), np.zeros(domains, np.int64), np.zeros(leaves),
        marks,
        new_classes(gain, free, partitions, sample),
        spare,
        no_domains_ahead(domains),
        SupplyUnits(*(np.zeros(len(of_unit), np.int64) for _ in range(4))),
    )  # fmt: skip


def new_classes(
    gain: NDArray[np.float64], free: NDArray[np.int64], partitions: int, sample: NDArray[np.int64]
) -> SupplyClasses:
    """Make the classes of a tree; no leaf has been counted yet. ``sample``: see ``new_supply``."""
    some = sample[:: max(1, len(sample) // 10_000)] if len(sample) else np.zeros(1, np.int64)
    least = np.quantile(some, np.linspace(0.0, 1.0, CLASSES), method="lower").astype(np.int64)
    least[0] = 0
    cube = np.zeros((partitions, len(gain), CLASSES), np.float32)
    share = (1.0 + 1e-6) / (np.maximum(least, 1e-9) * gain[:, None])  # rounded up for single precision
    return SupplyClasses(
        least, share.astype(np.float32), cube, cube.copy(), np.zeros((partitions, CLASSES), np.float32),
        np.zeros((partitions, CLASSES), np.int64), np.full((partitions, CLASSES), codes.ANY_WATT, np.int64),
        np.zeros((partitions, CLASSES), np.int64), np.full((partitions, CLASSES), codes.ANY_NEED, np.int64),
        np.zeros((partitions, CLASSES), np.int8), np.zeros(len(free), np.int64), np.arange(len(free), dtype=np.int32),
        np.ones(len(free), np.int8),
    )  # fmt: skip


@inlined
def has_supply(view: KernelView) -> bool:
    """Return whether a power domain can hold a job back, or GPUs are given by node."""
    return len(view.supply.free) > 0


@inlined
def list_leaves(view: KernelView, job: int) -> int:
    """Write the leaves whose units a job holds to ``leaf`` and ``take``; return how many. Forgets a proposed start."""
    return list_units(view, job, view.supply.unit.counted)


@kernel
def list_units(view: KernelView, job: int, figures: Array) -> int:
    """Do so, with the figure of each unit, of ``figures`` (U,), where units have their own."""
    held, supply, units = view.held, view.supply, as_int64(0)
    supply.marks[KEY] = -1
    found = as_int64(0)
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        unit = as_int64(held.low[k])
        while unit <= held.high[k]:
            leaf = as_int64(supply.leaf_of[unit])
            end = min(as_int64(held.high[k]) + 1, as_int64(supply.leaf_unit[leaf + 1]))
            if found == 0 or supply.leaf[found - 1] != leaf:
                supply.leaf[found] = leaf
                supply.take[found] = 0
                found += 1
            supply.take[found - 1] += end - unit
            if supply.marks[BY_UNIT] != 0:
                for one in range(unit, end):
                    supply.unit.listed[units] = figures[one]
                    units += 1
            unit = end
    return int(found)


@inlined
def running_each(view: KernelView, job: int, net: int) -> int:
    """Return what a unit of a listed running job counts, COUNTED where each has its own figure."""
    return COUNTED if view.supply.marks[BY_UNIT] != 0 else each_of(net, int(view.nodes[job]))


@inlined
def variance_of(view: KernelView, job: int) -> float:
    """Return the relative variance of a running job as a share of that at its start: less where it was measured."""
    return float(view.evidence.left[job]) if len(view.evidence.left) > 0 else 1.0


@inlined
def move_listed(supply: SupplyLimits, leaves: int, unit_net: int, variance: float, sign: int) -> None:
    """Take (1) or give back (-1) the listed units of one job now, each of ``unit_net`` microwatts."""
    take_listed(supply, leaves, unit_net, variance, sign, load_now(supply, as_int64(0)))
    for k in range(leaves):
        touch(supply, as_int64(supply.leaf[k]))


@inlined
def touch(supply: SupplyLimits, leaf: int) -> None:
    """Note that free units of a leaf, or room above it, have changed."""
    supply.marks[VERSION] += 1
    if supply.classes.is_touched[leaf] == 0:
        supply.classes.is_touched[leaf] = 1
        supply.classes.touched[supply.marks[TOUCHED]] = leaf
        supply.marks[TOUCHED] += 1


@separate
def give_back(view: KernelView, job: int, net: int) -> None:
    """Give back the units that a job holds, for which the ledger counts ``net`` microwatts."""
    unit_net = running_each(view, job, net)
    move_listed(view.supply, list_leaves(view, job), unit_net, variance_of(view, job), as_int64(-1))
    view.supply.marks[GIVEN] = 1


@inlined
def note_refused(view: KernelView, rank: int) -> None:
    """Note an entry that a reservation refuses for the units that it would get: after a start it may get others."""
    marks = view.supply.marks
    if marks[REFUSED] < 0 or rank < marks[REFUSED]:
        marks[REFUSED] = rank


@inlined
def forget_refused(view: KernelView, rank: int) -> None:
    """Forget what a reservation refused for its units, where a pass tries all entries from ``rank`` on again."""
    if has_supply(view) and view.supply.marks[REFUSED] >= rank:
        view.supply.marks[REFUSED] = -1


@inlined
def retry_refused(view: KernelView) -> None:
    """After a start: let the next pass try again what was refused for the units that it would have got (rule 22).

    It may get others now. All else that was refused has less room than before. With several partitions a reserved entry
    may be among them, so that the next pass is a whole one.
    """
    refused = as_int64(view.supply.marks[REFUSED])
    if refused < 0:
        return
    if len(view.units.free) > 1:
        view.now.whole_next = 1
    elif view.now.first_new < 0 or refused < view.now.first_new:
        view.now.first_new = refused


@kernel
def limits_row(view: KernelView) -> int:
    """Return the row of limits that is in force."""
    time, rows = view.supply.time, as_int64(len(view.supply.time))
    row = as_int64(first_from(time, as_int64(0), rows, view.now.time_s))
    return row if row < rows and time[row] <= view.now.time_s else row - 1


@kernel
def idle_machine(view: KernelView, limit_uw: Array) -> None:
    """Write an idle machine under some limits, (G,) microwatts, to ``spare_free`` and ``spare_room``."""
    supply = view.supply
    for leaf in range(len(supply.free)):
        supply.spare_free[leaf] = supply.leaf_unit[leaf + 1] - supply.leaf_unit[leaf]
    for domain in range(len(supply.room)):
        supply.spare_room[domain] = limit_uw[domain] - supply.base[domain]
        supply.spare_drawn[0, domain] = 0
        supply.spare_drawn[1, domain] = 0
