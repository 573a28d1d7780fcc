"""Sections of the page that need no picture: key figures, the metric table, where figures come from."""

from __future__ import annotations

from html import escape

from wattqueue.report import metric_table, provenance, words
from wattqueue.report.figures import power
from wattqueue.report.run import Run

TILES = (
    ("wait_s_mean", "Mean wait"),
    ("bounded_slowdown_mean", "Mean bounded slowdown"),
    ("utilization", "Utilization"),
    ("makespan_s", "Makespan"),
    ("machine_energy_j", "Energy of the machine"),
    ("job_energy_j", "Energy of jobs"),
)


def tiles(run: Run) -> str:
    """The figures that a reader looks for first."""
    shown = [
        (name, metric_table.readable(key, run.metrics[key]), "")
        for key, name in TILES
        if run.metrics.get(key) is not None
    ]
    bad = ""
    if run.series.limited:
        over = power.Excess.of(run.series)
        bad = " bad" if over.over_s > 0 else ""
        value = words.span(over.over_s) if over.over_s else "never"
        shown.append(("Above the cap", value, f"by {words.watts(over.most_w)} at most" if over.over_s else ""))
    cells = [
        f'<div class="tile{bad if name == "Above the cap" else ""}"><dt>{name}</dt><dd>{escape(value)}'
        f"{f'<small>{escape(note)}</small>' if note else ''}</dd></div>"
        for name, value, note in shown
    ]
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def metrics(run: Run) -> str:
    """All metrics in groups, each with its name in metrics.json."""
    sections = []
    found = metric_table.rows(run.metrics)
    for group in (*metric_table.GROUPS, metric_table.FURTHER):
        rows = "".join(_metric(row) for row in found if row.group == group)
        if rows:
            sections.append(f"<section><h3>{group}</h3><table><tbody>{rows}</tbody></table></section>")
    return (
        f'<section class="card" id="metrics"><h2>Metrics</h2><div class="metrics">{"".join(sections)}</div></section>'
    )


def sources(run: Run) -> str:
    """What was measured, generated, simulated, predicted or stated."""
    found = provenance.sources(run)
    rows = "".join(_source(row) for row in found)
    kinds = dict.fromkeys(s.kind for s in found)
    meaning = "; ".join(f"<b>{kind}</b>: {provenance.KINDS[kind]}" for kind in kinds)
    return (
        '<section class="card" id="sources"><h2>What was measured, generated, predicted</h2><table class="sources">'
        '<thead><tr><th scope="col">Figure</th><th scope="col">Kind</th><th scope="col">Source</th></tr></thead>'
        f'<tbody>{rows}</tbody></table><p class="note">{meaning}.</p></section>'
    )


def _metric(row: metric_table.Row) -> str:
    what = f'<td title="{escape(row.meaning)}">{escape(row.label)}<code>{escape(row.name)}</code></td>'
    return f'<tr>{what}<td class="n">{escape(row.value)}</td></tr>'


def _source(row: provenance.Source) -> str:
    kind = f'<span class="kind {row.kind}">{row.kind}</span>'
    return f"<tr><td>{escape(row.what)}</td><td>{kind}</td><td>{escape(row.where)}</td></tr>"
