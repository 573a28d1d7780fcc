"""The whole study of paper 1: choices, the check without scheduling, every simulation, and what they show.

In the paper the scheduler's tables are the truth; a second series with EASY draws a truth that differs from them.

Both readings of the backfilling in section 4.2.1 are simulated on the same workloads: conservative, which leads, and
EASY. A run takes 0.6 s by the first and 20 ms by the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wattqueue.report.document import Block, Table
from wattqueue.report.figure import Drawn
from wattqueue_studies.eamc.choices import (
    SHARES,
    energy_ratios,
    frequency_rows,
    partition_rows,
    threshold_rows,
)  # fmt: skip
from wattqueue_studies.eamc.cirne import CirneModel
from wattqueue_studies.eamc.extensions import extensions
from wattqueue_studies.eamc.misnamed import MisnamedResult, misnamed
from wattqueue_studies.eamc.spans import span_table, spans, with_trends
from wattqueue_studies.eamc.tables import (
    BY_BACKFILL,
    BY_ERROR,
    FIGURE_METRICS,
    TOLD,
    beside_table,
    choice_tables,
    figure_5,
    figure_table,
    ratio_table,
    threshold_table,
)
from wattqueue_studies.eamc.workloads import (
    CONSERVATIVE,
    Case,
    paper_cases,
    profiles_of,
    setting_names,
    systems,
    tables_from,
)
from wattqueue_studies.frame.changes import changes_pictures, result_rows
from wattqueue_studies.frame.compare import ComparisonTable
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples, sweep

EAMC = ("eamc-reorder", "eamc-priority-inc", "eamc-priority-inc-v")
"""The paper's variants of EAMC."""
READINGS = ("eamc-priority-inc-v-absolute", "eamc-priority-inc-v-code")
"""Further readings of the threshold."""
POLICIES = ("base-slurm", "min-runtime", "min-energy", *EAMC, *(f"{name}-1.5" for name in EAMC), *READINGS)
"""The paper's policies, both weights, then the readings."""
LEADING = ("base-slurm", "min-runtime", "min-energy", *EAMC, "eamc-priority-inc-v-1.5")
"""Those of the claims: with conservative backfilling, which takes thirty times as long, no others are simulated."""
BASES = ("base-slurm", "min-runtime", "min-energy", "eamc-priority-inc", "eamc-priority-inc-v")
"""Policies that others are compared with."""
FIGURES = (
    ("p1/p2, 13 %", "base-slurm", "Figure 3"),
    *((f"p1/p2, {share} %", "min-runtime", "Figure 4") for share in SHARES),
    ("p1/p3, 13 %", "min-runtime", "Figure 6"),
)
"""Workload, base and number of each figure of the paper."""
PARTITIONS = (("p1/p2", "p1"), ("p1/p2", "p2"), ("p1/p3", "p3"))
"""System in which each partition's frequencies are shown."""


ERROR = 0.05
"""By how much the truth differs from the tables in the second series with EASY."""


@dataclass(frozen=True, slots=True)
class PaperRuns:
    """The paper's policies on its workloads: by both readings of the backfilling, and where its tables have an error.

    Seeds begin at 0 in all.
    """

    conservative: Samples
    easy: Samples
    erred: Samples
    """With EASY, where the truth differs from the tables by ``ERROR``."""


