"""What running jobs count for: their licence, or what was measured of them; and what they may draw at most.

``RunningCount.of`` gives the running jobs of a round. A job that was started by the controller has a *start*: the watts
with which it was released, for as many nodes as it has. Without measurement that is its licence, and one that is lower
(it was lowered to a measurement before, by a configuration that did so) is raised to it again. With it the licence
follows what is measured, as far as ``live.bound`` allows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import Details, Job, JobKey
from wattqueue.live.licences import REQUEUED
from wattqueue.live.parking import Parking
from wattqueue.live.placement import NodeChoice
from wattqueue.live.predictor import Predictor
from wattqueue.live.requests import JobRequest
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.state.memory import Memory, ReleasedJob
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.tracking import CountedPower, Tracker
from wattqueue.live.world import Layout

if TYPE_CHECKING:
    from wattqueue.live.planner import Rules


class RunningJob(NamedTuple):
    """A running job and what it counts for."""

    row: Job
    option: int
    """The option of its start; the partition's highest frequency where the controller did not start it."""
    counted: CountedPower
    given_w: int
    """Licence that it must hold for the nodes that it was given; -1 where it carries none."""
    restarted: bool
    """Whether it was requeued before, or that is not known yet."""
    start_w: int = 0
    """Watts with which it started, for the nodes that it has: what it may draw where nothing else bounds it."""
    least_w: int = 0
    """Licence below which the bound does not let it be (``live.bound``)."""


_ROW = operator.attrgetter("row")


@dataclass
class RunningCount:
    """Counts running jobs round after round."""

    layout: Layout
    rules: Rules
    memory: Memory
    predictor: Predictor
    placement: NodeChoice
    parking: Parking
    tracker: Tracker
    shared: SharedNodes
    requests: Callable[[], Mapping[JobKey, JobRequest]]
    """What users requested, by job: a new mapping in each round."""
    _counted: list[RunningJob] = field(default_factory=list)
    """Those of the last round: a cache by row identity, valid while the observer hands out the same row objects."""

    def of(
        self, rows: Sequence[Job], power: Mapping[str, NodePower], now_s: float, details: Mapping[JobKey, Details]
    ) -> Sequence[RunningJob]:
        """Return the running jobs with what they count for.

        Without measurements this depends on the row alone, so unchanged rows are taken from the last
        round.
        """
        if self.shared.partitions:  # jobs outside the machine hold nothing that is counted for them
            rows = [row for row in rows if any(name in self.layout.unit for name in row.node_names)]
        if self.rules.track_running:
            return [self._running(row, power, now_s, details) for row in rows]
        last = self._counted
        if len(last) == len(rows) and all(map(operator.is_, rows, map(_ROW, last))):
            return last
        known = {id(job.row): job for job in last}  # the rows are alive, so no id stands for two
        self._counted = [known.get(id(row)) or self._running(row, power, now_s, details) for row in rows]
        return self._counted

    def _running(
        self, row: Job, power: Mapping[str, NodePower], now_s: float, details: Mapping[JobKey, Details]
    ) -> RunningJob:
        """Return a running job with what it counts for: its licence, its maximum without one, or measured."""
        partition = self.layout.of_job(row)
        placed = self.memory.placed.get(row.key)
        option = placed.option if placed is not None else int(self.layout.machine.option_start[partition])
        if (parked := self.parking.counted(row, partition)) is not None:
            self.tracker.pause(row.key, now_s)
            resumes_w = self.memory.parked[row.key].watts
            return RunningJob(row, option, parked, row.watts, restarted=False, start_w=resumes_w)
        most = self.layout.most_of(partition, row)
        drawn_w, start_w = self._drawn_w(row, placed, partition), self._start_w(row, placed, most)
        given_w = drawn_w or (row.watts if self.rules.track_running and not _wider(row, placed) else start_w)
        given_w = max(row.watts, given_w, self.parking.least_w(row)) if row.watts >= 0 else -1
        licence = given_w if row.watts >= 0 else most
        figure = CountedPower(licence, licence, "predicted")
        if self.rules.track_running:
            known = self.predictor.of(row.key)
            machine = self.layout.machine
            idle_w = 0.0 if machine.cap_scope == "jobs" else machine.partitions[partition].idle_w * row.nodes
            expected = float(known[0][option]) if known is not None else math.nan
            if self.tracker.ledger is not None and math.isnan(expected):
                expected = (licence + idle_w) / row.nodes
            names = row.node_names
            samples = [power[n] for n in names if n in power]
            if len(samples) < len(names):  # a node outside the machine: its share of the job is not measured
                samples = []
            self.tracker.observe(self.requests()[row.key], row.start_s, expected, samples, now_s)
            figure = self.tracker.figure(row.key, licence, idle_w, most)
        known_details = details.get(row.key)
        restarted = known_details is None or known_details.restarts > 0 or self.memory.marked(row.key, REQUEUED)
        return RunningJob(row, option, figure, given_w, restarted, max(start_w, drawn_w))

    def _start_w(self, row: Job, placed: ReleasedJob | None, most: int) -> int:
        """Return the net watts with which a job started, for the nodes that it has.

        Of a job that the controller did not start: its licence where licences do not follow what is measured, else the
        maximum of its nodes, since the licence may have been lowered by a controller whose state was lost.
        """
        if placed is None:
            return max(row.watts, most) if self.rules.track_running else row.watts
        counted = len(expand(placed.nodes))
        if not counted or row.nodes == counted:
            return placed.watts
        return math.ceil(placed.watts / counted) * row.nodes

    def _drawn_w(self, row: Job, placed: ReleasedJob | None, partition: int) -> int:
        """Return the net watts of a job on nodes that draw more than it was counted for (``live.placement``), else 0.

        Without a release its licence says how much it was counted for, unless that follows what is measured.
        """
        first = int(self.layout.machine.option_start[partition])
        if (placed is None and self.rules.track_running) or not self.placement.falls_short(row, placed, first):
            return 0
        return self.placement.drawn_w(row, first if placed is None else placed.option)


def _wider(row: Job, placed: ReleasedJob | None) -> bool:
    """Whether a job was given more nodes than it was counted for.

    A range that was not pinned, or a release that reached the cluster while its update was lost.
    """
    return placed is not None and 0 < len(expand(placed.nodes)) < row.nodes
