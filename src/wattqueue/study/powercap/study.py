"""The whole campaign of paper 4: thirty workloads, thirteen caps, five estimators, and EASY without a cap.

1,950 simulations and 30 baselines, run as a campaign (``wattqueue.campaign``): finished runs are kept in a folder, and
the same call resumes after a stop. Every average gives each (workload, cap) run the same weight; intervals are over
workloads, the caps of one workload averaged first, since they are not independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.errors import EngineError
from wattqueue.policy.oracles import marked_policy
from wattqueue.report import words
from wattqueue.report.compare.stats import estimate
from wattqueue.report.document import Drawn
from wattqueue.report.figure import Axis
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue.study.frame.claim import ClaimTable
from wattqueue.study.frame.compare import Compared, ComparisonTable, points_change
from wattqueue.study.frame.published import published
from wattqueue.study.frame.report import Part, Progress, StudyReport
from wattqueue.study.frame.samples import Samples
from wattqueue.study.frame.table import Table, with_interval
from wattqueue.study.powercap.cell import (
    CAPPED_S,
    CAPS_PERCENT,
    EASY,
    HIGHEST_DYNAMIC_W,
    MEAN,
    POLICIES,
    QUANTILES,
    PowercapCell,
    easy_cells,
)  # fmt: skip
from wattqueue.study.powercap.prepare import Prepared, WorkloadSelection, prepare

TOLD = published("wattqueue.study.powercap")
"""What the paper prints (claims.toml)."""
LEFT_OUT = 1
"""Workloads left out of Figure 5: "powercapping greatly increases scheduling performance on it"."""
BEYOND = (
    "easy+pc-app", "easy+pc-even", "easy+pc-quantile-1", "easy+pc-quantile-0.1", "easy+pc-chance-1",
    "easy+pc-chance-0.1",
)  # fmt: skip
"""Policies that the paper does not have: admission by quantiles and by chance constraints."""
SIDES = {"under_percent": "left below", "excess_percent": "highest excess"}
"""Both sides of the cap: what was left below it, and the highest power above it. Mean power shows neither."""
SHOWN_POINTS = 0.005
"""Differences below this print as 0.00 and count as none."""
COLUMNS = {
    "unused_percent": "unused", "turnaround_change_percent": "turnaround", "under_percent": "left below",
    "over_percent": "above", "over_time_percent": "time above", "excess_percent": "highest excess",
    "broken": "runs above",
}  # fmt: skip
"""Figures of a policy in each run, in per cent, with the headings of the averages."""
BY_CAP = ("unused_percent", "turnaround_change_percent", "excess_percent")
"""Figures that are shown by cap."""


@dataclass(frozen=True, slots=True, eq=False)
class PowercapRuns:
    """Every run of one trace: how its workloads were chosen and made, the rows (baselines included), the figures."""

    choice: WorkloadSelection
    prepared: Prepared
    rows: list[Row]
    samples: Samples

    @property
    def left_out(self) -> tuple[int, ...]:
        """Return the workloads on which capping helps most: lowest mean change of turnaround over caps and policies.

        The paper leaves out one workload for this reason. Only the paper's own policies count; empty if no workload
        would remain.
        """
        own = [p for p in self.samples.policies if p in POLICIES]
        if not own or len(self.prepared.window_jobs) <= LEFT_OUT:
            return ()
        change = np.mean([self.samples.grid(p, "turnaround_change_percent").mean(axis=1) for p in own], axis=0)
        return tuple(np.argsort(change, kind="stable")[:LEFT_OUT].tolist())

    @property
    def kept(self) -> Samples:
        """Return the figures without the workloads that are left out."""
        return self.samples.take([w for w in range(len(self.prepared.window_jobs)) if w not in self.left_out])

    def figures(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        made = self.prepared
        workloads = {
            "origin": "generated", **asdict(self.choice), "trace_jobs": made.jobs, "begin_s": list(made.trace.begins_s),
            "jobs": list(made.window_jobs), "nodes_asked_at_begin": list(made.nodes_asked),
        }  # fmt: skip
        averages = [{"policy": p, **{m: self._average(p, m) for m in COLUMNS}} for p in self.samples.policies]
        return {"workloads": workloads, "left_out": list(self.left_out), "averages": averages, "runs": self.rows}

    def _average(self, policy: str, metric: str) -> dict[str, Any]:
        """Return the mean of one figure with its interval, without the workloads left out, and by cap."""
        grid = self.samples.grid(policy, metric)
        found = estimate(grid.mean(axis=1))
        caps = dict(zip(map(str, map(float, self.samples.settings)), grid.mean(axis=0).tolist(), strict=True))
        fewer = float(self.kept.grid(policy, metric).mean())
        return {**found.document(), "without_left_out": fewer, "by_cap": caps}


@dataclass(frozen=True, slots=True)
class PowercapStudy:
    """The study of paper 4, sections 5, 6.4 and 6.5, Figures 4 and 5.

    Attributes:
        folder: Keeps workloads and finished runs.
        choice: How the workloads are chosen.
        policies: Names of the policies.
        caps: Caps in percent of the highest dynamic power.
        workers: Processes, None for one per core.
        extended: Whether to add ``BEYOND``, on these workloads and on those of another trace: rules were chosen on the
            first one.
    """

    folder: Path
    choice: WorkloadSelection = field(default_factory=WorkloadSelection)
    policies: Sequence[str] = POLICIES
    caps: Sequence[float] = CAPS_PERCENT
    workers: int | None = None
    extended: bool = False

    def simulate(self, progress: Progress | None = None) -> PowercapRuns:
        """Prepare the workloads and run the campaign.

        Raises: InputError if the trace has too few busy hours; CampaignError, OutputError.
        """
        shared = Shared(self.folder)
        policies = (*self.policies, *BEYOND) if self.extended else tuple(self.policies)
        prepared = prepare(self.choice, shared, policies)
        cells = cells_of(prepared, policies, self.caps)
        frame = run_cells(cells, shared=shared, store=self.folder, workers=self.workers, progress=progress)
        return PowercapRuns(self.choice, prepared, frame.to_dicts(), samples_of(frame.to_dicts()))

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Run the campaign and compare it with the paper; with ``extended`` also on hold-out workloads."""
        found, other = self.simulate(progress), None
        if self.extended:
            # MEAN is run too, as the reference of the comparisons on the same workloads.
            others = replace(self.choice, seed=self.choice.seed + 1)
            other = replace(self, choice=others, policies=(MEAN, *BEYOND), extended=False).simulate(progress)
        return report(found, other)


