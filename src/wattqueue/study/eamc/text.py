"""The tables of the study as lines of text, in the order in which ``wattqueue study eamc`` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wattqueue.report.text_table import table
from wattqueue.study.eamc.choices import SHARES, WEIGHTS
from wattqueue.study.eamc.published import BEST, PublishedChange
from wattqueue.study.eamc.results import change_percent, mean_interval
from wattqueue.study.eamc.study import EamcStudyResult
from wattqueue.study.eamc.sweep import POLICIES, READINGS, by_key

# Metric and column heading of the tables that correspond to the paper's figures.
FIGURE_METRICS = (
    ("makespan_s", "makespan"),
    ("turnaround_s_mean", "response"),
    ("runtime_s_sum", "run times"),
    ("job_energy_j", "energy"),
)
# System, share, base and number of each figure of the paper.
FIGURES = (
    ("p1/p2", 13, "base-slurm", "Figures 3 and 5"),
    *(("p1/p2", share, "min-runtime", "Figures 4 and 5") for share in SHARES),
    ("p1/p3", 13, "min-runtime", "Figure 6"),
)
# The check without scheduling: ratio, and what section 5 reports of the simulated workloads.
RATIOS = (
    ("min-runtime", "min-energy", {13: "1.12", 33: "1.17", 50: "1.21"}),
    ("min-energy", "base-slurm", {13: "0.95"}),
    ("base-slurm", "min-runtime", {50: "0.90"}),
    ("eamc-priority-inc", "min-runtime", {13: "0.91", 50: "0.80"}),
    ("eamc-priority-inc", "min-energy", {50: "0.96"}),
)


def study_lines(result: EamcStudyResult) -> Iterator[str]:
    """Yield the whole report, line by line.

    Sections: where the profiles come from; chosen frequencies and partitions; energy ratios without scheduling;
    readings of the threshold; one table per figure of the paper; published figures.
    """
    yield f"EAMC (paper 1): {result.source}"
    yield f"Workloads: {result.seeds} seeds of {result.jobs:,} jobs, generated (Cirne's form, the text's averages)"
    yield from _choices(result)
    yield from _ratios(result)
    yield from _thresholds(result)
    for system, share, base, figure in FIGURES:
        yield from _figure(result, (system, share, base, figure))
    yield from _claims(result)


def _choices(result: EamcStudyResult) -> Iterator[str]:
    """Yield chosen frequencies and partitions of each application, one table per weight.

    Three frequencies per partition: of least energy, fastest, and best by eq. 4. part_eff (eq. 5) decides between the
    partitions; the lower one is better.
    """
    best = {(r["app"], r["partition"], r["t_weight"]): r for r in result.frequencies}
    where = {(r["app"], r["t_weight"]): r for r in result.partitions}
    for weight in WEIGHTS:
        yield ""
        yield f"Chosen by eq. 4 and 5, t_weight {weight:g}: GHz of least energy / fastest / best; part_eff; partition"
        rows = []
        for app in range(1, 9):
            cells = [str(app)]
            for p in ("p1", "p2"):
                r = best[app, p, weight]
                cells.append(f"{r['min_energy_ghz']:.1f} / {r['min_time_ghz']:.1f} / {r['best_ghz']:.1f}")
            efficiency = where[app, weight]["part_eff"]
            rows.append([*cells, f"{efficiency['p1']:.3f}", f"{efficiency['p2']:.3f}", where[app, weight]["best"]])
        yield from table(("app", "p1 GHz", "p2 GHz", "eff p1", "eff p2", "best"), rows)


def _ratios(result: EamcStudyResult) -> Iterator[str]:
    """Yield the check without scheduling, the paper's simulated values in brackets."""
    value = {(r["share"], r["numerator"], r["denominator"]): r["value"] for r in result.energy_ratios}
    yield ""
    yield "Check without scheduling: energy ratios on p1/p2 (in brackets: what the paper's simulations gave)"
    rows = [
        [f"{a} / {b}", *(f"{value[s, a, b]:.3f}" + (f" ({told[s]})" if s in told else "") for s in SHARES)]
        for a, b, told in RATIOS
    ]
    yield from table(("ratio", *(f"{s} %" for s in SHARES)), rows)


