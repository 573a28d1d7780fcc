"""Write the page of a campaign: curves against the cap, energy against turnaround, spread over runs, and the table.

Input are the rows of results.parquet as plain mappings. Rows with equal machine, policy, estimator and cap form a
*group*; its figures are means over workloads and seeds. A figure appears only where the campaign has something to show
in it: curves need at least two caps on one machine, boxes at least three runs per group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.campaign.cell import WITHOUT_EFFECT
from wattqueue.model.comparability import WorkDone, alike, gate_of_groups
from wattqueue.model.jobs import Floats
from wattqueue.policy.oracles import marked
from wattqueue.report import metric_table, words
from wattqueue.report.compare.stats import Estimate
from wattqueue.report.document import Document, Figures, Table
from wattqueue.report.figure import Axis, Drawn, Figure, equal_sentence, finite_max
from wattqueue.report.figures import boxes, pareto
from wattqueue.version import __version__

AXES = ("machine", "policy", "estimator", "cap")
"""Columns of results.parquet that make a configuration."""
METRICS = (
    *("jobs_never_ran", "all_wait_s_mean", "wait_s_mean", "node_wait_s_mean", "wait_s_p95", "turnaround_s_mean"),
    "bounded_slowdown_mean",
    *("utilization", "machine_energy_j", "energy_per_node_h_j", "power_utilization", "cap_overshoot_w", "cap_over_s"),
    *("stranded_waiting_share", "racks_a_job_mean", "fragmented_gpus_mean"),
)
"""Columns of the table; one without any value is left out, and so are the first two where they say nothing."""
SHORT = (
    *("jobs_never_ran", "all_wait_s_mean", "wait_s_mean", "node_wait_s_mean", "bounded_slowdown_mean", "utilization"),
    *("power_utilization", "cap_overshoot_w"),
)
"""Columns of the table in a terminal."""
TRUTH_SHORT = (*SHORT[:-2], "machine_energy_j", *SHORT[-2:])
"""The same where files say what jobs truly draw: energy is what policies differ in then."""
HOLLOW = (
    "Hollow points: some jobs never ran there; those that were not rejected count with their wait up to the end of the "
    "run, at least."
)
LOG_RATIO = 20.0
"""Waits of several configurations that span more than this factor are drawn on a logarithmic axis."""
MOST_POINTS = 30
"""Groups up to which energy against turnaround can be read."""
MOST_BOXES = 24
"""Groups up to which box plots can be read."""
BOX_RUNS = 3
"""Fewest runs of which quartiles say anything."""

ResultRow = Mapping[str, Any]
"""One run: a row of results.parquet."""


@dataclass(frozen=True, slots=True, eq=False)
class CampaignGroup:
    """Runs of one cell of the grid, over its workloads and seeds.

    Attributes:
        axes: Machine, policy, estimator and cap, as text.
        cap_w: The cap in watts, ``inf`` without one; NaN for a series of caps.
        rows: The runs.
    """

    axes: tuple[str, ...]
    cap_w: float
    rows: tuple[ResultRow, ...]

    @property
    def oracle(self) -> str:
        """Return the parts that know the future, by name; empty for none."""
        return str(self.rows[0].get("oracle") or "")

    @property
    def works(self) -> dict[tuple[str, ...], WorkDone]:
        """Return the work of each run by workload and seed; a second run of the same inputs has a number of its own."""
        found: dict[tuple[str, ...], WorkDone] = {}
        for row in self.rows:
            key = (str(row.get("workload", "")), str(row.get("seed", "")))
            again = sum(known[:2] == key for known in found)
            found[(*key, str(again))] = WorkDone.of_row(row)
        return found

    @property
    def work(self) -> WorkDone:
        """Return how many jobs of all runs never ran, and why."""
        return WorkDone.total(self.works.values())

    @property
    def whole(self) -> bool:
        """Return whether each run ran all jobs that it did not reject."""
        return all(work.whole for work in self.works.values())

    def values(self, metric: str) -> Floats:
        """Return a metric of all runs, NaN where a run lacks it. Shape (runs,)."""
        found = [row.get(metric) for row in self.rows]
        return np.array([np.nan if v is None else float(v) for v in found])

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over the runs that have it, NaN where none has."""
        values = self.values(metric)
        good = values[np.isfinite(values)]
        return float(good.mean()) if len(good) else float("nan")

    @property
    def means(self) -> dict[str, float]:
        """Return the means of the metrics of the table."""
        return {metric: self.mean(metric) for metric in METRICS}


