"""PM100: jobs of Marconi100 with their power, and other tables of M100 jobs with these column names.

Columns that are read:

- ``job_id``, ``user_id``, ``partition``, ``job_state``, ``qos``;
- ``submit_time``, ``start_time``, ``end_time``: with a zone in the published file;
- ``run_time`` in seconds, ``time_limit`` in minutes or INFINITE (also as Slurm's number 4294967295);
- ``num_nodes_alloc``, ``num_cores_alloc``, ``num_gpus_alloc``, ``nodes`` (numbers of the nodes, as text or list),
  ``shared`` (whether others could use them);
- ``node_power_consumption``: watts summed over the job's nodes, one sample every 20 s (formats/pm100/power.py).

The samples are by far the largest part of the file, so they are taken out of the frame once and never copied with
it.

Reference: Antici et al., PM100: A Job Power Consumption Dataset of a Large-scale Production HPC System, SC-W 2023;
its features are described in job_features.md of that repository.

Flow: ``_parquet.scan`` reads the schema only, ``_expressions`` selects the columns, ``unusable`` separates rows that
are no jobs, then times, node lists, limits and power of the remaining rows are computed column by column. Rows keep
the order of the file until the last step, which sorts them by submission; arrays of one length can therefore be
combined without a key.

A row that cannot be used is left out with a reason (``Unusable``); a file that is not such a table is refused with
InputError. Power is optional: without it the jobs are read and a remark says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import _parquet
from wattqueue.formats.pm100.power import Recorded, recorded_power
from wattqueue.formats.slurm.columns import Clock
from wattqueue.formats.slurm.hosts import HostIndex, HostRanges, count_nodes, shared_with_others
from wattqueue.formats.unusable import Unusable, known, size_and_time_rules
from wattqueue.formats.workload import ALL_NODES, ALONE, ENERGY, QUALITY, Workload, alone_words, quality_labels
from wattqueue.formats.workload_format import DEFAULTS, ReadOptions
from wattqueue.model.bounds import COUNT, TIME_S
from wattqueue.model.jobs import Floats, Jobs

if TYPE_CHECKING:
    import polars as pl

NEEDED = ("job_id", "submit_time", "run_time", "num_nodes_alloc")
"""Columns without which a row is no job."""
POWER = "node_power_consumption"
"""The column of power samples, the only one that is a list of numbers."""
COLUMNS = (
    *NEEDED,
    *("start_time", "end_time", "time_limit", "user_id", "partition", "job_state", "qos", "shared", "nodes"),
    *("num_cores_alloc", "num_gpus_alloc"),
)
"""Every column that is read, apart from the power."""
FIGURES = (
    *("submit_time", "start_time", "end_time", "run_time", "time_limit"),
    *("num_nodes_alloc", "num_cores_alloc", "num_gpus_alloc"),
)
"""Columns of numbers and times; the others are text, ``nodes`` a text or a list."""
CORES_PER_NODE = 128
"""Hardware threads of a Marconi100 node as Slurm counts them (2 x 16 cores, 4 threads each)."""
LONGEST_LIMIT_MIN = 5e7
"""Slurm's INFINITE is 4294967295.

