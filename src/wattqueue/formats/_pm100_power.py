"""Power of PM100's jobs: lists of 20 s samples, watts summed over a job's nodes, as watts of one node.

A list becomes the job's power profile where it covers its run: sample k is what each of its nodes drew
in the k-th 20 s. Lists of the data set are a few samples shorter or longer than their runs, hence:

- a list covers a run of p periods if its readings are no fewer than p by more than ``SPARE`` of p, or
  by one, and its samples no more than p by as much;
- past its last sample a job keeps drawing that; what a run does not reach counts for nothing, and of the
  last sample counts the part that the run reaches;
- a sample of 0 W or less, or none, is a reading that failed: the one before stands in for it (for the
  first of a list, the next);
- watts that no node draws (mean below ``LOW_W``, maximum above ``HIGH_W``) are no power at all.

A job whose list does not cover its run has the plain mean and maximum of its readings, and no profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats._sacct_energy import HIGH_W, LOW_W
from wattqueue.model.jobs import Floats
from wattqueue.model.profiles import PERIOD_S, Profiles

if TYPE_CHECKING:
    import polars as pl

    Ints = NDArray[np.int64]

SPARE = 0.1
"""In rows that its authors show, lists differ by up to 8 % from the periods between eligible and end."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Watts of one node of n jobs, NaN where unknown. Shapes (n,).

    ``broken`` counts jobs with failed readings or impossible watts; ``uncovered`` those with power whose list
    does not cover their run.
    """

    mean_w: Floats
    max_w: Floats
    profiles: Profiles | None
    broken: int
    uncovered: int


def recorded_power(samples: pl.Series, nodes: Floats, runtime_s: Floats, work_s: Floats) -> Recorded:
    """Mean, maximum and profile of each job, from its list of watts (null or empty: none).

    Shapes (n,): ``work_s`` is what the job's limit leaves of its run, over which mean and maximum of a
    profile are meant. Memory is linear in the samples.
    """
    length = samples.list.len().fill_null(0).to_numpy().astype(np.int64)
    watts = _watts_of_a_node(samples, length, nodes)
    counted, mean, peak = _plain(watts, length)
    with np.errstate(invalid="ignore"):
        impossible = (mean < LOW_W) | (peak > HIGH_W)
    known = np.isfinite(mean) & ~impossible
    mean, peak = np.where(known, mean, np.nan), np.where(known, peak, np.nan)
    periods = np.ceil(runtime_s / PERIOD_S)
    spare = np.maximum(SPARE * periods, 1.0)
    covers = known & (counted >= periods - spare) & (length <= periods + spare)
    broken, uncovered = int((impossible | (counted < length)).sum()), int((known & ~covers).sum())
    if not covers.any():
        return Recorded(mean, peak, None, broken, uncovered)
    kept = np.where(covers, length, 0)
    profiles = Profiles.recorded(_mended(watts[np.repeat(covers, length)], kept[covers]), kept)
    mean = np.where(covers, profiles.mean_power_w(work_s), mean)
    peak = np.where(covers, profiles.max_power_w(work_s), peak)
    return Recorded(mean, peak, profiles, broken, uncovered)


def _watts_of_a_node(samples: pl.Series, length: Ints, nodes: Floats) -> NDArray[np.float32]:
    """All samples one after the other, NaN where there is no number. Shape (samples,)."""
    import polars as pl

    listed = samples.filter(pl.Series(length > 0)).explode().cast(pl.Float32).fill_null(float("nan"))
    flat: NDArray[np.float32] = listed.to_numpy()
    units: NDArray[np.float32] = np.repeat(nodes.astype(np.float32), length)
    return flat / units


def _plain(watts: NDArray[np.float32], length: Ints) -> tuple[Ints, Floats, Floats]:
    """How many readings each job has, their mean and maximum (NaN without one). Shapes (n,)."""
    rows = np.flatnonzero(length)
    counted, total, peak = np.zeros(len(length), np.int64), np.full(len(length), np.nan), np.full(len(length), np.nan)
    if len(rows):
        first = np.cumsum(length[rows]) - length[rows]
        good = watts > 0
        readings = np.where(good, watts, np.float32(0.0))
        counted[rows] = np.add.reduceat(good, first, dtype=np.int64)
        total[rows] = np.add.reduceat(readings, first, dtype=np.float64)
        peak[rows] = np.maximum.reduceat(readings, first)
    return counted, np.divide(total, counted, out=np.full(len(length), np.nan), where=counted > 0), peak


def _mended(watts: NDArray[np.float32], length: Ints) -> NDArray[np.float32]:
    """Failed readings replaced by the one before in the same list, else the next. Every list has one."""
    bad = np.flatnonzero(~(watts > 0))
    if not len(bad):
        return watts
    first = np.cumsum(length) - length
    begin = first[np.searchsorted(first, bad, side="right") - 1]
    breaks = (np.diff(bad) > 1) | (np.diff(begin) > 0)
    gap = np.concatenate(([0], np.cumsum(breaks)))
    head = bad[np.concatenate(([True], breaks))]
    tail = bad[np.concatenate((breaks, [True]))]
    source = np.where(head > begin[np.concatenate(([True], breaks))], head - 1, tail + 1)
    watts[bad] = watts[source[gap]]
    return watts
