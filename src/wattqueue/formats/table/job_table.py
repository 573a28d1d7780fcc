"""Our own job table as CSV and Parquet, both ways: the columns of ``model.jobs.Jobs`` by their names.

``submit_s``, ``nodes`` and ``runtime_s`` must be there; the other columns may be left out or have gaps: a missing
``job_id`` column counts from 1, a missing walltime is the run time. What only some policies read (``OF_POLICIES``) is
kept in ``Jobs.extra``, and may be written with or without ``x_``. Further columns begin with ``x_``; any other name is
refused, so that a misspelt name does not pass for a missing column. A CSV may begin with a line such as ``#
wattqueue jobs schema_version=1 origin=generated``; Parquet carries the same two in its metadata, and may hold power
profiles (formats/table/profile_column.py). Rows that cannot be used are refused, not left out: the table was written by
a program that can be corrected.

Reading, in this order, so that the first error reported is the most fundamental one: column names
(``_check_columns``), schema version and origin (``_origin``), the range of each figure (``_check_rows``), maximum
against mean watts (``_check_maximum``), profiles and the watts they imply, ids.

Writing is the inverse: ``read_table(write_table(jobs))`` gives equal columns, apart from profiles in CSV, which has
no column for them. ``table_frame`` decides the columns for both endings.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError, nearest
from wattqueue.formats.source import on_disk, opened
from wattqueue.model import bounds, consent
from wattqueue.model.bounds import ALLOWED, DURATION_S, TIME_S, UNIT_W, UNITS
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.plain_numbers import is_whole
from wattqueue.version import SCHEMA_VERSION

if TYPE_CHECKING:
    import polars as pl

    from wattqueue.model.profiles import PowerProfiles

TABLE_TIME_S = replace(TIME_S, low=0)
"""Our own table has no times before the trace's 0."""
REQUIRED = ("submit_s", "nodes", "runtime_s")
"""Columns that must exist, and must have a value in every row."""
OF_POLICIES = {
    "frequency_min_hz": bounds.FREQUENCY_HZ,
    "frequency_max_hz": bounds.FREQUENCY_HZ,
    "capped_windows": replace(ALLOWED, reason="1 is a job that may run while a cap is in force, 0 one that may not"),
    "memory_gb": replace(bounds.MEMORY_GB, low=0, reason="memory of the whole job in GB, not in bytes or MB"),
    "user_power_w": UNIT_W,
    "gpus": replace(bounds.COUNT, low=0, reason="GPUs of the whole job, 0 for none"),
    "ran_frequency_hz": bounds.FREQUENCY_HZ,
}
"""Columns of numbers that only some policies or physics read, each with its range; empty where a job states nothing."""
SUBMISSION = ("script", "submit_line", "job_environment")
"""Columns of texts that only some policies read: what a user wrote into the submission."""
RAN = ("ran_partition",)
"""Columns of texts that only physics reads: where a job ran when its run time and watts were recorded."""
FURTHER = (*OF_POLICIES, *SUBMISSION, *RAN)
"""Columns that are kept in ``Jobs.extra``."""
WHOLE = ("nodes", "gpus")
"""Columns of whole numbers."""
FLAGS = ("allowed", "capped_windows")
"""Columns whose only values are 0 and 1."""
OWN = ("submit_s", "nodes", "walltime_s", "runtime_s", "mean_power_w", "max_power_w", "start_s", *consent.COLUMNS)
"""Columns of numbers that every policy may read."""
NUMBERS = (*OWN, *OF_POLICIES)
"""Columns of numbers: float64 after reading, NaN for a gap."""
TEXTS = ("user", "app", "partition")
"""Columns of names, which become ``Labels``."""
COLUMNS = ("job_id", *OWN[:4], *TEXTS, *OWN[4:])
"""Every column that is no column of ``Jobs.extra``, in the order that is written."""
LIMITS = {
    "submit_s": TABLE_TIME_S,
    "nodes": UNITS,
    "walltime_s": DURATION_S,
    "runtime_s": DURATION_S,
    "mean_power_w": UNIT_W,
    "max_power_w": UNIT_W,
    "start_s": TABLE_TIME_S,
    **consent.LIMITS,
    **OF_POLICIES,
}
"""The range of each column of numbers."""
FRAME = Path("data frame")
"""What errors name in place of a file where a program hands in a frame."""
EXTRA = "x_"
"""First letters of a column that is kept in ``Jobs.extra``."""


