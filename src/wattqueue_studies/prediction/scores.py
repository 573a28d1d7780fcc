"""The scores of the study of predictions, as tables, sentences and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.evaluation.page import percent
from wattqueue.evaluation.scores import Score
from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.document import Table, without_gaps
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.workload.marconi import READING_W
from wattqueue_studies.frame.figures import points

TITLES = {"mean": "Mean watts: error by user", "max": "Greatest watts: error by user"}
"""Targets with the headings of their pictures."""
SENSITIVITY = ("last-job", "history-mean", "linear", "linear-svr", "sgd")
"""Estimators of its columns."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreRow:
    """The score of one estimator on one data set."""

    data: str
    """Name of the data set."""
    target: str
    """mean or max watts."""
    score: Score
    """The score."""
    published_percent: float | None = None
    """MAPE that the paper prints, if it does."""
    setting: dict[str, float] = field(default_factory=dict)
    """Drift and spread of a cell of the sensitivity table."""

    def document(self) -> dict[str, Any]:
        """Return the row for JSON."""
        more = {"published_percent": self.published_percent} | self.setting
        return {"data": self.data, "target": self.target, "estimator": self.score.name} | more | self.score.figures()


@dataclass(frozen=True, slots=True, eq=False)
class PredictionScoreTables:
    """All tables of scores.

    Attributes:
        rows: Every estimator on every data set.
        knobs: The history estimator under other settings.
        sensitivity: Estimators over drift and spread.
        blinded: Estimators on jobs whose requests say nothing about their watts.
        notes: What was left out, and other remarks.
        about: Numbers of jobs and users, seed.
        watts: Figure 2: watts of a node, and the share of generated jobs at each, by target.
    """

    rows: list[ScoreRow]
    knobs: list[ScoreRow]
    sensitivity: list[ScoreRow]
    blinded: list[ScoreRow]
    notes: list[str]
    about: dict[str, Any]
    watts: Mapping[str, dict[float, float]] = field(default_factory=dict)

    def of(self, target: str) -> list[ScoreRow]:
        """Return the rows on generated jobs for one target."""
        return [r for r in self.rows if (r.data, r.target) == ("generated", target)]

    def cells(self) -> dict[tuple[float, float], dict[str, float]]:
        """Return MAPE by estimator in each (drift, spread) of the sensitivity table."""
        found: dict[tuple[float, float], dict[str, float]] = {}
        for r in self.sensitivity:
            found.setdefault((r.setting["drift"], r.setting["spread"]), {})[r.score.name] = r.score.mape_percent
        return found


def score_table(rows: Sequence[ScoreRow], title: str) -> Table:
    """Return a table of scores; columns without any figure are left out."""
    errors = ("MAPE", "published", "median", "mean/users", "median/users", "too low", "new users")
    heads = ("estimator", *errors, "coverage", "CPU")
    cells = []
    for r in rows:
        s = r.score
        shares = (s.mape_percent, r.published_percent or np.nan, s.median_error_percent, s.mape_user_mean_percent)
        more = (s.mape_user_median_percent, 100 * s.under_share, s.cold_mape_percent)
        covered = " ".join(f"p{100 * q:g}:{words.figures(100 * c)}" for q, c in s.coverage.items())
        cpu = f"{words.figures(1e6 * s.prediction_cpu_s)} µs"
        cells.append([s.label, *map(percent, (*shares, *more)), covered or "–", cpu])
    return Table(*without_gaps(heads, cells), title)


def sensitivity_table(found: PredictionScoreTables) -> Table:
    """Return MAPE by drift and spread, with the best estimator of each cell."""
    rows = []
    for (drift, spread), cell in found.cells().items():
        best = min(cell, key=lambda name: cell[name])
        rows.append([f"drift {drift:g}, spread {spread:g}", *(percent(cell[name]) for name in SENSITIVITY), best])
    jobs = found.about["sensitivity_jobs"]
    title = f"Sensitivity: MAPE over {jobs:,} generated jobs, by drift of habits and spread of a user's jobs"
    return Table(("setting", *SENSITIVITY, "best"), rows, title)


def robust(found: PredictionScoreTables) -> str:
    """Return which orders of two estimators hold in every cell, in sentences, and the distance with shuffled requests.

    "a before b" means that a has the lower MAPE in all nine cells; an order that fails in one cell is left out, since
    it depends on what the generator assumes.
    """
    cells = found.cells().values()
    pairs = [(a, b) for a in SENSITIVITY for b in SENSITIVITY if a != b and all(cell[a] < cell[b] for cell in cells)]
    winners = sorted({min(cell, key=lambda n: cell[n]) for cell in cells})
    held = "; ".join(f"{a} before {b}" for a, b in pairs) or "none"
    blind = {r.score.name: r.score.mape_percent for r in found.blinded}
    gap = blind.get("linear", np.nan) - blind.get("history-mean", np.nan)
    return (
        f"Best in some cell: {', '.join(winners)}. Orders that hold in every cell: {held}. If requests carry no "
        f"information on watts, {'history' if gap > 0 else 'regression'} is ahead by {words.figures(abs(gap))} points."
    )


def watts_shares(watts: Floats) -> dict[float, float]:
    """Return the share of jobs in per cent whose watts are nearest to each multiple of ``READING_W``. Shape (n,)."""
    nearest, jobs = np.unique(np.rint(watts / READING_W) * READING_W, return_counts=True)
    return dict(zip(nearest.tolist(), (100.0 * jobs / len(watts)).tolist(), strict=True))


def pictures(found: PredictionScoreTables) -> Iterator[Drawn]:
    """Yield Figures 2 and 3, one picture of each per target.

    ``maximum`` is left out: its errors are ten times the others', which would make their boxes unreadable.
    """
    for letter, (target, shares) in zip("ab", found.watts.items(), strict=False):
        line = {f"{watts:g} W": (watts, share) for watts, share in shares.items()}
        yield (
            points(
                f"watts-{target}",
                f"Figure 2 ({letter}): {TITLES[target].partition(':')[0].lower()} of a node",
                f"Share of generated jobs, in steps of {READING_W:g} W. The paper prints a peak around 700 W.",
                (Axis("power of a node", "W"), Axis("share of the jobs", "%")),
                {target: line},
            ),
            "points",
        )
    for target, title in TITLES.items():
        rows = [r for r in found.of(target) if r.score.name != "maximum"]
        says = "MAPE of each user's jobs; the triangle is the paper's figure, on the real trace. Naive is left out."
        shown = {r.score.name: r.score.user_box() for r in rows}
        told = [r.published_percent for r in rows]
        yield boxes.figure(target, title, says, Axis("MAPE of a user", "%"), shown, published=told), "boxes"
