"""Tables that other projects publish as Parquet: columns by name, times and figures as numpy.

Columns of one meaning have different types in different releases of a data set (text, integer, datetime with or
without a zone), so every function here accepts all of them, and returns NaN or an empty text for what it cannot
read.

The order in which a reader (``pm100``, ``fdata``) uses them:

1. ``scan`` opens the file and gives its schema, without reading rows;
2. ``require`` and ``require_kinds`` refuse a table that lacks columns or holds lists in place of figures;
3. ``collected`` reads the selected columns only: these files have many more than a job table needs;
4. ``number``, ``text``, ``labels`` and ``job_times`` turn columns into arrays, one value per row of the file;
5. ``split`` divides the rows into usable ones and those to list.

polars reports damaged files as its own errors, as OSError, or as a panic of its Rust code; all three become InputError.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.source import on_disk, opened
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Floats, Labels

if TYPE_CHECKING:
    import polars as pl

    from wattqueue.formats.slurm.clock_changes import JobTimes
    from wattqueue.formats.slurm.columns import Clock, Times


def scan(path: Path) -> tuple[pl.LazyFrame, pl.Schema]:
    """Return a Parquet file, not yet read, and its schema.

    Raises: InputError where the file is missing, a directory or not Parquet.
    """
    import polars as pl

    with opened(path):  # a directory or a missing file: our own error
        pass
    with readable(path):
        # A path is taken literally: no wildcards, and ``key=value`` in a folder's name adds no column.
        frame = pl.scan_parquet(on_disk(path), glob=False, hive_partitioning=False)
        return frame, frame.collect_schema()


def collected(path: Path, frame: pl.LazyFrame) -> pl.DataFrame:
    """Return the rows, computed group by group so that long lists never stand in memory together.

    Raises: InputError where the file turns out to be damaged.
    """
    with readable(path):
        return frame.collect(engine="streaming")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what polars raises for a damaged Parquet file into one InputError.

    Some damage makes its Rust code panic, which also prints a stack trace to the process's error output, from a thread
    of its own: that output is kept back meanwhile, and printed unless such an error came of it.

    Raises: InputError.
    """
    import polars as pl

    with tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        real = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            kept.truncate(0)
            reason = (str(error).splitlines() or ["unknown"])[0]
            raise InputError(
                f"is not a readable Parquet file: {reason}", where=path, hint="fetch or write it again"
            ) from error
        finally:
            os.dup2(real, 2)
            kept.seek(0)
            os.write(real, kept.read())
            os.close(real)


def require(path: Path, have: Iterable[str], need: Sequence[str], kind: str) -> None:
    """Check that the columns are there; ``kind`` is the name of the data set for the hint.

    Raises: InputError naming the first column of ``need`` that is not in ``have``.
    """
    have = set(have)
    for name in need:
        if name not in have:
            raise InputError(f"no column {name}", where=path, hint=f"a {kind} file has {', '.join(need)}")


def require_kinds(path: Path, schema: pl.Schema, *, numbers: Iterable[str] = (), texts: Iterable[str] = ()) -> None:
    """Check that columns hold plain values: lists, structs, durations and bytes cannot stand for a figure or a name.

    Numbers may be text (which some releases of a data set have) and times; columns that are not there are skipped.

    Raises: InputError naming the column and the type that it holds.
    """
    import polars as pl

    # Names may also be dictionary-encoded; figures never are.
    plain = (pl.String, pl.Boolean, pl.Null, pl.Date, pl.Datetime)
    for names, further, wanted in ((numbers, (), "numbers"), (texts, (pl.Categorical, pl.Enum), "text")):
        for name in names:
            kind = schema.get(name)
            if kind is not None and not kind.is_numeric() and not isinstance(kind, (*plain, *further)):
                raise InputError(
                    f"column {name} holds {kind}, not {wanted}", where=path, hint="write it as Int64, Float64 or String"
                )


