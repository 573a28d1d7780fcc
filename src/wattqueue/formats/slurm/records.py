"""Runs of jobs from Slurm's accounting: gathered block by block, then joined into one table.

An accounting dump may be larger than memory, so its text is read in blocks and only what a job table needs is kept:
numbers, and names as codes (``Names``). ``CollectedRuns`` gathers the blocks. After the last block,
``mark_repeats``, ``sharing`` and ``nodes_seen`` look at all runs together; ``jobs`` then makes the job
table.

Invariants: all columns of a ``JobRecords`` have one length and the order of the dump; ``HostRanges.row`` numbers the
rows of the joined table, so ranges and rows stay together only until rows are left out, and everything that compares
nodes runs before that. ``reason`` is the only column that is changed in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.slurm.energy import SOURCES
from wattqueue.formats.slurm.hosts import HostIndex, HostRanges, count_nodes, shared_with_others
from wattqueue.model.jobs import Floats, Labels

if TYPE_CHECKING:
    import polars as pl

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

USABLE = -1
"""Value of ``JobRecords.reason`` for a row that is a usable job."""
REASONS = (
    "JobID is not a Slurm job number",
    "tasks of an array that had not started when the dump was made",
    "had not started when the dump was made",
    "still running when the dump was made",
    "cannot read the time of Submit: write the dump with SLURM_TIME_FORMAT=%s",
    "no Submit time",
    "never ran",
    "no run time",
    "no number of nodes",
    "a time without a zone where other rows have one: state it with --time-zone",
    "repeats the run of another row",
    "a step whose job is not in the dump",
)
"""Why a row is no usable job; the names below are indices of this table.

The texts are written to unusable.csv and counted in errors; code compares the indices only.
"""
(
    BAD_ID,
    ARRAY_REST,
    PENDING,
    RUNNING,
    BAD_SUBMIT,
    NO_SUBMIT,
    NEVER_RAN,
    NO_RUNTIME,
    NO_NODES,
    NO_ZONE,
    AGAIN,
    ORPHAN,
) = range(len(REASONS))


class Names:
    """Texts stored once each, with a code per row, -1 for none.

    Codes are given in the order in which texts first appear, so they differ between two orders of the same rows;
    ``labels`` removes that difference by sorting. ``code`` maps each text to its code, 0 and up without gaps.
    """

    def __init__(self) -> None:
        self.code: dict[str, int] = {}

    def codes(self, text: pl.Series) -> Ints:
        """Return the codes of a column; missing texts are -1. Shape (n,)."""
        import polars as pl

        kinds = text.drop_nulls().unique().to_list()
        # Only the different texts of a block pass through Python; the rows are translated by polars.
        numbers = [self.code.setdefault(v, len(self.code)) for v in kinds]
        found = text.replace_strict(kinds, numbers, default=-1, return_dtype=pl.Int32) if kinds else None
        return np.full(len(text), -1, np.int32) if found is None else found.to_numpy()

    def labels(self, codes: Ints) -> Labels:
        """Return the names that ``codes`` use, sorted.

        ``codes`` are those of the rows that are kept, shape (n,): a name that only unusable rows have does not
        appear. The order is by code point, independent of the locale, so that the same jobs give identical tables
        everywhere.
        """
        used = np.unique(codes[codes >= 0])
        names = np.array(list(self.code), object)[used]
        # As objects: an array of characters would be as wide as the longest command line.
        order = np.argsort(names) if len(names) else np.empty(0, np.int64)
        # One element more than codes: code -1 indexes the last one, which stays -1.
        place = np.full(len(self.code) + 1, -1, np.int32)
        place[used[order]] = np.arange(len(used))
        return Labels(place[codes], tuple(names[order].tolist()))


class JobRecords(NamedTuple):
    """One row per run, in order of the dump. Shapes (n,); NaN, 0 or -1 where nothing is known.

    ``state``, ``user``, ``account``, ``wckey``, ``app``, ``partition`` and ``submit_line`` are codes of Names.
    """

    line: Longs
    """Line of the dump (JSON: number in the list)."""
    job: Longs
    """Job number, -1 where the id is none."""
    task: Ints
    """Array task, -1 for none, or ``-2 - offset`` for a part of a heterogeneous job."""
    submit_s: Floats
    """Seconds since 1970 UTC, as are ``start_s`` and ``end_s``."""
    start_s: Floats
    end_s: Floats
    elapsed_s: Floats
    """Seconds that the job ran, without the time for which it was suspended."""
    limit_s: Floats
    """Time limit; NaN for none or unlimited."""
    nodes: Ints
    """Nodes of the allocation, as are ``cpus`` and ``gpus``; 0 where unknown."""
    cpus: Ints
    gpus: Ints
    memory_gb: NDArray[np.float32]
    """Requested memory of the whole job in GB."""
    state: Ints
    """Slurm's state in capital letters, without what follows it (``CANCELLED by 1234``)."""
    user: Ints
    account: Ints
    wckey: Ints
    app: Ints
    partition: Ints
    submit_line: Ints
    hosts: Ints
    """Nodes in the node list: 0 for none, -1 where it cannot be read."""
    energy_j: Floats
    """Joules of the whole job, over ``covered_node_s`` node-seconds."""
    covered_node_s: Floats
    source: NDArray[np.uint8]
    """The counter that the joules come from: an index of SOURCES."""
    glitches: Ints
    """Counters that were left out as implausible."""
    naive: Mask
    """Whether the submission had no zone."""
    ambiguous: Mask
    """Whether a local time occurs twice and stays undecided."""
    reason: NDArray[np.int8]
    """Why the row is no usable job: an index of REASONS, or USABLE."""

    def take(self, index: NDArray[Any]) -> JobRecords:
        """Return the rows of ``index``, in that order.

        ``index`` is an array of row numbers or a mask of shape (n,).
        """
        columns: list[Any] = [column[index] for column in self]
        return JobRecords(*columns)


