"""The comparison as a table: one row per metric, one column per group, differences from the first group.

Differences are formed pair by pair, over equal seeds, and only where all pairs did the same work
(``model.comparability``). Where they did not, values stand side by side without a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat

from wattqueue.model.comparability import OPEN, CommonJobs, Gate, change_percent, common_jobs, gate_of_pairs
from wattqueue.report import metric_table, words
from wattqueue.report.compare.groups import Group, Member, pairs_of
from wattqueue.report.compare.stats import Estimate, Paired, estimate, paired
from wattqueue.report.document import csv_text
from wattqueue.version import SCHEMA_VERSION

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
        difference_percent: Difference of the means over equal seeds in percent of the first group's; None for the
            first group itself, where the two did not do the same work, and where the first group's mean is 0 or
            missing.
        pairs: Paired test over equal seeds, None where there are fewer than two, or not the same work.
        bound: Whether the value is a lower bound, because some job never ran.
    """

    metric: str
    group: str
    value: Estimate | None
    difference_percent: float | None = None
    pairs: Paired | None = None
    bound: bool = False

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
        gates: Whether each group may be compared with the first one.
        common: What each group and the first have in common where they may not be compared; None otherwise, and for
            groups of several runs.
    """

    groups: tuple[Group, ...]
    rows: tuple[tuple[MetricDifference, ...], ...]
    gates: tuple[Gate, ...]
    common: tuple[CommonJobs | None, ...]

    @property
    def comparable(self) -> tuple[Group, ...]:
        """Return the groups that did the work of the first one, which is the first of them if it did all of it."""
        found = [group for group, through in zip(self.groups[1:], self.gates[1:], strict=True) if through.open]
        return (self.groups[0], *found) if found else ()

    @property
    def all_open(self) -> bool:
        """Return whether every group may be compared with the first one."""
        return all(through.open for through in self.gates)


def compare(groups: Sequence[Group]) -> Comparison:
    """Return every metric that at least one run has, group by group."""
    names = dict.fromkeys(name for group in groups for m in group.members for name in m.metrics)
    gates = tuple(_gate(groups[0], group) for group in groups)
    rows = [tuple(_cells(name, groups, gates)) for name in names if name != "schema_version"]
    kept = tuple(row for row in rows if any(cell.value for cell in row))
    return Comparison(tuple(groups), kept, gates, tuple(map(_common, gates, repeat(groups[0]), groups)))


def _gate(base: Group, other: Group) -> Gate:
    """Return whether a group may be compared with the first one."""
    pairs = [(a.run.work, b.run.work) for a, b in pairs_of(base, other)]
    return OPEN if other is base else gate_of_pairs(pairs, (base.label, other.label))


def _common(through: Gate, base: Group, other: Group) -> CommonJobs | None:
    """Return what two groups of one run each have in common where they may not be compared."""
    pairs = [] if through.open else pairs_of(base, other)
    return common_jobs(pairs[0][0].run, pairs[0][1].run) if len(pairs) == 1 else None


def not_comparable(comparison: Comparison) -> list[str]:
    """Return one sentence for each group that may not be compared with the first one, and why."""
    found = []
    for through, common in zip(comparison.gates, comparison.common, strict=True):
        said = through.sentence
        if common is not None:
            waits = f"{words.span(common.base_wait_s)} and {words.span(common.other_wait_s)}"
            said += f" The {words.count(common.jobs, 'job')} that ran in both waited {waits} on average."
        found += [said] if said else []
    return found


def notes(comparison: Comparison) -> list[str]:
    """Return the sentences below a table: what may not be compared, and why a mean wait may fall under a cap."""
    base, *others = comparison.groups
    pairs = [
        (a.metrics, b.metrics, through)
        for group, through in zip(others, comparison.gates[1:], strict=True)
        for a, b in pairs_of(base, group)
        if b.metrics.get("power_utilization") is not None  # it has a cap
    ]
    falls = any(metric_table.mean_falls(*pair) for pair in pairs)
    return [*not_comparable(comparison), *[metric_table.MAY_FALL] * falls]


def _value(name: str, member: Member) -> float | None:
    """Return a metric of a run, None where it has none."""
    found = member.metrics.get(name)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _cells(name: str, groups: Sequence[Group], gates: Sequence[Gate]) -> Iterator[MetricDifference]:
    """Yield the cells of one metric, the first group's first."""
    for group, through in zip(groups, gates, strict=True):
        values = [v for member in group.members if (v := _value(name, member)) is not None]
        value = estimate(values) if values else None
        bound = any(metric_table.is_bound(name, member.metrics) for member in group.members)
        if group is groups[0]:
            yield MetricDifference(name, group.label, value, bound=bound)
            continue
        percent, test = _difference(name, groups[0], group, through)
        yield MetricDifference(name, group.label, value, percent, test, bound)


