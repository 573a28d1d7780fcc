"""Tables and pictures of the study: Figures 6 and 7, power above the budget, dropped jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from wattqueue.policy.oracles import marked_policy
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.variability.knowledge import BASE, ORACLE
from wattqueue_studies.variability.trial import COMMON, TRAFFICS

FIGURES = {
    "turnaround_change_percent": "Figure 6",
    "over_percent": "Figure 6",
    "energy_change_percent": "Figure 7",
}
"""Metrics of the paper's figures."""
PICTURED = {
    "slurm-pe, median": "PE",
    "slurm-peva, median": "PEVA",
    "slurm-prvp": "PRVP",
    "slurm-vtp": "VTP",
    ORACLE: "IVP (oracle)",
}
"""Policies of the pictures, by the paper's names so that a label fits a narrow page; tables have all."""
UNSERVED = ("dropped", "without_reservation")
"""Counts of jobs that a policy could not serve as the others."""
RAPL_COST = "rapl_turnaround_percent"
"""Metric of what limits cost: turnaround over that of the same policy on the same draw without them."""
Labels = Mapping[str, str]


def tables(samples: Samples, labels: Labels) -> Iterator[Table]:
    """Yield all tables over the draws."""
    for traffic in TRAFFICS:
        found = budgets(samples, traffic)
        if not found:
            continue
        for metric, figure in FIGURES.items():
            yield budget_table(samples, found, metric, f"{figure}, {traffic}: {labels[metric]} (%)")
        yield budget_table(samples, found, "second_over_percent", f"{traffic}: {labels['second_over_percent']} (%)")
        yield excess_table(samples, found, traffic)
        yield dropped_table(samples, found, traffic)
        if RAPL_COST in {metric for _, _, metric in samples.values}:
            yield budget_table(samples, found, RAPL_COST, f"{traffic}: turnaround over the same without limits (%)")
            yield removed_table(samples, found, traffic)


def budgets(samples: Samples, traffic: str) -> dict[str, str]:
    """Return the settings of a traffic by what is shown of their names: the budget."""
    return {s.partition(", ")[2]: s for s in samples.settings if s.startswith(f"{traffic}, ")}


def shown(policy: str) -> str:
    """Return the name of a policy, marked where it reads the truth."""
    return marked_policy(policy) if policy == ORACLE else policy


def budget_table(samples: Samples, found: Mapping[str, str], metric: str, title: str) -> Table:
    """Return one metric of each policy by budget, with intervals over the draws."""
    kept = [p for p in samples.policies if p != BASE or metric.endswith("over_percent") or metric == RAPL_COST]
    rows = [[shown(p), *(with_interval(estimate(samples.of(s, p, metric))) for s in found.values())] for p in kept]
    heads = ("policy", *(name.replace(", ", "\n") for name in found))
    return Table(heads, rows, title)


def excess_table(samples: Samples, found: Mapping[str, str], traffic: str) -> Table:
    """Return how often, how long and by what energy each policy exceeds each budget."""
    rows = []
    for policy in samples.policies:
        cells = []
        for s in found.values():
            share, over_s, over_j = (samples.of(s, policy, m).mean() for m in ("above", "over_s", "over_j"))
            cells.append("–" if share == 0 else f"{share:.0f} % / {over_s:.1f} / {over_j / 1e3:.2f}")
        rows.append([shown(policy), *cells])
    heads = ("policy", *(name.replace(", ", "\n") for name in found))
    title = f"Above the budget, {traffic}: share of draws / seconds / kJ"
    return Table(heads, rows, title, "Means over all draws; – where no draw exceeds the budget.")


def removed_table(samples: Samples, found: Mapping[str, str], traffic: str) -> Table:
    """Return what each policy has above each budget without limits, and with them."""
    rows = []
    for policy in samples.policies:
        cells = []
        for s in found.values():
            before, after = (samples.of(s, policy, m).mean() / 1e3 for m in ("unlimited_over_j", "over_j"))
            cells.append("–" if before == after == 0 else f"{before:.2f} / {after:.2f}")
        rows.append([shown(policy), *cells])
    heads = ("policy", *(name.replace(", ", "\n") for name in found))
    title = f"Above the budget, {traffic}: kJ without limits / under them"
    return Table(heads, rows, title, "Means over all draws; – where no draw exceeds the budget.")


def dropped_table(samples: Samples, found: Mapping[str, str], traffic: str) -> Table:
    """Return jobs that never ran, and jobs that no reservation could be made for."""
    rows = [
        [shown(p), *(" / ".join(f"{samples.of(s, p, m).max():.0f}" for m in UNSERVED) for s in found.values())]
        for p in samples.policies
    ]
    heads = ("policy", *(name.replace(", ", "\n") for name in found))
    note = (
        "Greatest numbers over the draws. Without a reservation: the job's worst sockets exceed the budget, though its "
        "best ones would not (rule 12)."
    )
    return Table(heads, rows, f"Jobs that never ran / that got no reservation, {traffic}", note)


def idle_metric(idle_w: float) -> str:
    """Return the name of the machine's energy at these watts of an idle socket."""
    return f"machine_{idle_w:g}w_j"


def idle_tables(samples: Samples, idle_w: Sequence[float]) -> Iterator[Table]:
    """Yield the energy of jobs and machine, and the machine's over slurm-extended by watts of an idle socket."""
    for traffic in TRAFFICS if idle_w else ():
        found = budgets(samples, traffic)
        if not found:
            continue
        middle = sorted(idle_w)[len(idle_w) // 2]
        columns = ["energy_j", idle_metric(middle)]
        rows = [
            [
                shown(p),
                *(" / ".join(f"{samples.of(s, p, m).mean() / 1e6:.0f}" for m in columns) for s in found.values()),
            ]
            for p in samples.policies
        ]
        title = f"Energy of jobs / of the machine at {middle:g} W an idle socket, {traffic} (MJ)"
        yield Table(("policy", *(name.replace(", ", "\n") for name in found)), rows, title, "Means over all draws.")
        counted = [s for s in found.values() if f"{s}, {COMMON}" not in found.values()]
        swept = {"0 W": "energy_change_percent"} | {f"{w:g} W": f"{idle_metric(w)}_change_percent" for w in idle_w}
        changes = [
            [
                shown(p),
                *(
                    with_interval(estimate(np.mean([samples.of(s, p, metric) for s in counted], axis=0)))
                    for metric in swept.values()
                ),
            ]
            for p in samples.policies
            if p != BASE
        ]
        title = f"Energy of the machine over slurm-extended by watts of an idle socket, {traffic} (%)"
        note = "Means over the budgets, at 5 kW by the common jobs. The budget does not cover idle sockets."
        yield Table(("policy", *swept), changes, title, note)


def pictures(samples: Samples, labels: Labels) -> Iterator[Drawn]:
    """Yield Figures 6 and 7 by traffic: one box for each budget and policy, over the draws."""
    for traffic in TRAFFICS:
        found = budgets(samples, traffic)
        for metric, figure in FIGURES.items():
            values = {
                f"{b}: {name}": samples.of(s, p, metric) for b, s in found.items() for p, name in PICTURED.items()
            }
            if not values:
                continue
            says = "Over the draws of the sockets, generated; PE and PEVA profiled on the median socket."
            axis = Axis(labels[metric], "%")
            title = f"{figure}, {traffic}: {labels[metric]}"
            key = f"{traffic}-{metric.removesuffix('_percent').replace('_', '-')}"
            box = {name: Box.of(v) for name, v in values.items()}
            yield boxes.figure(key, title, says, axis, box, rows="budget and policy", from_zero=False), "boxes"