def groups_of(rows: Sequence[ResultRow]) -> list[CampaignGroup]:
    """Return the groups of a campaign in the order of their first runs, which is the order of the grid."""
    found: dict[tuple[str, ...], list[ResultRow]] = {}
    for row in rows:
        found.setdefault(tuple(str(row.get(axis, "")) for axis in AXES), []).append(row)
    return [CampaignGroup(axes, _cap_w(members[0]), tuple(members)) for axes, members in found.items()]


def _cap_w(row: ResultRow) -> float:
    """Return the constant cap of a run: ``inf`` without one, NaN for a series."""
    if str(row.get("cap", "none")) == "none":
        return float("inf")
    value = row.get("cap_w")
    return float(value) if isinstance(value, (int, float)) else float("nan")


def html(rows: Sequence[ResultRow], name: str) -> str:
    """Return the page of a campaign.

    Args:
        rows: One mapping per run, as results.parquet has them: the axes of the grid, ``cap_w``, and metrics by name.
        name: Name of the campaign's file, for the heading.
    """
    groups = groups_of(rows)
    workloads = dict.fromkeys(str(row.get("workload", "")) for row in rows)
    machines = dict.fromkeys(group.axes[0] for group in groups)
    return Document(
        title=f"Campaign {name}",
        eyebrow="  ·  ".join(word for word in [*list(workloads)[:3], *list(machines)[:3]] if word),
        lede=lede(groups, len(rows)),
        blocks=[Figures(pictures(groups)), table(groups)],
        footer=f"Made by WattQueue {__version__}: `wattqueue campaign`.",
        links=(("table", "Table"),),
    ).html()


def lede(groups: Sequence[CampaignGroup], runs: int) -> str:
    """Return the campaign in a few sentences: its size, jobs that never ran, and the range of the mean waits.

    The range is over the configurations that did the same work.
    """
    waits = [(group.mean("wait_s_mean"), _label(group, groups, cap=True)) for group in comparable(groups)]
    known = sorted((wait, label) for wait, label in waits if np.isfinite(wait))
    first = f"**{words.count(runs, 'run')}** of {words.count(len(groups), 'configuration')}."
    first += "".join(f" **{said}**" for said in not_comparable(groups))
    if len(known) < 2:
        return first
    (low, best), (high, worst) = known[0], known[-1]
    return (
        f"{first} {_among(known, groups)} ranges from **{words.span(low)}** ({best}) to "
        f"**{words.span(high)}** ({worst})."
    )


def _among(known: Sequence[object], groups: Sequence[CampaignGroup]) -> str:
    """Return whose mean wait a sentence is about: of all configurations, or of those that did the same work."""
    same = f" of the {len(known)} configurations that did the same work"
    return f"The mean wait{'' if len(known) == len(groups) else same}"


def comparable(groups: Sequence[CampaignGroup]) -> list[CampaignGroup]:
    """Return the groups that did the same work as the first one that did all of its own; empty for fewer than two."""
    return [groups[k] for k in alike([group.works for group in groups])]


def _of_one_work(groups: Sequence[CampaignGroup]) -> list[CampaignGroup]:
    """Return the groups whose figures one picture may hold: those that may be compared, else the first whole one."""
    return comparable(groups) or [group for group in groups if group.whole][:1]


def mean_falls(groups: Sequence[CampaignGroup]) -> bool:
    """Return whether a cap lowers the mean wait of a configuration and raises the one by nodes."""
    plain = {group.axes[:-1]: group for group in groups if np.isinf(group.cap_w)}
    pairs = [(plain[group.axes[:-1]], group) for group in groups if group.axes[:-1] in plain]
    return any(metric_table.mean_falls(a.means, b.means, gate_of_groups(a.works, b.works)) for a, b in pairs)


def not_comparable(groups: Sequence[CampaignGroup]) -> list[str]:
    """Return what is said of the groups that may not be compared: the two with most jobs that never ran, and others."""
    found = sorted(((group.work, group) for group in groups if group.work.text), key=lambda pair: -pair[0].never_ran)
    if not found or len(comparable(groups)) == len(groups):
        return []
    said = "; ".join(f"{_label(group, groups, cap=True)}: {work.text}" for work, group in found[:2])
    more = f"; {words.count(len(found) - 2, 'more configuration')}" if len(found) > 2 else ""
    return [f"Not comparable: {said}{more}."]


