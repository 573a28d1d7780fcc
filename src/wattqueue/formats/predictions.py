"""``predictions.csv``: the watts that each estimator predicted for each job, beside the watts it drew.

Written by ``wattqueue predict``. One row per estimator and job: ``job_id,estimator,predicted_w,actual_w``,
estimators one after the other, jobs in trace order. The long form lets any tool group by estimator, and further
estimators add rows instead of columns.

Each estimator is written as soon as its frame exists, so memory is bounded by one estimator whatever their number.
The folder is written as a whole (``atomic_folder``): a table never stands beside scores of another evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.atomic_write import atomic_folder, polars_errors

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("job_id", "estimator", "predicted_w", "actual_w")
"""The header line; ``predictions_frame`` has the same names in the same order."""


def write_evaluation(
    folder: Path,
    job_id: NDArray[Any],
    actual_w: NDArray[np.float64],
    predicted_w: Mapping[str, NDArray[np.float64]],
    pages: Mapping[str, str],
) -> None:
    """Write ``predictions.csv`` and further files of text (``pages``: name to content), all of them or none.

    Watts are of one unit, estimator by estimator, jobs in trace order; empty where unknown. Shapes (n,).

    Raises: OutputError where the folder cannot be written; it is then as before.

    ``job_id`` are the ids as the workload has them, numbers or texts. ``actual_w`` are the measured watts, NaN where
    a job has none; ``predicted_w`` maps the name of each estimator to its predictions, NaN where it gave none (a job
    without a history, for example).
    """
    with atomic_folder(folder) as temporary:
        _write_predictions(temporary / "predictions.csv", job_id, actual_w, predicted_w)
        for name, text in pages.items():
            (temporary / name).write_text(text, encoding="utf-8")


def _write_predictions(
    path: Path, job_id: NDArray[Any], actual_w: NDArray[np.float64], predicted_w: Mapping[str, NDArray[np.float64]]
) -> None:
    """Write the table one estimator at a time, so that only one of them is in memory as text.

    The header is written by hand, since each frame is appended without one.
    """
    with polars_errors(path), path.open("wb") as out:
        out.write((",".join(COLUMNS) + "\n").encode())
        for name, watts in predicted_w.items():
            frame = predictions_frame(job_id, name, watts, actual_w)
            frame.write_csv(out, include_header=False)


def predictions_frame(
    job_id: NDArray[Any], name: str, predicted_w: NDArray[np.float64], actual_w: NDArray[np.float64]
) -> pl.DataFrame:
    """Return the rows of one estimator with the columns of predictions.csv; null where watts are unknown.

    ``name`` is repeated in every row. Ids that are no integers are written as text, so that an object array of mixed
    values cannot fail. Shapes (n,).
    """
    import polars as pl

    return pl.DataFrame(
        {
            "job_id": job_id if job_id.dtype.kind in "iu" else job_id.astype(str),
            "estimator": pl.repeat(name, len(predicted_w), eager=True),
            # NaN would be written as text; null is an empty field, which every reader of CSV takes for missing.
            "predicted_w": pl.Series(predicted_w).fill_nan(None),
            "actual_w": pl.Series(actual_w).fill_nan(None),
        }
    )
