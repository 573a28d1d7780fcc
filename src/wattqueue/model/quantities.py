"""Every column and metric: name, unit, range, meaning. One table feeds docs, schema and axis labels."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

STATISTICS = MappingProxyType(
    {
        "mean": "mean over jobs",
        "median": "median over jobs",
        "p95": "95th percentile over jobs",
        "p99": "99th percentile over jobs",
    }
)
"""Endings that a per-job figure takes where it is summed up: ``wait_s_mean``."""


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a number may take; ``text`` is how the table writes it."""

    text: str
    low: float
    high: float
    low_open: bool
    high_open: bool

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below


@dataclass(frozen=True, slots=True)
class Quantity:
    """A column or metric. ``unit`` is SI, ``1`` for a pure number, empty for text; text has no range."""

    name: str
    unit: str
    range: Range | None
    label: str
    meaning: str

    @property
    def axis(self) -> str:
        """Label of an axis: what it is, and the unit in brackets unless it is a pure number or text."""
        return self.label if self.unit in ("", "1") else f"{self.label} ({self.unit})"


@cache
def quantities() -> MappingProxyType[str, Quantity]:
    """The whole table by name, in its order."""
    text = files("wattqueue.model").joinpath("quantities.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return MappingProxyType(
        {
            row["name"]: Quantity(row["name"], row["unit"], _range(row["range"]), row["label"], row["meaning"])
            for row in rows
        }
    )


def quantity(name: str) -> Quantity:
    """The quantity of this name; ``wait_s_p95`` is found through ``wait_s``.

    Raises: KeyError for a name that the table does not have.
    """
    table = quantities()
    if name in table:
        return table[name]
    base, _, statistic = name.rpartition("_")
    if statistic not in STATISTICS or base not in table:
        raise KeyError(name)
    q = table[base]
    how = STATISTICS[statistic]
    return Quantity(name, q.unit, q.range, f"{q.label}, {statistic}", f"{q.meaning}; {how}")


def _range(text: str) -> Range | None:
    """Read ``[0, inf)``, ``(0, 1]`` or ``{0, 1}``; None for ``text``."""
    if text == "text":
        return None
    low, high = (float(part) for part in text[1:-1].split(","))
    return Range(text, low, high, text[0] == "(", text[-1] == ")")
