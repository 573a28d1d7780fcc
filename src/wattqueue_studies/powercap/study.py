"""The whole campaign of paper 4, on ten traces: thirty workloads of each, thirteen caps, five estimators, and EASY.

1,950 simulations and 30 baselines for each trace and each figure of idle watts, run as a campaign
(``wattqueue.campaign``): finished runs are kept in a folder, and the same call resumes after a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.campaign.shared import Shared
from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import estimate
from wattqueue.report.document import Block
from wattqueue_studies.frame.claim import ClaimTable, known
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.report import Progress, StudyReport
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.powercap import tables
from wattqueue_studies.powercap.cell import (
    ARTEFACT_IDLE_W,
    CAPPED_S,
    CAPS_PERCENT,
    IDLE_W,
    MEAN,
    POLICIES,
    REAL_MEAN,
    PowercapCell,
    easy_cells,
)
from wattqueue_studies.powercap.frontier import Frontier, FrontierStudy
from wattqueue_studies.powercap.prepare import Prepared, WorkloadSelection, prepare_traces
from wattqueue_studies.powercap.runs import ALL, BINDING, COLUMNS, KEPT, PowercapRuns, over_traces, pooled, run_traces
from wattqueue_studies.powercap.tables import pictures

TOLD = published("wattqueue_studies.powercap")
"""What the paper prints (claims.toml)."""
BY_CAP = ("unused_percent", "turnaround_change_percent", "excess_percent")
"""Figures that are shown by cap."""
TRACES = 10
"""Traces of the campaign."""

Runs = Mapping[float, Sequence[PowercapRuns]]
"""Runs of every trace, by idle watts of a node."""


@dataclass(frozen=True, slots=True)
class PowercapStudy:
    """The study of paper 4, sections 5, 6.4 and 6.5, Figures 4 and 5.

    Attributes:
        folder: Keeps workloads and finished runs.
        choice: How the workloads of a trace are chosen; its seed is that of the first trace.
        traces: Traces, with seeds that follow each other.
        policies: Names of the policies.
        caps: Caps in percent of the highest dynamic power.
        idle_w: Idle watts of a node, one figure after the other; claims are judged with the first.
        workers: Processes, None for one per core.
        frontier: Other admission rules on traces of their own, None to leave them out.
    """

    folder: Path
    choice: WorkloadSelection = field(default_factory=WorkloadSelection)
    traces: int = TRACES
    policies: Sequence[str] = POLICIES
    caps: Sequence[float] = CAPS_PERCENT
    idle_w: Sequence[float] = (IDLE_W, ARTEFACT_IDLE_W)
    workers: int | None = None
    frontier: FrontierStudy | None = None

    def simulate(self, progress: Progress | None = None) -> Runs:
        """Prepare the workloads and run the campaign.

        Raises: CampaignError, also for a trace with too few busy hours; OutputError.
        """
        shared = Shared(self.folder)
        made = prepare_traces(self.choice, self.traces, shared, self.policies, self.workers)
        cells = [
            (choice, prepared, cells_of(prepared, self.policies, self.caps, idle_w))
            for idle_w in self.idle_w
            for choice, prepared in made
        ]
        runs = run_traces(cells, shared, self.workers, progress)
        count = len(made)
        return {idle_w: runs[k * count : (k + 1) * count] for k, idle_w in enumerate(self.idle_w)}

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Run the campaign and compare it with the paper, then the frontier if it is asked for."""
        found = self.simulate(progress)
        return report(found, None if self.frontier is None else self.frontier.run(progress))


def cells_of(
    prepared: Prepared, policies: Sequence[str], caps: Sequence[float], idle_w: float = IDLE_W
) -> list[PowercapCell]:
    """Return the grid of a trace, workload by workload, so that a worker opens few of them.

    The baseline of a workload comes first: every change of turnaround is relative to it.
    """
    cells = []
    for base in easy_cells(prepared.trace, idle_w):
        known = {p: prepared.ledger_options(p, base.window) for p in policies}
        cells.append(base)
        cells += [PowercapCell(prepared.trace, base.window, p, cap, known[p], idle_w) for cap in caps for p in policies]
    return cells


POINTS = {
    "unused_percent": "unused_over_real_points",
    "turnaround_change_percent": "turnaround_over_real_points",
}
"""Figures of mean that are compared with those of real mean, in points."""


def claims(runs: Sequence[PowercapRuns]) -> ClaimTable:
    """Return the published figures beside ours; the JSON also has ours without the workloads left out."""
    every, kept = (with_points(over_traces(runs, which)) for which in (ALL, KEPT))
    shown = {(policy, metric) for _, policy, metric in every.values}
    told = replace(TOLD, claims=[c for c in TOLD.claims if (c.policy, c.metric) in shown])
    table, fewer = told.judge(every), told.judge(kept)
    rows = [
        replace(row, more={**row.more, "without_left_out": known(other.ours)["ours"]})
        for row, other in zip(table.rows, fewer.rows, strict=True)
    ]
    return replace(table, rows=rows)


