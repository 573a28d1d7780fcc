"""Changes of metrics over a base policy, as a table, as pictures and as rows for JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.report.figure import Axis, Drawn
from wattqueue.report.figures import boxes
from wattqueue.report.figures.boxes import Box
from wattqueue_studies.frame.published import Published
from wattqueue_studies.frame.samples import Samples, change, change_percent


def changes_table(
    samples: Samples,
    setting: str,
    base: str,
    metrics: Mapping[str, str],
    more: Mapping[str, Callable[[str], str]],
    *,
    title: str,
    note: str = "",
) -> Table:
    """Return a row per policy: changes over a base with 95 % intervals, then further columns.

    Args:
        samples: The simulations.
        setting: Setting of the table.
        base: The policy of comparison.
        metrics: Compared metrics with their headings.
        more: Further columns: heading, and the cell of a policy.
        title: Heading of the table.
        note: Sentence below it.
    """
    rows = []
    for policy in samples.policies:
        of = [samples.pair(setting, policy, base, m) for m in metrics]
        rows.append([policy, *(with_interval(change(*pair)) for pair in of), *(cell(policy) for cell in more.values())])
    title = f"{title}, per cent of change over {base} (±: 95 % of paired changes)"
    return Table(("policy", *metrics.values(), *more), rows, title, note)


def changes_pictures(
    samples: Samples,
    figures: Sequence[tuple[str, str, str]],
    metrics: Sequence[str],
    told: Published,
    policies: Sequence[str],
    beside: tuple[str, Samples] | None = None,
) -> list[Drawn]:
    """Return box plots of changes over a base, draw by draw; published figures are marked.

    Args:
        samples: The simulations.
        figures: Setting, base and number of each figure of the paper.
        metrics: Metrics of each figure; each gets a picture of its own.
        told: The published figures.
        policies: Policies to show.
        beside: Other simulations of the same policies, over the same base among them, and what they are called; each
            policy's box is followed by theirs.
    """
    drawn: list[Drawn] = []
    for setting, base, figure in figures:
        for metric in metrics:
            label = told.labels[metric]
            shown: dict[str, Box] = {}
            marks: list[float | None] = []
            for policy in (p for p in policies if p != base):
                shown[policy] = _changes(samples, setting, policy, base, metric)
                marks.append(told.figure(setting, policy, metric, base))
                if beside is not None:
                    shown[f"{policy}, {beside[0]}"] = _changes(beside[1], setting, policy, base, metric)
                    marks.append(None)
            picture = boxes.figure(
                re.sub(r"\W+", "-", f"{label} {setting} {base}"),
                f"{label.capitalize()} over {base}: {setting}",
                f"{figure}: changes by {told.draws.removesuffix('s')}; a triangle marks what the text prints.",
                Axis(f"change of {label}", "%"),
                shown,
                published=marks,
                rows="policy",
                from_zero=False,
            )
            drawn.append((picture, "boxes"))
    return drawn


def _changes(samples: Samples, setting: str, policy: str, base: str, metric: str) -> Box:
    """Return the box of the changes of one metric over a base, draw by draw."""
    own, other = samples.pair(setting, policy, base, metric)
    return Box.of(100 * (own / other - 1))


def result_rows(
    samples: Samples, bases: Sequence[str], told: Published, names: Callable[[str], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row per (setting, policy, metric, base): value, 95 % interval, change of means in per cent, published.

    Args:
        samples: The simulations.
        bases: Policies that others are compared with.
        told: The published figures.
        names: Returns the keys that describe a setting.

    Figures that do not exist are None.
    """
    rows = []
    for (setting, policy, metric), own in samples.values.items():
        found = estimate(own)
        value, low, high = (_number(found.mean if v is None else v) for v in (found.mean, found.low, found.high))
        head = {**names(setting), "policy": policy, "metric": metric, "value": value, "low": low, "high": high}
        for base in (b for b in bases if b != policy):
            pair = samples.pair(setting, policy, base, metric)
            difference = _number(change_percent(*(values.mean() for values in pair)))
            paper = told.figure(setting, policy, metric, base)
            rows.append({**head, "relative_to": base, "change_percent": difference, "published_percent": paper})
    return rows


def _number(value: float) -> float | None:
    """Return None for NaN and infinity, which JSON cannot hold."""
    return float(value) if np.isfinite(value) else None
