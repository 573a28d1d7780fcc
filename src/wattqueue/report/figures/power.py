"""The figure of power against the cap, with the excess shaded.

Power is that of the cap's scope (rule 14 of docs/semantics.md), so that curve and cap are comparable. In scope
``machine`` the share of idle nodes is drawn below that of running jobs.
"""

from __future__ import annotations

import numpy as np

from wattqueue.report import words
from wattqueue.report.figure import SCOPE_WORDS, Figure, finite_max, power_axis, span_of_time, time_axis
from wattqueue.report.run import RunData
from wattqueue.report.steps import Bins


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
    excess, capped = run.excess, len(run.caps_w) > 0
    bins = Bins.of(excess.time_s, run.first_s, run.last_s)
    columns = {
        "time_s": bins.edge_s[:-1] - run.first_s,
        "power_min_w": run.power.minima(bins.edge_s),
        "power_mean_w": run.power.means(bins.edge_s),
        "power_max_w": run.power.maxima(bins.edge_s),
        "other_mean_w": run.idle.means(bins.edge_s),
    }
    if capped:
        columns["cap_w"] = run.cap.minima(bins.edge_s)
        columns["excess_w"] = excess.maxima(bins.edge_s)
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
    begin, end = run.span_s
    mean, peak = run.power.integral(begin, end) / (end - begin), run.power.maximum(begin, end)
    first = f"Power of {SCOPE_WORDS[run.cap_scope]}: {words.watts(mean)} on average, {words.watts(peak)} at most."
    caps, kept = run.caps_w, run.kept
    if not len(caps):
        return f"{first} No cap was set."
    cap = words.watts(float(caps.min()))
    if caps.min() != caps.max():
        cap = f"{cap} to {words.watts(float(caps.max()))}"
    if not kept.cap_over_s:
        return f"{first} The cap of {cap} was never exceeded."
    return (
        f"{first} The cap of {cap} was exceeded for {words.span(kept.cap_over_s)} in all, "
        f"by at most {words.watts(kept.cap_overshoot_w or 0.0)} ({words.energy(kept.cap_over_j or 0.0)} above it)."
        f"{_of_phases(run)}"
    )


def _of_phases(run: RunData) -> str:
    """Return a sentence where the excess is that of phases of jobs, which the means of the curve do not show."""
    above, length = run.excess.within(*run.span_s)
    if np.isclose(length[above > 0].sum(), run.kept.cap_over_s or 0.0, rtol=1e-6):
        return ""
    return " The excess is that of the jobs' phases; the curve shows means over at most 20 s."
