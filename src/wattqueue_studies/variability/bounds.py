"""What no policy can exceed, and what run times change: paper 2 publishes neither run times nor a bound.

Without any budget a job waits for sockets alone: no knowledge of watts can do better than that. Run times are not
published; the study takes the estimates, which jobs of the paper may have exceeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.frame.samples import Samples, change_percent, sweep
from wattqueue_studies.variability.knowledge import BASE
from wattqueue_studies.variability.trial import BUDGETS_W, COMMON, TRAFFICS, BudgetCase, Variant, cases

UNLIMITED_W = 1e9
"""A budget that never binds."""
SEED = 0
"""Draw of the sockets: without a budget, and where every socket counts 115 W, turnaround does not depend on it."""
STRETCHES = (1.0, 1.05, 1.09, 1.15)
"""Run times over the estimates; 1.09 was chosen because the printed figures come out with it."""
PUBLISHED = Variant("published", whole_nodes=True)
"""Backfilling of the published simulator and the allocation of the text."""
SHOWN = (BASE, "slurm-prvp", "slurm-vtp")
"""Policies whose savings the text prints."""


def bounds(found: Mapping[str, BudgetCase]) -> dict[str, float]:
    """Return by how much turnaround falls without a budget, over slurm-extended under the setting's, in per cent.

    Settings in which slurm-extended drops jobs are left out: those of their common jobs stand for them.
    """
    kept = {name: case for name, case in found.items() if f"{name}, {COMMON}" not in found}
    return {
        name: change_percent(_turnaround_s(replace(case, budget_w=UNLIMITED_W)), _turnaround_s(case))
        for name, case in kept.items()
    }


def bounds_table(found: Mapping[str, float]) -> Table:
    """Return the most that any policy can win, by setting."""
    rows = [[name, f"{value:+.1f}"] for name, value in found.items()]
    title = "The most that any policy can win: turnaround without a budget over slurm-extended (%)"
    return Table(("setting", "without a budget"), rows, title, "Jobs then wait for sockets alone.", key="bounds")


def stretched(folder: Path, seeds: int, threads: int) -> dict[float, Samples]:
    """Simulate slurm-extended, PRVP and VTP with run times over the estimates, by that factor."""
    return {
        stretch: sweep(
            BudgetCase.draw,
            cases(folder, TRAFFICS, BUDGETS_W, replace(PUBLISHED, stretch=stretch)),
            SHOWN,
            range(seeds),
            threads=threads,
        )
        for stretch in STRETCHES
    }


def stretch_table(found: Mapping[float, Samples], metrics: Mapping[str, tuple[str, str, str]]) -> Table:
    """Return printed figures (setting, policy, metric) by heading, for each factor of run times."""
    rows = [
        [f"{factor:g}", *(with_interval(estimate(samples.of(*of)), "+") for of in metrics.values())]
        for factor, samples in found.items()
    ]
    note = f"{PUBLISHED.says} 1.09 is fitted: it was chosen because the printed figures come out with it."
    title = "Turnaround and energy over slurm-extended by run times over the estimates (%)"
    return Table(("run times over\nthe estimates", *metrics), rows, title, note, key="stretch")


def _turnaround_s(case: BudgetCase) -> float:
    """Return the mean turnaround under slurm-extended."""
    return case.draw(SEED)(BASE)["turnaround_s"]
