"""What jobs really do: true run times and watts, and the events that come from outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.kernels import codes, state
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.estimator._scale import static_prediction
from wattqueue.policy.build import kernel_array, rows_of

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class NodeEvents:
    """Units that fail (``up`` False) and return (True), in order of time. Shapes (k,)."""

    time_s: Array
    unit: NDArray[np.int32]
    up: NDArray[np.bool_]

    @classmethod
    def none(cls) -> NodeEvents:
        """No failure."""
        return cls(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        if not len(self.time_s) == len(self.unit) == len(self.up):
            raise InputError("node events: columns differ in length")
        if (np.diff(self.time_s) < 0).any() or not np.isfinite(self.time_s).all():
            raise InputError("node events: times must be finite and must not fall")


def actual_power(jobs: Jobs, machine: Machine) -> Prediction:
    """True watts of one unit by option: the trace's mean, else the unit's maximum (NaN: unknown)."""
    if jobs.mean_power_w is None and jobs.max_power_w is None:
        return static_prediction(np.full(1, np.nan), machine, np.zeros(len(jobs), np.int32))
    power = jobs.max_power_w if jobs.mean_power_w is None else jobs.mean_power_w
    return static_prediction(np.asarray(power), machine)


def empty_heap(capacity: int, ids: int) -> state.Heap:
    """Room for ``capacity`` of ``ids`` different ids."""
    return state.Heap(np.empty(capacity), np.empty(capacity, np.int32), np.full(ids, -1, np.int32))


def node_figures(machine: Machine) -> Array:
    """Seconds, microwatts and exponents of each partition's units. Shape (P, FIGURES)."""
    figures = np.zeros((len(machine.partitions), codes.FIGURES))
    for p, part in enumerate(machine.partitions):
        figures[p, codes.BOOT_S], figures[p, codes.SHUTDOWN_S] = part.boot_s, part.shutdown_s
        watts = np.array([part.boot_w, part.shutdown_w, part.off_w])
        figures[p, [codes.BOOT_UW, codes.SHUTDOWN_UW, codes.OFF_UW]] = np.rint(watts * codes.MICRO)
        figures[p, codes.BETA], figures[p, codes.ALPHA] = part.dvfs_beta, part.dvfs_alpha
    return figures


def cap_microwatts(cap: Cap) -> NDArray[np.int64]:
    """The cap's values as int64 microwatts; no cap is a number that no machine reaches."""
    high = cap.cap_w * codes.MICRO >= codes.NO_CAP
    return np.where(high, codes.NO_CAP, np.rint(np.where(high, 0.0, cap.cap_w) * codes.MICRO)).astype(np.int64)


def build_truth(
    jobs: Jobs, machine: Machine, actual: Prediction, reject: NDArray[np.int8], cap: Cap, events: NodeEvents
) -> state.Truth:
    """The world at rest before the first submission."""
    n, units = len(jobs), machine.units
    if len(events.unit) and (events.unit.min() < 0 or events.unit.max() >= units):
        raise InputError(f"node events name a unit outside 0..{units - 1}")
    tally = np.zeros(codes.TALLY_SLOTS, np.int64)
    tally[codes.OTHER_UW] = sum(p.units * round(p.idle_w * codes.MICRO) for p in machine.partitions)
    node_order = np.lexsort((events.unit, events.up, events.time_s))  # of one instant: down before up, then by unit
    when = np.full(codes.WHEN_SLOTS, np.inf)
    when[[codes.PASS_INTERVAL, codes.PATIENCE]] = 0.0
    kill = jobs.runtime_s > jobs.walltime_s
    work = np.minimum(jobs.runtime_s, jobs.walltime_s) if kill.any() else kernel_array(jobs.runtime_s, np.float64)
    return state.Truth(
        work,
        rows_of(actual),
        kill,
        np.zeros(n, np.int64),
        np.ones(n),
        reject,
        kernel_array(jobs.submit_s, np.float64),
        np.argsort(jobs.submit_s, kind="stable").astype(np.int32),
        kernel_array(cap.time_s, np.float64),
        cap_microwatts(cap),
        kernel_array(events.time_s[node_order], np.float64),
        events.unit[node_order].astype(np.int32),
        events.up[node_order].astype(np.int8),
        empty_heap(min(n, units) + 1, n),
        empty_heap(units + 1, units),
        np.zeros(units, np.int8),
        np.full(units, np.inf),
        node_figures(machine),
        when,
        tally,
        np.zeros(codes.WISH_SLOTS, np.int64),
    )
