"""Figures of a comparison, with all groups in each.

Over time: power, queue, utilization. Distributions: waits, bounded slowdowns. One point per group: energy against
turnaround.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.model.steps import Steps
from wattqueue.report import words
from wattqueue.report.compare.groups import Group
from wattqueue.report.compare.stats import Estimate, estimate
from wattqueue.report.figure import SCOPE_WORDS, Axis, Figure, axis_of_time, equal_sentence, finite_max, power_axis
from wattqueue.report.figures import pareto, queue, waiting
from wattqueue.report.run import RunData

BINS = 2_400
"""Bins over time that all runs of a comparison share."""
UNFINISHED = "Waiting jobs; those that never ran wait to the end of the run."
LOWER_BOUND = "Jobs that never ran count up to the end of the run: their true values lie further right."
Curve = Callable[[RunData], Steps]
"""Returns a series of a run."""


def overlay(
    groups: Sequence[Group], key: str, title: str, says: str, curve: Curve, y: Axis | None = None, caps: bool = False
) -> Figure:
    """Return one curve per group over time since the first submission; its seeds as a band from min to max.

    All runs share ``BINS`` bins of equal length, so that values at one time can be averaged over seeds; a run
    contributes until its end. The axis has dates only where all runs begin at the same one.

    Args:
        groups: Groups of runs.
        key: Key of the figure.
        title: Title.
        says: Sentence; equal curves are added to it.
        curve: The series of a run that is drawn, its means over bins.
        y: Vertical axis; None for watts with the prefix that suits the highest value.
        caps: Whether the caps are drawn too.
    """
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
    labels = [group.label for group in groups]
    equal = equal_sentence(labels, [[columns[f"mean_{k}"]] for k in range(len(groups))])
    epoch = _shared_epoch(groups)
    extra = {"groups": shown, "end_s": length, "exact": False} | ({} if epoch is None else {"epoch_s": epoch})
    return Figure(key, title, f"{says} {equal}".strip(), axis_of_time(length, epoch), y, columns, heads, extra)


def _shared_epoch(groups: Sequence[Group]) -> float | None:
    """Return the Unix time of the first submission where all runs share it, else None: then no date fits all curves."""
    found = {run.epoch_s for _, run in _runs(groups)}
    return found.pop() if len(found) == 1 else None


def _runs(groups: Sequence[Group]) -> list[tuple[Group, RunData]]:
    """Return (group, run) for every run."""
    return [(group, member.run) for group in groups for member in group.members]


def _within(run: RunData, edge: Floats, curve: Curve) -> Floats:
    """Return a run's curve in common bins, NaN after its end."""
    values = curve(run).means(edge + run.first_s)
    return np.where(edge[:-1] < run.last_s - run.first_s, values, np.nan)


