"""Predicted against true watts of one unit, a job a point, binned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.report import words
from wattqueue.report.figure import Figure, power_axis
from wattqueue.report.run import Run

CELLS = 56


def figure(run: Run) -> Figure | None:
    """Predicted and true mean watts of one unit; None where nothing was predicted, or nothing but the truth."""
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
    """Error and direction: what is under the diagonal was promised more watts than it drew."""
    error = float(np.mean(np.abs(true - predicted) / true))
    under = float((true > predicted + 1e-6).mean())
    more = (
        f"{words.percent(under)} of jobs drew more than was counted for them (above the diagonal), "
        "which is what endangers a cap."
        if under
        else "no job drew more than was counted for it."
    )
    return (
        f"The ledger's figure is off by {words.percent(error)} in the mean (MAPE against the true mean power); {more}"
    )
