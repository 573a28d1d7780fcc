"""One simulation of the campaign: a window, a cap, a policy; measures of its capped hours and of all turnarounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Trace
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.comparability import WorkDone
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import cap_sums
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.profiles import PERIOD_S
from wattqueue.model.schedule import PowerSeries, Reason
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.rows import find_row
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import profile_power
from wattqueue.workload.windows import TraceWindow

HIGHEST_DYNAMIC_W = 955_080.0
"""Highest dynamic power of Marconi100 in 2022 (section 6.4)."""
CAPS_PERCENT = tuple(range(10, 71, 5))
"""Caps in percent of the highest dynamic power. Section 6.4 states the range; 1,950 simulations / 30 / 5 = 13 steps."""
CAPPED_S = 3 * 3600.0
"""The cap is on for the first three hours."""
EASY = "easy"
"""The baseline, without a cap."""
IN_FLIGHT = "easy+pc-inflight"
"""The mean, corrected by what is measured of each job."""
NAIVE, MAX, MEAN = "easy+pc-naive", "easy+pc-max", "easy+pc-mean"
REAL_MEAN = "easy+pc-real-mean"
"""The true mean of each job: an oracle."""
POLICIES = (NAIVE, MAX, MEAN, "easy+pc-real-max", REAL_MEAN)
"""The paper's five estimators as policies; the real ones are oracles."""
MACHINE = "marconi100"
"""Machine of the catalogue; its idle watts are inferred from a figure of the paper (see its file)."""
IDLE_W, ARTEFACT_IDLE_W = 208.0, 240.0
"""Idle watts of a node: those of the machine's file, and the lowest valid reading in 2022 by the paper's artefact."""
QUANTILES = tuple(np.linspace(0.0, 1.0, 21).round(2).tolist())
"""Quantiles of power over time that a row keeps: the boxes of Figure 4 are drawn from them."""


@dataclass(frozen=True, slots=True)
class PowercapCell:
    """A run of one window of a trace."""

    trace: Trace
    """The trace and its windows, by names in Shared."""
    window: int
    """Number of the window."""
    policy: str
    """Name of the policy."""
    cap_percent: float | None = None
    """Cap in percent of the highest dynamic power; None is no cap."""
    ledger: tuple[tuple[str, float], ...] = ()
    """Options of the policy's ledger: calibrated on this window's own past, or the margin of a measured one."""
    idle_w: float = IDLE_W
    """Idle watts of a node."""
    sensor: PowerSensor | None = None
    """Telemetry of the nodes; with it the ledger is the measured one (but for ``IN_FLIGHT``), true watts follow the
    jobs' profiles, and only what decides about the capped hours is simulated (``capped_part``)."""
    called: str = ""
    """Name in tables, where it is not the policy's."""

    def identity(self) -> Mapping[str, object]:
        """Return all inputs."""
        return asdict(self)

    def perform(self, shared: Shared) -> Row:
        """Simulate and return the measures."""
        window = self.trace.opened(shared, self.window)
        if self.sensor is not None:
            window = capped_part(window)
        head: Row = {
            "trace": self.trace.ended, "window": self.window, "policy": self.called or self.policy,
            "cap_percent": self.cap_percent, "idle_w": self.idle_w,
        }  # fmt: skip
        machine = replace(machine_of(self.idle_w), sensor=self.sensor)
        then_w = np.inf if self.sensor is None else 0.0
        return head | measured(window, machine, self.loaded(), self.cap_percent, then_w)

    def loaded(self) -> Policy:
        """Load the policy, its ledger with the options."""
        if self.sensor is not None:
            part = find_row(self.policy)["ledger"] if self.policy == IN_FLIGHT else "measured"
            return load_policy(self.policy, ledger={"part": part, **dict(self.ledger)})
        if not self.ledger:
            return load_policy(self.policy)
        row = find_row(self.policy)["ledger"]
        return load_policy(self.policy, ledger={**row, **dict(self.ledger)})


@lru_cache(4)
def machine_of(idle_w: float) -> Machine:
    """Load the machine with these idle watts of a node, once per process."""
    machine = load_machine(MACHINE)
    return replace(machine, partitions=tuple(replace(part, idle_w=idle_w) for part in machine.partitions))


