"""The study of paper 2, section 4.4: six policies under five budgets on sockets that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.policy.oracles import marked_policy
from wattqueue.report.document import Block
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, sweep
from wattqueue_studies.variability.bounds import bounds, bounds_table, stretch_table, stretched
from wattqueue_studies.variability.knowledge import BASE, ORACLE, POLICIES
from wattqueue_studies.variability.power_over_time import BUDGET_W, TRAFFIC, PowerOverTime
from wattqueue_studies.variability.tables import idle_metric, idle_tables, pictures, tables
from wattqueue_studies.variability.trial import (
    BUDGETS_W,
    COMMON,
    SOCKETS,
    TRAFFICS,
    BudgetCase,
    Variant,
    cases,
    machine,
    setting,
)

TOLD = published("wattqueue_studies.variability")
"""What the paper prints (claims.toml)."""
EVERY = "all budgets"
"""Setting of means over both traffics and all budgets, those with dropped jobs by the common jobs."""
RELATIVE = {
    "turnaround_change_percent": ("turnaround_s", BASE),
    "energy_change_percent": ("energy_j", BASE),
    "turnaround_over_vtp_percent": ("turnaround_s", "slurm-vtp"),
    "turnaround_over_ivp_percent": ("turnaround_s", ORACLE),
    "energy_over_vtp_percent": ("energy_j", "slurm-vtp"),
}
"""Changes in per cent, draw by draw: of which metric, over which policy."""
STRETCHED = {
    "bursty, 20 kW\n(paper -15)": ("bursty, 20 kW", "slurm-vtp", "turnaround_change_percent"),
    "bursty, 5 kW\n(paper -31)": (f"bursty, 5 kW, {COMMON}", "slurm-vtp", "turnaround_change_percent"),
    "average, VTP\n(paper -25)": (EVERY, "slurm-vtp", "turnaround_change_percent"),
    "average, PRVP\n(paper -25)": (EVERY, "slurm-prvp", "turnaround_change_percent"),
    "energy, VTP\n(paper -3)": (EVERY, "slurm-vtp", "energy_change_percent"),
}
"""Printed figures that are shown by run times."""
GROWING = ("turnaround_change_percent", "energy_change_percent")


@dataclass(frozen=True, slots=True)
class VariabilityStudy:
    """The study of paper 2, section 4.4.

    Attributes:
        folder: Has the traffics, traffic_bursty.csv and traffic_heavy.csv.
        seeds: Draws of the sockets.
        budgets_w: Budgets; figures over all budgets are shown for the paper's five alone.
        traffics: Traffics.
        threads: Simulations at a time.
        variant: Units and backfill.
        idle_w: Watts of an idle socket, for the energy of the machine; the budget does not cover them.
        extensions: Draws on which run times are varied; 0 for none.
    """

    folder: Path
    seeds: int = 30
    budgets_w: tuple[float, ...] = BUDGETS_W
    traffics: tuple[str, ...] = TRAFFICS
    threads: int = 2
    variant: Variant = SOCKETS
    idle_w: tuple[float, ...] = (10.0, 20.0, 30.0)
    extensions: int = 0

    def cases(self) -> dict[str, BudgetCase]:
        """Return what is simulated, by name.

        Raises: InputError for a budget that is not above 0, idle watts below 0, and a traffic that cannot be used.
        """
        if not self.budgets_w or not all(b > 0 and np.isfinite(b) for b in self.budgets_w):
            raise InputError("a budget is not above 0", where="--budget", hint="in kW, such as 7.5")
        if not all(0 <= w < np.inf for w in self.idle_w):
            raise InputError("idle watts are not 0 or more", where="--idle", hint="of one socket, such as 20")
        return cases(self.folder, self.traffics, tuple(dict.fromkeys(self.budgets_w)), self.variant)

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Simulate every policy on every draw.

        Raises: InputError for no seed, and as ``cases``.
        """
        seeds = range(self.seeds)
        return sweep(BudgetCase.draw, self.cases(), POLICIES, seeds, threads=self.threads, progress=progress)

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate and compare with the paper."""
        simulated = self.simulate(progress)
        at = self.cases().get(setting(TRAFFIC, BUDGET_W))
        more = stretched(self.folder, self.extensions, self.threads) if self.extensions else {}
        return self.report(simulated, None if at is None else PowerOverTime.of(at), more)

    def report(
        self, simulated: Samples, over_time: PowerOverTime | None = None, varied: Mapping[float, Samples] | None = None
    ) -> StudyReport:
        """Return tables, pictures and claims; Figure 1 where its budget was simulated."""
        samples = derived(simulated, self.idle_w)
        whole = set(samples.settings)
        found = replace(TOLD, claims=[c for c in TOLD.claims if set(c.on) <= whole]).judge(samples)
        parts: list[Block] = [*tables(samples, TOLD.labels), *idle_tables(samples, self.idle_w)]
        most = bounds(self.cases())
        parts.append(bounds_table(most))
        if varied:
            parts.append(stretch_table({factor: derived(each) for factor, each in varied.items()}, STRETCHED))
        drawn = [*pictures(samples, TOLD.labels)]
        if over_time is not None:
            parts, drawn = [over_time.table(), *parts], [over_time.picture(), *drawn]
        figures: dict[str, Any] = {
            "generated": True,
            "seeds": self.seeds,
            "sockets": machine().units,
            "oracles": [ORACLE],
            "backfill": self.variant.backfill,
            "whole_nodes": self.variant.whole_nodes,
            "rapl": self.variant.rapl,
            "idle_w": list(self.idle_w),
            "stretch": self.variant.stretch,
            "without_budget_percent": most,
            "figure_1": None if over_time is None else over_time.document(),
            "results": samples.rows(),
        }
        runs = len(simulated.settings) * len(POLICIES) * self.seeds * (2 if self.variant.rapl else 1)
        return TOLD.report(
            found,
            about=(
                f"{runs:,} simulations: {self.seeds} seeds of {machine().units} generated sockets, the paper's traffic "
                f"({' and '.join(self.traffics)}) with generated watts. {self.variant.says} "
                f"{marked_policy(ORACLE)} reads the truth."
            ),
            lede=f"Ten policies on **generated** sockets. {found.summary}.",
            parts=parts,
            figures=figures,
            simulated=[samples],
            drawn=drawn,
        )


def derived(samples: Samples, idle_w: tuple[float, ...] = ()) -> Samples:
    """Return the metrics with changes over other policies, and means over all of the paper's budgets if they were run.

    The energy of the machine is that of the jobs and of idle sockets: as the budget covers running jobs alone, no
    schedule depends on idle watts. The growth of a saving is its change at the least budget less that at the greatest,
    in points, and so is what bursty traffic saves less what heavy traffic does.
    """
    values = dict(samples.values)
    relative = {name: pair for name, pair in RELATIVE.items() if pair[1] in samples.policies}
    for watts in idle_w:
        name = idle_metric(watts)
        relative[f"{name}_change_percent"] = (name, BASE)
        for where, policy, metric in samples.values:
            if metric == "idle_socket_s":
                idle_j = watts * samples.of(where, policy, metric)
                values[where, policy, name] = samples.of(where, policy, "energy_j") + idle_j
    found = samples.with_values(dict(values))
    for where, policy, metric in found.values:
        for name, (of, base) in relative.items():
            if metric == of:
                own, other = found.pair(where, policy, base, of)
                values[where, policy, name] = 100.0 * (own / other - 1.0)
    main = {(t, b): compared(samples, t, b) for t in TRAFFICS for b in BUDGETS_W}
    if not set(main.values()) <= set(samples.settings):
        return samples.with_values(values)
    means: dict[tuple[str, str, str], Floats] = {}
    for policy in samples.policies:
        for name in dict.fromkeys(m for s, p, m in values if p == policy):
            means[EVERY, policy, name] = np.mean([values[s, policy, name] for s in main.values()], axis=0)
        by_traffic = [np.mean([values[main[t, b], policy, GROWING[0]] for b in BUDGETS_W], axis=0) for t in TRAFFICS]
        means[EVERY, policy, "turnaround_traffics_points"] = by_traffic[0] - by_traffic[1]
        for traffic in TRAFFICS:
            ends = [main[traffic, b] for b in (BUDGETS_W[0], BUDGETS_W[-1])]
            for name in GROWING:
                low, high = (values[s, policy, name] for s in ends)
                means[traffic, policy, f"{name}_growth"] = low - high
            full = [values[main[traffic, b], policy, "full_percent"] for b in BUDGETS_W]
            means[traffic, policy, "full_percent"] = np.mean(full, axis=0)
    return samples.with_values({**values, **means})


def compared(samples: Samples, traffic: str, budget_w: float) -> str:
    """Return the setting that counts for a traffic and a budget: that of the common jobs where jobs are dropped."""
    name = setting(traffic, budget_w)
    return common if (common := f"{name}, {COMMON}") in samples.settings else name
