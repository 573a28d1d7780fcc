"""What holds after every simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from wattqueue.model.schedule import Schedule, State
from wattqueue.sim.engine import Run


def units_of(schedule: Schedule, job: int) -> list[int]:
    """Unit numbers that a job held, in the order in which it got them."""
    first, count = int(schedule.unit_start[job]), int(schedule.unit_count[job])
    units: list[int] = []
    for k in range(first, first + count):
        units += range(int(schedule.unit_low[k]), int(schedule.unit_high[k]) + 1)
    return units


def check_invariants(run: Run) -> None:
    """Jobs conserved, no unit twice, no start before submit, energy = integral of power to 1e-9."""
    schedule, jobs = run.schedule, run.jobs
    assert set(np.unique(schedule.state)) <= {int(s) for s in State}
    ran = schedule.ran
    assert (schedule.start_s[ran] >= jobs.submit_s[ran]).all()
    assert (schedule.end_s[ran] > schedule.start_s[ran]).all()
    check_units(run)
    if ran.any():
        power = run.power
        jobs_j = float(np.sum(np.diff(power.time_s) * power.jobs_w[:-1]))
        # A job that was requeued and never ran to its end may have run after the last end, where the series stops.
        billed = float(schedule.energy_j.sum())
        assert jobs_j <= billed * (1 + 1e-9) + 1e-6
        if not schedule.energy_j[~ran].any():
            assert jobs_j == pytest.approx(billed, rel=1e-9, abs=1e-6)
            assert power.busy_units[-1] == 0
        assert (power.busy_units >= 0).all()
        assert (power.busy_units <= run.machine.units).all()


def check_units(run: Run) -> None:
    """Every job has as many units as it asked for, all of one partition, and no unit serves two at once."""
    schedule = run.schedule
    starts = np.cumsum([0, *(p.units for p in run.machine.partitions)])
    used: dict[int, list[tuple[float, float]]] = {}
    for job in np.flatnonzero(schedule.ran):
        units = units_of(schedule, int(job))
        assert len(units) == len(set(units)) == run.jobs.nodes[job]
        p = int(run.machine.option_partition[schedule.option[job]])
        assert starts[p] <= min(units)
        assert max(units) < starts[p + 1]
        for unit in units:
            used.setdefault(unit, []).append((float(schedule.start_s[job]), float(schedule.end_s[job])))
    for stays in used.values():
        stays.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(stays))