def cells_of(prepared: Prepared, policies: Sequence[str], caps: Sequence[float]) -> list[PowercapCell]:
    """Return the grid, workload by workload, so that a worker opens few of them.

    The baseline of a workload comes first: every change of turnaround is relative to it.
    """
    cells = []
    for base in easy_cells(prepared.trace):
        known = {p: prepared.ledger_options(p, base.window) for p in policies}
        cells.append(base)
        cells += [PowercapCell(prepared.trace, base.window, p, cap, known[p]) for cap in caps for p in policies]
    return cells


def samples_of(rows: Sequence[Row]) -> Samples:
    """Return the figures of every policy but the baseline; settings are caps, draws are workloads.

    Raises: EngineError for a row without its figures.
    """
    base = {r["window"]: _number(r, "turnaround_s_mean") for r in rows if r["policy"] == EASY}
    values: dict[tuple[str, str, str], list[float]] = {}
    for policy in dict.fromkeys(str(r["policy"]) for r in rows if r["policy"] != EASY):
        own = sorted((r for r in rows if r["policy"] == policy), key=lambda r: (r["cap_percent"], r["window"]))
        for row in own:
            for metric, value in _figures(row, base[row["window"]]).items():
                values.setdefault((f"{row['cap_percent']:g}", policy, metric), []).append(value)
    return Samples({key: np.array(found) for key, found in values.items()})


