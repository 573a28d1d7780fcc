"""The measured ledger: what units count by the latest samples of their sensors (rule 15 of docs/semantics.md).

A unit with a job counts

* its share of its sensor's sample, where the job ran during the whole time that the sample is the mean of;
* what is predicted, where the job started (or was given a higher frequency) later than that time began;
* its maximum, where that sample is missing or stale.

A unit without a job counts idle watts, unless its sensor covers busy units as well and its own last job ended before
the sample: then it counts its share. What such units count above idle watts is kept in ``now.idle_above_uw``, since
no running job frees it. A sensor without any job counts idle watts.

Shares are even, as the paper spreads a socket's reading over its cores; or idle units count idle watts, and
those with a job share the rest (``SHARE_BUSY``).

``running.net`` holds the shares of running jobs, so every pass, reservation and plan works with them as with
predictions. Samples come from outside: the simulator's sensors (``read_samples``).

A reading looks at the sensors in ``pending`` only: those whose watts, or whose jobs, changed later than the reading
before can show as settled. All others would show what they showed. Where samples are noisy or readings get lost, and
where each reading corrects a prediction, all of them are pending.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.bits import ALL, ONE, ZERO, lowest_bit, mask
from wattqueue.kernels.chance import square_of
from wattqueue.kernels.devices import EXPECTED, TRUE, job_speed
from wattqueue.kernels.entries import net_of, unit_uw
from wattqueue.kernels.in_flight import add_reading, corrected_uw
from wattqueue.kernels.ledger import change_idle_above, count_again
from wattqueue.kernels.phases import true_unit_uw
from wattqueue.kernels.running import running_place
from wattqueue.kernels.sensors import (
    advance_sensor,
    list_sensor,
    periods,
    read_sensor,
    reading_is_lost,
    samples_shown,
    sense_unit,
)
from wattqueue.kernels.state import KernelView, SensorSamples, Truth
from wattqueue.kernels.supply import has_supply, variance_of
from wattqueue.kernels.supply_changes import count_idle_unit, has_moved, recount_job
from wattqueue.kernels.supply_load import BY_UNIT
from wattqueue.kernels.unit_watts import slowed_uw

MISSING = -1
INF = float("inf")


def new_measured(
    start: NDArray[np.int32], of_unit: NDArray[np.int32], idle_uw: NDArray[np.int64], most_uw: NDArray[np.int64]
) -> SensorSamples:
    """Return the samples of an idle machine, which say so.

    ``start`` (S + 1,) first unit of each sensor; ``of_unit`` (U,) sensor of each unit; ``idle_uw`` (U,) microwatts;
    ``most_uw`` (U,) greatest microwatts.
    """
    count, units = len(start) - 1, len(of_unit)
    return SensorSamples(
        start,
        of_unit,
        np.add.reduceat(idle_uw, start[:-1]),
        np.full(count, -INF),
        np.full(count, -INF),
        idle_uw[start[:-1]],
        np.zeros(count, np.int64),
        idle_uw[start[:-1]],
        most_uw[start[:-1]],
        np.zeros(count, np.int32),
        np.full(units, -1, np.int32),
        np.full(units, -INF),
        np.zeros((count + 63) // 64, np.uint64),
        np.full(count, -INF),
        np.zeros((units + 63) // 64, np.uint64),
    )


@kernel
def read_samples(view: KernelView, truth: Truth) -> None:
    """Read the pending sensors, and count running jobs and idle units by what they show.

    A reading that is lost leaves the sample before it; one that has become older than ``STALE_S`` is stale.
    """
    measured, sensors, time_s = view.measured, truth.sensors, view.now.time_s
    period = sensors.figures.sample_s
    ended = periods(time_s, period)
    first, behind = samples_shown(truth, time_s)
    if len(sensors.normal) + len(sensors.uniform) + len(view.evidence.left) > 0:
        list_sensors(view)
    if len(sensors.uniform) == 0:
        for sensor in range(len(measured.sample_uw)):
            measured.begin_s[sensor] = first * period
            measured.end_s[sensor] = behind * period
    for word in range(len(measured.pending)):
        bits = measured.pending[word]
        while bits != ZERO:
            sensor = as_int64(64 * word + lowest_bit(bits))
            lowest = bits & (~bits + ONE)
            bits ^= lowest
            if not reading_is_lost(truth, sensor, time_s):
                uw = sensors.watt_uw[sensor]
                if len(sensors.normal) > 0 or measured.moved_s[sensor] > first * period:
                    advance_sensor(truth, sensor, time_s, period, ended)
                    uw = as_int64(read_sensor(truth, sensor, period, first, behind))
                set_sample(view, sensor, uw, first * period, behind * period)
            elif time_s - measured.end_s[sensor] > sensors.figures.stale_s:
                lose_sample(view, sensor)
            mark_jobs(view, sensor)
            if measured.moved_s[sensor] <= measured.begin_s[sensor]:  # it has settled
                measured.pending[word] ^= lowest
    if truth.loop.ages != 0:
        truth.loop.stale_at_s = time_s + sensors.figures.stale_s
    count_marked(view, truth)


@kernel
def lose_samples(view: KernelView, truth: Truth) -> None:
    """Let every sample be stale from now on."""
    for sensor in range(len(view.measured.sample_uw)):
        lose_sample(view, as_int64(sensor))
        mark_jobs(view, as_int64(sensor))
    truth.loop.stale_at_s = INF
    list_sensors(view)
    count_marked(view, truth)


@kernel
def list_sensors(view: KernelView) -> None:
    """Let the next reading look at every sensor."""
    measured = view.measured
    for word in range(len(measured.pending)):
        measured.pending[word] = ALL
    rest = len(measured.sample_uw) & 63
    if rest > 0:
        measured.pending[len(measured.pending) - 1] = mask(0, rest)


@inlined
def lose_sample(view: KernelView, sensor: int) -> None:
    """Let the sample of a sensor be missing: a unit with a job counts its maximum."""
    view.measured.sample_uw[sensor] = MISSING
    view.measured.share_uw[sensor] = view.measured.most_uw[sensor]


@inlined
def set_sample(view: KernelView, sensor: int, uw: int, begin: float, end: float) -> None:
    """Take over a sample; a measured ledger shares it out. Less than idle watts is idle, or counts as missing."""
    measured = view.measured
    idle = (measured.start[sensor + 1] - measured.start[sensor]) * measured.idle_uw[sensor]
    measured.begin_s[sensor] = begin
    measured.end_s[sensor] = end
    if uw < idle * (1.0 - view.now.idle_tolerance):
        lose_sample(view, sensor)
        return
    uw = max(uw, idle)
    measured.sample_uw[sensor] = uw
    if view.now.by_sample != 0:
        measured.share_uw[sensor] = share_of(view, sensor)


@inlined
def share_of(view: KernelView, sensor: int) -> int:
    """Return what one unit has of its sensor's sample: even shares, or what is above idle for units with a job.

    Rounded up. Numerators are not negative: a processor divides them faster.
    """
    measured, idle = view.measured, view.measured.idle_uw[sensor]
    first, behind, uw = measured.start[sensor], measured.start[sensor + 1], measured.sample_uw[sensor]
    units = as_int64(behind - first)
    if view.now.share_busy == 0:
        return int(uw if units == 1 else (uw + units - 1) // units)
    covered = 0
    for unit in range(first, behind):
        covered += int(measured.job[unit] >= 0 and measured.since_s[unit] <= measured.begin_s[sensor])
    covered = max(covered, 1)
    return int(idle + (uw - units * idle + covered - 1) // covered)


@inlined
def mark_jobs(view: KernelView, sensor: int) -> None:
    """Count the idle units of a sensor again, and mark its jobs that the sample says something of."""
    measured, held = view.measured, view.held
    if view.now.by_sample == 0:
        return
    if shows_idle(view):
        count_idle(view, sensor)
    for unit in range(measured.start[sensor], measured.start[sensor + 1]):
        # A job that began later counts what it began with. Each is marked once, by the first of its units.
        if measured.job[unit] >= 0 and measured.since_s[unit] <= measured.begin_s[sensor]:
            first = as_int64(held.low[held.first[measured.job[unit]]])
            measured.marked[first >> 6] |= ONE << np.uint64(first & 63)


@kernel
def count_marked(view: KernelView, truth: Truth) -> None:
    """Count the marked jobs again."""
    measured = view.measured
    for word in range(len(measured.marked)):
        while measured.marked[word] != ZERO:
            unit = 64 * word + lowest_bit(measured.marked[word])
            measured.marked[word] &= measured.marked[word] - ONE
            count_measured(view, truth, as_int64(measured.job[unit]))


@kernel
def count_measured(view: KernelView, truth: Truth, job: int) -> None:
    """Count a running job again by the samples as they are."""
    running, in_flight = view.running, len(view.evidence.left) > 0
    at, k = running_place(view, job)
    block = as_int64(running.order[at])
    before = as_int64(running.net[block, k])
    square, variance = square_of(view, job, before), variance_of(view, job)
    if in_flight:
        note_evidence(view, truth, job)
    net = as_int64(measured_net(view, truth, job))
    moved = has_supply(view) and view.supply.marks[BY_UNIT] != 0 and has_moved(view, job)
    if net != before or moved or (in_flight and square_of(view, job, net) != square):
        if has_supply(view):
            recount_job(view, job, before, net, variance)
        running.net[block, k] = net
        running.net_sum[block] += net - before
        running.square_sum[block] += square_of(view, job, net) - square
        count_again(view, net - before, square_of(view, job, net) - square)
        view.now.dirty = 1


@inlined
def shows_idle(view: KernelView) -> bool:
    """Return whether the ledger counts idle units by samples that they share with busy ones."""
    measured, now = view.measured, view.now
    even = now.by_sample != 0 and now.share_busy == 0 and now.scope_jobs == 0
    return bool(even and len(measured.sample_uw) < len(measured.job))


@inlined
def count_idle(view: KernelView, sensor: int) -> None:
    """Count what the units of a sensor that run no job draw above idle watts."""
    measured, above = view.measured, as_int64(0)
    share = as_int64(measured.share_uw[sensor] - measured.idle_uw[sensor])
    shown = measured.busy[sensor] > 0 and measured.sample_uw[sensor] >= 0
    if shown or has_supply(view):
        for unit in range(measured.start[sensor], measured.start[sensor + 1]):
            here = shown and measured.job[unit] < 0 and measured.since_s[unit] <= measured.begin_s[sensor]
            uw = share if here else as_int64(0)
            above += uw
            if has_supply(view):
                count_idle_unit(view, as_int64(unit), uw)
    change_idle_above(view, as_int64(above - measured.idle_above_uw[sensor]))
    measured.idle_above_uw[sensor] = above


@kernel
def measured_net(view: KernelView, truth: Truth, job: int) -> int:
    """Return what the ledger counts for a running job: shares of samples, and predictions under the limits in force."""
    held, measured = view.held, view.measured
    option = as_int64(held.option[job])
    total = as_int64(0)
    if held.parked[job] != 0:
        return net_of(view, job, option, int(view.nodes[job] * view.units.idle_uw[view.units.option_partition[option]]))
    if len(view.evidence.left) > 0:
        uw = corrected_uw(view.evidence, job, expected_job_uw(view, truth, job))
        return net_of(view, job, option, as_int64(uw))
    since = measured.since_s[held.low[held.first[job]]]  # of all its units
    idle = 0 if view.now.scope_jobs != 0 else int(view.units.idle_uw[view.units.option_partition[option]])
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            sensor = measured.of_unit[unit]
            here = as_int64(measured.share_uw[sensor])
            if since > measured.begin_s[sensor]:
                here = as_int64(expected_uw(view, truth, job, unit))
            total += here
            if has_supply(view):
                view.supply.unit.fresh[unit] = max(here - idle, 0)
    return net_of(view, job, option, int(total))


@kernel
def expected_uw(view: KernelView, truth: Truth, job: int, unit: int) -> int:
    """Return the predicted microwatts of one unit of a running job under the limits in force."""
    factors = view.by_unit.factors
    watt = unit_uw(view.predicted, job, as_int64(view.held.option[job]))
    if factors.table.shape[0] > 0:
        watt = round(watt * factors.table[factors.row[job], unit])
    speed = job_speed(view, truth, as_int64(EXPECTED), job)
    return as_int64(slowed_uw(view, truth, job, watt, speed))


@kernel
def expected_job_uw(view: KernelView, truth: Truth, job: int) -> int:
    """Return the predicted microwatts of all units of a running job under the limits in force."""
    held, total = view.held, as_int64(0)
    if view.by_unit.factors.table.shape[0] == 0:  # the same for each of its units
        return int(int(view.nodes[job]) * expected_uw(view, truth, job, as_int64(held.low[held.first[job]])))
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            total += expected_uw(view, truth, job, unit)
    return total


@kernel
def note_evidence(view: KernelView, truth: Truth, job: int) -> None:
    """Add the latest samples to what is known of a running job, where all of them are new and of its own run alone.

    A job on several sensors was measured up to the oldest of their samples.
    """
    held, measured = view.held, view.measured
    if held.parked[job] != 0:
        return
    since = measured.since_s[held.low[held.first[job]]]  # of all its units
    end, uw = INF, as_int64(0)
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            sensor = measured.of_unit[unit]
            if since > measured.begin_s[sensor] or measured.sample_uw[sensor] < 0:
                return
            end = min(end, measured.end_s[sensor])
            uw += measured.share_uw[sensor]
    add_reading(view.evidence, job, uw, as_int64(expected_job_uw(view, truth, job)), end, since)


@separate
def sense_job(view: KernelView, truth: Truth, job: int, change: int) -> None:
    """Let the units of a running job draw what it really draws, or idle watts while it is suspended.

    ``change``: 1 where the job begins or is resumed, -1 where it ends or is suspended, and its units idle; 0 where it
    only draws other watts.
    """
    held, measured, factors, time_s = view.held, view.measured, truth.by_unit, view.now.time_s
    idle = as_int64(view.units.idle_uw[view.units.option_partition[held.option[job]]])
    draws = change >= 0 and held.parked[job] == 0
    equal = as_int64(truth.uw[job] // view.nodes[job]) if draws else idle
    differ = draws and factors.table.shape[0] > 0
    ended = periods(time_s, truth.sensors.figures.sample_s)
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            watt, sensor = equal, as_int64(measured.of_unit[unit])
            if differ:
                uw = round(true_unit_uw(view, truth, job) * factors.table[factors.row[job], unit])
                watt = as_int64(slowed_uw(view, truth, job, uw, job_speed(view, truth, as_int64(TRUE), job)))
            sense_unit(view, truth, unit, watt, ended)
            if change != 0:
                measured.busy[sensor] += int(change > 0) - int(measured.job[unit] >= 0)
                measured.job[unit] = job if change > 0 else -1
                measured.since_s[unit] = time_s
                list_sensor(view, sensor)
        if change != 0 and shows_idle(view):
            for sensor in range(measured.of_unit[held.low[k]], measured.of_unit[held.high[k]] + 1):
                count_idle(view, as_int64(sensor))


@kernel
def date_job(view: KernelView, job: int, time: float) -> float:
    """Let samples that begin before ``time`` say nothing of a running job; return the time that held before.

    For a job that may draw more than it did: its prediction counts until there is a sample of the time since.
    """
    held, measured = view.held, view.measured
    before = measured.since_s[held.low[held.first[job]]]
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            measured.since_s[unit] = time
            list_sensor(view, as_int64(measured.of_unit[unit]))
    return float(before)
