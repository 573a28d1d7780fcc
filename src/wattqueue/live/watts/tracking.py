"""Follow the measured power of running jobs: adjust their licences, and collect what estimators learn from.

A job starts with the licence of its prediction. Once all of its nodes have been measured for
``warm_up_s``, its licence follows the highest recent sample plus a margin. The two directions differ,
because a licence that is too low voids the cap and one that is too high only costs throughput:

- *down*: only after ``warm_up_s`` of samples, and only by more than ``DEADBAND`` (each change is a write
  to Slurm); until Slurm has confirmed the lower licence, the ledger counts the old one;
- *up*: at once in the ledger; the write itself waits until the pool has room for it (the planner).

A meter that may stand still (``NodePower.unchanged``) can raise what a job counts; nothing is lowered while it does.

One missing sample empties the window: the job counts as its maximum again until its nodes have been
measured again. Until the first samples after its start it counts as predicted (semantics, rule 15).

Under an in-flight ledger a job counts its prediction instead, corrected by all samples of its own run so far
(``parts.ledger.in_flight``): no maximum of recent samples, no margin of its own, and a missing sample adds nothing.
The ledger keeps its margin over all jobs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.live.cluster import JobKey
from wattqueue.live.requests import JobRequest, MeasuredJob
from wattqueue.live.telemetry.base import NodePower
from wattqueue.parts.run_contracts import CorrectingLedger
from wattqueue.policy.sensors import JobEvidence

ENOUGH = 0.5
"""Share of its run for which a job must have been measured to train the estimator."""
CORRECTED = "corrected"
"""Label of a job that counts its prediction, corrected by what is measured."""
DEADBAND = 0.05
"""A licence is lowered only by more than this share: noise must not cause a write per round."""


@dataclass
class Track:
    """One running job: its recent samples, and sums over its whole run. Watts are of all its nodes."""

    request: JobRequest
    start_s: float
    predicted_node_w: float
    recent: deque[tuple[float, float]] = field(default_factory=deque)
    """(time, watts) of the last ``2 * warm_up_s``; empty after a missing sample."""
    energy_j: float = 0.0
    """Over the measured part of the run: each sample stands for the time since the one before it."""
    covered_s: float = 0.0
    """Length of the measured part."""
    peak_w: float = 0.0
    last_s: float = math.nan
    """Time of the last sample; NaN where the next one has no predecessor."""
    started_since: bool = False
    """Whether all nodes have fresh samples, and the job started after one of them was taken."""
    unchanged: bool = False
    """Whether the meter of one of its nodes may stand still."""
    evidence: JobEvidence | None = None
    """What was measured of the job, under an in-flight ledger."""
    runs_since_s: float = -math.inf
    """When the job was continued after a pause."""


def trusted(power: NodePower, idle_w: float, max_w: float, tolerance: float) -> NodePower:
    """Return what a node's sample counts for, given that no powered node draws less than idle.

    A reading below idle by more than ``tolerance`` (a share) comes from a meter that is stuck, or that
    reports another unit: the node counts as its maximum, and as not measured. A closer one counts as
    idle: idle watts of the machine file are an average. (semantics, rule 15)
    """
    if power.label != "measured" or power.power_w >= idle_w:
        return power
    if power.power_w < idle_w * (1.0 - tolerance):
        return power._replace(power_w=max_w, label="missing")
    return power._replace(power_w=idle_w)


class CountedPower(NamedTuple):
    """What a running job counts for."""

    net_w: int
    """Net watts in the ledger."""
    licence: int
    """Licence that Slurm should show for it."""
    label: str
    """``predicted``, ``measured``, ``corrected`` (a prediction, by measurements) or ``missing``: where the figure comes
    from."""
    variance_left: float = 1.0
    """Relative variance of the job's watts, as a share of that at its start (an in-flight ledger)."""


