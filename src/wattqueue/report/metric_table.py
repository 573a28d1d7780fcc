"""The table of metrics: each value of metrics.json by its name, in readable units, with its meaning.

Labels, units and meanings come from the table of quantities (``model.quantities``), the same that documents and axis
labels use. A metric that the table lacks is shown under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattqueue.model.quantities import Quantity, quantity
from wattqueue.report import words

if TYPE_CHECKING:
    from wattqueue.model.comparability import Gate
    from wattqueue.report.run import Metric

GROUPS = {
    "Jobs": ("jobs", "rows_"),
    "Service for users": ("wait_s", "all_wait_s", "node_wait_s", "turnaround_s", "bounded_slowdown", "queued_jobs"),
    "The machine": ("makespan_s", "utilization", "busy_units"),
    "Energy": ("job_energy_j", "machine_energy_j", "energy_per_node_h_j"),
    "The cap": ("power_utilization", "cap_"),
    "Power domains": ("stranded_", "racks_", "domain_"),
    "Load targets": ("target_",),
    "Prediction": ("mape_percent",),
}
"""Prefixes of the names in each group; a metric with another prefix is listed last, under FURTHER."""
FURTHER = "Further"
"""Heading of metrics that belong to no group."""
BOUNDS = ("all_wait_s",)
"""Prefixes of metrics that are lower bounds where some job never ran."""
QUIET = frozenset({"jobs_killed", "jobs_never_ran"})
"""Counts that are shown among the main metrics only where they are not 0."""
MAY_FALL = (
    "A mean wait may fall under a cap: where power is short, narrow jobs start while a wide one waits, and a mean over "
    "jobs counts both alike. The mean by nodes weights each job by its nodes."
)
"""What is said where ``mean_falls``."""
SHARES = frozenset({"utilization", "power_utilization", "stranded_share", "stranded_waiting_share"})
"""Metrics of unit 1 that are shares and print as percent."""

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
class MetricRow:
    """One metric as it is shown.

    Attributes:
        group: Heading it is listed under.
        name: Key in metrics.json.
        label: Readable name.
        meaning: One sentence, shown as a tooltip.
        value: Value with its unit.
    """

    group: str
    name: str
    label: str
    meaning: str
    value: str


def rows(metrics: Mapping[str, Metric]) -> list[MetricRow]:
    """Return all metrics that have a value, group by group, in the order in which they came."""
    found = [_row(name, metrics) for name, value in metrics.items() if name != "schema_version" and value is not None]
    order = [*GROUPS, FURTHER]
    return sorted(found, key=lambda row: order.index(row.group))


def label(name: str) -> str:
    """Return what every screen calls a metric: the label of its quantity, else the name itself."""
    what = known(name)
    return what.label if what else name.replace("_", " ")


def known(name: str) -> Quantity | None:
    """Return the quantity of a metric's name, None for one that the table of quantities lacks."""
    try:
        return quantity(name)
    except KeyError:
        return None


def _row(name: str, metrics: Mapping[str, Metric]) -> MetricRow:
    """Return one metric with label, meaning and readable value."""
    what = known(name)
    group = next((g for g, starts in GROUPS.items() if name.startswith(starts)), FURTHER)
    return MetricRow(group, name, label(name), what.meaning if what else "", readable_of(name, metrics))


def readable_of(name: str, metrics: Mapping[str, Metric]) -> str:
    """Return a metric of a run as ``readable`` does, with ≥ where jobs that never ran make it a lower bound."""
    value = metrics.get(name)
    return at_least(readable(name, value), bound=value is not None and is_bound(name, metrics))


def is_bound(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Return whether a metric of a run is a lower bound: a wait that had not ended when the run did."""
    # Without the jobs that never ran both means are over the same jobs; rejected ones are in neither.
    return name.startswith(BOUNDS) and metrics.get("all_wait_s_mean") != metrics.get("wait_s_mean")


def mean_falls(base: Mapping[str, Metric], other: Mapping[str, Metric], through: Gate) -> bool:
    """Return whether the mean wait falls from one run to another while the mean by nodes rises."""
    from wattqueue.model.comparability import change

    plain, by_nodes = (
        change(name, _number(base, name), _number(other, name), through) for name in ("wait_s_mean", "node_wait_s_mean")
    )
    return plain is not None and by_nodes is not None and plain < 0 < by_nodes


def _number(metrics: Mapping[str, Metric], name: str) -> float:
    """Return a metric of a run, NaN where it has none."""
    value = metrics.get(name)
    return float("nan") if value is None else float(value)


def at_least(text: str, *, bound: bool) -> str:
    """Return the text of a figure, with ≥ before it where it is a lower bound."""
    return f"≥ {text}" if bound else text


def says_nothing(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Return whether a row of a run's metric can be left out: a count of 0, or a bound where every job ran."""
    if name == "jobs":
        return not metrics.get("jobs_never_ran")
    return not (is_bound(name, metrics) if name.startswith(BOUNDS) else metrics.get(name))


def readable(name: str, value: Metric) -> str:
    """Return a value in the unit of its quantity with a readable prefix, a dash for None.

    Shares are percent; durations, watts and energies have prefixes by size (``words``); counts have separators.
    """
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
