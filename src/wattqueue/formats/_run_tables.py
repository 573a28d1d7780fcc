"""The two large tables of a run directory as polars frames, both ways: jobs.csv and power.parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import _intervals
from wattqueue.formats.table import labels_of, plain
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import job_figures
from wattqueue.model.schedule import PowerSeries, Reason, Schedule, State
from wattqueue.model.signals import Cap

if TYPE_CHECKING:
    import polars as pl

STATES = {
    State.NOT_STARTED: "NOT_STARTED",
    State.COMPLETED: "COMPLETED_SUCCESSFULLY",
    State.KILLED: "COMPLETED_WALLTIME_REACHED",
    State.REJECTED: "REJECTED",
}
"""``final_state``: Batsim's words where it has one."""
REASONS = {Reason.NONE: "", Reason.TOO_WIDE: "too wide", Reason.TOO_MUCH_POWER: "too much power"}
BATSIM = (
    "job_id",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "workload_name",
)
"""The columns that evalys and Batsim users know, ahead of ours."""
OURS = (
    "user",
    "app",
    "partition",
    "frequency_hz",
    "predicted_w",
    "mean_power_w",
    "runtime_s",
    "bounded_slowdown",
    "reason",
)
NUMBERS = (*BATSIM[1:5], *BATSIM[6:12], "consumed_energy", *OURS[3:8])
DIGITS = 6
"""Decimals of differences and ratios: times count in microseconds."""


def jobs_frame(jobs: Jobs, schedule: Schedule, machine: Machine) -> pl.DataFrame:
    """One row a usable job; fields of a job that never ran are empty."""
    import polars as pl

    figures = job_figures(jobs, schedule)
    ran = schedule.ran
    with np.errstate(invalid="ignore", divide="ignore"):
        stretch = figures.turnaround_s / figures.run_s
        unit_w = schedule.energy_j / (figures.run_s * jobs.nodes)
    unit_w[~(unit_w > 0)] = np.nan
    partition = np.append(machine.option_partition, -1)[schedule.option]
    frequency = np.append(machine.option_frequency_hz, np.nan)[schedule.option]
    held = (schedule.unit_start, schedule.unit_count, schedule.unit_low, schedule.unit_high)
    columns: dict[str, Any] = {
        "job_id": _ids(jobs.job_id),
        "submission_time": jobs.submit_s,
        "requested_number_of_resources": jobs.nodes,
        "requested_time": jobs.walltime_s,
        "success": (schedule.state == State.COMPLETED).astype(np.int8),
        "final_state": _named(schedule.state, tuple(STATES[s] for s in State)),
        "starting_time": schedule.start_s,
        "execution_time": np.round(figures.run_s, DIGITS),
        "finish_time": schedule.end_s,
        "waiting_time": np.round(figures.wait_s, DIGITS),
        "turnaround_time": np.round(figures.turnaround_s, DIGITS),
        "stretch": np.round(stretch, DIGITS),
        "allocated_resources": pl.Series(_intervals.to_text(*held), dtype=pl.String),
        "consumed_energy": np.where(ran, schedule.energy_j, np.nan),
        # evalys labels each job with it, and cannot draw without.
        "workload_name": pl.repeat(jobs.origin, len(jobs), eager=True),
        "user": _named(jobs.user.codes, jobs.user.names),
        "app": _named(jobs.app.codes, jobs.app.names),
        "partition": _named(partition, tuple(p.name for p in machine.partitions)),
        "frequency_hz": frequency,
        "predicted_w": schedule.predicted_w,
        "mean_power_w": unit_w,
        "runtime_s": jobs.runtime_s,
        "bounded_slowdown": np.round(figures.bounded_slowdown, DIGITS),
        "reason": _named(schedule.reason, tuple(REASONS[r] for r in Reason)),
    }
    return pl.DataFrame(columns, nan_to_null=True)


def power_frame(power: PowerSeries, machine: Machine, cap: Cap) -> pl.DataFrame:
    """The power series with the cap in force beside it; a change of the cap has a row of its own."""
    import polars as pl

    time, row = _with_cap_steps(power.time_s, cap)
    return pl.DataFrame(
        {
            "time_s": time,
            "scope_w": power.scope_w(machine.cap_scope)[row],
            "machine_w": power.machine_w[row],
            "jobs_w": power.jobs_w[row],
            "other_w": power.other_w[row],
            "busy_idle_w": power.busy_idle_w[row],
            "cap_w": cap.at(time),
            "busy_units": power.busy_units[row],
        }
    )


