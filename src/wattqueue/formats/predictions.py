"""``predictions.csv``: what each estimator predicted for each job, beside what the job drew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats._aside import aside_folder, polars_errors

COLUMNS = ("job_id", "estimator", "predicted_w", "actual_w")


def write_evaluation(
    folder: Path,
    job_id: NDArray[Any],
    actual_w: NDArray[np.float64],
    predicted_w: Mapping[str, NDArray[np.float64]],
    pages: Mapping[str, str],
) -> None:
    """``predictions.csv`` and further files of text (``pages``: name to content), all of them or none.

    Watts are of one unit, estimator by estimator, jobs in trace order; empty where unknown. Shapes (n,).

    Raises: OutputError where the folder cannot be written; it is then as before.
    """
    with aside_folder(folder) as temporary:
        _write_predictions(temporary / "predictions.csv", job_id, actual_w, predicted_w)
        for name, text in pages.items():
            (temporary / name).write_text(text, encoding="utf-8")


def _write_predictions(
    path: Path, job_id: NDArray[Any], actual_w: NDArray[np.float64], predicted_w: Mapping[str, NDArray[np.float64]]
) -> None:
    import polars as pl

    with polars_errors(path), path.open("wb") as out:
        out.write((",".join(COLUMNS) + "\n").encode())
        for name, watts in predicted_w.items():
            frame = pl.DataFrame(
                {
                    "job_id": job_id if job_id.dtype.kind in "iu" else job_id.astype(str),
                    "estimator": pl.repeat(name, len(watts), eager=True),
                    "predicted_w": pl.Series(watts).fill_nan(None),
                    "actual_w": pl.Series(actual_w).fill_nan(None),
                }
            )
            frame.write_csv(out, include_header=False)
