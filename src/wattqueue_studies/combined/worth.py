"""Part (b): what each ingredient is worth alone, and beside all others; which help and harm each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue_studies.combined.ingredients import ALL, BASE, INGREDIENTS, SiteDraw, choices, name_of
from wattqueue_studies.frame.compare import LEVEL, Change, holm, percent_change
from wattqueue_studies.frame.figures import points
from wattqueue_studies.frame.samples import Progress, Samples, Trial, sweep

SETTING = "one site"
FIGURES: Mapping[str, tuple[str, float]] = {
    "energy_j": ("energy (MWh)", 3.6e9),
    "wait_s": ("wait (h)", 3_600.0),
    "wait_p99_s": ("p99 wait (h)", 3_600.0),
    "slowdown": ("slowdown", 1.0),
    "over_s": ("above cap (min)", 60.0),
    "never_ran": ("never ran", 1.0),
    "bill_eur": ("bill (EUR)", 1.0),
    "carbon_kg": ("CO2 (kg)", 1.0),
    "consent_node_h": ("delay by consent (node-h)", 1.0),
}
"""Figures of a row with their headings and units."""
TESTED = ("energy_j", "wait_s", "wait_p99_s", "slowdown", "bill_eur", "carbon_kg")
"""Figures whose changes are tested; the others may be 0."""
PAIRED = ("wait_s", "energy_j")
"""Figures by which two ingredients are judged together."""


def simulated(seeds: Sequence[int], threads: int, progress: Progress | None) -> Samples:
    """Simulate all rows on the draws of the scenario."""

    def draw(_: None, seed: int) -> Trial:
        return SiteDraw(seed).world().trial

    return sweep(draw, {SETTING: None}, tuple(choices()), seeds, threads=threads, progress=progress)


@dataclass(frozen=True, slots=True)
class Worth:
    """The change of a figure by an ingredient, or by one beside another.

    Attributes:
        what: The ingredient, or two.
        where: ``alone``: over the base; ``in all``: over all others; ``pair``: over the better one of two.
        metric: The figure.
        change: Its change in per cent, p corrected by Holm's method over all changes of its table.
    """

    what: str
    where: str
    metric: str
    change: Change

    @property
    def sure(self) -> bool:
        """Return whether the change is significant."""
        return self.change.p_holm is not None and self.change.p_holm < LEVEL

    def document(self) -> dict[str, Any]:
        """Return the row for JSON."""
        size = {
            key: value if value is None or np.isfinite(value) else None
            for key, value in self.change.size.document().items()
        }
        head = {"ingredient": self.what, "where": self.where, "metric": self.metric}
        return {**head, **size, "p": self.change.p, "p_holm": self.change.p_holm}


def _corrected(found: Sequence[Worth]) -> list[Worth]:
    """Return changes with p corrected over all of them."""
    fixed = holm([each.change.p for each in found])
    return [replace(each, change=replace(each.change, p_holm=p)) for each, p in zip(found, fixed, strict=True)]


def single(samples: Samples) -> list[Worth]:
    """Return what each ingredient changes alone, and beside all others."""

    def rows() -> Iterator[Worth]:
        every = frozenset(INGREDIENTS)
        for each in INGREDIENTS:
            for where, own, base in (("alone", each, BASE), ("in all", ALL, name_of(every - {each}))):
                for metric in TESTED:
                    yield Worth(each, where, metric, percent_change(*samples.pair(SETTING, own, base, metric)))

    return _corrected(list(rows()))


def pairs(samples: Samples) -> list[Worth]:
    """Return what two ingredients together change over the better one of the two."""

    def rows() -> Iterator[Worth]:
        for two in combinations(INGREDIENTS, 2):
            for metric in PAIRED:
                best = min(two, key=lambda each: float(samples.of(SETTING, each, metric).mean()))
                own = name_of(frozenset(two))
                yield Worth(own, "pair", metric, percent_change(*samples.pair(SETTING, own, best, metric)))

    return _corrected(list(rows()))


def _means(samples: Samples) -> Table:
    """Return the means of all figures, row by row, without the pairs."""
    shown = [name for name, chosen in choices().items() if len(chosen) != 2]
    rows = [
        [name, *(f"{float(samples.of(SETTING, name, m).mean()) / unit:,.4g}" for m, (_, unit) in FIGURES.items())]
        for name in shown
    ]
    note = "Delay by consent: node-hours by which jobs that consent end later than if nobody did, under the same row."
    return Table(("row", *(head for head, _ in FIGURES.values())), rows, "One site: each ingredient", note)


def _cell(found: Worth) -> str:
    """Return a change, with a star where it is significant."""
    size = found.change.size.mean
    return "–" if np.isnan(size) else f"{size:+.1f}{'*' if found.sure else ''}"


def _worth(found: Sequence[Worth]) -> Table:
    """Return the changes by each ingredient, alone and beside all others."""
    cells = {(w.what, w.where, w.metric): _cell(w) for w in found}
    rows = [
        [f"{each}, {where}", *(cells[each, where, metric] for metric in TESTED)]
        for each in INGREDIENTS
        for where in ("alone", "in all")
    ]
    note = (
        "Per cent. Alone: over the base; in all: over all others without it. A star: p of Student's paired test below "
        f"{LEVEL:g}, corrected by Holm's method for {len(found)} tests."
    )
    return Table(("ingredient", *(FIGURES[m][0].partition(" (")[0] for m in TESTED)), rows, "What it changes", note)


def _pairs(found: Sequence[Worth]) -> Table:
    """Return the pairs that help or harm each other."""
    verdict: Callable[[Worth], str] = lambda w: "help" if w.change.size.mean < 0 else "harm"  # noqa: E731
    sure = sorted((w for w in found if w.sure), key=lambda w: (w.metric != PAIRED[0], w.change.size.mean))
    rows = [[w.what, FIGURES[w.metric][0].partition(" (")[0], f"{w.change.size.mean:+.1f}", verdict(w)] for w in sure]
    note = (
        "Change over the better one of the two alone, per cent; those that are significant after Holm's correction for "
        f"{len(found)} tests."
    )
    return Table(
        ("two ingredients", "figure", "change", "verdict"), rows, "Which help, and harm, each other", note, words=(1, 3)
    )


def worth_tables(samples: Samples) -> list[Table]:
    """Return the tables of part (b)."""
    return [_means(samples), _worth(single(samples)), _pairs(pairs(samples))]


def worth_picture(samples: Samples) -> Drawn:
    """Return mean wait against energy, for each ingredient alone and left out."""

    def at(name: str) -> tuple[float, float]:
        means = [float(samples.of(SETTING, name, m).mean()) / FIGURES[m][1] for m in ("energy_j", "wait_s")]
        return means[0], means[1]

    every = frozenset(INGREDIENTS)
    families = {
        "base, and one more": {name: at(name) for name in (BASE, *INGREDIENTS)},
        "all, and one less": {name: at(name) for name in (ALL, *(name_of(every - {each}) for each in INGREDIENTS))},
    }
    says = "Means over draws: energy of the machine until day 6, and the mean wait."
    axes = (Axis("energy", "MWh"), Axis("mean wait", "h"))
    return points("ingredients", "Energy and wait, one ingredient more or less", says, axes, families), "points"