Minutes. A limit above it (95 years) is that mark in some encoding, and counts as no limit.
"""
NEVER_SHARED = ("0", "no", "false", "exclusive", "none")
"""Values of ``shared`` of a job that could not share its nodes."""


def read_pm100(path: Path, options: ReadOptions = DEFAULTS) -> Workload:
    """Return the jobs of a PM100 Parquet file: power profile, mean and maximum watts of one node where samples exist.

    A job is alone on its nodes where ``shared`` forbids others or it holds all their cores, and is not where
    another job of the file overlaps it; else it is unknown, since the file leaves jobs out. Jobs come in order of
    submission.

    Raises: InputError for a file that is no Parquet, lacks a column, or holds lists in place of figures.
    """
    lazy, schema = _parquet.scan(path)
    _parquet.require(path, schema.names(), NEEDED, "PM100")
    _parquet.require_kinds(path, schema, numbers=FIGURES, texts=set(COLUMNS) - {*FIGURES, "nodes"})
    frame = _parquet.collected(path, lazy.select(_expressions(path, schema)))
    # Filtering a frame copies its columns; the samples are most of the file, so they are filtered once, separately.
    samples = frame.drop_in_place(POWER) if POWER in frame.columns else None
    clock = Clock(options.time_zone)
    runtime, nodes = _parquet.number(frame, "run_time"), _parquet.number(frame, "num_nodes_alloc")
    when, naive = _parquet.job_times(frame, ("submit_time", "start_time", "end_time"), runtime, clock)
    submit = when.submit_s
    good, unusable = _usable(frame, submit, runtime, nodes)
    if not good.any():
        raise InputError(f"0 usable jobs in {len(frame)} rows", where=path, hint="is it a PM100 job table?")
    kept = frame.filter(good)
    submit, runtime, nodes = submit[good], runtime[good], nodes[good]
    # A start outside the limits of times becomes unknown: a job can be replayed without it.
    start = known(when.start_s[good], TIME_S)
    ranges = _hosts_of(kept)
    alone = _alone(kept, ranges, start, runtime, nodes)
    limit = _limits(kept, options.default_walltime_s)
    # A replay ends a job at its limit, so samples after it do not count: the profile covers min(run time, limit).
    # fmin ignores NaN, the limit of a job without one.
    power = None if samples is None else recorded_power(samples.filter(good), nodes, runtime, np.fmin(runtime, limit))
    jobs = _jobs(kept, (submit, start, runtime, limit, nodes), power, alone)
    if len(ranges.row):
        # The count of different nodes lets the machine guess propose a size of the cluster.
        jobs.extra[ALL_NODES] = np.full(len(jobs), count_nodes(ranges), np.int64)
    # Stable: jobs of one submission time keep the order of the file, which decides their queue order (semantics, rule
    # 5).
    order = np.argsort(submit, kind="stable")
    notes = _parquet.clock_notes(when, good, naive, clock, "Europe/Rome")
    if power is not None and power.broken:
        notes.append(f"{power.broken:,} jobs have samples of 0 W or less, or watts that no node draws: left out")
    if power is not None and power.uncovered:
        notes.append(
            f"{power.uncovered:,} jobs have samples that do not cover their run: they get mean and maximum watts, "
            "and no profile"
        )
    if POWER not in schema.names():
        notes.append(f"no power: the file has no column {POWER}")
    return Workload(jobs.take(order), unusable, "pm100", len(frame), tuple(notes))


def _expressions(path: Path, schema: pl.Schema) -> list[pl.Expr]:
    """Return the columns that are read. Raises: InputError where the power is no list of numbers.

    Samples are cast to float32 by polars during the scan: watts need no more than seven digits, and the column is the
    largest of the file. A list of nulls is accepted, since a file in which no job has samples has that type.
    """
    import polars as pl

    chosen = [pl.col(name) for name in COLUMNS if name in schema.names()]
    if POWER not in schema.names():
        return chosen
    kind = schema[POWER]
    if not isinstance(kind, (pl.List, pl.Array)) or not (kind.inner.is_numeric() or kind.inner == pl.Null):
        raise InputError(f"column {POWER} holds {kind}, not lists of numbers", where=path, hint="read PM100's Parquet")
    return [*chosen, pl.col(POWER).cast(pl.List(pl.Float32), strict=False)]


def _usable(frame: pl.DataFrame, submit: Floats, runtime: Floats, nodes: Floats) -> tuple[NDArray[np.bool_], Unusable]:
    """Return which rows are jobs, and the others with their reasons.

    The first reason that applies is the one that is listed, so what the row is comes before its figures. Comparisons
    are written as ``~(x > 0)`` to include NaN, which a missing value becomes. ``frame`` has all rows; shapes (n,).
    """
    state = _parquet.text(frame, "job_state").str.to_uppercase().fill_null("")
    ids = _parquet.text(frame, "job_id").fill_null("").to_numpy()
    reasons = (
        (ids == "", "no job_id"),
        (state.is_in(["PENDING", "RUNNING", "SUSPENDED"]).to_numpy(), "had not ended when the table was made"),
        (~(submit >= 0), "no submit_time"),
        (~(runtime > 0), "no positive run_time"),
        (~(nodes >= 1), "no nodes"),
        *size_and_time_rules(submit, runtime, nodes),
    )
    return _parquet.split(reasons, ids)


def _hosts_of(frame: pl.DataFrame) -> HostRanges:
    """Return the nodes of each job, which PM100 lists by number.

    The published file has lists of integers; conversions have text such as ``[12, 13]`` or ``['12', '13']``. Both are
    brought to the form ``12,13`` that ``HostIndex`` parses. A column of another type gives no ranges, so that whether
    jobs were alone is then decided by ``shared`` and the cores only.
    """
    import polars as pl

    if "nodes" not in frame.columns:
        return HostRanges.joined([])
    lists = frame["nodes"]
    if isinstance(lists.dtype, pl.List) and (lists.dtype.inner.is_numeric() or lists.dtype.inner == pl.String):
        lists = lists.cast(pl.List(pl.String)).list.join(",")
    if not (lists.dtype.is_numeric() or lists.dtype == pl.String):
        return HostRanges.joined([])
    return HostIndex().ranges(lists.cast(pl.String, strict=False).str.strip_chars("[] ").str.replace_all(r"[\s']", ""))[
        0
    ]


def _alone(frame: pl.DataFrame, ranges: HostRanges, start: Floats, runtime: Floats, nodes: Floats) -> NDArray[np.int8]:
    """Return 1 for a job alone on its nodes, 0 for one that shared them, -1 where it is unknown. Shape (n,).

    ``ranges`` are the nodes of the jobs (``row`` indexes them), ``start`` in Unix seconds, ``runtime`` in seconds,
    ``nodes`` the number of nodes. An observed overlap is evidence and outweighs the flag ``shared``, which only says
    what the user permitted. The absence of an overlap proves nothing, because the published file is a selection of
    jobs.
    """
    alone = np.full(len(frame), -1, np.int8)
    # Without a start a job has no interval to compare; it must not overlap every other job.
    known = np.isfinite(start)[ranges.row]
    alone[shared_with_others(HostRanges(*(c[known] for c in ranges)), start, start + runtime)] = 0
    flag = _parquet.text(frame, "shared").str.to_lowercase().fill_null("")
    whole = _parquet.number(frame, "num_cores_alloc") >= CORES_PER_NODE * nodes
    alone[(flag.is_in(NEVER_SHARED).to_numpy() | whole) & (alone != 0)] = 1
    return alone


def _limits(frame: pl.DataFrame, default_walltime_s: float | None) -> Floats:
    """Return the seconds of ``time_limit``, else the default, NaN without one. Shape (n,).

    PM100 states limits in minutes. Zero, negative and infinite limits count as none.
    """
    minutes = _parquet.number(frame, "time_limit")
    return np.where((minutes > 0) & (minutes < LONGEST_LIMIT_MIN), minutes * 60.0, default_walltime_s or np.nan)


def _jobs(
    frame: pl.DataFrame,
    columns: tuple[Floats, Floats, Floats, Floats, Floats],
    power: Recorded | None,
    alone: NDArray[np.int8],
) -> Jobs:
    """Return the job table of the usable rows; ``columns`` are submit, start, run time, limit and nodes.

    ``extra`` receives what the engine does not read: state, whether the job was alone, CPUs and GPUs where any row
    has them, and energy with its quality where any job has samples. The energy of a job is mean watts of one node x
    nodes x run time, in joules. ``mean_power_w`` and ``max_power_w`` are of one node, as everywhere in a job table.
    """
    submit, start, runtime, limit, nodes = columns
    extra = {"state": _parquet.text(frame, "job_state").fill_null("").to_numpy(), ALONE: alone_words(alone)}
    for name, source in (("cpus", "num_cores_alloc"), ("gpus", "num_gpus_alloc")):
        figures = known(_parquet.number(frame, source), COUNT)
        if np.isfinite(figures).any():
            extra[name] = np.nan_to_num(figures).astype(np.int64)
    watts: dict[str, Any] = {}
    if power is not None and (has := np.isfinite(power.mean_w)).any():
        extra |= {ENERGY: power.mean_w * nodes * runtime, QUALITY: quality_labels(has, alone)}
        watts = {"mean_power_w": power.mean_w, "max_power_w": power.max_w, "profiles": power.profiles}
    ids = frame["job_id"]
    return Jobs.build(
        submit,
        nodes,
        runtime,
        walltime_s=limit,
        job_id=ids.to_numpy() if ids.dtype.is_integer() else ids.cast(str).fill_null("").to_numpy(),
        user=_parquet.labels(frame, "user_id"),
        partition=_parquet.labels(frame, "partition"),
        start_s=start if np.isfinite(start).any() else None,
        extra=extra,
        **watts,
    )
