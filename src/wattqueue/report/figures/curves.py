"""Curves over one time, a line per name: the kind ``overlay`` without bands."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.figure import Axis, Figure


def figure(
    key: str, title: str, says: str, axes: tuple[Axis, Axis], lines: Mapping[str, Floats], end_s: float
) -> Figure:
    """Return lines of equal numbers of values, spread evenly over a time until ``end_s``; ``axes`` are (x, y)."""
    count = len(next(iter(lines.values())))
    columns = {"time_s": end_s / count * np.arange(count)} | {f"mean_{k}": v for k, v in enumerate(lines.values())}
    heads = {"time_s": "time"} | {f"mean_{k}": name for k, name in enumerate(lines)}
    groups = [{"label": name, "seeds": 1, "cap": None} for name in lines]
    return Figure(key, title, says, *axes, columns, heads, {"groups": groups, "end_s": end_s, "exact": False})
