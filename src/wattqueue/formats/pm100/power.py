"""Power of PM100's jobs: lists of 20 s samples, watts summed over a job's nodes, as watts of one node.

A list becomes the job's power profile where it covers its run: sample k is what each of its nodes drew in the k-th
20 s. Lists of the data set are a few samples shorter or longer than their runs, hence:

- a list covers a run of p periods if its readings are no fewer than p by more than ``SPARE`` of p, or by one, and its
  samples no more than p by as much;
- past its last sample a job keeps drawing that; samples beyond the run count for nothing, and of the last sample
  counts the part that the run reaches;
- a sample of 0 W or less, or none, is a failed reading: the one before stands in for it (for the first of a list, the
  next);
- watts that no node draws (mean below ``LOW_W``, maximum above ``HIGH_W``) are no power at all.

A job whose list does not cover its run has the plain mean and maximum of its readings, and no profile.

All lists are handled as one flat array of samples with a length per job; nothing loops over jobs. Symbols in the shapes
below: n jobs, and all samples of all lists one after the other (``samples``); ``length[j]`` samples belong to job j.

An example: a job of 2 nodes that ran for 100 s has p = 5 periods. The list ``400, 0, 420, 440, 440`` gives the profile
200, 200, 210, 220, 220 W of one node: the 0 is a failed reading, for which the one before stands in. Four readings of
the five are enough, since a list may lack one.

The import (``pm100``) calls ``recorded_power`` once per file, and reports ``broken`` and ``uncovered`` to the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.slurm.energy import HIGH_W, LOW_W
from wattqueue.model.jobs import Floats
from wattqueue.model.profiles import PERIOD_S, PowerProfiles

if TYPE_CHECKING:
    import polars as pl

    Ints = NDArray[np.int64]

SPARE = 0.1
"""Share of the periods by which a list may be shorter or longer than its run.

In rows that the data set's authors show, lists differ by up to 8 % from the periods between eligible and end.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Watts of one node of n jobs, NaN where unknown. Shapes (n,).

    ``profiles`` has one pattern per job whose list covers its run, and is None where there is no such job. ``mean_w``
    and ``max_w`` are those of the profile over the job's work where it has one, else those of its plain readings.
    ``broken`` counts jobs with failed readings or impossible watts; ``uncovered`` those with power whose list does
    not cover their run.
    """

    mean_w: Floats
    max_w: Floats
    profiles: PowerProfiles | None
    broken: int
    uncovered: int


def recorded_power(samples: pl.Series, nodes: Floats, runtime_s: Floats, work_s: Floats) -> Recorded:
    """Return mean, maximum and profile of each job, from its list of watts (null or empty: none).

    Shapes (n,): ``nodes`` of the job, by which its watts are divided; ``runtime_s`` is the length of the run that a
    list must cover; ``work_s`` is the part of the run within the job's limit, over which mean and maximum of a profile
    are taken. Memory is linear in the samples.
    """
    length = samples.list.len().fill_null(0).to_numpy().astype(np.int64)
    # float32 holds the watts of a meter exactly enough, at half the memory of what is by far the largest array.
    watts = _watts_of_a_node(samples, length, nodes)
    counted, mean, peak = _plain(watts, length)
    with np.errstate(invalid="ignore"):
        impossible = (mean < LOW_W) | (peak > HIGH_W)
    known = np.isfinite(mean) & ~impossible
    mean, peak = np.where(known, mean, np.nan), np.where(known, peak, np.nan)
    periods = np.ceil(runtime_s / PERIOD_S)
    # Short jobs: a list may always differ by one sample, since sampling is not aligned with starts.
    spare = np.maximum(SPARE * periods, 1.0)
    covers = known & (counted >= periods - spare) & (length <= periods + spare)
    broken, uncovered = int((impossible | (counted < length)).sum()), int((known & ~covers).sum())
    if not covers.any():
        return Recorded(mean, peak, None, broken, uncovered)
    # From here on only lists that cover their run; a length of 0 is a job without a profile.
    kept = np.where(covers, length, 0)
    profiles = PowerProfiles.recorded(_filled_gaps(watts[np.repeat(covers, length)], kept[covers]), kept)
    mean = np.where(covers, profiles.mean_power_w(work_s), mean)
    peak = np.where(covers, profiles.max_power_w(work_s), peak)
    return Recorded(mean, peak, profiles, broken, uncovered)


def _watts_of_a_node(samples: pl.Series, length: Ints, nodes: Floats) -> NDArray[np.float32]:
    """Return all samples one after the other, as watts of one node, NaN where there is no number. Shape (samples,).

    Empty lists are taken out first: exploding one would give a null, and the samples would no longer match ``length``.
    """
    import polars as pl

    listed = samples.filter(pl.Series(length > 0)).explode().cast(pl.Float32).fill_null(float("nan"))
    flat: NDArray[np.float32] = listed.to_numpy()
    units: NDArray[np.float32] = np.repeat(nodes.astype(np.float32), length)
    return flat / units


def _plain(watts: NDArray[np.float32], length: Ints) -> tuple[Ints, Floats, Floats]:
    """Return how many readings each job has, their mean and maximum (NaN without one). Shapes (n,).

    A reading is a sample above 0; failed ones are set to 0, which changes neither sum nor maximum.
    """
    # reduceat gives the element itself for an empty range, so that jobs without samples must be left out.
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


def _filled_gaps(watts: NDArray[np.float32], length: Ints) -> NDArray[np.float32]:
    """Replace failed readings by the one before in the same list, else by the next, in place.

    Every list has at least one good reading (the caller keeps lists with a mean only). Neighbouring bad samples of one
    list form a gap; all samples of a gap take the same source: the sample before its head, or the one after its tail
    where the gap begins the list.
    """
    bad = np.flatnonzero(~(watts > 0))
    if not len(bad):
        return watts
    first = np.cumsum(length) - length
    # Position at which the list of each bad sample begins.
    begin = first[np.searchsorted(first, bad, side="right") - 1]
    # A gap ends where the next bad sample is not its neighbour, or belongs to another list.
    breaks = (np.diff(bad) > 1) | (np.diff(begin) > 0)
    gap = np.concatenate(([0], np.cumsum(breaks)))
    head = bad[np.concatenate(([True], breaks))]
    tail = bad[np.concatenate((breaks, [True]))]
    source = np.where(head > begin[np.concatenate(([True], breaks))], head - 1, tail + 1)
    watts[bad] = watts[source[gap]]
    return watts
