"""Host lists as Slurm writes them (``n[001-004,007]``), and which jobs had their nodes to themselves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.hostlist import NO_HOSTS, expand_hosts
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

MOST_NAMES = 65_536
"""Names that one list of an unusual shape may hold; a longer one is called unreadable."""
SWEEP_ROWS = 1_000_000
"""Occupations of a run of nodes sorted at a time: bounds the memory of the sweep."""


class HostRanges(NamedTuple):
    """Runs of nodes: the list of ``row[k]`` holds nodes ``low[k]..high[k]`` of ``family[k]``. Shapes (k,).

    A family is the common part of names that differ in their last number.
    """

    row: Ints
    family: Ints
    low: Ints
    high: Ints

    @classmethod
    def joined(cls, parts: Sequence[HostRanges]) -> HostRanges:
        """One table of several."""
        empty = np.empty(0, np.int32)
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else cls(*[empty] * 4)


class HostIndex:
    """Numbers the families of node names as they turn up, over all blocks of a file."""

    def __init__(self) -> None:
        self._family: dict[str, int] = {}

    def ranges(self, lists: Sequence[str] | pl.Series) -> tuple[HostRanges, Ints]:
        """Ranges of each list, and its number of nodes (0: none; -1: unreadable). Shape (n,) of the count.

        A list that was cut short (``nid[001535,006+``) is unreadable.
        """
        import polars as pl

        text = pl.DataFrame({"row": np.arange(len(lists), dtype=np.int32), "text": pl.Series(lists, dtype=pl.String)})
        text = text.filter(~pl.col("text").fill_null("").str.to_lowercase().is_in(NO_HOSTS))
        listed = pl.col("text").str.contains_any(["[", "]", ",", "+", " "])
        bracketed, odd = _bracketed(text.filter(listed))
        single = _singles(pl.concat([text.filter(~listed), _spelled_out(odd)]))
        return self._numbered(pl.concat([single, bracketed]), len(lists), odd["row"].to_numpy())

    def _numbered(self, ranges: pl.DataFrame, n: int, odd_rows: Ints) -> tuple[HostRanges, Ints]:
        import polars as pl

        names = ranges["name"].unique().sort().to_list()
        codes = [self._family.setdefault(v, len(self._family)) for v in names]
        family = ranges["name"].replace_strict(names, codes, return_dtype=pl.Int32)
        row, low, high = (ranges[c].to_numpy() for c in ("row", "low", "high"))
        count = np.bincount(row, high.astype(np.int64) - low + 1, n)
        count[odd_rows[count[odd_rows] == 0]] = -1
        return HostRanges(row, family.to_numpy(), low, high), np.minimum(count, 2**31 - 1).astype(np.int32)


def _singles(text: pl.DataFrame) -> pl.DataFrame:
    """Names of single nodes as ranges of one; a name without a (short) number is a family of its own."""
    import polars as pl

    text = text.with_columns(name=pl.col("text").str.strip_chars_end("0123456789"))
    text = text.with_columns(low=pl.col("text").str.strip_prefix(pl.col("name")).cast(pl.Int32, strict=False))
    alone = pl.col("low").is_null()
    text = text.with_columns(
        name=pl.when(alone).then(pl.col("text") + "\n").otherwise("name"), low=pl.col("low").fill_null(0)
    )
    return text.select("row", "name", "low", high="low")


def _bracketed(text: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Lists of the common shape ``name[1-4,7]`` as ranges, and the lists of any other shape."""
    import polars as pl

    halves = pl.col("text").str.strip_suffix("]").str.splitn("[", 2).struct.rename_fields(["name", "body"])
    parts = text.filter(pl.col("text").str.ends_with("]")).select("row", halves).unnest("text")
    parts = parts.with_columns(pl.col("body").str.split(",")).explode("body")
    ends = pl.col("body").str.splitn("-", 2).struct.rename_fields(["low", "high"])
    parts = parts.select("row", "name", ends).unnest("body").with_columns(pl.col("high").fill_null(pl.col("low")))
    parts = parts.with_columns(pl.col("low", "high").cast(pl.Int32, strict=False))
    good = (
        (pl.col("high") >= pl.col("low"))
        & (pl.col("low") >= 0)
        & ~pl.col("name").str.contains_any([",", "+", " ", "]"])
    )
    whole = good.fill_null(value=False).all().over("row")
    parts = parts.filter(whole)
    return parts, text.join(parts, "row", how="anti")


def _spelled_out(lists: pl.DataFrame) -> pl.DataFrame:
    """Lists of unusual shape (several brackets, several families), name by name; unreadable ones give none."""
    import polars as pl

    rows: list[int] = []
    names: list[str] = []
    for row, text in lists.iter_rows():
        found = expand_hosts(text, MOST_NAMES)
        names += found
        rows += [row] * len(found)
    return pl.DataFrame({"row": np.asarray(rows, np.int32), "text": pl.Series(names, dtype=pl.String)})


def count_nodes(ranges: HostRanges) -> int:
    """How many different nodes the ranges hold in all."""
    key_low, key_high = _keys(ranges)
    order = np.argsort(key_low, kind="stable")
    low, high = key_low[order], key_high[order]
    if not len(low):
        return 0
    before = np.concatenate(([low[0] - 1], np.maximum.accumulate(high)[:-1]))
    return int(np.maximum(high - np.maximum(low, before + 1) + 1, 0).sum())


def _keys(ranges: HostRanges) -> tuple[Longs, Longs]:
    """First and last node of each range on one axis that holds all families."""
    base = ranges.family.astype(np.int64) << 32
    return base + ranges.low, base + ranges.high


def shared_with_others(
    ranges: HostRanges, start_s: Floats, end_s: Floats, sweep_rows: int = SWEEP_ROWS
) -> NDArray[np.bool_]:
    """Whether any node of a row was held by another row at the same time. Shape (n,) as ``start_s``.

    Exact: on each node, rows sorted by start; one that starts before the latest end so far shares
    with the row that holds that end, and so, by induction, every sharing row is found. Ends that
    meet a start do not overlap.
    """
    shared = np.zeros(len(start_s), np.bool_)
    low, high = _keys(ranges)
    # Nodes between two neighbouring cuts are held by the very same rows: the sweep goes by such runs.
    cuts = np.unique(np.concatenate((low, high + 1)))
    first, last = np.searchsorted(cuts, low), np.searchsorted(cuts, high + 1)
    load = np.cumsum(np.bincount(first, minlength=len(cuts)) - np.bincount(last, minlength=len(cuts)))
    edges = [*np.flatnonzero(np.diff(np.cumsum(load) // sweep_rows, prepend=-1)).tolist(), len(cuts)]
    times = _Times(start_s, end_s, np.argsort(start_s, kind="stable"), np.argsort(end_s, kind="stable"))
    for a, b in itertools.pairwise(edges):
        inside = np.flatnonzero((first < b) & (last > a))
        _sweep(shared, ranges.row[inside], np.maximum(first[inside], a), np.minimum(last[inside], b), times)
    return shared


class _Times(NamedTuple):
    """When rows held their nodes, and the rows in order of these times. Shapes (n,)."""

    start_s: Floats
    end_s: Floats
    by_start: Longs
    by_end: Longs


def _sweep(shared: NDArray[np.bool_], rows: Ints, first: Longs, last: Longs, times: _Times) -> None:
    """Mark the rows that share one of the runs ``first[k]..last[k] - 1``."""
    n = len(shared)
    rank = np.empty(n, np.int64)
    length = last - first
    run = np.arange(length.sum()) + np.repeat(first - np.cumsum(length) + length, length)
    rank[times.by_start] = np.arange(n)
    key = np.sort(run * n + np.repeat(rank[rows], length))  # by run, then by start
    run, row = np.divmod(key, n)
    row = times.by_start[row]
    rank[times.by_end] = np.arange(n)
    top_run, top = np.divmod(np.maximum.accumulate(run * n + rank[row])[:-1], n)
    holder, row = times.by_end[top], row[1:]  # the row with the latest end so far, and the next one
    over = (top_run == run[1:]) & (times.end_s[holder] > times.start_s[row]) & (holder != row)
    shared[row[over]] = True
    shared[holder[over]] = True
