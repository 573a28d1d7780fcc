"""The table of a campaign: one row a run, one Parquet file, the same rows the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue import SCHEMA_VERSION, __version__
from wattqueue.formats._aside import aside, polars_errors

if TYPE_CHECKING:
    import polars as pl


def results_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a table: columns in the order in which rows name them, their kinds by all rows together.

    Whole numbers stay so where all are; a column without any value is one of numbers.
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
    with aside(path) as part, polars_errors(path):
        frame.write_parquet(part, compression_level=1, metadata={f"wattqueue.{k}": v for k, v in stamps.items()})


def _kind(values: Sequence[Any]) -> Any:
    import polars as pl

    kinds = {type(v) for v in values if v is not None}
    if str in kinds:
        return pl.String
    if list in kinds or tuple in kinds:
        return pl.List(pl.Float64)
    return pl.Int64 if kinds and kinds <= {int, bool} else pl.Float64