def read_table(path: Path, *, default_walltime_s: float | None = None) -> Jobs:
    """Return a job table: Parquet by its first bytes or the ending ``.parquet``, else CSV (plain or gzip).

    A missing walltime becomes ``default_walltime_s`` where one is given, else the run time. Watts that are not
    stated are taken from the profile of the job. Every figure must lie in its range (``LIMITS``), and the maximum
    watts must not lie below the mean.

    Raises: InputError naming file, line (Parquet: row) and column.
    """
    from wattqueue.formats import csv_records

    if _is_parquet(path):
        frame, facts = _read_parquet(path)
    else:
        # _check_columns is called on the header before any row is parsed: a misspelt name is reported rather than its
        # values.
        frame, facts = csv_records.read(path, _check_columns, (*NUMBERS, *(EXTRA + name for name in OF_POLICIES)))
        frame = _without_prefix(frame)
    return _jobs(path, frame, facts, default_walltime_s)


def table_of_frame(frame: pl.DataFrame) -> Jobs:
    """Return the jobs of a data frame with the columns of the job table; nulls and NaN are gaps.

    Raises: InputError naming column and row (from 1), as for a file.
    """
    return _jobs(FRAME, *_typed(FRAME, frame, {}), None)


def _jobs(path: Path, frame: pl.DataFrame, facts: dict[str, str], default_walltime_s: float | None) -> Jobs:
    """Return the jobs of a table whose columns have been named and typed; ``path`` is named in errors."""
    from wattqueue.formats.table import profile_column

    origin = _origin(path, facts)
    if frame.is_empty():
        raise InputError("0 jobs", where=path, hint="write one row per job below the column names")
    numbers = {name: frame[name].to_numpy() for name in NUMBERS if name in frame.columns}
    for name, column in numbers.items():
        _check_rows(path, name, column)
    _check_maximum(path, numbers)
    # The walltime decides how much of a profile counts, so it comes first.
    walltime = numbers.pop("walltime_s", np.full(len(frame), np.nan))
    if default_walltime_s is not None:
        # What is still NaN becomes the run time in Jobs.build.
        walltime = np.where(np.isnan(walltime), default_walltime_s, walltime)
    if profile_column.COLUMN in frame.columns:
        profiles = profile_column.read_profiles(str(path), frame[profile_column.COLUMN], facts)
        numbers |= _profiled_watts(path, profiles, numbers, walltime)
    # A column that does not exist is left to the defaults of Jobs.build, which knows one place for them.
    more: dict[str, Any] = {name: labels_of(frame[name]) for name in TEXTS if name in frame.columns}
    if profile_column.COLUMN in frame.columns:
        more["profiles"] = profiles
    stated = {name: numbers.pop(name) for name in consent.COLUMNS if name in numbers}
    if any(np.isfinite(column).any() for column in stated.values()):
        more["consent"] = consent.Consent.build(len(frame), **stated)
    if "job_id" in frame.columns:
        more["job_id"] = _ids(path, frame["job_id"])
    kept = [name for name in frame.columns if name.startswith(EXTRA) or name in FURTHER]
    extra = {n.removeprefix(EXTRA): numbers.pop(n) if n in numbers else plain(frame[n]) for n in kept}
    return Jobs.build(**numbers, **more, walltime_s=walltime, origin=origin, extra=extra)


