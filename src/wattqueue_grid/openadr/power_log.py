"""What the machine drew: samples in time, and energy, mean and peak of any interval with the quality of the data."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Quality = Literal["OK", "ESTIMATED", "MISSING"]
"""As in reports: measured; made of other information, such as maxima of nodes that are not measured; no data."""
HOLD_S = 60.0
"""Longest time for which a sample holds; what follows without another one is a gap."""
MOST_SAMPLES = 200_000
"""Two days of samples each second."""
EDGE_S = 2.0
"""Time at the edges of an interval that may lack a sample."""


class PowerInterval(NamedTuple):
    """Power of one interval; figures are 0 where the quality is ``MISSING``."""

    energy_j: float
    mean_w: float
    peak_w: float
    quality: Quality


NO_POWER = PowerInterval(0.0, 0.0, 0.0, "MISSING")


class _Sample(NamedTuple):
    time_s: float
    power_w: float
    measured: bool


@dataclass
class PowerLog:
    """Samples in order of time; each holds until the next one, at most ``HOLD_S``."""

    samples: deque[_Sample] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))

    def add(self, time_s: float, power_w: float, *, measured: bool) -> None:
        """Add a sample. One that is not later than the last, or no finite power, is left out.

        After the clock was set back, samples of a time to come are dropped: they would keep new ones out.
        """
        while self.samples and self.samples[-1].time_s > time_s + HOLD_S:
            self.samples.pop()
        if math.isfinite(power_w) and (not self.samples or time_s > self.samples[-1].time_s):
            self.samples.append(_Sample(time_s, power_w, measured))

    def latest_w(self, now_s: float) -> float | None:
        """Return the watts of the last sample, None where it is too old."""
        last = self.samples[-1] if self.samples else None
        return last.power_w if last is not None and now_s - last.time_s <= HOLD_S else None

    def over(self, begin_s: float, end_s: float) -> PowerInterval:
        """Return the power of an interval.

        Where samples lack for a part of it, their mean stands for the whole, which is then ``ESTIMATED``.
        """
        joules = covered_s = peak_w = 0.0
        measured = True
        for sample, length_s in self._held(begin_s, end_s):
            joules += sample.power_w * length_s
            covered_s += length_s
            peak_w = max(peak_w, sample.power_w)
            measured &= sample.measured
        length_s = end_s - begin_s
        if covered_s <= 0.0 or not math.isfinite(length_s):
            return NO_POWER
        mean_w = joules / covered_s
        whole = length_s - covered_s <= EDGE_S
        return PowerInterval(mean_w * length_s, mean_w, peak_w, "OK" if measured and whole else "ESTIMATED")

    def _held(self, begin_s: float, end_s: float) -> Iterator[tuple[_Sample, float]]:
        """Yield the samples that hold in an interval, and how long."""
        until_s = math.inf
        for sample in reversed(tuple(self.samples)):
            last_s = min(sample.time_s + HOLD_S, until_s, end_s)
            length_s = last_s - max(sample.time_s, begin_s)
            if length_s > 0:
                yield sample, length_s
            until_s = sample.time_s
            if sample.time_s + HOLD_S <= begin_s:
                return
