"""Simulate one configuration under one cap and keep what the conclusions need.

Kept are the metrics, start and end of each job, and the power in bins (``digest``).

The power of a run is reduced to exact integrals over bins (``Digest``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import CapSums, Metrics, cap_sums, metrics
from wattqueue.model.physics import Physics
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps, excess_w
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import has_phases, power_windows, profiled

HOUR_S = 3_600.0
"""Length of the bins by which the correlation of power is estimated."""


@dataclass(frozen=True, slots=True, eq=False)
class Digest:
    """Integrals over bins; bin i reaches from ``edge_s[i]`` to ``edge_s[i + 1]``.

    Attributes:
        edge_s: Edges of the bins in seconds on the trace's clock. Shape (b + 1,).
        machine_j: Energy of all units. Shape (b,).
        scope_j: Energy of what the cap covers. Shape (b,).
        over_s: Seconds above the cap. Shape (b,).
        over_j: Energy above the cap. Shape (b,).
    """

    edge_s: Floats
    machine_j: Floats
    scope_j: Floats
    over_s: Floats
    over_j: Floats


def bin_edges(begin_s: float, end_s: float, inside: Iterable[Floats], zero_s: float = 0.0) -> Floats:
    """Return the edges of the bins: begin, end, whole hours in between, and the times of ``inside`` in between.

    Hours are those of a clock whose 0 is at ``zero_s``. Hours are kept as bins because the correlation of hourly
    power decides how much evidence a run holds (``safe``).
    """
    first = np.ceil((begin_s - zero_s) / HOUR_S)
    hours = zero_s + HOUR_S * np.arange(first, max(first, np.ceil((end_s - zero_s) / HOUR_S)))
    times = np.concatenate([hours, *inside])
    return np.unique(np.concatenate(([begin_s], times[(times > begin_s) & (times < end_s)], [end_s])))


def digest(windows: Iterable[PowerSeries], machine: Machine, cap: Cap, edge_s: Floats) -> tuple[Digest, CapSums]:
    """Sum a power series into bins, and as a whole for the metrics of the cap.

    Args:
        windows: The series, in windows that each begin where the one before ends.
        machine: Decides by its cap scope which watts the cap covers.
        cap: Constant cap.
        edge_s: Edges of the bins. Outside the span of the series nothing is counted.
    """
    sums, whole = np.zeros((4, len(edge_s) - 1)), CapSums()
    for power in windows:
        if len(power.time_s) < 2:
            continue
        begin, end = float(power.time_s[0]), float(power.time_s[-1])
        watts = power.scope_w(machine.cap_scope)
        columns: list[NDArray[Any]] = [power.machine_w, watts]
        kept = cap_sums(power, machine, cap, begin, end)
        whole = whole.plus(kept)
        if kept.over_s > 0:
            above = excess_w(watts, float(cap.cap_w[0]))
            columns += [above > 0.0, above]
        for total, column in zip(sums, columns, strict=False):
            total += Steps(power.time_s, column).integrals(np.clip(edge_s, begin, end))
    return Digest(edge_s, *sums), whole


def hourly(digest: Digest, zero_s: float = 0.0) -> tuple[Floats, Digest]:
    """Sum bins into whole hours of the clock.

    Returns the begin of each hour (h,), and the sums as a ``Digest`` of h bins.
    """
    hour = np.floor((digest.edge_s[:-1] - zero_s) / HOUR_S)
    begins, place = np.unique(hour, return_inverse=True)

    def total(column: Floats) -> Floats:
        return np.asarray(np.bincount(place, column, len(begins)), np.float64)

    starts = np.concatenate(([digest.edge_s[0]], zero_s + begins[1:] * HOUR_S, [digest.edge_s[-1]]))
    columns = (digest.machine_j, digest.scope_j, digest.over_s, digest.over_j)
    return zero_s + begins * HOUR_S, Digest(starts, *map(total, columns))


@dataclass(frozen=True, slots=True, eq=False)
class RunSummary:
    """A run without its power steps.

    Attributes:
        metrics: Metrics by name (docs/semantics.md); those of the cap from true power with phases where jobs have
            profiles.
        start_s: Start of each job, NaN where it never ran. Shape (n,).
        end_s: End of each job, NaN where it never ran. Shape (n,).
        partition: Index of the partition that each job ran in, -1 where it never ran. Shape (n,).
        power: Integrals of the power over bins.
        work: Which jobs never ran and why, and what decides whether the run may be compared with another.
        notes: Remarks of the simulator, with the number of times that each applies.
        without_effect: A sentence for each part of the policy that could not act.
    """

    metrics: Metrics
    start_s: Floats
    end_s: Floats
    partition: NDArray[np.int16]
    power: Digest
    work: WorkDone
    notes: dict[str, int]
    without_effect: tuple[str, ...] = ()


def run_cap(
    jobs: Jobs, machine: Machine, policy: Policy, cap_w: float, *, breaks: Iterable[Floats] = (), zero_s: float = 0.0,
    physics: Physics | None = None,
) -> RunSummary:  # fmt: skip
    """Simulate under a constant cap and sum the power by hour and between ``breaks``.

    Args:
        jobs: Workload.
        machine: Machine.
        policy: A policy object of its own (estimators learn).
        cap_w: Watts; ``inf`` for none.
        breaks: Times at which a bin must begin: changes of price or intensity.
        zero_s: Where the clock of whole hours has its 0.
        physics: What files say of the truth.

    Raises:
        As ``simulate``.
    """
    cap = Cap.constant(cap_w)
    run = simulate(jobs, machine, policy, cap=cap, actual=physics)
    figures = metrics(run.jobs, run.schedule, run.power, machine, cap)
    begin = float(run.power.time_s[0]) if len(run.power.time_s) else float(jobs.submit_s.min(initial=0.0))
    end = float(run.power.time_s[-1]) if len(run.power.time_s) else begin
    breaks = list(breaks)
    phases = np.isfinite(cap_w) or bool(breaks)  # without cap and prices nothing asks for more than energy
    windows = _windows(run) if phases else [run.power]
    found, kept = digest(windows, machine, cap, bin_edges(begin, max(end, begin + 1.0), breaks, zero_s))
    if np.isfinite(cap_w) and has_phases(run):
        # Metrics of the cap come from power with phases; those that simulate() computed know job means only.
        figures |= kept.figures()._asdict()
    option = run.schedule.option
    partition = np.where(option < 0, -1, machine.option_partition[option]).astype(np.int16)
    work = WorkDone.of(run.jobs, run.schedule)
    start_s, end_s = run.schedule.start_s, run.schedule.end_s
    return RunSummary(figures, start_s, end_s, partition, found, work, dict(run.notes), run.without_effect)


def _windows(run: Run) -> Iterable[PowerSeries]:
    """Return the run's true power, with the phases of its jobs where they are known, window by window."""
    if not has_phases(run):
        return [run.power]
    return power_windows(profiled(run), run.power)