@dataclass
class Tracker:
    """Follows all running jobs."""

    warm_up_s: float
    """A licence is lowered only to what was measured for so long."""
    floor: float = field(default=0.2, kw_only=True)
    """Share of its nodes' maximum below which no licence falls: a meter that reads too little must not void the cap."""
    margin: float
    """Share above the highest recent sample that a licence keeps."""
    ledger: CorrectingLedger | None = field(default=None, kw_only=True)
    """The policy's ledger, where it corrects predictions by what is measured."""
    tracks: dict[JobKey, Track] = field(default_factory=dict)

    def observe(
        self, request: JobRequest, start_s: float, predicted_node_w: float, power: Sequence[NodePower], now_s: float
    ) -> None:
        """Take over this round's samples of a running job's nodes.

        A sample taken before the job started does not count: it measured the nodes' last job, and this one
        counts as predicted. The same sample twice (a source slower than the rounds) is counted once.
        """
        track = self.tracks.get(request.key)
        if track is None:
            track = self.tracks[request.key] = Track(request, start_s, predicted_node_w)
            track.evidence = None if self.ledger is None else JobEvidence(self.ledger)
        fresh = bool(power) and all(p.label == "measured" for p in power)
        track.unchanged = any(p.unchanged for p in power)
        track.started_since = fresh and any(p.taken_s <= start_s for p in power)
        if not fresh or track.started_since:
            track.recent.clear()
            track.last_s = math.nan
            return
        taken_s, watts = min(p.taken_s for p in power), sum(p.power_w for p in power)
        if taken_s == track.last_s:
            return
        if track.evidence is not None:
            expected_w = track.predicted_node_w * request.nodes
            if not track.unchanged or watts > track.evidence.corrected_w(expected_w):
                track.evidence.add(watts, expected_w, taken_s, max(start_s, track.runs_since_s))
        if not math.isnan(track.last_s) and taken_s > track.last_s:
            track.energy_j += watts * (taken_s - track.last_s)
            track.covered_s += taken_s - track.last_s
        track.last_s, track.peak_w = taken_s, max(track.peak_w, watts)
        track.recent.append((taken_s, watts))
        while track.recent and now_s - track.recent[0][0] > 2 * self.warm_up_s:
            track.recent.popleft()

    def pause(self, key: JobKey, now_s: float) -> None:
        """Leave out what is measured of a job while it stands still; its samples begin again afterwards."""
        track = self.tracks.get(key)
        if track is not None:
            track.recent.clear()
            track.last_s = math.nan
            track.runs_since_s = now_s

    def figure(self, key: JobKey, licence: int, idle_w: float, most_net: int) -> CountedPower:
        """Return what the ledger counts, and the licence to write, for a job that now holds ``licence``.

        ``idle_w`` is the idle share of its nodes in the cap's scope, ``most_net`` the net watts that
        they can draw at most. Without fresh samples of all its nodes a job counts as that most, and
        its licence stays. One that started after a sample counts as its licence, which is the prediction.
        """
        track = self.tracks.get(key)
        if self.ledger is not None:
            return self._corrected(track, licence, idle_w, most_net)
        if track is not None and track.started_since:
            return CountedPower(licence, licence, "predicted")
        if track is None or not track.recent:
            return CountedPower(most_net, licence, "missing")
        target = self._within(max(w for _, w in track.recent) * (1.0 + self.margin) - idle_w, most_net)
        settled = track.recent[-1][0] - track.recent[0][0] >= self.warm_up_s and not track.unchanged
        return moved(licence, target, "measured", may_fall=settled)

    def _corrected(self, track: Track | None, licence: int, idle_w: float, most_net: int) -> CountedPower:
        """Return what a job counts under an in-flight ledger.

        Its licence stays until it was measured. A job whose prediction is not known (it ran before this controller)
        is taken to have been predicted at its licence.
        """
        evidence = None if track is None else track.evidence
        if track is None or evidence is None or evidence.measured_s <= 0.0:
            return CountedPower(licence, licence, "predicted")
        target = self._within(evidence.corrected_w(track.predicted_node_w * track.request.nodes) - idle_w, most_net)
        found = moved(licence, target, CORRECTED, may_fall=not track.unchanged)
        return found._replace(variance_left=evidence.variance_left)

    def _within(self, net_w: float, most_net: int) -> int:
        """Return whole net watts from the floor to the most."""
        return min(max(math.ceil(net_w - 1e-6), math.ceil(self.floor * most_net - 1e-6)), most_net)

    def ended(self, running: set[JobKey]) -> list[MeasuredJob]:
        """Forget the jobs that no longer run, and return those that were measured long enough.

        In order of their ends, ties by key, so that the estimator is trained in the same order as
        after a restart.
        """
        out = []
        for key in [k for k in self.tracks if k not in running]:
            track = self.tracks.pop(key)
            end_s = track.recent[-1][0] if track.recent else track.start_s
            if track.covered_s > 0 and track.covered_s >= ENOUGH * (end_s - track.start_s):
                mean_w = track.energy_j / track.covered_s / track.request.nodes
                peak_w = track.peak_w / track.request.nodes
                out.append(MeasuredJob(track.request, track.start_s, end_s, mean_w, peak_w, track.predicted_node_w))
        return sorted(out, key=lambda one: (one.end_s, one.request.key))


def moved(licence: int, target: int, label: str, *, may_fall: bool = True) -> CountedPower:
    """Return what a job counts whose licence is to follow ``target``: up at once, down when the licence has fallen."""
    if target > licence:
        return CountedPower(target, target, label)
    if may_fall and target < licence * (1.0 - DEADBAND) - 1.0:
        return CountedPower(licence, target, label)
    return CountedPower(licence, licence, label)
