"""True watts: what a job draws at an option and under limits, the running sums, the step series.

The machine's power is three sums, kept up to date in ``Truth.tally`` by each start, end and change:

    JOBS_UW        running jobs, true watts with their idle share
    OTHER_UW       idle units
    BUSY_IDLE_UW   idle watts of the units that run jobs (JOBS_UW - BUSY_IDLE_UW is the dynamic power)

Limits. ``SetDeviceLimits`` limits devices; a job runs at the speed of its slowest one (``kernels/devices.py``).
Watts follow the machine's own curve, ``watts = idle + (P - idle) speed**alpha``, and time ``beta (1 / speed - 1) + 1``,
with the partition's exponents (``model/machine.py``). The same functions serve truth (``truth.actual``,
``truth.by_unit``) and expectation (``view.predicted``): they take the tables as arguments. Where units differ
(docs/adr/0013), each has its own watts. True run times may differ by unit as well: a job takes as long as on its
slowest one.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.devices import TRUE, job_speed
from wattqueue.kernels.entries import time_factor
from wattqueue.kernels.measured import sense_job
from wattqueue.kernels.phases import true_unit_uw
from wattqueue.kernels.state import KernelView, Log, Rows, Truth, UnitFactorTable
from wattqueue.kernels.unit_watts import greatest_factor, held_uw, slowed_uw


@inlined
def account(view: KernelView, truth: Truth, job: int, sign: int) -> None:
    """Add (1) a job that starts, or take (-1) one that ends: its watts and units, in sums and sensors.

    The idle watts of its units move the other way.
    """
    add_sums(view, truth, job, sign)
    if truth.loop.sensing != 0:
        sense_job(view, truth, job, sign)


@inlined
def add_sums(view: KernelView, truth: Truth, job: int, sign: int) -> None:
    """Do the same in the running sums alone: for a job that changes, sensors see its new watts at once."""
    loop = truth.loop
    idle = view.nodes[job] * view.units.idle_uw[view.units.option_partition[view.held.option[job]]]
    loop.jobs_uw += sign * truth.uw[job]
    loop.other_uw -= sign * idle
    loop.busy_idle_uw += sign * idle
    loop.busy_units += sign * view.nodes[job]


@inlined
def limited_uw(view: KernelView, truth: Truth, factors: UnitFactorTable, job: int, watt: int, speed: float) -> int:
    """Return the microwatts of the whole job, slowed to ``speed``; a unit of factor 1 draws ``watt`` at full speed.

    One unit's watts are rounded, then multiplied, or added up where units differ (rule 12 of docs/semantics.md).
    """
    if factors.table.shape[0] > 0:
        if speed < 1.0:
            return limited_by_unit(view, truth, factors, job, watt, speed)
        return held_uw(view.held, factors, job, watt)
    if speed < 1.0:
        watt = slowed_uw(view, truth, job, watt, speed)
    return int(view.nodes[job]) * int(watt)


@separate
def limited_by_unit(view: KernelView, truth: Truth, factors: UnitFactorTable, job: int, uw: int, speed: float) -> int:
    """Return the microwatts of ``job``, slowed to ``speed``, where a unit of factor 1 draws ``uw`` at full speed."""
    held, row = view.held, factors.row[job]
    total = 0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            watt = round(uw * factors.table[row, unit])
            total += slowed_uw(view, truth, job, watt, speed)
    return total


@inlined
def limited_factor(view: KernelView, truth: Truth, rows: Rows, job: int, speed: float) -> float:
    """Return the time factor of the job at its option, slowed to ``speed``."""
    option = as_int64(view.held.option[job])
    factor = time_factor(rows, job, option)
    if speed < 1.0:
        p = as_int64(view.units.option_partition[option])
        factor *= truth.node.beta[p] * (1.0 / speed - 1.0) + 1.0
    return factor


@inlined
def set_physics(view: KernelView, truth: Truth, job: int) -> None:
    """Set the true watts and time factor of a job from its option and the limits on its units."""
    speed = job_speed(view, truth, as_int64(TRUE), job)
    truth.uw[job] = true_uw(view, truth, job, speed)
    truth.factor[job] = true_factor(view, truth, job, speed)


@inlined
def true_uw(view: KernelView, truth: Truth, job: int, speed: float) -> int:
    """Return the true microwatts of the whole job at its option, slowed to ``speed``."""
    return limited_uw(view, truth, truth.by_unit, job, true_unit_uw(view, truth, job), speed)


@inlined
def true_factor(view: KernelView, truth: Truth, job: int, speed: float) -> float:
    """Return the true time factor of the job at its option, slowed to ``speed``, on its slowest unit."""
    factor = limited_factor(view, truth, truth.actual, job, speed)
    if speed < 1.0 and len(truth.curves.row) > 0:
        factor = by_curve(view, truth, job, factor, speed)
    if truth.time_by_unit.table.shape[0] > 0:
        factor *= greatest_factor(view.held, truth.time_by_unit, job)
    return factor


@separate
def by_curve(view: KernelView, truth: Truth, job: int, factor: float, speed: float) -> float:
    """Return the true time factor of a job whose application has a curve at its option, else ``factor``.

    Between two points run time is linear in the watts; below the lowest one it grows by the partition's exponents.
    """
    curves, option = truth.curves, as_int64(view.held.option[job])
    at = curves.row[job] * len(view.units.option_partition) + option
    if curves.row[job] < 0 or curves.start[at] == curves.start[at + 1]:
        return factor
    low, p = curves.start[at], as_int64(view.units.option_partition[option])
    alpha, free = truth.node.alpha[p], time_factor(truth.actual, job, option)
    share = speed**alpha
    if share <= curves.share[low]:
        least = curves.share[low] ** (1.0 / alpha)
        return float(factor * curves.slow[low] / (truth.node.beta[p] * (1.0 / least - 1.0) + 1.0))
    k = low + 1
    while curves.share[k] < share:
        k += 1
    part = (share - curves.share[k - 1]) / (curves.share[k] - curves.share[k - 1])
    return float(free * (curves.slow[k - 1] + part * (curves.slow[k] - curves.slow[k - 1])))


@kernel
def draw(view: KernelView, truth: Truth, log: Log, job: int, uw: int, change: int) -> None:
    """Let a running job draw other watts from now on; ``change`` as in ``sense_job``."""
    before = truth.uw[job]
    # Take the job out of the running sums at its old watts, and put it back at the new ones.
    add_sums(view, truth, job, as_int64(-1))
    truth.uw[job] = uw
    add_sums(view, truth, job, as_int64(1))
    if truth.loop.sensing != 0:
        sense_job(view, truth, job, change)
    # The last stretch is billed from the start at the final watts: add what the first one differed by.
    log.energy_j[job] += (view.now.time_s - log.start[job]) * ((before - uw) / codes.MICRO)


@inlined
def round_us(time: float) -> float:
    """Round a computed time to the microsecond (rule 1 of docs/semantics.md)."""
    return float(round(time * 1e6) / 1e6)


@inlined
def write_power(view: KernelView, truth: Truth, log: Log) -> None:
    """Write a row of the power series, if power changed since the last one.

    A row at the time of the last one replaces it: several instants may fall on one time when jobs of no length end.
    """
    loop = truth.loop
    row = loop.power_rows
    if row > 0 and log.time[row - 1] == view.now.time_s:
        row -= 1
    elif (
        row > 0
        and log.jobs_uw[row - 1] == loop.jobs_uw
        and log.other_uw[row - 1] == loop.other_uw
        and log.busy_idle_uw[row - 1] == loop.busy_idle_uw
        and log.busy[row - 1] == loop.busy_units
    ):
        return
    log.time[row] = view.now.time_s
    log.jobs_uw[row] = loop.jobs_uw
    log.other_uw[row] = loop.other_uw
    log.busy_idle_uw[row] = loop.busy_idle_uw
    log.busy[row] = loop.busy_units
    loop.power_rows = row + 1
