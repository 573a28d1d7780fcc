"""The metric table: each figure of metrics.json by its name, in readable units, with its meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wattqueue.model.quantities import Quantity, quantity
from wattqueue.report import words
from wattqueue.report.run import Metric

GROUPS = {
    "Jobs": ("jobs", "rows_"),
    "What users feel": ("wait_s", "turnaround_s", "bounded_slowdown", "queued_jobs"),
    "The machine": ("makespan_s", "utilization", "busy_units"),
    "Energy": ("job_energy_j", "machine_energy_j", "edp_js"),
    "The cap": ("power_utilization", "cap_"),
    "Prediction": ("mape_percent",),
}
"""Beginnings of the names in each group; what begins otherwise stands last."""
FURTHER = "Further"
SHARES = frozenset({"utilization", "power_utilization"})

# How a value of each unit is read.
READERS: dict[str, Callable[[float], str]] = {
    "s": words.span,
    "W": words.watts,
    "J": words.energy,
    "J s": lambda value: words.si(value, "J s"),
    "%": lambda value: f"{words.figures(value)} %",
    "Hz": lambda value: words.si(value, "Hz"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One metric as it is shown."""

    group: str
    name: str
    label: str
    meaning: str
    value: str


def rows(metrics: Mapping[str, Metric]) -> list[Row]:
    """All metrics that are figures, grouped, in the order in which they came."""
    found = [_row(name, value) for name, value in metrics.items() if name != "schema_version" and value is not None]
    order = [*GROUPS, FURTHER]
    return sorted(found, key=lambda row: order.index(row.group))


def known(name: str) -> Quantity | None:
    """The quantity behind a metric's name, None for one that the table of quantities lacks."""
    try:
        return quantity(name)
    except KeyError:
        return None


def _row(name: str, value: Metric) -> Row:
    what = known(name)
    group = next((g for g, starts in GROUPS.items() if name.startswith(starts)), FURTHER)
    label = what.label if what else name.replace("_", " ")
    return Row(group, name, label, what.meaning if what else "", readable(name, value))


def readable(name: str, value: Metric) -> str:
    """A value in the unit that its quantity has, with a readable prefix."""
    if value is None:
        return "–"
    if isinstance(value, (str, bool)):
        return str(value)
    if name in SHARES:
        return words.percent(value)
    what = known(name)
    reader = READERS.get(what.unit) if what else None
    if reader is not None:
        return reader(float(value))
    return f"{value:,}" if isinstance(value, int) else words.figures(value, 4)
