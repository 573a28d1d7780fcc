"""Count running jobs: their licence, or what was measured of them; and what they may draw at most.

A job that was started by the controller has a *start*: the watts with which it was released, for as many nodes as it
has. Without measurement that is its licence, and one that is lower (it was lowered to a measurement before, by a
configuration that did so) is raised to it again. With it the licence follows what is measured, as far as
``live.watts.bound`` allows. Without measurements this depends on the row alone, so unchanged rows keep their figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import Job
from wattqueue.live.planner import Planner, RoundState, stage
from wattqueue.live.state.memory import ReleasedJob
from wattqueue.live.table import Stage
from wattqueue.live.watts.licences import REQUEUED, lower_licences
from wattqueue.live.watts.tracking import CountedPower


@stage(
    reads="snapshot power running in_force jobs.row jobs.stage jobs.shown_w jobs.request",
    writes="counted overshoot_w withheld_w left_w jobs.counted_stage jobs.option jobs.given_w jobs.start_w "
    "jobs.restarted jobs.counted_w jobs.licence_w jobs.label jobs.variance_left jobs.net_w jobs.wanted_w "
    "jobs.least_w",
)
def count(now: RoundState) -> None:
    """Find what each running job counts for, and how far its licence may be lowered."""
    planner, jobs = now.planner, now.jobs
    planner.shared_count = planner.shared_nodes.count(now.snapshot.nodes, now.snapshot.jobs)
    now.left_w = planner.left.in_force_w(now.now_s)
    now.overshoot_w = planner.rules.overshoot.of(now.left_w)
    now.counted = now.running
    if planner.shared_nodes.partitions:  # jobs outside the machine hold nothing that is counted for them
        unit = planner.layout.unit
        now.counted = [slot for slot in now.running if any(name in unit for name in jobs.row[slot].node_names)]
    for slot in now.counted if planner.rules.track_running else _changed(now):
        _count(now, slot)
    now.withheld_w = lower_licences(now)


def _changed(now: RoundState) -> Iterable[int]:
    """Return the running jobs whose figures are not those of their row and stage."""
    jobs = now.jobs
    slots = np.array(now.counted, np.int64)
    changed: list[int] = slots[jobs.counted_stage[slots] != jobs.stage[slots]].tolist()
    return changed


def _count(now: RoundState, slot: int) -> None:
    """Find what one running job counts for: its licence, its maximum without one, or what was measured."""
    planner, jobs = now.planner, now.jobs
    row: Job = jobs.row[slot]
    layout, rules, memory = planner.layout, planner.rules, planner.memory
    partition, placed = layout.of_job(row), memory.placed.get(row.key)
    option = placed.option if placed is not None else int(layout.machine.option_start[partition])
    jobs.option[slot], jobs.counted_stage[slot] = option, jobs.stage[slot]
    if jobs.stage[slot] == Stage.PARKED:
        planner.tracker.pause(row.key, now.now_s)
        jobs.given_w[slot], jobs.start_w[slot] = row.watts, memory.parked[row.key].watts
        jobs.restarted[slot] = False
        jobs.put_counted(slot, planner.parking.counted(row, partition))
        return
    most = layout.most_of(partition, row)
    drawn_w, start_w = _drawn_w(planner, row, placed, partition), _start_w(planner, row, placed, most)
    given_w = drawn_w or (row.watts if rules.track_running and not _wider(row, placed) else start_w)
    given_w = max(row.watts, given_w, planner.parking.least_w(row)) if row.watts >= 0 else -1
    licence = given_w if row.watts >= 0 else most
    known = now.snapshot.details.get(row.key)
    jobs.restarted[slot] = known is None or known.restarts > 0 or memory.marked(row.key, REQUEUED)
    jobs.given_w[slot], jobs.start_w[slot] = given_w, max(start_w, drawn_w)
    figure = CountedPower(licence, licence, "predicted")
    jobs.put_counted(slot, _measured(now, slot, figure, most) if rules.track_running else figure)


def _measured(now: RoundState, slot: int, counted: CountedPower, most: int) -> CountedPower:
    """Return what a job counts by this round's samples of its nodes; ``counted`` without any."""
    planner, row = now.planner, now.jobs.row[slot]
    machine, tracker, partition = planner.layout.machine, planner.tracker, planner.layout.of_job(row)
    idle_w = 0.0 if machine.cap_scope == "jobs" else machine.partitions[partition].idle_w * row.nodes
    known = planner.predictor.of(row.key)
    expected = float(known[0][now.jobs.option[slot]]) if known is not None else math.nan
    if tracker.ledger is not None and math.isnan(expected):
        expected = (counted.licence + idle_w) / row.nodes
    samples = [now.power[name] for name in row.node_names if name in now.power]
    if len(samples) < len(row.node_names):  # a node outside the machine: its share of the job is not measured
        samples = []
    tracker.observe(now.jobs.request[slot], row.start_s, expected, samples, now.now_s)
    return tracker.figure(row.key, counted.licence, idle_w, most)


def _start_w(planner: Planner, row: Job, placed: ReleasedJob | None, most: int) -> int:
    """Return the net watts with which a job started, for the nodes that it has.

    Of a job that the controller did not start: its licence where licences do not follow what is measured, else the
    maximum of its nodes, since the licence may have been lowered by a controller whose state was lost.
    """
    if placed is None:
        return max(row.watts, most) if planner.rules.track_running else row.watts
    counted = len(expand(placed.nodes))
    if not counted or row.nodes == counted:
        return placed.watts
    return math.ceil(placed.watts / counted) * row.nodes


def _drawn_w(planner: Planner, row: Job, placed: ReleasedJob | None, partition: int) -> int:
    """Return the net watts of a job on nodes that draw more than it was counted for (``live.placement``), else 0.

    Without a release its licence says how much it was counted for, unless that follows what is measured.
    """
    first = int(planner.layout.machine.option_start[partition])
    if placed is None and planner.rules.track_running:
        return 0
    if not planner.placement.falls_short(row, placed, first):
        return 0
    return planner.placement.drawn_w(row, first if placed is None else placed.option)


def _wider(row: Job, placed: ReleasedJob | None) -> bool:
    """Whether a job was given more nodes than it was counted for.

    A range that was not pinned, or a release that reached the cluster while its update was lost.
    """
    return placed is not None and 0 < len(expand(placed.nodes)) < row.nodes