def _difference(name: str, base: Group, other: Group, through: Gate) -> tuple[float | None, Paired | None]:
    """Return the difference of a metric in percent over the pairs of two groups, and the paired test of several."""
    if not through.allows(name):
        return None, None
    pairs = [(_value(name, a), _value(name, b)) for a, b in pairs_of(base, other)]
    good = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not good:
        return None, None
    first, second = [a for a, _ in good], [b for _, b in good]
    # No percentage of 0: such a metric shows both values and no difference.
    percent = change_percent(name, estimate(first).mean, estimate(second).mean, through)
    return percent, paired(first, second) if len(good) > 1 else None


def any_intervals(comparison: Comparison) -> bool:
    """Return whether any group has enough seeds for an interval."""
    return any(cell.value is not None and cell.value.half is not None for row in comparison.rows for cell in row)


def any_pairs(comparison: Comparison) -> int:
    """Return the greatest number of seeds that a group shares with the first."""
    return max((cell.pairs.difference.n for row in comparison.rows for cell in row if cell.pairs), default=0)


COLUMNS = (
    *("metric", "unit", "group", "runs", "mean", "ci95_low", "ci95_high", "difference_percent", "pairs"),
    *("paired_difference", "paired_ci95_low", "paired_ci95_high", "p_paired_t", "p_wilcoxon", "not_comparable"),
)
"""Columns of compare.csv."""


def flat(comparison: Comparison) -> Iterator[dict[str, object]]:
    """Yield one mapping per metric and group with the keys of COLUMNS; None where a value does not exist.

    The long form keeps one type per column, which spreadsheets and data frames can pivot as they need.
    """
    why = [through.why or None for through in comparison.gates]
    for cell, closed in (pair for row in comparison.rows for pair in zip(row, why, strict=True)):
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
                    closed,
                ),
                strict=True,
            )
        )


def to_csv(comparison: Comparison) -> str:
    """Return compare.csv: long form, one row per metric and group."""
    return csv_text(COLUMNS, (tuple(row.values()) for row in flat(comparison)))


def to_json(comparison: Comparison) -> str:
    """Return compare.json: groups with their runs and seeds, and the rows of compare.csv."""
    groups = [
        {
            "label": group.label,
            "not_comparable": through.why or None,
            "common_jobs": None if common is None else asdict(common),
            "runs": [{"directory": m.name, "seed": m.seed, **asdict(m.run.about)} for m in group.members],
        }
        for group, through, common in zip(comparison.groups, comparison.gates, comparison.common, strict=True)
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
    text = metric_table.at_least(text, bound=cell.bound)
    return text if not value.half else f"{text} ± {metric_table.readable(name, value.half)}"


def says_nothing(row: Sequence[MetricDifference]) -> bool:
    """Return whether a row can be left out where only the main metrics are shown: 0, or no bound, in every group."""
    name = row[0].metric
    if name.startswith(metric_table.BOUNDS):
        return not any(cell.bound for cell in row)
    return name in metric_table.QUIET and not any(cell.value is not None and cell.value.mean for cell in row)


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
