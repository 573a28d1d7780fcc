"""F-DATA: jobs of the supercomputer Fugaku with their power.

Columns that are read, with the meaning that the data's own notes give:

- ``jid``, ``usr``, ``jnam``: job, user and job name (pseudonyms);
- ``adt``, ``sdt``, ``edt``: submission, start and end, on Japan's clock, in some releases without a zone;
- ``duration``, ``elpl``: seconds that the job ran, and its limit;
- ``nnuma``, ``cnumat``: nodes and cores that it held;
- ``avgpcon``, ``maxpcon``: mean and maximum watts of the whole job; here divided by its nodes;
- ``econ``: energy in watt-hours; where it is missing, mean watts x run time stand in for it;
- ``freq_alloc``: MHz of the cores; ``jobenv_req``: the environment that the job asked for.

A row with negative mean power is corrupt, according to those notes, and is left out. Fugaku allocates whole nodes
to large jobs only, so a job counts as alone on its nodes if it holds all their cores; otherwise this is unknown.

Where a figure that a job can do without (start, limit, watts, energy, cores) is missing or outside its limit, the job
is kept and the figure is unknown. Rows without id, submission, run time or size are left out, beside the corrupt ones.

Reference: Antici et al., F-DATA: A Fugaku Workload Dataset for Job-centric Predictive Modelling in HPC Systems,
Scientific Data 12 (2025).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.unusable import known, plausible_watts, size_and_time_rules
from wattqueue.formats.workload import ALONE, ENERGY, QUALITY, Workload, alone_words, quality_labels
from wattqueue.formats.workload_format import DEFAULTS, ReadOptions, WorkloadFormat, parquet_with
from wattqueue.model.bounds import COUNT, DURATION_S, TIME_S
from wattqueue.model.jobs import Floats, Jobs

if TYPE_CHECKING:
    import polars as pl

NEEDED = ("jid", "adt", "nnuma", "duration")
COLUMNS = (
    *NEEDED,
    *("usr", "jnam", "jobenv_req", "sdt", "edt", "elpl", "cnumat", "nnumr", "econ", "avgpcon", "maxpcon"),
    *("freq_alloc", "pclass", "exit state"),
)
"""The columns that are read; ``NEEDED`` ones must be there.

