"""The report of an evaluation: box plots by estimator and the table behind them.

Errors are shown by user because means over jobs hide users: few users submit most jobs. The second picture shows
signed errors, because a scheduler under a cap is hurt by under-prediction only.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattqueue.evaluation.scores import Score
from wattqueue.report import words
from wattqueue.report.document import Document, Figures, Prose, Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes

PERCENT = "%"


def document(scores: Sequence[Score], *, target: str, workload: str, origin: str, remarks: Sequence[str]) -> Document:
    """Return the scores as text and page.

    Args:
        scores: One score per estimator.
        target: ``mean`` or ``max`` watts.
        workload: Name of the workload.
        origin: ``generated`` or ``measured``; generated workloads are labelled.
        remarks: What a reader should know about the trace.
    """
    shown = table(scores)
    return Document(
        title=f"Predicting the {'mean' if target == 'mean' else 'greatest'} power of jobs",
        eyebrow="  ·  ".join(w for w in (workload, "generated workload" if origin == "generated" else "") if w),
        lede=lede(scores),
        blocks=[Figures(pictures(scores, target)), shown, Prose("How to read the figures", (READ, *remarks), "notes")],
        text=[shown, *(f"note: {remark}" for remark in remarks)],
        links=(("table", "Table"), ("notes", "Notes")),
    )


def pictures(scores: Sequence[Score], target: str) -> list[Drawn]:
    """Return the pictures: errors by user (Figure 3 of paper 4), and signed errors by job."""
    what = "mean" if target == "mean" else "greatest"
    best = min((s for s in scores if s.jobs and not s.oracle), key=lambda s: s.mape_user_median_percent, default=None)
    users = boxes.figure(
        "users",
        "Error by user",
        f"Mean absolute percentage error of each user's jobs, {what} watts of one node."
        + (f" {best.name} has the lowest median over users." if best else ""),
        Axis("MAPE of a user", PERCENT),
        {s.label: s.user_box() for s in scores},
    )
    misses = boxes.figure(
        "misses",
        "Over- and under-prediction",
        "Predicted minus actual watts of each job; values left of 0 are under-predictions, which break caps.",
        Axis("(predicted - actual) / actual", PERCENT),
        {s.label: s.miss_box() for s in scores},
        from_zero=False,
    )
    return [(users, "boxes"), (misses, "boxes")]


def lede(scores: Sequence[Score]) -> str:
    """Return the evaluation in one sentence; oracles count only if nothing else was evaluated."""
    known = [s for s in scores if s.jobs and not s.oracle] or [s for s in scores if s.jobs]
    if not known:
        return "No job had both a prediction and measured watts."
    best = min(known, key=lambda s: s.mape_percent)
    safe = min(known, key=lambda s: s.under_share)
    return (
        f"On **{words.count(max(s.jobs for s in known), 'job')}** of "
        f"{words.count(max(len(s.user_mape) for s in known), 'user')}, **{best.name}** is off by "
        f"**{words.figures(best.mape_percent)} %** on average; {safe.name} under-predicts least "
        f"often, for {words.figures(100 * safe.under_share)} % of the jobs."
    )


HEADS = (
    "Estimator", "MAPE\noverall", "Error\nmedian over jobs", "MAPE\nmean over users", "MAPE\nmedian over users",
    "Under-predicted\nshare of jobs", "Shortfall\n95th percentile", "Coverage\nof each quantile",
    "CPU time\nper prediction", "Jobs\nscored", "MAPE\nnew users",
)  # fmt: skip
"""Heads of the table, with their second lines."""
SHORT = (
    *("estimator", "MAPE", "median", "mean/users", "median/users", "too low", "too low by (p95)", "coverage", "CPU"),
    *("jobs", "new users"),
)
"""Heads of the table in a terminal."""
COVERAGE = 7
"""Column of the coverage, which has no value for most estimators and several for the others: it may break."""
READ = (
    "Every job was predicted at its submission, with only the jobs that had ended by then. MAPE is 100/n times the sum "
    "of |actual - predicted| / actual. A job counts as too low if less was predicted than it drew; the shortfall of "
    "all others is 0. Coverage is the share of jobs at or below a predicted quantile: p90 should cover 90 %. New "
    "users: jobs submitted before any measured job of their user had ended, and their number."
)
"""How to read the figures."""


def table(scores: Sequence[Score]) -> Table:
    """Return the table of scores; in a terminal without the coverage where no estimator predicts quantiles.

    Heads and the coverage break between words, so that ten columns fit a page of 1280 pixels.
    """
    rows = [*map(row, scores)]
    none = all(cells[COVERAGE] == "–" for cells in rows)
    short = ["" if none and k == COVERAGE else head for k, head in enumerate(SHORT)]
    kinds = ["n breaks" if k == COVERAGE else "n" if k else "" for k in range(len(HEADS))]
    return Table(HEADS, rows, "Errors of each estimator", key="table", short=short, kinds=kinds)


def row(s: Score) -> list[str]:
    """Return a score as text, in the order of HEADS."""
    coverage = " ".join(f"p{100 * q:g}: {words.figures(100 * share)} %" for q, share in s.coverage.items())
    return [
        s.label,
        percent(s.mape_percent),
        percent(s.median_error_percent),
        percent(s.mape_user_mean_percent),
        percent(s.mape_user_median_percent),
        percent(100.0 * s.under_share),
        f"{percent(s.under_p95_percent)} ({words.watts(s.under_p95_w)})",
        coverage or "–",
        f"{words.figures(1e6 * s.prediction_cpu_s)} µs",
        f"{s.jobs:,}" + (f" (+{s.unpredicted:,} unknown)" if s.unpredicted else ""),
        f"{percent(s.cold_mape_percent)} ({s.cold_jobs:,})" if s.cold_jobs else "–",
    ]


def percent(value: float) -> str:
    """Return a figure in percent, a dash for NaN."""
    return "–" if value != value else f"{words.figures(value)} %"  # noqa: PLR0124 - NaN
