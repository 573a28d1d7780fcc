"""A published figure beside ours, and one rule that decides what the comparison shows.

**The rule.** Ours is a mean with its 95 % interval over the draws of the study. The published figure is a band:
published ± tolerance, by default half a unit (papers print whole numbers) plus a tenth of the figure. ``reference``
is the figure of "no effect": 0 for a change, none for a share or an error. The verdict depends on where the *whole*
interval lies:

1. **by construction** - the study was calibrated on the figure, or could not give another one.
2. **not comparable** - a fact that is stated with the claim forbids the comparison (generated watts have no errors).
3. **undecided** - one draw: its figure has no interval, and the sign of a single workload shows nothing.
4. **reproduced** - the interval lies within the band; **with a fitted constant** where the claim states one.
5. **same direction** - the interval lies beyond the reference on the side of the published figure, not within the band.
6. **not reproduced** - the interval lies outside the band.
7. **undecided** - anything else: the interval reaches out of the band and includes the reference.

A figure of "no effect" (published 0) has no side, so 5 does not apply. A claim without a figure ("improves") has a
direction only: *reproduced* beyond the reference on that side, *not reproduced* on the other, else *undecided*. A
figure that depends on no draw is compared as a point (``certain``).

**How claims are counted.** One figure or sentence of a paper is one claim, however many rows show it: rows that name
the same ``statement`` count once, with the least favourable of their verdicts (``WORST_FIRST``). Rows with a fitted
constant stand beside those without: where all of them agree and the others do not, the claim is *with a fitted
constant*. What holds by construction and what is not comparable confirms nothing: it is shown, and not counted.
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
    FITTED = "with a fitted constant"
    BY_CONSTRUCTION = "by construction"


WORST_FIRST = (
    Verdict.NOT_REPRODUCED,
    Verdict.UNDECIDED,
    Verdict.SAME_DIRECTION,
    Verdict.FITTED,
    Verdict.REPRODUCED,
)
"""Verdicts that count, the least favourable first: that of a claim with several rows."""
NOT_COUNTED = (Verdict.NOT_COMPARABLE, Verdict.BY_CONSTRUCTION)
"""Verdicts of claims that confirm nothing."""


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
        statement: The figure or sentence of the paper that the row belongs to; empty where it is a claim of its own.
        by_construction: Why ours could not differ (calibrated on it, or not able to fail); empty where it could.
        fitted: Which constant was chosen for its agreement with the paper; empty for none.
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
    statement: str = ""
    by_construction: str = ""
    fitted: str = ""
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
        if claim.by_construction:
            return Verdict.BY_CONSTRUCTION, claim.by_construction
        if claim.forbids:
            return Verdict.NOT_COMPARABLE, claim.forbids
        if self.certain:
            verdict, clause = _by_interval(claim, ours.mean, ours.mean)
        elif ours.low is None or ours.high is None:
            return Verdict.UNDECIDED, "too few draws for an interval"
        else:
            verdict, clause = _by_interval(claim, ours.low, ours.high)
        return (Verdict.FITTED, claim.fitted) if claim.fitted and verdict is Verdict.REPRODUCED else (verdict, clause)

    def document(self) -> dict[str, Any]:
        """Return the row for JSON."""
        claim, ours = self.claim, self.ours
        return {
            "key": claim.key,
            "claim": claim.text,
            "statement": claim.statement or None,
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
    """Return verdict and clause for our interval: where the whole of it lies (clauses 4 to 7)."""
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


def counted_as(rows: Sequence[Judged]) -> Verdict:
    """Return the verdict of a claim with some rows (the rule of this module)."""
    plain = [row.verdict for row in rows if not row.claim.fitted]
    fitted = [row.verdict for row in rows if row.claim.fitted]
    found = next((v for v in WORST_FIRST if v in plain), plain[0] if plain else fitted[0])
    agrees = fitted and set(fitted) == {Verdict.FITTED} and found is not Verdict.REPRODUCED
    return Verdict.FITTED if agrees else found


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
        count = Counter(verdict for _, verdict in self.counted())
        claims = sum(count[v] for v in WORST_FIRST)
        others = [f"{count[v]} {v.value}" for v in NOT_COUNTED if count[v]]
        found = ", ".join(f"{count[v]} {v.value}" for v in reversed(WORST_FIRST) if count[v])
        text = f"{claims} claim{'' if claims == 1 else 's'}" + (f": {found}" if found else "")
        return f"{text} (not counted: {', '.join(others)})" if others else text

    def counted(self) -> list[tuple[list[Judged], Verdict]]:
        """Return the rows of each claim with its verdict, as they count."""
        claims: dict[str, list[Judged]] = {}
        for row in self.rows:
            claims.setdefault(row.claim.statement or row.claim.key, []).append(row)
        return [(rows, counted_as(rows)) for rows in claims.values()]

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
            note=" ".join([f"{self.summary}. The rule of the verdicts is in docs/studies.md.", *self._together()]),
            below=[row.reason for row in self.rows],
            words=(0, 4),
            key="claims",
        )

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the table as lines of at most ``width`` characters, each reason below its row."""
        table = self.table()
        shown = [row.reason if row.verdict in {*NOT_COUNTED, Verdict.FITTED} or _told(row) else "" for row in self.rows]
        yield from replace(table, below=shown).lines(width)

    def document(self) -> list[dict[str, Any]]:
        """Return the rows for JSON."""
        return [row.document() for row in self.rows]

    def _together(self) -> list[str]:
        """Return a sentence for each claim that has several rows."""
        return [
            f'One claim, "{rows[0].claim.statement}" ({len(rows)} rows): {verdict.value}.'
            for rows, verdict in self.counted()
            if len(rows) > 1
        ]


def _told(row: Judged) -> bool:
    """Return whether something is known about the cause of a difference."""
    return row.verdict is not Verdict.REPRODUCED and bool(row.claim.finding)


def _digits(claim: Claim) -> int:
    """Return the digits behind the point: two for a pure number, such as a correlation, else one."""
    return 1 if claim.unit else 2


def _published(claim: Claim) -> str:
    """Return the published figure, signed where it is a change; a direction as a word."""
    if claim.published is None:
        return "below" if claim.direction < 0 else "above"
    sign = "+" if claim.reference is not None and claim.published else ""
    return f"{claim.published:{sign}g} {claim.unit}".strip()
