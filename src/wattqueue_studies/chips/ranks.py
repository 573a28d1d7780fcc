"""Rank correlations between applications on the same chips, and what choosing chips by a rank saves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import Estimate
from wattqueue_studies.chips.chip_runs import HALVES, ChipPair
from wattqueue_studies.frame.samples import resampled

SHARES = (0.25, 0.5, 0.75)
"""Shares of the chips that are chosen."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """A rank correlation.

    Attributes:
        apps: The two applications.
        quantities: The quantity of each.
        raw: Spearman's rank correlation of the medians.
        corrected: The same without the noise of the runs.
        reliability: Reliability of both medians.
    """

    apps: tuple[str, str]
    quantities: tuple[str, str]
    raw: Estimate
    corrected: Estimate
    reliability: tuple[float, float]


@dataclass(frozen=True, slots=True)
class SavingRow:
    """What a choice of chips saves over all chips.

    Attributes:
        app: Application that runs on them.
        quantity: What is saved, watts or time.
        share: Share of the chips that are taken.
        rank: What they are ranked by.
        saved: Saving in per cent of the mean over all chips, on runs that had no part in the rank.
    """

    app: str
    quantity: str
    share: float
    rank: str
    saved: Estimate


def spearman(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; 0 where one of them is constant. Shapes (n,)."""
    from scipy.stats import rankdata

    x, y = rankdata(a), rankdata(b)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else 0.0


def reliability(even: Floats, odd: Floats) -> float:
    """Return the reliability of medians over all runs, from those over even and odd ones (Spearman and Brown).

    A correlation of halves that is not positive leaves nothing to correct by: 0.
    """
    half = spearman(even, odd)
    return 2.0 * half / (1.0 + half) if half > 0 else 0.0


def rank_rows(pair: ChipPair) -> Iterator[RankRow]:
    """Yield the rank correlations of a pair for all combinations of watts and time."""
    for quantities in product(pair.known(0), pair.known(1)):
        found = _Correlation(*([pair.column(app, q, half) for half in HALVES] for app, q in enumerate(quantities)))
        flat = pair.flat
        both = found.reliabilities(flat)
        without = resampled(flat, found.corrected) if pair.repeated else Estimate(len(flat), float("nan"))
        yield RankRow(pair.apps, quantities, resampled(flat, found.raw), without, both)


@dataclass(frozen=True, slots=True)
class _Correlation:
    """Rank correlation of two quantities, given by their columns over all, even and odd runs."""

    first: list[int]
    second: list[int]

    def raw(self, rows: Floats) -> float:
        """Return the correlation of the medians over all runs."""
        return spearman(rows[:, self.first[0]], rows[:, self.second[0]])

    def reliabilities(self, rows: Floats) -> tuple[float, float]:
        """Return the reliability of both medians."""
        a, b = (reliability(rows[:, c[1]], rows[:, c[2]]) for c in (self.first, self.second))
        return a, b

    def corrected(self, rows: Floats) -> float:
        """Return the correlation without the noise of the runs, within -1 and 1; 0 where nothing is reliable."""
        a, b = self.reliabilities(rows)
        return float(np.clip(self.raw(rows) / np.sqrt(a * b), -1.0, 1.0)) if a * b > 0 else 0.0


def saving_rows(pair: ChipPair) -> Iterator[SavingRow]:
    """Yield what each rank saves for each application of a pair, in watts and in time."""
    for app in (0, 1):
        other = 1 - app
        for quantity in pair.known(app):
            own = {f"own {quantity}": pair.column(app, quantity, "even")} if pair.repeated else {}
            ranks = own | {f"{q} of {pair.apps[other]}": pair.column(other, q) for q in pair.known(other)}
            scored = pair.column(app, quantity, "odd")
            for share in SHARES:
                for name, column in ranks.items():

                    def saved(rows: Floats, column: int = column, scored: int = scored, share: float = share) -> float:
                        chosen = np.argsort(rows[:, column], kind="stable")[: max(1, round(share * len(rows)))]
                        return float(100.0 * (1.0 - rows[chosen, scored].mean() / rows[:, scored].mean()))

                    yield SavingRow(pair.apps[app], quantity, share, name, resampled(pair.flat, saved))
