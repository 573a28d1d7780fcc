"""The figure of power against the cap, with the excess shaded.

Power is that of the cap's scope (rule 14 of docs/semantics.md), so that curve and cap are comparable. In scope
``machine`` the share of idle nodes is drawn below that of running jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.report import words
from wattqueue.report.figure import SCOPE_WORDS, Figure, finite_max, power_axis, span_of_time, time_axis
from wattqueue.report.run import PowerSteps, RunData
from wattqueue.report.steps import Bins

TOLERANCE_W = 1e-6
"""An excess of at most this is rounding (rule 13 of docs/semantics.md)."""


@dataclass(frozen=True, slots=True)
class Excess:
    """How far and how long a run was above its cap.

    Attributes:
        over_s: Seconds above the cap.
        over_j: Energy above the cap.
        most_w: Greatest excess.
    """

    over_s: float
    over_j: float
    most_w: float

    @classmethod
    def of(cls, series: PowerSteps) -> Excess:
        """Return exact integrals over the step series."""
        above = np.maximum(series.power_w[:-1] - series.cap_w[:-1], 0.0)
        above = np.where(above > TOLERANCE_W, above, 0.0)
        held = np.diff(series.time_s)
        return cls(float(held[above > 0].sum()), float((above * held).sum()), float(above.max(initial=0.0)))


def figure(run: RunData) -> Figure:
    """Return power in the cap's scope over time, with the cap and what exceeded it.

    Columns, one row per bin (``steps.Bins``):
        time_s: Begin of the bin, seconds since the first submission.
        power_min_w, power_mean_w, power_max_w: Power within the bin.
        other_mean_w: Mean power of idle nodes, the lower part of the stack.
        cap_w: Lowest cap in force within the bin, ``inf`` for none; only with a cap.
        excess_w: Greatest excess within the bin; only with a cap.

    The lowest cap and the greatest excess are kept, not their means: an excess of one second must stay visible in a
    year.
    """
    series = run.series
    bins = Bins.of(series.time_s, run.first_s, run.last_s)
    above = np.maximum(series.power_w - series.cap_w, 0.0)
    above[above <= TOLERANCE_W] = 0.0
    capped = series.limited
    columns = {
        "time_s": bins.edge_s[:-1] - run.first_s,
        "power_min_w": bins.least(series.time_s, series.power_w),
        "power_mean_w": bins.mean(series.time_s, series.power_w),
        "power_max_w": bins.greatest(series.time_s, series.power_w),
        "other_mean_w": bins.mean(series.time_s, series.other_w),
    }
    if capped:
        columns["cap_w"] = bins.least(series.time_s, series.cap_w)
        columns["excess_w"] = bins.greatest(series.time_s, above)
    highest = max(finite_max(columns["power_max_w"]), finite_max(columns["cap_w"]) if capped else 0.0)
    return Figure(
        "power",
        "Power against the cap" if capped else "Power",
        says(run),
        time_axis(run),
        power_axis(highest),
        columns,
        {
            "time_s": "from",
            "power_min_w": "min",
            "power_mean_w": "mean",
            "power_max_w": "max",
            "other_mean_w": "of this, idle nodes",
            "cap_w": "cap",
            "excess_w": "max excess",
        },
        {"exact": bins.exact, **span_of_time(run), "stacked": run.cap_scope == "machine"},
    )


def says(run: RunData) -> str:
    """Return mean and peak power, and how the cap was kept.

    All figures are exact integrals over the steps of the run, not over the bins of the figure.
    """
    series = run.series
    held = np.diff(series.time_s)
    length = float(held.sum())
    mean = float((series.power_w[:-1] * held).sum() / length) if length else float(series.power_w[0])
    peak = float(series.power_w[:-1].max(initial=0.0))
    first = f"Power of {SCOPE_WORDS[run.cap_scope]}: {words.watts(mean)} on average, {words.watts(peak)} at most."
    if not series.limited:
        return f"{first} No cap was set."
    over = Excess.of(series)
    caps = series.cap_w[np.isfinite(series.cap_w)]
    cap = words.watts(float(caps.min()))
    if caps.min() != caps.max():
        cap = f"{words.watts(float(caps.min()))} to {words.watts(float(caps.max()))}"
    if over.over_s == 0:
        return f"{first} The cap of {cap} was never exceeded."
    return (
        f"{first} The cap of {cap} was exceeded for {words.span(over.over_s)} in all, "
        f"by at most {words.watts(over.most_w)} ({words.energy(over.over_j)} above it)."
    )
