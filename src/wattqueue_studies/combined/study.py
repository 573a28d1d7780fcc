"""The study: part (a) against the papers, part (b) what each ingredient is worth."""

from __future__ import annotations

from dataclasses import dataclass

from wattqueue.report.document import Block
from wattqueue_studies.combined.papers import compared, figures_table, pictures, verdict_table, verdicts
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport

TOLD = published("wattqueue_studies.combined")
"""Metrics and rows of comparison, stated before the seeds were run (claims.toml)."""
FIRST, DRAWS = 11, 30
"""First seed that is judged, and how many; options were fixed on seeds 1 to 10."""


@dataclass(frozen=True, slots=True)
class CombinedStudy:
    """``combined`` against the best row of each paper.

    Attributes:
        draws: Seeds of each scenario.
        first: The first of them.
        threads: Simulations at a time.
    """

    draws: int = DRAWS
    first: int = FIRST
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate and report. Raises: InputError for no seed."""
        seeds = range(self.first, self.first + self.draws)
        samples = compared(TOLD.claims, seeds, self.threads, progress)
        judged = verdicts(TOLD.claims, samples)
        kept = sum(row["loss_excluded"] for row in judged)
        gained = sum(row["better"] for row in judged)
        worse = [row["scenario"] for row in judged if not row["no_worse"]]
        parts: list[Block] = [
            verdict_table(TOLD.claims, samples, TOLD),
            figures_table(TOLD.claims, samples),
        ]
        above = f"More time above the cap, or jobs that never ran: {', '.join(worse) or 'nowhere'}."
        return TOLD.report(
            TOLD.judge(samples),
            about=f"Five scenarios, seeds {self.first} to {self.first + self.draws - 1} of each.",
            lede=f"A loss of more than 1 % is excluded in {kept} of 5 scenarios, combined is better in {gained}. {above}",
            parts=parts,
            figures={"generated": True, "seeds": list(seeds), "verdicts": judged, "papers": samples.rows()},
            drawn=pictures(TOLD.claims, samples),
            simulated=[samples],
        )
