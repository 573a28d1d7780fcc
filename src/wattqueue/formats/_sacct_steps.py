"""Rows of steps: which job each belongs to, and what its counter says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats._runs import Longs
from wattqueue.formats._sacct_columns import amounts, durations, energies, tres
from wattqueue.formats._sacct_energy import BATCH, EXTERN, NUMBERED, Steps
from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    import polars as pl

LONGEST_S = 3.2e9
"""A century: a longer run time or limit is an unset counter."""


def column(frame: pl.DataFrame, *names: str) -> pl.Series:
    """The first of these columns that the dump has; all null where it has none."""
    import polars as pl

    for name in names:
        if name in frame.columns:
            return frame[name]
    return pl.Series([None] * len(frame), dtype=pl.String)


def elapsed_s(frame: pl.DataFrame) -> Floats:
    """Run time in seconds: the raw column where it holds something, else the other. Shape (n,)."""
    value = amounts(column(frame, "elapsedraw"))
    if "elapsed" in frame.columns:
        value = np.where(np.isnan(value), durations(frame["elapsed"]), value)
    value[~((value >= 0) & (value < LONGEST_S))] = np.nan
    return value


class Found(NamedTuple):
    """Steps with the rows of their jobs, lines of steps without a job, and how many energies are no figures."""

    steps: Steps
    lost: list[int]
    unread: int


def steps_of(frame: pl.DataFrame, ids: pl.Series, is_step: NDArray[np.bool_], elapsed: Floats, nodes: Floats) -> Found:
    """The steps of a frame; a step takes the figures of its job (``elapsed``, ``nodes``) where it has none."""
    rows = np.flatnonzero(is_step)
    if not len(rows):
        return Found(Steps(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0), np.empty(0)), [], 0)
    part = frame.filter(is_step)
    job = _owner(ids, is_step, rows)
    lost = job < 0
    lines = part["line"].filter(lost).to_list()
    part, job = part.filter(~lost), job[~lost]
    name = ids.gather(rows[~lost]).str.splitn(".", 2).struct.field("field_1").fill_null("").str.to_lowercase()
    kind = np.full(len(job), BATCH, np.uint8)
    kind[name.str.starts_with("ext").to_numpy()] = EXTERN
    kind[name.str.contains(r"^\d").to_numpy()] = NUMBERED
    energy, bad = figure_j(part)
    seconds, size = elapsed_s(part), amounts(column(part, "nnodes", "allocnodes"))
    seconds = np.where(np.isnan(seconds), elapsed[job], seconds)
    size = np.where(size >= 1, size, np.where(kind == BATCH, 1.0, nodes[job]))
    return Found(Steps(job, kind, energy, seconds * size), lines, int(bad.sum()))


def _owner(ids: pl.Series, is_step: NDArray[np.bool_], rows: Longs) -> Longs:
    """The job row of each step: the one before it if the ids agree, else the last of that id; -1 for none."""
    import polars as pl

    before = np.cumsum(~is_step)[rows] - 1
    parents = ids.filter(~is_step)
    base = ids.gather(rows).str.splitn(".", 2).struct.field("field_0")
    if not len(parents):
        return np.full(len(rows), -1, np.int64)
    agree = (parents.gather(np.maximum(before, 0)) == base).to_numpy() & (before >= 0)
    if agree.all():
        return before
    table = pl.DataFrame({"id": parents, "row": np.arange(len(parents))}).unique("id", keep="last")
    found = pl.DataFrame({"id": base}).join(table, "id", how="left", maintain_order="left")["row"]
    return np.where(agree, before, found.fill_null(-1).to_numpy())


def figure_j(frame: pl.DataFrame) -> tuple[Floats, NDArray[np.bool_]]:
    """Joules of each row by the best column that holds any, and whether something unreadable stands there."""
    value, bad = energies(column(frame, "consumedenergyraw"))
    if "consumedenergy" in frame.columns:
        other, other_bad = energies(frame["consumedenergy"])
        value, bad = np.where(np.isnan(value), other, value), bad | other_bad
    if "alloctres" in frame.columns:
        listed = tres(frame["alloctres"], "energy")
        value = np.where(np.isnan(value) & (listed > 0), listed, value)
    return value, bad & np.isnan(value)