def with_points(samples: Samples) -> Samples:
    """Return the same means, with those of mean less those of real mean where both were run, in points."""
    values = dict(samples.values)
    for which in samples.settings:
        for metric, name in POINTS.items():
            pair = [values.get((which, policy, metric)) for policy in (MEAN, REAL_MEAN)]
            if pair[0] is not None and pair[1] is not None:
                values[which, MEAN, name] = pair[0] - pair[1]
    return samples.with_values(values)


def report(found: Runs, frontier: Frontier | None = None) -> StudyReport:
    """Return what the runs show; ``frontier`` has other rules, on other traces."""
    first, runs = next(iter(found.items()))
    means = {(idle_w, which): over_traces(own, which) for idle_w, own in found.items() for which in (ALL, BINDING)}
    every = pooled(runs)
    parts: list[Block] = [
        tables.beside(TOLD, means),
        tables.averages(means[first, ALL], f"All groups of {len(runs)} traces, idle {first:g} W (%)"),
        tables.averages(means[first, BINDING], f"Groups whose cap binds ({tables.share(runs)}), idle {first:g} W (%)"),
        tables.by_trace(runs),
        *(tables.by_cap(every, metric, TOLD.labels[metric]) for metric in BY_CAP),
    ]
    return TOLD.report(
        claims(runs),
        about=about(runs),
        lede=lede(means[first, ALL]),
        parts=parts,
        more=frontier.parts() if frontier else (),
        simulated=[over_traces(runs)],
        figures=figures(found) | ({"frontier": frontier.document()} if frontier else {}),
        drawn=[*pictures(runs, every), *(frontier.pictures() if frontier else ())],
    )


def about(runs: Sequence[PowercapRuns]) -> str:
    """Return what was simulated, in sentences."""
    choice, caps = runs[0].choice, len(runs[0].samples.settings)
    sizes = [n for run in runs for n in run.prepared.window_jobs]
    asked = [n for run in runs for n in run.prepared.nodes_asked]
    jobs = [run.prepared.jobs for run in runs]
    seeds = f"{choice.seed} to {runs[-1].choice.seed}" if len(runs) > 1 else f"{choice.seed}"
    return (
        f"EASY+PC on {len(runs)} generated traces (marconi, {min(jobs):,} to {max(jobs):,} jobs in "
        f"{choice.trace_days:g} days, load {choice.load:g}, seeds {seeds}), {choice.workloads} windows of each, "
        f"{caps} caps. A window has {choice.days:g} days, {min(sizes):,} to {max(sizes):,} jobs; it begins at a full "
        f"hour, drawn at random, at which jobs in the system requested {choice.machines:g} times the machine's nodes "
        f"or more ({min(asked):,.0f} to {max(asked):,.0f} nodes); all of them wait. The cap is on for "
        f"{CAPPED_S / 3600:g} hours."
    )


def lede(means: Samples) -> str:
    """Return the result in one sentence (HTML)."""
    each = []
    for policy in means.policies[:3]:
        unused, cost = (estimate(means.grid(policy, m).mean(axis=1)).mean for m in BY_CAP[:2])
        costs = "" if np.isnan(cost) else f" and costs {cost:+.0f} % of turnaround"
        each.append(f"**{escape(policy)}** leaves {unused:.0f} % of the cap unused{costs}")
    return f"Under a cap on the first three hours, {'; '.join(each)}."


def figures(found: Runs) -> dict[str, Any]:
    """Return the figures for JSON: workloads, averages over traces, and every run without its quantiles of power."""
    runs = next(iter(found.values()))
    averages = [
        {
            "idle_w": idle_w, "groups": which, "policy": policy,
            **{m: _documented(means.of(which, policy, m)) for m in COLUMNS},
        }
        for idle_w, own in found.items()
        for which in (ALL, BINDING, KEPT)
        for means in [over_traces(own, which)]
        for policy in means.policies
    ]  # fmt: skip
    return {
        "traces": [tables.workloads(run) for run in runs],
        "averages": averages,
        "runs": [
            {key: value for key, value in row.items() if key != "power_w_quantiles"} | {"seed": run.choice.seed}
            for own in found.values()
            for run in own
            for row in run.rows
        ],
    }


def _documented(values: Floats) -> dict[str, Any]:
    """Return a figure for JSON: its mean over the traces that have it, with its interval, and that of each trace."""
    known = values[np.isfinite(values)]
    mean = estimate(known).document() if len(known) else {"mean": None, "low": None, "high": None}
    return mean | {"traces": [value if np.isfinite(value) else None for value in values.tolist()]}
