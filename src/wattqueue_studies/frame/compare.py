"""Policies compared pair by pair on the same draws, corrected for the number of comparisons.

Student's paired test over the draws gives p for each metric of each pair. A study makes dozens of such tests, and of
forty without any effect two fall below 0.05: so p is corrected over all tests of a table by Holm's method, which keeps
the probability of a single false finding among them below 0.05 without assuming that they are independent.

Reference: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import Estimate, paired
from wattqueue.report.document import Table, Tabled
from wattqueue_studies.frame.samples import Samples, change

LEVEL = 0.05
"""Probability of a false finding in a table."""
NOT_SIGNIFICANT = "not significant"
NOT_COMPARABLE = "not comparable"
"""Verdict where jobs never ran in some draw (rule 18 of docs/semantics.md)."""
EXPLAINED = "n.s.: better on average, but not significantly."
"""Note of every table."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one metric between two policies.

    Attributes:
        size: Change with its 95 % interval, in per cent or in points.
        p: p of Student's paired test by itself; None where it cannot be tested (one draw, all draws alike).
        p_holm: p corrected for all tests of the table.
    """

    size: Estimate
    p: float | None
    p_holm: float | None = None

    @property
    def lower(self) -> bool:
        """Return whether the metric is lower, after the correction."""
        return self.size.mean < 0 and self.p_holm is not None and self.p_holm < LEVEL


@dataclass(frozen=True, slots=True)
class Compared:
    """A policy compared with a base in one setting; ``changes`` by metric, all of them better when lower."""

    setting: str
    policy: str
    base: str
    changes: Mapping[str, Change]

    def better(self, metrics: Sequence[str], smallest: float = 0.0) -> str:
        """Return whether all of ``metrics`` are lower: yes, no, not significant, not comparable.

        Not significant: lower, but one is not certain. Not comparable: jobs never ran. ``smallest`` is the change below
        which a difference counts as none.
        """
        found = [self.changes[m] for m in metrics]
        if any(np.isnan(c.size.mean) for c in found):
            return NOT_COMPARABLE
        if not all(c.size.mean < -smallest for c in found):
            return "no"
        return "yes" if all(c.lower for c in found) else NOT_SIGNIFICANT


def percent_change(own: Floats, base: Floats) -> Change:
    """Return the change of means in per cent, tested by the paired differences. Shapes (draws,)."""
    test = paired(base, own)
    return Change(change(own, base), test.p_t if test else None)


def points_change(own: Floats, base: Floats) -> Change:
    """Return the difference of means in the metric's unit, with the same test. Shapes (draws,)."""
    test = paired(base, own)
    return Change(test.difference, test.p_t) if test else Change(Estimate(1, float((own - base).mean())), None)


def compare(samples: Samples, pairs: Sequence[tuple[str, str]], metrics: Iterable[str]) -> list[Compared]:
    """Compare policies with bases, (policy, base), in each setting of the samples; not yet corrected."""
    return [
        Compared(s, own, base, {m: percent_change(*samples.pair(s, own, base, m)) for m in metrics})
        for s in samples.settings
        for own, base in pairs
    ]


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Return p corrected by Holm's method over all that exist; the order is kept, None stays None."""
    known = sorted((value, i) for i, value in enumerate(p) if value is not None and np.isfinite(value))
    found: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, i) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * value))
        found[i] = least
    return found


@dataclass(frozen=True, slots=True)
class ComparisonTable(Tabled):
    """Comparisons as one table.

    Attributes:
        rows: The comparisons, corrected.
        heads: Heading of each shown metric.
        judged: Metrics that decide whether a policy is better; the others are shown without p.
        title: Heading.
        smallest: Change below which a difference counts as none.
    """

    rows: Sequence[Compared]
    heads: Mapping[str, str]
    judged: Sequence[str]
    title: str
    smallest: float = 0.0

    @classmethod
    def of(
        cls,
        rows: Sequence[Compared],
        heads: Mapping[str, str],
        judged: Sequence[str],
        title: str,
        smallest: float = 0.0,
    ) -> ComparisonTable:
        """Return the comparisons, p corrected over all rows and the metrics that are ``judged``."""
        fixed = iter(holm([row.changes[m].p for row in rows for m in judged]))
        found = [
            replace(row, changes={**row.changes, **{m: replace(row.changes[m], p_holm=next(fixed)) for m in judged}})
            for row in rows
        ]
        return cls(found, heads, judged, title, smallest)

    def table(self) -> Table:
        """Return the comparisons as a table of text."""
        rows = [
            [
                f"{row.policy} over {row.base}" + (f", {row.setting}" if row.setting else ""),
                *(_cell(row.changes[m], tested=m in self.judged) for m in self.heads),
                row.better(self.judged, self.smallest).replace(NOT_SIGNIFICANT, "n.s."),
            ]
            for row in self.rows
        ]
        tests = sum(row.changes[m].p is not None for row in self.rows for m in self.judged)
        note = f"In brackets p of Student's paired test, corrected by Holm's method for {tests} tests. {EXPLAINED}"
        heads = ("comparison", *self.heads.values(), "better")
        return Table(heads, rows, self.title, note, words=(len(heads) - 1,))

    def document(self) -> list[dict[str, Any]]:
        """Return the rows for JSON."""
        return [
            {
                "setting": row.setting,
                "policy": row.policy,
                "base": row.base,
                "better": row.better(self.judged, self.smallest),
                **{
                    m: {
                        "change": c.size.mean if np.isfinite(c.size.mean) else None,  # of a base of 0
                        "low": c.size.low,
                        "high": c.size.high,
                        "p": c.p,
                        "p_holm": c.p_holm,
                    }
                    for m, c in row.changes.items()
                },
            }
            for row in self.rows
        ]


def _cell(found: Change, *, tested: bool) -> str:
    """Return a change with its corrected p where it is tested, in scientific notation below 0.001."""
    if np.isnan(found.size.mean):
        return "–"
    p = found.p_holm if tested else None
    shown = "" if p is None else f" ({p:.0e})" if p < 1e-3 else f" ({p:.3f})" if p < 0.9995 else " (1)"
    return f"{found.size.mean:+z.1f}{shown}"
