"""Runs of jobs as an accounting system recorded them, gathered block by block, and made into a job table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats._hosts import HostIndex, HostRanges, count_nodes, shared_with_others
from wattqueue.formats._sacct_energy import SOURCES
from wattqueue.model.jobs import Floats, Labels

if TYPE_CHECKING:
    import polars as pl

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]

USABLE = -1
REASONS = (
    "JobID is not a Slurm job number",
    "tasks of an array that had not started when the dump was made",
    "had not started when the dump was made",
    "still running when the dump was made",
    "Submit is not a time this reader knows: write the dump with SLURM_TIME_FORMAT=%s",
    "no Submit time",
    "never ran",
    "no run time",
    "no number of nodes",
    "a time without a zone where other rows have one: say which with --time-zone",
    "the same run as in another row",
    "a step whose job is not beside it",
)
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
    """Texts stored once each; a code a row, -1 for none."""

    def __init__(self) -> None:
        self.code: dict[str, int] = {}

    def codes(self, text: pl.Series) -> Ints:
        """Codes of a column; texts that say nothing are missing. Shape (n,)."""
        import polars as pl

        kinds = text.drop_nulls().unique().to_list()
        numbers = [self.code.setdefault(v, len(self.code)) for v in kinds]
        found = text.replace_strict(kinds, numbers, default=-1, return_dtype=pl.Int32) if kinds else None
        return np.full(len(text), -1, np.int32) if found is None else found.to_numpy()

    def labels(self, codes: Ints) -> Labels:
        """The names that ``codes`` use, sorted."""
        used = np.unique(codes[codes >= 0])
        names = np.array(list(self.code), object)[used]
        order = np.argsort(names.astype(np.str_)) if len(names) else np.empty(0, np.int64)
        place = np.full(len(self.code) + 1, -1, np.int32)
        place[used[order]] = np.arange(len(used))
        return Labels(place[codes], tuple(names[order].tolist()))


class Runs(NamedTuple):
    """One row a run, in order of the dump. Shapes (n,); NaN, 0 or -1 where nothing is known.

    ``task`` is the array task, -1 for none, or ``-2 - offset`` for a part of a heterogeneous job;
    the other integers beside counts are codes of Names. ``reason`` indexes REASONS.
    """

    line: Longs
    job: Longs
    task: Ints
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    elapsed_s: Floats
    limit_s: Floats
    nodes: Ints
    cpus: Ints
    gpus: Ints
    memory_gb: NDArray[np.float32]
    state: Ints
    user: Ints
    account: Ints
    app: Ints
    partition: Ints
    hosts: Ints
    energy_j: Floats
    covered_node_s: Floats
    source: NDArray[np.uint8]
    glitches: Ints
    naive: Mask
    reason: NDArray[np.int8]

    def take(self, index: NDArray[Any]) -> Runs:
        """The rows of ``index``, in that order."""
        columns: list[Any] = [column[index] for column in self]
        return Runs(*columns)


@dataclass
class Gathered:
    """Everything that a dump has given so far."""

    index: HostIndex = field(default_factory=HostIndex)
    names: dict[str, Names] = field(
        default_factory=lambda: {k: Names() for k in ("state", "user", "account", "app", "partition")}
    )
    blocks: list[Runs] = field(default_factory=list)
    ranges: list[HostRanges] = field(default_factory=list)
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    zoned: bool = False

    def add(self, runs: Runs, ranges: HostRanges) -> None:
        """One block more; ``ranges`` number the rows of this block."""
        self.ranges.append(ranges._replace(row=ranges.row + np.int32(self.rows)))
        self.blocks.append(runs)
        self.rows += len(runs.line)

    def joined(self) -> Runs:
        """All blocks as one table; the blocks are given up as it grows, column by column."""
        columns = [list(column) for column in zip(*self.blocks, strict=True)]
        self.blocks.clear()
        whole: list[Any] = []
        while columns:
            parts = columns.pop(0)
            whole.append(np.concatenate(parts) if len(parts) > 1 else parts[0])
        return Runs(*whole)


def sharing(runs: Runs, ranges: HostRanges) -> NDArray[np.int8]:
    """1 where a run had its nodes alone, 0 where it shared one, -1 where the dump cannot tell. Shape (n,).

    Runs still going hold their nodes for ever; a run counts the same node once, however often it is listed.
    """
    end = np.where(np.isnan(runs.end_s), runs.start_s + runs.elapsed_s, runs.end_s)
    end = np.where(np.isnan(end) | (runs.reason == RUNNING), np.inf, end)
    known = (runs.hosts > 0) & ~np.isnan(runs.start_s) & (runs.reason != AGAIN) & (end > runs.start_s)
    held = known[ranges.row]
    ranges = HostRanges(*(column[held] for column in ranges))
    shared = shared_with_others(ranges, runs.start_s, end)
    return np.where(known, np.where(shared, 0, 1), -1).astype(np.int8)


def mark_repeats(runs: Runs) -> None:
    """Mark rows that tell the same run again: same id, submission and start (dumps that overlap).

    The row that stays is the first usable one, else the first.
    """
    keys = (runs.job, runs.task, np.nan_to_num(runs.submit_s), np.nan_to_num(runs.start_s))
    order = np.lexsort((runs.line, runs.reason != USABLE, *reversed(keys)))
    order = order[np.isin(runs.reason[order], (USABLE, RUNNING))]
    first = np.ones(len(order), np.bool_)
    first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    runs.reason[order[~first]] = AGAIN


def nodes_seen(runs: Runs, ranges: HostRanges) -> Ints:
    """How many different nodes the runs of each row's partition were seen on; 0 where lists are missing. Shape (n,)."""
    seen = np.zeros(len(runs.line), np.int32)
    partition = runs.partition[ranges.row]
    for code in np.unique(partition).tolist():
        chosen = partition == code
        seen[runs.partition == code] = count_nodes(HostRanges(*(column[chosen] for column in ranges)))
    return seen


def job_ids(job: Longs, task: Ints) -> NDArray[Any]:
    """Ids as Slurm prints them: numbers where all are plain, else texts (``12_3``, ``12+1``). Shape (n,)."""
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
    """Where each energy comes from, in words. Shape (n,)."""
    return np.array(SOURCES, object)[source]


def counted(reasons: Iterable[str], most: int = 3) -> str:
    """The commonest reasons with their counts, in a few words."""
    total: Sequence[tuple[str, int]] = Counter(reasons).most_common()
    shown = ", ".join(f"{count:,} {why}" for why, count in total[:most])
    return shown + (f", and {len(total) - most} reasons more" if len(total) > most else "")
