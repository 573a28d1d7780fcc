"""The two large tables of a run folder as polars frames, both ways: jobs.csv and power.parquet.

**jobs.csv** has one row per usable job, in the order of the trace. It begins with the columns that Batsim writes
and evalys reads (``BATSIM``), so that tools for them work unchanged, and goes on with those of WattQueue
(``COLUMNS``). A field is empty where a figure does not exist, for example the start of a job that never ran. Reading
it back gives the jobs and the schedule of the run, without what the table has no column for (profiles, columns of
the workload).

**power.parquet** has one row per change of the machine's power or of the cap, with the watts from then on. Columns:

- ``time_s``: seconds on the trace's clock;
- ``scope_w``: watts inside the cap's scope; ``cap_w``: the cap in force, infinite where there is none;
- ``machine_w`` = ``jobs_w`` + ``other_w``: all units, those of running jobs, and all others;
- ``busy_idle_w``: the idle share of ``jobs_w``; ``busy_units``: units that jobs hold.

Both are written with a fixed number of digits and no time stamps: the same run gives identical files. What is read
back is checked for consistency, since people edit CSV files: figures are finite, jobs that ran have times, an
option and units of the machine.

This module converts between model and frame; ``rundir`` opens the files, checks their columns and writes them. Arrays
have one entry per job of the trace (shape (n,)) or one per row of the power series (shape (k,)).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.bounds import TIME_S
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import job_figures
from wattqueue.model.schedule import MARGIN, REASONS, PowerSeries, Reason, Schedule, State, reason_of
from wattqueue.model.signals import Cap
from wattqueue.model.steps import with_times

if TYPE_CHECKING:
    import polars as pl

STATES = {
    State.NOT_STARTED: "NOT_STARTED",
    State.COMPLETED: "COMPLETED_SUCCESSFULLY",
    State.KILLED: "COMPLETED_WALLTIME_REACHED",
    State.REJECTED: "REJECTED",
}
"""``final_state``: Batsim's words where it has one."""
POWER_SUMS = ("scope_w", "machine_w", "cap_w")
"""Columns of power.parquet that follow from the others, the machine's scope and the cap."""
# The files of a run are derived: to produce them again is safer than to repair one of them by hand.
AGAIN = "run it again"
"""Hint of a file that WattQueue has written and somebody changed."""
DIGITS = 6
"""Decimals of differences and ratios: times count in microseconds, so further digits are rounding noise."""


class JobsOfRun(NamedTuple):
    """What the columns of jobs.csv are made of."""

    jobs: Jobs
    schedule: Schedule
    machine: Machine
    follows: dict[str, NDArray[Any]]
    """Columns that follow from the others (``derived``)."""

    def of_option(self, values: Any, none: Any) -> NDArray[Any]:
        """Return what the option of each job says; ``none`` for a job that never ran, whose option is -1."""
        return np.append(values, none)[self.schedule.option]  # -1 picks the element that is appended


class Column(NamedTuple):
    """A column of jobs.csv."""

    name: str
    """Its unit and meaning stand in ``model/quantities.csv``."""
    of: Callable[[JobsOfRun], Any]
    """The values; None leaves the column out."""
    number: bool = False
    """Whether it is read back as float64, with NaN for an empty field; else as text."""


def _following(name: str) -> Column:
    return Column(name, lambda rows: rows.follows[name], number=True)


