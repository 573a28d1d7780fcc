"""Power profiles in a Parquet job table: a list of the watts of one unit per job, one sample per period.

A list is empty for a job without a profile. CSV has no lists, so it carries no profiles. The period stands in the
file's metadata, 20 s unless it says otherwise. Stated mean watts must agree with the profile: two figures for one
quantity would make results depend on which of them a policy happens to read. A stated maximum may be higher than the
profile's: it is the highest reading of any unit of the job, the profile is the mean of its units.

``table`` is the only user: ``profile_column`` when it writes, ``read_profiles`` and then ``filled`` when it reads.
Profiles that were patterns in memory are recorded samples after writing and reading: the same watts (rounded to
float32), in more memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.bounds import DURATION_S, UNIT_W
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.plain_numbers import number_of
from wattqueue.model.profiles import PowerProfiles

if TYPE_CHECKING:
    import polars as pl

COLUMN = "power_profile_w"
PERIOD = "profile_period_s"
"""Name of the period among the facts of a file."""
AGREES = 0.01
"""A stated mean or maximum that differs by more than this share contradicts the profile.

Figures that another program rounded pass; those of another unit (node in place of socket) do not.
"""
READING_STEP_W = 20.0
"""Step of a node's power meter (Marconi100's): a stated maximum may lie half a step below the profile's."""


class ProfiledColumn(NamedTuple):
    """A column of watts that a file may state and a profile gives, too."""

    name: str
    own: Callable[[PowerProfiles, Floats], Floats]
    """Returns the profiles' figure of each job for its seconds of work. Shapes (n,)."""
    may_be_higher: bool
    """Whether a stated figure above the profile's is no contradiction."""
    step_w: float
    """Watts by which it may differ beside ``AGREES``."""


PROFILED = (
    ProfiledColumn("mean_power_w", PowerProfiles.mean_power_w, may_be_higher=False, step_w=0.0),
    ProfiledColumn("max_power_w", PowerProfiles.max_power_w, may_be_higher=True, step_w=READING_STEP_W / 2),
)
"""Columns of watts that profiles fill."""
_SAMPLES_A_PIECE = 2_000_000
"""Samples that are expanded at a time, which bounds the memory of writing."""


def profile_column(jobs: Jobs) -> pl.Series | None:
    """Return the samples of each job's work as lists of float32, null without a profile; None where no job has one.

    Profiles are stored as patterns that repeat, so each is expanded to the length of the job's work here, about two
    million samples at a time. What a job would do after its walltime is not written: it never runs.
    """
    import polars as pl

    profiles = jobs.profiles
    if profiles is None or not (profiles.pattern >= 0).any():
        return None
    count = np.ceil(np.minimum(jobs.runtime_s, jobs.walltime_s) / profiles.period_s).astype(np.int64)
    # A pattern of -1 is a job without a profile.
    count[profiles.pattern < 0] = 0
    total = np.concatenate(([0], np.cumsum(count)))
    pieces: list[pl.Series] = []
    for begin, end in _pieces(total):
        job = np.repeat(np.arange(begin, end), count[begin:end])
        # Number of the sample inside its job; it is taken in the middle of its period, clear of rounding at the edges.
        place = np.arange(total[begin], total[end]) - total[job]
        watts = profiles.power_at(job, (place + 0.5) * profiles.period_s).astype(np.float32)
        lists = pl.DataFrame({"job": job, COLUMN: watts}).group_by("job", maintain_order=True).agg(COLUMN)[COLUMN]
        # group_by leaves out jobs without samples; gather puts a null in their place.
        has = count[begin:end] > 0
        pieces.append(lists.gather(pl.Series(np.cumsum(has) - 1).set(pl.Series(~has), None)))
    return pl.concat(pieces, rechunk=True)


def _pieces(total: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of rows (begin, end) with about two million samples each; together they are all rows.

    ``total[j]`` is the number of samples before row j. Shape (n + 1,). A single row is never cut.
    """
    cuts = np.searchsorted(total, np.arange(_SAMPLES_A_PIECE, total[-1], _SAMPLES_A_PIECE))
    edges = np.unique(np.concatenate(([0], cuts, [len(total) - 1]))).tolist()
    return list(pairwise(edges))


def read_profiles(where: str, column: pl.Series, facts: Mapping[str, str]) -> PowerProfiles:
    """Return the profiles of a column of lists.

    ``facts`` hold the period. A sample must lie in ``bounds.UNIT_W``; an empty list is a job without a profile.

    Raises: InputError naming the file and, where possible, the row.
    """
    import polars as pl

    if not isinstance(column.dtype, pl.List) or not column.dtype.inner.is_numeric():
        raise InputError(
            f"column {COLUMN} holds {column.dtype}, not lists of numbers", where=where, hint="write List(Float32)"
        )
    # Rows without samples are left out before the lists are joined, since exploding an empty list gives a null.
    length = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    has = length > 0
    level = column.filter(pl.Series(has)).explode().cast(pl.Float32).fill_null(float("nan")).to_numpy()
    bad = ~UNIT_W.holds(level)
    if bad.any():
        # The samples of the rows up to and including row i end at cumsum[i]: the first that ends behind the bad one.
        row = int(np.flatnonzero(has)[np.searchsorted(np.cumsum(length[has]), int(np.argmax(bad)), side="right")])
        raise InputError(
            f"column {COLUMN} holds {level[np.argmax(bad)]}, not {UNIT_W.text}",
            where=f"{where}: row {row + 1}",
            hint="correct the samples, or leave the job's list empty",
        )
    return PowerProfiles.recorded(level, length, _period(where, facts))


def _period(where: str, facts: Mapping[str, str]) -> float:
    """Return the seconds of a sample; ``PERIOD_S`` where the file does not state them.

    Raises: InputError for text that is no number, and for less than 1 ms or more than the longest duration.
    """
    from wattqueue.model.profiles import PERIOD_S

    text = facts.get(PERIOD, str(PERIOD_S))
    period = number_of(text)
    if not 1e-3 <= period <= DURATION_S.high:
        raise InputError(f"{PERIOD} is {text!r}", where=where, hint="seconds above 0")
    return period


def filled(where: str, column: ProfiledColumn, stated: Floats | None, own: Floats) -> Floats:
    """Return a column of watts with gaps filled by the profiles' own figures. Shapes (n,).

    ``stated`` is the column of the file (None: there is none), ``own`` what the profile gives, NaN without a profile.
    The tolerance is ``AGREES`` of the profile's figure, but at least that share of 1 W, and the column's step.

    Raises: InputError for a stated figure that contradicts its profile.
    """
    if stated is None:
        return own
    allowed = AGREES * np.maximum(own, 1.0)
    with np.errstate(invalid="ignore"):
        # NaN on either side compares as False: a gap contradicts nothing.
        below = own - stated
        wrong = (below if column.may_be_higher else np.abs(below)) - column.step_w > allowed
    if wrong.any():
        row, name = int(np.argmax(wrong)), column.name
        raise InputError(
            f"column {name} is {stated[row]:g}, by its {COLUMN} {own[row]:g}",
            where=f"{where}: row {row + 1}",
            hint=f"correct either of them, or leave {name} empty; jobs concerned: {int(wrong.sum()):,}",
        )
    return np.where(np.isnan(stated), own, stated)
