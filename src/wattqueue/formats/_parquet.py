"""Tables that other projects publish as Parquet: columns by name, times and figures as numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._sacct_columns import Clock, times
from wattqueue.formats._source import opened
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Floats, Labels

if TYPE_CHECKING:
    import polars as pl


def scan(path: Path) -> tuple[pl.LazyFrame, pl.Schema]:
    """A Parquet file, not yet read, and its schema. Raises: InputError where it is none."""
    import polars as pl

    with opened(path):  # a directory or a missing file: our own error
        pass
    try:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        return frame, frame.collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise _unreadable(path, error) from error


def collected(path: Path, frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows, computed group by group so that long lists never stand in memory together."""
    import polars as pl

    try:
        return frame.collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = (str(error).splitlines() or ["unknown"])[0]
    return InputError(f"is no Parquet file that can be read: {reason}", where=path, mend="fetch it again")


def require(path: Path, have: Iterable[str], need: Sequence[str], kind: str) -> None:
    """Whether the columns are there. Raises: InputError naming the first that is not."""
    have = set(have)
    for name in need:
        if name not in have:
            raise InputError(f"no column {name}", where=path, mend=f"a {kind} file has {', '.join(need)}")


def number(frame: pl.DataFrame, name: str) -> Floats:
    """A column as numbers; NaN for gaps, words and columns that are not there. Shape (n,)."""
    import polars as pl

    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    value = np.array(frame[name].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    value[~np.isfinite(value)] = np.nan
    return value


def text(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column as text; null where it is not there."""
    import polars as pl

    if name not in frame.columns:
        return pl.Series(name, [None] * len(frame), dtype=pl.String)
    return frame[name].cast(pl.String, strict=False)


def labels(frame: pl.DataFrame, name: str) -> Labels:
    """A column as names."""
    return Labels.of(text(frame, name).fill_null("").to_numpy())


def instants(frame: pl.DataFrame, name: str, clock: Clock) -> tuple[Floats, bool]:
    """A column of times in seconds since 1970 UTC, NaN for gaps, and whether they had no zone. Shape (n,)."""
    import polars as pl

    if name not in frame.columns:
        return np.full(len(frame), np.nan), False
    column = frame[name]
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        seconds = column.dt.epoch("ms").cast(pl.Float64) / 1e3
        return np.array(seconds.fill_null(np.nan).to_numpy()), False
    if isinstance(column.dtype, pl.Datetime):
        column = column.dt.to_string("%Y-%m-%dT%H:%M:%S%.3f")
    found = times(column.cast(pl.String, strict=False).str.replace(" ", "T", literal=True), clock)
    return found.time_s, bool(found.naive.any())


def rejected(reasons: Sequence[tuple[NDArray[np.bool_], str]], ids: NDArray[Any]) -> tuple[NDArray[np.bool_], Unusable]:
    """Which rows are usable, and the others with the first reason that applies; rows count from 1."""
    code = np.full(len(ids), -1, np.int32)
    for i in range(len(reasons) - 1, -1, -1):
        code[reasons[i][0]] = i
    bad = np.flatnonzero(code >= 0)
    return code < 0, Unusable(bad + 1, ids[bad], Labels(code[bad], tuple(why for _, why in reasons)))
