"""Rows of steps: which job each belongs to, and the energy of its counter.

sacct prints the steps of a job below it, as ``7.batch``, ``7.extern``, ``7.0``, ``7.1``. Their rows carry energy
and often nothing else, so run time and nodes are taken from the job where a step has none. ``.batch`` and
``.interactive`` run on the first node only.

Input is a frame that holds jobs and steps together (``sacct._whole_jobs`` guarantees that a job is not parted from
the steps below it), output the arrays of ``JobSteps`` that ``energy.choose`` sums. A step whose job is missing
is reported (``Found.lost``), never assigned to another job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.slurm.columns import Energies, amounts, durations, energies, tres_text
from wattqueue.formats.slurm.energy import BATCH, EXTERN, NUMBERED, JobSteps
from wattqueue.formats.slurm.records import Longs
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

LONGEST_S = 3.2e9
"""A century: a longer run time or limit is an unset counter.

Seconds. Unset 32-bit counters, read as seconds, are 4.29e9.
"""


def column(frame: pl.DataFrame, *names: str) -> pl.Series:
    """Return the first of these columns that the dump has; all null where it has none.

    All columns are text; the null column lets callers treat an absent column as an empty one. Shape (n,).
    """
    import polars as pl

    for name in names:
        if name in frame.columns:
            return frame[name]
    return pl.Series([None] * len(frame), dtype=pl.String)


def elapsed_s(frame: pl.DataFrame) -> Floats:
    """Return the run time in seconds: the raw column where it holds something, else the other. Shape (n,)."""
    value = amounts(column(frame, "elapsedraw"))
    if "elapsed" in frame.columns:
        value = np.where(np.isnan(value), durations(frame["elapsed"]), value)
    value[~((value >= 0) & (value < LONGEST_S))] = np.nan
    return value


class Found(NamedTuple):
    """What ``steps_of`` returns.

    Fields: ``steps`` with the rows of their jobs; ``lost`` lines of steps whose job is not in the frame; ``unread``
    number of energies that are no figures.
    """

    steps: JobSteps
    lost: list[int]
    unread: int


def steps_of(frame: pl.DataFrame, ids: pl.Series, is_step: NDArray[np.bool_], elapsed: Floats, nodes: Floats) -> Found:
    """Return the steps of a frame; a step without figures takes those of its job.

    ``ids`` are the ids of all rows, ``is_step`` which of them are steps; ``elapsed`` and ``nodes`` are those of the
    jobs, in their order.

    The kind follows from the name after the point: digits are numbered steps (``7.0``), ``extern`` is .extern, all
    others (``batch``, ``interactive``) count as .batch: one node unless the row states a number.
    """
    rows = np.flatnonzero(is_step)
    if not len(rows):
        return Found(JobSteps(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0), np.empty(0)), [], 0)
    part = frame.filter(is_step)
    job = _owner(ids, is_step, rows)
    lost = job < 0
    lines = part["line"].filter(lost).to_list()
    part, job = part.filter(~lost), job[~lost]
    name = ids.gather(rows[~lost]).str.splitn(".", 2).struct.field("field_1").fill_null("").str.to_lowercase()
    kind = np.full(len(job), BATCH, np.uint8)
    kind[name.str.starts_with("ext").to_numpy()] = EXTERN
    kind[name.str.contains(r"^[0-9]").to_numpy()] = NUMBERED
    energy = figure_j(part)
    seconds, size = elapsed_s(part), amounts(column(part, "nnodes", "allocnodes"))
    seconds = np.where(np.isnan(seconds), elapsed[job], seconds)
    # .batch runs on the first node only, whatever the size of the job; other steps without a size use all nodes.
    size = np.where(size >= 1, size, np.where(kind == BATCH, 1.0, nodes[job]))
    return Found(JobSteps(job, kind, energy.joules, seconds * size), lines, int(energy.unread.sum()))


def _owner(ids: pl.Series, is_step: NDArray[np.bool_], rows: Longs) -> Longs:
    """Return the job row of each step: the one before it if the ids agree, else the last of that id; -1 for none.

    In nearly every dump all steps stand below their jobs, and the first test settles all of them without a join.
    """
    import polars as pl

    before = np.cumsum(~is_step)[rows] - 1
    parents = ids.filter(~is_step)
    base = ids.gather(rows).str.splitn(".", 2).struct.field("field_0")
    if not len(parents):
        return np.full(len(rows), -1, np.int64)
    agree = (parents.gather(np.maximum(before, 0)) == base).to_numpy() & (before >= 0)
    if agree.all():
        return before
    # Of several rows with one id (a requeued job) the last one, the latest run, is taken.
    table = pl.DataFrame({"id": parents, "row": np.arange(len(parents))}).unique("id", keep="last")
    found = pl.DataFrame({"id": base}).join(table, "id", how="left", maintain_order="left")["row"]
    return np.where(agree, before, found.fill_null(-1).to_numpy())


def figure_j(frame: pl.DataFrame) -> Energies:
    """Return joules of each row by the best column that holds any, and why there are none. Shapes (n,).

    ConsumedEnergyRaw, ConsumedEnergy and the energy of AllocTRES are one counter of Slurm's. So where any of them is
    unset, the others do not count: ConsumedEnergy would give a rounded form of the same mark.
    """
    value, unread, unset = energies(column(frame, "consumedenergyraw"))
    others = [frame["consumedenergy"]] if "consumedenergy" in frame.columns else []
    if "alloctres" in frame.columns:
        others.append(tres_text(frame["alloctres"], "energy"))
    for other in map(energies, others):
        value = np.where(np.isnan(value), other.joules, value)
        unread, unset = unread | other.unread, unset | other.unset
    value[unset] = np.nan
    return Energies(value, unread & np.isnan(value), unset)
