"""The study: part (a) against the papers, part (b) what each ingredient is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattqueue.report.document import Block
from wattqueue_studies.combined.ingredients import choices
from wattqueue_studies.combined.papers import (
    changes_table,
    compared,
    figures_table,
    pictures,
    shifted,
    verdict_table,
    verdicts,
)
from wattqueue_studies.combined.worth import pairs, simulated, single, worth_picture, worth_tables
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples

TOLD = published("wattqueue_studies.combined")
"""Metrics and rows of comparison, stated before the seeds were run (claims.toml)."""
SITE_DRAWS = 20
FIRST, DRAWS = 11, 30
"""First seed that is judged, and how many; options were fixed on seeds 1 to 10."""


@dataclass(frozen=True, slots=True)
class CombinedStudy:
    """``combined`` against the best row of each paper.

    Attributes:
        draws: Seeds of each paper's scenario.
        first: The first of them.
        site_draws: Seeds of the scenario in which all ingredients can act, from 1 on; 0 for none.
        threads: Simulations at a time.
    """

    draws: int = DRAWS
    first: int = FIRST
    site_draws: int = SITE_DRAWS
    threads: int = 2

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate and report. Raises: InputError for no seed."""
        seeds = range(self.first, self.first + self.draws)
        first = 2 * self.draws * len(TOLD.claims)
        whole = first + len(choices()) * self.site_draws
        papers = compared(TOLD.claims, seeds, self.threads, shifted(progress, 0, whole))
        own = range(1, self.site_draws + 1)
        site = simulated(own, self.threads, shifted(progress, first, whole)) if own else Samples({})
        return self.report(papers, site)

    def report(self, papers: Samples, site: Samples) -> StudyReport:
        """Return tables, pictures and claims."""
        judged = verdicts(TOLD.claims, papers)
        parts: list[Block] = [verdict_table(TOLD.claims, papers, TOLD), figures_table(TOLD.claims, papers)]
        parts.append(changes_table(TOLD.claims, papers))
        drawn = pictures(TOLD.claims, papers)
        figures: dict[str, Any] = {
            "generated": True, "first": self.first, "draws": self.draws, "site_draws": self.site_draws,
            "verdicts": judged, "papers": papers.rows(), "site": site.rows(),
        }  # fmt: skip
        about = f"Five scenarios, seeds {self.first} to {self.first + self.draws - 1} of each"
        if site.values:
            parts += worth_tables(site)
            drawn.append(worth_picture(site))
            figures["worth"] = [each.document() for each in (*single(site), *pairs(site))]
            about += f"; one site with all ingredients, {self.site_draws} seeds"
        return TOLD.report(
            TOLD.judge(papers), about=f"{about}.", lede=_lede(judged), parts=parts, figures=figures, drawn=drawn,
            simulated=[papers, site],
        )  # fmt: skip


def _lede(judged: Sequence[Mapping[str, Any]]) -> str:
    """Return what part (a) shows in a sentence or two."""
    kept, gained = (sum(bool(row[key]) for row in judged) for key in ("loss_excluded", "better"))
    worse = [row["scenario"] for row in judged if not row["no_worse"]]
    above = f"More time above the cap, or jobs that never ran: {', '.join(worse) or 'nowhere'}."
    of = len(judged)
    return f"A loss of more than 1 % is excluded in {kept} of {of} scenarios; combined is better in {gained}. {above}"
