"""Arrays of a state before anything has happened: nothing queued, nothing running, all units free."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels._numba import AT_LEAST_LANES
from wattqueue.kernels.arrays import kernel_array, lengthened
from wattqueue.kernels.state import (
    AnnouncedLimits,
    Heap,
    Held,
    KernelEvidence,
    LimitCurves,
    LimitedDevices,
    Log,
    Phases,
    ReservationPlan,
    Reservations,
    RunningBlocks,
    SensorFigures,
    Sensors,
    SensorSamples,
    SupplyAhead,
    SupplyClasses,
    SupplyLimits,
    SupplyPlacement,
    SupplyUnits,
    Units,
)

INF = float("inf")


def no_limits() -> AnnouncedLimits:
    """Make the announced limits of a pass that does not look ahead."""
    return limits_of(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int8), 0)


def limits_of(time_s: np.ndarray, limit_uw: np.ndarray, in_target: np.ndarray, most: int) -> AnnouncedLimits:
    """Make announced limits of rows, shapes (k,), of which at most so many are announced at one time."""
    zero = np.zeros(most, np.int64)
    return AnnouncedLimits(time_s, limit_uw, in_target, zero, zero.copy(), zero.copy())


def no_measured() -> SensorSamples:
    """Return the samples of a view in which nothing measures."""
    none, number, whole, bits = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.uint64)
    return SensorSamples(
        number, number, whole, none, none, whole, whole, whole, whole, number, number, none, bits, none, bits
    )


def new_devices(
    start: NDArray[np.int32], of_unit: NDArray[np.int32], idle_uw: NDArray[np.int64], jobs: int
) -> LimitedDevices:
    """Make the devices of a machine on which nothing runs and nothing is limited.

    ``start`` (D + 1,) first unit of each; ``of_unit`` (U,) device of each unit; ``idle_uw`` (U,) microwatts.
    """
    devices, units = len(start) - 1, len(of_unit)
    floor = np.add.reduceat(idle_uw, start[:-1]) if devices else np.zeros(0, np.int64)
    return LimitedDevices(
        start,
        of_unit,
        np.full(devices, INF),
        np.full(units, -1, np.int32),
        np.repeat(floor[np.newaxis], 2, axis=0),
        np.zeros((2, devices), np.int64),
        np.ones((2, devices)),
        np.empty(devices, np.int32),
        np.zeros(devices, np.int8),
        np.empty(units + 1, np.int32),
        np.empty(units + 1, np.int64),
        np.zeros(jobs, np.int8),
    )


def new_units(
    counts: NDArray[np.int64],
    idle_uw: NDArray[np.int64],
    most_uw: NDArray[np.int64],
    option_partition: NDArray[np.int32],
) -> Units:
    """Make the bitmap of a machine on which every unit is free.

    ``counts`` (P,) units of each partition; ``idle_uw`` and ``most_uw`` (P,) idle and greatest microwatts of one;
    ``option_partition`` (O,). Bits beyond the last unit of a partition stay 0, so that no search finds them.
    """
    words = -(-counts // 64)
    word_start = np.concatenate(([0], np.cumsum(words))).astype(np.int64)
    word = np.full(word_start[-1], np.iinfo(np.uint64).max, np.uint64)
    for p, count in enumerate(counts):
        if count % 64:
            word[word_start[p + 1] - 1] = np.uint64((1 << int(count % 64)) - 1)
    filled = np.zeros(len(word) // 64 + 1, np.uint64)
    filled[: len(word) // 64] = np.iinfo(np.uint64).max
    filled[-1] = np.uint64((1 << (len(word) % 64)) - 1)
    unit_start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    of_option = kernel_array(option_partition, np.int32)
    first = word_start[:-1].copy()
    by_number = np.empty((0, 0), np.int32), np.empty((0, 0), np.uint64)
    return Units(word, filled, word_start, first, unit_start, counts.copy(), idle_uw, most_uw, of_option, *by_number)


def ranked_units(units: Units, order: NDArray[np.int32]) -> Units:
    """Return the bitmap of free units with one for each order of placement (R, U) beside it; every unit is free."""
    place = np.empty((order.shape[1], len(order)), np.int32)
    for p in range(len(units.free)):
        first, end = units.unit_start[p], units.unit_start[p + 1]
        for r, row in enumerate(order):
            place[row[first:end], r] = np.arange(end - first)
    return units._replace(place=place, by_rank=np.repeat(units.word[np.newaxis], len(order), axis=0))


def new_held(n: int, intervals: int) -> Held:
    """Make the table of what jobs hold: nothing.

    ``intervals`` is the number of rows of the interval log. The engine lengthens it when it may run full; a job on
    neighbouring units takes one row.
    """
    return Held(
        np.full(n, -1, np.int16),
        np.zeros(n),
        np.ones(n),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
        np.empty(intervals, np.int32),
        np.empty(intervals, np.int32),
        np.zeros(n, np.int8),
        np.zeros(n),
    )


PLAN_ROWS = 4096
"""Rows of a new plan; the engine enlarges it while it runs (``wider_plan``)."""


def new_plan(n: int, partitions: int, rows: int = PLAN_ROWS) -> ReservationPlan:
    """Make an empty plan for ``n`` jobs; ``rows`` of profile, and at least as many as are read at once."""
    rows = max(rows, AT_LEAST_LANES)
    return ReservationPlan(
        np.empty(rows),
        np.empty((partitions, rows), np.int64),
        np.empty(rows, np.int64),
        np.full(n, -1, np.int32),
        np.zeros(n),
        np.zeros(n, np.int32),
    )


def no_plan(partitions: int) -> ReservationPlan:
    """Make the plan of a view whose pass is not conservative: nothing reads it."""
    return ReservationPlan(
        np.empty(0), np.empty((partitions, 0), np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0),
        np.empty(0, np.int32),
    )  # fmt: skip


def wider_plan(plan: ReservationPlan, *, in_place: bool = True) -> ReservationPlan:
    """Return the plan with twice the rows; ``time`` and ``watt`` are ``lengthened``, ``nodes`` is copied."""
    nodes = np.concatenate((plan.nodes, np.empty_like(plan.nodes)), axis=1)
    return lengthened(plan, len(plan.time), "time", "watt", in_place=in_place)._replace(nodes=nodes)


BLOCK = 64


def new_running(capacity: int, partitions: int) -> RunningBlocks:
    """Make blocks for ``capacity`` running jobs.

    Sparse neighbours are joined (``running_tidy``), so that two neighbours hold more than 32 jobs together; four
    times the blocks that full ones would take always suffice.
    """
    blocks = 4 * (capacity // BLOCK + 1) + 2
    return RunningBlocks(
        np.empty((blocks, BLOCK)),
        np.empty((blocks, BLOCK), np.int32),
        np.empty((blocks, BLOCK), np.int64),
        np.zeros(blocks, np.int32),
        np.zeros(blocks),
        np.zeros(blocks, np.int64),
        np.zeros((blocks, partitions), np.int64),
        np.zeros(blocks, np.int64),
        np.arange(blocks, dtype=np.int32),
    )


def new_reservations(partitions: int) -> Reservations:
    """Make the reservations of a greedy pass: none."""
    return Reservations(
        np.full(partitions, -1, np.int32),
        np.zeros(partitions),
        np.zeros(partitions, np.int64),
        np.zeros(partitions, np.int64),
        np.zeros(partitions, np.int64),
        np.zeros(partitions, np.int64),
        np.full(partitions, -1, np.int64),
    )


def no_supply() -> SupplyLimits:
    """Make the tree of a machine without domains."""
    one, units, flat = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0)
    more, cubes = np.zeros((0, 0), np.int64), np.zeros((0, 0, 0), np.float32)
    flats, whole = np.zeros((0, 0), np.float32), np.zeros((0, 2, 0), np.int64)
    classes = SupplyClasses(one, flats, cubes, cubes, flats, more, more, more, more,
                            np.zeros((0, 0), np.int8), one, units, np.zeros(0, np.int8))  # fmt: skip
    return SupplyLimits(
        units, units, flat, one, one, one, more, flat, flat, more, more, units, units, units, units, units, more, one,
        more, more, whole, more, more, one, one, more, more, one, one, units, one, one, one, one, one, more, one, flat,
        one, classes, SupplyPlacement(flat, flat, flat, one), no_domains_ahead(0), SupplyUnits(one, one, one, one),
    )  # fmt: skip


def no_domains_ahead(domains: int) -> SupplyAhead:
    """Make the announced limits of domains of a pass that does not look ahead."""
    return domains_ahead(np.zeros(0), np.zeros(1, np.int64), np.zeros(0), np.zeros((0, domains), np.int64))


def domains_ahead(
    known_s: np.ndarray, epoch_start: np.ndarray, time_s: np.ndarray, limit_uw: np.ndarray
) -> SupplyAhead:
    """Make announced limits of domains of some rows: see ``SupplyAhead``."""
    most, domains = int(np.diff(epoch_start).max(initial=0)), limit_uw.shape[1]
    stamp = np.full(most, -1, np.int64)
    return SupplyAhead(
        known_s, epoch_start, time_s, limit_uw, stamp, stamp.copy(), np.zeros((most, domains), np.int64),
        np.zeros((most, 2, domains), np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


def no_phases() -> Phases:
    """Return the phases of a run whose jobs draw constant watts."""
    none, whole = np.empty(0), np.empty(0, np.int64)
    return Phases(np.empty(0, np.int32), none, none, whole, np.empty(0, np.float32), whole, whole, whole, whole)


def new_log(n: int) -> Log:
    """Make the log of a run in which nothing has happened; room for a power step a job, most traces need somewhat more.

    numpy asks for huge pages for a part of a new array, and the system moves no half of a mapping: the first time
    that a column is lengthened copies it. So that is to happen early, while other buffers still are short.
    """
    rows = n + 1024
    return Log(
        np.zeros(n, np.int8), np.zeros(n, np.int8), np.full(n, np.nan), np.full(n, np.nan), np.zeros(n), np.zeros(n),
        np.zeros(n), np.zeros(n), np.full(n, -1, np.int16), np.empty(rows), np.empty(rows, np.int64),
        np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(n, np.int32),
        np.zeros(n, np.int16), np.zeros(n),
    )  # fmt: skip


def no_sensors() -> Sensors:
    """Return the sensors of a run in which nothing measures."""
    none, whole = np.empty(0), np.empty(0, np.int64)
    return Sensors(whole, whole, none, whole, none, np.empty((0, 0)), SensorFigures(), none, none)


def new_heap(capacity: int, ids: int) -> Heap:
    """Make an empty heap for ``capacity`` of ``ids`` different ids."""
    return Heap(np.empty(capacity), np.empty(capacity, np.int32), np.full(ids, -1, np.int32), np.zeros(1, np.int64))


def no_curves() -> LimitCurves:
    """Return no curves: all run times under limits follow from the machine's exponents."""
    return LimitCurves(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0), np.zeros(0))


def no_evidence() -> KernelEvidence:
    """Return the evidence of a view whose predictions measurements do not correct."""
    return KernelEvidence(np.zeros(0), np.zeros((0, 4)), np.zeros(0))
