"""Watts of a node as quantiles: a table of percent and watts, measured on other machines or by a site's own meters.

Such a table says nothing of how nodes move together. They count as moving all together, which is the worst: then n
nodes draw n times the quantile of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.series import read_steps
from wattqueue.model.bounds import CAP_W
from wattqueue.model.jobs import Floats

HIGH = 0.999
"""The quantile of measured watts that a baseline plans each node at."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeQuantiles:
    """Shares of the time, rising, and the watts of a node that it is at or below for so long. Shapes (k,)."""

    share: Floats
    node_w: Floats
    name: str
    """File and column."""

    def at(self, share: float) -> float:
        """Return the watts at a share of the time: of the next row of the table, which is never less."""
        row = min(int(np.searchsorted(self.share, share - 1e-12)), len(self.share) - 1)
        return float(self.node_w[row])

    def share_above(self, node_w: float) -> float:
        """Return the share of the time in which a node may draw more: up to the first row above."""
        row = int(np.searchsorted(self.node_w, node_w, side="right"))
        return 0.0 if row >= len(self.share) else 1.0 - float(self.share[row - 1] if row else 0.0)


def read_quantiles(path: Path, column: str | None) -> NodeQuantiles:
    """Return a column of a CSV whose first column is ``percent``, from below 100 to 100.

    Raises: InputError naming the file for columns, percents and watts that are no quantiles.
    """
    rows = read_steps(path, "percent", column, bound=CAP_W)
    share, watts = rows.time_s / 100.0, rows.value
    if share[0] < 0.0 or share[-1] != 1.0:
        hint = "percents rise to 100, the greatest watts that were measured"
        raise InputError(f"percents from {rows.time_s[0]:g} to {rows.time_s[-1]:g}", where=str(path), hint=hint)
    falls = np.flatnonzero(np.diff(watts) < 0)
    if len(falls):
        line = int(rows.line[falls[0] + 1])
        raise InputError("watts fall as the percent rises", where=f"{path}:{line}", hint="sort the quantiles")
    if watts[-1] <= 0:
        raise InputError("no watts above 0", where=str(path), hint="name another column with --column")
    return NodeQuantiles(share, watts, f"{path.name}, {column}" if column else path.name)