def _over_seeds(each: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, minimum and maximum over runs, NaN where none is left.

    ``each`` has shape (runs, bins) and NaN after the end of a run; returns shapes (bins,). The mean is over the runs
    that still run: later bins rest on fewer seeds.
    """
    there = np.isfinite(each)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, each, 0.0).sum(axis=0) / count
    # Runs that have ended are left out of minimum and maximum too, else the band would drop to 0 at the first end.
    low, high = np.where(there, each, np.inf).min(axis=0), np.where(there, each, -np.inf).max(axis=0)
    return mean, np.where(count > 0, low, np.nan), np.where(count > 0, high, np.nan)


def _add_caps(
    groups: Sequence[Group], edge: Floats, columns: dict[str, Floats], shown: list[dict[str, object]]
) -> None:
    """Add a column for each cap in force, only once where groups share it."""
    found: list[tuple[str, Floats]] = []
    for k, group in enumerate(groups):
        run = group.members[0].run
        if not len(run.caps_w):
            continue
        cap = run.cap.minima(edge + run.first_s)
        # Runs under one cap share its line: equal lines look like one, but cost data and entries of the key.
        same = next((name for name, other in found if np.array_equal(cap, other)), None)
        if same is None:
            same = f"cap_{k}"
            found.append((same, cap))
            columns[same] = cap
        shown[k]["cap"] = same


def power(groups: Sequence[Group], *, ranked: bool = True) -> Figure:
    """Return the power of all groups, and their caps; ``ranked`` where the sentence may say whose peak is the highest.

    Where groups have caps of different scopes the sentence says so: their curves then do not cover the same watts.
    """
    scopes = {run.cap_scope for _, run in _runs(groups)}
    scope = SCOPE_WORDS[scopes.pop()] if len(scopes) == 1 else "what each cap covers"
    peaks = [(g.label, max(m.run.power.maximum(*m.run.span_s) for m in g.members)) for g in groups]
    least, most = min(peaks, key=lambda p: p[1]), max(peaks, key=lambda p: p[1])
    peak = f"the highest peak is {words.watts(most[1])} ({most[0]}), the lowest {words.watts(least[1])} ({least[0]})"
    says = f"Power of {scope}, one curve per policy{f'; {peak}' if ranked else ''}."
    return overlay(groups, "power", "Power", says, attrgetter("power"), caps=True)


def waiting_jobs(groups: Sequence[Group], *, ranked: bool = True) -> Figure:
    """Return the queue length of all groups, means per bin; ``ranked`` where the sentence may name the longest."""
    most = {g.label: max(float(queue.queue_length(m.run).value.max()) for m in g.members) for g in groups}
    long = max(most, key=lambda label: most[label])
    says = f"Waiting jobs; the longest queue has {words.count(most[long], 'job')} ({long})." if ranked else UNFINISHED
    return overlay(groups, "queue", "Queue", says, queue.queue_length, Axis("jobs waiting"))


def utilization(groups: Sequence[Group]) -> Figure:
    """Return the busy share of units of all groups, means per bin; the axis ends at 100 %."""

    def curve(run: RunData) -> Steps:
        return Steps(run.busy.time_s, run.busy.value / run.units)

    says = "Share of units that run a job, one curve per policy."
    return overlay(groups, "utilization", "Utilization", says, curve, Axis("busy units", "%", 0.01))


def distribution(groups: Sequence[Group], key: str, *, ranked: bool = True) -> Figure:
    """Return the cumulative distribution of waits or bounded slowdowns of all groups; seeds of a group are pooled.

    Pooling weights every job equally. Intervals over seeds are in the table, which averages runs instead. Jobs that
    never ran are in the curves, with their wait up to the end of the run: a curve without them would lie too far left.
    ``ranked`` where the sentence may name the best and the worst mean.
    """
    time = key == "wait"
    pooled = [np.concatenate([m.run.waits_so_far(slowdown=not time) for m in g.members]) for g in groups]
    column = "wait_s" if time else "bounded_slowdown"
    columns = {"share": waiting.SHARES}
    columns |= {f"{column}_{k}": waiting.quantiles(values) for k, values in enumerate(pooled)}
    read = words.span if time else words.figures
    means = [(g.label, float(v.mean())) for g, v in zip(groups, pooled, strict=True) if len(v)]
    best, worst = min(means, key=lambda m: m[1]), max(means, key=lambda m: m[1])
    what = "wait" if time else "bounded slowdown"
    verdict = (
        f"Further left is better. The mean {what} ranges from {read(best[1])} ({best[0]}) "
        f"to {read(worst[1])} ({worst[0]}). "
    )
    equal = equal_sentence([g.label for g in groups], [[columns[f"{column}_{k}"]] for k in range(len(groups))])
    says = (f"{verdict}{equal}" if ranked else LOWER_BOUND).strip()
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


def trade_off(groups: Sequence[Group]) -> Figure | None:
    """Return energy against mean turnaround, one point per group with its intervals; None for fewer than two points.

    ``extra["runs"]`` holds single runs as [group, turnaround, energy].
    """
    points = [(g, _mean(g, "turnaround_s_mean"), _mean(g, "machine_energy_j")) for g in groups]
    known = [(g, x, y) for g, x, y in points if x is not None and y is not None]
    if len(known) < 2:
        return None
    runs = [
        [k, m.metrics["turnaround_s_mean"], m.metrics["machine_energy_j"]]
        for k, (g, _, _) in enumerate(known)
        for m in g.members
        if m.metrics.get("turnaround_s_mean") is not None and m.metrics.get("machine_energy_j") is not None
    ]
    return pareto.figure([g.label for g, _, _ in known], [x for _, x, _ in known], [y for _, _, y in known], runs=runs)


def _mean(group: Group, name: str) -> Estimate | None:
    """Return the mean of a metric over a group's runs with its interval, None where no run has it."""
    values = [float(v) for m in group.members if isinstance(v := m.metrics.get(name), (int, float))]
    return estimate(values) if values else None
