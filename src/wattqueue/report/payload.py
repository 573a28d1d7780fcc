"""Figures as the JSON that the page reads: numbers with six figures, bulk as packed bytes."""

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
"""Columns up to this length stay readable in the file."""
PACKED = {"f": ("f4", np.float32), "i": ("i4", np.int32), "u": ("u1", np.uint8)}


def script_json(value: Mapping[str, Any]) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def encode(figure: Figure, kind: str) -> dict[str, Any]:
    """One figure for the page."""
    extra = dict(figure.extra)
    if kind == "gantt":
        extra["grid"] = encode_grid(extra["grid"], extra) if "grid" in extra else None
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
    """Label, unit and scale."""
    return {"label": axis.label, "unit": axis.unit, "scale": axis.scale}


def encode_column(column: NDArray[Any]) -> list[Any] | dict[str, str]:
    """A long column of numbers packed, a short one or one of names as JSON values (None where not finite)."""
    if column.dtype.kind in PACKED and len(column) > FEW:
        return pack(column)
    if column.dtype.kind == "f":
        return [float(f"{v:.9g}") if np.isfinite(v) else None for v in column.tolist()]
    return [v if isinstance(v, int) else str(v) for v in column.tolist()]


def pack(column: NDArray[Any]) -> dict[str, str]:
    """A column of numbers as base64 of little-endian bytes; large times and energies keep float64."""
    kind, dtype = PACKED[column.dtype.kind]
    if column.dtype.kind == "f" and np.abs(column[np.isfinite(column)]).max(initial=0.0) >= 2**20:
        kind, dtype = "f8", np.float64
    raw = np.ascontiguousarray(column, np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"type": kind, "data": base64.b64encode(raw).decode("ascii")}


def encode_grid(grid: Grid, scales: Mapping[str, Any]) -> dict[str, Any]:
    """Planes of one byte a cell, compressed.

    Share busy is 0..LEVELS, watts and hertz are a level 1..LEVELS of their scale or 0 for unknown.
    """
    # Rounded up, so that a cell that was busy at all is not shown as idle.
    planes = {"busy": np.ceil(grid.busy * LEVELS - 1e-9).astype(np.uint8)}
    if scales["power"]:
        planes["unit_w"] = levels(grid.unit_w, scales["power"])
    if grid.frequency_hz is not None and scales["frequency"]:
        planes["frequency_hz"] = levels(grid.frequency_hz, scales["frequency"])
    if grid.user is not None:
        planes["user"] = np.where(planes["busy"] > 0, grid.user, 0).astype(np.uint8)
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


def levels(value: NDArray[np.float64], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """Values on a scale of LEVELS steps between ``ends``; 0 where NaN."""
    low, high = ends
    share = (value - low) / (high - low) if high > low else np.zeros_like(value)
    step = 1.0 + np.round(np.clip(share, 0.0, 1.0) * (LEVELS - 1))
    return np.where(np.isnan(value), 0.0, step).astype(np.uint8)
