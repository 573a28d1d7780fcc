"""Bins in time in which a figure draws step series (``model.steps``): minimum, mean and maximum of each bin, exactly.

Half a million events become a few thousand bins, and no peak is lost: the maximum of a bin is the greatest value in
force at any time within it, however short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.model.jobs import Floats

BINS = 6_000
"""Several times the columns of a screen, to zoom in; fewer steps than this are kept as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins in time; bin i reaches from ``edge_s[i]`` to ``edge_s[i + 1]``.

    Attributes:
        edge_s: Edges in rising order. Shape (b + 1,).
        exact: Whether the bins are the steps themselves, so that minimum, mean and maximum agree.
    """

    edge_s: Floats
    exact: bool

    @classmethod
    def of(cls, time_s: Floats, first_s: float, last_s: float, most: int = BINS) -> Bins:
        """Return the steps themselves as bins where they are few, else ``most`` bins of equal length."""
        if last_s <= first_s:
            return cls(np.array([first_s, first_s + 1.0]), exact=True)
        inside = time_s[(time_s > first_s) & (time_s < last_s)]
        steps = np.unique(inside) if len(inside) < most else inside
        # Few steps are their own bins: nothing is lost, and the figure says so.
        if len(steps) < most:
            return cls(np.concatenate(([first_s], steps, [last_s])), exact=True)
        return cls(np.linspace(first_s, last_s, most + 1), exact=False)

    def __len__(self) -> int:
        return len(self.edge_s) - 1
