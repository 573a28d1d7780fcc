"""Runs to report on: one small enough to work out by hand, and generated ones of any size."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.schedule import PowerSeries, Reason, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.report.compare.groups import Member
from wattqueue.report.load import of_record
from wattqueue.report.run import About, RunData

FAST_AND_SLOW = Machine(
    "two-speeds",
    (
        Partition("fast", 6, frequencies_hz=(2.4e9, 1.2e9), idle_w=100.0, max_w=400.0),
        Partition("plain", 4, frequencies_hz=(2.0e9,), idle_w=50.0, max_w=300.0),
    ),
    source="typed in for a test",
)


def schedule_of(
    jobs: Jobs, start_s: NDArray[np.float64], units: list[list[tuple[int, int]]], option: NDArray[np.int16]
) -> Schedule:
    """A schedule from starts and held intervals; a job without intervals was rejected."""
    ran = np.array([bool(held) for held in units])
    flat = [pair for held in units for pair in held]
    count = np.array([len(held) for held in units], np.int32)
    watts = np.zeros(len(jobs)) if jobs.mean_power_w is None else jobs.mean_power_w
    end = np.where(ran, start_s + jobs.runtime_s, np.nan)
    return Schedule(
        np.where(ran, State.COMPLETED, State.REJECTED).astype(np.int8),
        np.where(ran, 0, 1).astype(np.int8),
        np.where(ran, start_s, np.nan),
        end,
        np.where(ran, option, -1).astype(np.int16),
        np.where(ran, watts * jobs.nodes * jobs.runtime_s, 0.0),
        watts * jobs.nodes * 1.1,
        (np.cumsum(count) - count).astype(np.int64),
        count,
        np.array([low for low, _ in flat], np.int32),
        np.array([high for _, high in flat], np.int32),
    )


def power_of(jobs: Jobs, schedule: Schedule, machine: Machine, unit_idle_w: NDArray[np.float64]) -> PowerSeries:
    """The machine's power, summed job by job."""
    ran = np.flatnonzero(schedule.ran)
    time = np.unique(np.concatenate(([jobs.submit_s.min()], schedule.start_s[ran], schedule.end_s[ran])))
    assert jobs.mean_power_w is not None
    watts, idle, busy = np.zeros(len(time)), np.zeros(len(time)), np.zeros(len(time), np.int32)
    for j in ran:
        on = (time >= schedule.start_s[j]) & (time < schedule.end_s[j])
        first = schedule.unit_start[j]
        held = slice(first, first + schedule.unit_count[j])
        pairs = zip(schedule.unit_low[held], schedule.unit_high[held], strict=True)
        watts[on] += jobs.mean_power_w[j] * jobs.nodes[j]
        idle[on] += sum(unit_idle_w[low : high + 1].sum() for low, high in pairs)
        busy[on] += jobs.nodes[j]
    return PowerSeries(time, watts, machine.idle_w - idle, idle, busy)


def by_hand(cap: Cap | None = None) -> RunData:
    """Four jobs on ten units: waits 0, 0, 90 s; the fourth is too wide.

    ====  ======  =====  =======  =====  ====  ========  =====
    job   submit  nodes  runtime  start  end   units     watts
    ====  ======  =====  =======  =====  ====  ========  =====
    1     1000    4      100      1000   1100  0-3       300
    2     1010    3      200      1010   1210  6-8       200
    3     1010    5      60       1100   1160  0-3, 5    400
    4     1020    99     10       -      -     -         100
    ====  ======  =====  =======  =====  ====  ========  =====
    """
    jobs = Jobs.build(
        [1000, 1010, 1010, 1020],
        [4, 3, 5, 99],
        [100, 200, 60, 10],
        user=["ann", "bob", "ann", "cy"],
        mean_power_w=[300, 200, 400, 100],
    )
    held = [[(0, 3)], [(6, 8)], [(0, 3), (5, 5)], []]
    schedule = schedule_of(jobs, np.array([1000.0, 1010.0, 1100.0, np.nan]), held, np.array([0, 2, 1, -1], np.int16))
    idle = np.array([100.0] * 6 + [50.0] * 4)
    power = power_of(jobs, schedule, FAST_AND_SLOW, idle)
    found = {"schema_version": 1, **metrics(jobs, schedule, power, FAST_AND_SLOW, cap or Cap.none())}
    about = About(
        "easy",
        "history-mean",
        "typed in",
        "generated",
        machine="two-speeds",
        machine_source="typed in for a test",
        seed=7,
        cap="1.9 kW",
    )
    return RunData.of(jobs, schedule, power, FAST_AND_SLOW, cap or Cap.none(), metrics=found, about=about)


def generated(jobs: int, units: int = 64, seed: int = 1, cap_share: float = 0.8, policy: str = "easy") -> RunData:
    """A run of generated jobs, as a report sees it."""
    return of_record(generated_record(jobs, units, seed, cap_share, policy))