def _profiled_watts(
    path: Path, profiles: PowerProfiles, numbers: dict[str, NDArray[Any]], walltime_s: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    """Return mean and maximum watts, those of the profiles where they are not stated.

    ``numbers`` holds the stated columns by name, ``walltime_s`` the limits (NaN: none), shapes (n,). The part of a
    profile that counts ends at the shorter of run time and walltime, because a replay ends the job there. A stated
    figure that its profile contradicts is an error, since one of the two must be wrong.

    Raises: InputError naming the row of such a contradiction.
    """
    from wattqueue.formats.table import profile_column

    # pattern is -1 for a job without a profile.
    if not (profiles.pattern >= 0).any():
        return {}
    work = np.fmin(numbers["runtime_s"], walltime_s)
    return {
        column.name: profile_column.filled(str(path), column, numbers.get(column.name), column.own(profiles, work))
        for column in profile_column.PROFILED
    }


def write_table(path: Path, jobs: Jobs) -> None:
    """Write a job table: Parquet where the name ends in ``.parquet``, else CSV (gzip for ``.gz``) without profiles.

    The same jobs give identical files: no time stamps, columns in a fixed order, columns without any value left
    out. What is written reads back to an equal table, ids and extra columns included.

    Raises: OutputError where the file cannot be written; it is then as before.
    """
    from wattqueue.formats import csv_records
    from wattqueue.formats.atomic_folder import polars_errors
    from wattqueue.formats.atomic_write import atomic_write
    from wattqueue.formats.table import profile_column

    frame = table_frame(jobs)
    facts = {"schema_version": str(SCHEMA_VERSION), "origin": jobs.origin}
    with atomic_write(path) as temporary, polars_errors(path):
        if path.suffix == ".parquet":
            profile = profile_column.profile_column(jobs)
            if profile is not None and jobs.profiles is not None:
                frame = frame.with_columns(profile)
                facts[profile_column.PERIOD] = repr(jobs.profiles.period_s)
            frame.write_parquet(temporary, metadata={f"wattqueue.{k}": v for k, v in facts.items()})
        else:
            csv_records.write(temporary, frame, "wattqueue jobs", facts, packed=path.suffix == ".gz")


def _check_columns(where: str, names: list[str], further: tuple[str, ...] = ()) -> None:
    """Raise InputError for a column that is doubled, unknown or missing.

    ``where`` names the file for the error; ``further`` are names that the format adds (the profile column of
    Parquet). The nearest known name is suggested for an unknown one, since most are misspelt (``runtime`` for
    ``runtime_s``).
    """
    from wattqueue.formats import csv_records

    known = (*COLUMNS, *FURTHER, *further)
    for name in names:
        if names.count(name) > 1 or (name in FURTHER and EXTRA + name in names):
            raise InputError(f"two columns {name}", where=where, hint="keep one")
        if name not in known and not name.startswith(EXTRA):
            raise InputError(
                f"unknown column {csv_records.shown(name)}",
                where=where,
                hint=f"{nearest(name, known)}columns of your own begin with {EXTRA}",
            )
    for name in REQUIRED:
        if name not in names:
            raise InputError(f"no column {name}", where=where, hint=f"it needs {', '.join(REQUIRED)}")


def _check_rows(path: Path, name: str, column: NDArray[np.float64]) -> None:
    """Raise InputError for the first value that breaks its column's rule; NaN stands for a gap.

    ``column`` has shape (n,). A gap is accepted in optional columns only. The error quotes the first row and counts
    all rows concerned, so that a systematic mistake (a unit, an epoch) is distinguished from one wrong line.
    """
    gap = np.isnan(column)
    bound = LIMITS[name]
    good, rule = bound.holds(column), bound.text
    if name in WHOLE:
        good, rule = good & (column == np.floor(column)), f"a whole number, {rule}"
    if name in FLAGS:
        good, rule = (column == 0) | (column == 1), "0 or 1"
    if name not in REQUIRED:
        good |= gap
    if good.all():
        return
    row = int(np.argmin(good))
    value = "missing" if gap[row] else f"{column[row]:.15g}"
    raise InputError(
        f"column {name} is {value}, not {rule}",
        where=_place(path, row),
        hint=f"correct or remove the row; rows concerned: {int((~good).sum()):,} ({bound.reason})",
    )


def _check_maximum(path: Path, numbers: dict[str, NDArray[np.float64]]) -> None:
    """Raise InputError for the first row whose maximum watts lie below its mean watts (by more than rounding).

    The tolerance is one part in a million: programs that write the table compute mean and maximum in different ways,
    and a job of constant power then has a maximum one rounding step below its mean.
    """
    if not {"mean_power_w", "max_power_w"} <= set(numbers):
        return
    mean, peak = numbers["mean_power_w"], numbers["max_power_w"]
    with np.errstate(invalid="ignore"):
        low = peak < mean * (1 - 1e-6)
    if low.any():
        row = int(np.argmax(low))
        raise InputError(
            f"column max_power_w is {peak[row]:g}, below mean_power_w of {mean[row]:g}",
            where=_place(path, row),
            hint=f"correct either of them; rows concerned: {int(low.sum()):,}",
        )


def _place(path: Path, row: int) -> str:
    """Return file and line of a row (Parquet, data frame: its number).

    The line is searched only when an error is reported, since comments and quoted line ends move it.
    """
    from wattqueue.formats import csv_records

    return (
        f"{path}: row {row + 1}" if path == FRAME or _is_parquet(path) else f"{path}:{csv_records.line_of(path, row)}"
    )


def _origin(path: Path, facts: dict[str, str]) -> str:
    """Return whether jobs are measured or generated. Raises: InputError for a newer schema version.

    The word is passed on to everything computed from the jobs: reports print that a result follows from generated
    jobs. A table without the fact was written by hand or by another tool and counts as measured.
    """
    from wattqueue.formats import csv_records

    version = facts.get("schema_version", str(SCHEMA_VERSION))
    if not is_whole(version) or int(version) > SCHEMA_VERSION:
        raise InputError(
            f"schema version {csv_records.shown(version)}, this program reads up to {SCHEMA_VERSION}",
            where=path,
            hint="use a newer WattQueue",
        )
    return facts.get("origin", "measured")


def _without_prefix(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that only some policies read by their names without ``x_``."""
    known = {EXTRA + name: name for name in FURTHER}
    return frame.rename({name: known[name] for name in frame.columns if name in known})


def _is_parquet(path: Path) -> bool:
    """Return whether a file is Parquet, by its first bytes or its name.

    A file that only has the name is sent to polars as well, whose error then says that it is no Parquet.
    """
    with opened(path) as source:
        return path.suffix == ".parquet" or source.read(4) == b"PAR1"


def _read_parquet(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the rows and facts of a Parquet table. Raises: InputError.

    Columns of numbers are cast to float64 with NaN for null, which is the form that the CSV reader gives, so that all
    later steps are the same for both. Types are checked before the cast: polars would parse text, or fail with a
    message about its own plan. ``facts`` are the metadata keys with the prefix ``wattqueue.`` removed.
    """
    import polars as pl

    from wattqueue.formats import _parquet

    with _parquet.readable(path):
        frame = pl.read_parquet(on_disk(path), glob=False, hive_partitioning=False)
        facts = pl.read_parquet_metadata(on_disk(path))
    return _typed(path, frame, {k.removeprefix("wattqueue."): v for k, v in facts.items()})


def _typed(path: Path, frame: pl.DataFrame, facts: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return a typed table with columns of numbers as float64, NaN for null; and its facts. Raises: InputError."""
    import polars as pl

    from wattqueue.formats import _parquet
    from wattqueue.formats.table import profile_column

    _check_columns(str(path), frame.columns, (profile_column.COLUMN,))
    frame = _without_prefix(frame)
    for name in NUMBERS:
        if name in frame.columns and not (frame.schema[name].is_numeric() or frame.schema[name] == pl.Null):
            kind = frame.schema[name]
            raise InputError(
                f"column {name} holds {kind}, not numbers", where=path, hint="write it as Float64 or Int64"
            )
    texts = [name for name in frame.columns if name not in NUMBERS and name != profile_column.COLUMN]
    _parquet.require_kinds(path, frame.schema, texts=texts)
    found = [pl.col(n).cast(pl.Float64).fill_null(float("nan")) for n in NUMBERS if n in frame.columns]
    return frame.with_columns(found), facts


def _ids(path: Path, column: pl.Series) -> NDArray[Any]:
    """Return the ids of the jobs. Raises: InputError for a gap, which among numbers is NaN, and for infinity.

    Results are matched to jobs by id, so a job without one could not be found in any output.
    """
    ids, gap = plain(column), column.is_null().to_numpy()
    if ids.dtype.kind == "f":
        gap = gap | ~np.isfinite(ids)
    if gap.any():
        row = int(np.argmax(gap))
        raise InputError("column job_id is missing", where=_place(path, row), hint="give every job its id")
    return ids


def plain(column: pl.Series) -> NDArray[Any]:
    """Return a column as numpy: whole numbers, else numbers (gaps NaN), else text (gaps empty).

    Text that consists of numbers only becomes numbers if each would be written the same again
    (``csv_records.as_numbers``), so that a table in CSV and the same one in Parquet give equal arrays.
    """
    import polars as pl

    from wattqueue.formats import csv_records

    if column.dtype == pl.Boolean and not column.null_count():
        return np.ascontiguousarray(column.to_numpy())
    if column.dtype == pl.String:
        column = csv_records.as_numbers(column)
    if column.dtype.is_integer() and not column.null_count():
        whole = column.cast(pl.Int64, strict=False)
        if whole.null_count():  # beyond 64 bits with sign: as text, so that ids stay what they are
            return np.array(column.cast(pl.String).to_list(), object)
        return np.ascontiguousarray(whole.to_numpy())
    # Decimals, and integers with gaps, which have no integer NaN.
    if column.dtype.is_numeric():
        return np.ascontiguousarray(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
    return np.array(column.cast(pl.String).fill_null("").to_list(), object)


def labels_of(column: pl.Series) -> Labels:
    """Return a text column as names and codes, names sorted.

    Sorted names make codes, and everything that depends on them, independent of the order of the rows. A cast to an
    enumeration is faster than a search per row by two orders of magnitude on large tables.
    """
    import polars as pl

    text = column.cast(pl.String)
    names = text.unique().drop_nulls().sort()
    # An empty name is a missing one: CSV cannot tell the two apart, and Parquet should not differ from it.
    names = names.filter(names != "")
    if names.is_empty():
        return Labels.missing(len(text))
    codes = text.cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int32).fill_null(-1)
    return Labels(np.ascontiguousarray(codes.to_numpy()), tuple(names.to_list()))


def table_frame(jobs: Jobs) -> pl.DataFrame:
    """Return the table that is written: gaps are nulls, columns without a value are left out.

    Columns come in the order of ``COLUMNS``, then those of ``Jobs.extra`` in the order in which they were added, with
    the prefix ``x_`` apart from those that policies read. A column of names without any name is left out, since it
    would read back as no information at all.
    """
    import polars as pl

    columns: list[pl.Series] = []
    for name in COLUMNS:
        value = _column(jobs, name)
        if isinstance(value, Labels):
            if (value.codes >= 0).any():
                names = pl.Series(value.names, dtype=pl.String)
                codes = pl.Series(value.codes)
                columns.append(names.gather(codes.set(codes < 0, None)).alias(name))
        elif value is not None:
            columns.append(_series(name, value))
    read = FURTHER
    columns.extend(_series(name if name in read else EXTRA + name, value) for name, value in jobs.extra.items())
    return pl.DataFrame(columns)


def _column(jobs: Jobs, name: str) -> Any:
    """Return a column of a job table; None where there is none, or no job states its consent in it."""
    if name not in consent.COLUMNS:
        return getattr(jobs, name)
    column = None if jobs.consent is None else getattr(jobs.consent, name)
    return None if column is None or np.isnan(column).all() else column


def _series(name: str, values: NDArray[Any]) -> pl.Series:
    """Return an array as a column; NaN and empty texts become nulls.

    An object array may mix texts and other values (an extra column of a plug-in); all of them are then written as
    text.
    """
    import polars as pl

    # NaN is a gap in every column of numbers.
    if values.dtype.kind in "biuf":
        return pl.Series(name, values, nan_to_null=True)
    found = values.tolist()
    try:
        column = pl.Series(name, found, pl.String)
    except TypeError:  # not texts alone
        column = pl.Series(name, ["" if v is None else str(v) for v in found], pl.String)
    return column.set(column == "", None)