@dataclass(frozen=True, slots=True)
class EamcStudy:
    """The study of paper 1, section 5.

    Attributes:
        coefficients: EAR's coefficients of p1 and p2 (CSV); None uses Table 1.
        apps: Metrics of the eight applications (CSV), given together with the coefficients.
        seeds: Workloads per setting with conservative backfilling.
        easy_seeds: Workloads per setting with EASY; also of what the paper does not have.
        threads: Simulations at a time.
        model: Parameters of the workloads, instead of the frozen ones.
        extended: Whether to add what the paper does not have.
    """

    coefficients: Path | None = None
    apps: Path | None = None
    seeds: int = 10
    easy_seeds: int = 30
    threads: int = 2
    model: CirneModel | None = None
    extended: bool = False

    def easy(self, error: float = 0.0) -> Samples:
        """Simulate both systems, three shares, all policies with EASY backfilling."""
        paper = paper_cases(systems(profiles_of(tables_from(self.coefficients, self.apps))), self.model)
        settings = {name: replace(case, error=error) for name, case in paper.items()}
        policies = LEADING if error else POLICIES
        return sweep(Case.draw, settings, policies, range(self.easy_seeds), threads=self.threads)

    def simulate(self, progress: Progress | None = None) -> PaperRuns:
        """Simulate in all three ways. Raises: InputError for files that cannot be used."""
        both = systems(profiles_of(tables_from(self.coefficients, self.apps)))
        settings = paper_cases(both, self.model, CONSERVATIVE)
        leading = sweep(Case.draw, settings, LEADING, range(self.seeds), threads=self.threads, progress=progress)
        return PaperRuns(leading, self.easy(), self.easy(ERROR))

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate, compare with the paper, and add what was asked for beyond it."""
        return self.report(self.simulate(progress))

    def report(self, simulated: PaperRuns) -> StudyReport:
        """Compare the simulations with the paper, and run what was asked for beyond it."""
        tables = tables_from(self.coefficients, self.apps)
        profiles = profiles_of(tables)
        both = systems(profiles)
        jobs = (self.model or CirneModel()).jobs
        found, easy, erred = (
            TOLD.judge(with_trends(s)) for s in (simulated.conservative, simulated.easy, simulated.erred)
        )
        seeds, threads, more = range(self.easy_seeds), self.threads, list[ComparisonTable]()
        checked: MisnamedResult | None = None
        varied: list[Table] = []
        if self.extended:
            varied.append(span_table(spans(both, range(self.seeds), threads=threads, model=self.model)))
            more.append(extensions(both, seeds, range(self.seeds), threads=threads, model=self.model))
            if tables is not None:
                checked = misnamed(both["p1/p2"], tables, seeds, threads=threads, model=self.model)
        figures: dict[str, Any] = {
            "source": profiles.source,
            "seeds": self.seeds,
            "easy_seeds": self.easy_seeds,
            "jobs": jobs,
            "frequencies": [r for system, p in PARTITIONS for r in frequency_rows(both[system], p)],
            "partitions": partition_rows(both["p1/p2"]),
            "energy_ratios": energy_ratios(both["p1/p2"]),
            "thresholds": {name: threshold_rows(system) for name, system in both.items()},
            "results": result_rows(simulated.conservative, BASES, TOLD, setting_names),
            "results_easy": result_rows(simulated.easy, BASES, TOLD, setting_names),
            "claims_easy": easy.document(),
            "claims_error": erred.document(),
            **({"comparisons": {table.title: table.document() for table in more}} if more else {}),
            **({"app_check": checked.document()} if checked else {}),
        }  # fmt: skip
        parts: list[Block] = [*choice_tables(figures), ratio_table(figures), threshold_table(figures)]
        parts += [figure_table(simulated.conservative, *figure) for figure in FIGURES]
        parts += [figure_table(simulated.easy, *figure[:2], f"EASY, {figure[2]}") for figure in FIGURES]
        means = f"{self.seeds} seeds with conservative backfilling, {self.easy_seeds} with EASY"
        return TOLD.report(
            found,
            about=f"{profiles.source}. {means}, of {jobs:,} generated jobs (form: Cirne; means: the text's).",
            lede=f"{len(POLICIES)} policies on four workloads. Conservative: {found.summary}. EASY: {easy.summary}; "
            f"where the tables have an error of {ERROR:.0%}: {erred.summary}.",
            parts=parts,
            more=[
                beside_table(BY_BACKFILL, list(found.rows), list(easy.rows)),
                beside_table(BY_ERROR, list(easy.rows), list(erred.rows)),
                *varied,
                *more,
                *((checked.comparisons, checked.found) if checked else ()),
            ],
            figures=figures,
            simulated=[simulated.conservative, simulated.easy, simulated.erred],
            drawn=pictures(simulated),
        )  # fmt: skip


def pictures(simulated: PaperRuns) -> Iterator[Drawn]:
    """Yield Figures 3 to 6: conservative backfilling, EASY below it."""
    for figure in FIGURES:
        if figure[2] == "Figure 6":
            yield from figure_5(simulated.conservative, simulated.easy, LEADING)
        yield from changes_pictures(
            simulated.conservative, [figure], FIGURE_METRICS, TOLD, LEADING, ("EASY", simulated.easy)
        )
