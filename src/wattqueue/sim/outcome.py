"""Read a finished run from its log: the schedule, the power series, how often load targets were exceeded.

Columns of the log are taken over instead of copied: at its end a run's memory is at its peak.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.calls import sum_units
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import PowerSeries, Schedule
from wattqueue.model.signals import Cap
from wattqueue.model.steps import rows_at
from wattqueue.policy.build import unit_uw
from wattqueue.sim.rejection import margins_w, state_reasons
from wattqueue.sim.world import SimulatedWorld

_BLOCK = 1 << 16


def schedule_of(world: SimulatedWorld, cap: Cap) -> Schedule:
    """Return a finished run as a schedule; jobs that never ran get NaN times, state NOT_STARTED, and no units."""
    log, held = world.log, world.kernel.held
    ran = (log.state == codes.COMPLETED) | (log.state == codes.KILLED)
    for column in (log.start, log.end):
        column[~ran] = np.nan
    log.state[log.state == codes.WAITING] = codes.NOT_STARTED
    state_reasons(world.jobs, world.kernel, cap, log)
    log.option[~ran] = -1
    predicted = _predicted_w(world)
    predicted[~ran] = np.nan
    held.pieces[~ran] = 0
    used = int(world.kernel.now.intervals)
    return Schedule(
        log.state, log.reason, log.start, log.end, log.option, log.energy_j, predicted,
        held.first, held.pieces, held.low[:used], held.high[:used], log.parked_s if log.parked_s.any() else None,
        margins_w(world.kernel, world.truth.announced.least, log),
    )  # fmt: skip


def _predicted_w(world: SimulatedWorld) -> NDArray[np.float64]:
    """Return the predicted watts of each job, without the idle floor of the ledger (rule 14).

    Written over the true watts of the last stretch, which are not needed any more: at its end a run's memory is at
    its peak.
    """
    table, factors, micro = world.kernel.predicted, world.kernel.by_unit.factors, world.truth.uw
    for k in range(0, len(micro), _BLOCK):
        rows = np.arange(k, min(k + _BLOCK, len(micro)))
        unit = unit_uw(table, rows, world.log.option[rows])
        if len(factors.table):
            sum_units(world.kernel.held, factors, rows.astype(np.int32), unit, micro[k : k + _BLOCK])
        else:
            micro[rows] = unit * world.jobs.nodes[rows]
    return watts_in_place(micro)


def power_of(world: SimulatedWorld) -> PowerSeries:
    """Return the power series from the first submission to the last end.

    What nodes do before and after is not part of the run (rule 17 of docs/semantics.md).
    """
    log = world.log
    time = log.time[: world.truth.loop.power_rows]
    first, last = world.jobs.submit_s.min(initial=np.inf), np.nanmax(log.end, initial=-np.inf)
    begin = int(rows_at(time, first))
    rows = slice(begin, int(np.searchsorted(time, last, side="right")))
    time = np.maximum(time[rows], first, out=time[rows])
    jobs_w, other_w, idle_w = (watts_in_place(c[rows]) for c in (log.jobs_uw, log.other_uw, log.busy_idle_uw))
    return PowerSeries(time, jobs_w, other_w, idle_w, log.busy[rows])


def targets_exceeded(targets: LoadTargets, power: PowerSeries, machine: Machine) -> int:
    """Return during how many load targets true power was above the target, by more than 1e-6 W."""
    if not len(targets) or not len(power.time_s):
        return 0
    drawn, count = power.scope_w(machine.cap_scope), 0
    for row in range(len(targets)):
        first = max(0, int(np.searchsorted(power.time_s, targets.start_s[row], side="right")) - 1)
        rows = slice(first, int(np.searchsorted(power.time_s[:-1], targets.end_s[row])))
        count += bool((drawn[:-1][rows] > targets.limit[row] + 1e-6).any())
    return count


def watts_in_place(micro: NDArray[np.int64]) -> NDArray[np.float64]:
    """Convert integer microwatts to watts, written over them.

    At its end a run's memory is at its peak; a copy of the longest columns would raise it. Works in blocks, because
    the conversion of a whole column would make that copy.
    """
    watts = micro.view(np.float64)
    for k in range(0, len(micro), _BLOCK):
        watts[k : k + _BLOCK] = micro[k : k + _BLOCK] / codes.MICRO
    return watts
