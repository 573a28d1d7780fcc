"""The whole study of paper 1: choices, the check without scheduling, every simulation, and what they show.

30 seeds are 1,320 simulations of 5,000 jobs, half a minute of processor time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattqueue.study.eamc.beyond import beyond, conservative
from wattqueue.study.eamc.choices import (
    SHARES,
    WEIGHTS,
    energy_ratios,
    frequency_rows,
    partition_rows,
    threshold_rows,
)  # fmt: skip
from wattqueue.study.eamc.workloads import Case, paper_cases, profiles_from, setting_names, systems
from wattqueue.study.frame.changes import changes_pictures, changes_table, result_rows
from wattqueue.study.frame.published import published
from wattqueue.study.frame.report import Part, Progress, StudyReport
from wattqueue.study.frame.samples import Samples, sweep
from wattqueue.study.frame.table import Table
from wattqueue.workload.cirne import CirneModel

EAMC = ("eamc-reorder", "eamc-priority-inc", "eamc-priority-inc-v")
"""The paper's variants of EAMC."""
READINGS = ("eamc-priority-inc-v-absolute", "eamc-priority-inc-v-code")
"""Further readings of the threshold."""
POLICIES = ("base-slurm", "min-runtime", "min-energy", *EAMC, *(f"{name}-1.5" for name in EAMC), *READINGS)
"""The paper's policies, both weights, then the readings."""
TOLD = published("wattqueue.study.eamc")
"""What the paper prints (claims.toml)."""
BEST = "best_partition_percent"
BASES = ("base-slurm", "min-runtime", "min-energy", "eamc-priority-inc", "eamc-priority-inc-v")
"""Policies that others are compared with."""
FIGURE_METRICS = ("makespan_s", "turnaround_s_mean", "runtime_s_sum", "job_energy_j")
"""Metrics of the tables that correspond to the paper's figures."""
PICTURED = ("turnaround_s_mean", "job_energy_j")
"""Metrics that have pictures."""
FIGURES = (
    ("p1/p2, 13 %", "base-slurm", "Figures 3 and 5"),
    *((f"p1/p2, {share} %", "min-runtime", "Figures 4 and 5") for share in SHARES),
    ("p1/p3, 13 %", "min-runtime", "Figure 6"),
)
"""Workload, base and number of each figure of the paper."""
PARTITIONS = (("p1/p2", "p1"), ("p1/p2", "p2"), ("p1/p3", "p3"))
"""System in which each partition's frequencies are shown."""
RATIOS = (
    ("min-runtime", "min-energy", {13: "1.12", 33: "1.17", 50: "1.21"}),
    ("min-energy", "base-slurm", {13: "0.95"}),
    ("base-slurm", "min-runtime", {50: "0.90"}),
    ("eamc-priority-inc", "min-runtime", {13: "0.91", 50: "0.80"}),
    ("eamc-priority-inc", "min-energy", {50: "0.96"}),
)
"""Shown ratios of the check without scheduling, and what section 5 reports of the simulated workloads."""


@dataclass(frozen=True, slots=True)
class EamcStudy:
    """The study of paper 1, section 5.

    Attributes:
        coefficients: EAR's coefficients of p1 and p2 (CSV); None uses Table 1.
        apps: Metrics of the eight applications (CSV), given together with the coefficients.
        seeds: Workloads per setting.
        threads: Simulations at a time.
        model: Parameters of the workloads, instead of the frozen ones.
        extended: Whether to add what the paper does not have.
        conservative_seeds: Workloads that are also simulated with conservative backfilling.
    """

    coefficients: Path | None = None
    apps: Path | None = None
    seeds: int = 30
    threads: int = 2
    model: CirneModel | None = None
    extended: bool = False
    conservative_seeds: int = 0

    def simulate(self, progress: Progress | None = None) -> Samples:
        """Simulate both systems, three shares, all policies. Raises: InputError for files that cannot be used."""
        both = systems(profiles_from(self.coefficients, self.apps))
        settings = paper_cases(both, self.model)
        return sweep(Case.draw, settings, POLICIES, range(self.seeds), threads=self.threads, progress=progress)

    def run(self, progress: Progress | None = None) -> StudyReport:
        """Simulate, compare with the paper, and add what was asked for beyond it."""
        return self.report(self.simulate(progress))

    def report(self, samples: Samples) -> StudyReport:
        """Compare the simulations with the paper, and run what was asked for beyond it."""
        profiles = profiles_from(self.coefficients, self.apps)
        both = systems(profiles)
        jobs = (self.model or CirneModel()).jobs
        found = TOLD.judge(samples)
        wanted = ((beyond, self.seeds if self.extended else 0), (conservative, self.conservative_seeds))
        more = [run(both, range(n), threads=self.threads, model=self.model) for run, n in wanted if n]
        figures: dict[str, Any] = {
            "source": profiles.source,
            "seeds": self.seeds,
            "jobs": jobs,
            "frequencies": [r for system, p in PARTITIONS for r in frequency_rows(both[system], p)],
            "partitions": partition_rows(both["p1/p2"]),
            "energy_ratios": energy_ratios(both["p1/p2"]),
            "thresholds": {name: threshold_rows(system) for name, system in both.items()},
            "results": result_rows(samples, BASES, TOLD, setting_names),
            **({"comparisons": {table.title: table.document() for table in more}} if more else {}),
        }  # fmt: skip
        parts: list[Part] = [*choice_tables(figures), ratio_table(figures), threshold_table(figures)]
        parts += [figure_table(samples, *figure) for figure in FIGURES]
        return TOLD.report(
            found,
            about=f"{profiles.source}. {self.seeds} seeds of {jobs:,} generated jobs (form: Cirne; means: the text's).",
            lede=f"{len(POLICIES)} policies on four workloads. {found.summary}.",
            parts=parts,
            more=more,
            figures=figures,
            drawn=changes_pictures(samples, FIGURES, PICTURED, TOLD, POLICIES[: -len(READINGS)]),
        )  # fmt: skip


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
    """Return one workload: changes over a base with 95 % intervals, then means of the other metrics."""
    parts = setting.partition(",")[0].split("/")

    def mean(metric: str, digits: int, scale: float = 1.0) -> Callable[[str], str]:
        return lambda policy: f"{samples.of(setting, policy, metric).mean() / scale:.{digits}f}"

    more = {f"GHz {p}": mean(f"frequency_ghz_mean_{p}", 2) for p in parts}
    more |= {"best %": mean(BEST, 0), f"{parts[1]}'s %": mean(f"{BEST}_{parts[1]}", 0)}
    more |= {f"h {p}": mean(f"turnaround_s_mean_{p}", 1, 3600) for p in parts}
    days, hours = mean("makespan_s", 2, 86400)(base), mean("turnaround_s_mean", 1, 3600)(base)
    note = f"{base}: makespan {days} days, response {hours} hours"
    return changes_table(
        samples, setting, base, TOLD.named(FIGURE_METRICS), more, title=f"{figure}: {setting}", note=note
    )