def capped_part(window: TraceWindow) -> TraceWindow:
    """Return what decides about the capped hours alone: submissions in them, runs cut to their length.

    Up to the end of these hours nothing differs: later submissions come too late, a run that is cut ends later, and
    limits stay as they are. With ``measured(..., then_w=0)`` nothing starts after them either, so that sensors are
    read, and phases followed, for hours instead of days. Turnarounds are not those of the whole window.
    """
    jobs = window.jobs.take(window.jobs.submit_s < window.begin_s + CAPPED_S)
    work_s = np.minimum(jobs.runtime_s, CAPPED_S)
    mean_w = jobs.mean_power_w if jobs.profiles is None else jobs.profiles.mean_power_w(work_s)
    return replace(window, jobs=replace(jobs, runtime_s=work_s, mean_power_w=mean_w))


def window_cap(begin_s: float, cap_percent: float | None, then_w: float = np.inf) -> Cap:
    """Return a cap on the first three hours, in percent of the highest dynamic power; None is no cap.

    ``then_w`` is the cap after them.
    """
    if cap_percent is None:
        return Cap.none()
    watts = cap_percent / 100.0 * HIGHEST_DYNAMIC_W
    return Cap(np.array([-np.inf, begin_s, begin_s + CAPPED_S]), np.array([np.inf, watts, then_w]))


def measured(
    window: TraceWindow, machine: Machine, policy: Policy, cap_percent: float | None, then_w: float = np.inf
) -> Row:
    """Simulate a window and return counts, times, and watts of the capped hours in the cap's scope (dynamic).

    Args:
        window: Jobs, past and beginning.
        machine: The machine; with a sensor, true watts follow the profiles in the run, so that it shows phases.
        policy: The policy, its ledger calibrated.
        cap_percent: Cap in percent of the highest dynamic power; None is no cap.
        then_w: Cap after the capped hours.

    Power is that of the jobs' profiles, not of their means: the excess above a cap includes the phases of jobs.
    """
    cap = window_cap(window.begin_s, cap_percent, then_w)
    phases_s = PERIOD_S if machine.sensor is not None else None
    run = simulate(window.jobs, machine, policy, cap=cap, past=window.past, phases_s=phases_s)
    end = window.begin_s + CAPPED_S
    power = profile_power(run, begin_s=window.begin_s, end_s=end) if phases_s is None else run.power
    wait = run.schedule.start_s - window.jobs.submit_s
    turnaround = run.schedule.end_s - window.jobs.submit_s
    did = work_of(run, cut=machine.sensor is not None)
    return {
        "jobs": did.jobs,
        "jobs_never_ran": did.never_ran,
        **did.row(),
        "turnaround_s_mean": float(np.nanmean(turnaround)) if machine.sensor is None else np.nan,
        "wait_s_mean": float(np.nanmean(wait)) if machine.sensor is None else np.nan,
        **hours(power, machine, cap, window.begin_s, end),
    }


def work_of(run: Run, *, cut: bool) -> WorkDone:
    """Return the work of a run of a window.

    One that is cut after the capped hours leaves all jobs that would start later. There only those count as never ran
    that cannot start under the ledger.
    """
    if not cut:
        return WorkDone.of(run.jobs, run.schedule)
    return WorkDone.of_ran(run.jobs, run.schedule, run.schedule.reason != Reason.LEDGER)


def hours(power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> Row:
    """Return measures of power between two instants under a cap that is constant there.

    Without a cap its figures are None. ``over_w_mean`` and ``under_w_mean`` are means over time of the power above the
    cap, and of the room left below it: their difference is mean power less cap.
    """
    watts = Steps(power.time_s, power.scope_w(machine.cap_scope))
    span = end_s - begin_s
    mean = watts.integral(begin_s, end_s) / span
    found: Row = {
        "power_w_mean": mean,
        "power_w_max": watts.maximum(begin_s, end_s),
        "power_w_quantiles": watts.quantiles(np.array(QUANTILES), begin_s, end_s).tolist(),
    }
    kept = cap_sums(power, machine, cap, begin_s, end_s)
    if kept.capped_s == 0:
        return found | dict.fromkeys(("cap_w", "over_share", "over_w_mean", "under_w_mean", "excess_w"))
    limit, over = cap.in_force_w(begin_s), kept.over_j / span
    return found | {
        "cap_w": limit,
        "over_share": kept.over_s / span,
        "over_w_mean": over,
        "under_w_mean": limit - mean + over,
        "excess_w": kept.overshoot_w,
    }


def easy_cells(trace: Trace, idle_w: float = IDLE_W) -> list[PowercapCell]:
    """Return the baseline of each window: EASY without a cap."""
    return [PowercapCell(trace, w, EASY, idle_w=idle_w) for w in range(len(trace.windows))]
