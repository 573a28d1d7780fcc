"""Distributions of wait and bounded slowdown, at a few hundred quantiles.

Quantiles instead of all values keep the figure small: half a million waits become 390 numbers, dense in the tail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.figure import Axis, Figure
from wattqueue.report.run import RunData

# Even steps, and finer ones at both ends: the tail holds the long waits, the beginning the jobs that never waited.
SHARES: Floats = np.unique(
    np.round(np.concatenate((np.linspace(0, 1, 301), 1 - np.geomspace(1e-5, 1e-1, 80), np.linspace(0, 0.01, 11))), 9)
)
MARKS = (0.5, 0.95, 0.99)
"""Shares of jobs at which a distribution is marked."""


def quantiles(values: Floats, shares: Floats = SHARES) -> Floats:
    """Return the smallest values that at least these shares of the values do not exceed. Shape as ``shares``."""
    if not len(values):
        return np.full(len(shares), np.nan)
    row = np.clip(np.ceil(shares * len(values)).astype(np.int64) - 1, 0, len(values) - 1)
    # Only the requested rows must be in sorted position: cheaper than sorting everything.
    return np.partition(values, np.unique(row))[row]


def wait(run: RunData) -> Figure:
    """Return the share of jobs that waited no longer than a time.

    The axis is logarithmic from 1 s: waits span seconds to weeks, and what is below a second is no wait.
    """
    values = run.wait_s
    return _figure(
        "wait",
        "Waiting time",
        wait_says(values),
        Axis("waiting time, logarithmic"),
        ("wait_s", "wait at most"),
        values,
    )


def slowdown(run: RunData) -> Figure:
    """Return the share of jobs whose bounded slowdown was no greater than a value.

    The bounded slowdown counts runs below 10 s as 10 s (docs/semantics.md, metrics), so that short jobs do not
    dominate.
    """
    values = run.bounded_slowdown
    return _figure(
        "slowdown",
        "Bounded slowdown",
        slowdown_says(values),
        Axis("bounded slowdown, logarithmic"),
        ("bounded_slowdown", "bounded slowdown at most"),
        values,
    )


def _figure(key: str, title: str, says: str, x: Axis, column: tuple[str, str], values: Floats) -> Figure:
    """Return a cumulative distribution with median, p95 and p99 marked.

    The curve holds order statistics (``quantiles``), the marks interpolated quantiles as metrics.json has them: for
    few jobs they may differ by one job's value.
    """
    name, head = column
    columns: dict[str, NDArray[np.float64]] = {"share": SHARES, name: quantiles(values)}
    marks = dict(zip(("median", "p95", "p99"), marked(values), strict=True))
    return Figure(
        key, title, says, x, Axis("share of jobs", "%", 0.01), columns, {"share": "share of jobs", name: head},
        {"marks": marks},
    )  # fmt: skip


def marked(values: Floats) -> list[float | None]:
    """Return median, p95 and p99 as in metrics.json (interpolated), None where no job ran."""
    return [float(v) for v in np.quantile(values, MARKS)] if len(values) else [None] * len(MARKS)


def wait_says(values: Floats) -> str:
    """Return how many jobs started at once, and how long the others waited."""
    if not len(values):
        return "No job ran."
    half, most, few = np.quantile(values, MARKS).tolist()
    at_once = words.percent(float((values <= 1.0).mean()))
    middle = f"half waited at most {words.span(half)}" if half > 0 else "half did not wait at all"
    return (
        f"{at_once} of jobs started within a second; {middle}, p95 is {words.span(most)}, "
        f"p99 {words.span(few)}, the mean {words.span(float(values.mean()))}."
    )


def slowdown_says(values: Floats) -> str:
    """Return how many jobs were not slowed down, and how much the others were."""
    if not len(values):
        return "No job ran."
    half, most, _ = np.quantile(values, MARKS).tolist()
    return (
        f"{words.percent(float((values <= 1.0).mean()))} of jobs were not slowed down; the median is "
        f"{words.figures(half)}, p95 {words.figures(most)}, the mean {words.figures(float(values.mean()))}."
    )
