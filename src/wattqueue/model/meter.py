"""Interval data of a meter: mean watts of equal intervals, with where they come from and which are missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError, one_of
from wattqueue.model.jobs import Floats, Labels
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.steps import Steps

KINDS = {
    "measured": "watts that a meter sampled",
    "counted": "energy that a counter added up, divided by the interval",
    "simulated": "computed by a simulation",
    "generated": "made by a model with a seed",
}
"""Where the figure of an interval comes from, and what that means."""


@dataclass(frozen=True, slots=True, eq=False)
class MeterData:
    """Mean watts of k intervals of equal length without a break in time. Shapes (k,).

    Raises: InputError for an interval that does not divide a day, a begin off the interval's grid, watts below 0, or a
    label that is none of ``KINDS``.
    """

    begin_s: int
    """Unix time at which the first interval begins, a multiple of ``interval_s``."""
    interval_s: int
    """Length of every interval in seconds."""
    power_w: Floats
    """Mean watts of each interval, in whole watts; NaN where there is no data."""
    label: Labels
    """One of ``KINDS`` for each interval; none where there is no data."""
    source: str
    """Meter, file or run that the figures come from, as text."""

    def __post_init__(self) -> None:
        check_interval(self.interval_s, self.source)
        if self.begin_s % self.interval_s:
            raise InputError(f"begins at {self.begin_s}, between two intervals", where=self.source)
        if len(self.label) != len(self.power_w):
            raise InputError(f"{len(self.label)} labels, {len(self.power_w)} intervals", where=self.source)
        if (self.power_w < 0).any():
            raise InputError("watts below 0", where=self.source, hint="write consumption as positive figures")
        unknown = sorted(set(self.label.names) - set(KINDS))
        if unknown:
            raise InputError(f"label {unknown[0]!r}", where=self.source, hint=one_of(unknown[0], KINDS))

    def __len__(self) -> int:
        return len(self.power_w)

    @property
    def end_s(self) -> int:
        """Return the Unix time at which the last interval ends."""
        return self.begin_s + len(self) * self.interval_s

    def rows(self, begin_s: int, end_s: int) -> slice:
        """Return the intervals that lie within two instants, as far as there are any."""
        first = -((self.begin_s - begin_s) // self.interval_s) if begin_s > self.begin_s else 0
        last = (end_s - self.begin_s) // self.interval_s
        return slice(min(first, len(self)), max(min(first, len(self)), min(last, len(self))))


def of_power(power: PowerSeries, epoch_s: float, interval_s: int, source: str, kind: str = "simulated") -> MeterData:
    """Return the mean watts of a run's machine by interval: whole intervals between its first and last change.

    ``epoch_s`` is the Unix time of the run's 0. The means are exact integrals, rounded to whole watts.

    Raises: InputError for a run that is shorter than one interval.
    """
    time = power.time_s + epoch_s
    first = int(np.ceil(time[0] / interval_s)) if len(time) else 0
    last = int(np.floor(time[-1] / interval_s)) if len(time) else 0
    if last <= first:
        raise InputError(f"is shorter than one interval of {interval_s} s", where=source)
    edges = np.arange(first, last + 1, dtype=np.int64) * interval_s
    watts = np.round(Steps(time, power.machine_w).means(edges.astype(np.float64)))
    label = Labels(np.zeros(len(watts), np.int32), (kind,))
    return MeterData(int(edges[0]), interval_s, watts, label, source)


def check_interval(interval_s: int, where: str) -> None:
    """Raise InputError for an interval that does not divide an hour, naming ``where`` it is stated."""
    if interval_s < 1 or 3_600 % interval_s:
        raise InputError(
            f"an interval of {interval_s} s does not divide an hour", where=where, hint="300, 900, 1800 or 3600"
        )
