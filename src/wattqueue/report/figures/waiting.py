"""Distributions of wait and bounded slowdown, at a few hundred quantiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.figure import Axis, Figure
from wattqueue.report.run import Run

# Even steps, and finer ones towards the end: the tail is what users remember.
SHARES: Floats = np.unique(
    np.round(np.concatenate((np.linspace(0, 1, 301), 1 - np.geomspace(1e-5, 1e-1, 80), np.linspace(0, 0.01, 11))), 9)
)
MARKS = (0.5, 0.95, 0.99)


def quantiles(values: Floats, shares: Floats = SHARES) -> Floats:
    """Smallest value that at least this share of values does not exceed. Shape as ``shares``."""
    if not len(values):
        return np.full(len(shares), np.nan)
    row = np.clip(np.ceil(shares * len(values)).astype(np.int64) - 1, 0, len(values) - 1)
    # Only the rows wanted must stand in their place: cheaper than sorting everything.
    return np.partition(values, np.unique(row))[row]


def wait(run: Run) -> Figure:
    """Share of jobs that waited no longer than this."""
    values = run.wait_s
    return _figure(
        "wait",
        "Waiting time",
        wait_says(values),
        Axis("waiting time, logarithmic"),
        ("wait_s", "wait at most"),
        values,
    )


def slowdown(run: Run) -> Figure:
    """Share of jobs whose bounded slowdown was no greater than this."""
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
    name, head = column
    columns: dict[str, NDArray[np.float64]] = {"share": SHARES, name: quantiles(values)}
    marks = dict(zip(("median", "p95", "p99"), marked(values), strict=True))
    return Figure(
        key, title, says, x, Axis("share of jobs", "%", 0.01), columns, {"share": "share of jobs", name: head},
        {"marks": marks},
    )  # fmt: skip


def marked(values: Floats) -> list[float | None]:
    """Median, p95 and p99 as metrics.json has them (interpolated); None where no job ran."""
    return [float(v) for v in np.quantile(values, MARKS)] if len(values) else [None] * len(MARKS)


def wait_says(values: Floats) -> str:
    """How many started at once, and how long the others waited."""
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
    """How many were not slowed at all, and how far the others were."""
    if not len(values):
        return "No job ran."
    half, most, _ = np.quantile(values, MARKS).tolist()
    return (
        f"{words.percent(float((values <= 1.0).mean()))} of jobs were not slowed down; the median is "
        f"{words.figures(half)}, p95 {words.figures(most)}, the mean {words.figures(float(values.mean()))}."
    )
