"""The comparison as a table: one row per metric, one column per group, differences from the first group."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from wattqueue import SCHEMA_VERSION
from wattqueue.report import metric_table
from wattqueue.report.compare.groups import Group
from wattqueue.report.compare.stats import Estimate, Paired, estimate, paired

HIGHER_IS_BETTER = ("utilization", "jobs_completed")
"""Metrics that improve when they rise."""
WITHOUT_DIRECTION = ("jobs", "rows_unusable", "power_utilization")
"""Metrics of which more is neither better nor worse. All metrics in neither tuple are better when lower."""


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """One metric of one group and its difference from the first group.

    Attributes:
        metric: Name of the metric.
        group: Label of the group.
        value: Mean with its interval, None where no run has the metric.
        difference_percent: Difference of the means in percent of the first group's; None for the first group itself,
            and where the first group's mean is 0 or missing.
        pairs: Paired test over equal seeds, None where there are fewer than two.
    """

    metric: str
    group: str
    value: Estimate | None
    difference_percent: float | None = None
    pairs: Paired | None = None

    @property
    def same(self) -> bool:
        """Return whether the difference is too small to be shown."""
        return self.difference_percent is not None and abs(self.difference_percent) < 0.005

    @property
    def better(self) -> bool | None:
        """Return whether the difference is an improvement; None where there is none, or the metric has no direction."""
        if self.difference_percent is None or self.same or self.metric in WITHOUT_DIRECTION:
            return None
        return (self.difference_percent > 0) == (self.metric in HIGHER_IS_BETTER)

    @property
    def certain(self) -> bool | None:
        """Return whether the paired interval excludes zero; None where there are no pairs."""
        if self.pairs is None:
            return None
        low, high = self.pairs.difference.low, self.pairs.difference.high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cells.

    Attributes:
        groups: The groups, in the order of the columns.
        rows: One tuple per metric in the order of metrics.json, one cell per group.
    """

    groups: tuple[Group, ...]
    rows: tuple[tuple[MetricDifference, ...], ...]


def compare(groups: Sequence[Group]) -> Comparison:
    """Return every metric that at least one run has, group by group."""
    names = dict.fromkeys(name for group in groups for m in group.members for name in m.metrics)
    rows = [tuple(_cells(name, groups)) for name in names if name != "schema_version"]
    return Comparison(tuple(groups), tuple(row for row in rows if any(cell.value for cell in row)))


def _values(name: str, group: Group) -> list[float]:
    """Return a metric of all members that have it."""
    found = [member.metrics.get(name) for member in group.members]
    return [float(v) for v in found if isinstance(v, (int, float)) and not isinstance(v, bool)]


def _cells(name: str, groups: Sequence[Group]) -> Iterator[MetricDifference]:
    """Yield the cells of one metric, the first group's first."""
    base: Estimate | None = None
    for place, group in enumerate(groups):
        values = _values(name, group)
        value = estimate(values) if values else None
        if place == 0:
            base = value
            yield MetricDifference(name, group.label, value)
            continue
        percent = None
        # No percentage of 0: such a metric shows both values and no difference.
        if value is not None and base is not None and base.mean != 0:
            percent = 100.0 * (value.mean - base.mean) / abs(base.mean)
        yield MetricDifference(name, group.label, value, percent, _pairs(name, groups[0], group))


def _pairs(name: str, base: Group, other: Group) -> Paired | None:
    """Return the paired test of a metric over the seeds that two groups share, None for fewer than two."""
    left, right = base.by_seed(), other.by_seed()
    seeds = [seed for seed in left if seed in right]
    pairs = [(left[seed].metrics.get(name), right[seed].metrics.get(name)) for seed in seeds]
    good = [(float(a), float(b)) for a, b in pairs if isinstance(a, (int, float)) and isinstance(b, (int, float))]
    return paired([a for a, _ in good], [b for _, b in good]) if len(good) > 1 else None


def any_intervals(comparison: Comparison) -> bool:
    """Return whether any group has enough seeds for an interval."""
    return any(cell.value is not None and cell.value.half is not None for row in comparison.rows for cell in row)


def any_pairs(comparison: Comparison) -> int:
    """Return the greatest number of seeds that a group shares with the first."""
    return max((cell.pairs.difference.n for row in comparison.rows for cell in row if cell.pairs), default=0)


COLUMNS = (
    *("metric", "unit", "group", "runs", "mean", "ci95_low", "ci95_high", "difference_percent", "pairs"),
    *("paired_difference", "paired_ci95_low", "paired_ci95_high", "p_paired_t", "p_wilcoxon"),
)
"""Columns of compare.csv."""


def flat(comparison: Comparison) -> Iterator[dict[str, object]]:
    """Yield one mapping per metric and group with the keys of COLUMNS; None where a value does not exist.

    The long form keeps one type per column, which spreadsheets and data frames can pivot as they need.
    """
    for cell in (cell for row in comparison.rows for cell in row):
        what = metric_table.known(cell.metric)
        value = cell.value or Estimate(0, float("nan"))
        pairs = cell.pairs
        yield dict(
            zip(
                COLUMNS,
                (
                    *(cell.metric, what.unit if what else "", cell.group, value.n),
                    *(value.mean if value.n else None, value.low, value.high, cell.difference_percent),
                    *((pairs.difference.n, pairs.difference.mean) if pairs else (None, None)),
                    *((pairs.difference.low, pairs.difference.high) if pairs else (None, None)),
                    *((pairs.p_t, pairs.p_wilcoxon) if pairs else (None, None)),
                ),
                strict=True,
            )
        )


def to_csv(comparison: Comparison) -> str:
    """Return compare.csv: long form, one row per metric and group."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in flat(comparison))
    return out.getvalue()


def to_json(comparison: Comparison) -> str:
    """Return compare.json: groups with their runs and seeds, and the rows of compare.csv."""
    groups = [
        {
            "label": group.label,
            "runs": [{"directory": m.name, "seed": m.seed, **asdict(m.run.about)} for m in group.members],
        }
        for group in comparison.groups
    ]
    whole = {"schema_version": SCHEMA_VERSION, "groups": groups, "rows": list(flat(comparison))}
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def shown(cell: MetricDifference) -> str:
    """Return a value with its interval: ``2 h 38 min ± 4 min``.

    Counts that are whole in every run print without decimals.
    """
    if cell.value is None:
        return "–"
    name, value = cell.metric, cell.value
    whole = float(value.mean).is_integer() and name.startswith(("jobs", "rows_"))
    text = metric_table.readable(name, int(value.mean) if whole else value.mean)
    return text if not value.half else f"{text} ± {metric_table.readable(name, value.half)}"


def difference(cell: MetricDifference) -> str:
    """Return the difference in percent, marked with * where the paired interval excludes zero: ``+3.1 %*``.

    Differences below 0.005 % print as ``±0 %``: what two schedules of the same work differ by is rounding.
    """
    if cell.difference_percent is None:
        return ""
    size = abs(cell.difference_percent)
    if cell.same:
        return "±0 %"
    sign = "+" if cell.difference_percent > 0 else "−"
    text = f"{size:.3g}" if size < 1_000 else f"{size:,.0f}"
    return f"{sign}{text} %{'*' if cell.certain else ''}"
