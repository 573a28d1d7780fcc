"""Encode figures as the JSON that the page reads.

Short columns stay readable numbers with nine significant digits; long ones become base64 of little-endian float32,
int32 or bytes, a quarter of the size of decimal text. The Gantt grid is compressed with deflate, which browsers can
undo (``DecompressionStream``). ``page/core.js`` is the decoder of this module.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.report.figure import Axis, Figure
from wattqueue.report.figures.gantt import LEVELS, Grid

FEW = 600
"""Columns up to this length are written as numbers, longer ones as packed bytes."""
PACKED = {"f": ("f4", np.float32), "i": ("i4", np.int32), "u": ("u1", np.uint8)}
"""Type of a packed column by its numpy kind: the name for JavaScript, and the type written."""


def script_json(value: Mapping[str, Any]) -> str:
    """Return JSON that is safe inside a script element.

    ``<`` is escaped, so that no text can close the element; so are U+2028 and U+2029, which end a line in old
    JavaScript.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def encode(figure: Figure, kind: str) -> dict[str, Any]:
    """Return one figure as a JSON value for the page."""
    extra = dict(figure.extra)
    if kind == "gantt":
        extra["grid"] = encode_grid(extra["grid"], extra) if "grid" in extra else None
        extra["jobs"] = encode_jobs(extra["jobs"]) if "jobs" in extra else None
    return {
        "key": figure.key,
        "kind": kind,
        "title": figure.title,
        "says": figure.says,
        "x": encode_axis(figure.x),
        "y": encode_axis(figure.y),
        "heads": figure.heads,
        "columns": {name: encode_column(column) for name, column in figure.columns.items()},
        "extra": extra,
        "called": figure.called,
        "others": [encode(other, kind) for other in figure.others],
    }


def encode_axis(axis: Axis) -> dict[str, Any]:
    """Return label, unit and scale of an axis."""
    return {"label": axis.label, "unit": axis.unit, "scale": axis.scale}


def encode_column(column: NDArray[Any]) -> list[Any] | dict[str, str]:
    """Return a column as JSON: packed where it is long and numeric, else as values, None where not finite."""
    if column.dtype.kind in PACKED and len(column) > FEW:
        return pack(column)
    if column.dtype.kind == "f":
        return [float(f"{v:.9g}") if np.isfinite(v) else None for v in column.tolist()]
    return [v if isinstance(v, int) else str(v) for v in column.tolist()]


def pack(column: NDArray[Any]) -> dict[str, str]:
    """Return a column of numbers as base64 of little-endian bytes.

    Times and energies of 2**20 and more keep float64: float32 has 24 bits of mantissa, and a second in a year needs
    25.
    """
    kind, dtype = PACKED[column.dtype.kind]
    if column.dtype.kind == "f" and np.abs(column[np.isfinite(column)]).max(initial=0.0) >= 2**20:
        kind, dtype = "f8", np.float64
    raw = np.ascontiguousarray(column, np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"type": kind, "data": base64.b64encode(raw).decode("ascii")}


def encode_grid(grid: Grid, scales: Mapping[str, Any]) -> dict[str, Any]:
    """Return the planes of the Gantt grid, one byte per cell, compressed.

    The share of time busy is 0..LEVELS; watts and hertz are a level 1..LEVELS of their scale, or 0 for unknown.
    """
    # Rounded up, so that a cell that was busy at all is not shown as idle.
    planes = {"busy": np.ceil(grid.busy * LEVELS - 1e-9).astype(np.uint8)}
    if scales["power"]:
        planes["unit_w"] = levels(grid.unit_w, scales["power"])
    if grid.frequency_hz is not None and scales["frequency"]:
        planes["frequency_hz"] = levels(grid.frequency_hz, scales["frequency"])
    if grid.user is not None:
        planes["user"] = np.where(planes["busy"] > 0, grid.user, 0).astype(np.uint8)
    # One stream for all planes: they share patterns, and the page inflates once.
    raw = b"".join(np.ascontiguousarray(plane).tobytes() for plane in planes.values())
    return {
        "rows": grid.busy.shape[0],
        "columns": grid.busy.shape[1],
        "column_s": grid.column_s,
        "row_units": grid.row_units,
        "levels": LEVELS,
        "planes": list(planes),
        "planes_deflated": base64.b64encode(zlib.compress(raw, 4)).decode("ascii"),
    }


def encode_jobs(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return rectangles of single jobs, compressed: int32, float32 and byte columns one after another, then the ids.

    Times are whole seconds. Rows are sorted by start and starts are stored as differences, which compress to about a
    third; ``ganttData`` in ``page/gantt.js`` is the decoder.
    """
    order = np.argsort(columns["start_s"], kind="stable")
    start = np.rint(columns["start_s"][order]).astype(np.int64)
    whole = {
        "start_s": np.diff(start, prepend=0),
        "run_s": np.rint((columns["end_s"] - columns["start_s"])[order]),
        "unit_first": columns["unit_first"][order],
        "unit_last": columns["unit_last"][order],
    }
    parts = [np.ascontiguousarray(column, "<i4").tobytes() for column in whole.values()]
    parts += [np.ascontiguousarray(columns[name][order], "<f4").tobytes() for name in ("unit_w", "frequency_hz")]
    parts.append(np.ascontiguousarray(columns["user"][order], np.uint8).tobytes())
    parts.append("\n".join(str(name) for name in columns["job_id"][order].tolist()).encode("utf-8"))
    packed = zlib.compress(b"".join(parts), 4)
    return {"rows": len(order), "deflated": base64.b64encode(packed).decode("ascii")}


def levels(value: NDArray[np.float64], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """Return values on a scale of LEVELS steps between ``ends``, 0 where NaN."""
    low, high = ends
    share = (value - low) / (high - low) if high > low else np.zeros_like(value)
    step = 1.0 + np.round(np.clip(share, 0.0, 1.0) * (LEVELS - 1))
    return np.where(np.isnan(value), 0.0, step).astype(np.uint8)
