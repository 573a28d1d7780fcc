"""The study: budgets by account or user, and users who choose a frugal clock, on the same windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.formats.read import read_workload
from wattqueue.model.budgets import Book
from wattqueue.model.jobs import Floats
from wattqueue.parts.controls.energy_budgets import EnergyBudgets
from wattqueue.policy.policy import load_policy
from wattqueue.report.compare.stats import FEWEST_DRAWS, Estimate, estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.sim.engine import Run, simulate
from wattqueue_studies.budgets.world import (
    AT_LEAST,
    HALF,
    NONE,
    BudgetDesign,
    BudgetWorkload,
    BudgetWorld,
    GeneratedUsers,
    RecordedWindows,
)
from wattqueue_studies.frame.changes import changes_pictures
from wattqueue_studies.frame.claim import Judged
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, Trial, TrialFigures, sweep
from wattqueue_studies.runtimes.study import RecordedTrace

TOLD = published("wattqueue_studies.budgets")
"""Design and what was expected (claims.toml)."""
BASE = "no budgets"
HOUR_S, KWH_J = 3_600.0, 3.6e6
WAIT, TURNAROUND, SAVER, OTHER = "wait_h", "turnaround_h", "saver_turnaround_h", "other_turnaround_h"
WINDOW, JOB, WORK, SPEED = "window_kwh", "job_kwh", "fair_work", "fair_speed"
KEPT, IDLE, FLOOR = "kept_percent", "idle_percent", "floor_percent"
MORE_IS_BETTER = {WORK, SPEED}
JUDGED = (
    "Paired by seed. Gain or loss: the 95 % interval lies on that side of 0; a tie includes it. Turnaround and wait in "
    "hours: less is a gain; fairness: more is."
)


@dataclass(frozen=True, slots=True)
class BudgetsStudy:
    """What energy budgets do, and what users gain who save.

    Attributes:
        design: What is drawn and simulated.
        traces: Recorded traces with their nodes.
        generated: Whether generated jobs are looked at.
        threads: Simulations at a time.
    """

    design: BudgetDesign
    traces: Sequence[RecordedTrace] = ()
    generated: bool = True
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate everything. Raises: InputError for a trace that cannot be used."""
        design = self.design
        cases: dict[str, BudgetWorkload] = {
            trace.name: RecordedWindows(read_workload(trace.path).jobs, trace.nodes) for trace in self.traces
        }
        if self.generated:
            cases["generated"] = GeneratedUsers()
        names = [named(budget, reacting) for budget in design.budgets for reacting in design.reacting]
        samples = sweep(
            lambda case, seed: trial(case.world(design, seed)), cases, names, range(1, design.seeds + 1),
            threads=self.threads, progress=progress,
        )  # fmt: skip
        return report(design, samples)


def named(budget: str, reacting: str) -> str:
    """Return the name of a scenario: a budget, and who chooses the frugal clock."""
    return f"{budget}, {reacting}"


def trial(world: BudgetWorld) -> Trial:
    """Return what simulates the scenarios of a world under EASY."""
    base = simulate(world.jobs, world.machine, load_policy("easy"))
    used_j = base.schedule.energy_j

    def simulated(name: str) -> TrialFigures:
        budget, _, reacting = name.rpartition(", ")
        stated = world.design.budgets[budget]
        control = EnergyBudgets(budgets=world.budgets(used_j, **stated) if stated else None)
        policy = load_policy("easy", controls=[control] if stated else None)
        run = simulate(world.reacted(reacting), world.machine, policy)
        return TrialFigures.of(run, {**figures(world, run), **book_figures(world, control.books)})

    return simulated


def figures(world: BudgetWorld, run: Run) -> dict[str, float]:
    """Return waits, energy and fairness of a run."""
    schedule, jobs = run.schedule, world.jobs
    wait_s, turnaround_s = schedule.start_s - jobs.submit_s, schedule.end_s - jobs.submit_s
    length_s = np.maximum(schedule.end_s - schedule.start_s, 1e-9)
    inside = np.clip(world.design.window_s - schedule.start_s, 0.0, length_s) / length_s
    half = world.half[jobs.user.codes]

    def fair(mine: Floats, whole: Floats) -> float:
        of_users = [np.bincount(jobs.user.codes, values) for values in (mine, whole)]
        there = of_users[1] > 0.0
        return jain(of_users[0][there] / of_users[1][there])

    return {
        WAIT: float(wait_s.mean()) / HOUR_S, TURNAROUND: float(turnaround_s.mean()) / HOUR_S,
        SAVER: float(turnaround_s[half].mean()) / HOUR_S, OTHER: float(turnaround_s[~half].mean()) / HOUR_S,
        WINDOW: float((schedule.energy_j * inside).sum()) / KWH_J, JOB: float(schedule.energy_j.sum()) / KWH_J,
        WORK: fair(world.work_s * inside, world.work_s), SPEED: fair(world.run_s, turnaround_s),
    }  # fmt: skip


