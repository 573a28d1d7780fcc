"""Tables of the study of paper 1: what EAMC chooses, and the policies of each figure over its base.

Figure 5 of the paper is the share of jobs on their best partition, as box plots over seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from wattqueue.report.compare.stats import with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.eamc.choices import SHARES, WEIGHTS
from wattqueue_studies.frame.changes import changes_table
from wattqueue_studies.frame.claim import Judged
from wattqueue_studies.frame.published import published
from wattqueue_studies.frame.samples import Samples

TOLD = published("wattqueue_studies.eamc")
"""What the paper prints (claims.toml)."""
BEST = "best_partition_percent"
WAITS = ("wait_s_mean", "wait_s_p95", "wait_s_p99", "wait_s_max")
"""The mean of waits, and what it hides."""
FIGURE_METRICS = ("makespan_s", "turnaround_s_mean", "runtime_s_sum", "job_energy_j")
"""Metrics of the tables that correspond to the paper's figures."""
RESPONSE_AND_ENERGY = {"turnaround_s_mean": "response", "job_energy_j": "energy"}
"""What decides whether a policy is better, with the headings of comparisons."""
RATIOS = (
    ("min-runtime", "min-energy", {13: "1.12", 33: "1.17", 50: "1.21"}),
    ("min-energy", "base-slurm", {13: "0.95"}),
    ("base-slurm", "min-runtime", {50: "0.90"}),
    ("eamc-priority-inc", "min-runtime", {13: "0.91", 50: "0.80"}),
    ("eamc-priority-inc", "min-energy", {50: "0.96"}),
)
"""Shown ratios of the check without scheduling, and what section 5 reports of the simulated workloads."""


def choice_tables(figures: dict[str, Any]) -> Iterator[Table]:
    """Yield chosen frequencies and partitions of each application, one table per weight."""
    best = {(r["app"], r["partition"], r["t_weight"]): r for r in figures["frequencies"]}
    where = {(r["app"], r["t_weight"]): r for r in figures["partitions"]}
    for weight in WEIGHTS:
        rows = []
        for app in range(1, 9):
            chosen, row = [best[app, p, weight] for p in ("p1", "p2")], where[app, weight]
            ghz = [f"{r['min_energy_ghz']:.1f} / {r['min_time_ghz']:.1f} / {r['best_ghz']:.1f}" for r in chosen]
            rows.append([str(app), *ghz, *(f"{row['part_eff'][p]:.3f}" for p in ("p1", "p2")), row["best"]])
        title = f"Chosen by eq. 4 and 5, t_weight {weight:g}: GHz of least energy / fastest / best; part_eff; partition"
        yield Table(("app", "p1 GHz", "p2 GHz", "eff p1", "eff p2", "best"), rows, title, "A lower part_eff is better.")


def ratio_table(figures: dict[str, Any]) -> Table:
    """Return the check without scheduling, the paper's simulated values in brackets."""
    value = {(r["share"], r["numerator"], r["denominator"]): r["value"] for r in figures["energy_ratios"]}
    rows = [
        [f"{a} / {b}", *(f"{value[s, a, b]:.3f}" + (f" ({told[s]})" if s in told else "") for s in SHARES)]
        for a, b, told in RATIOS
    ]
    title = "Check without scheduling: energy ratios on p1/p2 (in brackets: what the paper's simulations gave)"
    return Table(("ratio", *(f"{s} %" for s in SHARES)), rows, title)


def threshold_table(figures: dict[str, Any]) -> Table:
    """Return the applications beyond the threshold for each reading of it."""
    rows = [
        [system, r["reading"], r["distance"], f"{r['t_weight']:g}", ", ".join(map(str, r["apps"])) or "none"]
        for system, found in figures["thresholds"].items()
        for r in found
    ]
    title = 'Applications beyond "35 % from the optimal part_eff" (the paper: ep.D, number 2, alone)'
    return Table(("system", "cost", "distance", "weight", "applications"), rows, title)


