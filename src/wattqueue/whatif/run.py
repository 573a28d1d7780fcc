"""Simulate one configuration under one cap and keep what the conclusions need.

Kept are the metrics, start and end of each job, and the power in bins (``digest``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.comparability import WorkDone
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import Metrics, metrics
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import has_phases, power_windows, profiled
from wattqueue.whatif.digest import Digest, bin_edges, digest


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
    """

    metrics: Metrics
    start_s: Floats
    end_s: Floats
    partition: NDArray[np.int16]
    power: Digest
    work: WorkDone
    notes: dict[str, int]


def run_cap(
    jobs: Jobs, machine: Machine, policy: Policy, cap_w: float, *, breaks: Iterable[Floats] = (), zero_s: float = 0.0
) -> RunSummary:
    """Simulate under a constant cap and sum the power by hour and between ``breaks``.

    Args:
        jobs: Workload.
        machine: Machine.
        policy: A policy object of its own (estimators learn).
        cap_w: Watts; ``inf`` for none.
        breaks: Times at which a bin must begin: changes of price or intensity.
        zero_s: Where the clock of whole hours has its 0.

    Raises:
        As ``simulate``.
    """
    cap = Cap.constant(cap_w)
    run = simulate(jobs, machine, policy, cap=cap)
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
    return RunSummary(figures, run.schedule.start_s, run.schedule.end_s, partition, found, work, dict(run.notes))


def _windows(run: Run) -> Iterable[PowerSeries]:
    """Return the run's true power, with the phases of its jobs where they are known, window by window."""
    if not has_phases(run):
        return [run.power]
    return power_windows(profiled(run.jobs, run.schedule, run.machine), run.power)
