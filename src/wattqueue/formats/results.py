"""The table of a campaign: one row per run, one Parquet file; the same rows give identical files.

``results_frame`` makes the table from the finished cells of the result store, ``write_results`` the file
``results.parquet``. Nothing in the file depends on when or where a run was made:
rows come in the order of the caller, and the metadata holds versions and ``facts`` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.formats.atomic_write import atomic_write, polars_errors
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
