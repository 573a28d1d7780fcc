"""PM100: jobs of Marconi100 with their power, and other tables of M100 jobs with these column names.

Power is watts summed over a job's nodes, a sample every 20 s (formats/_pm100_power.py); times have a
zone; ``time_limit`` is minutes or INFINITE.

Reference: Antici et al., PM100: A Job Power Consumption Dataset of a Large-scale Production HPC System,
SC-W 2023; its features are described in job_features.md of that repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import _parquet
from wattqueue.formats._hosts import HostIndex, HostRanges, count_nodes, shared_with_others
from wattqueue.formats._pm100_power import Recorded, recorded_power
from wattqueue.formats._sacct_columns import Clock
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import ALL_NODES, ALONE, ENERGY, QUALITY, Workload, alone_words, quality_labels
from wattqueue.model.jobs import Floats, Jobs

if TYPE_CHECKING:
    import polars as pl

NEEDED = ("job_id", "submit_time", "run_time", "num_nodes_alloc")
POWER = "node_power_consumption"
COLUMNS = (
    *NEEDED,
    *("start_time", "end_time", "time_limit", "user_id", "partition", "job_state", "qos", "shared", "nodes"),
    *("num_cores_alloc", "num_gpus_alloc"),
)
CORES_PER_NODE = 128
"""Hardware threads of a Marconi100 node as Slurm counts them (2 x 16 cores, 4 threads each)."""
LONGEST_LIMIT_MIN = 5e7
"""Slurm's INFINITE is 4294967295."""
NEVER_SHARED = ("0", "no", "false", "exclusive", "none")
"""What ``shared`` says of a job that could not share its nodes."""


def read_pm100(path: Path, *, time_zone: str | None = None, default_walltime_s: float | None = None) -> Workload:
    """Read a PM100 Parquet file: power profile, mean and maximum watts of one node where samples are there.

    A job is alone on its nodes where ``shared`` forbids others or it holds all their cores, and is not
    where another job of the file overlaps it; else nobody can tell, since the file leaves jobs out.

    Raises: InputError for a file that is no Parquet, or lacks a column.
    """
    lazy, schema = _parquet.scan(path)
    _parquet.require(path, schema.names(), NEEDED, "PM100")
    frame = _parquet.collected(path, lazy.select(_expressions(path, schema)))
    samples = frame.drop_in_place(POWER) if POWER in frame.columns else None
    clock = Clock(time_zone)
    submit, naive = _parquet.instants(frame, "submit_time", clock)
    runtime, nodes = _parquet.number(frame, "run_time"), _parquet.number(frame, "num_nodes_alloc")
    good, unusable = _usable(frame, submit, runtime, nodes)
    if not good.any():
        raise InputError(f"0 usable jobs in {len(frame)} rows", where=path, mend="is it a PM100 job table?")
    kept = frame.filter(good)
    submit, runtime, nodes = submit[good], runtime[good], nodes[good]
    start, _ = _parquet.instants(kept, "start_time", clock)
    ranges = _hosts_of(kept)
    alone = _alone(kept, ranges, start, runtime, nodes)
    limit = _limits(kept, default_walltime_s)
    power = None if samples is None else recorded_power(samples.filter(good), nodes, runtime, np.fmin(runtime, limit))
    jobs = _jobs(kept, (submit, start, runtime, limit, nodes), power, alone)
    if len(ranges.row):
        jobs.extra[ALL_NODES] = np.full(len(jobs), count_nodes(ranges), np.int64)
    order = np.argsort(submit, kind="stable")
    notes = []
    if naive and time_zone is None:
        notes.append("times have no zone and are read as UTC (--time-zone Europe/Rome)")
    if power is not None and power.broken:
        notes.append(
            f"{power.broken:,} jobs have samples of 0 W or less, or watts that no node draws: left out of their power"
        )
    if power is not None and power.uncovered:
        notes.append(f"{power.uncovered:,} jobs have samples that do not cover their run: mean and maximum, no profile")
    if POWER not in schema.names():
        notes.append(f"no power: the file has no column {POWER}")
    return Workload(jobs.take(order), unusable, "pm100", len(frame), tuple(notes))


def _expressions(path: Path, schema: pl.Schema) -> list[pl.Expr]:
    """The columns that are read."""
    import polars as pl

    chosen = [pl.col(name) for name in COLUMNS if name in schema.names()]
    if POWER not in schema.names():
        return chosen
    kind = schema[POWER]
    if not isinstance(kind, (pl.List, pl.Array)):
        raise InputError(f"column {POWER} holds {kind}, not lists of numbers", where=path, mend="read PM100's Parquet")
    return [*chosen, pl.col(POWER).cast(pl.List(pl.Float32), strict=False)]


def _usable(frame: pl.DataFrame, submit: Floats, runtime: Floats, nodes: Floats) -> tuple[NDArray[np.bool_], Unusable]:
    state = _parquet.text(frame, "job_state").str.to_uppercase().fill_null("")
    reasons = (
        (state.is_in(["PENDING", "RUNNING", "SUSPENDED"]).to_numpy(), "had not ended when the table was made"),
        (~(submit >= 0), "no submit_time"),
        (~(runtime > 0), "no positive run_time"),
        (~((nodes >= 1) & (nodes < 2**31)), "no nodes"),
    )
    return _parquet.rejected(reasons, _parquet.text(frame, "job_id").fill_null("").to_numpy())


def _hosts_of(frame: pl.DataFrame) -> HostRanges:
    """The nodes of each job, which PM100 lists by number."""
    import polars as pl

    if "nodes" not in frame.columns:
        return HostRanges.joined([])
    lists = frame["nodes"]
    if isinstance(lists.dtype, pl.List):
        lists = lists.cast(pl.List(pl.String)).list.join(",")
    return HostIndex().ranges(lists.cast(pl.String, strict=False).str.strip_chars("[] ").str.replace_all(r"[\s']", ""))[
        0
    ]


def _alone(frame: pl.DataFrame, ranges: HostRanges, start: Floats, runtime: Floats, nodes: Floats) -> NDArray[np.int8]:
    """1 alone, 0 shared, -1 unknown. Shape (n,)."""
    alone = np.full(len(frame), -1, np.int8)
    known = np.isfinite(start)[ranges.row]
    alone[shared_with_others(HostRanges(*(c[known] for c in ranges)), start, start + runtime)] = 0
    flag = _parquet.text(frame, "shared").str.to_lowercase().fill_null("")
    whole = _parquet.number(frame, "num_cores_alloc") >= CORES_PER_NODE * nodes
    alone[(flag.is_in(NEVER_SHARED).to_numpy() | whole) & (alone != 0)] = 1
    return alone


def _limits(frame: pl.DataFrame, default_walltime_s: float | None) -> Floats:
    """Seconds of ``time_limit``, else the default, NaN without one. Shape (n,)."""
    minutes = _parquet.number(frame, "time_limit")
    return np.where((minutes > 0) & (minutes < LONGEST_LIMIT_MIN), minutes * 60.0, default_walltime_s or np.nan)


def _jobs(
    frame: pl.DataFrame,
    columns: tuple[Floats, Floats, Floats, Floats, Floats],
    power: Recorded | None,
    alone: NDArray[np.int8],
) -> Jobs:
    submit, start, runtime, limit, nodes = columns
    extra = {"state": _parquet.text(frame, "job_state").fill_null("").to_numpy(), ALONE: alone_words(alone)}
    for name, source in (("cpus", "num_cores_alloc"), ("gpus", "num_gpus_alloc")):
        figures = _parquet.number(frame, source)
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