def _label(group: CampaignGroup, groups: Sequence[CampaignGroup], *, cap: bool) -> str:
    """Return what tells a group apart from the others: the axes of the grid that have several values.

    ``cap`` says whether the cap is one of them; curves against the cap leave it out. A grid of one configuration is
    called by its policy.
    """
    last = len(AXES) if cap else len(AXES) - 1
    several = [k for k in range(last) if len({g.axes[k] for g in groups}) > 1] or [1]
    return marked(", ".join(group.axes[k] for k in several), group.oracle)


def pictures(groups: Sequence[CampaignGroup]) -> list[Drawn]:
    """Return the figures of a campaign with their kinds, in the order of the page.

    Up to four curves against the cap (wait, bounded slowdown, energy, time over the cap), energy against turnaround,
    and the spread over runs. What the campaign has no values for is left out, so a page never has an empty chart.
    """
    found: list[Drawn] = []
    caps = capped(groups)
    if caps is not None:
        curves = [("all_wait_s_mean", "wait", "span"), ("bounded_slowdown_mean", "slowdown", "number")]
        curves += [("machine_energy_j", "energy", "energy"), ("cap_over_s", "above", "span")]
        drawn = [curve(groups, caps, metric, key, reads) for metric, key, reads in curves]
        small = "capcurve-small"
        found = [(f, small if k else "capcurve") for k, f in enumerate(f for f in drawn if f is not None)]
    front = trade_off(groups)
    if front is not None:
        found.append((front, "pareto"))
    spread = spread_of_waits(groups)
    return found if spread is None else [*found, (spread, "boxes")]


def capped(groups: Sequence[CampaignGroup]) -> list[CampaignGroup] | None:
    """Return one group per constant cap, lowest first; None for fewer than two caps, or several machines.

    Caps of several machines are not comparable in watts, and their shares of a maximum not in one unit.
    """
    by_watts = {group.cap_w: group for group in groups if np.isfinite(group.cap_w)}
    if len(by_watts) < 2 or len({group.axes[0] for group in groups}) > 1:
        return None
    return [by_watts[watts] for watts in sorted(by_watts)]


def curve(
    groups: Sequence[CampaignGroup], caps: Sequence[CampaignGroup], metric: str, key: str, reads: str
) -> Figure | None:
    """Return a metric against the cap, one curve per configuration; None where no run has the metric.

    Args:
        groups: All groups.
        caps: One group per cap, lowest first (``capped``).
        metric: Name of the metric.
        key: Key of the figure.
        reads: How values are printed: ``span``, ``number`` or ``energy`` (``CAP_READERS`` in whatif.js).

    A configuration without a run at some cap has a gap there. Where jobs never ran, a wait over all jobs is a hollow
    point, since it is a lower bound; other metrics have a gap where other work was done. The run without a cap is a
    dashed line.
    """
    bounds = metric.startswith(metric_table.BOUNDS)
    labels = list(dict.fromkeys(_label(group, groups, cap=False) for group in groups))
    shown = groups if bounds else _of_one_work(groups)
    at = {(_label(group, groups, cap=False), group.cap_w): group.mean(metric) for group in shown}
    left = {(_label(group, groups, cap=False), group.cap_w): group.work.never_ran for group in groups}
    values = [np.array([at.get((label, cap.cap_w), np.nan) for cap in caps]) for label in labels]
    every = np.concatenate(values)
    if not np.isfinite(every).any():
        return None
    plain = [at.get((label, np.inf), np.nan) for label in labels]
    good = np.maximum(every[np.isfinite(every)], 1.0)
    log = (
        metric != "cap_over_s"
        and reads != "energy"
        and len(labels) > 1
        and float(good.max()) > LOG_RATIO * float(good.min())
    )
    scale, prefix = words.prefix_of(max(cap.cap_w for cap in caps))
    name = metric_table.label(metric)
    lower = f"{name[:1].lower()}{name[1:]}{', logarithmic' if log else ''}"
    columns: dict[str, NDArray[Any]] = {"cap_w": np.array([cap.cap_w for cap in caps])}
    columns |= {f"value_{k}": column for k, column in enumerate(values)}
    heads = {"cap_w": "cap"} | {f"value_{k}": label for k, label in enumerate(labels)}
    lost = [[left.get((label, cap.cap_w), 0) if bounds else 0 for cap in caps] for label in labels]
    equal = equal_sentence(labels, [[column] for column in values])
    hollow = HOLLOW if any(map(any, lost)) else ""
    says = " ".join(filter(None, ("Mean over workloads and seeds.", hollow, equal)))
    return Figure(
        key, f"{name} against the cap", says, Axis("cap", f"{prefix}W", scale),
        _value_axis(lower, every, reads), columns, heads,
        {
            "labels": labels, "texts": [cap.axes[3] for cap in caps], "reads": reads, "marks": [], "log": log,
            "plain": [None if np.isnan(v) else v for v in plain] if np.isfinite(plain).any() else None,
            "never_ran": lost, "amount": reads == "energy",
        },
    )  # fmt: skip


