"""Metrics of a run, by the names of docs/semantics.md: waits, energies, and how the cap was used and kept.

Every figure is a pure function of the schedule and the power series, so a run directory can be evaluated again later.
Powers under a cap are in the machine's ``cap_scope``; energies have their scope in their names (``job_energy_j``,
``machine_energy_j``). Integrals are exact: power is a step function, so each is a sum of watts x seconds over rows, cut
at the borders of the span and at the cap's own steps. Memory is O(rows of the power series).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import NODES_ASKED, Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import PowerSeries, Schedule, State
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps, excess_w, held, sum_of_products, with_times

HOUR_S = 3_600.0
TAU_S = 10.0
"""Shortest run time in seconds that a bounded slowdown divides by: very short jobs would dominate the mean."""
QUANTILES = {"median": 0.50, "p95": 0.95, "p99": 0.99}
"""Quantiles over jobs, by the ending of their names; linear interpolation."""
ENERGIES = ("job_energy_j", "machine_energy_j", "energy_per_node_h_j", "edp_js")
"""Metrics that do not exist where neither jobs nor machine state any watts."""
Metrics = dict[str, float | int | None]
"""Metrics by name; None where a figure does not exist (no job ran, no cap was in force)."""


class JobFigures(NamedTuple):
    """Per-job figures, NaN where a job never ran. Shapes (n,)."""

    wait_s: Floats
    """Start less submission."""
    turnaround_s: Floats
    """End less submission (papers also say response time)."""
    run_s: Floats
    """End less start."""
    bounded_slowdown: Floats
    """max(1, turnaround / max(run, 10 s))."""


class CapFigures(NamedTuple):
    """How a cap, and load targets, were used and kept; None where none was in force."""

    power_utilization: float | None = None
    """Energy drawn over energy allowed while a finite cap was in force, targets aside."""
    cap_overshoot_w: float | None = None
    """Greatest excess of true power over the cap, targets aside."""
    cap_over_s: float | None = None
    """Time with an excess."""
    cap_over_j: float | None = None
    """Energy above the cap."""
    target_overshoot_w: float | None = None
    """Greatest excess over the limit of load targets, and of the rises after them, where it is below the cap."""
    target_over_s: float | None = None
    """Time with such an excess."""
    target_over_j: float | None = None
    """Energy above that limit."""


def metrics(
    jobs: Jobs, schedule: Schedule, power: PowerSeries, machine: Machine, cap: Cap, *, rows_unusable: int = 0
) -> Metrics:
    """Return every metric by name, as ``quantities.csv`` defines them; None where a figure does not exist.

    Per-job figures cover the jobs that ran, killed ones included. The span of all integrals is from the first
    submission of a usable job to the last end. ``rows_unusable`` is passed through from the reader.
    """
    begin, end = span(jobs, schedule)
    span_s = end - begin
    energy = energies(power, machine, begin, end)
    available = machine.units * span_s
    found: Metrics = {
        **_counts(schedule),
        "rows_unusable": rows_unusable,
        **_per_job(jobs, schedule),
        **_waits(jobs, schedule),
        "makespan_s": span_s,
        "utilization": energy["busy_unit_s"] / available if available > 0 else None,
        "job_energy_j": energy["jobs_j"],
        "machine_energy_j": energy["machine_j"],
        "energy_per_node_h_j": _per_node_h(energy["machine_j"], jobs, schedule),
        "edp_js": energy["machine_j"] * span_s,
        **cap_figures(power, machine, cap, begin, end)._asdict(),
        "mape_percent": mape_percent(schedule),
    }
    if machine.supply:
        from wattqueue.model.holding import held_by_domain
        from wattqueue.model.stranding import racks_a_job, stranded

        found |= {
            **stranded(jobs, schedule, machine, cap).figures(),
            "racks_a_job_mean": racks_a_job(schedule, machine),
            "domain_blocked_s": float(sum(held_by_domain(jobs, schedule, machine, cap).values())),
        }
    if NODES_ASKED in jobs.extra:
        from wattqueue.model.fragmentation import fragmented_gpus

        found["fragmented_gpus_mean"] = fragmented_gpus(jobs, schedule, machine)
    return found


def job_figures(jobs: Jobs, schedule: Schedule) -> JobFigures:
    """Return wait, turnaround, run time and bounded slowdown of each job, NaN where it never ran. Shapes (n,)."""
    turnaround = schedule.end_s - jobs.submit_s
    run = schedule.end_s - schedule.start_s
    slowdown = turnaround / np.maximum(run, TAU_S)
    return JobFigures(schedule.start_s - jobs.submit_s, turnaround, run, np.maximum(slowdown, 1.0, out=slowdown))


def span(jobs: Jobs, schedule: Schedule) -> tuple[float, float]:
    """Return first submission and last end in seconds; the same instant twice where nothing ran."""
    if len(jobs) == 0:
        return 0.0, 0.0
    begin = float(jobs.submit_s.min())
    ended = schedule.ran
    return begin, float(schedule.end_s.max(where=ended, initial=begin))


def waits_so_far(jobs: Jobs, state: NDArray[np.int8], start_s: Floats, end_s: Floats) -> Floats:
    """Return the waits of all jobs that were not rejected; of one that never ran, up to the end of the run. Shape (k,).

    The end of the run is its last end or its last submission, whichever is later: the wait of a job that never ran is
    at least what is returned. A rejected job never waits (rule 4 of docs/semantics.md).
    """
    ran = np.isfinite(end_s)
    last = max(float(end_s.max(where=ran, initial=-np.inf)), float(jobs.submit_s.max(initial=-np.inf)))
    waited: Floats = (np.where(ran, start_s, last) - jobs.submit_s)[state != State.REJECTED]
    return waited


def energies(power: PowerSeries, machine: Machine, begin_s: float, end_s: float) -> dict[str, float]:
    """Return exact integrals over the span: ``jobs_j``, ``machine_j`` (every unit), ``busy_unit_s``.

    Before the first row of the series the machine is powered and idle.
    """
    power = power.from_start(machine, begin_s)
    columns = (power.jobs_w, power.other_w, power.busy_units)
    jobs_j, other_j, busy = (Steps(power.time_s, column).integral(begin_s, end_s) for column in columns)
    return {"jobs_j": jobs_j, "machine_j": jobs_j + other_j, "busy_unit_s": busy}


def cap_figures(power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> CapFigures:
    """Return how a cap, and the targets in it, were used and kept between two instants, in the machine's cap scope."""
    return LimitSums.of(power, machine, cap, begin_s, end_s).figures()


