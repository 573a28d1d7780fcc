"""What a study returns: its parts in the order of reading, shown as text, as one HTML page and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wattqueue.report.document import Drawn, findings
from wattqueue.study.frame.claim import ClaimTable
from wattqueue.study.frame.samples import Progress
from wattqueue.study.frame.table import WIDTH, wrapped
from wattqueue.version import SCHEMA_VERSION, __version__

__all__ = ["Part", "Progress", "Study", "StudyReport"]


class Part(Protocol):
    """A part of a report: a table, claims, comparisons, or paragraphs."""

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the part as lines of at most ``width`` characters."""
        ...

    def markdown(self) -> Iterator[str]:
        """Yield the part as Markdown under a heading of the second level."""
        ...

    def html(self) -> str:
        """Return the part as a card of the page."""
        ...


@dataclass(frozen=True, slots=True)
class StudyReport:
    """A finished study.

    Attributes:
        name: Name of the study, as in ``wattqueue study NAME``.
        title: Heading of the page.
        paper: The paper and its sections.
        about: Machine, workload and draws, in one or two sentences.
        lede: The result in one sentence (HTML).
        claims: Published figures beside ours.
        parts: All parts in the order of the text; ``claims`` is one of them.
        figures: The study's own figures for JSON.
        drawn: Pictures of the page.
        origin: Where the data come from, as the page says it beside the paper.
    """

    name: str
    title: str
    paper: str
    about: str
    lede: str
    claims: ClaimTable
    parts: Sequence[Part]
    figures: Mapping[str, Any]
    drawn: Sequence[Drawn] = ()
    origin: str = "generated workload"

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the whole report as lines of at most ``width`` characters."""
        yield from wrapped(f"{self.paper}: {self.about}", width)
        for part in self.parts:
            yield ""
            yield from part.lines(width)

    def markdown(self) -> Iterator[str]:
        """Yield the whole report as Markdown lines."""
        yield from (f"# {self.title}", "", f"{self.paper}: {self.about}")
        for part in self.parts:
            yield ""
            yield from part.markdown()

    def html(self) -> str:
        """Return one self-contained page: pictures, claims, then the other parts."""
        others = [part.html() for part in self.parts if part is not self.claims]
        return findings(
            title=self.title,
            eyebrow=f"{self.paper}  ·  {self.origin}",
            lede=self.lede,
            drawn=self.drawn,
            cards=[self.claims.html(), *others],
            links=(("claims", "Claims"), ("notes", "Notes")),
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON of ``--json``: the study's figures and its claims."""
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