def jobs_of(path: Path, frame: pl.DataFrame, machine: Machine, origin: str) -> tuple[Jobs, Schedule]:
    """Jobs and schedule as jobs.csv tells them. Raises: InputError for a table that is none of ours."""
    import polars as pl

    number = {name: frame[name].to_numpy() for name in NUMBERS}
    try:
        state = _codes(frame["final_state"], {word: s for s, word in STATES.items()})
        reason = _codes(frame["reason"], {word: r for r, word in REASONS.items()})
        partition = _codes(frame["partition"], _partition_numbers(machine))
        start, count, low, high = _intervals.from_text(frame["allocated_resources"].fill_null("").to_list())
    except (pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise InputError("holds a word that is not ours", where=path, mend="run it again") from error
    power = number["mean_power_w"]
    jobs = Jobs.build(
        number["submission_time"],
        number["requested_number_of_resources"],
        number["runtime_s"],
        walltime_s=number["requested_time"],
        job_id=plain(frame["job_id"]),
        user=labels_of(frame["user"]),
        app=labels_of(frame["app"]),
        mean_power_w=None if np.isnan(power).all() else power,
        origin=origin,
    )
    option = _options(partition, number["frequency_hz"], machine)
    energy = np.nan_to_num(number["consumed_energy"])
    began, ended, predicted = (number[name] for name in ("starting_time", "finish_time", "predicted_w"))
    return jobs, Schedule(state, reason, began, ended, option, energy, predicted, start, count, low, high)


def power_of(frame: pl.DataFrame) -> PowerSeries:
    """The power series as power.parquet tells it."""
    time, jobs_w, other_w, idle_w = (
        np.ascontiguousarray(frame[name].to_numpy(), np.float64)
        for name in ("time_s", "jobs_w", "other_w", "busy_idle_w")
    )
    return PowerSeries(time, jobs_w, other_w, idle_w, frame["busy_units"].to_numpy().astype(np.int32))


def _ids(ids: NDArray[Any]) -> Any:
    return ids if ids.dtype.kind in "iuf" else [str(v) for v in ids]


def _named(codes: NDArray[Any], names: tuple[str, ...]) -> pl.Series:
    """Names by code, null for -1 and for the empty name."""
    import polars as pl

    table = pl.Series([name or None for name in names] + [None], dtype=pl.String)
    return table.gather(pl.Series(np.where(codes < 0, len(names), codes)))


def _codes(words: pl.Series, number: dict[str, Any]) -> NDArray[np.int8]:
    import polars as pl

    numbers = [int(v) for v in number.values()]
    codes = words.fill_null("").replace_strict(list(number), numbers, return_dtype=pl.Int8)
    return np.ascontiguousarray(codes.to_numpy())


def _partition_numbers(machine: Machine) -> dict[str, int]:
    return {"": -1} | {p.name: i for i, p in enumerate(machine.partitions)}


def _options(partition: NDArray[np.int8], frequency_hz: Floats, machine: Machine) -> NDArray[np.int16]:
    """The option of each (partition, frequency), -1 where a job never started."""
    option = np.full(len(partition), -1, np.int16)
    for number, (part, frequency) in enumerate(
        zip(machine.option_partition.tolist(), machine.option_frequency_hz.tolist(), strict=True)
    ):
        same = np.isnan(frequency_hz) if np.isnan(frequency) else frequency_hz == frequency
        option[(partition == part) & same] = number
    return option


def _with_cap_steps(time_s: Floats, cap: Cap) -> tuple[Floats, NDArray[np.int64]]:
    """Times with those at which the cap changes between them, and the row of the series in force at each."""
    row = np.arange(len(time_s), dtype=np.int64)
    if len(time_s) == 0:
        return time_s, row
    inside = cap.time_s[(cap.time_s > time_s[0]) & (cap.time_s < time_s[-1])]
    inside = inside[time_s[np.searchsorted(time_s, inside)] != inside]
    place = np.searchsorted(time_s, inside, side="right")
    return np.insert(time_s, place, inside), np.insert(row, place, place - 1)
