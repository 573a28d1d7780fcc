"""Figures of studies: curves over one time (the kind ``overlay``), and named points (x, y) (the kind ``points``)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report.figure import Axis, Figure


def curves(
    key: str, title: str, says: str, axes: tuple[Axis, Axis], lines: Mapping[str, Floats], end_s: float
) -> Figure:
    """Return lines of equal numbers of values, spread evenly over a time until ``end_s``; ``axes`` are (x, y)."""
    count = len(next(iter(lines.values())))
    columns = {"time_s": end_s / count * np.arange(count)} | {f"mean_{k}": v for k, v in enumerate(lines.values())}
    heads = {"time_s": "time"} | {f"mean_{k}": name for k, name in enumerate(lines)}
    groups = [{"label": name, "seeds": 1, "cap": None} for name in lines]
    return Figure(key, title, says, *axes, columns, heads, {"groups": groups, "end_s": end_s, "exact": False})


def points(
    key: str, title: str, says: str, axes: tuple[Axis, Axis], families: Mapping[str, Mapping[str, tuple[float, float]]]
) -> Figure:
    """Return the points (x, y) of each family by name, in their order along its line; ``axes`` are (x, y)."""
    rows = [(f, name, *at) for f, each in enumerate(families.values()) for name, at in each.items()]
    family, name, x, y = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {
        "name": np.array(name, object),
        "x": np.array(x, np.float64),
        "y": np.array(y, np.float64),
        "family": np.array(family, np.int32),
    }
    heads = {"name": "point", "x": axes[0].label, "y": axes[1].label}
    return Figure(key, title, says, *axes, columns, heads, {"families": list(families)})
