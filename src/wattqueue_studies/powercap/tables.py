"""The study's tables: printed figures beside ours, averages, every trace, and means by cap.

Figures 4 and 5 of the paper are drawn over all traces (``pictures``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.model.jobs import Floats
from wattqueue.policy.oracles import marked_policy
from wattqueue.policy.rows import published_rows
from wattqueue.report import words
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.frame.published import Published
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.powercap.cell import HIGHEST_DYNAMIC_W, MAX, MEAN, NAIVE, QUANTILES
from wattqueue_studies.powercap.runs import ALL, BINDING, COLUMNS, EXCESS_MEDIAN, KEPT, PowercapRuns, over_traces

BY_TRACE = (
    (NAIVE, "unused_percent"), (MAX, "unused_percent"), (MAX, "broken"), (MEAN, "unused_percent"), (MEAN, "broken"),
    (MEAN, "excess_percent"),
)  # fmt: skip
"""Figures that are shown trace by trace."""


def beside(told: Published, means: Mapping[tuple[float, str], Samples]) -> Table:
    """Return every printed figure beside ours, for each figure of idle watts and each choice of groups."""
    heads = ["", "printed", *(f"{idle_w:g} W\n{which}" for idle_w, which in means)]
    rows = []
    for one in (c for c in told.claims if c.metric in (*COLUMNS, EXCESS_MEDIAN)):
        name = f"{marked_policy(one.policy)}: {told.labels[one.metric]}"
        cells = [_cell(samples, which, one.policy, one.metric) for (_, which), samples in means.items()]
        rows.append([name, f"{one.claim.published:g}", *cells])
    return Table(heads, rows, "Printed figures beside ours, by idle watts of a node and groups (%)")


def averages(samples: Samples, title: str) -> Table:
    """Return the means of each policy with intervals over traces, the highest excess with its median too."""
    heads = ("policy", *COLUMNS.values(), "its median")
    (which,) = samples.settings
    found = [[_shown(p), *(_cell(samples, which, p, m) for m in (*COLUMNS, EXCESS_MEDIAN))] for p in samples.policies]
    return Table(heads, found, title)


def _shown(policy: str) -> str:
    """Return a policy's name, an oracle marked; measured ledgers with a margin are no rows of the table of policies."""
    return marked_policy(policy) if policy in published_rows() else policy


def _cell(samples: Samples, which: str, policy: str, metric: str) -> str:
    """Return a mean with its interval over the traces that have such a group; a dash where there is none."""
    values = samples.values.get((which, policy, metric), np.zeros(0))
    known = values[np.isfinite(values)]
    return with_interval(estimate(known), sign="") if len(known) else "–"


def share(runs: Sequence[PowercapRuns]) -> str:
    """Return how many of all groups have a cap that binds."""
    masks = [run.groups(BINDING) for run in runs]
    return f"{sum(int(m.sum()) for m in masks):,} of {sum(m.size for m in masks):,}"


def by_trace(runs: Sequence[PowercapRuns]) -> Table:
    """Return the headline figures of each trace, lowest and highest of them last."""
    means = over_traces(runs)
    columns = [means.of(ALL, p, m) for p, m in BY_TRACE if p in means.policies]
    heads = ["seed", *(f"{p.removeprefix('easy+pc-')}: {COLUMNS[m]}" for p, m in BY_TRACE if p in means.policies)]
    rows = [[f"{run.choice.seed}", *(f"{c[k]:.1f}" for c in columns)] for k, run in enumerate(runs)]
    rows += [[name, *(f"{of(c):.1f}" for c in columns)] for name, of in (("lowest", np.min), ("highest", np.max))]
    return Table(heads, rows, "Every trace, all groups (%)")


def by_cap(samples: Samples, metric: str, label: str) -> Table:
    """Return one figure of each policy by cap."""
    means = {marked_policy(p): samples.grid(p, metric).mean(axis=0) for p in samples.policies}
    rows = [[name, *(words.figures(float(v)) for v in row)] for name, row in means.items()]
    return Table(("policy", *samples.settings), rows, f"By cap (% of the highest dynamic power): {label}, %")


def workloads(run: PowercapRuns) -> dict[str, Any]:
    """Return how the workloads of a trace were made, for JSON."""
    made = run.prepared
    return {
        "origin": "generated", **asdict(run.choice), "trace_jobs": made.jobs, "begin_s": list(made.trace.begins_s),
        "jobs": list(made.window_jobs), "nodes_asked_at_begin": list(made.nodes_asked), "left_out": list(run.left_out),
    }  # fmt: skip


def pictures(runs: Sequence[PowercapRuns], samples: Samples) -> Iterator[Drawn]:
    """Yield Figure 4, one picture per policy, then Figure 5 without the workloads left out and with them, the excess.

    In Figure 4 a box left of its mark leaves power unused; the part of a box right of it is above the cap.
    ``samples`` are those of all windows.
    """
    caps = samples.settings
    rows = [row for run in runs for row in run.rows]
    for policy in samples.policies:
        drawn = boxes.figure(
            f"power-{policy.replace('+', '-')}",
            f"Figure 4: power under {marked_policy(policy)}",
            "Power above idle over the capped hours of all workloads, by cap; the triangle is the cap.",
            Axis("power", "% of the highest dynamic power"),
            {f"cap {cap} %": Box.of(pooled_percent(rows, policy, float(cap))) for cap in caps},
            published=[float(cap) for cap in caps],
            mark="cap",
            rows="cap",
        )
        yield drawn, "boxes"
    turnaround = "Mean turnaround of a workload under a cap against the same workload under EASY without one"
    kept = np.concatenate([run.groups(KEPT).any(axis=1) for run in runs])
    fewer = samples.take(np.flatnonzero(kept).tolist())
    cost, excess = Axis("change of mean turnaround", "%"), Axis("highest excess", "% of the cap")
    gone = f"{turnaround}, without the workload of each trace on which capping helps most."
    for key, title, says, shown, metric, axis in (
        ("turnaround-29", "Figure 5: cost in turnaround", gone, fewer, "turnaround_change_percent", cost),
        ("turnaround", "All workloads", f"{turnaround}.", samples, "turnaround_change_percent", cost),
        ("excess", "Highest excess", "Greatest power above the cap in a run.", samples, "excess_percent", excess),
    ):
        found = {marked_policy(p): Box.of(shown.grid(p, metric).ravel()) for p in shown.policies}
        yield boxes.figure(key, title, says, axis, found, rows="policy", from_zero=False), "boxes"


def pooled_percent(rows: Sequence[Row], policy: str, cap: float) -> Floats:
    """Return power of all workloads at one cap, in percent of the highest dynamic power. Shape (k,).

    Each run contributes the same number of values, interpolated from the quantiles that its row keeps.
    """
    runs = [r for r in rows if r["policy"] == policy and r["cap_percent"] == cap]
    at = np.linspace(0.005, 0.995, 100)
    read = [np.interp(at, QUANTILES, np.array(r["power_w_quantiles"], np.float64)) for r in runs]
    return 100.0 * np.concatenate(read) / HIGHEST_DYNAMIC_W
