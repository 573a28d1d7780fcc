"""Physics in files: the keys of a physics file, and CSVs of what was measured (rule 21 of docs/semantics.md).

Cells have the header ``app,partition,frequency_hz,watts,time_s``, a row for each application, partition and clock. An
empty ``frequency_hz``, or no such column, means the partition's highest clock. A partition with GPU limits has
``gpu_cap_w`` in its place. Figures under limits have the header
``app,partition,limit_w,watts,time_s``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.source import in_folder
from wattqueue.formats.toml import read_toml
from wattqueue.model.bounds import DURATION_S, FREQUENCY_HZ, UNIT_W

if TYPE_CHECKING:
    import polars as pl

    from wattqueue.model.physics import Cells, EarFiles, LimitFigures, PhysicsFiles

COLUMNS = ("app", "partition", "watts", "time_s")
"""Columns that a table of cells must have; ``frequency_hz`` may be left out."""
LIMIT_COLUMNS = ("app", "partition", "limit_w", "watts", "time_s")
"""Columns of figures under limits."""


def read_physics_file(path: Path) -> PhysicsFiles:
    """Return the keys of a physics file; paths in it count from its folder. Raises: InputError naming file and key."""
    from wattqueue.formats.checked_toml import read_model
    from wattqueue.formats.machine.schema import PhysicsTable

    checked = read_model(path, PhysicsTable, read_toml(path)).model_dump(exclude_none=True)
    return anchored(physics_files(checked, path), path.parent)


def physics_files(keys: Mapping[str, Any], where: str | Path) -> PhysicsFiles:
    """Return checked keys as files of physics.

    Raises: InputError naming ``where`` if nothing is stated, or not exactly one source of EAR's metrics.
    """
    from wattqueue.model.physics import PhysicsFiles

    stated = {key: value for key, value in keys.items() if value is not None}
    if not stated:
        raise InputError("states no physics", where=where, hint="name a table, units, limits or ear, or a reference")
    if "ear" in stated:
        stated["ear"] = ear_files(stated["ear"], where)
    return PhysicsFiles(**stated)


def ear_files(keys: Mapping[str, Any], where: str | Path) -> EarFiles:
    """Return checked keys as EAR's files. Raises: InputError for none or two sources of the metrics."""
    from wattqueue.model.physics import EarFiles

    files = EarFiles(**keys)
    if (files.apps is None) == (files.database is None):
        raise InputError("ear needs apps or database, one of them", where=where, hint='apps = "apps.csv"')
    return files


def anchored(files: PhysicsFiles, folder: Path) -> PhysicsFiles:
    """Return files whose names count from a folder as names that count from the working directory."""
    table, units, limits = (name and in_folder(name, folder) for name in (files.table, files.units, files.limits))
    return replace(files, table=table, units=units, limits=limits, ear=anchored_ear(files.ear, folder))


def anchored_ear(files: EarFiles | None, folder: Path) -> EarFiles | None:
    """Return EAR's files with names that count from the working directory instead of a folder."""
    if files is None:
        return None
    return replace(files, **{key: name and in_folder(name, folder) for key, name in vars(files).items()})


def read_cells(path: Path) -> Cells:
    """Return the cells of a CSV of measured watts and run times.

    Raises: InputError naming file and line for missing columns or names, and figures that are not above 0.
    """
    from wattqueue.formats import csv_records
    from wattqueue.model.physics import Cells

    frame, where = _rows(path, COLUMNS, ("frequency_hz", "gpu_cap_w", "watts", "time_s"))
    app, partition = _names(frame)
    hz = np.full(len(frame), np.nan)
    if "frequency_hz" in frame.columns:
        hz = frame["frequency_hz"].to_numpy()
    cap_w = frame["gpu_cap_w"].to_numpy() if "gpu_cap_w" in frame.columns else None
    good = np.isnan(hz) | FREQUENCY_HZ.holds(hz)
    csv_records.require_rows(path, good, f"frequency_hz is outside {FREQUENCY_HZ.text}", "2.4 GHz is 2.4e9")
    watts, time_s = (frame[name].to_numpy() for name in COLUMNS[2:])
    return Cells(path.name, app, partition, hz, watts, time_s, where, gpu_cap_w=cap_w)


def read_limits(path: Path) -> LimitFigures:
    """Return the figures of a CSV of watts and run times under limits.

    Raises: InputError naming file and line for missing columns or names, figures that are not above 0, and watts above
    the limit: what a limit does not hold back is no figure of it.
    """
    from wattqueue.formats import csv_records
    from wattqueue.model.physics import LimitFigures

    frame, where = _rows(path, LIMIT_COLUMNS, LIMIT_COLUMNS[2:])
    app, partition = _names(frame)
    limit_w, watts, time_s = (frame[name].to_numpy() for name in LIMIT_COLUMNS[2:])
    columns = zip(LIMIT_COLUMNS[2:], (limit_w, watts, time_s), (UNIT_W, UNIT_W, DURATION_S), strict=True)
    for name, column, bounds in columns:
        good = bounds.holds(column) & (column > 0)
        csv_records.require_rows(path, good, f"{name} is missing, 0 or outside {bounds.text}")
    csv_records.require_rows(path, watts <= limit_w, "watts are above limit_w", "leave out limits that were not held")
    return LimitFigures(path.name, app, partition, limit_w, watts, time_s, where)


def _rows(path: Path, needed: tuple[str, ...], numbers: tuple[str, ...]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the rows of a CSV that names applications and partitions, with file and line of each.

    Raises: InputError for missing columns or names, and a file without rows.
    """
    from wattqueue.formats import csv_records

    frame, _ = csv_records.read(path, csv_records.having(needed), numbers)
    if not len(frame):
        raise InputError("no rows", where=path, hint="write one row for each figure that was measured")
    app, partition = ((frame[name].fill_null("") != "").to_numpy() for name in needed[:2])
    csv_records.require_rows(path, app & partition, "application or partition is missing")
    rows = csv_records.records(path, csv_records.first_comments(path))
    next(rows)  # the column names
    return frame, tuple(f"{path}:{line}" for line, _ in rows)


def _names(frame: pl.DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return applications and partitions of the rows of a CSV."""
    app, partition = (tuple(map(str, frame[name].to_list())) for name in ("app", "partition"))
    return app, partition
