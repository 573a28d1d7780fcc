"""Every column and metric: name, unit, range, label and meaning, from ``quantities.csv``.

One table feeds the documentation, the schema files beside results, and the axis labels, so a unit is written once. A
new column or metric is a new row there; names end in their unit (``_s``, ``_w``, ``_j``), and a test checks that.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

STATISTICS = MappingProxyType(
    {
        "mean": "mean over jobs",
        "median": "median over jobs",
        "p95": "95th percentile over jobs",
        "p99": "99th percentile over jobs",
    }
)
"""Endings of a per-job figure where it is aggregated over jobs, and how labels write them: ``wait_s_mean``."""


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a number may take."""

    text: str
    """As the table writes it: ``[0, inf)``."""
    low: float
    high: float
    low_open: bool
    """Whether ``low`` itself is excluded."""
    high_open: bool

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below


@dataclass(frozen=True, slots=True)
class Quantity:
    """A column or metric."""

    name: str
    unit: str
    """SI unit, ``1`` for a pure number, empty for text."""
    range: Range | None
    """None for text."""
    label: str
    """Short name for axes and tables."""
    meaning: str
    """One sentence."""

    @property
    def axis(self) -> str:
        """Return the label of an axis: the short name, with the unit in brackets where there is one."""
        return self.label if self.unit in ("", "1") else f"{self.label} ({self.unit})"


@cache
def quantities() -> MappingProxyType[str, Quantity]:
    """Return the whole table by name, in its order; read once."""
    text = Path(__file__).with_name("quantities.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return MappingProxyType(
        {
            row["name"]: Quantity(row["name"], row["unit"], _range(row["range"]), row["label"], row["meaning"])
            for row in rows
        }
    )


def quantity(name: str) -> Quantity:
    """Return the quantity of this name; ``wait_s_p95`` is found through ``wait_s``.

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
    """Parse ``[0, inf)``, ``(0, 1]`` or ``{0, 1}``; None for ``text``."""
    if text == "text":
        return None
    low, high = (float(part) for part in text[1:-1].split(","))
    return Range(text, low, high, text[0] == "(", text[-1] == ")")