@dataclass
class CollectedRuns:
    """Everything that a dump has given so far.

    ``zoned`` says whether any time had a zone; rows without one are then unusable unless the user states it.
    ``counts`` holds what the remarks of the import print.

    ``index`` numbers the nodes of all blocks alike; ``names`` holds the codes of each column of texts; ``blocks`` and
    ``ranges`` are the rows and their nodes, one element per block; ``rows`` is the number of rows in them.
    """

    index: HostIndex = field(default_factory=HostIndex)
    names: dict[str, Names] = field(
        default_factory=lambda: {
            k: Names() for k in ("state", "user", "account", "wckey", "app", "partition", "submit_line")
        }
    )
    blocks: list[JobRecords] = field(default_factory=list)
    ranges: list[HostRanges] = field(default_factory=list)
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    zoned: bool = False

    def add(self, runs: JobRecords, ranges: HostRanges) -> None:
        """Append a block; ``ranges`` number the rows of this block.

        They are renumbered here to rows of the joined table. ``runs`` is kept without a copy.
        """
        self.ranges.append(ranges._replace(row=ranges.row + np.int32(self.rows)))
        self.blocks.append(runs)
        self.rows += len(runs.line)

    def joined(self) -> JobRecords:
        """Return all blocks as one table.

        The blocks are released column by column as the table grows: at no time are all rows in memory twice.

        The object is empty afterwards: it can be joined once.
        """
        # A column is joined and its parts are released before the next one: the peak is one column above the total.
        columns = [list(column) for column in zip(*self.blocks, strict=True)]
        self.blocks.clear()
        whole: list[Any] = []
        while columns:
            parts = columns.pop(0)
            whole.append(np.concatenate(parts) if len(parts) > 1 else parts[0])
        return JobRecords(*whole)


