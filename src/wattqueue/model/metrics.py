"""What a run is worth, by the names of SEMANTICS: waits, energies, and how the cap was kept.

Every figure is a pure function of the schedule and the power series. Powers under a cap are in the
machine's ``cap_scope``; energies say theirs in their names.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import PowerSeries, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.model.sums import sum_of_products

TAU_S = 10.0
"""Shortest run that a bounded slowdown divides by."""
TOLERANCE_W = 1e-6
"""What admission may let pass; less than this above the cap is no excess."""
QUANTILES = {"median": 0.50, "p95": 0.95, "p99": 0.99}
Metrics = dict[str, float | int | None]


class JobFigures(NamedTuple):
    """Per-job figures, NaN where a job never ran. Shapes (n,); seconds, and a pure number."""

    wait_s: Floats
    turnaround_s: Floats
    run_s: Floats
    bounded_slowdown: Floats


class CapFigures(NamedTuple):
    """How a cap was used and kept; None where no cap was in force."""

    power_utilization: float | None
    cap_overshoot_w: float | None
    cap_over_s: float | None
    cap_over_j: float | None


def metrics(
    jobs: Jobs, schedule: Schedule, power: PowerSeries, machine: Machine, cap: Cap, *, rows_unusable: int = 0
) -> Metrics:
    """Every metric by name, as ``quantities.csv`` explains them; None where a figure does not exist.

    Per-job figures cover the jobs that ran, killed ones too. Time runs from the first submission of
    a usable job to the last end. ``power_utilization`` and the figures of excess are in the cap's scope.
    """
    begin, end = span(jobs, schedule)
    span_s = end - begin
    energy = energies(power, machine, begin, end)
    available = machine.units * span_s
    return {
        **_counts(schedule),
        "rows_unusable": rows_unusable,
        **_per_job(jobs, schedule),
        "makespan_s": span_s,
        "utilization": energy["busy_unit_s"] / available if available > 0 else None,
        "job_energy_j": energy["jobs_j"],
        "machine_energy_j": energy["machine_j"],
        "edp_js": energy["machine_j"] * span_s,
        **cap_figures(power, machine, cap, begin, end)._asdict(),
        "mape_percent": mape_percent(schedule),
    }


def job_figures(jobs: Jobs, schedule: Schedule) -> JobFigures:
    """Wait, turnaround, run time and bounded slowdown of each job, NaN where it never ran. Shapes (n,)."""
    turnaround = schedule.end_s - jobs.submit_s
    run = schedule.end_s - schedule.start_s
    slowdown = turnaround / np.maximum(run, TAU_S)
    return JobFigures(schedule.start_s - jobs.submit_s, turnaround, run, np.maximum(slowdown, 1.0, out=slowdown))


def span(jobs: Jobs, schedule: Schedule) -> tuple[float, float]:
    """First submission and last end; the same instant twice where nothing ran."""
    if len(jobs) == 0:
        return 0.0, 0.0
    begin = float(jobs.submit_s.min())
    ended = schedule.ran
    return begin, float(schedule.end_s.max(where=ended, initial=begin))


def energies(power: PowerSeries, machine: Machine, begin_s: float, end_s: float) -> dict[str, float]:
    """Exact integrals from ``begin_s`` to ``end_s``: ``jobs_j``, ``machine_j`` (every unit), ``busy_unit_s``.

    Before the series' first row the machine is powered and idle.
    """
    early, first, length = _steps(power.time_s, begin_s, end_s)
    rows = slice(first, first + len(length))
    jobs_j = sum_of_products(power.jobs_w[rows], length)
    other_j = sum_of_products(power.other_w[rows], length) + early * machine.idle_w
    return {
        "jobs_j": jobs_j,
        "machine_j": jobs_j + other_j,
        "busy_unit_s": sum_of_products(power.busy_units[rows], length),
    }


def cap_figures(power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> CapFigures:
    """How a piecewise constant cap was used and kept between two instants, in the machine's cap scope.

    ``power_utilization`` is the energy drawn over the energy allowed while a finite cap is in force.
    """
    return cap_sums(power, machine, cap, begin_s, end_s).figures()


class CapSums(NamedTuple):
    """Sums over the time with a finite cap, which add up over pieces of a run; ``capped_s`` is that time."""

    used_j: float = 0.0
    allowed_j: float = 0.0
    overshoot_w: float = 0.0
    over_s: float = 0.0
    over_j: float = 0.0
    capped_s: float = 0.0

    def plus(self, other: CapSums) -> CapSums:
        """Of two pieces of one run."""
        most = max(self.overshoot_w, other.overshoot_w)
        return CapSums(*(a + b for a, b in zip(self, other, strict=True)))._replace(overshoot_w=most)

    def figures(self) -> CapFigures:
        """The metrics; none where no cap was in force."""
        if self.capped_s <= 0:
            return CapFigures(None, None, None, None)
        share = self.used_j / self.allowed_j if self.allowed_j > 0 else None
        return CapFigures(share, self.overshoot_w, self.over_s, self.over_j)


def cap_sums(power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> CapSums:
    """What ``cap_figures`` is made of, between two instants."""
    if not cap.limited or end_s <= begin_s:
        return CapSums()
    time, watts = _with_start(power, machine, begin_s)
    inside = cap.time_s[(cap.time_s > time[0]) & (cap.time_s < end_s)]
    if len(inside):
        place = np.searchsorted(time, inside, side="right")
        time, watts = np.insert(time, place, inside), np.insert(watts, place, watts[place - 1])
    _, first, length = _steps(time, begin_s, end_s)
    rows = slice(first, first + len(length))
    limit = cap.at(time[rows])
    capped = np.isfinite(limit) & (length > 0)
    if not capped.any():
        return CapSums()
    watts, limit, length = watts[rows][capped], limit[capped], length[capped]
    allowed = sum_of_products(limit, length)
    used = sum_of_products(watts, length)
    watts -= limit  # from here on the excess
    watts[watts <= TOLERANCE_W] = 0.0
    over_s = float(length[watts > 0].sum())
    return CapSums(used, allowed, float(watts.max()), over_s, sum_of_products(watts, length), float(length.sum()))


def mape_percent(schedule: Schedule) -> float | None:
    """Error of what the ledger counted against the mean watts really drawn, over jobs that drew any."""
    drawn = schedule.ran & (schedule.energy_j > 0) & np.isfinite(schedule.predicted_w)
    if not drawn.any():
        return None
    actual = schedule.energy_j[drawn] / (schedule.end_s[drawn] - schedule.start_s[drawn])
    return float(100.0 * np.mean(np.abs(actual - schedule.predicted_w[drawn]) / actual))


def _counts(schedule: Schedule) -> Metrics:
    found = np.bincount(schedule.state, minlength=len(State))
    return {
        "jobs": len(schedule.state),
        "jobs_completed": int(found[State.COMPLETED]),
        "jobs_killed": int(found[State.KILLED]),
        "jobs_rejected": int(found[State.REJECTED]),
        "jobs_not_started": int(found[State.NOT_STARTED]),
    }


def _per_job(jobs: Jobs, schedule: Schedule) -> Metrics:
    ran = schedule.ran
    every = job_figures(jobs, schedule)
    found: Metrics = {}
    for name in ("wait_s", "turnaround_s", "bounded_slowdown"):
        column: Floats = getattr(every, name)
        column = column[ran]
        found[f"{name}_mean"] = float(column.mean()) if len(column) else None
        points = np.quantile(column, list(QUANTILES.values()), overwrite_input=True) if len(column) else None
        for i, ending in enumerate(QUANTILES):
            found[f"{name}_{ending}"] = None if points is None else float(points[i])
    return found


def _steps(time_s: Floats, begin_s: float, end_s: float) -> tuple[float, int, Floats]:
    """Seconds before the first row, the first row in force, and how long each row from there holds within the span."""
    if end_s <= begin_s or len(time_s) == 0:
        return max(0.0, end_s - begin_s), 0, np.empty(0)
    first = max(int(np.searchsorted(time_s, begin_s, side="right")) - 1, 0)
    last = max(int(np.searchsorted(time_s, end_s, side="left")), first)
    edges = np.append(time_s[first:last], end_s)
    early = 0.0
    if len(edges) > 1:
        early = max(0.0, float(edges[0]) - begin_s)
        edges[0] = max(edges[0], begin_s)
    else:
        early = end_s - begin_s
    return early, first, np.diff(edges)


def _with_start(power: PowerSeries, machine: Machine, begin_s: float) -> tuple[Floats, Floats]:
    """Times and watts in the cap's scope, with a row of the idle machine ahead where the series begins later."""
    watts: Floats = np.array(power.scope_w(machine.cap_scope), np.float64)
    if len(power.time_s) and power.time_s[0] <= begin_s:
        return power.time_s, watts
    return np.insert(power.time_s, 0, begin_s), np.insert(watts, 0, machine.scope_idle_w())
