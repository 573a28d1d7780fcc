"""The comparison as a table: a metric a row, a group a column, differences from the first group."""

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
NEITHER = ("jobs", "rows_unusable", "power_utilization")
"""Metrics of which more is neither better nor worse; of all others, less is better."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One metric of one group, and how it differs from the first group."""

    metric: str
    group: str
    value: Estimate | None
    difference_percent: float | None = None
    pairs: Paired | None = None

    @property
    def same(self) -> bool:
        """Whether the difference is too small to be shown."""
        return self.difference_percent is not None and abs(self.difference_percent) < 0.005

    @property
    def better(self) -> bool | None:
        """Whether the difference is to the good; None where there is none, or it is neither."""
        if self.difference_percent is None or self.same or self.metric in NEITHER:
            return None
        return (self.difference_percent > 0) == (self.metric in HIGHER_IS_BETTER)

    @property
    def certain(self) -> bool | None:
        """Whether the paired interval leaves zero out; None where no pairs tell."""
        if self.pairs is None:
            return None
        low, high = self.pairs.difference.low, self.pairs.difference.high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cells, a row a metric in the order of metrics.json, a column a group."""

    groups: tuple[Group, ...]
    rows: tuple[tuple[Cell, ...], ...]


def compare(groups: Sequence[Group]) -> Comparison:
    """Every metric that at least one run has, group by group."""
    names = dict.fromkeys(name for group in groups for m in group.members for name in m.metrics)
    rows = [tuple(_cells(name, groups)) for name in names if name != "schema_version"]
    return Comparison(tuple(groups), tuple(row for row in rows if any(cell.value for cell in row)))


def _values(name: str, group: Group) -> list[float]:
    found = [member.metrics.get(name) for member in group.members]
    return [float(v) for v in found if isinstance(v, (int, float)) and not isinstance(v, bool)]


def _cells(name: str, groups: Sequence[Group]) -> Iterator[Cell]:
    base: Estimate | None = None
    for place, group in enumerate(groups):
        values = _values(name, group)
        value = estimate(values) if values else None
        if place == 0:
            base = value
            yield Cell(name, group.label, value)
            continue
        percent = None
        if value is not None and base is not None and base.mean != 0:
            percent = 100.0 * (value.mean - base.mean) / abs(base.mean)
        yield Cell(name, group.label, value, percent, _pairs(name, groups[0], group))


def _pairs(name: str, base: Group, other: Group) -> Paired | None:
    left, right = base.by_seed(), other.by_seed()
    seeds = [seed for seed in left if seed in right]
    pairs = [(left[seed].metrics.get(name), right[seed].metrics.get(name)) for seed in seeds]
    good = [(float(a), float(b)) for a, b in pairs if isinstance(a, (int, float)) and isinstance(b, (int, float))]
    return paired([a for a, _ in good], [b for _, b in good]) if len(good) > 1 else None


def any_intervals(comparison: Comparison) -> bool:
    """Whether any group has seeds enough for an interval."""
    return any(cell.value is not None and cell.value.half is not None for row in comparison.rows for cell in row)


def any_pairs(comparison: Comparison) -> int:
    """Greatest number of seeds that a group shares with the first."""
    return max((cell.pairs.difference.n for row in comparison.rows for cell in row if cell.pairs), default=0)


COLUMNS = (
    *("metric", "unit", "group", "runs", "mean", "ci95_low", "ci95_high", "difference_percent", "pairs"),
    *("paired_difference", "paired_ci95_low", "paired_ci95_high", "p_paired_t", "p_wilcoxon"),
)


def flat(comparison: Comparison) -> Iterator[dict[str, object]]:
    """One mapping a metric and group, keys as COLUMNS; None where a figure does not exist."""
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
    """compare.csv: long form, one row a metric and group."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in flat(comparison))
    return out.getvalue()


def to_json(comparison: Comparison) -> str:
    """compare.json: groups with their runs and seeds, and the rows of compare.csv."""
    groups = [
        {
            "label": group.label,
            "runs": [{"directory": m.name, "seed": m.seed, **asdict(m.run.about)} for m in group.members],
        }
        for group in comparison.groups
    ]
    whole = {"schema_version": SCHEMA_VERSION, "groups": groups, "rows": list(flat(comparison))}
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def shown(cell: Cell) -> str:
    """Value with its interval, readable: ``2 h 38 min ± 4 min``."""
    if cell.value is None:
        return "–"
    name, value = cell.metric, cell.value
    whole = float(value.mean).is_integer() and name.startswith(("jobs", "rows_"))
    text = metric_table.readable(name, int(value.mean) if whole else value.mean)
    return text if not value.half else f"{text} ± {metric_table.readable(name, value.half)}"


def difference(cell: Cell) -> str:
    """Percent from the first group, with a mark where pairs leave no doubt: ``+3.1 %*``."""
    if cell.difference_percent is None:
        return ""
    size = abs(cell.difference_percent)
    if cell.same:
        return "±0 %"
    sign = "+" if cell.difference_percent > 0 else "−"
    text = f"{size:.3g}" if size < 1_000 else f"{size:,.0f}"
    return f"{sign}{text} %{'*' if cell.certain else ''}"