def number(frame: pl.DataFrame, name: str) -> Floats:
    """Return a column as numbers; NaN for gaps, words, Slurm's marks and columns that are not there. Shape (n,)."""
    import polars as pl

    from wattqueue.formats.slurm.columns import is_unset

    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    # A copy, since arrays that polars shares with numpy are read-only.
    value = np.array(frame[name].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    value[~np.isfinite(value) | is_unset(value)] = np.nan
    return value


def text(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a column as text, null where there is none; all null for a column that is not there. Shape (n,)."""
    import polars as pl

    if name not in frame.columns:
        return pl.Series(name, [None] * len(frame), dtype=pl.String)
    return frame[name].cast(pl.String, strict=False)


def labels(frame: pl.DataFrame, name: str) -> Labels:
    """Return a column as names with a code per row, gaps as the empty name. Shape (n,)."""
    return Labels.of(text(frame, name).fill_null("").to_numpy())


def instants(frame: pl.DataFrame, name: str, clock: Clock) -> Times:
    """Return a column of times, NaN for gaps and for a column that is not there. Shapes (n,).

    Three forms: datetimes with a zone, which are exact; datetimes without one, and text, both of which ``clock`` reads
    (the datetimes by way of text, so that summer time is treated in one place only).
    """
    import polars as pl

    from wattqueue.formats.slurm.columns import Times, times

    unknown, no = np.full(len(frame), np.nan), np.zeros(len(frame), np.bool_)
    if name not in frame.columns:
        return Times(unknown, unknown, no, no)
    column = frame[name]
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        seconds = np.array((column.dt.epoch("ms").cast(pl.Float64) / 1e3).fill_null(np.nan).to_numpy())
        return Times(seconds, seconds, no, no)
    if isinstance(column.dtype, pl.Datetime):
        column = column.dt.to_string("%Y-%m-%dT%H:%M:%S%.3f")
    return times(text(column.to_frame(), name).str.replace(" ", "T", literal=True), clock)


def job_times(
    frame: pl.DataFrame, names: tuple[str, str, str], elapsed_s: Floats, clock: Clock
) -> tuple[JobTimes, bool]:
    """Return the columns of submit, start and end, and whether submissions had no zone.

    ``names`` are the columns in this order; ``elapsed_s`` (shape (n,), NaN where unknown) decides between the two
    readings of a time in the hour that a clock shows twice (``clock_changes``).
    """
    from wattqueue.formats.slurm.clock_changes import decided

    submit, start, end = (instants(frame, name, clock) for name in names)
    return decided(submit, start, end, elapsed_s), bool(submit.naive.any())


def clock_notes(when: JobTimes, good: NDArray[np.bool_], naive: bool, clock: Clock, example: str) -> list[str]:
    """Return remarks on times without a zone and on those that occur twice, over the rows of ``good``.

    ``example`` is the zone of the data set's site, which the remark suggests; it is never assumed.
    """
    from wattqueue.formats.slurm.clock_changes import TWICE

    notes = []
    if naive and not clock.stated:
        notes.append(f"times have no zone and are read as UTC (--time-zone {example})")
    if twice := int(when.ambiguous[good].sum()):
        notes.append(TWICE.format(twice))
    return notes


def split(reasons: Sequence[tuple[NDArray[np.bool_], str]], ids: NDArray[Any]) -> tuple[NDArray[np.bool_], Unusable]:
    """Return which rows are usable, and the others with the first reason that applies; rows count from 1.

    ``reasons`` are (rows concerned, reason), the most basic first; ``ids`` are the job ids of all rows. Shapes (n,).
    """
    code = np.full(len(ids), -1, np.int32)
    for i in range(len(reasons) - 1, -1, -1):  # backwards, so that the first reason is written last and stays
        code[reasons[i][0]] = i
    bad = np.flatnonzero(code >= 0)
    return code < 0, Unusable(bad + 1, ids[bad], Labels(code[bad], tuple(why for _, why in reasons)))
