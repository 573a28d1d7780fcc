"""True watts: what a job draws at a frequency and under limits, the running sums, the step series."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import inlined, wide
from wattqueue.kernels.entries import time_factor, unit_uw
from wattqueue.kernels.state import Log, Rows, Truth, View

INF = float("inf")
SLOWEST = 0.1  # a limit at or below idle watts slows a unit to a tenth, not to a stand-still


@inlined
def account(view: View, truth: Truth, job: int, sign: int) -> None:
    """Add (1) or take (-1) a running job's watts and units; its units' idle share moves the other way."""
    tally = truth.tally
    idle = view.nodes[job] * view.units.idle_uw[view.units.option_partition[view.held.option[job]]]
    tally[codes.JOBS_UW] += sign * truth.uw[job]
    tally[codes.OTHER_UW] -= sign * idle
    tally[codes.BUSY_IDLE_UW] += sign * idle
    tally[codes.BUSY_UNITS] += sign * view.nodes[job]


@inlined
def lowest_limit(view: View, truth: Truth, job: int) -> float:
    """The lowest limit (microwatts) on any unit of ``job``; inf for none."""
    if truth.tally[codes.LIMITED_UNITS] == 0:
        return INF
    limit = INF
    held = view.held
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            limit = min(limit, truth.unit_cap_uw[unit])
    return limit


@inlined
def speed_under(view: View, truth: Truth, rows: Rows, job: int, limit: float) -> float:
    """Relative clock at which a unit of ``job`` just draws ``limit`` microwatts, at most 1.

    Inverts watts = idle + (P - idle) speed**alpha, the machine's own figure (model.machine.Partition).
    """
    option = wide(view.held.option[job])
    watt = unit_uw(rows, job, option)
    if watt <= limit:
        return 1.0
    p = wide(view.units.option_partition[option])
    idle = view.units.idle_uw[p]
    alpha = truth.node_figures[p, codes.ALPHA]
    if limit <= idle:
        return SLOWEST
    return float(max(SLOWEST, ((limit - idle) / (watt - idle)) ** (1.0 / alpha)))


@inlined
def limited_uw(view: View, truth: Truth, rows: Rows, job: int, speed: float) -> int:
    """Microwatts of the whole job at its option, slowed to ``speed``."""
    option = wide(view.held.option[job])
    watt = unit_uw(rows, job, option)
    if speed < 1.0:
        p = wide(view.units.option_partition[option])
        idle = view.units.idle_uw[p]
        watt = round(idle + (watt - idle) * speed ** truth.node_figures[p, codes.ALPHA])
    return int(view.nodes[job]) * int(watt)


@inlined
def limited_factor(view: View, truth: Truth, rows: Rows, job: int, speed: float) -> float:
    """Time factor of the job at its option, slowed to ``speed``."""
    option = wide(view.held.option[job])
    factor = time_factor(rows, job, option)
    if speed < 1.0:
        p = wide(view.units.option_partition[option])
        factor *= truth.node_figures[p, codes.BETA] * (1.0 / speed - 1.0) + 1.0
    return factor


@inlined
def set_physics(view: View, truth: Truth, job: int) -> None:
    """True watts and time factor of a job from its option and the limits on its units."""
    speed = speed_under(view, truth, truth.actual, job, lowest_limit(view, truth, job))
    truth.uw[job] = limited_uw(view, truth, truth.actual, job, speed)
    truth.factor[job] = limited_factor(view, truth, truth.actual, job, speed)


@inlined
def round_us(time: float) -> float:
    """To the microsecond (SEMANTICS rule 1)."""
    return float(round(time * 1e6) / 1e6)


@inlined
def write_power(view: View, truth: Truth, log: Log) -> None:
    """A row of the power series, where power changed."""
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
