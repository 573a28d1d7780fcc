"""What a power sensor says of true watts: means over its period, read at intervals, averaged, with noise and loss.

A sensor that is read measures nothing new until its own period has passed: how fresh a reading is depends on the
sensor and on the averaging, not on how often it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.bounds import PERIOD_S
from wattqueue.model.jobs import Floats
from wattqueue.model.steps import Steps


@dataclass(frozen=True, slots=True, eq=False)
class SensorReadings:
    """SensorReadings of one sensor. Shapes (k,).

    Attributes:
        time_s: When each reading was taken.
        power_w: Watts as the sensor says; NaN where the reading was lost.
        fresh_s: End of the last sample that the reading contains: the watts are no newer than that.
    """

    time_s: Floats
    power_w: Floats
    fresh_s: Floats

    def latest(self, at_s: Floats) -> Floats:
        """Return the watts of the last reading that arrived by each time; NaN before the first. Shape as given."""
        arrived = ~np.isnan(self.power_w)
        row = np.searchsorted(self.time_s[arrived], at_s, side="right") - 1
        watts: Floats = np.append(self.power_w[arrived], np.nan)[row]
        return watts


MOST_SAMPLES = 100_000
"""Samples that a reading may span, or that come between two readings: a day of samples of a second."""
Covers = Literal["node", "socket", "unit"]
"""What one sensor measures."""

IDLE_TOLERANCE = 0.2
"""Share by which a sample may be below idle watts and counts as idle; below that it is missing (rule 15)."""


@dataclass(frozen=True, slots=True)
class PowerSensor:
    """How a sensor is sampled and read.

    Attributes:
        sample_s: Period of the sensor; a sample is the mean of the true watts over it.
        poll_s: Seconds between two readings.
        average_s: A reading is the mean of the samples of the last ``average_s``, at least of the latest one.
        noise: Standard deviation of a sample, relative to its watts.
        loss: Probability that a reading is lost.
        covers: What one sensor measures; never less than a unit.

    Raises: InputError for periods outside ``bounds.PERIOD_S``, and shares out of range.
    """

    sample_s: float
    poll_s: float
    average_s: float = 0.0
    noise: float = 0.0
    loss: float = 0.0
    covers: Covers = field(default="node", kw_only=True)

    def __post_init__(self) -> None:
        PERIOD_S.require(self.sample_s, "sample_s", where="power sensor")
        PERIOD_S.require(self.poll_s, "poll_s", where="power sensor")
        if self.average_s != 0.0:
            PERIOD_S.require(self.average_s, "average_s", where="power sensor", hint="0 for the latest sample alone")
        if self.average_s + self.poll_s > MOST_SAMPLES * self.sample_s:
            raise InputError(
                f"a reading spans {(self.average_s + self.poll_s) / self.sample_s:,.0f} samples", where="power sensor",
                hint=f"at most {MOST_SAMPLES:,}: each is kept for each sensor",
            )  # fmt: skip
        if self.covers not in get_args(Covers):
            raise InputError(f"covers {self.covers!r}", where="power sensor", hint="node, socket or unit")
        if not (0 <= self.noise < np.inf and 0 <= self.loss <= 1):
            raise InputError(
                f"noise {self.noise}, loss {self.loss}", where="power sensor", hint="noise from 0, loss between 0 and 1"
            )

    def read(self, power: Steps, begin_s: float, end_s: float, rng: np.random.Generator) -> SensorReadings:
        """Return the readings of true watts between two instants.

        Samples begin at ``begin_s``; there is no reading before the end of the first one.
        """
        whole = int(np.floor((end_s - begin_s) / self.sample_s + 1e-9))
        polls = np.arange(1, int(np.floor((end_s - begin_s) / self.poll_s + 1e-9)) + 1) * self.poll_s
        edges: Floats = begin_s + np.arange(whole + 1, dtype=np.float64) * self.sample_s
        means = power.means(edges) if whole else np.zeros(0)
        sampled = np.maximum(means * (1.0 + self.noise * rng.standard_normal(whole)), 0.0)
        done = np.floor(polls / self.sample_s + 1e-9).astype(np.int64)
        polls, done = polls[done > 0], done[done > 0]
        # Samples that ended later than ``average_s`` ago; the latest one always counts.
        before = np.floor((polls - self.average_s) / self.sample_s + 1e-9).astype(np.int64)
        first = np.clip(before, 0, done - 1)
        total = np.concatenate(([0.0], np.cumsum(sampled)))
        watts = (total[done] - total[first]) / (done - first)
        lost = rng.random(len(polls)) < self.loss
        return SensorReadings(begin_s + polls, np.where(lost, np.nan, watts), edges[done])


MONTBLANC = PowerSensor(sample_s=1.12, poll_s=0.5, average_s=5.0)
"""A node of the Mont-Blanc prototype: 15 readings of its sensor are averaged each 1,120 ms, polled each 500 ms, and
averaged over 5 s (paper 3, sections 3.1 and 4.3)."""
RAPL = PowerSensor(sample_s=4.0, poll_s=4.0, covers="socket")
"""A socket of bull: energy counter read each 4 s (paper 3, section 3.2)."""
