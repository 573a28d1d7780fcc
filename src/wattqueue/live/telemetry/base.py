"""Combine the samples of several power sources into one figure per node, with a label.

A source (``TelemetrySource``) reads watts of nodes: RAPL, Cray counters, Prometheus. ``Telemetry`` reads all of them
once per round and keeps the last sample of each node from each source. For a node it takes the first source, in the
configured order of trust, that has a fresh and plausible sample.

The rule of the module: **doubt counts as the maximum**. A sample that is old, missing or impossible never makes a node
look cheaper than it can be. What a plausible sample means for the budget (below idle, stuck, in the wrong unit) is
decided in ``tracking.trusted``, where idle watts are known.


A node without a fresh and plausible sample counts as its maximum (semantics, rule 15) and is labelled so. A sample that
shows the same watts again and again, with new times, comes from a meter that stands still (``frozen_after``): it can
raise what a job counts, and lowers nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

Label = Literal["measured", "stale", "missing"]
LEAST_MOVE_W = 1.0
"""A busy node's power moves by at least so much from one sample to the next; assumed."""
LEAST_EQUAL = 3
"""Equal samples in a row that a meter without steps may show."""


class PowerSample(NamedTuple):
    """Watts of one node, averaged up to ``taken_s`` (seconds since the epoch), and the name of their source."""

    power_w: float
    taken_s: float
    source: str


class Reading(NamedTuple):
    """The outcome of one read: samples by node, and what went wrong, one line each."""

    samples: Mapping[str, PowerSample]
    problems: tuple[str, ...] = ()


class TelemetrySource(Protocol):
    """A source of node power. ``read`` never raises: a source that fails must not end a round.

    What cannot be read is a line in ``Reading.problems``, and its nodes have no sample.
    """

    name: str
    resolution_w: float
    """Steps in which it reads; 0 for none."""

    def read(self, now_s: float) -> Reading:
        """Read every node once. ``now_s`` is the controller's clock, for sources without a clock of their own."""
        ...


class JobEnergy(NamedTuple):
    """A job that ended: energy of all its nodes in joules (NaN where it was not measured) and its times."""

    name: str
    submit_s: float
    start_s: float
    end_s: float
    nodes: int
    energy_j: float
    state: str
    source: str
    uid: int = -1
    """Who ran it; -1 where the source does not say."""
    account: str = ""
    partition: str = ""

    @property
    def mean_node_w(self) -> float:
        """Mean watts of one node; NaN where it was not measured, or the job ran for less than a second.

        Counters are read about once a second, so the energy of a shorter job belongs mostly to its neighbours.
        """
        seconds = self.end_s - self.start_s
        return self.energy_j / seconds / self.nodes if seconds >= 1.0 and self.nodes else math.nan


class JobSource(Protocol):
    """A source of the energy of ended jobs."""

    name: str

    def finished(self, since_s: float) -> Sequence[JobEnergy]:
        """Return jobs that ended since then, in order of their ends. Raises SlurmError where it cannot be read."""
        ...


class NodePower(NamedTuple):
    """The watts that count for a node, the reason as a label, and the time and source of the sample behind them.

    ``measured``: a fresh, plausible sample. ``stale``: there is one, but too old, so the maximum counts. ``missing``:
    none at all, so the maximum counts.
    """

    power_w: float
    label: Label
    taken_s: float
    source: str
    unchanged: bool = False
    """Whether the meter has shown these watts for so many samples that it may stand still."""


@dataclass
class Telemetry:
    """Sources in order of trust: of each node the first fresh, plausible sample counts.

    ``stale_s``: a sample older than this is stale; one from the future by more than this as well, since its clock is
    wrong. A sample that no node can draw (0 W or less, not a number, or above ``implausible`` times the node's maximum)
    counts as missing. The factor leaves room for a maximum that was measured too low and is far below a factor of 1000
    (milliwatts for watts).
    """

    sources: Sequence[TelemetrySource]
    stale_s: float = 10.0
    implausible: float = 2.0
    problems: tuple[str, ...] = ()
    _last: dict[str, dict[str, PowerSample]] = field(default_factory=dict)
    _equal: dict[tuple[str, str], int] = field(default_factory=dict)
    """Samples in a row with the same watts, by source and node."""

    def read(self, now_s: float) -> None:
        """Read every source once; a node's last sample stays until there is a newer one, and then grows stale."""
        problems: list[str] = []
        for source in self.sources:
            reading = source.read(now_s)
            last = self._last.setdefault(source.name, {})
            for name, sample in reading.samples.items():
                before = last.get(name)
                if before is None or sample.power_w != before.power_w:
                    self._equal[source.name, name] = 1
                elif sample.taken_s > before.taken_s:
                    self._equal[source.name, name] += 1
            last.update(reading.samples)
            problems += [f"{source.name}: {text}" for text in reading.problems]
        self.problems = tuple(problems)

    def close(self) -> None:
        """Close connections."""
        for source in self.sources:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    def node(self, name: str, max_w: float, now_s: float) -> NodePower:
        """Return what node ``name`` draws; ``max_w`` where that is not known."""
        stale: PowerSample | None = None
        for source in self.sources:
            sample = self._last.get(source.name, {}).get(name)
            if sample is None or not plausible(sample.power_w, max_w * self.implausible):
                continue
            if -self.stale_s <= now_s - sample.taken_s <= self.stale_s:
                still = self._equal[source.name, name] >= frozen_after(source.resolution_w)
                return NodePower(sample.power_w, "measured", sample.taken_s, sample.source, still)
            stale = stale or sample
        if stale is not None:
            return NodePower(max_w, "stale", stale.taken_s, stale.source)
        return NodePower(max_w, "missing", -math.inf, "")


def frozen_after(resolution_w: float) -> int:
    """Return after how many equal samples of a busy node a meter is taken to stand still, by the steps that it reads.

    A meter in steps of r W shows the same figure until the power has moved by as much.
    """
    return LEAST_EQUAL + math.ceil(resolution_w / LEAST_MOVE_W)


def plausible(power_w: float, most_w: float) -> bool:
    """Whether a node can draw ``power_w``: a finite, positive figure of at most ``most_w``."""
    return math.isfinite(power_w) and 0.0 < power_w <= most_w
