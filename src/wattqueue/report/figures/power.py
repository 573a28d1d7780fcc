"""The figure of power against its limit, cap or load target, with the excess shaded.

Power is that of the cap's scope (rule 14 of docs/semantics.md), so that curve and limit are comparable. In scope
``machine`` the share of idle nodes is drawn below that of running jobs.
"""

from __future__ import annotations

from wattqueue.report import words
from wattqueue.report.figure import BINS, SCOPE_WORDS, Bins, Figure, finite_max, power_axis, span_of_time, time_axis
from wattqueue.report.run import RunData


def figure(run: RunData, most: int = BINS) -> Figure:
    """Return power in the cap's scope over time, with its limit (cap, load targets) and what exceeded that.

    ``most``: Bins at most.

    Columns, one row per bin (``figure.Bins``):
        time_s: Begin of the bin, seconds since the first submission.
        power_min_w, power_mean_w, power_max_w: Power within the bin.
        other_mean_w: Mean power of idle nodes, the lower part of the stack.
        cap_w: Lowest limit in force within the bin, ``inf`` for none; only with a limit.
        excess_w: Greatest excess within the bin; only with a limit.

    The lowest limit and the greatest excess are kept, not their means: an excess of one second must stay visible in a
    year.
    """
    excess, limit = run.excess, run.limit_name
    bins = Bins.of(excess.time_s, run.first_s, run.last_s, most)
    columns = {
        "time_s": bins.edge_s[:-1] - run.first_s,
        "power_min_w": run.power.minima(bins.edge_s),
        "power_mean_w": run.power.means(bins.edge_s),
        "power_max_w": run.power.maxima(bins.edge_s),
        "other_mean_w": run.idle.means(bins.edge_s),
    }
    if limit:
        columns["cap_w"] = run.cap.minima(bins.edge_s)
        columns["excess_w"] = excess.maxima(bins.edge_s)
    highest = max(finite_max(columns["power_max_w"]), finite_max(columns["cap_w"]) if limit else 0.0)
    return Figure(
        "power",
        f"Power against the {limit}" if limit else "Power",
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
            "cap_w": limit,
            "excess_w": "max excess",
        },
        {"exact": bins.exact, **span_of_time(run), "stacked": run.cap_scope == "machine", "limit": limit},
    )


def says(run: RunData) -> str:
    """Return mean and peak power, and how the cap and the load targets were kept, each by its name.

    All figures are exact integrals over the steps of the run, not over the bins of the figure.
    """
    begin, end = run.span_s
    mean, peak = run.power.integral(begin, end) / (end - begin), run.power.maximum(begin, end)
    first = f"Power of {SCOPE_WORDS[run.cap_scope]}: {words.watts(mean)} on average, {words.watts(peak)} at most."
    caps, targets, kept = run.caps_w, run.targets_w, run.kept
    said = [first, "" if len(caps) else "No cap was set."]
    if len(caps):
        cap = words.watts(float(caps.min()))
        if caps.min() != caps.max():
            cap = f"{cap} to {words.watts(float(caps.max()))}"
        how = _exceeded(kept.cap_over_s, kept.cap_overshoot_w, kept.cap_over_j)
        said.append(f"The cap of {cap} was {how}.")
    if len(targets):
        how = _exceeded(kept.target_over_s, kept.target_overshoot_w, kept.target_over_j)
        said.append(f"The limit of load targets, {words.watts(float(targets.min()))} at the lowest, was {how}.")
    return " ".join(filter(None, [*said, _of_phases(run)]))


def _exceeded(over_s: float | None, most_w: float | None, over_j: float | None) -> str:
    """Return how a limit was exceeded."""
    if not over_s:
        return "never exceeded"
    most, energy = words.watts(most_w or 0.0), words.energy(over_j or 0.0)
    return f"exceeded for {words.span(over_s)} in all, by at most {most} ({energy} above it)"


def _of_phases(run: RunData) -> str:
    """Return a sentence where phases of jobs change the excess that the means of the curve show."""
    above, length = run.excess.within(*run.span_s)
    shown_s, over_s = length[above > 0].sum(), (run.kept.cap_over_s or 0.0, run.kept.target_over_s or 0.0)
    # Power above a target may be above the cap, too: such time is shown once.
    if max(over_s) <= shown_s * (1 + 1e-6) and shown_s <= sum(over_s) * (1 + 1e-6):
        return ""
    if shown_s > 0:  # jobs exceed it on average, too
        span = words.span(float(shown_s))
        return f"That is with the jobs' phases; in the curve, of means over at most 20 s, it is {span}."
    return "The excess is that of the jobs' phases; the curve shows means over at most 20 s."
