"""F-DATA: jobs of the supercomputer Fugaku with their power.

Power columns are watts of the whole job, ``econ`` is watt-hours, ``elpl`` and ``duration`` are seconds.
A row with negative mean power is corrupt, as the data's own notes say.

Reference: Antici et al., F-DATA: A Fugaku Workload Dataset for Job-centric Predictive Modelling in HPC
Systems, Scientific Data 12 (2025).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import _parquet
from wattqueue.formats._sacct_columns import Clock
from wattqueue.formats.workload import ALONE, ENERGY, QUALITY, Workload, alone_words, quality_labels
from wattqueue.model.jobs import Floats, Jobs

if TYPE_CHECKING:
    import polars as pl

NEEDED = ("jid", "adt", "nnuma", "duration")
COLUMNS = (
    *NEEDED,
    *("usr", "jnam", "jobenv_req", "sdt", "edt", "elpl", "cnumat", "nnumr", "econ", "avgpcon", "maxpcon"),
    *("freq_alloc", "pclass", "exit state"),
)
CORES_PER_NODE = 48
"""Compute cores of an A64FX: who has them all has the node."""
JOULES_PER_WH = 3_600.0


def read_fdata(path: Path, *, time_zone: str | None = None, default_walltime_s: float | None = None) -> Workload:
    """Read an F-DATA Parquet file: mean and maximum watts of one node.

    Raises: InputError for a file that is no Parquet, or lacks a column.
    """
    lazy, schema = _parquet.scan(path)
    _parquet.require(path, schema.names(), NEEDED, "F-DATA")
    frame = _parquet.collected(path, lazy.select([n for n in COLUMNS if n in schema.names()]))
    clock = Clock(time_zone)
    submit, naive = _parquet.instants(frame, "adt", clock)
    runtime, nodes = _parquet.number(frame, "duration"), _parquet.number(frame, "nnuma")
    good, unusable = _parquet.rejected(
        (
            (_parquet.number(frame, "avgpcon") < 0, "corrupt: negative power"),
            (~(submit >= 0), "no adt (submission time)"),
            (~(runtime > 0), "no positive duration"),
            (~((nodes >= 1) & (nodes < 2**31)), "no nodes"),
        ),
        _parquet.text(frame, "jid").fill_null("").to_numpy(),
    )
    if not good.any():
        raise InputError(f"0 usable jobs in {len(frame)} rows", where=path, mend="is it an F-DATA table?")
    kept = frame.filter(good)
    submit, runtime, nodes = submit[good], runtime[good], nodes[good]
    start, _ = _parquet.instants(kept, "sdt", clock)
    jobs = _jobs(kept, submit, start, runtime, nodes, default_walltime_s)
    notes = ["times have no zone and are read as UTC (--time-zone Asia/Tokyo)"] if naive and time_zone is None else []
    return Workload(jobs.take(np.argsort(submit, kind="stable")), unusable, "fdata", len(frame), tuple(notes))


def _jobs(
    frame: pl.DataFrame, submit: Floats, start: Floats, runtime: Floats, nodes: Floats, default_walltime_s: float | None
) -> Jobs:
    limit = _parquet.number(frame, "elpl")
    limit = np.where(limit > 0, limit, default_walltime_s or np.nan)
    mean, peak = (_parquet.number(frame, name) / nodes for name in ("avgpcon", "maxpcon"))
    mean[~(mean > 0)], peak[~(peak > 0)] = np.nan, np.nan
    energy = _parquet.number(frame, "econ") * JOULES_PER_WH
    energy = np.where(energy > 0, energy, mean * nodes * runtime)
    whole = _parquet.number(frame, "cnumat") >= CORES_PER_NODE * nodes
    extra = _extra(frame, energy, np.where(whole, 1, -1).astype(np.int8))
    return Jobs.build(
        submit,
        nodes,
        runtime,
        walltime_s=limit,
        job_id=_parquet.text(frame, "jid").fill_null("").to_numpy(),
        user=_parquet.labels(frame, "usr"),
        app=_parquet.labels(frame, "jnam"),
        mean_power_w=mean if np.isfinite(mean).any() else None,
        max_power_w=peak if np.isfinite(peak).any() else None,
        start_s=start if np.isfinite(start).any() else None,
        extra=extra,
    )


def _extra(frame: pl.DataFrame, energy: Floats, alone: NDArray[np.int8]) -> dict[str, NDArray[Any]]:
    extra: dict[str, NDArray[Any]] = {ALONE: alone_words(alone)}
    has = np.isfinite(energy)
    if has.any():
        extra |= {ENERGY: energy, QUALITY: quality_labels(has, alone)}
    cores = _parquet.number(frame, "cnumat")
    if np.isfinite(cores).any():
        extra["cpus"] = np.nan_to_num(cores).astype(np.int64)
    frequency = _parquet.number(frame, "freq_alloc")
    if np.isfinite(frequency).any():
        extra["frequency_hz"] = frequency * 1e6
    for name, source in (("state", "exit state"), ("pclass", "pclass")):
        if source in frame.columns:
            extra[name] = _parquet.text(frame, source).fill_null("").to_numpy()
    return extra
