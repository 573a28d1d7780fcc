"""A figure as data: columns in SI units, axes with name and unit, and the sentence that says what it shows.

The HTML report, the SVG and PDF figures and the CSV beside them are all made from these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.report import words
from wattqueue.report.run import Run


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows. A value in SI units is drawn at ``value / scale``."""

    name: str
    unit: str = ""
    scale: float = 1.0

    @property
    def label(self) -> str:
        """Name and unit, as it stands beside the axis."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """One picture. ``columns`` have equal lengths and SI units in their names; ``extra`` is for the drawing.

    Where a reader may choose between several of one key and kind, the first holds the ``others``, and each says
    what it is ``called``.
    """

    key: str
    title: str
    says: str
    x: Axis
    y: Axis
    columns: dict[str, NDArray[Any]]
    heads: dict[str, str]
    """What each column is called in the table behind the picture."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    called: str = ""
    others: tuple[Figure, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def time_axis(run: Run) -> Axis:
    """Time since the first submission, in the unit that suits the run's length."""
    scale, unit = words.span_unit(run.last_s - run.first_s)
    return Axis("time since first submission", unit, scale)


def power_axis(highest_w: float, name: str = "power") -> Axis:
    """Watts with the prefix that suits the highest value."""
    scale, prefix = words.prefix_of(highest_w)
    return Axis(name, f"{prefix}W", scale)


SCOPE_WORDS = {
    "machine": "the whole machine",
    "dynamic": "everything above idle",
    "jobs": "running jobs",
}
"""What a cap covers, in words (SEMANTICS: cap_scope)."""


def finite_max(values: NDArray[Any], default: float = 0.0) -> float:
    """Greatest finite value."""
    good = values[np.isfinite(values)]
    return float(good.max()) if len(good) else default
