"""Watts of jobs whose units differ: sums over the very units (rule 12 of docs/semantics.md, docs/adr/0013).

``uw`` is always what a unit of factor 1 draws, in microwatts. The watts of a unit are that times its factor, rounded
to 1 µW; so sums are integers, and do not depend on the order of the units.
"""

from __future__ import annotations

from wattqueue.kernels._numba import as_int64, entry, inlined, kernel, separate
from wattqueue.kernels.state import Array, ByUnit, Held, KernelView, Truth, UnitFactorTable


@separate
def held_uw(held: Held, factors: UnitFactorTable, job: int, uw: int) -> int:
    """Return the microwatts of a running job on the units that it holds."""
    row = factors.row[job]
    total = 0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            total += round(uw * factors.table[row, unit])
    return total


@inlined
def slowed_uw(view: KernelView, truth: Truth, job: int, watt: int, speed: float) -> int:
    """Return the microwatts of a unit of ``job`` that is slowed to ``speed``, from those at full speed.

    A unit that draws no more than idle watts has nothing to reduce, whatever slows it.
    """
    p = as_int64(view.units.option_partition[view.held.option[job]])
    idle = view.units.idle_uw[p]
    if speed >= 1.0 or watt <= idle:
        return watt
    slowed: int = round(idle + (watt - idle) * speed ** truth.node.alpha[p])
    return slowed


@separate
def greatest_factor(held: Held, factors: UnitFactorTable, job: int) -> float:
    """Return the greatest factor among the units that a running job holds: that of run times sets the job's."""
    row = factors.row[job]
    greatest = 0.0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            greatest = max(greatest, factors.table[row, unit])
    return greatest


@kernel
def mean_of_units(table: Array, row: int, first: int, count: int, low: Array, high: Array) -> float:
    """Return the mean factor of a row of ``table`` over the units of ``count`` intervals; 1 where there are none."""
    total, units = 0.0, 0
    for k in range(first, first + count):
        for unit in range(low[k], high[k] + 1):
            total += table[row, unit]
            units += 1
    return total / units if units > 0 else 1.0


@entry
def mean_factors(table: Array, row: Array, first: Array, count: Array, low: Array, high: Array, mean: Array) -> None:
    """Write the mean factor of k runs on their units to ``mean`` (k,): what their watts are over those at factor 1.

    ``table`` (A + 1, U); ``row`` (k,) int32 of each run in it; intervals as ``Held`` has them.
    """
    for k in range(len(row)):
        mean[k] = mean_of_units(table, as_int64(row[k]), as_int64(first[k]), as_int64(count[k]), low, high)


@entry
def sum_units(held: Held, factors: UnitFactorTable, jobs: Array, uw: Array, total: Array) -> None:
    """Write the microwatts of jobs on the units that they held to ``total`` (k,) int64.

    ``jobs`` (k,) int32; ``uw`` (k,) int64 microwatts of a unit of factor 1.
    """
    for k in range(len(jobs)):
        total[k] = held_uw(held, factors, as_int64(jobs[k]), uw[k])


@separate
def chosen_uw(by_unit: ByUnit, job: int, units: int, uw: int) -> int:
    """Return the microwatts of ``job`` on the ``units`` first ones in ``chosen``."""
    row = by_unit.factors.row[job]
    total = 0
    for k in range(units):
        total += round(uw * by_unit.factors.table[row, by_unit.chosen[k]])
    return total


@separate
def sum_of_rising(by_unit: ByUnit, job: int, first: int, units: int, uw: int) -> int:
    """Return the microwatts of ``job`` on units with the factors from place ``first`` of ``rising`` on."""
    row = by_unit.factors.row[job]
    total = 0
    for k in range(first, first + units):
        total += round(uw * by_unit.rising[row, k])
    return total
