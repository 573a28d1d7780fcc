"""Host lists as Slurm writes them (``n[001-004,007]``), and which jobs had their nodes to themselves.

Energy counters are per node, so joules are a job's own only where no other job ran on its nodes. To decide this for
millions of jobs on thousands of nodes, node names are never spelled out: a list is kept as ranges of numbers
(``HostRanges``), and a sweep over these ranges finds the overlaps in O(k log k) for k ranges, in bounded memory.

The flow, for a file that is read in blocks:

1. one ``HostIndex`` per file turns the lists of each block into ranges; it numbers the families of names, so that
   ``n`` has one number in all blocks;
2. ``HostRanges.joined`` joins the blocks (the reader shifts their row numbers);
3. ``shared_with_others`` marks the jobs that did not have their nodes alone, ``count_nodes`` counts different nodes.

An example: the list ``n[001-003,7]`` of row 5 becomes two ranges (row, family, low, high): (5, n, 1, 3) and
(5, n, 7, 7); ``login`` of row 6 becomes (6, login, 0, 0). Leading zeros are not kept, so ``n1`` and ``n001`` count as
one node here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.slurm.hostlist import NO_HOSTS, expand_hosts
from wattqueue.model.jobs import Floats
from wattqueue.model.ranges import ranges

if TYPE_CHECKING:
    import polars as pl

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

MOST_NAMES = 65_536
"""Names that one list of an unusual shape may hold; a longer one counts as unreadable."""
SWEEP_ROWS = 1_000_000
"""Occupations of a run of nodes that are sorted at a time: this bounds the memory of the sweep."""


class HostRanges(NamedTuple):
    """Runs of nodes: the list of ``row[k]`` holds nodes ``low[k]..high[k]`` of ``family[k]``. Shapes (k,).

    A family is the common part of names that differ in their last number, such as ``n`` of ``n001`` and ``n002``.
    """

    row: Ints
    family: Ints
    low: Ints
    high: Ints

    @classmethod
    def joined(cls, parts: Sequence[HostRanges]) -> HostRanges:
        """Return one table of several."""
        empty = np.empty(0, np.int32)
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True))) if parts else cls(*[empty] * 4)


class HostIndex:
    """Numbers of the families of node names, assigned as they turn up over all blocks of a file.

    One object per file, not shared between threads.
    """

    def __init__(self) -> None:
        self._family: dict[str, int] = {}

    def ranges(self, lists: Sequence[str] | pl.Series) -> tuple[HostRanges, Ints]:
        """Return the ranges of each list, and its number of nodes (0: none; -1: unreadable). Shape (n,) of the count.

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
        """Replace the names of families by their numbers, and count the nodes of each row.

        ``n`` is the number of lists; ``odd_rows`` are those of unusual shape, unreadable if they gave no name.
        """
        import polars as pl

        names = ranges["name"].unique().sort().to_list()
        codes = [self._family.setdefault(v, len(self._family)) for v in names]
        family = ranges["name"].replace_strict(names, codes, return_dtype=pl.Int32)
        row, low, high = (ranges[c].to_numpy() for c in ("row", "low", "high"))
        count = np.bincount(row, high.astype(np.int64) - low + 1, n)
        count[odd_rows[count[odd_rows] == 0]] = -1
        return HostRanges(row, family.to_numpy(), low, high), np.minimum(count, 2**31 - 1).astype(np.int32)


def _singles(text: pl.DataFrame) -> pl.DataFrame:
    """Return names of single nodes as ranges of one node.

    A name without a number, or with one beyond 32 bits, is a family of its own; the line end in its family's name
    keeps it apart from a family of numbered nodes with the same letters.
    """
    import polars as pl

    text = text.with_columns(name=pl.col("text").str.strip_chars_end("0123456789"))
    text = text.with_columns(low=pl.col("text").str.strip_prefix(pl.col("name")).cast(pl.Int32, strict=False))
    alone = pl.col("low").is_null()
    text = text.with_columns(
        name=pl.when(alone).then(pl.col("text") + "\n").otherwise("name"), low=pl.col("low").fill_null(0)
    )
    return text.select("row", "name", "low", high="low")


def _bracketed(text: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return lists of the common shape ``name[1-4,7]`` as ranges, and the lists of any other shape.

    A list is taken only if every part between its commas is a number or a rising range; a list that was cut short
    fails here, and again in ``_spelled_out``, and counts as unreadable.
    """
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
    """Return lists of unusual shape (several brackets, several families) name by name; unreadable ones give none.

    These are a few in a thousand at most sites, so plain Python is fast enough.
    """
    import polars as pl

    rows: list[int] = []
    names: list[str] = []
    for row, text in lists.iter_rows():
        found = expand_hosts(text, MOST_NAMES)
        names += found
        rows += [row] * len(found)
    return pl.DataFrame({"row": np.asarray(rows, np.int32), "text": pl.Series(names, dtype=pl.String)})


def count_nodes(ranges: HostRanges) -> int:
    """Return the number of different nodes in the ranges.

    Ranges are sorted by their first node; each adds what lies beyond the furthest node so far.
    """
    key_low, key_high = _keys(ranges)
    order = np.argsort(key_low, kind="stable")
    low, high = key_low[order], key_high[order]
    if not len(low):
        return 0
    before = np.concatenate(([low[0] - 1], np.maximum.accumulate(high)[:-1]))
    return int(np.maximum(high - np.maximum(low, before + 1) + 1, 0).sum())


def _keys(ranges: HostRanges) -> tuple[Longs, Longs]:
    """Return the first and last node of each range on one axis that holds all families.

    The family is the upper, the number the lower 32 bits: ranges of different families never touch.
    """
    base = ranges.family.astype(np.int64) << 32  # numbers are int32, so that the lower half never overflows
    return base + ranges.low, base + ranges.high


def shared_with_others(
    ranges: HostRanges, start_s: Floats, end_s: Floats, sweep_rows: int = SWEEP_ROWS
) -> NDArray[np.bool_]:
    """Return whether any node of a row was held by another row at the same time. Shape (n,) as ``start_s``.

    Nodes are cut into runs that the same rows hold, so that the work follows the number of different ranges and not
    the number of nodes. On each run, rows are sorted by start; one that starts before the latest end so far shares
    with the row that holds that end, and so, by induction, every sharing row is found. A start at the very time of
    an end is no overlap. ``sweep_rows`` bounds how many (run, row) pairs are in memory at a time.
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
    """Mark the rows that share one of the runs ``first[k]..last[k] - 1``.

    The running maximum of (run, rank of the end) is computed by one accumulate over integers: the run is the more
    significant digit, so the maximum starts again at each run. ``rank`` holds first the position of each row by start,
    then that by end; both are below n, so that ``run * n + rank`` orders by run first.
    """
    n = len(shared)
    rank = np.empty(n, np.int64)
    length = last - first
    run = ranges(first, length)
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
