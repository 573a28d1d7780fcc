"""Power profiles: what one unit of a job draws, sample by sample, over its run.

Recorded traces have one profile per job; generated workloads share a library of patterns, scaled per job. Both are
stored as (pattern, base, scale), so half a million jobs with day-long profiles fit in memory. The engine uses mean and
highest watts only; ``sim.profiles`` replays the samples for exact power series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError
from wattqueue.model import bounds

Floats = NDArray[np.float64]

PERIOD_S = 20.0
"""Sampling period of Marconi100's node power (paper 4, section 6.1)."""


@dataclass(frozen=True, eq=False)
class PowerProfiles:
    """Power profiles of n jobs over a library of P patterns, so that half a million jobs fit in memory.

    In its k-th period (k = floor(elapsed / ``period_s``)) one unit of job j draws
        watts(j, k) = base_w[j] + scale_w[j] * level[first[q] + i],   q = pattern[j],
    with i = k inside the pattern's length; past its end, the samples from ``resume[q]`` to the last one repeat.
    Elapsed time is work at reference speed. The last period of a run may be cut short.

    Shapes: ``pattern`` (n,) int32, -1 for a job without a profile; ``base_w``, ``scale_w`` (n,) W;
    ``level`` (samples,) float32; ``first`` (P + 1,) int64; ``resume`` (P,) int64.
    Invariants: patterns are not empty, 0 <= resume < length; no sample in reach is negative.

    Raises: InputError for columns that contradict each other.
    """

    pattern: NDArray[np.int32]
    base_w: Floats
    scale_w: Floats
    level: NDArray[np.float32]
    first: NDArray[np.int64]
    resume: NDArray[np.int64]
    period_s: float = PERIOD_S

    def __post_init__(self) -> None:
        n, patterns = len(self.pattern), len(self.first) - 1
        if len(self.base_w) != n or len(self.scale_w) != n or len(self.resume) != patterns:
            raise InputError("columns of different length", where="power profiles")
        length = np.diff(self.first)
        if (length < 1).any() or self.first[0] != 0 or self.first[-1] != len(self.level):
            raise InputError("a pattern without samples", where="power profiles")
        if (self.resume < 0).any() or (self.resume >= length).any():
            raise InputError("a pattern resumes outside itself", where="power profiles")
        if n and (self.pattern.min() < -1 or self.pattern.max() >= patterns):
            raise InputError(f"pattern numbers must be -1 to {patterns - 1}", where="power profiles")
        bounds.PERIOD_S.require(self.period_s, "period_s", where="power profiles")
        if not (np.isfinite(self.base_w).all() and np.isfinite(self.scale_w).all()):
            raise InputError("base and scale must be finite", where="power profiles")

    @classmethod
    def from_samples(cls, samples: Sequence[ArrayLike], period_s: float = PERIOD_S) -> Self:
        """Return recorded profiles: watts of one unit, one sequence of samples per job; an empty one means none.

        Past its last sample a job keeps drawing that value.
        """
        series = [np.asarray(s, np.float32) for s in samples]
        level = np.concatenate([np.zeros(0, np.float32), *series])
        return cls.recorded(level, np.array([len(s) for s in series], np.int64), period_s)

    @classmethod
    def recorded(cls, level: NDArray[np.float32], length: NDArray[np.int64], period_s: float = PERIOD_S) -> Self:
        """Return recorded profiles from the samples of all jobs one after the other, and how many each has.

        Shapes (samples,) and (n,).

        Raises: InputError for samples that are negative or not finite.
        """
        if not bounds.UNIT_W.holds(level).all():
            raise InputError(
                f"a sample is outside {bounds.UNIT_W.text}", where="power profiles", hint=bounds.UNIT_W.reason
            )
        has, n = length > 0, len(length)
        pattern = np.where(has, np.cumsum(has) - 1, -1).astype(np.int32)
        first = np.concatenate(([0], np.cumsum(length[has]))).astype(np.int64)
        return cls(pattern, np.zeros(n), np.ones(n), level, first, length[has] - 1, period_s)

    def __len__(self) -> int:
        return len(self.pattern)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the columns only: cached sums are computed again in other processes, not sent."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def take(self, index: NDArray[Any] | slice) -> PowerProfiles:
        """Return the jobs of ``index`` (a mask, row numbers, or a slice), over the same library."""
        from wattqueue.model.codec import take

        return take(self, index, "level", "first", "resume")

    def samples_w(self, job: int, duration_s: float) -> Floats:
        """Return watts of one unit of a job, one figure for each period begun within ``duration_s``. Shape (k,)."""
        q = int(self.pattern[job])
        if q < 0:
            return np.zeros(0)
        count = int(np.ceil(duration_s / self.period_s))
        k = _position(np.arange(count), np.int64(self.first[q + 1] - self.first[q]), self.resume[q])
        watts: Floats = self.base_w[job] + self.scale_w[job] * self.level[self.first[q] + k].astype(np.float64)
        return watts

    def power_at(self, jobs: NDArray[Any], elapsed_s: Floats) -> Floats:
        """Return watts of one unit of each job so long after its start; NaN without a profile. Shapes (k,)."""
        q = np.maximum(self.pattern[jobs], 0)
        place = np.floor(elapsed_s / self.period_s).astype(np.int64)
        place = _position(place, self.first[q + 1] - self.first[q], self.resume[q])
        watts = self.base_w[jobs] + self.scale_w[jobs] * self.level[self.first[q] + place].astype(np.float64)
        return np.where(self.pattern[jobs] < 0, np.nan, watts)

    @cached_property
    def _running(self) -> tuple[Floats, NDArray[np.float32], NDArray[np.float32]]:
        """Return, per sample: sum of its pattern before it; highest and lowest up to and including it.

        They make the mean and the range of any duration O(1) per job.
        """
        total = np.zeros(len(self.level))
        high, low = np.empty_like(self.level), np.empty_like(self.level)
        for a, b in zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            np.cumsum(self.level[a : b - 1], dtype=np.float64, out=total[a + 1 : b])
            np.maximum.accumulate(self.level[a:b], out=high[a:b])
            np.minimum.accumulate(self.level[a:b], out=low[a:b])
        return total, high, low

    def level_mean(self, duration_s: Floats) -> Floats:
        """Return the time-weighted mean of the pattern's levels over a run, before base and scale; NaN without one.

        Shapes (n,): ``duration_s`` is the work at reference speed, above 0.
        """
        q, a, length, resume = self._rows()
        total, _, _ = self._running
        whole = np.floor(duration_s / self.period_s).astype(np.int64)
        rounds, k = _rounds(whole, length, resume)
        full = total[a + length - 1] + self.level[a + length - 1]
        lead = np.where(resume == 0, 0.0, total[a + resume])
        # Whole rounds: the pattern once, then (rounds - 1) times the part that repeats, then up to sample k; what lies
        # before ``resume`` is counted once only, hence "- lead".
        summed = np.where(rounds > 0, full + (rounds - 1) * (full - lead) - lead, 0.0) + total[a + k]
        rest = duration_s - whole * self.period_s
        mean = (summed * self.period_s + rest * self.level[a + k]) / duration_s
        return np.where(q < 0, np.nan, mean)

    def level_range(self, duration_s: Floats) -> tuple[Floats, Floats]:
        """Return lowest and highest level reached in a run, before base and scale; NaN without one. Shapes (n,)."""
        q, a, length, _ = self._rows()
        _, high, low = self._running
        last = np.minimum(np.ceil(duration_s / self.period_s).astype(np.int64), length) - 1
        missing = q < 0
        return np.where(missing, np.nan, low[a + last]), np.where(missing, np.nan, high[a + last])

    def mean_power_w(self, duration_s: Floats) -> Floats:
        """Return the time-weighted mean watts of one unit over a run; NaN without a profile. Shapes (n,)."""
        return self.base_w + self.scale_w * self.level_mean(duration_s)

    def max_power_w(self, duration_s: Floats) -> Floats:
        """Return the highest watts of one unit in a run; NaN without a profile. Shapes (n,)."""
        # A negative scale turns the pattern upside down: then its lowest level is the highest draw.
        low, high = self.level_range(duration_s)
        return self.base_w + np.maximum(self.scale_w * low, self.scale_w * high)

    def _rows(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return pattern (-1 for none), first sample, length and resumption of each job; pattern 0 replaces none.

        Raises: InputError where no job has a profile.
        """
        if len(self.first) == 1:
            raise InputError("no job has one", where="power profiles")
        q = np.maximum(self.pattern, 0)
        return self.pattern, self.first[q], self.first[q + 1] - self.first[q], self.resume[q]


def _position(
    k: NDArray[np.int64], length: np.int64 | NDArray[np.int64], resume: np.int64 | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sample of the pattern that the k-th period shows."""
    return np.where(k < length, k, resume + (k - resume) % (length - resume))


def _rounds(
    k: NDArray[np.int64], length: NDArray[np.int64], resume: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how often the pattern's end was passed before period k, and the sample that period shows."""
    loop = length - resume
    rounds = np.where(k < length, 0, (k - resume) // loop)
    return rounds, np.where(k < length, k, resume + (k - resume) % loop)
