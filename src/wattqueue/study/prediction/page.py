"""The report of an evaluation: box plots by estimator, and the table behind them, in one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from wattqueue.report import words
from wattqueue.report.document import Drawn, findings
from wattqueue.report.figure import Axis
from wattqueue.report.figures import boxes
from wattqueue.study.prediction.scores import Score

PERCENT = "%"


def html(scores: Sequence[Score], *, target: str, workload: str, origin: str, remarks: Sequence[str] = ()) -> str:
    """One self-contained page. ``workload`` and ``remarks`` are plain text."""
    drawn = pictures(scores, target)
    return findings(
        title=f"Predicting the {'mean' if target == 'mean' else 'greatest'} power of jobs",
        eyebrow="  ·  ".join(w for w in (workload, "generated workload" if origin == "generated" else "") if w),
        lede=lede(scores),
        drawn=drawn,
        cards=[table(scores), notes(remarks)],
    )


def pictures(scores: Sequence[Score], target: str) -> list[Drawn]:
    """Errors by user (Figure 3 of paper 4), and misses by job."""
    what = "mean" if target == "mean" else "greatest"
    best = min((s for s in scores if s.jobs and not s.bound), key=lambda s: s.mape_user_median_percent, default=None)
    users = boxes.figure(
        "users",
        "Error by user",
        f"Mean absolute percentage error of each user's jobs, {what} watts of one node."
        + (f" The lowest median over users has {best.name}." if best else ""),
        Axis("MAPE of a user", PERCENT),
        {s.name: s.user_box() for s in scores},
    )
    misses = boxes.figure(
        "misses",
        "Too much, too little",
        "Predicted less actual watts of each job; what lies left of 0 was predicted too low, which breaks caps.",
        Axis("(predicted - actual) / actual", PERCENT),
        {s.name: s.miss_box() for s in scores},
        from_zero=False,
    )
    return [(users, "boxes"), (misses, "boxes")]


def lede(scores: Sequence[Score]) -> str:
    """The evaluation in one sentence (HTML)."""
    known = [s for s in scores if s.jobs and not s.bound] or [s for s in scores if s.jobs]
    if not known:
        return "No job had both a prediction and measured watts."
    best = min(known, key=lambda s: s.mape_percent)
    safe = min(known, key=lambda s: s.under_share)
    return (
        f"On <strong>{words.count(max(s.jobs for s in known), 'job')}</strong> of "
        f"{words.count(max(len(s.user_mape) for s in known), 'user')}, <strong>{escape(best.name)}</strong> misses by "
        f"<strong>{words.figures(best.mape_percent)} %</strong> in the mean; {escape(safe.name)} is too low least "
        f"often, for {words.figures(100 * safe.under_share)} % of the jobs."
    )


HEADS = (
    ("estimator", ""),
    ("MAPE", "overall"),
    ("error", "median over jobs"),
    ("MAPE", "mean over users"),
    ("MAPE", "median over users"),
    ("too low", "share of jobs"),
    ("too low by", "95th percentile"),
    ("coverage", "of each quantile"),
    ("CPU time", "a prediction"),
    ("jobs", "scored"),
)


def table(scores: Sequence[Score]) -> str:
    """All figures of merit (HTML)."""
    head = "".join(
        f'<th scope="col"{" class=n" if i else ""}>{name}<small>{more}</small></th>'
        for i, (name, more) in enumerate(HEADS)
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(
            f'<td class="n" data-label="{escape(f"{head} {more}".strip())}"><span>{escape(cell)}</span></td>'
            for (head, more), cell in zip(HEADS[1:], cells, strict=True)
        )
        + "</tr>"
        for name, *cells in map(row, scores)
    )
    return (
        '<section class="card" id="table"><h2>Figures</h2><div class="wide"><table class="side">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def row(s: Score) -> list[str]:
    """A score as text, in the order of HEADS."""
    coverage = " ".join(f"p{100 * q:g}: {words.figures(100 * share)} %" for q, share in s.coverage.items())
    return [
        s.name,
        percent(s.mape_percent),
        percent(s.median_error_percent),
        percent(s.mape_user_mean_percent),
        percent(s.mape_user_median_percent),
        percent(100.0 * s.under_share),
        f"{percent(s.under_p95_percent)} ({words.watts(s.under_p95_w)})",
        coverage or "–",
        f"{words.figures(1e6 * s.prediction_cpu_s)} µs",
        f"{s.jobs:,}" + (f" (+{s.unpredicted:,} unknown)" if s.unpredicted else ""),
    ]


def percent(value: float) -> str:
    """A figure in percent, a dash where there is none."""
    return "–" if value != value else f"{words.figures(value)} %"  # noqa: PLR0124 - NaN


def notes(remarks: Sequence[str]) -> str:
    """How to read the figures, and what there is to say of this trace (HTML)."""
    said = "".join(f'<p class="note">{escape(r)}</p>' for r in remarks)
    return (
        '<section class="card" id="notes"><h2>Reading them</h2>'
        '<p class="note">Every job was predicted at its submission, with only the jobs that had ended by then. '
        "MAPE is 100/n times the sum of |actual - predicted| / actual. A job counts as too low where less was "
        "predicted than it drew; its shortfall is 0 where it was not. Coverage is the share of jobs at or below "
        "a predicted quantile: p90 should cover 90 %.</p>"
        f"{said}</section>"
    )
