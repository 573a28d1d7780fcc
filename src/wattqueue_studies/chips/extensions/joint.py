"""What a joint choice of units could save: the assignment of least energy, at the starts of a finished run.

At each instant at which jobs start, their devices are chosen again and jointly from those that were free, so that the
sum of watts times limits is least (a linear sum assignment); nothing else of the run changes, so that the watts that
are reserved suffice. The bound is what would be saved if all running jobs could move at no cost, to the assignment of
least true watts: at these moments no joint choice of devices saves more, and it knows the truth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.sim.engine import Run
from wattqueue_studies.chips.devices import Devices

MOMENTS = 60
"""Moments at which the bound is taken."""


def joint_figures(run: Run, found: Devices) -> Mapping[str, float]:
    """Return savings over the run's own choices in per cent, and the share of starts that come with another one."""
    held = _held_units(run)
    app = np.array([found.apps.index(name) for name in run.jobs.app.names])[run.jobs.app.codes]
    start, end = run.schedule.start_s, run.schedule.end_s
    ran = np.flatnonzero(run.schedule.ran)
    saved_j = used_j = 0.0
    together = 0
    for instant in np.unique(start[ran]):
        now = ran[start[ran] == instant]
        if len(now) < 2:
            used_j += sum(_energy(found, run, app, job, held[job]) for job in now)
            continue
        together += len(now)
        busy = [held[job] for job in ran[(start[ran] < instant) & (end[ran] > instant)]]
        free = np.setdiff1d(np.arange(found.units), np.concatenate([*busy, np.zeros(0, np.int64)]))
        slots = np.repeat(now, run.jobs.nodes[now])
        cost = found.known_w[app[slots]][:, free] * run.jobs.walltime_s[slots, np.newaxis]
        chosen = free[_assign(cost)]
        for job in now:
            own = _energy(found, run, app, job, held[job])
            used_j += own
            saved_j += own - _energy(found, run, app, job, chosen[slots == job])
    bound = _bound(run, found, held, app)
    return {
        "joint_saved_percent": 100.0 * saved_j / used_j,
        "bound_saved_percent": bound,
        "together_percent": 100.0 * together / len(ran),
    }


def _bound(run: Run, found: Devices, held: Mapping[int, NDArray[np.int64]], app: NDArray[np.int64]) -> float:
    """Return what moving all running jobs to the best assignment would save, in per cent of their watts."""
    start, end = run.schedule.start_s, run.schedule.end_s
    ran = np.flatnonzero(run.schedule.ran)
    saved = used = 0.0
    for moment in np.linspace(start[ran].min(), end[ran].max(), MOMENTS + 2)[1:-1]:
        now = ran[(start[ran] <= moment) & (end[ran] > moment)]
        if not len(now):
            continue
        slots = np.repeat(now, run.jobs.nodes[now])
        cost = found.true_w[app[slots]]
        own = float(cost[np.arange(len(slots)), np.concatenate([held[job] for job in now])].sum())
        used += own
        saved += own - float(cost[np.arange(len(slots)), _assign(cost)].sum())
    return 100.0 * saved / used


def _assign(cost: Floats) -> NDArray[np.int64]:
    """Return the column of each row in the assignment of least cost; rows are at most as many as columns."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(cost)
    found: NDArray[np.int64] = columns[np.argsort(rows)]
    return found


def _energy(found: Devices, run: Run, app: NDArray[np.int64], job: int, units: NDArray[np.int64]) -> float:
    """Return the joules of a job on some units, at true watts and its work: speed is the same."""
    return float(found.true_w[app[job], units].sum() * run.jobs.runtime_s[job])


def _held_units(run: Run) -> dict[int, NDArray[np.int64]]:
    """Return the units of each job that ran."""
    schedule = run.schedule
    found = {}
    for job in np.flatnonzero(schedule.ran):
        at = slice(schedule.unit_start[job], schedule.unit_start[job] + schedule.unit_count[job])
        pairs = zip(schedule.unit_low[at], schedule.unit_high[at], strict=True)
        found[int(job)] = np.concatenate([np.arange(low, high + 1) for low, high in pairs])
    return found
