"""Local times in the hour that a clock shows twice: which of the two passes is meant.

When summer time ends, local times between 02:00 and 03:00 occur twice, and Slurm writes no offset. Each such time is
read both early (first pass) and late (second pass), an hour apart. The times of one job determine one another:

1. End - Start = Elapsed, to within ``ROUNDED_S``; so an unambiguous End decides Start, and the other way round;
2. End - Start >= Elapsed where a job was suspended, since Elapsed leaves out suspended time;
3. Start >= Submit.

For each job with an ambiguous time, all combinations of readings are tried. Those that fulfil rules 1 and 3 count; if
there are none, those that fulfil 2 and 3, then 1 alone, then all. Where the remaining combinations agree on a time, it
is decided. Where they do not, the early reading is taken, and the job counts as ambiguous so that it can be reported.

An example, on the day on which 03:00 becomes 02:00: Start 02:10, End 03:30, Elapsed 80 min. End is unambiguous, and the
late Start is 80 min before it, the early one 140 min: Start is late. With End 02:50 and Elapsed 40 min, both passes
fit, and the first one is assumed for Start and End.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats

if TYPE_CHECKING:
    from wattqueue.formats.slurm.columns import Times

ROUNDED_S = 60.0
"""Tolerance of End - Start = Elapsed: Slurm rounds, and clocks of nodes differ by seconds."""

TWICE = (
    "{:,} jobs have a time in the hour that the clock shows twice, and their other times do not decide which pass it "
    "was: the first one is assumed"
)
"""The remark on jobs that stay ambiguous."""


class JobTimes(NamedTuple):
    """Times of n jobs in seconds since 1970 UTC, NaN where unknown. Shapes (n,).

    ``ambiguous`` marks jobs of which a time stays undecided; it is then read as the first pass.
    """

    submit_s: Floats
    start_s: Floats
    end_s: Floats
    ambiguous: NDArray[np.bool_]


def decided(submit: Times, start: Times, end: Times, elapsed_s: Floats) -> JobTimes:
    """Return one reading of each time. ``elapsed_s`` is NaN where unknown. Shapes (n,)."""
    three = (submit, start, end)
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(np.any([t.late_s > t.time_s for t in three], axis=0))
    chosen = [t.time_s.copy() for t in three]
    ambiguous = np.zeros(len(elapsed_s), np.bool_)
    if len(rows):
        readings = [(t.time_s[rows], t.late_s[rows]) for t in three]
        times, undecided = _decide(readings, elapsed_s[rows])
        for column, values in zip(chosen, times, strict=True):
            column[rows] = values
        ambiguous[rows] = undecided
    return JobTimes(chosen[0], chosen[1], chosen[2], ambiguous)


def _decide(readings: list[tuple[Floats, Floats]], elapsed_s: Floats) -> tuple[list[Floats], NDArray[np.bool_]]:
    """Return the chosen times of rows with an ambiguous time, and which rows stay ambiguous.

    ``readings``: early and late of submit, start and end. A rule holds where one of its times is unknown.
    """
    combinations = np.array([np.stack(c) for c in itertools.product(*readings)])  # (8, 3, k), early readings first
    submit, start, end = combinations[:, 0], combinations[:, 1], combinations[:, 2]
    with np.errstate(invalid="ignore"):
        gap = end - start - elapsed_s
        exact, after = ~(np.abs(gap) > ROUNDED_S), ~(start < submit)
        suspended = ~(gap < -ROUNDED_S) & ~(end < start)
    valid = np.ones_like(exact)
    for rule in (exact, suspended & after, exact & after):
        valid = np.where(rule.any(axis=0), rule, valid)  # the last rule is the strictest
    first = np.argmax(valid, axis=0)
    column = np.arange(len(elapsed_s))
    times = [combinations[first, i, column] for i in range(3)]
    undecided = np.zeros(len(elapsed_s), np.bool_)
    for i, time in enumerate(times):
        differs = (combinations[:, i] != time) & ~np.isnan(time)
        undecided |= (differs & valid).any(axis=0)
    return times, undecided