def _thresholds(result: EamcStudyResult) -> Iterator[str]:
    """Yield the applications beyond the threshold for each reading of it."""
    yield ""
    yield 'Applications beyond "35 % from the optimal part_eff" (the paper: ep.D, number 2, alone)'
    rows = [
        [system, r["reading"], r["distance"], f"{r['t_weight']:g}", ", ".join(map(str, r["apps"])) or "none"]
        for system, found in result.thresholds.items()
        for r in found
    ]
    yield from table(("system", "cost", "distance", "weight", "applications"), rows)


def _figure(result: EamcStudyResult, which: tuple[str, int, str, str]) -> Iterator[str]:
    """Yield one workload: changes over a base with 95 % intervals, then means of the other metrics.

    Args:
        result: The finished study.
        which: System, share of STREAM, base policy, and the paper's figures that show the same.

    An interval is that of the paired changes by seed, moved so that it is centred on the change of means.
    """
    system, share, base, figure = which
    values = {
        (policy, metric): v for (sys, s, policy, metric), v in by_key(result.samples).items() if (sys, s) == which[:2]
    }
    parts = system.split("/")
    yield ""
    yield f"{figure}: {system}, {share} %, per cent of change over {base} [95 % of paired changes]"
    rows = []
    for name in (*POLICIES, *READINGS):
        cells = [name]
        for metric, _ in FIGURE_METRICS:
            own, reference = values[name, metric], values[base, metric]
            mean, low, high = mean_interval(100 * (own / reference - 1))
            centre = change_percent(own.mean(), reference.mean())
            cells.append(f"{centre:+.1f} [{centre + low - mean:+.1f}, {centre + high - mean:+.1f}]")
        cells += [f"{values[name, f'frequency_ghz_mean_{p}'].mean():.2f}" for p in parts]
        cells += [f"{values[name, m].mean():.0f}" for m in (BEST, f"{BEST}_{parts[1]}")]
        cells += [f"{values[name, f'turnaround_s_mean_{p}'].mean() / 3600:.1f}" for p in parts]
        rows.append(cells)
    header = ["policy", *(label for _, label in FIGURE_METRICS), *(f"GHz {p}" for p in parts)]
    header += ["% on best", f"of {parts[1]}'s", *(f"hours {p}" for p in parts)]
    yield from table(header, rows)
    days, hours = values[base, "makespan_s"].mean() / 86400, values[base, "turnaround_s_mean"].mean() / 3600
    yield f"{base}: makespan {days:.2f} days, response {hours:.1f} hours"


def _claims(result: EamcStudyResult) -> Iterator[str]:
    """Yield published figures beside ours, and for how many the sign agrees.

    A figure with several possible workloads shows ours for each; see ``results`` for how weak "agrees" is.
    """
    yield ""
    yield "Published figures, and ours for every workload that each can mean [95 % of paired changes]"
    rows = [_claim_cells(row) for row in result.claims]
    yield from table(("policy", "metric", "over", "system", "workload", "paper", "ours", "sign", "where"), rows)
    kept = sum(bool(row["agrees"]) for row in result.claims)
    yield f"{kept} of {len(result.claims)} have the published sign, for one of the workloads that each can mean"


def _claim_cells(row: dict[str, Any]) -> list[str]:
    """Return the cells of one published figure; changes carry their sign, shares do not."""
    claim: PublishedChange = row["claim"]
    unit = "" if claim.metric == BEST else "+"
    ours = "; ".join(f"{centre:{unit}.1f} [{low:{unit}.1f}, {high:{unit}.1f}]" for centre, low, high in row["ours"])
    shares = ", ".join(map(str, claim.shares))
    sign = "yes" if row["agrees"] else "NO"
    paper = f"{claim.percent:{unit}.0f}"
    return [claim.policy, claim.metric, claim.base or "itself", claim.system, shares, paper, ours, sign, claim.where]