def _value_axis(name: str, values: Floats, reads: str) -> Axis:
    """Return the vertical axis of a metric with the unit that suits its largest value."""
    if reads == "energy":
        scale, prefix = words.prefix_of(finite_max(values) / 3_600)
        return Axis(name, f"{prefix}Wh", scale * 3_600)
    if reads == "span":
        scale, unit = words.wait_unit(finite_max(values))
        return Axis(name, unit, scale)
    return Axis(name)


def trade_off(groups: Sequence[CampaignGroup]) -> Figure | None:
    """Return energy against mean turnaround, one point per group; None for too few or too many groups.

    Groups that did other work than the others are left out. Points are means over workloads and seeds. Intervals are
    not drawn: a campaign mixes workloads, whose spread is no measure of confidence; ``compare`` has them for runs that
    differ in their seed alone.
    """
    same = comparable(groups)
    known = [g for g in same if np.isfinite(g.mean("turnaround_s_mean")) and np.isfinite(g.mean("machine_energy_j"))]
    if not 2 <= len(known) <= MOST_POINTS:
        return None
    x, y = ([Estimate(len(g.rows), g.mean(m)) for g in known] for m in ("turnaround_s_mean", "machine_energy_j"))
    return pareto.figure([_label(group, groups, cap=True) for group in known], x, y, rows="configuration")


def spread_of_waits(groups: Sequence[CampaignGroup]) -> Figure | None:
    """Return the spread of the mean waits over workloads and seeds; None for too few runs or too many groups."""
    same = [group for group in _of_one_work(groups) if len(group.rows) >= BOX_RUNS]
    found = {_label(g, groups, cap=True): g.values("wait_s_mean") for g in same}
    if not 1 <= len(found) <= MOST_BOXES:
        return None
    scale, unit = words.wait_unit(max(finite_max(values) for values in found.values()))
    return boxes.figure(
        "spread",
        "Spread over runs",
        "Mean waits of the runs of each configuration: how much workload and seed decide.",
        Axis("waiting time, mean", unit, scale),
        {label: boxes.Box.of(values) for label, values in found.items()},
        rows="configuration",
    )


def table(groups: Sequence[CampaignGroup]) -> Table:
    """Return one row per group with its means.

    Only axes of the grid with more than one value are columns; metrics without any value are left out.
    """
    several, shown = _several(groups), _shown(groups, METRICS)
    heads = [AXES[k].capitalize() for k in several] + ["Runs", *(metric_table.label(metric) for metric in shown)]
    rows = [
        [*_axes(group, several), f"{len(group.rows):,}", *(_cell(group, metric) for metric in shown)]
        for group in groups
    ]
    kinds = [""] * len(several) + ["n"] * (len(heads) - len(several))
    said = ["Means over workloads and seeds. results.parquet has every run with all metrics."]
    note = " ".join([*said, *[metric_table.MAY_FALL] * mean_falls(groups), *without_effect(groups)])
    return Table(heads, rows, "All configurations", note, key="table", kinds=kinds)


