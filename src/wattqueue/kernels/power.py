"""True watts: what a job draws at an option and under limits, the running sums, the step series.

The machine's power is three sums, kept up to date in ``Truth.tally`` by each start, end and change:

    JOBS_UW        running jobs, true watts with their idle share
    OTHER_UW       idle units
    BUSY_IDLE_UW   idle watts of the units that run jobs (JOBS_UW - BUSY_IDLE_UW is the dynamic power)

Limits. ``SetSocketCap`` limits a unit; a job runs at the speed of its slowest unit. Watts follow the machine's own
curve, ``watts = idle + (P - idle) speed**alpha``, and time ``beta (1 / speed - 1) + 1``, with the partition's
exponents (``model/machine.py``). The same functions serve truth (``truth.actual``, ``truth.by_unit``) and expectation
(``view.predicted``): they take the tables as arguments. Where units differ (docs/adr/0013), each has its own watts, and
the slowest one sets the speed. True run times may differ by unit as well: a job takes as long as on its slowest one.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.entries import time_factor, unit_uw
from wattqueue.kernels.state import KernelView, Log, Rows, Truth, UnitFactors
from wattqueue.kernels.unit_watts import greatest_factor, held_uw

INF = float("inf")
SLOWEST = 0.1  # a limit at or below idle watts slows a unit to a tenth, not to a stand-still


@inlined
def account(view: KernelView, truth: Truth, job: int, sign: int) -> None:
    """Add (1) or take (-1) a running job's watts and units; the idle watts of its units move the other way."""
    tally = truth.tally
    idle = view.nodes[job] * view.units.idle_uw[view.units.option_partition[view.held.option[job]]]
    tally[codes.JOBS_UW] += sign * truth.uw[job]
    tally[codes.OTHER_UW] -= sign * idle
    tally[codes.BUSY_IDLE_UW] += sign * idle
    tally[codes.BUSY_UNITS] += sign * view.nodes[job]


@inlined
def lowest_limit(view: KernelView, truth: Truth, job: int) -> float:
    """Return the lowest limit (microwatts) on any unit of ``job``, inf for none.

    Most runs have no limit at all: LIMITED_UNITS saves the walk over the job's units.
    """
    if truth.tally[codes.LIMITED_UNITS] == 0:
        return INF
    limit = INF
    held = view.held
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            limit = min(limit, truth.unit_cap_uw[unit])
    return limit


@inlined
def job_speed(view: KernelView, truth: Truth, rows: Rows, factors: UnitFactors, job: int) -> float:
    """Return the relative speed of ``job`` at its option under the limits on its units, at most 1."""
    if factors.table.shape[0] > 0:
        return slowest_unit(view, truth, factors, job, unit_uw(rows, job, as_int64(view.held.option[job])))
    limit = lowest_limit(view, truth, job)
    return speed_under(view, truth, job, unit_uw(rows, job, as_int64(view.held.option[job])), limit)


@kernel
def slowest_unit(view: KernelView, truth: Truth, factors: UnitFactors, job: int, uw: int) -> float:
    """Return the speed of the slowest unit of ``job``, where a unit of factor 1 draws ``uw`` microwatts."""
    if truth.tally[codes.LIMITED_UNITS] == 0:
        return 1.0
    speed = 1.0
    held, row = view.held, factors.row[job]
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            watt = round(uw * factors.table[row, unit])
            speed = min(speed, speed_under(view, truth, job, watt, truth.unit_cap_uw[unit]))
    return speed


@inlined
def speed_under(view: KernelView, truth: Truth, job: int, watt: int, limit: float) -> float:
    """Return the relative speed at which a unit that draws ``watt`` just draws ``limit`` microwatts, at most 1.

    Inverts watts = idle + (P - idle) speed**alpha. A limit at or below idle watts gives ``SLOWEST``: no limit stops a
    job. A unit that draws no more than idle watts has no dynamic watts to reduce: it is not slowed.
    """
    p = as_int64(view.units.option_partition[view.held.option[job]])
    idle = view.units.idle_uw[p]
    if watt <= max(limit, idle):
        return 1.0
    alpha = truth.node_figures[p, codes.ALPHA]
    if limit <= idle:
        return SLOWEST
    return float(max(SLOWEST, ((limit - idle) / (watt - idle)) ** (1.0 / alpha)))


