"""CSV of unit factors: ``app,unit,watts``, one row per application and unit; several rows of a pair are averaged.

It may have run times as well, ``time_s``: for physics, and for placements that rank by time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.bounds import DURATION_S, UNIT_W

if TYPE_CHECKING:
    import polars as pl

    from wattqueue.model.physics import UnitFigures
    from wattqueue.model.unit_table import UnitTable

COLUMNS = ("app", "unit", "watts", "factor")
"""Header as written; ``factor`` is not read, since it follows from the watts."""


def read_unit_factors(path: Path) -> UnitTable:
    """Return the table of a CSV with ``app``, ``unit`` and ``watts``, maybe ``time_s`` (also gzipped).

    Raises: InputError naming file and line for missing columns, and figures that are not above 0.
    """
    found = read_unit_figures(path)
    return found.watts if found.times is None else replace(found.watts, time_factor=found.times.factor)


def read_unit_figures(path: Path) -> UnitFigures:
    """Return the watts, and the run times if there is a column ``time_s``, of a CSV as ``read_unit_factors`` takes it.

    Raises: InputError as ``read_unit_factors``.
    """
    from wattqueue.formats import csv_records
    from wattqueue.model.physics import UnitFigures

    frame, origin = _read(path)
    timed = "time_s" in frame.columns
    if timed:
        seconds = frame["time_s"].to_numpy()
        csv_records.require_rows(path, DURATION_S.holds(seconds), f"time_s is missing or outside {DURATION_S.text}")
    times = _table(frame, "time_s", origin) if timed else None
    return UnitFigures(path.name, str(path), _table(frame, "watts", origin), times)


def line_of_unit(path: Path, unit: str) -> int:
    """Return the first line of a unit in a CSV as ``read_unit_factors`` takes it; read again, for an error only."""
    from wattqueue.formats import csv_records

    named = _read(path)[0]["unit"].fill_null("").to_numpy().astype(str)
    return csv_records.line_of(path, int(np.argmax(named == unit)))


def _read(path: Path) -> tuple[pl.DataFrame, str]:
    """Return the checked rows of a CSV, and their origin."""
    from wattqueue.formats import csv_records

    frame, facts = csv_records.read(path, csv_records.having(COLUMNS[:3]), ("watts", "time_s"))
    watts = frame["watts"].to_numpy()
    csv_records.require_rows(path, UNIT_W.holds(watts) & (watts > 0), f"watts are missing, 0 or outside {UNIT_W.text}")
    if not len(frame):
        raise InputError("no rows", where=path, hint="write one row per application and unit")
    return frame, facts.get("origin", "measured")


def _table(frame: pl.DataFrame, column: str, origin: str) -> UnitTable:
    """Return the table of one column; rows of one pair are averaged."""
    from wattqueue.model.unit_table import UnitTable

    figures = frame[column].to_numpy()
    apps, app = np.unique(frame["app"].fill_null("").to_numpy().astype(str), return_inverse=True)
    units, unit = np.unique(frame["unit"].fill_null("").to_numpy().astype(str), return_inverse=True)
    total, count = np.zeros((2, len(apps), len(units)))
    np.add.at(total, (app, unit), figures)
    np.add.at(count, (app, unit), 1)
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return UnitTable.of_watts(apps.tolist(), units.tolist(), mean, origin)


def write_unit_factors(path: Path, table: UnitTable) -> None:
    """Write a table of unit factors, pairs without a figure left out. Raises: OutputError."""
    import polars as pl

    from wattqueue.formats import csv_records
    from wattqueue.formats.atomic_write import atomic_write

    at = np.argwhere(np.isfinite(table.factor))
    factor = table.factor[at[:, 0], at[:, 1]]
    frame = pl.DataFrame(
        {
            "app": [table.apps[a] for a in at[:, 0]],
            "unit": [table.units[u] for u in at[:, 1]],
            "watts": factor * table.base_w[at[:, 0]],
            "factor": factor,
        }
    )
    with atomic_write(path) as temporary:
        csv_records.write(temporary, frame, "wattqueue unit factors", {"schema_version": "1", "origin": table.origin})