def sharing(runs: JobRecords, ranges: HostRanges) -> NDArray[np.int8]:
    """Return 1 where a run had its nodes alone, 0 where it shared one, -1 where the dump cannot tell. Shape (n,).

    A run that has not ended holds its nodes for ever; a run counts the same node once, however often it is listed.

    Two runs share a node if both hold it at some moment; one that ends when the other starts does not. ``ranges`` are
    the nodes of all rows. Rows that repeat another one are excluded: they would share all nodes with the run itself.

    Whether a run was alone decides the quality of its energy, since Slurm's counters measure whole nodes.
    """
    end = np.where(np.isnan(runs.end_s), runs.start_s + runs.elapsed_s, runs.end_s)
    # The End of a running job is a forecast in squeue, and Unknown in sacct.
    end = np.where(np.isnan(end) | (runs.reason == RUNNING), np.inf, end)
    known = (runs.hosts > 0) & ~np.isnan(runs.start_s) & (runs.reason != AGAIN) & (end > runs.start_s)
    held = known[ranges.row]
    ranges = HostRanges(*(column[held] for column in ranges))
    shared = shared_with_others(ranges, runs.start_s, end)
    return np.where(known, np.where(shared, 0, 1), -1).astype(np.int8)


def mark_repeats(runs: JobRecords) -> None:
    """Mark rows that describe the same run again: same id, submission and start (dumps that overlap).

    The row that stays is the first usable one, else the first.

    Several rows with one id are not always repeats: a requeued job has one row per run, with the same submission and
    another start. Rows that are unusable for another reason than RUNNING keep that reason. ``runs.reason`` is changed
    in place.
    """
    keys = (runs.job, runs.task, np.nan_to_num(runs.submit_s), np.nan_to_num(runs.start_s))
    # Equal keys become neighbours, the usable row first, then one with an end, then the earlier line.
    order = np.lexsort((runs.line, np.isnan(runs.end_s), runs.reason != USABLE, *reversed(keys)))
    # A run that is still going in an earlier dump and ended in a later one is one run: the ended row, which is
    # usable, stays.
    order = order[np.isin(runs.reason[order], (USABLE, RUNNING))]
    first = np.ones(len(order), np.bool_)
    first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    runs.reason[order[~first]] = AGAIN


def nodes_seen(runs: JobRecords, ranges: HostRanges) -> Ints:
    """Return how many different nodes the runs of each row's partition used; 0 where lists are missing. Shape (n,).

    ``ranges`` are the nodes of all rows, unusable ones included: a node that only they name exists as well.
    """
    seen = np.zeros(len(runs.line), np.int32)
    partition = runs.partition[ranges.row]
    for code in np.unique(partition).tolist():
        chosen = partition == code
        seen[runs.partition == code] = count_nodes(HostRanges(*(column[chosen] for column in ranges)))
    return seen


def job_ids(job: Longs, task: Ints) -> NDArray[Any]:
    """Return ids as Slurm prints them: numbers where all are plain, else texts (``12_3``, ``12+1``). Shape (n,).

    ``task`` is coded as in ``JobRecords.task``. Numbers stay numbers because they are smaller and sort by value.
    """
    if (task == -1).all():
        return job
    import polars as pl

    number = pl.Series(job).cast(pl.String)
    other = pl.Series(task)
    suffix = pl.select(
        pl.when(other == -1)
        .then(pl.lit(""))
        .when(other >= 0)
        .then(pl.lit("_") + other.cast(pl.String))
        .otherwise(pl.lit("+") + (-2 - other).cast(pl.String))
    ).to_series()
    return (number + suffix).to_numpy()


def energy_sources(source: NDArray[np.uint8]) -> NDArray[Any]:
    """Return the counter that each energy comes from, in words. Shape (n,).

    The words are those of ``SOURCES``; empty where no energy is known.
    """
    return np.array(SOURCES, object)[source]


def counted(reasons: Iterable[str], most: int = 3) -> str:
    """Return the commonest reasons with their counts, in a few words.

    Example: ``12 never ran, 3 no Submit time, and 2 reasons more``. ``most`` is the number of reasons that are named.
    """
    total: Sequence[tuple[str, int]] = Counter(reasons).most_common()
    shown = ", ".join(f"{count:,} {why}" for why, count in total[:most])
    return shown + (f", and {len(total) - most} reasons more" if len(total) > most else "")