def jain(shares: Floats) -> float:
    """Return Jain's index of fairness: 1 where all shares are alike, 1 / n where one has everything. Shape (n,).

    Reference: Jain, Chiu and Hawe, A quantitative measure of fairness, DEC-TR-301 (1984).
    """
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum()))


def book_figures(world: BudgetWorld, books: Sequence[Book]) -> dict[str, float]:
    """Return weeks kept, what was set aside and never used, and budgets at their least; nothing without budgets."""
    if not books:
        return {}
    kept = np.array([book.kept_periods(math.inf) for book in books])
    idle = [book.idle_share(0.0, world.design.window_s) for book in books]
    least = [book.budget.name.endswith(AT_LEAST) for book in books]
    return {
        KEPT: 100.0 * float(kept[:, 0].sum() / kept[:, 1].sum()), IDLE: 100.0 * float(np.mean(idle)),
        FLOOR: 100.0 * float(np.mean(least)),
    }  # fmt: skip


def report(design: BudgetDesign, samples: Samples) -> StudyReport:
    """Return tables, claims and figures."""
    found = TOLD.judge(samples)
    claims = replace(found, rows=[row if row.ours.n >= FEWEST_DRAWS else undecided(row) for row in found.rows])
    parts = [table(samples, setting) for setting in samples.settings]
    parts += [changes(samples, setting) for setting in samples.settings]
    parts.append(savers(design, samples))
    drawn = changes_pictures(
        samples, [(setting, named(BASE, NONE), setting) for setting in samples.settings], (TURNAROUND,), TOLD,
        samples.policies,
    )  # fmt: skip
    return TOLD.report(
        claims,
        about=f"{len(samples.settings)} workloads, {design.seeds} windows of {design.days:g} days each; EASY; a budget "
        f"of {design.share:.0%} of what was used for each {design.period_days:g} days.",
        lede=f"Expectations stated before the run: {claims.summary}.",
        parts=parts,
        figures={"results": samples.rows()},
        simulated=(samples,),
        drawn=drawn,
        origin="recorded traces with drawn watts, generated jobs",
    )


def undecided(row: Judged) -> Judged:
    """Return a claim of too few draws without its interval, so that it has no verdict."""
    return replace(row, ours=Estimate(row.ours.n, row.ours.mean))


def table(samples: Samples, setting: str) -> Table:
    """Return the figures of all scenarios of a workload with their intervals."""
    metrics = (WAIT, TURNAROUND, WINDOW, JOB, WORK, SPEED, KEPT, IDLE, FLOOR)
    digits = dict.fromkeys((WORK, SPEED), 3)

    def cell(policy: str, metric: str) -> str:
        if (setting, policy, metric) not in samples.values:
            return "–"
        return with_interval(estimate(samples.of(setting, policy, metric)), "", digits.get(metric, 1))

    rows = [(policy, *(cell(policy, metric) for metric in metrics)) for policy in samples.policies]
    return Table(("budgets, who saves", *(TOLD.labels[metric] for metric in metrics)), rows, setting)


def changes(samples: Samples, setting: str) -> Table:
    """Return what each scenario changes over no budgets and full clocks, in words, too."""
    base, metrics = named(BASE, NONE), (WAIT, TURNAROUND, WORK, SPEED)
    rows = [
        (policy, *(judged(samples, setting, policy, base, metric) for metric in metrics))
        for policy in samples.policies
        if policy != base
    ]
    heads = ("budgets, who saves", *(TOLD.labels[metric] for metric in metrics))
    return Table(heads, rows, f"Differences from no budgets and full clocks: {setting}", note=JUDGED)


def savers(design: BudgetDesign, samples: Samples) -> Table:
    """Return what those gain who save where half do, and what the others gain: over the same budgets and no savers."""
    rows = [
        (f"{setting}: {budget}", *(
            judged(samples, setting, named(budget, HALF), named(budget, NONE), metric) for metric in (SAVER, OTHER)
        ))
        for setting in samples.settings
        for budget in design.budgets
    ]  # fmt: skip
    heads = ("budgets", TOLD.labels[SAVER], TOLD.labels[OTHER])
    return Table(heads, rows, "Half of the users save, against none", note=JUDGED)


def judged(samples: Samples, setting: str, policy: str, base: str, metric: str) -> str:
    """Return the paired difference with its interval, and whether it is a gain, a loss or a tie."""
    own, other = samples.pair(setting, policy, base, metric)
    return worded(estimate(own - other), better=1 if metric in MORE_IS_BETTER else -1)


def worded(found: Estimate, better: int) -> str:
    """Return a difference in words; fewer draws than ``FEWEST_DRAWS`` have no verdict."""
    shown = with_interval(found, "+", 2)
    if np.isnan(found.mean) or found.side is None or found.n < FEWEST_DRAWS:
        return shown
    return f"{shown}, {'tie' if not found.side else 'gain' if found.side == better else 'loss'}"
