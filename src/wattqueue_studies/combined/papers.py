"""Part (a): ``combined`` against the best row of each paper, on its metric, in its scenario."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wattqueue.report.compare.stats import Estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.combined.scenarios import COMBINED, SCENARIOS, ScenarioWorld
from wattqueue_studies.frame.published import Published, SampledClaim
from wattqueue_studies.frame.samples import Progress, Samples, change, sweep

LOSS_PERCENT = 1.0
"""A loss of more than this is to be excluded."""


def compared(claims: Sequence[SampledClaim], seeds: Sequence[int], threads: int, progress: Progress | None) -> Samples:
    """Simulate each scenario under its paper's row and ``combined``; ``progress`` is called with all runs together."""
    found, runs = Samples({}), 2 * len(seeds)
    for k, claim in enumerate(claims):
        (name,) = claim.on
        told = shifted(progress, k * runs, len(claims) * runs)
        rows = (COMBINED, claim.over)
        found = found.joined(sweep(_trial_of, {name: name}, rows, seeds, threads=threads, progress=told))
    return found


def shifted(progress: Progress | None, before: int, runs: int) -> Progress | None:
    """Return what tells a part's finished runs as those of a whole of ``runs``, ``before`` of them finished."""
    return None if progress is None else lambda done, _: progress(before + done, runs)


def _trial_of(name: str, seed: int) -> Any:
    """Return the trial of a scenario's draw."""
    world: ScenarioWorld = SCENARIOS[name](seed)
    return world.trial


def excluded(change_percent: Estimate) -> bool:
    """Return whether the interval excludes a loss of more than ``LOSS_PERCENT``."""
    return change_percent.high is not None and change_percent.high <= LOSS_PERCENT


def better(change_percent: Estimate) -> bool:
    """Return whether the whole interval is a gain."""
    return change_percent.side == -1


def verdicts(claims: Iterable[SampledClaim], samples: Samples) -> list[dict[str, Any]]:
    """Return a row for each paper: the change on its metric, and time above the cap and jobs that never ran of both."""
    rows = []
    for claim in claims:
        (name,) = claim.on
        found = change(*samples.pair(name, COMBINED, claim.over, claim.metric))
        above, never = ([float(samples.of(name, row, m).mean()) for row in (COMBINED, claim.over)]
                        for m in ("over_s", "never_ran"))  # fmt: skip
        rows.append(
            {
                "scenario": name, "row": claim.over, "metric": claim.metric, "change_percent": found.document(),
                "loss_excluded": excluded(found), "better": better(found), "over_s": above, "never_ran": never,
                "no_worse": above[0] <= above[1] and never[0] <= never[1],
            }
        )  # fmt: skip
    return rows


def verdict_table(claims: Sequence[SampledClaim], samples: Samples, told: Published) -> Table:
    """Return the rows of ``verdicts`` as a table."""
    rows = []
    for claim, row in zip(claims, verdicts(claims, samples), strict=True):
        (name,) = claim.on
        found = change(*samples.pair(name, COMBINED, claim.over, claim.metric))
        rows.append(
            [
                f"{name}: {told.labels[claim.metric]}, over {claim.over}", with_interval(found),
                "yes" if row["loss_excluded"] else "no", "yes" if row["better"] else "no",
                *(" / ".join(f"{value:,.1f}" for value in row[key]) for key in ("over_s", "never_ran")),
            ]
        )  # fmt: skip
    heads = ("paper and metric", "change (%)", "loss > 1 % excluded", "better", "above the cap (s)", "never ran")
    note = "Means over draws, combined / the paper's row; change with its 95 % interval, negative is better."
    return Table(heads, rows, "Combined against the best row of each paper", note, words=(2, 3))


FIGURES: Mapping[str, tuple[str, float]] = {
    "job_energy_j": ("energy of jobs (MWh)", 3.6e9), "machine_energy_j": ("of the machine (MWh)", 3.6e9),
    "wait_s": ("mean wait (s)", 1.0), "wait_p99_s": ("p99 of the wait (s)", 1.0),
    "turnaround_s": ("mean turnaround (s)", 1.0), "slowdown": ("bounded slowdown", 1.0),
    "makespan_s": ("workload (s)", 1.0), "over_s": ("above the cap (s)", 1.0),
}  # fmt: skip
"""Figures of a run with their headings and units."""


def figures_table(claims: Sequence[SampledClaim], samples: Samples) -> Table:
    """Return the means of all figures, scenario by scenario."""
    rows = []
    for name, row in ((claim.on[0], row) for claim in claims for row in (COMBINED, claim.over)):
        means = (float(samples.of(name, row, metric).mean()) / unit for metric, (_, unit) in FIGURES.items())
        rows.append([f"{row}, {name}", *(f"{mean:,.4g}" for mean in means)])
    return Table(("row, scenario", *(head for head, _ in FIGURES.values())), rows, "All figures, means over draws")


def changes_table(claims: Sequence[SampledClaim], samples: Samples) -> Table:
    """Return the changes of all figures that are above 0, scenario by scenario, with their intervals."""
    metrics = [metric for metric in FIGURES if metric != "over_s"]
    rows = [
        [claim.on[0], *(with_interval(change(*samples.pair(claim.on[0], COMBINED, claim.over, m))) for m in metrics)]
        for claim in claims
    ]
    heads = ("scenario", *(FIGURES[metric][0].partition(" (")[0] for metric in metrics))
    return Table(heads, rows, "Changes of all figures over the paper's row, per cent")


def pictures(claims: Sequence[SampledClaim], samples: Samples) -> list[Drawn]:
    """Return the changes on the papers' metrics, draw by draw."""
    shown: dict[str, Box] = {}
    for claim in claims:
        own, base = samples.pair(claim.on[0], COMBINED, claim.over, claim.metric)
        shown[claim.on[0]] = Box.of(100 * (np.asarray(own) / base - 1))
    says = "Changes of the papers' metrics over the best row of each paper, draw by draw; negative is better."
    axis = Axis("change", "%")
    return [
        (
            boxes.figure("papers", "Combined against each paper", says, axis, shown, rows="scenario", from_zero=False),
            "boxes",
        )
    ]