def _figures(row: Row, base_turnaround_s: float) -> dict[str, float]:
    """Return the figures of one run in percent, in the order of ``COLUMNS``."""
    cap = _number(row, "cap_w")
    excess = 100.0 * _number(row, "excess_w") / cap
    return {
        "unused_percent": 100.0 * (1.0 - _number(row, "power_w_mean") / cap),
        "turnaround_change_percent": 100.0 * (_number(row, "turnaround_s_mean") / base_turnaround_s - 1.0),
        "under_percent": 100.0 * _number(row, "under_w_mean") / cap,
        "over_percent": 100.0 * _number(row, "over_w_mean") / cap,
        "over_time_percent": 100.0 * _number(row, "over_share"),
        "excess_percent": excess,
        "broken": 100.0 * (excess > 0.0),
    }


def _number(row: Row, name: str) -> float:
    """Return a number of a row. Raises: EngineError if it is none."""
    value = row[name]
    if not isinstance(value, float | int):
        raise EngineError(f"{name} of a capped run is {value!r}", where=f"window {row['window']}, {row['policy']}")
    return float(value)


def claims(found: PowercapRuns) -> ClaimTable:
    """Return the published figures beside ours; the JSON also has ours without the workloads left out."""
    table, fewer = TOLD.judge(found.samples), TOLD.judge(found.kept)
    rows = [
        replace(row, more={**row.more, "without_left_out": other.ours.mean})
        for row, other in zip(table.rows, fewer.rows, strict=True)
    ]
    return replace(table, rows=rows)


def report(found: PowercapRuns, hold_out: PowercapRuns | None = None) -> StudyReport:
    """Return what the runs show; ``hold_out`` are runs of another trace, on which other rules are compared."""
    made, choice, told, gone = found.prepared, found.choice, claims(found), named(found.left_out)
    parts: list[Part] = [averages(found.samples, f"All {len(made.window_jobs)} workloads")]
    if found.left_out:
        why = "on which capping helps most (the paper's reason for leaving one out)"
        parts.append(averages(found.kept, f"Without {gone}, {why}"))
    parts += [by_cap(found.samples, metric) for metric in BY_CAP]
    figures = found.figures()
    more: list[Part] = []
    if hold_out is not None:
        compared = against_mean(hold_out.samples)
        says = (
            f"Hold-out: {len(hold_out.prepared.window_jobs)} workloads of another trace (seed {hold_out.choice.seed})"
        )
        more = [averages(hold_out.samples, f"{says}, not used to build"), compared]
        figures["hold_out"] = hold_out.figures() | {"comparisons": compared.document()}
    mean = {p: [found.samples.grid(p, m).mean() for m in BY_CAP[:2]] for p in found.samples.policies[:3]}
    lede = "; ".join(
        f"<strong>{escape(p)}</strong> leaves {unused:.0f} % of the cap unused and costs {cost:+.0f} % of turnaround"
        for p, (unused, cost) in mean.items()
    )
    return TOLD.report(
        told,
        about=(
            f"EASY+PC, {len(found.rows) - len(made.window_jobs):,} simulations and {len(made.window_jobs)} baselines: "
            f"windows of {choice.days:g} days, {min(made.window_jobs):,} to {max(made.window_jobs):,} jobs, of a "
            f"generated trace (marconi, {made.jobs:,} jobs in {choice.trace_days:g} days, load {choice.load:g}, seed "
            f"{choice.seed}). Each begins at a full hour, drawn at random, at which jobs in the system requested "
            f"{choice.machines:g} times the machine's nodes or more ({min(made.nodes_asked):,.0f} to "
            f"{max(made.nodes_asked):,.0f} nodes); all of them wait. The cap is on for {CAPPED_S / 3600:g} hours."
        ),
        lede=f"Under a cap on the first three hours, {lede}.",
        parts=parts,
        more=more,
        figures=figures,
        drawn=pictures(found),
    )


def named(workloads: Sequence[int]) -> str:
    """Return workloads by their numbers, counted from 1, as text."""
    return "workload " + ", ".join(str(w + 1) for w in workloads)


