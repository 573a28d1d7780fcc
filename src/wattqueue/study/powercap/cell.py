"""One simulation of the campaign: a workload, a cap, a policy; what its capped hours and its users saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Trace
from wattqueue.formats.machine_toml import load_machine
from wattqueue.model.jobs import Floats
from wattqueue.model.machine import Machine
from wattqueue.model.metrics import TOLERANCE_W, cap_figures
from wattqueue.model.schedule import PowerSeries
from wattqueue.model.signals import Cap
from wattqueue.model.sums import sum_of_products
from wattqueue.policy.policy import Policy, find_row, load_policy
from wattqueue.sim.engine import simulate
from wattqueue.sim.profiles import profile_power
from wattqueue.study.powercap.published import CAPPED_S, EASY, HIGHEST_DYNAMIC_W
from wattqueue.workload.windows import Window

MACHINE = "marconi100"
QUANTILES = tuple(np.linspace(0.0, 1.0, 21).round(2).tolist())
"""Of power over time: what the boxes of Figure 4 are drawn from."""


@dataclass(frozen=True, slots=True)
class PowercapCell:
    """A run: window ``window`` of ``trace`` under ``policy``; ``cap_percent`` None is no cap."""

    trace: Trace
    window: int
    policy: str
    cap_percent: float | None = None
    ledger: tuple[tuple[str, float], ...] = ()
    """Options of the policy's ledger that this workload's own past gives."""

    def identity(self) -> Mapping[str, object]:
        """All that goes in."""
        return asdict(self)

    def perform(self, shared: Shared) -> Row:
        """Simulate, and measure the capped hours and all turnarounds."""
        window = self.trace.opened(shared, self.window)
        head: Row = {"window": self.window, "policy": self.policy, "cap_percent": self.cap_percent}
        return head | measured(window, _machine(), self.loaded(), self.cap_percent)

    def loaded(self) -> Policy:
        """The policy's row with the ledger's own options."""
        if not self.ledger:
            return load_policy(self.policy)
        row = find_row(self.policy)["ledger"]
        return load_policy(self.policy, ledger={**row, **dict(self.ledger)})


@lru_cache(1)
def _machine() -> Machine:
    return load_machine(MACHINE)


def window_cap(begin_s: float, cap_percent: float | None) -> Cap:
    """A cap on the first three hours, in percent of the highest dynamic power; None is none."""
    if cap_percent is None:
        return Cap.none()
    watts = cap_percent / 100.0 * HIGHEST_DYNAMIC_W
    return Cap(np.array([-np.inf, begin_s, begin_s + CAPPED_S]), np.array([np.inf, watts, np.inf]))


def measured(window: Window, machine: Machine, policy: Policy, cap_percent: float | None) -> Row:
    """One run of a window: counts, seconds, watts of the capped hours in the cap's scope (dynamic)."""
    cap = window_cap(window.begin_s, cap_percent)
    run = simulate(window.jobs, machine, policy, cap=cap, past=window.past)
    end = window.begin_s + CAPPED_S
    power = profile_power(run, begin_s=window.begin_s, end_s=end)
    wait = run.schedule.start_s - window.jobs.submit_s
    turnaround = run.schedule.end_s - window.jobs.submit_s
    return {
        "jobs": len(window.jobs),
        "jobs_not_started": int((~run.schedule.ran).sum()),
        "turnaround_s_mean": float(np.nanmean(turnaround)),
        "wait_s_mean": float(np.nanmean(wait)),
        **hours(power, machine, cap, window.begin_s, end),
    }


def hours(power: PowerSeries, machine: Machine, cap: Cap, begin_s: float, end_s: float) -> Row:
    """Power between two instants against a cap that is one value there; figures of a cap None without one.

    ``over_w_mean`` and ``under_w_mean`` are means over time of what is above, and of what is left below.
    """
    watts, length = power.scope_w(machine.cap_scope)[:-1], np.diff(power.time_s)
    drawn_j = sum_of_products(watts, length)
    found: Row = {
        "power_w_mean": float(drawn_j / length.sum()),
        "power_w_max": float(watts.max(initial=0.0)),
        "power_w_quantiles": quantiles(watts, length, np.array(QUANTILES)).tolist(),
    }
    kept = cap_figures(power, machine, cap, begin_s, end_s)
    none: Row = dict.fromkeys(("cap_w", "over_share", "over_w_mean", "under_w_mean", "excess_w"))
    if kept.cap_over_s is None or kept.cap_over_j is None:
        return found | none
    limit = float(cap.at(np.array([begin_s]))[0])
    span = end_s - begin_s
    mean, over = float(drawn_j / span), kept.cap_over_j / span
    excess = kept.cap_overshoot_w or 0.0
    return found | {
        "cap_w": limit,
        "over_share": kept.cap_over_s / span,
        "over_w_mean": over,
        "under_w_mean": limit - mean + over,
        "excess_w": excess if excess > TOLERANCE_W else 0.0,
    }


def quantiles(values: Floats, weights: Floats, at: Floats) -> Floats:
    """The least value that holds for at least each share of the weight. Shapes: values, weights (k,); as ``at``."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    place = np.minimum(np.searchsorted(share, at - 1e-12), len(values) - 1)
    found: Floats = values[order][place]
    return found


def easy_cells(trace: Trace) -> list[PowercapCell]:
    """The baseline of each window."""
    return [PowercapCell(trace, w, EASY) for w in range(len(trace.windows))]