BATSIM = (
    Column("job_id", lambda rows: _ids(rows.jobs.job_id)),
    Column("submission_time", lambda rows: rows.jobs.submit_s, number=True),
    Column("requested_number_of_resources", lambda rows: rows.jobs.nodes, number=True),
    Column("requested_time", lambda rows: rows.jobs.walltime_s, number=True),
    _following("success"),
    Column("final_state", lambda rows: _named(rows.schedule.state, tuple(STATES[s] for s in State))),
    Column("starting_time", lambda rows: rows.schedule.start_s, number=True),
    _following("execution_time"),
    Column("finish_time", lambda rows: rows.schedule.end_s, number=True),
    _following("waiting_time"),
    _following("turnaround_time"),
    _following("stretch"),
    Column("allocated_resources", lambda rows: _units_held(rows.schedule)),
    Column("consumed_energy", lambda r: np.where(r.schedule.ran, r.schedule.energy_j, np.nan), number=True),
    # evalys labels each job with it, and cannot draw without.
    Column("workload_name", lambda rows: _repeated(rows.jobs.origin, len(rows.jobs))),
)
"""The columns that evalys and Batsim users know, ahead of ours."""
COLUMNS = (
    *BATSIM,
    Column("user", lambda rows: _named(rows.jobs.user.codes, rows.jobs.user.names)),
    Column("app", lambda rows: _named(rows.jobs.app.codes, rows.jobs.app.names)),
    Column("partition", lambda r: _named(r.of_option(r.machine.option_partition, -1), _partition_names(r.machine))),
    Column("frequency_hz", lambda rows: rows.of_option(rows.machine.option_frequency_hz, np.nan), number=True),
    Column("predicted_w", lambda rows: rows.schedule.predicted_w, number=True),
    _following("mean_power_w"),
    Column("runtime_s", lambda rows: rows.jobs.runtime_s, number=True),
    _following("bounded_slowdown"),
    Column("reason", lambda rows: _reasons(rows.schedule)),
)


def _gpu_caps(rows: JobsOfRun) -> NDArray[Any] | None:
    """Return the GPU limit at which each job ran, NaN for none; None where the machine has no such limits."""
    caps = rows.machine.option_gpu_cap_w
    return None if np.isnan(caps).all() else rows.of_option(caps, np.nan)


GPU_CAP = Column("gpu_cap_w", _gpu_caps, number=True)
"""A column where the machine has GPU limits: the one at which each job ran."""
PARKED = Column("parked_s", lambda rows: _rounded(rows.schedule.parked_s), number=True)
"""A last column where jobs were suspended: for how long. Part of ``execution_time``, not of ``waiting_time``."""
OPTIONAL = (GPU_CAP, PARKED)
"""Columns, all of numbers, that are left out where they say nothing."""


def jobs_frame(jobs: Jobs, schedule: Schedule, machine: Machine) -> pl.DataFrame:
    """Return one row per usable job; fields of a job that never ran are empty.

    Submissions, starts and ends are written in full, so that reading them back gives the same float64.
    """
    import polars as pl

    rows = JobsOfRun(jobs, schedule, machine, derived(jobs, schedule))
    made = ((column.name, column.of(rows)) for column in (*COLUMNS, *OPTIONAL))
    columns = {name: values for name, values in made if values is not None}
    return pl.DataFrame(columns, nan_to_null=True)  # a gap is an empty field in CSV; the word NaN would be refused


def derived(jobs: Jobs, schedule: Schedule) -> dict[str, NDArray[Any]]:
    """Return the columns that follow from the others, by name; NaN for a job that never ran. Shapes (n,).

    ``stretch`` is turnaround over run time, as Batsim defines it; ``mean_power_w`` is true energy over run time and
    units. Differences are rounded to microseconds, so that floating-point noise does not fill the file with digits.
    """
    figures = job_figures(jobs, schedule)
    with np.errstate(invalid="ignore", divide="ignore"):
        stretch = figures.turnaround_s / figures.run_s
        unit_w = schedule.energy_j / (figures.run_s * jobs.nodes)
    unit_w[~(unit_w > 0)] = np.nan
    return {
        "success": (schedule.state == State.COMPLETED).astype(np.int8),
        "execution_time": np.round(figures.run_s, DIGITS),
        "waiting_time": np.round(figures.wait_s, DIGITS),
        "turnaround_time": np.round(figures.turnaround_s, DIGITS),
        "stretch": np.round(stretch, DIGITS),
        "mean_power_w": unit_w,
        "bounded_slowdown": np.round(figures.bounded_slowdown, DIGITS),
    }


