"""One run of the row: a workload under one policy and one cap, kept as what the questions need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import CapSums, Metrics, metrics
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import Policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.phases import has_phases
from wattqueue.sim.profiles import power_windows, profiled
from wattqueue.whatif.digest import Digest, bin_edges, digest


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """A run without its steps. Shapes (n,): start_s, end_s (NaN where it never ran), partition (-1 there).

    ``metrics`` are SEMANTICS', those of the cap from true power with phases where jobs carry profiles.
    """

    metrics: Metrics
    start_s: Floats
    end_s: Floats
    partition: NDArray[np.int16]
    power: Digest
    notes: dict[str, int]


def run_cap(
    jobs: Jobs, machine: Machine, policy: Policy, cap_w: float, *, breaks: Iterable[Floats] = (), zero_s: float = 0.0
) -> Ran:
    """Simulate under a constant cap (``inf``: none) and sum its power up by hour and between ``breaks``.

    ``zero_s`` is where the hours' clock has its 0. Raises: as ``simulate``.
    """
    cap = Cap.constant(cap_w)
    run = simulate(jobs, machine, policy, cap=cap)
    figures = metrics(run.jobs, run.schedule, run.power, machine, cap)
    begin = float(run.power.time_s[0]) if len(run.power.time_s) else float(jobs.submit_s.min(initial=0.0))
    end = float(run.power.time_s[-1]) if len(run.power.time_s) else begin
    breaks = list(breaks)
    phases = np.isfinite(cap_w) or bool(breaks)  # without cap and prices nothing asks for more than energy
    windows = _windows(run) if phases else [run.power]
    found = digest(windows, machine, cap_w, bin_edges(begin, max(end, begin + 1.0), breaks, zero_s))
    if np.isfinite(cap_w) and has_phases(run):
        figures |= _sums(found, cap_w, end - begin).figures()._asdict()
    option = run.schedule.option
    partition = np.where(option < 0, -1, machine.option_partition[option]).astype(np.int16)
    return Ran(figures, run.schedule.start_s, run.schedule.end_s, partition, found, dict(run.notes))


def _windows(run: Run) -> Iterable[PowerSeries]:
    """The run's true power: with the phases of its jobs where they are known, window by window."""
    if not has_phases(run):
        return [run.power]
    return power_windows(profiled(run.jobs, run.schedule, run.machine), run.power)


def _sums(found: Digest, cap_w: float, span_s: float) -> CapSums:
    """What the metrics of a cap are made of, from the sums by bin."""
    used, over_s, over_j = (float(c.sum()) for c in (found.scope_j, found.over_s, found.over_j))
    return CapSums(used, cap_w * span_s, found.overshoot_w, over_s, over_j, span_s)
