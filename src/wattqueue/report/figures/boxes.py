"""Box plots of one quantity, one row per name: quartiles, whiskers and mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.report.figure import Axis, Figure

TUKEY = "whiskers: last value within 1.5 x the box"
"""What whiskers mean, printed in the key."""
HEADS = {
    "name": "estimator",
    "low": "lower whisker",
    "q1": "first quartile",
    "median": "median",
    "q3": "third quartile",
    "high": "upper whisker",
    "mean": "mean",
    "count": "values",
    "published": "published",
}
"""Heads of the table below a box plot."""


@dataclass(frozen=True, slots=True)
class Box:
    """Five numbers that describe a distribution, and its mean. Whiskers end at the last value within 1.5 boxes (Tukey).

    Attributes:
        low: Lower whisker.
        q1: First quartile.
        median: Median.
        q3: Third quartile.
        high: Upper whisker.
        mean: Mean of all values, those beyond the whiskers included.
        count: Number of finite values.
    """

    low: float
    q1: float
    median: float
    q3: float
    high: float
    mean: float
    count: int

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Box:
        """Return the box of the finite ``values``, NaN throughout where there are none. Shape (k,)."""
        good = values[np.isfinite(values)]
        if not len(good):
            return cls(np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, 0)
        q1, median, q3 = np.percentile(good, (25, 50, 75))
        reach = 1.5 * (q3 - q1)
        inside = good[(good >= q1 - reach) & (good <= q3 + reach)]
        low, high = min(float(inside.min()), float(q1)), max(float(inside.max()), float(q3))
        return cls(low, float(q1), float(median), float(q3), high, float(good.mean()), len(good))


def figure(
    key: str,
    title: str,
    says: str,
    axis: Axis,
    boxes: Mapping[str, Box],
    *,
    published: Sequence[float | None] | None = None,
    mark: str = "published",
    rows: str = "estimator",
    from_zero: bool = True,
) -> Figure:
    """Return the boxes of one quantity, one row per name.

    Args:
        key: Key of the figure.
        title: Title.
        says: Sentence.
        axis: Axis of the values.
        boxes: Boxes by name, from top to bottom.
        published: A reference value per row, None for none.
        mark: What the reference value is called.
        rows: What the names are.
        from_zero: Whether the axis begins at 0.
    """
    found = list(boxes.values())
    columns: dict[str, NDArray[np.generic] | NDArray[np.object_]] = {"name": np.array(list(boxes), object)}
    for name in ("low", "q1", "median", "q3", "high", "mean"):
        columns[name] = np.array([getattr(b, name) for b in found], np.float64)
    columns["count"] = np.array([b.count for b in found], np.int64)
    if published is not None:
        columns["published"] = np.array([np.nan if p is None else p for p in published], np.float64)
    heads = {name: HEADS[name] for name in columns} | {"name": rows}
    if published is not None:
        heads["published"] = mark
    return Figure(key, title, says, axis, Axis(""), columns, heads, {"whiskers": TUKEY, "from_zero": from_zero})
