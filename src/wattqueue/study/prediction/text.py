"""The tables of the study as lines of text, and what they can and cannot show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wattqueue.report import words
from wattqueue.report.text_table import table, without_gaps
from wattqueue.study.prediction.page import percent
from wattqueue.study.prediction.published import published
from wattqueue.study.prediction.study import DRIFTS, SENSITIVITY, SPREADS, Result, ScoreRow
from wattqueue.workload.marconi import WATTS_SHARES
from wattqueue.workload.users import DRIFT_D, SESSION_JOBS

# Shares of the generator's variance of watts, as text.
SHARE = {name: f"{100 * getattr(WATTS_SHARES, name):.0f} %" for name in ("user", "app", "drift", "session", "job")}
ASSUMED = (
    f"What the generator assumes: of the variance of a job's watts {SHARE['user']} are the user's habit,",
    f"{SHARE['app']} the application's, {SHARE['drift']} its drift (correlation time {DRIFT_D:g} days),",
    f"{SHARE['session']} the session's and {SHARE['job']} the job's own, mapped on a distribution that peaks at 700 W.",
    "Only the peak and the range are published; the shares are assumed.",
    "Generated watts cannot confirm a published error, and may favour estimators: history gains from what is constant",
    f"for user and application; jobs come in sessions of one application ({SESSION_JOBS:g} on average), which favours",
    "estimators that weight the last job; requested time and size belong to the application, which regressors use (the",
    "table with shuffled requests shows how much). No application has two modes, and watts depend neither on the nodes",
    "nor on the run time. Only an order of estimators that holds in every cell of the sensitivity table is robust.",
)
"""Assumptions behind the figures on generated jobs, line by line."""


def study_lines(result: Result) -> Iterable[str]:
    """Yield everything that the study prints.

    Order: scores on each data set, settings of the history estimator, the sensitivity table and what holds in all of
    it, the table with shuffled requests, the distance to the paper, assumptions, notes.
    """
    yield "Prediction of a job's watts (paper 4, section 6.3). MAPE in percent, CPU time per prediction."
    for data in dict.fromkeys(r.data for r in result.rows):
        for target in dict.fromkeys(r.target for r in result.rows if r.data == data):
            yield ""
            yield f"{data}, {target} watts"
            yield from _table([r for r in result.rows if (r.data, r.target) == (data, target)])
    yield ""
    yield "Settings of the history estimator (generated, mean watts)"
    yield from _table(result.knobs)
    yield ""
    jobs = result.about["sensitivity_jobs"]
    yield f"Sensitivity: MAPE over {jobs:,} generated jobs, by drift of habits and spread of a user's jobs"
    yield from _sensitivity(result.sensitivity)
    yield ""
    yield verdict(result.sensitivity)
    yield ""
    yield "The same with sizes shuffled and one requested time for all: requests carry no information on watts"
    yield from _table(result.blinded)
    yield ""
    yield from against_paper(result)
    yield ""
    yield from ASSUMED
    yield ""
    yield from (f"note: {note}" for note in result.notes)


# Columns of the tables of scores.
HEADS = ("estimator", "MAPE", "published", "median", "mean/users", "median/users", "too low", "coverage", "CPU")


def _table(rows: Sequence[ScoreRow]) -> Iterable[str]:
    """Yield a table of scores; columns without any figure are left out."""
    cells = [list(HEADS)]
    for r in rows:
        s = r.score
        covered = " ".join(f"p{100 * q:g}:{words.figures(100 * c)}" for q, c in s.coverage.items())
        cells.append(
            [
                s.name,
                percent(s.mape_percent),
                percent(r.published_percent) if r.published_percent is not None else "–",
                percent(s.median_error_percent),
                percent(s.mape_user_mean_percent),
                percent(s.mape_user_median_percent),
                percent(100 * s.under_share),
                covered or "–",
                f"{words.figures(1e6 * s.prediction_cpu_s)} µs",
            ]
        )
    yield from table(*without_gaps(cells[0], cells[1:]))


def _sensitivity(rows: Sequence[ScoreRow]) -> Iterable[str]:
    """Yield MAPE by drift and spread, with the best estimator of each cell."""
    cells = [["drift", "spread", *SENSITIVITY, "best"]]
    for drift in DRIFTS:
        for spread in SPREADS:
            here = {r.score.name: r.score.mape_percent for r in rows if r.setting == {"drift": drift, "spread": spread}}
            best = min(here, key=lambda name: here[name])
            cells.append([f"{drift:g}", f"{spread:g}", *(percent(here[name]) for name in SENSITIVITY), best])
    yield from table(*without_gaps(cells[0], cells[1:]))


def verdict(rows: Sequence[ScoreRow]) -> str:
    """Return which orders of two estimators hold in every cell, in one sentence.

    "a before b" means that a has the lower MAPE in all nine cells; an order that fails in one cell is left out, since
    it depends on what the generator assumes.
    """
    cells: dict[tuple[float, float], dict[str, float]] = {}
    for r in rows:
        cells.setdefault((r.setting["drift"], r.setting["spread"]), {})[r.score.name] = r.score.mape_percent
    always = [
        f"{a} before {b}"
        for a in SENSITIVITY
        for b in SENSITIVITY
        if a != b and all(cell[a] < cell[b] for cell in cells.values())
    ]
    winners = sorted({min(cell, key=lambda name: cell[name]) for cell in cells.values()})
    held = "; ".join(always) if always else "none"
    return f"Best in some cell: {', '.join(winners)}. Orders that hold in every cell: {held}."


def against_paper(result: Result) -> Iterable[str]:
    """Yield the distance between history and linear regression in the paper and here, in sentences.

    Distances are in points of MAPE. The last sentence is for shuffled requests, where regression loses the features
    that the generator ties to the application.
    """
    for target, history in (("mean", "history-mean"), ("max", "history-max")):
        ours = {r.score.name: r.score.mape_percent for r in result.rows if (r.data, r.target) == ("generated", target)}
        gap = (published(target, "linear") or 0.0) - (published(target, history) or 0.0)
        here = ours["linear"] - ours[history]
        yield (
            f"The paper has history ahead of linear regression by {words.figures(gap)} points ({target} watts); here "
            f"{'history' if here > 0 else 'regression'} is ahead by {words.figures(abs(here))}."
        )
    blind = {r.score.name: r.score.mape_percent for r in result.blinded}
    here = blind["linear"] - blind["history-mean"]
    yield (
        f"If requests carry no information on watts, {'history' if here > 0 else 'regression'} is ahead by "
        f"{words.figures(abs(here))} points (mean watts)."
    )
