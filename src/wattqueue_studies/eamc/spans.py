"""Trends over the shares of STREAM that paper 1 states, and other spans of arrivals than the one that is fitted.

The span is fitted to one figure, Min_runtime's response over Base Slurm's. Other spans show which of the other figures
depend on that choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wattqueue.model.jobs import Floats
from wattqueue.report.compare.stats import Estimate, estimate, with_interval
from wattqueue.report.document import Table
from wattqueue_studies.eamc.cirne import DAY_S, CirneModel
from wattqueue_studies.eamc.workloads import Case, System, paper_cases
from wattqueue_studies.frame.samples import Samples, change, sweep

TREND = "p1/p2, 13 to 50 %"
"""Setting of what changes from the even draw to that in which half of the jobs run STREAM."""
ENDS = ("p1/p2, 13 %", "p1/p2, 50 %")
BASE = "min-runtime"
SPANS = (6.0, 8.0, 10.0, 12.0)
"""Days of arrivals; 6 are the study's."""
COMPARED = ("base-slurm", BASE, "min-energy", "eamc-priority-inc")
"""Policies of the table of spans."""
SHOWN = (
    ("min-runtime over\nbase-slurm: makespan", "p1/p2, 13 %", "min-runtime", "base-slurm", "makespan_s"),
    ("response", "p1/p2, 13 %", "min-runtime", "base-slurm", "turnaround_s_mean"),
    ("priority-inc over\nmin-runtime: response, 13", "p1/p2, 13 %", "eamc-priority-inc", BASE, "turnaround_s_mean"),
    ("response, 50", "p1/p2, 50 %", "eamc-priority-inc", BASE, "turnaround_s_mean"),
    ("energy, 13", "p1/p2, 13 %", "eamc-priority-inc", BASE, "job_energy_j"),
    ("min-energy over\nmin-runtime: response, 50", "p1/p2, 50 %", "min-energy", BASE, "turnaround_s_mean"),
)
"""Changes of the table of spans: heading, setting, policy, base and metric."""


def with_trends(samples: Samples) -> Samples:
    """Return the same runs with what changes from 13 to 50 % of STREAM, where both were simulated.

    ``response_points``: response over min-runtime at 50 % less that at 13 %. ``clock_ghz``: mean clock on p2, likewise.
    """
    values = dict(samples.values)
    for policy in samples.policies:
        low, high = ((s, policy, "turnaround_s_mean") for s in ENDS)
        if not {low, high, (ENDS[0], BASE, "turnaround_s_mean")} <= set(samples.values):
            continue
        changes = [change_percent(*samples.pair(s, policy, BASE, "turnaround_s_mean")) for s in ENDS]
        values[TREND, policy, "response_points"] = changes[1] - changes[0]
        clocks = [samples.of(s, policy, "frequency_ghz_mean_p2") for s in ENDS]
        values[TREND, policy, "clock_ghz"] = clocks[1] - clocks[0]
    return samples.with_values(values)


def change_percent(own: Floats, base: Floats) -> Floats:
    """Return the change of each draw in per cent; NaN where ``Samples.pair`` compares none. Shapes (draws,)."""
    return 100.0 * (own / base - 1.0)


def spans(
    both: dict[str, System], seeds: range, *, threads: int, model: CirneModel | None = None
) -> dict[float, Samples]:
    """Simulate the paper's workloads with EASY and other spans of arrivals, by days (of 5,000 jobs)."""
    paper, own = CirneModel(), model or CirneModel()
    found = {}
    for days in SPANS:
        cases: dict[str, Case] = paper_cases(both, replace(own, span_s=own.span_s * days * DAY_S / paper.span_s))
        shown = {name: case for name, case in cases.items() if name in ENDS}
        found[days] = sweep(Case.draw, shown, COMPARED, seeds, threads=threads)
    return found


def span_table(found: Mapping[float, Samples]) -> Table:
    """Return changes by span of arrivals."""
    rows = []
    for days, samples in found.items():
        changes: list[Estimate] = [change(*samples.pair(s, policy, base, m)) for _, s, policy, base, m in SHOWN]
        trend = estimate(with_trends(samples).of(TREND, "eamc-priority-inc", "response_points"))
        rows.append([f"{days:g} days", *(with_interval(each, "+") for each in changes), with_interval(trend, "+")])
    heads = ("span of arrivals", *(head for head, *_ in SHOWN), "response, 50\nless 13, points")
    note = "EASY. 6 days are fitted to the second column (paper -64). Paper: -39, -64, -2, -25, -9, +51 and -23 points."
    return Table(heads, rows, "Changes by span of arrivals (%)", note, key="spans")
