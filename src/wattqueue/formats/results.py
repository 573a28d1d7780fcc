"""Tables of results: the rows of a campaign (``results.parquet``), and predictions of estimators (``predictions.csv``).

``results_frame`` makes the table from the finished cells of the result store, ``write_results`` the file
``results.parquet``. Nothing in the file depends on when or where a run was made:
rows come in the order of the caller, and the metadata holds versions and ``facts`` only.

``predictions.csv``: the watts that each estimator predicted for each job, beside the watts it drew.

Written by ``wattqueue predict``. One row per estimator and job: ``job_id,estimator,predicted_w,actual_w``,
estimators one after the other, jobs in trace order. The long form lets any tool group by estimator, and further
estimators add rows instead of columns.

Each estimator is written as soon as its frame exists, so memory is bounded by one estimator whatever their number.
The folder is written as a whole (``atomic_folder``): a table never stands beside scores of another evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.atomic_folder import atomic_folder, polars_errors
from wattqueue.formats.atomic_write import atomic_write
from wattqueue.version import SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    import polars as pl


def results_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows as a table: columns in the order in which rows name them, their types by all rows together.

    Rows of different cells may have different columns; a missing one is null. Whole numbers stay integers where all
    are; a column without any value is one of numbers, so that two tables of one campaign can be joined.

    ``rows`` map column names to scalars, lists of numbers, or None. The type must follow from all rows: polars would
    infer it from the first ones, and fail at a first text far below.
    """
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pl.DataFrame([pl.Series(name, values, _kind(values), strict=False) for name, values in columns.items()])


def write_results(path: Path, frame: pl.DataFrame, facts: Mapping[str, str]) -> None:
    """Write the table with its stamps: schema version, program version, and ``facts`` (``wattqueue.*``).

    Raises: OutputError; the file is then as it was before.
    """
    stamps = {"schema_version": str(SCHEMA_VERSION), "version": __version__, **facts}
    with atomic_write(path) as part, polars_errors(path):
        frame.write_parquet(part, compression_level=1, metadata={f"wattqueue.{k}": v for k, v in stamps.items()})


def _kind(values: Sequence[Any]) -> Any:
    """Return the type of a column that holds all of these values.

    One text makes the column text; True counts as an integer; a list becomes a list of floats; anything else is
    float64.
    """
    import polars as pl

    kinds = {type(v) for v in values if v is not None}
    if str in kinds:
        return pl.String
    if list in kinds or tuple in kinds:
        return pl.List(pl.Float64)
    return pl.Int64 if kinds and kinds <= {int, bool} else pl.Float64


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
