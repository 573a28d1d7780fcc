"""Power sensors of the simulated machine: exact integrals of true watts, and what a reading says of them.

A sensor covers neighbouring units: a socket, or a node. Its sample k is the mean of their true watts over seconds
k p to (k + 1) p of the clock, where p is its period. A *reading* is the mean of the samples that have ended by the last
poll and lie within the averaging time before it, at least of the latest one. ``model/power_sensor.py`` says the same of
a whole power series.

Energy is added up where the watts of a unit change, and where a sensor is read; nothing happens in between, so that a
machine on which nothing changes costs nothing. A job that starts, ends, or draws other watts changes the units that it
holds (``measured.sense_job``), a node that stops or boots all of its units.

Noise and loss are drawn from columns of random numbers that are made before the run, by sensor and sample: they do not
depend on when, or how often, a sensor is read.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.bits import ONE
from wattqueue.kernels.state import KernelView, SensorFigures, Sensors, Truth

NEAR = 1e-9  # share of a period by which a time may fall short of a whole number of periods and still counts as one
STEP_SENSOR = 7919  # primes, so that sensors and samples walk through the random numbers differently
STEP_SAMPLE = 104_729


def new_sensors(
    start: NDArray[np.int32],
    idle_uw: NDArray[np.int64],
    figures: SensorFigures,
    begin_s: float,
    rng: np.random.Generator,
) -> Sensors:
    """Return the sensors of a machine that has been idle up to ``begin_s``.

    ``start`` (S + 1,) first unit of each; ``idle_uw`` (U,) microwatts.
    """
    period = figures.sample_s
    least = math.ceil((figures.average_s + figures.poll_s) / period) + 3
    rows = 1 << (least - 1).bit_length()  # a power of two, so that the column of a sample is found without a division
    watt = np.add.reduceat(idle_uw, start[:-1])
    number = math.floor(begin_s / period + NEAR)
    count = len(watt)
    energy = np.repeat((watt * period)[:, np.newaxis], rows, axis=1)
    return Sensors(
        idle_uw.copy(),
        watt,
        np.full(count, number * period),
        np.full(count, number, np.int64),
        np.zeros(count),
        np.ascontiguousarray(energy),
        figures,
        rng.standard_normal(65_521) if figures.noise > 0 else np.empty(0),
        rng.random(65_521) if figures.loss > 0 else np.empty(0),
    )


@inlined
def periods(time: float, period: float) -> int:
    """Return how many whole periods have ended by ``time``."""
    return math.floor(time / period + NEAR)


@inlined
def advance_sensor(truth: Truth, sensor: int, now: float, period: float, ended: int) -> None:
    """Count the energy of a sensor up to ``now``, and put away the samples of which ``ended`` have ended by then."""
    sensors = truth.sensors
    rows = sensors.energy_uj.shape[1]
    watt, number = sensors.watt_uw[sensor], sensors.sample[sensor]
    if number < ended:
        rest = (number + 1) * period - sensors.since_s[sensor]
        sensors.energy_uj[sensor, number & (rows - 1)] = sensors.part_uj[sensor] + watt * rest
        for k in range(max(number + 1, ended - rows), ended):
            sensors.energy_uj[sensor, k & (rows - 1)] = watt * period
        sensors.sample[sensor] = ended
        sensors.part_uj[sensor] = 0.0
        sensors.since_s[sensor] = ended * period
    sensors.part_uj[sensor] += watt * (now - sensors.since_s[sensor])
    sensors.since_s[sensor] = now


@inlined
def list_sensor(view: KernelView, sensor: int) -> None:
    """Let readings look at a sensor until one covers no time before now (``kernels/measured.py``)."""
    view.measured.moved_s[sensor] = view.now.time_s
    view.measured.pending[sensor >> 6] |= ONE << np.uint64(sensor & 63)


@inlined
def sense_unit(view: KernelView, truth: Truth, unit: int, uw: int, ended: int) -> None:
    """Let a unit draw ``uw`` microwatts from now on; ``ended`` samples are over."""
    sensors = truth.sensors
    more = uw - sensors.unit_uw[unit]
    if more == 0:
        return
    sensor = as_int64(view.measured.of_unit[unit])
    advance_sensor(truth, sensor, view.now.time_s, sensors.figures.sample_s, ended)
    list_sensor(view, sensor)
    sensors.watt_uw[sensor] += more
    sensors.unit_uw[unit] = uw


@kernel
def sense_node(view: KernelView, truth: Truth, node: int, uw: int) -> None:
    """Let the units of a node without a job draw equal shares of ``uw`` microwatts."""
    low, high = truth.node_start[node], truth.node_start[node + 1]
    ended = periods(view.now.time_s, truth.sensors.figures.sample_s)
    for unit in range(low, high):
        # What does not divide evenly goes to the first units, a microwatt each.
        sense_unit(view, truth, unit, as_int64((uw + (high - 1 - unit)) // (high - low)), ended)


@inlined
def reading_is_lost(truth: Truth, sensor: int, now: float) -> bool:
    """Return whether the last poll of a sensor gave nothing."""
    sensors = truth.sensors
    if len(sensors.uniform) == 0:
        return False
    poll = periods(now, sensors.figures.poll_s)
    at = (sensor * STEP_SENSOR + poll * STEP_SAMPLE) % len(sensors.uniform)
    return bool(sensors.uniform[at] < sensors.figures.loss)


@kernel
def samples_shown(truth: Truth, now: float) -> tuple[int, int]:
    """Return the numbers of the first sample, and behind the last one, that a reading now is the mean of."""
    figures = truth.sensors.figures
    period, poll_s = figures.sample_s, figures.poll_s
    poll = periods(now, poll_s) * poll_s
    behind = periods(poll, period)
    return min(periods(poll - figures.average_s, period), behind - 1), behind


@inlined
def read_sensor(truth: Truth, sensor: int, period: float, first: int, behind: int) -> int:
    """Return the microwatts that a sensor shows: the mean of samples ``first`` to ``behind`` - 1."""
    sensors = truth.sensors
    rows = sensors.energy_uj.shape[1]
    total = 0.0
    for k in range(first, behind):
        sample = sensors.energy_uj[sensor, k & (rows - 1)]
        if len(sensors.normal) > 0:
            at = (sensor * STEP_SENSOR + k * STEP_SAMPLE) % len(sensors.normal)
            sample = max(0.0, sample * (1.0 + sensors.figures.noise * sensors.normal[at]))
        total += sample
    return as_int64(round(total / ((behind - first) * period)))
