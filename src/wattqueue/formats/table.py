"""Our own job table as CSV and Parquet, both ways: the columns of ``model.jobs.Jobs`` by their names.

``submit_s``, ``nodes`` and ``runtime_s`` must be there; the other columns may be left out or have
gaps: a missing ``job_id`` column counts from 1, a missing walltime is the runtime. Further columns
begin with ``x_``; any other name is refused, so that a slip of the pen does not pass for a missing
column. A CSV may begin with a line such as ``# wattqueue jobs schema_version=1 origin=generated``;
Parquet carries the same two in its metadata, and may hold power profiles (formats/_profile_column.py). Rows that
cannot be used are refused, not left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue import SCHEMA_VERSION
from wattqueue.errors import InputError
from wattqueue.formats import _csv, _profile_column
from wattqueue.formats._aside import aside, polars_errors
from wattqueue.formats._source import opened
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.profiles import Profiles

if TYPE_CHECKING:
    import polars as pl

REQUIRED = ("submit_s", "nodes", "runtime_s")
NUMBERS = ("submit_s", "nodes", "walltime_s", "runtime_s", "mean_power_w", "max_power_w", "start_s")
TEXTS = ("user", "app", "partition")
COLUMNS = ("job_id", *NUMBERS[:4], *TEXTS, *NUMBERS[4:])
"""Every column in the order that is written."""
EXTRA = "x_"
"""First letters of a column that is kept in ``Jobs.extra``."""


def read_table(path: Path, *, default_walltime_s: float | None = None) -> Jobs:
    """Read a job table: Parquet by its first bytes or the ending ``.parquet``, else CSV (plain or gzip).

    A missing walltime becomes the default where one is given, else the runtime.

    Raises: InputError naming file, line (Parquet: row) and column.
    """
    if _is_parquet(path):
        frame, facts = _read_parquet(path)
    else:
        frame, facts = _csv.read(path, _check_columns, NUMBERS)
    origin = _origin(path, facts)
    if frame.is_empty():
        raise InputError("0 jobs", where=path, mend="write one row a job below the column names")
    numbers = {name: frame[name].to_numpy() for name in NUMBERS if name in frame.columns}
    for name, column in numbers.items():
        _check_rows(path, name, column)
    walltime = numbers.pop("walltime_s", np.full(len(frame), np.nan))
    if default_walltime_s is not None:
        walltime = np.where(np.isnan(walltime), default_walltime_s, walltime)
    if _profile_column.COLUMN in frame.columns:
        profiles = _profile_column.read_profiles(str(path), frame[_profile_column.COLUMN], facts)
        numbers |= _profiled_watts(path, profiles, numbers, walltime)
    more: dict[str, Any] = {name: labels_of(frame[name]) for name in TEXTS if name in frame.columns}
    if _profile_column.COLUMN in frame.columns:
        more["profiles"] = profiles
    if "job_id" in frame.columns:
        more["job_id"] = _ids(path, frame["job_id"])
    return Jobs.build(
        **numbers,
        **more,
        walltime_s=walltime,
        origin=origin,
        extra={n.removeprefix(EXTRA): plain(frame[n]) for n in frame.columns if n.startswith(EXTRA)},
    )


def _profiled_watts(
    path: Path, profiles: Profiles, numbers: dict[str, NDArray[Any]], walltime_s: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    """Mean and greatest watts, where they are not stated those of the profiles."""
    if not (profiles.pattern >= 0).any():
        return {}
    work = np.fmin(numbers["runtime_s"], walltime_s)
    own = {"mean_power_w": profiles.mean_power_w(work), "max_power_w": profiles.max_power_w(work)}
    return {n: _profile_column.filled(str(path), n, numbers.get(n), column) for n, column in own.items()}


def write_table(path: Path, jobs: Jobs) -> None:
    """Write a job table, Parquet where the name ends in ``.parquet``, else CSV (gzip for ``.gz``) without profiles.

    The same jobs give the same bytes.

    Raises: OutputError.
    """
    frame = _frame(jobs)
    facts = {"schema_version": str(SCHEMA_VERSION), "origin": jobs.origin}
    with aside(path) as temporary, polars_errors(path):
        if path.suffix == ".parquet":
            profile = _profile_column.profile_column(jobs)
            if profile is not None and jobs.profiles is not None:
                frame = frame.with_columns(profile)
                facts[_profile_column.PERIOD] = repr(jobs.profiles.period_s)
            frame.write_parquet(temporary, metadata={f"wattqueue.{k}": v for k, v in facts.items()})
        else:
            _csv.write(temporary, frame, "wattqueue jobs", facts, packed=path.suffix == ".gz")


def _check_columns(where: str, names: list[str], further: tuple[str, ...] = ()) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two columns {name}", where=where, mend="keep one")
        if name not in COLUMNS + further and not name.startswith(EXTRA):
            raise InputError(
                f"unknown column {_csv.shown(name)}",
                where=where,
                mend=f"{_csv.nearest(name, COLUMNS)}columns of your own begin with {EXTRA}",
            )
    for name in REQUIRED:
        if name not in names:
            raise InputError(f"no column {name}", where=where, mend=f"it needs {', '.join(REQUIRED)}")


def _check_rows(path: Path, name: str, column: NDArray[np.float64]) -> None:
    """Refuse the first value that breaks its column's rule; NaN stands for a gap."""
    gap = np.isnan(column)
    with np.errstate(invalid="ignore"):
        if name == "nodes":
            good, rule = (column >= 1) & (column < 2**31) & (column == np.floor(column)), "a whole number from 1"
        elif name in {"runtime_s", "walltime_s"}:
            good, rule = (column > 0) & np.isfinite(column), "a number above 0"
        else:
            good, rule = (column >= 0) & np.isfinite(column), "a number of 0 or more"
    if name not in REQUIRED:
        good |= gap
    if good.all():
        return
    row = int(np.argmin(good))
    value = "missing" if gap[row] else f"{column[row]:.15g}"
    raise InputError(
        f"column {name} is {value}, not {rule}",
        where=_place(path, row),
        mend=f"mend or remove the row ({int((~good).sum())} such)",
    )


