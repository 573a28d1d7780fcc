"""A published figure beside ours, and one rule that decides what the comparison shows.

**The rule.** Ours is a mean with its 95 % interval over the draws of the study. The published figure is a band:
published ± tolerance, by default half a unit (papers print whole numbers) plus a tenth of the figure. ``reference``
is the figure of "no effect": 0 for a change, none for a share or an error. The verdict depends on where the *whole*
interval lies:

1. **not comparable** - a fact that is stated with the claim forbids the comparison (the input was fitted to it).
2. **undecided** - one draw: its figure has no interval, and the sign of a single workload shows nothing.
3. **reproduced** - the interval lies within the band.
4. **same direction** - the interval lies beyond the reference on the side of the published figure, not within the band.
5. **not reproduced** - the interval lies outside the band.
6. **undecided** - anything else: the interval reaches out of the band and includes the reference.

A figure of "no effect" (published 0) has no side, so 4 does not apply. A claim without a figure ("improves") has a
direction only: *reproduced* beyond the reference on that side, *not reproduced* on the other, else *undecided*. A
figure that depends on no draw is compared as a point (``certain``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from wattqueue.report.compare.stats import Estimate, with_interval
from wattqueue.report.document import WIDTH, Table, Tabled

ROUNDING, TENTH = 0.5, 0.1
"""Default tolerance of a published figure: half a unit, and this share of the figure."""


class Verdict(Enum):
    """What a comparison with a published figure shows (the rule of this module)."""

    REPRODUCED = "reproduced"
    SAME_DIRECTION = "same direction"
    UNDECIDED = "undecided"
    NOT_REPRODUCED = "not reproduced"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says about one figure.

    Attributes:
        key: Unique within the study.
        text: The figure in words: what, of which policy, over which, on which workload.
        source: Figure, table or section of the paper.
        published: The printed figure; None where the text states a direction only.
        direction: -1 or 1 for a claim without a figure: ours should lie below or above the reference.
        unit: Unit of the figure.
        reference: The figure of "no effect"; None where there is none.
        tolerance: Half the width of the band; None for the default.
        forbids: Why the figure cannot be compared; empty where it can.
        finding: What is known about the cause of a difference; shown unless the figure is reproduced.
    """

    key: str
    text: str
    source: str
    published: float | None = None
    direction: int = 0
    unit: str = "%"
    reference: float | None = 0.0
    tolerance: float | None = None
    forbids: str = ""
    finding: str = ""

    @property
    def band(self) -> float:
        """Return the tolerance: the stated one, else half a unit and a tenth of the published figure."""
        return ROUNDING + TENTH * abs(self.published or 0.0) if self.tolerance is None else self.tolerance


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with our figure and the verdict.

    Attributes:
        claim: What the paper says.
        ours: Our figure with its interval.
        certain: Whether our figure depends on no draw, so that it needs no interval.
        more: Further figures for JSON, such as ours without a workload.
    """

    claim: Claim
    ours: Estimate
    certain: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """Return ours less the published figure; None where the text states a direction only, or ours is none."""
        if self.claim.published is None or math.isnan(self.ours.mean):
            return None
        return self.ours.mean - self.claim.published

    @property
    def verdict(self) -> Verdict:
        """Return the verdict by the rule of this module."""
        return self._judge()[0]

    @property
    def reason(self) -> str:
        """Return which clause of the rule decided, and what is known about the cause of a difference."""
        verdict, clause = self._judge()
        told = "" if verdict is Verdict.REPRODUCED else self.claim.finding
        return ". ".join(filter(None, (clause[:1].upper() + clause[1:], told)))

    def _judge(self) -> tuple[Verdict, str]:
        """Return verdict and clause."""
        claim, ours = self.claim, self.ours
        if claim.forbids:
            return Verdict.NOT_COMPARABLE, claim.forbids
        if self.certain:
            return _by_interval(claim, ours.mean, ours.mean)
        if ours.low is None or ours.high is None:
            return Verdict.UNDECIDED, "too few draws for an interval"
        return _by_interval(claim, ours.low, ours.high)

    def document(self) -> dict[str, Any]:
        """Return the row for JSON."""
        claim, ours = self.claim, self.ours
        return {
            "key": claim.key,
            "claim": claim.text,
            "source": claim.source,
            "unit": claim.unit,
            "published": claim.published,
            "direction": claim.direction or None,
            "tolerance": None if claim.published is None else claim.band,
            **known(ours),
            "draws": None if self.certain else ours.n,
            "difference": self.difference,
            "verdict": self.verdict.value,
            "reason": self.reason,
            **self.more,
        }


def known(ours: Estimate) -> dict[str, float | None]:
    """Return a figure with its interval for JSON; None where there is none."""
    ends = {"ours": ours.mean, "low": ours.low, "high": ours.high}
    return {name: None if v is None or math.isnan(v) else v for name, v in ends.items()}


def _by_interval(claim: Claim, low: float, high: float) -> tuple[Verdict, str]:
    """Return verdict and clause for our interval: where the whole of it lies (clauses 3 to 6)."""
    reference = claim.reference or 0.0
    if claim.published is None:
        toward, away = (
            (low > reference, high < reference) if claim.direction > 0 else (high < reference, low > reference)
        )
        if toward or away:
            return (Verdict.REPRODUCED, "on this side") if toward else (Verdict.NOT_REPRODUCED, "on the other side")
        return Verdict.UNDECIDED, "the interval includes both signs"
    near = f"±{claim.band:.2g} of the published figure"
    if abs(low - claim.published) <= claim.band and abs(high - claim.published) <= claim.band:
        return Verdict.REPRODUCED, f"within {near}"
    sided = claim.reference is not None and (low > reference < claim.published or high < reference > claim.published)
    if sided:
        return Verdict.SAME_DIRECTION, f"not within {near}"
    if low > claim.published + claim.band or high < claim.published - claim.band:
        return Verdict.NOT_REPRODUCED, f"outside {near}" + (", not on its side" if claim.reference is not None else "")
    return Verdict.UNDECIDED, f"partly within {near}: too wide to decide"


@dataclass(frozen=True, slots=True)
class ClaimTable(Tabled):
    """All claims of a study: the one table of published figures beside ours.

    Attributes:
        rows: Claims with our figures.
        draws: What the intervals are over, such as "seeds".
        title: Heading.
    """

    rows: Sequence[Judged]
    draws: str
    title: str = "Published figures beside ours"

    @property
    def summary(self) -> str:
        """Return how many claims have each verdict, in one sentence."""
        if not self.rows:
            return "No published figure belongs to these settings"
        count = Counter(row.verdict for row in self.rows)
        return f"{len(self.rows)} published figures: " + ", ".join(f"{count[v]} {v.value}" for v in Verdict if count[v])

    def table(self) -> Table:
        """Return the claims as a table of text."""
        rows = [
            [
                f"{row.claim.text} ({row.claim.source})",
                _published(row.claim),
                with_interval(row.ours, "" if row.claim.reference is None else "+", _digits(row.claim)),
                "–" if row.difference is None else f"{row.difference:+z.{_digits(row.claim)}f}",
                row.verdict.value,
            ]
            for row in self.rows
        ]
        return Table(
            ("claim", "paper", "ours", "diff.", "verdict"),
            rows,
            title=f"{self.title} (± or [ ]: 95 % interval over {self.draws})",
            note=f"{self.summary}. The rule of the verdicts is in docs/studies.md.",
            below=[row.reason for row in self.rows],
            words=(0, 4),
            key="claims",
        )

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the table as lines of at most ``width`` characters, each reason below its row."""
        table = self.table()
        shown = [
            row.reason if row.verdict is not Verdict.REPRODUCED and row.claim.finding + row.claim.forbids else ""
            for row in self.rows
        ]
        yield from replace(table, below=shown).lines(width)

    def document(self) -> list[dict[str, Any]]:
        """Return the rows for JSON."""
        return [row.document() for row in self.rows]


def _digits(claim: Claim) -> int:
    """Return the digits behind the point: two for a pure number, such as a correlation, else one."""
    return 1 if claim.unit else 2


def _published(claim: Claim) -> str:
    """Return the published figure, signed where it is a change; a direction as a word."""
    if claim.published is None:
        return "below" if claim.direction < 0 else "above"
    sign = "+" if claim.reference is not None and claim.published else ""
    return f"{claim.published:{sign}g} {claim.unit}".strip()