def without_effect(groups: Sequence[CampaignGroup]) -> list[str]:
    """Return a sentence for each policy and each of its parts that could not act, with the number of its runs."""
    runs: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for row in (row for group in groups for row in group.rows):
        policy = f"{row.get('policy', '')}, {row['estimator']}" if row.get("estimator") else str(row.get("policy", ""))
        runs[policy] += 1
        found.update((policy, said) for said in str(row.get(WITHOUT_EFFECT) or "").splitlines())
    return [
        f"{policy}: {said}" + ("." if count == runs[policy] else f", in {count:,} of {runs[policy]:,} runs.")
        for (policy, said), count in found.items()
    ]


def summary(groups: Sequence[CampaignGroup], title: str) -> Document:
    """Return the main means of each group for a terminal, in one unit a column."""
    stated = any(row.get("physics") is not None for group in groups for row in group.rows)
    several, shown = _several(groups), _shown(groups, TRUTH_SHORT if stated else SHORT)
    units = {m: _unit_of(m, max(mean for g in groups if np.isfinite(mean := g.mean(m)))) for m in shown}
    names = (f"{metric_table.label(m)}{f' ({unit})' if unit else ''}" for m, (_, unit) in units.items())
    rows = [
        [*_axes(group, several), str(len(group.rows)), *(_figure(group, m, scale) for m, (scale, _) in units.items())]
        for group in groups
    ]
    heads = [*(AXES[k] for k in several), "runs", *names]
    kinds = [*[""] * len(several), *["n"] * (len(heads) - len(several))]
    falls = [metric_table.MAY_FALL] * mean_falls(groups)
    said = [f"Note: {each}" for each in without_effect(groups)]
    return Document(title=title, blocks=[Table(heads, rows, title, kinds=kinds), *falls, *said])


def _figure(group: CampaignGroup, metric: str, scale: float) -> str:
    """Return a mean in a unit, a dash where no run has it; jobs that never ran are a sum."""
    value = float(group.work.never_ran) if metric == SHORT[0] else group.mean(metric)
    bound = any(metric_table.is_bound(metric, row) for row in group.rows)
    return "–" if np.isnan(value) else metric_table.at_least(words.figures(value / scale), bound=bound)


def _unit_of(metric: str, largest: float) -> tuple[float, str]:
    """Return the scale and the unit in which a column is printed, from its largest value.

    Shares are percent, waits in hours, minutes or seconds, watts with a prefix; everything else is a pure number.
    Values are divided by the scale before printing. One unit per column keeps values comparable: the largest one
    decides. ``metric`` is a name of docs/semantics.md.
    """
    if metric in metric_table.SHARES:
        return 0.01, "%"
    if metric.endswith("_energy_j"):
        scale, prefix = words.prefix_of(largest / 3_600.0)
        return 3_600.0 * scale, f"{prefix}Wh"
    if "wait_s_" in metric:
        return words.wait_unit(largest)
    if metric.endswith("_w"):
        scale, prefix = words.prefix_of(largest)
        return scale, f"{prefix}W"
    return 1.0, ""


def _several(groups: Sequence[CampaignGroup]) -> list[int]:
    """Return the axes of the grid with more than one value; the policy where there is none."""
    return [k for k in range(len(AXES)) if len({g.axes[k] for g in groups}) > 1] or [1]


def _shown(groups: Sequence[CampaignGroup], metrics: Sequence[str]) -> list[str]:
    """Return the metrics of a table: without those that no run has, a count of 0, and a bound that is none."""
    count, wait = metrics[:2]
    says = {
        count: any(group.work.never_ran for group in groups),
        wait: any(metric_table.is_bound(wait, row) for group in groups for row in group.rows),
    }
    return [m for m in metrics if says.get(m, True) and any(np.isfinite(group.mean(m)) for group in groups)]


def _axes(group: CampaignGroup, several: Sequence[int]) -> list[str]:
    """Return the values of a group on some axes; the first says whether its policy knows the future."""
    return [marked(group.axes[several[0]], group.oracle), *(group.axes[k] for k in several[1:])]


def _cell(group: CampaignGroup, metric: str) -> str:
    """Return the mean of a metric as text, empty where no run has it."""
    if metric == "jobs_never_ran":
        return f"{group.work.never_ran:,} of {group.work.jobs:,}" if group.work.never_ran else "0"
    mean = group.mean(metric)
    bound = any(metric_table.is_bound(metric, row) for row in group.rows)
    return "" if np.isnan(mean) else metric_table.at_least(metric_table.readable(metric, mean), bound=bound)
