"""The page of a comparison: table first, then the pictures with all groups laid over one another."""

from __future__ import annotations

from html import escape

from wattqueue import __version__
from wattqueue.report import metric_table
from wattqueue.report.compare import figures
from wattqueue.report.compare.groups import Group
from wattqueue.report.compare.table import Cell, Comparison, any_intervals, any_pairs, difference, shown
from wattqueue.report.document import Drawn, figures_html, page


def pictures(groups: tuple[Group, ...]) -> list[Drawn]:
    """All pictures of a comparison, in the order of the page."""
    watts = any(member.run.has_watts for group in groups for member in group.members)
    found: list[Drawn] = [(figures.power(groups), "overlay")] if watts else []
    found += [
        (figures.waiting_jobs(groups), "overlay"),
        (figures.utilization(groups), "overlay"),
        (figures.distribution(groups, "wait"), "cdfs"),
        (figures.distribution(groups, "slowdown"), "cdfs"),
    ]
    front = figures.pareto(groups)
    return [(front, "pareto"), *found] if front is not None else found


def report(comparison: Comparison) -> str:
    """compare.html, which opens without a network."""
    groups = comparison.groups
    drawn = pictures(groups)
    names = [group.label for group in groups]
    return page(
        title=" and ".join(names) if len(names) == 2 else f"{len(names)} configurations side by side",
        eyebrow=_eyebrow(groups),
        lede=_lede(comparison),
        body="".join(['<div class="figures">', *_body(comparison, drawn), "</div>"]),
        drawn=drawn,
        footer=f"Made by WattQueue {escape(__version__)}: <code>wattqueue compare</code>.",
        links=(("table", "Table"), ("runs", "Runs")),
    )


def _body(comparison: Comparison, drawn: list[Drawn]) -> list[str]:
    """What energy buys comes first, then the table, then everything over time."""
    front = [d for d in drawn if d[1] == "pareto"]
    rest = [d for d in drawn if d[1] != "pareto"]
    return [figures_html(front), table_html(comparison), figures_html(rest), runs_html(comparison.groups)]


def _eyebrow(groups: tuple[Group, ...]) -> str:
    runs = [m.run.about for g in groups for m in g.members]
    shared = [{getattr(about, name) for about in runs} for name in ("workload", "machine")]
    said = [values.pop() for values in shared if len(values) == 1]
    if any(about.origin == "generated" for about in runs):
        said.append("generated workload")
    return "  ·  ".join(word for word in ["comparison", *said] if word)


def _lede(comparison: Comparison) -> str:
    """What changes most against the first group, in a sentence (HTML)."""
    base = escape(comparison.groups[0].label)
    by_name = {row[0].metric: row for row in comparison.rows}
    parts = []
    for k, group in enumerate(comparison.groups[1:4], 1):
        told = [
            f"{words} <strong>{escape(difference(by_name[name][k]).rstrip('*'))}</strong>"
            for name, words in (("wait_s_mean", "mean wait"), ("machine_energy_j", "energy"))
            if name in by_name and by_name[name][k].difference_percent is not None
        ]
        if told:
            parts.append(f"{escape(group.label)} has {' and '.join(told)}")
    return f"Against {base}: {'; '.join(parts)}." if parts else f"Differences are from {base}."


def table_html(comparison: Comparison) -> str:
    """All metrics, a column a group."""
    heads = "".join(
        f'<th scope="col" class="n">{escape(g.label)}{_seeds(len(g.members))}</th>' for g in comparison.groups
    )
    body = "".join(
        f'<tr><th scope="row">{escape(_label(row[0].metric))}<small><code>{escape(row[0].metric)}</code></small></th>'
        f"{''.join(_cell_html(cell) for cell in row)}</tr>"
        for row in comparison.rows
    )
    return (
        '<section class="card" id="table"><h2>Metrics side by side</h2>'
        '<div class="wide" tabindex="0" role="region" '
        f'aria-label="Metrics side by side"><table class="side"><thead><tr>'
        f'<th scope="col">Metric</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{_note(comparison)}</section>"
    )


def _label(name: str) -> str:
    what = metric_table.known(name)
    return what.label if what else name.replace("_", " ")


def _seeds(count: int) -> str:
    return f"<small>{count} seeds</small>" if count > 1 else ""


def _cell_html(cell: Cell) -> str:
    mark = {True: " better", False: " worse", None: ""}[cell.better if cell.certain is not False else None]
    more = f'<small class="diff{mark}">{escape(difference(cell))}{_p(cell)}</small>' if difference(cell) else ""
    return f'<td class="n" data-label="{escape(cell.group)}"><span>{escape(shown(cell))}{more}</span></td>'


def _p(cell: Cell) -> str:
    if cell.pairs is None or cell.pairs.p_t is None or cell.same:
        return ""
    return f" p = {cell.pairs.p_t:.2g}" if cell.pairs.p_t >= 1e-4 else " p &lt; 0.0001"


def _note(comparison: Comparison) -> str:
    said = [f"Differences are from {escape(comparison.groups[0].label)}."]
    if any_intervals(comparison):
        said.append("± is half a 95 % interval over seeds (Student’s t).")
    n = any_pairs(comparison)
    if n:
        said.append(
            f"p is of Student’s paired test over {n} equal seeds (compare.csv also has Wilcoxon’s); "
            "* marks differences whose paired 95 % interval leaves zero out. Of twenty metrics without any "
            "difference, one is expected to bear a mark by chance."
        )
    return f'<p class="note">{" ".join(said)}</p>'


def runs_html(groups: tuple[Group, ...]) -> str:
    """Which run directories stand behind each group."""
    rows = "".join(
        f"<tr><td>{escape(g.label)}</td><td>{escape(m.name)}</td><td>{'–' if m.seed is None else m.seed}</td>"
        f'<td><span class="kind {escape(m.run.about.origin)}">{escape(m.run.about.origin)}</span></td></tr>'
        for g in groups
        for m in g.members
    )
    return (
        '<section class="card" id="runs"><h2>Runs</h2>'
        '<div class="wide" tabindex="0" role="region" '
        'aria-label="Runs"><table><thead><tr><th scope="col">Group</th><th scope="col">Directory</th>'
        '<th scope="col">Seed</th>'
        f'<th scope="col">Jobs</th></tr></thead><tbody>{rows}</tbody></table></div></section>'
    )