Releases differ in the others: a column that is missing is treated as a column of gaps.
"""
CORES_PER_NODE = 48
"""Compute cores of an A64FX: a job that holds them all has the node alone."""
JOULES_PER_WH = 3_600.0


def read_fdata(path: Path, options: ReadOptions = DEFAULTS) -> Workload:
    """Return the jobs of an F-DATA Parquet file, with mean and maximum watts of one node.

    Jobs come in order of submission; rows that cannot be used are numbered from 1, the first row of the table.

    Raises: InputError for a file that is no Parquet, lacks a column, or holds lists in place of figures.
    """
    from wattqueue.formats import _parquet
    from wattqueue.formats.slurm.columns import Clock

    lazy, schema = _parquet.scan(path)
    _parquet.require(path, schema.names(), NEEDED, "F-DATA")
    texts = {"jid", "usr", "jnam", "jobenv_req", "pclass", "exit state"}
    _parquet.require_kinds(path, schema, numbers=set(COLUMNS) - texts, texts=texts)
    frame = _parquet.collected(path, lazy.select([n for n in COLUMNS if n in schema.names()]))
    clock = Clock(options.time_zone)
    runtime, nodes = _parquet.number(frame, "duration"), _parquet.number(frame, "nnuma")
    when, naive = _parquet.job_times(frame, ("adt", "sdt", "edt"), runtime, clock)
    # The three times of a job are read together: each may decide which pass of a repeated hour another one is in.
    submit = when.submit_s
    # ``~(x > 0)`` and not ``x <= 0``: it holds for NaN too, that is, for a gap. The first reason of a row is listed.
    good, unusable = _parquet.split(
        (
            (_parquet.text(frame, "jid").fill_null("").to_numpy() == "", "no jid"),
            (_parquet.number(frame, "avgpcon") < 0, "corrupt: negative power"),
            (~(submit >= 0), "no adt (submission time)"),
            (~(runtime > 0), "no positive duration"),
            (~(nodes >= 1), "no nodes"),
            *size_and_time_rules(submit, runtime, nodes),
        ),
        _parquet.text(frame, "jid").fill_null("").to_numpy(),
    )
    if not good.any():
        raise InputError(f"0 usable jobs in {len(frame)} rows", where=path, hint="is it an F-DATA table?")
    kept = frame.filter(good)
    submit, runtime, nodes = submit[good], runtime[good], nodes[good]
    start = known(when.start_s[good], TIME_S)
    jobs, remarks = _jobs(kept, submit, start, runtime, nodes, options.default_walltime_s)
    notes = _parquet.clock_notes(when, good, naive, clock, "Asia/Tokyo") + remarks
    return Workload(jobs.take(np.argsort(submit, kind="stable")), unusable, "fdata", len(frame), tuple(notes))


def _jobs(
    frame: pl.DataFrame, submit: Floats, start: Floats, runtime: Floats, nodes: Floats, default_walltime_s: float | None
) -> tuple[Jobs, list[str]]:
    """Return the job table of the usable rows, in the order of the file, and remarks on their watts.

    Arrays have one entry per row of ``frame``: ``submit`` and ``start`` in Unix seconds (start NaN where unknown),
    ``runtime`` in seconds, ``nodes`` held.
    """
    from wattqueue.formats import _parquet

    limit = _parquet.number(frame, "elpl")
    limit = np.where(DURATION_S.holds(limit), limit, default_walltime_s or np.nan)
    mean, peak = (_parquet.number(frame, name) / nodes for name in ("avgpcon", "maxpcon"))
    # 0 W is a job that nothing was measured of: a node that is on draws something.
    mean[~(mean > 0)], peak[~(peak > 0)] = np.nan, np.nan
    mean, peak, remarks = plausible_watts(mean, peak)
    energy = _parquet.number(frame, "econ") * JOULES_PER_WH
    # Mean watts are of one node here, so that joules of the job need its nodes again.
    energy = np.where(energy > 0, energy, mean * nodes * runtime)
    # A gap compares as False: whether the job was alone is then unknown.
    whole = _parquet.number(frame, "cnumat") >= CORES_PER_NODE * nodes
    extra = _extra(frame, energy, np.where(whole, 1, -1).astype(np.int8))
    jobs = Jobs.build(
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
    return jobs, remarks


def _extra(frame: pl.DataFrame, energy: Floats, alone: NDArray[np.int8]) -> dict[str, NDArray[Any]]:
    """Return further columns: energy and its quality, cores, frequency, state, performance class, job environment.

    ``energy`` are joules of the whole job, NaN where unknown; ``alone`` is 1 for a job that held all cores of its
    nodes, -1 where this is unknown. Shapes (n,). Columns without any value are left out.
    """
    from wattqueue.formats import _parquet

    extra: dict[str, NDArray[Any]] = {ALONE: alone_words(alone)}
    has = np.isfinite(energy)
    if has.any():
        extra |= {ENERGY: energy, QUALITY: quality_labels(has, alone)}
    cores = known(_parquet.number(frame, "cnumat"), COUNT)
    if np.isfinite(cores).any():
        extra["cpus"] = np.nan_to_num(cores).astype(np.int64)
    frequency = _parquet.number(frame, "freq_alloc")
    if np.isfinite(frequency).any():
        extra["frequency_hz"] = frequency * 1e6  # from MHz
    for name, source in (("state", "exit state"), ("pclass", "pclass"), ("job_environment", "jobenv_req")):
        if source in frame.columns:
            extra[name] = _parquet.text(frame, source).fill_null("").to_numpy()
    return extra


FORMAT = WorkloadFormat(
    "fdata", "F-DATA Parquet", parquet_with("jid", "adt"), lambda file, options: read_fdata(file.path, options)
)
