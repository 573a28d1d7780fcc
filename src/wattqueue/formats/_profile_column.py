"""Power profiles in a Parquet job table: a list of watts of one unit a job, a sample a period, empty without one.

CSV has no lists, so it carries no profiles. The period stands in the file's metadata, 20 s unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.profiles import PERIOD_S, Profiles

if TYPE_CHECKING:
    import polars as pl

COLUMN = "power_profile_w"
PERIOD = "profile_period_s"
"""Name of the period among the facts of a file."""
AGREES = 0.01
"""A stated mean or maximum that differs by more than this share contradicts the profile."""
_SAMPLES_A_PIECE = 2_000_000


def profile_column(jobs: Jobs) -> pl.Series | None:
    """The samples of each job's work as lists of float32, null without a profile; None where no job has one."""
    import polars as pl

    profiles = jobs.profiles
    if profiles is None or not (profiles.pattern >= 0).any():
        return None
    count = np.ceil(np.minimum(jobs.runtime_s, jobs.walltime_s) / profiles.period_s).astype(np.int64)
    count[profiles.pattern < 0] = 0
    total = np.concatenate(([0], np.cumsum(count)))
    pieces: list[pl.Series] = []
    for begin, end in _pieces(total):
        job = np.repeat(np.arange(begin, end), count[begin:end])
        place = np.arange(total[begin], total[end]) - total[job]
        watts = profiles.power_at(job, (place + 0.5) * profiles.period_s).astype(np.float32)
        lists = pl.DataFrame({"job": job, COLUMN: watts}).group_by("job", maintain_order=True).agg(COLUMN)[COLUMN]
        has = count[begin:end] > 0
        pieces.append(lists.gather(pl.Series(np.cumsum(has) - 1).set(pl.Series(~has), None)))
    return pl.concat(pieces, rechunk=True)


def _pieces(total: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Rows in pieces of about two million samples."""
    cuts = np.searchsorted(total, np.arange(_SAMPLES_A_PIECE, total[-1], _SAMPLES_A_PIECE))
    edges = np.unique(np.concatenate(([0], cuts, [len(total) - 1]))).tolist()
    return list(pairwise(edges))


def read_profiles(where: str, column: pl.Series, facts: Mapping[str, str]) -> Profiles:
    """Profiles of a column of lists. Raises: InputError naming the file and, where it can, the row."""
    import polars as pl

    if not isinstance(column.dtype, pl.List) or not column.dtype.inner.is_numeric():
        raise InputError(
            f"column {COLUMN} holds {column.dtype}, not lists of numbers", where=where, mend="write List(Float32)"
        )
    length = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    has = length > 0
    level = column.filter(pl.Series(has)).explode().cast(pl.Float32).fill_null(float("nan")).to_numpy()
    bad = ~(np.isfinite(level) & (level >= 0))
    if bad.any():
        row = int(np.flatnonzero(has)[np.searchsorted(np.cumsum(length[has]), int(np.argmax(bad)), side="right")])
        raise InputError(
            f"column {COLUMN} holds {level[np.argmax(bad)]}, not 0 W or more",
            where=f"{where}: row {row + 1}",
            mend="mend the samples, or leave the job's list empty",
        )
    return Profiles.recorded(level, length, _period(where, facts))


def _period(where: str, facts: Mapping[str, str]) -> float:
    text = facts.get(PERIOD, str(PERIOD_S))
    try:
        period = float(text)
    except ValueError:
        period = 0.0
    if not 0 < period < np.inf:
        raise InputError(f"{PERIOD} is {text!r}", where=where, mend="seconds above 0")
    return period


def filled(where: str, name: str, stated: Floats | None, own: Floats) -> Floats:
    """A column of watts with gaps filled by the profiles' own figures. Shapes (n,).

    Raises: InputError for a stated figure that contradicts its profile.
    """
    if stated is None:
        return own
    with np.errstate(invalid="ignore"):
        wrong = np.abs(stated - own) > AGREES * np.maximum(own, 1.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"column {name} is {stated[row]:g}, by its {COLUMN} {own[row]:g}",
            where=f"{where}: row {row + 1}",
            mend=f"mend either, or leave {name} empty ({int(wrong.sum())} such)",
        )
    return np.where(np.isnan(stated), own, stated)