@inlined
def limited_uw(view: KernelView, truth: Truth, rows: Rows, factors: UnitFactors, job: int, speed: float) -> int:
    """Return the microwatts of the whole job at its option, slowed to ``speed``.

    One unit's watts are rounded, then multiplied, or added up where units differ (rule 12 of docs/semantics.md).
    """
    watt = unit_uw(rows, job, as_int64(view.held.option[job]))
    if factors.table.shape[0] > 0:
        if speed < 1.0:
            return limited_by_unit(view, truth, factors, job, watt, speed)
        return held_uw(view.held, factors, job, watt)
    if speed < 1.0:
        watt = slowed_uw(view, truth, job, watt, speed)
    return int(view.nodes[job]) * int(watt)


@inlined
def slowed_uw(view: KernelView, truth: Truth, job: int, watt: int, speed: float) -> int:
    """Return the microwatts of a unit of ``job`` that is slowed to ``speed``, from those at full speed."""
    p = as_int64(view.units.option_partition[view.held.option[job]])
    idle = view.units.idle_uw[p]
    slowed: int = round(idle + (watt - idle) * speed ** truth.node_figures[p, codes.ALPHA])
    return slowed


@kernel
def limited_by_unit(view: KernelView, truth: Truth, factors: UnitFactors, job: int, uw: int, speed: float) -> int:
    """Return the microwatts of ``job``, slowed to ``speed``, where a unit of factor 1 draws ``uw`` at full speed.

    A unit that draws no more than idle watts has nothing to reduce, whatever slows the others.
    """
    held, row = view.held, factors.row[job]
    idle = view.units.idle_uw[view.units.option_partition[held.option[job]]]
    total = 0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            watt = round(uw * factors.table[row, unit])
            total += slowed_uw(view, truth, job, watt, speed) if watt > idle else watt
    return total


@inlined
def limited_factor(view: KernelView, truth: Truth, rows: Rows, job: int, speed: float) -> float:
    """Return the time factor of the job at its option, slowed to ``speed``."""
    option = as_int64(view.held.option[job])
    factor = time_factor(rows, job, option)
    if speed < 1.0:
        p = as_int64(view.units.option_partition[option])
        factor *= truth.node_figures[p, codes.BETA] * (1.0 / speed - 1.0) + 1.0
    return factor


@inlined
def set_physics(view: KernelView, truth: Truth, job: int) -> None:
    """Set the true watts and time factor of a job from its option and the limits on its units."""
    speed = job_speed(view, truth, truth.actual, truth.by_unit, job)
    truth.uw[job] = limited_uw(view, truth, truth.actual, truth.by_unit, job, speed)
    truth.factor[job] = limited_factor(view, truth, truth.actual, job, speed)
    if truth.time_by_unit.table.shape[0] > 0:
        truth.factor[job] *= greatest_factor(view.held, truth.time_by_unit, job)


@inlined
def round_us(time: float) -> float:
    """Round a computed time to the microsecond (rule 1 of docs/semantics.md)."""
    return float(round(time * 1e6) / 1e6)


@inlined
def write_power(view: KernelView, truth: Truth, log: Log) -> None:
    """Write a row of the power series, if power changed since the last one.

    A row at the time of the last one replaces it: several instants may fall on one time when jobs of no length end.
    """
    tally = truth.tally
    row = tally[codes.POWER_ROWS]
    if row > 0 and log.time[row - 1] == view.num[codes.NOW]:
        row -= 1
    elif (
        row > 0
        and log.jobs_uw[row - 1] == tally[codes.JOBS_UW]
        and log.other_uw[row - 1] == tally[codes.OTHER_UW]
        and log.busy_idle_uw[row - 1] == tally[codes.BUSY_IDLE_UW]
        and log.busy[row - 1] == tally[codes.BUSY_UNITS]
    ):
        return
    log.time[row] = view.num[codes.NOW]
    log.jobs_uw[row] = tally[codes.JOBS_UW]
    log.other_uw[row] = tally[codes.OTHER_UW]
    log.busy_idle_uw[row] = tally[codes.BUSY_IDLE_UW]
    log.busy[row] = tally[codes.BUSY_UNITS]
    tally[codes.POWER_ROWS] = row + 1
