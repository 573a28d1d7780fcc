"""What running jobs were measured to draw: licences that follow, and what their end teaches."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.live.predictor import Asked, Learned
from wattqueue.live.slurm.snapshot import JobKey
from wattqueue.live.telemetry.base import NodePower

ENOUGH = 0.5
"""A job teaches where at least this share of its run was measured."""
DEADBAND = 0.05


@dataclass
class Track:
    """One running job: its last samples, and sums over its whole run."""

    asked: Asked
    start_s: float
    predicted_node_w: float
    recent: deque[tuple[float, float]] = field(default_factory=deque)
    energy_j: float = 0.0
    covered_s: float = 0.0
    peak_w: float = 0.0
    last_s: float = math.nan


class Figure(NamedTuple):
    """What a running job counts for: ``net_w`` in the ledger, ``licence`` what Slurm should be told."""

    net_w: int
    licence: int
    label: str


@dataclass
class Tracker:
    """Follows running jobs. ``settle_s``: a licence follows only what was measured for so long; ``margin`` above it."""

    settle_s: float
    margin: float
    tracks: dict[JobKey, Track] = field(default_factory=dict)

    def see(
        self, asked: Asked, start_s: float, predicted_node_w: float, power: Sequence[NodePower], now_s: float
    ) -> None:
        """Take in this period's samples of a running job's nodes; one missing sample empties the window."""
        track = self.tracks.get(asked.key)
        if track is None:
            track = self.tracks[asked.key] = Track(asked, start_s, predicted_node_w)
        if not power or any(p.label != "measured" or p.taken_s <= start_s for p in power):
            track.recent.clear()
            track.last_s = math.nan
            return
        taken_s, watts = min(p.taken_s for p in power), sum(p.power_w for p in power)
        if taken_s == track.last_s:
            return
        if not math.isnan(track.last_s) and taken_s > track.last_s:
            track.energy_j += watts * (taken_s - track.last_s)
            track.covered_s += taken_s - track.last_s
        track.last_s, track.peak_w = taken_s, max(track.peak_w, watts)
        track.recent.append((taken_s, watts))
        while track.recent and now_s - track.recent[0][0] > 2 * self.settle_s:
            track.recent.popleft()

    def figure(self, key: JobKey, licence: int, idle_w: float, most_net: int) -> Figure:
        """What the ledger counts, and the licence to write, for a job that now holds ``licence``.

        Without fresh samples of all its nodes a job counts as the most it can draw, and its licence stays.
        """
        track = self.tracks.get(key)
        if track is None or not track.recent:
            return Figure(most_net, licence, "missing")
        target = math.ceil(max(w for _, w in track.recent) * (1.0 + self.margin) - idle_w)
        target = min(max(target, 0), most_net)
        if target > licence:
            return Figure(target, target, "measured")
        settled = track.recent[-1][0] - track.recent[0][0] >= self.settle_s
        if settled and target < licence * (1.0 - DEADBAND) - 1.0:
            return Figure(licence, target, "measured")
        return Figure(licence, licence, "measured")

    def gone(self, running: set[JobKey]) -> list[Learned]:
        """Jobs that run no more, as far as they were measured."""
        out = []
        for key in [k for k in self.tracks if k not in running]:
            track = self.tracks.pop(key)
            end_s = track.recent[-1][0] if track.recent else track.start_s
            if track.covered_s > 0 and track.covered_s >= ENOUGH * (end_s - track.start_s):
                mean_w = track.energy_j / track.covered_s / track.asked.nodes
                peak_w = track.peak_w / track.asked.nodes
                out.append(Learned(track.asked, track.start_s, end_s, mean_w, peak_w, track.predicted_node_w))
        return sorted(out, key=lambda one: (one.end_s, one.asked.key))
