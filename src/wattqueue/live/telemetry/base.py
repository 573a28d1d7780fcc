"""The interface of every source, and how samples of several become watts of a node with a label.

A node without a fresh and plausible sample counts as its maximum (SEMANTICS rule 15), and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

Label = Literal["measured", "stale", "missing"]


class Sample(NamedTuple):
    """Watts of one node, averaged up to ``taken_s`` (seconds since the epoch), and who says so."""

    power_w: float
    taken_s: float
    source: str


class Reading(NamedTuple):
    """What one read gave: samples by node, and what went wrong in words fit for a log."""

    samples: Mapping[str, Sample]
    problems: tuple[str, ...] = ()


class Source(Protocol):
    """Where node power comes from. ``read`` never raises: what cannot be read is a problem in words."""

    name: str

    def read(self, now_s: float) -> Reading: ...


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

    @property
    def mean_node_w(self) -> float:
        """Mean watts of one node; NaN where it was not measured, or the job was too short to tell."""
        seconds = self.end_s - self.start_s
        return self.energy_j / seconds / self.nodes if seconds >= 1.0 and self.nodes else math.nan


class JobSource(Protocol):
    """Where energy of ended jobs comes from. Raises SlurmError where it cannot be had."""

    name: str

    def finished(self, since_s: float) -> Sequence[JobEnergy]: ...


class NodePower(NamedTuple):
    """Watts that stand for a node, why, and the sample behind them if there is one."""

    power_w: float
    label: Label
    taken_s: float
    source: str


@dataclass
class Telemetry:
    """Sources in order of trust: the first with a fresh sample of a node is believed.

    ``stale_s``: a sample older than this is stale. A sample that no node can draw (0 W or less, not
    a number, or above ``implausible`` times the node's maximum) is missing.
    """

    sources: Sequence[Source]
    stale_s: float = 10.0
    implausible: float = 2.0
    problems: tuple[str, ...] = ()
    _last: dict[str, dict[str, Sample]] = field(default_factory=dict)

    def read(self, now_s: float) -> None:
        """Ask every source once; its last samples stand until it gives newer ones."""
        problems: list[str] = []
        for source in self.sources:
            reading = source.read(now_s)
            self._last.setdefault(source.name, {}).update(reading.samples)
            problems += [f"{source.name}: {text}" for text in reading.problems]
        self.problems = tuple(problems)

    def close(self) -> None:
        """Let go of connections."""
        for source in self.sources:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    def node(self, name: str, max_w: float, now_s: float) -> NodePower:
        """What node ``name`` draws; its maximum where that is not known."""
        stale: Sample | None = None
        for source in self.sources:
            sample = self._last.get(source.name, {}).get(name)
            if sample is None or not plausible(sample.power_w, max_w * self.implausible):
                continue
            if -self.stale_s <= now_s - sample.taken_s <= self.stale_s:
                return NodePower(sample.power_w, "measured", sample.taken_s, sample.source)
            stale = stale or sample
        if stale is not None:
            return NodePower(max_w, "stale", stale.taken_s, stale.source)
        return NodePower(max_w, "missing", -math.inf, "")


def plausible(power_w: float, most_w: float) -> bool:
    """Whether a node can draw this."""
    return math.isfinite(power_w) and 0.0 < power_w <= most_w