def figure_table(samples: Samples, setting: str, base: str, figure: str) -> Table:
    """Return one workload: changes over a base with 95 % intervals, waits and their tail, then other means."""
    parts = setting.partition(",")[0].split("/")
    metrics = TOLD.named((*FIGURE_METRICS, *(f"job_energy_j_{p}" for p in parts), *WAITS))

    def mean(metric: str, digits: int, scale: float = 1.0) -> Callable[[str], str]:
        return lambda policy: f"{samples.of(setting, policy, metric).mean() / scale:.{digits}f}"

    more = {f"GHz {p}": mean(f"frequency_ghz_mean_{p}", 2) for p in parts}
    more |= {"best %": mean(BEST, 0), f"{parts[1]}'s %": mean(f"{BEST}_{parts[1]}", 0)}
    more |= {f"h {p}": mean(f"turnaround_s_mean_{p}", 1, 3600) for p in parts}
    days, hours = mean("makespan_s", 2, 86400)(base), mean("turnaround_s_mean", 1, 3600)(base)
    waits = ", ".join(mean(metric, 1, 3600)(base) for metric in WAITS)
    note = f"{base}: makespan {days} days, response {hours} hours; wait: mean, p95, p99, greatest {waits} hours"
    return changes_table(samples, setting, base, metrics, more, title=f"{figure}: {setting}", note=note)


def beside_table(told: Table, leading: list[Judged], beside: list[Judged]) -> Table:
    """Return each published figure with ours in two ways of simulating it, and both verdicts.

    ``told`` has their names as its third and fifth heading, title, note and key, and no rows.
    """
    rows = [
        [
            f"{a.claim.text} ({a.claim.source})",
            "below" if a.claim.direction < 0 else "above" if a.claim.published is None else f"{a.claim.published:+g}",
            *(cell for row in (a, b) for cell in (with_interval(row.ours), row.verdict.value)),
        ]
        for a, b in zip(leading, beside, strict=True)
    ]
    return replace(told, rows=rows)


BY_BACKFILL = Table(
    ("claim", "paper", "conservative", "verdict", "EASY", "verdict of EASY"),
    [],
    "Each published figure by both readings of section 4.2.1",
    "The first is what 4.2.1 describes, the second what it names. Intervals are over each one's own seeds.",
    words=(0, 3, 5),
    key="beside",
)
"""Heading of the table of both kinds of backfilling."""
BY_ERROR = Table(
    ("claim", "paper", "exact", "verdict", "5 % error", "verdict with the error"),
    [],
    "Each published figure where the tables are exact, and where the truth differs from them by 5 %",
    "EASY. True watts and run times of each application on each partition are the tables' times a log-normal draw.",
    words=(0, 3, 5),
    key="error",
)
"""Heading of the table of both kinds of truth."""


def figure_5(conservative: Samples, easy: Samples, policies: Sequence[str]) -> Iterator[Drawn]:
    """Yield one picture per workload and panel: all jobs, and those whose best partition is p2."""
    for share in SHARES:
        for metric, whose in ((BEST, "all jobs"), (f"{BEST}_p2", "jobs whose best partition is p2")):
            setting, shown, marks = f"p1/p2, {share} %", dict[str, Box](), list[float | None]()
            for policy in (p for p in policies if p != "base-slurm"):
                for name, samples in ((policy, conservative), (f"{policy}, EASY", easy)):
                    shown[name] = Box.of(samples.of(setting, policy, metric))
                    marks.append(TOLD.figure(setting, policy, metric) if name == policy else None)
            picture = boxes.figure(
                f"{metric.replace('_', '-')}-{share}",
                f"Jobs on their best partition: {setting}, {whose}",
                "Figure 5: share by seed; Base Slurm has 100 %. A triangle marks what the text prints.",
                Axis("share of jobs", "%"),
                shown,
                published=marks,
                rows="policy",
            )
            yield picture, "boxes"