def averages(samples: Samples, title: str) -> Table:
    """Return the means of each policy; unused and turnaround with intervals, the excess with its median too."""
    rows = []
    for policy in samples.policies:
        grids = [samples.grid(policy, metric) for metric in COLUMNS]
        cells = [with_interval(estimate(grid.mean(axis=1)), sign="") for grid in grids[:2]]
        rows.append(
            [marked_policy(policy), *cells, *(f"{g.mean():.1f}" for g in grids[2:]), f"{np.median(grids[-2]):.1f}"]
        )
    return Table(("policy", *COLUMNS.values(), "its median"), rows, f"{title} (%)")


def by_cap(samples: Samples, metric: str) -> Table:
    """Return one figure of each policy by cap."""
    means = {marked_policy(p): samples.grid(p, metric).mean(axis=0) for p in samples.policies}
    rows = [[label, *(words.figures(float(v)) for v in row)] for label, row in means.items()]
    return Table(
        ("policy", *samples.settings), rows, f"By cap (% of the highest dynamic power): {TOLD.labels[metric]}, %"
    )


def against_mean(samples: Samples) -> ComparisonTable:
    """Compare each policy with ``MEAN``: differences in points of the cap, workloads paired; below 0 is better."""
    rows = [
        Compared("", p, MEAN, {m: points_change(*(samples.grid(x, m).mean(axis=1) for x in (p, MEAN))) for m in SIDES})
        for p in samples.policies
        if p != MEAN
    ]
    return ComparisonTable.of(rows, SIDES, tuple(SIDES), "Against easy+pc-mean there, points of the cap", SHOWN_POINTS)


def pictures(found: PowercapRuns) -> Iterator[Drawn]:
    """Yield Figure 4, one picture per policy, then Figure 5 without the workloads left out and with them, the excess.

    In Figure 4 a box left of its mark leaves power unused; the part of a box right of it is above the cap.
    """
    caps = found.samples.settings
    for policy in found.samples.policies:
        drawn = boxes.figure(
            f"power-{policy.replace('+', '-')}",
            f"Power under {marked_policy(policy)}",
            "Power above idle over the capped hours of all workloads, by cap; the triangle is the cap.",
            Axis("power", "% of the highest dynamic power"),
            {f"cap {cap} %": Box.of(pooled_percent(found.rows, policy, float(cap))) for cap in caps},
            published=[float(cap) for cap in caps],
            mark="cap",
            rows="cap",
        )
        yield drawn, "boxes"
    turnaround = "Mean turnaround of a workload under a cap against the same workload under EASY without one"
    gone = f", {named(found.left_out)} left out as in the paper"
    cost, excess = Axis("change of mean turnaround", "%"), Axis("highest excess", "% of the cap")
    for key, title, says, samples, metric, axis in (
        ("turnaround-29", "Cost in turnaround", f"{turnaround}{gone}.", found.kept, "turnaround_change_percent", cost),
        ("turnaround", "All workloads", f"{turnaround}.", found.samples, "turnaround_change_percent", cost),
        ("excess", "Highest excess", "Greatest power above the cap in a run.", found.samples, "excess_percent", excess),
    ):
        shown = {marked_policy(p): Box.of(samples.grid(p, metric).ravel()) for p in samples.policies}
        yield boxes.figure(key, title, says, axis, shown, rows="policy", from_zero=False), "boxes"


def pooled_percent(rows: Sequence[Row], policy: str, cap: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return power of all workloads at one cap, in percent of the highest dynamic power. Shape (k,).

    Each run contributes the same number of values, interpolated from the quantiles that its row keeps.
    """
    runs = [r for r in rows if r["policy"] == policy and r["cap_percent"] == cap]
    at = np.linspace(0.005, 0.995, 100)
    read = [np.interp(at, QUANTILES, np.array(r["power_w_quantiles"], np.float64)) for r in runs]
    return 100.0 * np.concatenate(read) / HIGHEST_DYNAMIC_W
