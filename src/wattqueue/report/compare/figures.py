"""All groups in one picture each: power, queue, utilization, waits, slowdowns, and what energy buys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.compare.groups import Group
from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue.report.figure import SCOPE_WORDS, Axis, Figure, finite_max, power_axis
from wattqueue.report.figures import queue, waiting
from wattqueue.report.run import Run
from wattqueue.report.steps import Bins

BINS = 2_400
Curve = Callable[[Run, Bins], Floats]


def overlay(
    groups: Sequence[Group], key: str, title: str, says: str, curve: Curve, y: Axis | None = None, caps: bool = False
) -> Figure:
    """One curve a group over time since the first submission; its seeds as a band from least to greatest."""
    length = max(run.last_s - run.first_s for _, run in _runs(groups))
    edge = np.linspace(0.0, max(length, 1.0), BINS + 1)
    columns: dict[str, Floats] = {"time_s": edge[:-1]}
    heads = {"time_s": "from"}
    shown = []
    for k, group in enumerate(groups):
        each = np.stack([_within(m.run, edge, curve) for m in group.members])
        mean, low, high = _over_seeds(each)
        columns[f"mean_{k}"] = mean
        heads[f"mean_{k}"] = group.label
        if len(each) > 1:
            columns |= {f"low_{k}": low, f"high_{k}": high}
        shown.append({"label": group.label, "seeds": len(each), "cap": None})
    if caps:
        _add_caps(groups, edge, columns, shown)
    if y is None:
        y = power_axis(max(finite_max(c) for name, c in columns.items() if name != "time_s"))
    scale, unit = words.span_unit(length)
    x = Axis("time since first submission", unit, scale)
    return Figure(key, title, says, x, y, columns, heads, {"groups": shown, "end_s": length, "exact": False})


def _runs(groups: Sequence[Group]) -> list[tuple[Group, Run]]:
    return [(group, member.run) for group in groups for member in group.members]


def _within(run: Run, edge: Floats, curve: Curve) -> Floats:
    """A run's curve in common bins; nothing after its end."""
    values = curve(run, Bins(edge + run.first_s, exact=False))
    return np.where(edge[:-1] < run.last_s - run.first_s, values, np.nan)