def _place(path: Path, row: int) -> str:
    return f"{path}: row {row + 1}" if _is_parquet(path) else f"{path}:{_csv.line_of(path, row)}"


def _origin(path: Path, facts: dict[str, str]) -> str:
    version = facts.get("schema_version", str(SCHEMA_VERSION))
    if not version.isdigit() or int(version) > SCHEMA_VERSION:
        raise InputError(
            f"schema version {_csv.shown(version)}, this program reads up to {SCHEMA_VERSION}",
            where=path,
            mend="use a newer WattQueue",
        )
    return facts.get("origin", "measured")


def _is_parquet(path: Path) -> bool:
    with opened(path) as source:
        return path.suffix == ".parquet" or source.read(4) == b"PAR1"


def _read_parquet(path: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
        facts = pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException) as error:
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise InputError(f"is no Parquet file that can be read: {reason}", where=path, mend="write it again") from error
    _check_columns(str(path), frame.columns, (_profile_column.COLUMN,))
    for name in NUMBERS:
        if name in frame.columns and not (frame.schema[name].is_numeric() or frame.schema[name] == pl.Null):
            kind = frame.schema[name]
            raise InputError(
                f"column {name} holds {kind}, not numbers", where=path, mend="write it as Float64 or Int64"
            )
    found = [pl.col(n).cast(pl.Float64).fill_null(float("nan")) for n in NUMBERS if n in frame.columns]
    return frame.with_columns(found), {k.removeprefix("wattqueue."): v for k, v in facts.items()}


def _ids(path: Path, column: pl.Series) -> NDArray[Any]:
    if column.null_count():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError("column job_id is missing", where=_place(path, row), mend="give every job its id")
    return plain(column)


def plain(column: pl.Series) -> NDArray[Any]:
    """A column as numpy: whole numbers, else numbers (gaps NaN), else text (gaps empty)."""
    import polars as pl

    if column.dtype == pl.Boolean and not column.null_count():
        return np.ascontiguousarray(column.to_numpy())
    if column.dtype == pl.String:
        column = _csv.as_numbers(column)
    if column.dtype.is_integer() and not column.null_count():
        return np.ascontiguousarray(column.cast(pl.Int64).to_numpy())
    if column.dtype.is_numeric():
        return np.ascontiguousarray(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
    return np.array(column.cast(pl.String).fill_null("").to_list(), object)


def labels_of(column: pl.Series) -> Labels:
    """A text column as names and codes, names sorted."""
    import polars as pl

    text = column.cast(pl.String)
    names = text.unique().drop_nulls().sort()
    names = names.filter(names != "")
    if names.is_empty():
        return Labels.missing(len(text))
    codes = text.cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int32).fill_null(-1)
    return Labels(np.ascontiguousarray(codes.to_numpy()), tuple(names.to_list()))


def _frame(jobs: Jobs) -> pl.DataFrame:
    """The table that is written: gaps are nulls, columns without a value are left out."""
    import polars as pl

    columns: list[pl.Series] = []
    for name in COLUMNS:
        value = getattr(jobs, name)
        if isinstance(value, Labels):
            if (value.codes >= 0).any():
                names = pl.Series(value.names, dtype=pl.String)
                codes = pl.Series(value.codes)
                columns.append(names.gather(codes.set(codes < 0, None)).alias(name))
        elif value is not None:
            columns.append(_series(name, value))
    columns.extend(_series(EXTRA + name, value) for name, value in jobs.extra.items())
    return pl.DataFrame(columns)


def _series(name: str, values: NDArray[Any]) -> pl.Series:
    import polars as pl

    if values.dtype.kind in "biuf":
        return pl.Series(name, values, nan_to_null=True)
    found = values.tolist()
    try:
        column = pl.Series(name, found, pl.String)
    except TypeError:  # not texts alone
        column = pl.Series(name, ["" if v is None else str(v) for v in found], pl.String)
    return column.set(column == "", None)