def power_frame(power: PowerSeries, machine: Machine, cap: Cap) -> pl.DataFrame:
    """Return the power series with the cap in force beside it; a change of the cap has a row of its own.

    ``scope_w`` is what the cap covers (semantics, rule 14), so that a plot of ``scope_w`` and ``cap_w`` shows
    violations. All columns but ``time_s`` and ``busy_units`` are watts; each row holds until the next one.
    """
    import polars as pl

    # Where the cap changes and the power does not, the row repeats the watts in force.
    time, row = with_times(power.time_s, cap.time_s)
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
    """Return jobs and schedule from the rows of jobs.csv.

    ``mean_power_w`` becomes what a unit really drew. The partition of a job is that of its option in the schedule;
    which one it requested is not in the table. ``path`` is for errors; rows in errors count from 1, the first job.

    Raises: InputError for a table that WattQueue has not written, or that was changed into a contradiction.
    """
    import polars as pl

    from wattqueue.formats.rundir import intervals
    from wattqueue.formats.table.job_table import labels_of, plain

    # NaN stands for an empty field, which jobs that never ran have; infinity is never written.
    number = {column.name: frame[column.name].to_numpy() for column in COLUMNS if column.number}
    for name, column in number.items():
        if np.isinf(column).any():
            raise InputError(
                f"column {name} is infinite", where=f"{path}: row {int(np.argmax(np.isinf(column))) + 1}", hint=AGAIN
            )
    try:
        state = _codes(frame["final_state"], {word: s for s, word in STATES.items()})
        words, margin = _margins(frame["reason"])
        reason = _codes(words, {word: r for r, word in REASONS.items()})
        partition = _codes(frame["partition"], _partition_numbers(machine))
        start, count, low, high = intervals.from_text(frame["allocated_resources"].fill_null("").to_list())
    except (pl.exceptions.PolarsError, ValueError, OverflowError) as error:
        raise InputError("holds a value that WattQueue does not write", where=path, hint=AGAIN) from error
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
    cap_w = frame[GPU_CAP.name].to_numpy() if GPU_CAP.name in frame.columns else np.full(len(partition), np.nan)
    option = _options(partition, number["frequency_hz"], cap_w, machine)
    # In a schedule the joules of a job that never ran are 0, in the table they are an empty field.
    energy = np.nan_to_num(number["consumed_energy"])
    began, ended, predicted = (number[name] for name in ("starting_time", "finish_time", "predicted_w"))
    parked = np.nan_to_num(frame[PARKED.name].to_numpy()) if PARKED.name in frame.columns else None
    if parked is not None and not ((parked >= 0) & np.isfinite(parked)).all():
        raise InputError(f"column {PARKED.name} must be a non-negative number of seconds", where=path, hint=AGAIN)
    schedule = Schedule(state, reason, began, ended, option, energy, predicted, start, count, low, high, parked, margin)
    _require_consistent(path, schedule, machine)
    return jobs, schedule


def _require_consistent(path: Path, schedule: Schedule, machine: Machine) -> None:
    """Check what every use of a schedule relies on: jobs that ran have times, an option and units of the machine.

    Metrics, Gantt charts and comparisons index arrays by these figures; a table that was edited by hand would
    otherwise fail far from its cause.

    Raises: InputError naming the first row that contradicts its state.
    """
    whole = TIME_S.holds(schedule.start_s) & (schedule.end_s >= schedule.start_s) & TIME_S.holds(schedule.end_s)
    placed = (schedule.option >= 0) & (schedule.unit_count > 0)
    wrong = schedule.ran & ~(whole & placed)
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise InputError("a job that ran lacks its times, partition or units", where=f"{path}: row {row}", hint=AGAIN)
    if len(schedule.unit_high) and int(schedule.unit_high.max()) >= machine.units:
        raise InputError(
            f"unit {int(schedule.unit_high.max())} is not on the machine of {machine.units:,} units",
            where=path,
            hint=AGAIN,
        )


def power_of(frame: pl.DataFrame) -> PowerSeries:
    """Return the power series from the rows of power.parquet.

    Of ``POWER_SUMS`` the series computes the first two from its parts, and the cap stands in run.toml. Rows that only
    mark a change of the cap stay; they repeat the watts of the row before.
    """
    time, jobs_w, other_w, idle_w = (
        np.ascontiguousarray(frame[name].to_numpy(), np.float64)
        for name in ("time_s", "jobs_w", "other_w", "busy_idle_w")
    )
    return PowerSeries(time, jobs_w, other_w, idle_w, frame["busy_units"].to_numpy().astype(np.int32))


