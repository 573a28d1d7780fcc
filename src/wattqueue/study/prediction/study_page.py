"""Figure 3 of paper 4 from our scores: box plots over users, published values marked, in one HTML file."""

from __future__ import annotations

from wattqueue.report.document import Drawn, findings
from wattqueue.report.figure import Axis
from wattqueue.report.figures import boxes
from wattqueue.study.prediction.page import notes, table
from wattqueue.study.prediction.study import Result
from wattqueue.study.prediction.text import ASSUMED, against_paper, verdict

TITLES = {"mean": "Mean watts: error by user", "max": "Greatest watts: error by user"}


def study_html(result: Result) -> str:
    """Return the study as one self-contained page: a picture per target, the table of scores, and all remarks."""
    drawn = pictures(result)
    # One table per target: the rows of both in one table would name every estimator twice.
    scores = {
        target: [r.score for r in result.rows if (r.data, r.target) == ("generated", target)] for target in TITLES
    }
    tables = [
        table(scores["mean"], "Errors in mean watts"),
        table(scores["max"], "Errors in greatest watts", "table-max"),
    ]
    remarks = [verdict(result.sensitivity), *against_paper(result), " ".join(ASSUMED), *result.notes]
    return findings(
        title="History against regression",
        eyebrow=f"paper 4, section 6.3  ·  generated workload  ·  {result.about['jobs']:,} jobs",
        lede="How well a job's watts can be predicted, on <strong>generated</strong> jobs of Marconi100.",
        drawn=drawn,
        cards=[*tables, notes(remarks)],
    )


def pictures(result: Result) -> list[Drawn]:
    """Return one picture per target.

    ``naive`` is left out: its errors are ten times the others', which would make their boxes unreadable.
    """
    drawn: list[Drawn] = []
    for target, title in TITLES.items():
        rows = [r for r in result.rows if (r.data, r.target) == ("generated", target) and r.score.name not in {"naive"}]
        figure = boxes.figure(
            target,
            title,
            "MAPE of each user's jobs; the triangle is the paper's figure, on the real trace. Naive is left out.",
            Axis("MAPE of a user", "%"),
            {r.score.name: r.score.user_box() for r in rows},
            published=[r.published_percent for r in rows],
        )
        drawn.append((figure, "boxes"))
    return drawn
