"""What jobs really do: true run times and watts, and the events that come from outside.

The truth is in a tuple of its own, which policies never see (rule 11 of docs/semantics.md). Only the loop and the
actions that it carries out read it. It consists of:

* for each job, its work (seconds at reference speed) and whether its walltime kills it;
* true watts and time factors by option: the trace's, scaled by the machine's exponents to other frequencies, unless
  the caller hands in its own; and true factors of units that differ, in watts or in run time, if the caller has them
  (a job without an application draws the same on every unit, and takes as long);
* events in order of time: submissions, steps of the cap, failures and returns of nodes;
* the two heaps of events that arise during the run, and the state of each unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.kernels import codes, state
from wattqueue.kernels.arrays import kernel_array, microwatts_of
from wattqueue.kernels.fresh import new_devices, new_heap, no_curves, no_phases, no_sensors
from wattqueue.kernels.sensors import new_sensors
from wattqueue.model.bounds import PERIOD_S
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals, next_targets, ramp_after
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.scale import static_prediction
from wattqueue.policy.build import rows_of, unit_idle_uw
from wattqueue.policy.by_unit import unit_factors, without_factors

if TYPE_CHECKING:
    from wattqueue.model.power_sensor import PowerSensor

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NodeEvents:
    """Nodes that fail (``up`` False) and return (True), in order of time. Shapes (k,)."""

    time_s: Array
    """Seconds on the trace's clock; must not fall."""
    unit: NDArray[np.int32]
    """Number of a unit of the node over the whole machine; all units of the node fail and return with it."""
    up: NDArray[np.bool_]
    """False: the node fails; True: it returns."""

    @classmethod
    def none(cls) -> NodeEvents:
        """Return an empty series."""
        return cls(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        """Raise InputError for columns of different lengths, and times that fall or are not finite."""
        if not len(self.time_s) == len(self.unit) == len(self.up):
            raise InputError("node events: columns differ in length")
        if (np.diff(self.time_s) < 0).any() or not np.isfinite(self.time_s).all():
            raise InputError("node events: times must be finite and must not fall")


def actual_power(jobs: Jobs, machine: Machine) -> Prediction:
    """Return true watts of one unit by option: the trace's mean, else the unit's maximum (NaN: unknown).

    The mean, because energy is what a run must get right; phases around it are added afterwards (``sim/profiles.py``).
    """
    if jobs.mean_power_w is None and jobs.max_power_w is None:
        return static_prediction(np.full(1, np.nan), machine, np.zeros(len(jobs), np.int32))
    power = jobs.max_power_w if jobs.mean_power_w is None else jobs.mean_power_w
    return static_prediction(np.asarray(power), machine)


def node_figures(machine: Machine) -> state.NodeFigures:
    """Return seconds, microwatts and exponents of each partition's nodes."""
    figures = [
        (p.boot_s, p.boot_w * codes.MICRO, p.shutdown_s, p.shutdown_w * codes.MICRO, p.off_w * codes.MICRO)
        for p in machine.partitions
    ]
    boot_s, boot_uw, shutdown_s, shutdown_uw, off_uw = np.array(figures, np.float64).reshape(-1, 5).T
    clock = np.array([(p.dvfs_beta, p.dvfs_alpha) for p in machine.partitions], np.float64).reshape(-1, 2)
    watts = np.rint(boot_uw), np.rint(shutdown_uw), np.rint(off_uw)
    return state.NodeFigures(boot_s.copy(), watts[0], shutdown_s.copy(), *watts[1:], *clock.T.copy())


def announced_steps(signals: Signals, time_s: Array, limit_uw: NDArray[np.int64]) -> state.AnnouncedSteps:
    """Return what each step of the limit says of load targets before and after them. Shapes as ``time_s``."""
    row = next_targets(signals.targets, time_s)
    ahead_s = np.append(signals.targets.start_s, np.inf)[row]
    rise = ramp_after(signals, time_s)
    targets_uw = np.where(signals.targets.in_force_at(time_s), limit_uw, np.int64(-1))
    ramp_uw = rise.ramp_w_per_s * codes.MICRO
    return state.AnnouncedSteps(
        kernel_array(ahead_s, np.float64),
        np.zeros(len(time_s), np.int64),
        np.zeros(len(time_s), np.int64),
        np.where(np.isfinite(ramp_uw), ramp_uw, 0.0),
        kernel_array(rise.step_s, np.float64),
        rise.top_w * codes.MICRO,
        microwatts_of(np.asarray(signals.cap.at(time_s), np.float64)),
        np.maximum.accumulate(limit_uw[::-1])[::-1].copy(),
        np.maximum.accumulate(targets_uw[::-1])[::-1].copy(),
        np.array([1.0, 0.0, 0.0, -1.0]),
    )


def phases_of(jobs: Jobs, work_s: Array) -> state.Phases:
    """Return the power profiles of jobs as kernels take them; ``work_s`` (n,) is what each of them does."""
    profiles = jobs.profiles
    if profiles is None:
        return no_phases()
    mean = np.nan_to_num(profiles.mean_power_w(work_s)) * codes.MICRO
    zero = np.zeros(len(jobs), np.int64)
    return state.Phases(
        kernel_array(profiles.pattern, np.int32),
        kernel_array(profiles.base_w, np.float64),
        kernel_array(profiles.scale_w, np.float64),
        np.rint(mean).astype(np.int64),
        kernel_array(profiles.level, np.float32),
        kernel_array(profiles.first, np.int64),
        kernel_array(profiles.resume, np.int64),
        zero,
        zero.copy(),
    )


STALE_PERIODS = 3.0
"""Readings that may be lost in a row before a sample is stale, where no age is stated."""


@dataclass(frozen=True, slots=True)
class SensorReading:
    """How power sensors are read (``parts/ledger/measured.py``)."""

    at_submission: bool = False
    """At submissions; else at each multiple of the sensor's period of readings."""
    stale_s: float | None = None
    """Age at which a sample is stale; None: three periods of the sensor and its readings."""
    ages: bool = False
    """Whether a sample becomes stale while nobody reads the sensor."""


def sensors_of(machine: Machine, sensor: PowerSensor, reading: SensorReading, begin_s: float) -> state.Sensors:
    """Return the power sensors of a machine that has been idle up to ``begin_s``."""
    figures = state.SensorFigures()
    stale_s = reading.stale_s
    if stale_s is None:
        stale_s = STALE_PERIODS * (sensor.sample_s + sensor.poll_s)
    figures.sample_s, figures.poll_s, figures.average_s = sensor.sample_s, sensor.poll_s, sensor.average_s
    figures.stale_s, figures.noise, figures.loss = stale_s, sensor.noise, sensor.loss
    # A constant seed: noise is a property of the machine's sensors, and the same run must give the same result.
    return new_sensors(machine.sensor_start, unit_idle_uw(machine), figures, begin_s, np.random.default_rng(1))


def profile_period(jobs: Jobs, phases_s: float) -> float:
    """Return the period of the power profiles. Raises: InputError where watts cannot follow them each ``phases_s``."""
    if jobs.profiles is None or (jobs.profiles.pattern < 0).all():
        raise InputError("phases_s without power profiles", where="jobs", hint="leave it out: watts are constant")
    PERIOD_S.require(phases_s, "phases_s")
    return jobs.profiles.period_s


def build_truth(
    jobs: Jobs, machine: Machine, actual: Prediction, reject: NDArray[np.int8], signals: Signals, events: NodeEvents,
    phases_s: float | None = None, reading: SensorReading | None = None, *, stores_work: bool = False,
) -> state.Truth:  # fmt: skip
    """Return the world at rest before the first submission: every unit on and idle, nothing submitted.

    Columns of the trace are taken as they are where type and layout allow; a copy of a long trace costs gigabytes.
    Work is at most the walltime, because a job that outruns it is killed there (rule 3 of docs/semantics.md).

    ``phases_s``: true watts follow the jobs' power profiles, sampled at each whole multiple of so many seconds.
    ``reading``: how the machine's power sensors are read; None where nobody reads them. ``stores_work``: a requeue may
    change the column of work.

    Raises: InputError for ``phases_s`` without profiles or too small, if events name a unit outside the machine, or a
    job an application without true factors.
    """
    n, units, cap = len(jobs), machine.units, signals.limit()
    unknown = without_factors(jobs.app, actual) & (jobs.app.codes >= 0)
    if unknown.any():
        raise InputError(
            "true watts by unit have no factors for an application",
            where=jobs.app.names[jobs.app.codes[np.argmax(unknown)]],
            hint="actual.unit_factor needs a row of figures for each application that jobs name",
        )
    if len(events.unit) and (events.unit.min() < 0 or events.unit.max() >= units):
        raise InputError(f"node events name a unit outside 0..{units - 1}")
    loop = state.EventLoopState()
    loop.control_at_s = loop.pass_at_s = loop.tick_at_s = loop.tick_period_s = loop.profile_period_s = np.inf
    loop.sample_at_s = loop.stale_at_s = loop.ramp_at_s = loop.delay_at_s = np.inf
    loop.other_uw = sum(p.units * codes.microwatts(p.idle_w) for p in machine.partitions)
    node_order = np.lexsort((events.unit, events.up, events.time_s))  # of one instant: down before up, then by unit
    if phases_s is not None:
        period_s = profile_period(jobs, phases_s)
        loop.tick_at_s, loop.tick_period_s, loop.profile_period_s = -np.inf, phases_s, period_s
    sensors = no_sensors()
    if reading is not None and machine.sensor is not None:
        sensors = sensors_of(machine, machine.sensor, reading, float(jobs.submit_s.min(initial=0.0)))
        loop.sensing, loop.on_submission, loop.ages = 1, reading.at_submission, reading.ages
        if not reading.at_submission:
            loop.sample_at_s = -np.inf
    kill = jobs.runtime_s > jobs.walltime_s
    work = np.minimum(jobs.runtime_s, jobs.walltime_s) if kill.any() else kernel_array(jobs.runtime_s, np.float64)
    if stores_work:
        work = work.copy()
    return state.Truth(
        work,
        rows_of(actual),
        unit_factors(jobs.app, actual.unit_factor),
        unit_factors(jobs.app, actual.unit_time_factor),
        no_curves(),
        phases_of(jobs, work) if phases_s else no_phases(),
        kill,
        np.zeros(n, np.int64),
        np.ones(n),
        np.zeros(n),
        reject,
        kernel_array(jobs.submit_s, np.float64),
        np.argsort(jobs.submit_s, kind="stable").astype(np.int32),
        kernel_array(cap.time_s, np.float64),
        microwatts_of(cap.cap_w),
        signals.targets.in_force_at(cap.time_s).astype(np.int8),
        announced_steps(signals, cap.time_s, microwatts_of(cap.cap_w)),
        kernel_array(events.time_s[node_order], np.float64),
        events.unit[node_order].astype(np.int32),
        events.up[node_order].astype(np.int8),
        new_heap(min(n, units) + 1, n),
        new_heap(machine.nodes + 1, machine.nodes),
        np.zeros(units, np.int8),
        machine.node_of_unit,
        machine.node_start,
        new_devices(machine.device_start, machine.device_of_unit, unit_idle_uw(machine), n),
        sensors,
        node_figures(machine),
        loop,
    )