def _units_held(schedule: Schedule) -> pl.Series:
    """Return the units of each job as intervals (``intervals`` describes the four arrays). Shape (n,)."""
    import polars as pl

    from wattqueue.formats.rundir import intervals

    held = (schedule.unit_start, schedule.unit_count, schedule.unit_low, schedule.unit_high)
    return pl.Series(intervals.to_text(*held), dtype=pl.String)


def _partition_names(machine: Machine) -> tuple[str, ...]:
    return tuple(p.name for p in machine.partitions)


def _repeated(text: str, rows: int) -> pl.Series:
    import polars as pl

    return pl.repeat(text, rows, eager=True)


def _rounded(seconds: Floats | None) -> Floats | None:
    return None if seconds is None else np.round(seconds, DIGITS)


def _ids(ids: NDArray[Any]) -> Any:
    """Return ids as a column: numbers as they are, anything else as text. Shape (n,)."""
    return ids if ids.dtype.kind in "iuf" else [str(v) for v in ids]


def _named(codes: NDArray[Any], names: tuple[str, ...]) -> pl.Series:
    """Return names by code, null for -1 and for the empty name. Shape of ``codes`` (n,).

    The null stands behind the names, so that one gather serves both cases.
    """
    import polars as pl

    table = pl.Series([name or None for name in names] + [None], dtype=pl.String)
    return table.gather(pl.Series(np.where(codes < 0, len(names), codes)))


def _reasons(schedule: Schedule) -> pl.Series:
    """Return why each job never ran, with the margin of those that cannot start under the ledger. Shape (n,)."""
    import polars as pl

    named = _named(schedule.reason, tuple(REASONS[r] for r in Reason))
    if schedule.margin_w is None:
        return named
    rows = np.flatnonzero(schedule.margin_w >= 0.0)
    texts = [reason_of(Reason(int(schedule.reason[k])), float(schedule.margin_w[k])) for k in rows]
    return named.scatter(rows, pl.Series(texts, dtype=pl.String))


def _margins(reasons: pl.Series) -> tuple[pl.Series, Floats | None]:
    """Return reasons without margins, and the watts of these, NaN for none; None where no reason has one. Shapes (n,).

    Raises: polars' InvalidOperationError for a margin that is no number.
    """
    import polars as pl

    parts = reasons.str.split_exact(MARGIN, 1).struct.unnest()
    watts = parts["field_1"].str.strip_suffix(" W").cast(pl.Float64)
    return parts["field_0"], None if watts.null_count() == len(watts) else watts.to_numpy()


def _codes(words: pl.Series, number: dict[str, Any]) -> NDArray[np.int8]:
    """Return the number of each word; a null counts as the empty word. Shape (n,).

    Raises: polars' InvalidOperationError for a word that is not in the table.
    """
    import polars as pl

    numbers = [int(v) for v in number.values()]
    codes = words.fill_null("").replace_strict(list(number), numbers, return_dtype=pl.Int8)
    return np.ascontiguousarray(codes.to_numpy())


def _partition_numbers(machine: Machine) -> dict[str, int]:
    """Return the number of each partition by name; -1 for the empty name of a job that never ran.

    Numbers are positions in the machine file, which options refer to as well.
    """
    return {"": -1} | {name: i for i, name in enumerate(_partition_names(machine))}


def _options(partition: NDArray[np.int8], frequency_hz: Floats, cap_w: Floats, machine: Machine) -> NDArray[np.int16]:
    """Return the option of each (partition, frequency, GPU limit), -1 where a job never started. Shape (n,).

    They are compared exactly: they were written with all their digits. A machine without frequencies or limits has
    NaN, which equals nothing, and is tested for instead.
    """
    # An unknown frequency leaves -1, which ``_require_consistent`` refuses for a job that ran.
    option = np.full(len(partition), -1, np.int16)
    points = machine.option_partition.tolist(), machine.option_frequency_hz.tolist(), machine.option_gpu_cap_w.tolist()
    for number, (part, frequency, cap) in enumerate(zip(*points, strict=True)):
        option[(partition == part) & _same(frequency_hz, frequency) & _same(cap_w, cap)] = number
    return option


def _same(figures: Floats, figure: float) -> NDArray[np.bool_]:
    """Return where figures are one figure; NaN is the same as NaN here."""
    found: NDArray[np.bool_] = np.isnan(figures) if np.isnan(figure) else figures == figure
    return found
