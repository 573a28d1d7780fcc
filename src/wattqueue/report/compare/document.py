"""Write the page of a comparison: table first, then the figures with one curve per group.

The first group is the reference: all differences, in table and headline, are against it. Where groups have several
seeds, means have 95 % intervals and differences are tested seed by seed (``stats``).
"""

from __future__ import annotations

from html import escape

from wattqueue.report import metric_table
from wattqueue.report.compare import figures
from wattqueue.report.compare.groups import Group
from wattqueue.report.compare.table import (
    Comparison,
    MetricDifference,
    any_intervals,
    any_pairs,
    difference,
    not_comparable,
    notes,
    shown,
)
from wattqueue.report.document import Document, Figures, Table
from wattqueue.report.figure import Drawn
from wattqueue.report.html import Html, kind_mark
from wattqueue.version import __version__


def pictures(comparison: Comparison) -> list[Drawn]:
    """Return all figures of a comparison with their kinds, in the order of the page.

    Power is left out where no run states watts; energy against turnaround where any value is missing. Figures that
    rank groups have those that did the same work only.
    """
    groups, ranked = comparison.groups, comparison.all_open
    watts = any(member.run.has_watts for group in groups for member in group.members)
    found: list[Drawn] = [(figures.power(groups, ranked=ranked), "overlay")] if watts else []
    found += [
        (figures.waiting_jobs(groups, ranked=ranked), "overlay"),
        (figures.utilization(groups), "overlay"),
        (figures.distribution(groups, "wait", ranked=ranked), "cdfs"),
        (figures.distribution(groups, "slowdown", ranked=ranked), "cdfs"),
    ]
    front = figures.trade_off(comparison.comparable)
    return [(front, "pareto"), *found] if front is not None else found


def report(comparison: Comparison) -> str:
    """Return compare.html, which opens without a network.

    The heading names both groups of a pair, else their number; labels are directory names where every group is one
    run.
    """
    groups = comparison.groups
    drawn = pictures(comparison)
    front = [one for one in drawn if one[1] == "pareto"]
    names = [group.label for group in groups]
    return Document(
        title=" and ".join(names) if len(names) == 2 else f"{len(names)} configurations side by side",
        eyebrow=_eyebrow(groups),
        lede=_lede(comparison),
        blocks=[Figures(front), table(comparison), Figures(drawn[len(front) :]), _runs(groups)],
        footer=f"Made by WattQueue {__version__}: `wattqueue compare`.",
        links=(("table", "Table"), ("runs", "Runs")),
    ).html()


def _eyebrow(groups: tuple[Group, ...]) -> str:
    """Return the line above the heading: workload and machine where all runs share them."""
    runs = [m.run.about for g in groups for m in g.members]
    shared = [{getattr(about, name) for about in runs} for name in ("workload", "machine")]
    said = [values.pop() for values in shared if len(values) == 1]
    if any(about.origin == "generated" for about in runs):
        said.append("generated workload")
    return "  ·  ".join(word for word in ["comparison", *said] if word)


def _lede(comparison: Comparison) -> str:
    """Return the differences of mean wait and energy from the first group in a sentence."""
    base = comparison.groups[0].label
    closed = " ".join(f"**{said}**" for said in not_comparable(comparison))
    by_name = {row[0].metric: row for row in comparison.rows}
    parts = []
    for k, group in enumerate(comparison.groups[1:4], 1):
        shown_for = [
            f"{words} **{difference(by_name[name][k]).rstrip('*')}**"
            for name, words in (("wait_s_mean", "mean wait"), ("machine_energy_j", "energy"))
            if name in by_name and by_name[name][k].difference_percent is not None
        ]
        if shown_for:
            parts.append(f"{group.label} has {' and '.join(shown_for)}")
    said = f"Against {base}: {'; '.join(parts)}." if parts else "" if closed else f"Differences are from {base}."
    return " ".join(filter(None, (closed, said)))


def table(comparison: Comparison) -> Table:
    """Return all metrics with one column per group.

    A difference is coloured only if it is an improvement or a loss, and not if a paired test leaves doubt.
    """
    heads = [g.label + (f"\n{len(g.members)} seeds" if len(g.members) > 1 else "") for g in comparison.groups]
    rows = [[_name_html(row[0].metric), *map(_cell_html, row)] for row in comparison.rows]
    kinds = ["", *["n"] * len(heads)]
    return Table(["Metric", *heads], rows, "Metrics side by side", _note(comparison), key="table", kinds=kinds)


def _name_html(metric: str) -> Html:
    """Return the label of a metric above its name."""
    return Html(f"{escape(metric_table.label(metric))}<small><code>{escape(metric)}</code></small>")


def _cell_html(cell: MetricDifference) -> Html:
    """Return one cell: value, interval, difference and p value."""
    mark = {True: " better", False: " worse", None: ""}[cell.better if cell.certain is not False else None]
    more = f'<small class="diff{mark}">{escape(difference(cell))}{_p(cell)}</small>' if difference(cell) else ""
    return Html(f"{escape(shown(cell))}{more}")


def _p(cell: MetricDifference) -> str:
    """Return the p value of the paired test as text, empty where there is none."""
    if cell.pairs is None or cell.pairs.p_t is None or cell.same:
        return ""
    return f" p = {cell.pairs.p_t:.2g}" if cell.pairs.p_t >= 1e-4 else " p &lt; 0.0001"


def _note(comparison: Comparison) -> str:
    """Return the explanation below the table: reference, intervals, p values."""
    said = [*notes(comparison), f"Differences are from {comparison.groups[0].label}."]
    if any_intervals(comparison):
        said.append("± is half of the 95 % confidence interval over seeds (Student’s t).")
    n = any_pairs(comparison)
    if n:
        said.append(
            f"p is the p value of Student’s paired test over {n} common seeds (compare.csv also has Wilcoxon’s); "
            "* marks differences whose paired 95 % interval excludes zero. Of twenty metrics without any true "
            "difference, one is expected to be marked by chance."
        )
    return " ".join(said)


def _runs(groups: tuple[Group, ...]) -> Table:
    """Return the run directories of each group, with seed and whether the jobs are generated."""
    rows = [
        [m.name, g.label, "–" if m.seed is None else str(m.seed), kind_mark(m.run.about.origin)]
        for g in groups
        for m in g.members
    ]
    return Table(("Directory", "Group", "Seed", "Jobs"), rows, "Runs", key="runs", kinds=("",) * 4)
