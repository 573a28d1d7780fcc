"""What a study returns: a document with its claims, and its figures for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wattqueue.report.document import Block, Document, Figures
from wattqueue.report.figure import Drawn
from wattqueue.version import SCHEMA_VERSION, __version__
from wattqueue_studies.frame.claim import ClaimTable
from wattqueue_studies.frame.samples import Progress

__all__ = ["Progress", "Study", "StudyReport"]


@dataclass(frozen=True, kw_only=True)
class StudyReport(Document):
    """A finished study.

    Attributes:
        name: Name of the study, as in ``wattqueue study NAME``.
        claims: Published figures beside ours.
        figures: The study's own figures for JSON.
    """

    name: str
    claims: ClaimTable
    figures: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        name: str,
        head: tuple[str, str],
        about: str,
        lede: str,
        claims: ClaimTable,
        parts: Sequence[Block],
        figures: Mapping[str, Any],
        *,
        drawn: Iterable[Drawn] = (),
        origin: str = "generated workload",
    ) -> StudyReport:
        """Return the report of a study; on the page its pictures and claims come before the other parts.

        Args:
            name: Name of the study.
            head: Heading, and the paper with its sections.
            about: Machine, workload and draws, in one or two sentences.
            lede: The result in one sentence.
            claims: Published figures beside ours.
            parts: All parts in the order of the text.
            figures: The study's own figures for JSON.
            drawn: Pictures of the page.
            origin: Where the data come from, as the page says it beside the paper.
        """
        title, paper = head
        return cls(
            title=title,
            eyebrow=f"{paper}  ·  {origin}",
            lede=lede,
            blocks=[Figures([*drawn]), claims, *(part for part in parts if part is not claims)],
            text=[f"{paper}: {about}", *(shown for part in parts for shown in ("", part))],
            links=(("claims", "Claims"), ("notes", "Notes")),
            name=name,
            claims=claims,
            figures=figures,
        )

    def document(self) -> dict[str, Any]:
        """Return the study's figures and its claims for JSON."""
        head = {"schema_version": SCHEMA_VERSION, "wattqueue": __version__, "study": self.name}
        return {**head, **self.figures, "claims": self.claims.document()}


class Study(Protocol):
    """A study: a frozen dataclass of its options (machine, workload, draws), which runs and reports.

    Example: ``EamcStudy(seeds=5).run().html()``.
    """

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Run everything and compare with the paper; ``progress`` is called with (finished, all) runs.

        Raises: WattQueueError for options or files that cannot be used, before long work where possible.
        """
        ...
