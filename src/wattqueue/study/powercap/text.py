"""The tables of the study as lines of text, and what they depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from wattqueue.report import words
from wattqueue.report.text_table import table
from wattqueue.study.powercap.published import CAPPED_S, PublishedFigure
from wattqueue.study.powercap.results import Groups
from wattqueue.study.powercap.study import PowercapStudyResult

HEADS = (
    "policy",
    "unused",
    "turnaround",
    "left below",
    "above",
    "time above",
    "highest excess",
    "median",
    "runs above",
)
SHOWN = ("unused_percent", "turnaround_change_percent", "under_percent", "over_percent", "over_time_percent")
EXPLAINED = (
    "unused: 1 - mean power / cap over the capped hours, below 0 where more was drawn. left below, above: means over",
    "time of what lay below and above the cap, of the cap (unused = left below - above). highest excess: greatest",
    "power above the cap at any moment, 0 where it was kept. turnaround: mean over jobs, against EASY without a cap.",
    "All are means over (workload, cap) groups; +- is a 95 % interval over workloads.",
)
"""Definitions of the columns."""
ASSUMPTIONS = (
    "What the figures depend on: workloads are generated (docs/marconi-generator.md gives their watts and phases; how",
    "long phases last and how much of the spread is a user's own is assumed). Idle watts of a node are not published:",
    "they are inferred from the paper's 74 % of unused power under naive (formats/machines/marconi100.toml), so that",
    "row is fitted to the paper and confirms nothing, and the other rows depend on the same idle watts.",
)
"""Assumptions behind the figures, and which published figure they use."""


def study_lines(result: PowercapStudyResult) -> Iterator[str]:
    """Yield everything that the study prints.

    Order: how the workloads were made, averages of all and without the workloads left out, published figures, three
    tables by cap, definitions, assumptions.
    """
    yield from _about(result)
    yield ""
    yield f"All {len(next(iter(result.groups.values())).workloads)} workloads"
    yield from averages(result.groups.values())
    yield ""
    if result.left_out:
        yield f"Without {named(result.left_out)}, on which capping helps most (the paper's reason for leaving one out)"
        yield from averages([g.without(result.left_out) for g in result.groups.values()])
        yield ""
    yield "Published figures (%), and ours"
    yield from table(("policy", "figure", "paper", "ours", "difference", "without"), map(_claim, result.claims))
    yield ""
    yield "By cap (% of the highest dynamic power): unused %"
    yield from _by_cap(result, "unused_percent")
    yield ""
    yield "By cap: turnaround over EASY, %"
    yield from _by_cap(result, "turnaround_change_percent")
    yield ""
    yield "By cap: highest excess, %"
    yield from _by_cap(result, "excess_percent")
    yield ""
    yield from EXPLAINED
    yield from ASSUMPTIONS


def _about(result: PowercapStudyResult) -> Iterator[str]:
    """Yield how many runs there are, and how their workloads were made."""
    made, choice = result.prepared, result.choice
    runs = len(result.rows) - len(made.window_jobs)
    yield "EASY+PC under a cap on the first three hours (paper 4, sections 6.4 and 6.5)."
    yield (
        f"{runs:,} simulations and {len(made.window_jobs)} baselines: windows of {choice.days:g} days, "
        f"{min(made.window_jobs):,} to {max(made.window_jobs):,} jobs, of a generated trace "
        f"(marconi, {made.jobs:,} jobs in {choice.trace_days:g} days, load {choice.load:g}, seed {choice.seed})."
    )
    yield (
        f"Each begins at a full hour, drawn at random, at which jobs in the system requested {choice.machines:g} times "
        f"the machine's nodes or more ({min(made.nodes_asked):,.0f} to {max(made.nodes_asked):,.0f} nodes); all of "
        f"them wait at that moment. The cap is on for {CAPPED_S / 3600:g} hours."
    )


def named(workloads: Sequence[int]) -> str:
    """Return workloads by their numbers, counted from 1, as text."""
    return "workload " + ", ".join(str(w + 1) for w in workloads)


def averages(groups: Iterable[Groups]) -> list[str]:
    """Return the table of averages, one row per policy."""
    return table(HEADS, [average_cells(g) for g in groups])


def average_cells(group: Groups) -> list[str]:
    """Return means of one policy as text, in the order of HEADS.

    The first two have a 95 % interval over workloads, which a single workload does not have.
    """
    excess = group.values["excess_percent"]
    cells = [group.policy]
    for metric in SHOWN[:2]:
        half = group.interval(metric).half
        cells.append(f"{group.mean(metric):.1f} %" + ("" if half is None else f" +-{half:.1f}"))
    cells += [f"{group.mean(metric):.1f} %" for metric in SHOWN[2:]]
    return [*cells, f"{excess.mean():.1f} %", f"{np.median(excess):.1f} %", f"{group.mean('broken'):.1f} %"]


def _claim(row: dict[str, Any]) -> list[str]:
    """Return the cells of one published figure."""
    claim: PublishedFigure = row["claim"]
    numbers = [f"{claim.percent:.0f}", f"{row['ours']:.1f}", f"{row['difference']:+.1f}", f"{row['without']:.1f}"]
    return [claim.policy, claim.says, *numbers]


def _by_cap(result: PowercapStudyResult, metric: str) -> list[str]:
    """Return the table of one metric: one row per policy, one column per cap.

    Args:
        result: The finished study.
        metric: A name of ``results.METRICS``.
    """
    groups = list(result.groups.values())
    means = [g.values[metric].mean(axis=0) for g in groups]
    head = ("policy", *(f"{c:g}" for c in groups[0].caps))
    return table(head, [[g.policy, *(words.figures(float(v)) for v in m)] for g, m in zip(groups, means, strict=True)])
