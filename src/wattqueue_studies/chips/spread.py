"""How chips differ: spread of watts and times, ranks that carry over, and what choosing chips by a rank saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wattqueue.report.compare.stats import with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.chips.chip_runs import QUANTITIES, ChipRuns, chip_medians
from wattqueue_studies.chips.ranks import RankRow, SavingRow


def spread(runs: ChipRuns) -> dict[str, Any]:
    """Return how chips differ for one application, over medians of chips."""
    watts, time_s = chip_medians(runs)
    return {
        "app": runs.app,
        "chips": len(runs.chips),
        "runs": len(runs.chip),
        "watts": float(watts.mean()),
        "watts_cv_percent": float(100 * watts.std(ddof=1) / watts.mean()),
        "watts_range_percent": float(100 * np.ptp(watts) / watts.mean()),
        "time_cv_percent": float(100 * time_s.std(ddof=1) / time_s.mean()),
        "slowest_percent": float(100 * (time_s.max() / np.median(time_s) - 1)),
        "temperature_c": float(np.median(runs.temperature_c)),
    }


def spread_document(runs: ChipRuns) -> dict[str, Any]:
    """Return the same for JSON: None for what was not measured."""
    return {key: None if value != value else value for key, value in spread(runs).items()}  # noqa: PLR0124 - NaN


def spread_table(runs: Sequence[ChipRuns]) -> Table:
    """Return how chips differ for each application."""
    rows = []
    for one in runs:
        f = spread(one)
        keys = ("watts_cv_percent", "watts_range_percent", "time_cv_percent", "slowest_percent")
        rows.append([one.app, str(f["chips"]), str(f["runs"]), _shown(f["watts"], 0), *(_shown(f[k], 1) for k in keys)])
    heads = ("application", "chips", "runs", "W", "CV of W", "range of W", "CV of time", "slowest")
    return Table(heads, rows, "Chips differ: medians over each chip's runs (%)", "slowest: over the median chip.")


def rank_table(ranks: Sequence[RankRow]) -> Table:
    """Return the rank correlations with their intervals."""
    rows = []
    for row in ranks:
        name = " - ".join(f"{q} of {a}" for a, q in zip(row.apps, row.quantities, strict=True))
        reliable = " / ".join(f"{r:.2f}" for r in row.reliability)
        rows.append([name, with_interval(row.raw, "+", 2), with_interval(row.corrected, "+", 2), reliable])
    heads = ("rank of ... on the same chips", "raw", "without noise", "reliability")
    return Table(heads, rows, "Does a rank carry over? Spearman's rank correlation, 95 % interval over chips")


def saving_table(savings: Sequence[SavingRow], quantity: str) -> Table:
    """Return what each rank saves in watts or in time, by share of the chips."""
    found = [row for row in savings if row.quantity == quantity]
    shares = list(dict.fromkeys(row.share for row in found))
    rows = []
    for app, rank in dict.fromkeys((row.app, row.rank) for row in found):
        of = {row.share: row.saved for row in found if (row.app, row.rank) == (app, rank)}
        rows.append([f"{app} by {rank}", *(with_interval(of[s]) for s in shares)])
    heads = ("chips chosen for ...", *(f"{100 * s:.0f} % of chips" for s in shares))
    return Table(heads, rows, f"Saved {quantity} over all chips, by the rank that chooses them (%)", key=f"{quantity}")


def spread_pictures(runs: Sequence[ChipRuns]) -> list[Drawn]:
    """Return the spread of watts and times over the chips."""
    figures = []
    for k, quantity in enumerate(QUANTITIES):
        values = {one.app: chip_medians(one)[k] for one in runs}
        if np.isnan(np.concatenate([*values.values()])).any():
            continue
        shown = {app: Box.of(100 * v / v.mean() - 100) for app, v in values.items()}
        axis = Axis(f"{quantity} over the mean chip", "%")
        says = "Medians of each chip's runs, measured."
        title = f"Spread of {quantity} over chips"
        figure = boxes.figure(quantity, title, says, axis, shown, rows="application", from_zero=False)
        figures.append((figure, "boxes"))
    return figures


def _shown(value: float, digits: int) -> str:
    """Return a figure, a dash for what was not measured."""
    return "–" if np.isnan(value) else f"{value:.{digits}f}"
