"""Runs of the campaign as figures: window by window of one trace, and trace by trace.

One trace is one draw: its windows share users, applications and phases, so that intervals over the windows of a trace
are narrower than traces differ. Every average gives each (workload, cap) run of a trace the same weight; intervals are
over traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.campaign.cell import Row
from wattqueue.campaign.run import Progress, run_cells
from wattqueue.campaign.shared import Shared
from wattqueue.errors import EngineError
from wattqueue.model.comparability import WorkDone, change_percent, gate
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.powercap.cell import EASY, HIGHEST_DYNAMIC_W, POLICIES, PowercapCell
from wattqueue_studies.powercap.prepare import Prepared, WorkloadSelection

LEFT_OUT = 1
"""Workloads left out of Figure 5: "powercapping greatly increases scheduling performance on it"."""
COLUMNS = {
    "unused_percent": "unused", "turnaround_change_percent": "turnaround", "under_percent": "left below",
    "over_percent": "above", "over_time_percent": "time above", "excess_percent": "highest excess",
    "broken": "runs above",
}  # fmt: skip
"""Figures of a policy in each run, in per cent, with the headings of the averages."""
EXCESS_MEDIAN = "excess_median_percent"
"""Median over the runs of a trace of the highest excess."""
ALL, BINDING, KEPT = "all groups", "cap binds", "without one"
"""Groups (workload, cap) that an average is over: all; those in which EASY without a cap draws more than the cap on
average over the capped hours; those of all workloads but the one of its trace on which capping helps most."""


@dataclass(frozen=True, slots=True, eq=False)
class PowercapRuns:
    """Runs of one trace on one machine: how its workloads were chosen and made, the rows (baselines included)."""

    choice: WorkloadSelection
    prepared: Prepared
    rows: list[Row]
    samples: Samples
    """Figures by cap and policy, window by window."""

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

    def groups(self, which: str) -> NDArray[np.bool_]:
        """Return the groups of an average. Shape (workloads, caps)."""
        caps = np.array([float(cap) for cap in self.samples.settings])
        base = sorted((r for r in self.rows if r["policy"] == EASY), key=lambda r: number(r, "window"))
        drawn_w = np.array([number(r, "power_w_mean") for r in base])
        found = np.ones((len(drawn_w), len(caps)), np.bool_)
        if which == BINDING:
            found &= drawn_w[:, np.newaxis] > caps / 100.0 * HIGHEST_DYNAMIC_W
        elif which == KEPT:
            found[list(self.left_out)] = False
        return found


def run_traces(
    traces: Sequence[tuple[WorkloadSelection, Prepared, Sequence[PowercapCell]]],
    shared: Shared,
    workers: int | None,
    progress: Progress | None,
) -> list[PowercapRuns]:
    """Run the cells of all traces as one campaign that keeps its rows beside the workloads; return them by trace.

    Raises: CampaignError, OutputError.
    """
    cells = [cell for _, _, own in traces for cell in own]
    rows = run_cells(cells, shared=shared, store=shared.folder, workers=workers, progress=progress).to_dicts()
    runs = []
    for choice, prepared, own in traces:
        mine, rows = rows[: len(own)], rows[len(own) :]
        runs.append(PowercapRuns(choice, prepared, mine, samples_of(mine)))
    return runs


def over_traces(runs: Sequence[PowercapRuns], which: str = ALL) -> Samples:
    """Return means over the groups of each trace; the draws are traces, the setting is the name of the groups.

    A trace without such a group is NaN, and so is a metric that a policy does not have in all runs.
    """
    masks = [run.groups(which) for run in runs]
    values, work = {}, {}
    for policy in runs[0].samples.policies:
        for metric in COLUMNS:
            grids = [run.samples.grid(policy, metric)[mask] for run, mask in zip(runs, masks, strict=True)]
            # NaN in one run: some jobs never ran, or the capped hours alone were simulated. A mean over the others
            # would be another figure.
            known = not any(np.isnan(grid).any() for grid in grids)
            means = [grid.mean() if known and grid.size else np.nan for grid in grids]
            values[which, policy, metric] = np.array(means)
            if metric == "excess_percent":
                medians = [np.median(grid) if grid.size else np.nan for grid in grids]
                values[which, policy, EXCESS_MEDIAN] = np.array(medians)
        work[which, policy] = tuple(
            run.samples.work[setting, policy][window]
            for run, mask in zip(runs, masks, strict=True)
            for window, at in zip(*np.nonzero(mask), strict=True)
            for setting in [run.samples.settings[at]]
        )
    return Samples(values, work)


def pooled(runs: Sequence[PowercapRuns]) -> Samples:
    """Return the figures of all windows of all traces, for pictures and means by cap."""
    keys = runs[0].samples.values
    work = {key: tuple(did for run in runs for did in run.samples.work[key]) for key in runs[0].samples.work}
    return Samples({key: np.concatenate([run.samples.values[key] for run in runs]) for key in keys}, work)


def samples_of(rows: Sequence[Row]) -> Samples:
    """Return the figures of every policy but the baseline in one trace; settings are caps, draws are workloads.

    Raises: EngineError for a row without its figures.
    """
    base = {r["window"]: r for r in rows if r["policy"] == EASY}
    values: dict[tuple[str, str, str], list[float]] = {}
    work: dict[tuple[str, str], list[WorkDone]] = {}
    for policy in dict.fromkeys(str(r["policy"]) for r in rows if r["policy"] != EASY):
        own = sorted((r for r in rows if r["policy"] == policy), key=lambda r: (r["cap_percent"], r["window"]))
        for row in own:
            setting = f"{row['cap_percent']:g}"
            work.setdefault((setting, policy), []).append(WorkDone.of_row(row))
            for metric, value in _figures(row, base[row["window"]]).items():
                values.setdefault((setting, policy, metric), []).append(value)
    found = {key: np.array(each) for key, each in values.items()}
    return Samples(found, {key: tuple(did) for key, did in work.items()})


def _figures(row: Row, base: Row) -> dict[str, float]:
    """Return the figures of one run in percent, in the order of ``COLUMNS``.

    ``base`` is the run without a cap, whose turnaround is compared where all jobs ran in both.
    """
    turnaround = "turnaround_s_mean"
    through = gate(WorkDone.of_row(base), WorkDone.of_row(row))
    longer = change_percent(turnaround, number(base, turnaround), number(row, turnaround), through)
    cap = number(row, "cap_w")
    excess = 100.0 * number(row, "excess_w") / cap
    return {
        "unused_percent": 100.0 * (1.0 - number(row, "power_w_mean") / cap),
        "turnaround_change_percent": np.nan if longer is None else longer,
        "under_percent": 100.0 * number(row, "under_w_mean") / cap,
        "over_percent": 100.0 * number(row, "over_w_mean") / cap,
        "over_time_percent": 100.0 * number(row, "over_share"),
        "excess_percent": excess,
        "broken": 100.0 * (excess > 0.0),
    }


def number(row: Row, name: str) -> float:
    """Return a number of a row. Raises: EngineError if it is none."""
    value = row[name]
    if not isinstance(value, float | int):
        raise EngineError(f"{name} of a capped run is {value!r}", where=f"window {row['window']}, {row['policy']}")
    return float(value)
