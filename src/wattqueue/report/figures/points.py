"""Named points (x, y), joined by a line within each family: the kind ``points``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wattqueue.report.figure import Axis, Figure


def figure(
    key: str, title: str, says: str, axes: tuple[Axis, Axis], families: Mapping[str, Mapping[str, tuple[float, float]]]
) -> Figure:
    """Return the points (x, y) of each family by name, in their order along its line; ``axes`` are (x, y)."""
    points = [(f, name, *at) for f, each in enumerate(families.values()) for name, at in each.items()]
    family, name, x, y = zip(*points, strict=True) if points else ((), (), (), ())
    columns = {
        "name": np.array(name, object),
        "x": np.array(x, np.float64),
        "y": np.array(y, np.float64),
        "family": np.array(family, np.int32),
    }
    heads = {"name": "point", "x": axes[0].label, "y": axes[1].label}
    return Figure(key, title, says, *axes, columns, heads, {"families": list(families)})