class CapSums(NamedTuple):
    """Sums over the time with a finite cap. They add up over pieces of a run, unlike the metrics."""

    used_j: float = 0.0
    """Energy drawn."""
    allowed_j: float = 0.0
    """Integral of the cap."""
    overshoot_w: float = 0.0
    over_s: float = 0.0
    over_j: float = 0.0
    capped_s: float = 0.0
    """Time with a finite cap."""

    def plus(self, other: CapSums) -> CapSums:
        """Return the sums of two pieces of one run together; the overshoot is the greater of the two."""
        most = max(self.overshoot_w, other.overshoot_w)
        return CapSums(*(a + b for a, b in zip(self, other, strict=True)))._replace(overshoot_w=most)

    def figures(self) -> CapFigures:
        """Return the metrics of a cap; all None where none was in force."""
        if self.capped_s <= 0:
            return CapFigures()
        share = self.used_j / self.allowed_j if self.allowed_j > 0 else None
        return CapFigures(share, self.overshoot_w, self.over_s, self.over_j)


class LimitSums(NamedTuple):
    """The sums of the cap alone, and of the limit of load targets where that is lower."""

    cap: CapSums = CapSums()
    target: CapSums = CapSums()

    @classmethod
    def of(cls, power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> LimitSums:
        """Return the sums between two instants; arguments as ``cap_sums``, ``cap`` with its targets."""
        return cls(*(cap_sums(power, machine, one, begin_s, end_s) for one in (cap.alone, cap.of_targets)))

    def plus(self, other: LimitSums) -> LimitSums:
        """Return the sums of two pieces of one run together."""
        return LimitSums(self.cap.plus(other.cap), self.target.plus(other.target))

    def figures(self) -> CapFigures:
        """Return the metrics; None where neither was in force."""
        of_target = self.target.figures()
        return self.cap.figures()._replace(
            target_overshoot_w=of_target.cap_overshoot_w,
            target_over_s=of_target.cap_over_s,
            target_over_j=of_target.cap_over_j,
        )


def cap_sums(power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> CapSums:
    """Return the sums of one limit between two instants, in the machine's cap scope.

    The cap's steps inside the span are inserted into the power series, so that every row has one power and one cap.
    """
    if not cap.limited or end_s <= begin_s:
        return CapSums()
    power = power.from_start(machine, begin_s)
    rows, _ = held(power.time_s, begin_s, end_s)
    time, row = with_times(np.concatenate(([begin_s], power.time_s[rows][1:], [end_s])), cap.time_s)
    length, limit = np.diff(time), cap.at(time[:-1])
    capped = np.isfinite(limit) & (length > 0)
    if not capped.any():
        return CapSums()
    watts = np.append(power.scope_w(machine.cap_scope)[rows], 0.0)[row][:-1][capped]
    limit, length = limit[capped], length[capped]
    used, above = sum_of_products(watts, length), excess_w(watts, limit)
    over_s, over_j = float(length[above > 0].sum()), sum_of_products(above, length)
    return CapSums(used, sum_of_products(limit, length), float(above.max()), over_s, over_j, float(length.sum()))


def mape_percent(schedule: Schedule) -> float | None:
    """Return the mean absolute error in percent of what the ledger counted against the mean watts truly drawn.

    Over jobs that drew any; None if there are none. With the idle floor (rule 14) the ledger's figure is floored.
    """
    drawn = schedule.ran & (schedule.energy_j > 0) & np.isfinite(schedule.predicted_w)
    if not drawn.any():
        return None
    actual = schedule.energy_j[drawn] / (schedule.end_s[drawn] - schedule.start_s[drawn])
    return float(100.0 * np.mean(np.abs(actual - schedule.predicted_w[drawn]) / actual))


def _counts(schedule: Schedule) -> Metrics:
    """Return the number of jobs, and of each state."""
    found = np.bincount(schedule.state, minlength=len(State))
    return {
        "jobs": len(schedule.state),
        "jobs_completed": int(found[State.COMPLETED]),
        "jobs_killed": int(found[State.KILLED]),
        "jobs_never_ran": int(found[State.REJECTED] + found[State.NOT_STARTED]),
    }


def _per_job(jobs: Jobs, schedule: Schedule) -> Metrics:
    """Return mean and quantiles of wait, turnaround and bounded slowdown over the jobs that ran."""
    ran = schedule.ran
    every = job_figures(jobs, schedule)
    found: Metrics = {}
    for name in ("wait_s", "turnaround_s", "bounded_slowdown"):
        column: Floats = getattr(every, name)
        column = column[ran]
        found[f"{name}_mean"] = float(column.mean()) if len(column) else None
        points = quantiles(column, [*QUANTILES.values()]) if len(column) else None
        for i, ending in enumerate(QUANTILES):
            found[f"{name}_{ending}"] = None if points is None else float(points[i])
    return found


def quantiles(values: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of ``values`` (n,), n > 0, which are put into another order. Shape (k,).

    The figures of ``np.quantile`` to the last bit; that imports masked arrays, a tenth of a short run's time.
    """
    at = np.array(shares) * (len(values) - 1)
    low = at.astype(np.int64)
    high = np.minimum(low + 1, len(values) - 1)
    values.partition(np.concatenate((low, high)))
    share, below, above = at - low, values[low], values[high]
    return np.where(share < 0.5, below + (above - below) * share, above - (above - below) * (1 - share))


def _waits(jobs: Jobs, schedule: Schedule) -> Metrics:
    """Return waits over all jobs, those that never ran among them, and the mean wait weighted by nodes."""
    every = waits_so_far(jobs, schedule.state, schedule.start_s, schedule.end_s)
    ran = schedule.ran
    nodes, wait = jobs.nodes[ran].astype(np.float64), (schedule.start_s - jobs.submit_s)[ran]
    return {
        "all_wait_s_mean": float(every.mean()) if len(every) else None,
        "all_wait_s_p95": float(quantiles(every, [QUANTILES["p95"]])[0]) if len(every) else None,
        "node_wait_s_mean": sum_of_products(nodes, wait) / float(nodes.sum()) if len(nodes) else None,
    }


def _per_node_h(machine_j: float, jobs: Jobs, schedule: Schedule) -> float | None:
    """Return the machine's energy for each node-hour of work that was completed; None where no job ran.

    Work is counted at reference speed (rule 3), so that a job which was slowed down is no more work.
    """
    ran = schedule.ran
    work_s = np.minimum(jobs.runtime_s, jobs.walltime_s)[ran]
    done = sum_of_products(jobs.nodes[ran].astype(np.float64), work_s)
    return machine_j * HOUR_S / done if done > 0 else None
