"""A figure as data: columns in SI units, axes with name and unit, and the sentence that says what it shows.

The HTML report, the SVG and PDF figures and the CSV beside them are all made from these values. Scaling to readable
units is a property of the axis, never of the columns.

Step series are drawn in ``Bins``: half a million events become a few thousand bins, and no peak is lost. The maximum of
a bin is the greatest value in force at any time within it, however short.

Curves that are equal are found (``equal_groups``), so that a figure says so instead of showing one on top of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.run import RunData


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows. A value in SI units is drawn at ``value / scale``.

    Attributes:
        name: Quantity.
        unit: Unit of the drawn values, empty for a pure number.
        scale: SI units per drawn unit: 3,600 for hours.
    """

    name: str
    unit: str = ""
    scale: float = 1.0

    @property
    def label(self) -> str:
        """Return name and unit as they are printed beside the axis."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """One figure.

    Attributes:
        key: Unique name within a page, part of element ids and file names.
        title: Heading.
        says: One or two sentences that state the result with its figures.
        x: Horizontal axis.
        y: Vertical axis.
        columns: Data of equal lengths; the names end with their SI unit (``_s``, ``_w``, ``_j``).
        heads: What each column is called in the table below the figure; columns without an entry are not listed
            there.
        extra: Further values for the drawing functions; must be JSON once ``payload.encode`` is through with it.
        called: Name of the configuration, where a reader may choose between several.
        others: The figures of the other configurations, held by the first one.
    """

    key: str
    title: str
    says: str
    x: Axis
    y: Axis
    columns: dict[str, NDArray[Any]]
    heads: dict[str, str]
    extra: Mapping[str, Any] = field(default_factory=dict)
    called: str = ""
    others: tuple[Figure, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


Drawn = tuple[Figure, str]
"""A figure and the kind of picture that shows it (a function of charts.js)."""


def time_axis(run: RunData) -> Axis:
    """Return the time axis of a run: dates where the trace has them, else time since the first submission."""
    return axis_of_time(run.last_s - run.first_s, run.epoch_s)


def axis_of_time(length_s: float, epoch_s: float | None) -> Axis:
    """Return the axis of a time that begins at 0; ``epoch_s`` is the Unix time of this 0, None if unknown."""
    scale, unit = words.span_unit(length_s)
    if epoch_s is None:
        return Axis("time since first submission", unit, scale)
    years = [datetime.fromtimestamp(t, UTC).year for t in (epoch_s, epoch_s + length_s)]
    span = f"date in {years[0]}" if years[0] == years[1] else f"date, {years[0]} to {years[1]}"
    return Axis(f"{span} (UTC)", "", scale)


def span_of_time(run: RunData) -> dict[str, float]:
    """Return what the drawing functions need of a time axis: its length, and the Unix time of its 0 where known."""
    span = {"end_s": run.last_s - run.first_s}
    return span if run.epoch_s is None else span | {"epoch_s": run.epoch_s}


def power_axis(highest_w: float, name: str = "power") -> Axis:
    """Return an axis of watts with the prefix that suits the highest value."""
    scale, prefix = words.prefix_of(highest_w)
    return Axis(name, f"{prefix}W", scale)


SCOPE_WORDS = {
    "machine": "the whole machine",
    "dynamic": "everything above idle",
    "jobs": "running jobs",
}
"""What a cap covers, in words, by cap scope (rule 14 of docs/semantics.md)."""


def finite_max(values: NDArray[Any], default: float = 0.0) -> float:
    """Return the greatest finite value, ``default`` if there is none."""
    good = values[np.isfinite(values)]
    return float(good.max()) if len(good) else default


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


SAME = 1e-9
"""Relative difference up to which values count as equal: sums in another order differ by less."""


def equal_groups(labels: Sequence[str], curves: Sequence[Sequence[NDArray[np.float64]]]) -> list[list[str]]:
    """Return the labels of curves that are equal throughout, group by group; curves without an equal are left out.

    Each element of ``curves`` holds the columns of one label. NaN equals NaN: a gap at the same place is no
    difference. Cost O(groups x curves); figures have at most a few dozen.
    """
    groups: list[list[int]] = []
    for k, columns in enumerate(curves):
        group = next((g for g in groups if _same(curves[g[0]], columns)), None)
        if group is None:
            groups.append([k])
        else:
            group.append(k)
    return [[labels[k] for k in group] for group in groups if len(group) > 1]


def _same(a: Sequence[NDArray[np.float64]], b: Sequence[NDArray[np.float64]]) -> bool:
    """Return whether two sets of columns are equal up to rounding."""
    return len(a) == len(b) and all(
        x.shape == y.shape and bool(np.allclose(x, y, rtol=SAME, atol=0.0, equal_nan=True))
        for x, y in zip(a, b, strict=True)
    )


def equal_sentence(labels: Sequence[str], curves: Sequence[Sequence[NDArray[np.float64]]]) -> str:
    """Return which curves coincide as a sentence, empty where none do.

    ``curves`` holds the columns of each label. Labels are joined by ``=``, since they may contain commas themselves.
    """
    groups = equal_groups(labels, curves)
    if not groups:
        return ""
    if len(groups[0]) == len(labels):
        return "Both curves are equal." if len(labels) == 2 else f"All {len(labels)} curves are equal."
    named = "; ".join(" = ".join(group) for group in groups)
    return f"Equal curves, drawn on top of each other: {named}."
