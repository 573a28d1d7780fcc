"""The figure of predicted against true watts of one unit, jobs counted in cells.

Half a million points would hide each other, so the plane is divided into ``CELLS`` x ``CELLS`` squares and each
square has the number of its jobs as colour (logarithmic). Predicted watts are those that the ledger counted at the
start of the job, with the idle floor of rule 14 of docs/semantics.md; true watts are the mean over the job's run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.report import words
from wattqueue.report.figure import Figure, power_axis
from wattqueue.report.run import RunData

CELLS = 56  # cells along each axis


def figure(run: RunData) -> Figure | None:
    """Return jobs by predicted and true mean watts; None where nothing was predicted, or the predictions are the truth.

    Columns, one row per square that holds jobs:
        predicted_from_w, true_from_w: Lower ends of the square.
        jobs: Number of jobs in it.

    Both axes share one range, so that the diagonal is the line of perfect prediction.
    """
    good = run.ran & np.isfinite(run.predicted_w) & np.isfinite(run.unit_w) & (run.unit_w > 0)
    predicted, true = run.predicted_w[good], run.unit_w[good]
    if not len(true) or np.allclose(predicted, true, rtol=1e-9, atol=1e-6):
        return None
    low, high = float(min(predicted.min(), true.min())), float(max(predicted.max(), true.max()))
    step = max((high - low) / CELLS, 1e-3)
    column = np.clip(((predicted - low) / step).astype(np.int64), 0, CELLS - 1)
    row = np.clip(((true - low) / step).astype(np.int64), 0, CELLS - 1)
    jobs = np.bincount(row * CELLS + column, minlength=CELLS * CELLS)
    cell = np.flatnonzero(jobs)
    axis = power_axis(high, f"predicted, one {run.unit}")
    return Figure(
        "prediction",
        "Predicted and true power",
        says(predicted, true),
        axis,
        power_axis(high, f"true mean, one {run.unit}"),
        {
            "predicted_from_w": low + (cell % CELLS) * step,
            "true_from_w": low + (cell // CELLS) * step,
            "jobs": jobs[cell],
        },
        {"predicted_from_w": "predicted from", "true_from_w": "true from", "jobs": "jobs"},
        {"step_w": step, "low_w": low, "high_w": low + CELLS * step},
    )


def says(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> str:
    """Return error and direction: a job above the diagonal drew more than the ledger counted for it.

    Only that direction endangers a cap: over-prediction costs waiting time, under-prediction costs the cap.
    Shapes (jobs,).
    """
    error = float(np.mean(np.abs(true - predicted) / true))
    under = float((true > predicted + 1e-6).mean())
    more = (
        f"{words.percent(under)} of jobs drew more than was counted for them (above the diagonal), "
        "which is what endangers a cap."
        if under
        else "no job drew more than was counted for it."
    )
    return (
        f"The watts in the ledger are off by {words.percent(error)} on average (MAPE against true mean power); {more}"
    )