def generated_record(
    jobs: int, units: int = 64, seed: int = 1, cap_share: float = 0.8, policy: str = "easy", *,
    used: int | None = None, left: int = 0,
) -> RunRecord:  # fmt: skip
    """Jobs of a seeded generator, each put on the units that are free first. The cap is not looked at.

    ``used`` units are taken, all by default; the last ``left`` jobs never run.
    """
    chance = np.random.default_rng(seed)
    size = np.minimum(np.round(chance.lognormal(1.0, 1.0, jobs)) + 1, units // 2).astype(np.int32)
    runtime = np.round(np.clip(chance.lognormal(6.0, 1.3, jobs), 10, 86_400))  # whole seconds, as traces have them
    submit = np.round(np.cumsum(chance.exponential((size * runtime).sum() / (0.85 * units * jobs), jobs)))
    user = chance.zipf(1.5, jobs) % 40
    table = Jobs.build(
        submit,
        size,
        runtime,
        walltime_s=runtime * chance.uniform(1, 3, jobs),
        user=[f"u{u}" for u in user],
        mean_power_w=np.clip(chance.normal(260 + 4 * user, 25), 110, 480),
        origin="generated",
    )
    machine = Machine(
        "generated", (Partition("batch", units, frequencies_hz=(2.6e9, 2.0e9), idle_w=90.0, max_w=480.0),)
    )
    start, held = place(table, used or units)
    option = (chance.random(jobs) < 0.4).astype(np.int16)
    schedule = unfinished(schedule_of(table, start, held, option), left)
    schedule = replace(schedule, predicted_w=schedule.predicted_w * chance.normal(1.0, 0.1, jobs))
    power = power_fast(table, schedule, machine)
    cap = Cap.constant(cap_share * float(power.machine_w.max()))
    found = metrics(table, schedule, power, machine, cap)
    task = {"workload": "test:load=0.85", "policy": policy, "cap": f"{cap_share:.0%} of the peak", "seed": seed}
    facts = {"task": task, "policy": {"estimator": "history-mean", "order": "fcfs", "backfill": "easy"}}
    return RunRecord(table, machine, cap, schedule, power, found, facts)


def unfinished(schedule: Schedule, left: int) -> Schedule:
    """The same schedule, whose last jobs were still queued at the end."""
    gone = np.arange(len(schedule.state)) >= len(schedule.state) - left
    times = [np.where(gone, np.nan, column) for column in (schedule.start_s, schedule.end_s)]
    return replace(
        schedule,
        state=np.where(gone, State.NOT_STARTED, schedule.state).astype(np.int8),
        reason=np.where(gone, Reason.QUEUED, schedule.reason).astype(np.int8),
        start_s=times[0],
        end_s=times[1],
        option=np.where(gone, -1, schedule.option).astype(np.int16),
        energy_j=np.where(gone, 0.0, schedule.energy_j),
        unit_count=np.where(gone, 0, schedule.unit_count).astype(np.int32),
    )


def member(policy: str, seed: int, *, units: int = 64, jobs: int = 400) -> Member:
    """A run as a comparison sees it; policies differ by the number of units that they waste."""
    record = generated_record(jobs, units, seed, policy=policy)
    return Member(f"out/{policy}-{seed}", record.facts, of_record(record))


def place(jobs: Jobs, units: int) -> tuple[NDArray[np.float64], list[list[tuple[int, int]]]]:
    """First come, first served on the units that are free first."""
    free = [(0.0, unit) for unit in range(units)]
    start, held = np.zeros(len(jobs)), []
    before = 0.0
    for j in range(len(jobs)):
        taken = [heapq.heappop(free) for _ in range(jobs.nodes[j])]
        before = start[j] = max(before, float(jobs.submit_s[j]), taken[-1][0])
        for _, unit in taken:
            heapq.heappush(free, (start[j] + float(jobs.runtime_s[j]), unit))
        held.append(intervals(sorted(unit for _, unit in taken)))
    return start, held


def intervals(units: list[int]) -> list[tuple[int, int]]:
    """Rising unit numbers as intervals, both ends included."""
    found: list[tuple[int, int]] = []
    for unit in units:
        if found and found[-1][1] == unit - 1:
            found[-1] = (found[-1][0], unit)
        else:
            found.append((unit, unit))
    return found


def power_fast(jobs: Jobs, schedule: Schedule, machine: Machine) -> PowerSeries:
    """As power_of, for one partition, in one sum over all starts and ends."""
    assert jobs.mean_power_w is not None
    at = np.concatenate((schedule.start_s, schedule.end_s))
    order = np.argsort(at, kind="stable")
    sign = np.repeat([1.0, -1.0], len(jobs))
    watts = np.cumsum((sign * np.tile(jobs.mean_power_w * jobs.nodes, 2))[order])
    busy = np.cumsum((sign * np.tile(jobs.nodes, 2))[order])
    time = at[order]
    last = np.append(np.diff(time) > 0, True)
    idle = machine.partitions[0].idle_w
    busy = busy[last]
    jobs_w = np.where(busy > 0, np.maximum(watts[last], 0.0), 0.0)
    first = np.array([jobs.submit_s.min()])
    pad = np.zeros(1)
    return PowerSeries(
        np.concatenate((first, time[last])),
        np.concatenate((pad, jobs_w)),
        np.concatenate((pad + machine.idle_w, (machine.units - busy) * idle)),
        np.concatenate((pad, busy * idle)),
        np.concatenate((pad, busy)).astype(np.int32),
    )
