"""Figure 3 of paper 4 from our figures: box plots over users, published values marked."""

from __future__ import annotations

from wattqueue.report.document import Drawn, findings
from wattqueue.report.figure import Axis
from wattqueue.report.figures import boxes
from wattqueue.study.prediction.page import notes, table
from wattqueue.study.prediction.study import Result
from wattqueue.study.prediction.text import ASSUMED, against_paper, verdict

TITLES = {"mean": "Mean watts: error by user", "max": "Greatest watts: error by user"}


def study_html(result: Result) -> str:
    """One self-contained page."""
    drawn = pictures(result)
    scores = [r.score for r in result.rows if r.data == "generated"]
    said = [verdict(result.sensitivity), *against_paper(result), " ".join(ASSUMED), *result.notes]
    return findings(
        title="History against regression",
        eyebrow=f"paper 4, section 6.3  ·  generated workload  ·  {result.about['jobs']:,} jobs",
        lede="How well a job's watts are known before it runs, on <strong>generated</strong> jobs of Marconi100.",
        drawn=drawn,
        cards=[table(scores), notes(said)],
    )


def pictures(result: Result) -> list[Drawn]:
    """One picture a target; the maximum's naive bound is left out, whose errors are ten times the others'."""
    drawn: list[Drawn] = []
    for target, title in TITLES.items():
        rows = [r for r in result.rows if (r.data, r.target) == ("generated", target) and r.score.name not in {"naive"}]
        figure = boxes.figure(
            target,
            title,
            "MAPE of each user's jobs; the triangle is what the paper prints, on the real trace. Naive is left out.",
            Axis("MAPE of a user", "%"),
            {r.score.name: r.score.user_box() for r in rows},
            published=[r.published_percent for r in rows],
        )
        drawn.append((figure, "boxes"))
    return drawn
