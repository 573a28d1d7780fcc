"""Measurements of applications under GPU limits, which a partition of a machine file names: ``curve = "h100.csv"``.

The header is ``app,limit_w,watts,time_s``, a row for each application and limit: the limit of one GPU, mean watts of
one GPU, and how long the application ran. The greatest limit of each application is taken to hold nothing back. What
becomes of them is the partition's curve, and its floor where the file of the machine states none (``gpu_floor_w``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.formats.source import in_folder
from wattqueue.model.bounds import DURATION_S, UNIT_W
from wattqueue.model.gpu_limits import LimitedRun, floor_of, pooled_curve

COLUMNS = ("app", "limit_w", "watts", "time_s")


def with_curve(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the keys of a partition with what its ``curve`` says in place of the file's name.

    Raises: InputError for a file that cannot be used, and a curve that is stated twice.
    """
    if row.get("curve") is None:
        return row
    given = {key: value for key, value in row.items() if key != "curve"}
    if given.get("curve_share") or given.get("curve_time"):
        raise InputError("curve beside curve_share", where=f"partition {row['name']}", hint="state one of them")
    runs = read_curve(Path(in_folder(row["curve"], folder)))
    floor, idle = floor_of(runs), float(given.get("gpu_idle_w") or 0.0)
    if not given.get("gpu_floor_w"):
        if not np.isfinite(floor):
            where = f"{in_folder(row['curve'], folder)}"
            raise InputError("no limit holds: watts are above each", where=where, hint="state gpu_floor_w")
        given["gpu_floor_w"] = floor
    curve = pooled_curve([run.above(floor) for run in runs], idle)
    return {**given, "curve_share": curve.share, "curve_time": curve.time}


def read_curve(path: Path) -> list[LimitedRun]:
    """Return the applications of a file, limits rising.

    Raises: InputError naming file and line for missing columns or names, figures that are not above 0, an application
    with one limit, and one that is stated twice.
    """
    frame, _ = csv_records.read(path, csv_records.having(COLUMNS), COLUMNS[1:])
    app = frame["app"].cast(str).fill_null("").to_numpy()
    csv_records.require_rows(path, app != "", "application is missing")
    limit, watts, time_s = (frame[name].to_numpy() for name in COLUMNS[1:])
    for name, column, bound in zip(COLUMNS[1:], (limit, watts, time_s), (UNIT_W, UNIT_W, DURATION_S), strict=True):
        good = bound.holds(column) & (column > 0)
        csv_records.require_rows(path, good, f"{name} is missing, 0 or outside {bound.text}")
    found = []
    for name in dict.fromkeys(app.tolist()):
        own = np.flatnonzero(app == name)
        own = own[np.argsort(limit[own], kind="stable")]
        if len(own) < 2 or (np.diff(limit[own]) == 0).any():
            what = f"{name} has {len(own)} limit{'s' if len(own) > 1 else ''}, {len(set(limit[own]))} of them different"
            raise InputError(what, where=path, hint="the limit that holds nothing back, and lower ones, each once")
        found.append(LimitedRun(limit[own], watts[own], time_s[own]))
    if not found:
        raise InputError("no rows", where=path, hint="write one row for each application and limit")
    return found