def _over_seeds(each: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, least and greatest over runs, NaN where none is left. Shapes (bins,)."""
    there = np.isfinite(each)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, each, 0.0).sum(axis=0) / count
    low, high = np.where(there, each, np.inf).min(axis=0), np.where(there, each, -np.inf).max(axis=0)
    return mean, np.where(count > 0, low, np.nan), np.where(count > 0, high, np.nan)


def _add_caps(
    groups: Sequence[Group], edge: Floats, columns: dict[str, Floats], shown: list[dict[str, object]]
) -> None:
    """A column for each cap that is in force, once where groups share it."""
    found: list[tuple[str, Floats]] = []
    for k, group in enumerate(groups):
        run = group.members[0].run
        if not run.series.limited:
            continue
        cap = Bins(edge + run.first_s, exact=False).least(run.series.time_s, run.series.cap_w)
        same = next((name for name, other in found if np.array_equal(cap, other)), None)
        if same is None:
            same = f"cap_{k}"
            found.append((same, cap))
            columns[same] = cap
        shown[k]["cap"] = same


def power(groups: Sequence[Group]) -> Figure:
    """Power of all groups, and their caps."""

    def curve(run: Run, bins: Bins) -> Floats:
        return bins.mean(run.series.time_s, run.series.power_w)

    scopes = {run.cap_scope for _, run in _runs(groups)}
    scope = SCOPE_WORDS[scopes.pop()] if len(scopes) == 1 else "what each cap covers"
    peaks = [(g.label, max(float(m.run.series.power_w[:-1].max(initial=0.0)) for m in g.members)) for g in groups]
    least, most = min(peaks, key=lambda p: p[1]), max(peaks, key=lambda p: p[1])
    says = (
        f"Power of {scope}, a curve a policy; the highest peak is {words.watts(most[1])} ({most[0]}), "
        f"the lowest {words.watts(least[1])} ({least[0]})."
    )
    return overlay(groups, "power", "Power", says, curve, caps=True)


def waiting_jobs(groups: Sequence[Group]) -> Figure:
    """Queue length of all groups."""

    def curve(run: Run, bins: Bins) -> Floats:
        return bins.mean(*queue.queue_length(run))

    most = {g.label: max(float(queue.queue_length(m.run)[1].max(initial=0)) for m in g.members) for g in groups}
    long = max(most, key=lambda label: most[label])
    says = f"Jobs that wait; the longest queue has {words.count(most[long], 'job')} ({long})."
    return overlay(groups, "queue", "Queue", says, curve, Axis("jobs waiting"))


def utilization(groups: Sequence[Group]) -> Figure:
    """Busy share of units of all groups."""

    def curve(run: Run, bins: Bins) -> Floats:
        return bins.mean(run.series.time_s, run.series.busy_units / run.units)

    says = "Share of units that run a job, a curve a policy."
    return overlay(groups, "utilization", "Utilization", says, curve, Axis("busy units", "%", 0.01))


def distribution(groups: Sequence[Group], key: str) -> Figure:
    """Waits or bounded slowdowns of all groups, seeds of a group together."""
    time = key == "wait"
    pooled = [np.concatenate([m.run.wait_s if time else m.run.bounded_slowdown for m in g.members]) for g in groups]
    column = "wait_s" if time else "bounded_slowdown"
    columns = {"share": waiting.SHARES}
    columns |= {f"{column}_{k}": waiting.quantiles(values) for k, values in enumerate(pooled)}
    read = words.span if time else words.figures
    means = [(g.label, float(v.mean())) for g, v in zip(groups, pooled, strict=True) if len(v)]
    best, worst = min(means, key=lambda m: m[1]), max(means, key=lambda m: m[1])
    what = "wait" if time else "bounded slowdown"
    says = (
        f"Further left is better. The mean {what} runs from {read(best[1])} ({best[0]}) "
        f"to {read(worst[1])} ({worst[0]})."
    )
    return Figure(
        key,
        "Waiting time" if time else "Bounded slowdown",
        says,
        Axis("waiting time, logarithmic" if time else "bounded slowdown, logarithmic"),
        Axis("share of jobs", "%", 0.01),
        columns,
        {"share": "share of jobs", **{f"{column}_{k}": g.label for k, g in enumerate(groups)}},
        {"labels": [g.label for g in groups], "column": column},
    )


def pareto(groups: Sequence[Group]) -> Figure | None:
    """Energy against mean turnaround, a point a group with its intervals; None where figures are missing."""
    points = [(g, _mean(g, "turnaround_s_mean"), _mean(g, "machine_energy_j")) for g in groups]
    known = [(g, x, y) for g, x, y in points if x is not None and y is not None]
    if not known:
        return None
    x, y = np.array([p[1].mean for p in known]), np.array([p[2].mean for p in known])
    best = undominated(x, y)
    labels = [p[0].label for p in known]
    scale_x, unit_x = words.span_unit(float(x.max()))
    scale_y, prefix = words.prefix_of(float(y.max()) / 3_600)
    alike = all(np.ptp(values[best]) <= 1e-9 * abs(values[best]).max() for values in (x, y))
    says = pareto_says(labels, best, alike=alike)
    return Figure(
        "pareto",
        "Energy against turnaround",
        says,
        Axis("mean turnaround", unit_x, scale_x),
        Axis("energy of the machine", f"{prefix}Wh", scale_y * 3_600),
        {
            "group": np.array(labels, object),
            "turnaround_s": x,
            "turnaround_half_s": np.array([p[1].half or 0.0 for p in known]),
            "machine_energy_j": y,
            "machine_energy_half_j": np.array([p[2].half or 0.0 for p in known]),
            "undominated": best.astype(np.int32),
        },
        {"group": "group", "turnaround_s": "mean turnaround", "machine_energy_j": "energy of the machine"},
        {
            "runs": [
                [k, m.metrics["turnaround_s_mean"], m.metrics["machine_energy_j"]]
                for k, (g, _, _) in enumerate(known)
                for m in g.members
                if m.metrics.get("turnaround_s_mean") is not None and m.metrics.get("machine_energy_j") is not None
            ]
        },
    )


def _mean(group: Group, name: str) -> Estimate | None:
    values = [float(v) for m in group.members if isinstance(v := m.metrics.get(name), (int, float))]
    return estimate(values) if values else None


def undominated(x: Floats, y: Floats) -> np.ndarray:
    """Points that no other point betters in one figure without losing in the other. Shape (n,) bool."""
    worse = (x[None, :] <= x[:, None]) & (y[None, :] <= y[:, None])
    strict = (x[None, :] < x[:, None]) | (y[None, :] < y[:, None])
    return np.asarray(~(worse & strict).any(axis=1))


def pareto_says(labels: Sequence[str], best: np.ndarray, *, alike: bool = False) -> str:
    """Who lies on the front; ``alike`` where all of them lie on one point of it."""
    front = [label for label, on in zip(labels, best, strict=True) if on]
    if len(front) == 1:
        return f"Lower left is better. In the means, {front[0]} needs least energy and least time of all."
    named = ", ".join(front[:-1]) + f" and {front[-1]}"
    if alike:
        return f"Lower left is better. {named} need the same energy and time; nothing needs less of either."
    rest = "nothing lies behind them" if len(front) == len(labels) else "the others cost more of both than one of these"
    return f"Lower left is better. {named} trade energy for time; {rest}."
