"""A simulation that is looked at after each of its instants, without any change to what it does."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels.state import PassState
from wattqueue.kernels.state.site_meter import COUNT
from wattqueue.kernels.view_lists import RunningList, list_queue
from wattqueue.policy.build import unit_uw
from wattqueue.sim.engine import Run, Simulation

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Instant:
    """The world after the pass of one instant. Watts are microwatts, as in the kernels."""

    now_s: float
    scalars: PassState
    queue: NDArray[np.int32]
    """Queued entries in queue order."""
    running: NDArray[np.int32]
    """Rows of the jobs that hold units."""
    net: Ints
    """What the ledger counts for each of them."""
    predicted_net: Ints
    """What is predicted of each of them at its option on units of factor 1."""
    option: NDArray[np.int16]
    parked: NDArray[np.int8]
    factor: NDArray[np.float64]
    """Expected time factor of each of them."""
    true_uw: Ints
    unit_state: NDArray[np.int8]
    owner: NDArray[np.int64]
    """Job on each unit, -1 for none, -2 where two claim it."""
    free: Ints
    reserved: NDArray[np.int32]
    shadow_s: NDArray[np.float64]
    sample_uw: Ints
    slowest: float
    """Least speed of a device."""
    limited: bool
    state: NDArray[np.int8]
    """State of each job in the log."""
    planned: bool
    """Whether a job that waits or runs is planned at less than its walltime."""
    power_uw: tuple[int, int, int]
    """True watts of jobs, of idle units, and the idle share of busy ones."""


class Watched(Simulation):
    """Calls ``watch`` after each instant, instead of each 400,000 events."""

    def _bound_run(self) -> Any:
        self.truth.loop.event_limit = 1
        return super()._bound_run()


@dataclass
class Trace:
    """A finished run, and its instants."""

    simulation: Simulation
    instants: list[Instant] = field(default_factory=list)
    run: Run = field(init=False)
    readings: int = 0
    """Readings of the site meter."""

    def look(self, *_: int) -> None:
        s = self.simulation
        view, truth, loop = s.view, s.truth, s.truth.loop
        listing = RunningList(view)
        rows = listing.rows[: listing.write()].copy()
        blocks = view.running
        nets: dict[int, int] = {}
        for b in blocks.order[: int(view.now.blocks)].tolist():
            filled = int(blocks.filled[b])
            nets |= dict(zip(blocks.job[b, :filled].tolist(), blocks.net[b, :filled].tolist(), strict=True))
        queue = np.empty(int(view.now.queued), np.int32)
        queue = queue[: list_queue(view, queue)]
        option, held = view.held.option[rows], view.held
        owner = np.full(s.machine.units, -1, np.int64)
        for job in rows.tolist():
            first = int(held.first[job])
            for piece in range(first, first + int(held.pieces[job])):
                units = slice(int(held.low[piece]), int(held.high[piece]) + 1)
                owner[units] = np.where(owner[units] == -1, job, -2)
        alive = np.concatenate((rows, view.entries.job[queue]))
        planned = bool((view.planned.seconds[alive] < view.walltime[alive]).any())
        jobs_w, other_w, idle_w = loop.jobs_uw, loop.other_uw, loop.busy_idle_uw
        self.instants.append(
            Instant(
                view.now.time_s, deepcopy(view.now), queue, rows,
                np.array([nets[job] for job in rows.tolist()], np.int64), net_uw(s, rows, option), option,
                held.parked[rows].copy(), held.factor[rows].copy(), truth.uw[rows].copy(), truth.unit_state.copy(),
                owner, view.units.free.copy(), view.reserved.entry.copy(), view.reserved.time.copy(),
                view.measured.sample_uw.copy(), float(truth.devices.speed.min(initial=1.0)),
                bool(loop.limited > 0), s.log.state.copy(), planned, (jobs_w, other_w, idle_w),
            )
        )  # fmt: skip


def net_uw(simulation: Simulation, rows: NDArray[Any], option: NDArray[Any]) -> Ints:
    """What the ledger counts for a start of jobs at their options, on units of factor 1."""
    view = simulation.view
    unit = unit_uw(view.predicted, rows, option)
    if not view.now.scope_jobs:
        unit = np.maximum(unit - view.units.idle_uw[view.units.option_partition[option]], 0)
    return np.asarray(unit * view.nodes[rows], np.int64)


def watched(simulation: Simulation) -> Trace:
    """Run a simulation to its end, and keep each instant."""
    trace = Trace(simulation)
    simulation.go(trace.look)
    trace.instants.pop()  # the last instant was reported twice: after it, and at the end of the run
    trace.run = simulation.result()
    trace.readings = int(simulation.parts.meter.state[COUNT])
    return trace
