"""Sections of the report without charts: key figures, the table of metrics, and where values come from.

They are plain HTML that can be read without JavaScript. Every text that comes from a file is escaped.
"""

from __future__ import annotations

from html import escape

from wattqueue.report import metric_table, provenance, words
from wattqueue.report.run import RunData

TILES = (
    "jobs_never_ran",
    "all_wait_s_mean",
    "wait_s_mean",
    "bounded_slowdown_mean",
    "utilization",
    "makespan_s",
    "machine_energy_j",
    "job_energy_j",
)
"""Metrics of the tiles; their names are those of the table of metrics."""


QUIET = ("jobs_never_ran", "all_wait_s_mean")
"""Tiles that are shown only where some job never ran."""


def tiles(run: RunData) -> str:
    """Return the values that a reader looks for first, as a row of tiles (HTML).

    The energy of jobs has a second line that says how much of it is measured; time above the cap or load targets is
    red where it is not 0.
    """
    notes = {"job_energy_j": provenance.energy_note(run)}
    shown = [
        (metric_table.label(key), metric_table.readable_of(key, run.metrics), notes.get(key, ""))
        for key in TILES
        if run.metrics.get(key) is not None and not (key in QUIET and metric_table.says_nothing(key, run.metrics))
    ]
    kept = run.kept
    limits = (("Above the cap", run.caps_w, kept.cap_over_s, kept.cap_overshoot_w),
              ("Above load targets", run.targets_w, kept.target_over_s, kept.target_overshoot_w))  # fmt: skip
    bad = set()
    for name, watts, over_s, most_w in limits:
        if len(watts):
            value, note = (
                ("never", "") if not over_s else (words.span(over_s), f"by {words.watts(most_w or 0.0)} at most")
            )
            shown.append((name, value, note))
            bad |= {name} if over_s else set()
    cells = [
        f'<div class="tile{" bad" if name in bad else ""}"><dt>{name}</dt><dd>{escape(value)}'
        f"{f'<small>{escape(note)}</small>' if note else ''}</dd></div>"
        for name, value, note in shown
    ]
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def metrics(run: RunData) -> str:
    """Return all metrics in groups, each with its name in metrics.json (HTML).

    The names are printed so that a reader can find the figure in the files, in ``compare.csv`` or in a campaign's
    table.
    """
    sections = []
    found = metric_table.rows(run.metrics)
    for group in (*metric_table.GROUPS, metric_table.FURTHER):
        rows = "".join(_metric(row) for row in found if row.group == group)
        if rows:
            sections.append(f"<section><h3>{group}</h3><table><tbody>{rows}</tbody></table></section>")
    return (
        f'<section class="card" id="metrics"><h2>Metrics</h2><div class="metrics">{"".join(sections)}</div></section>'
    )


def sources(run: RunData) -> str:
    """Return which values were measured, generated, simulated, predicted or stated (HTML)."""
    found = provenance.sources(run)
    rows = "".join(_source(row) for row in found)
    kinds = dict.fromkeys(s.kind for s in found)
    meaning = "; ".join(f"<b>{kind}</b>: {provenance.KINDS[kind]}" for kind in kinds)
    return (
        '<section class="card" id="sources"><h2>What was measured, generated, predicted</h2><table class="sources">'
        '<thead><tr><th scope="col">Figure</th><th scope="col">Kind</th><th scope="col">Source</th></tr></thead>'
        f'<tbody>{rows}</tbody></table><p class="note">{meaning}.</p></section>'
    )


def _metric(row: metric_table.MetricRow) -> str:
    """Return one row of the table of metrics (HTML)."""
    what = f'<td title="{escape(row.meaning)}">{escape(row.label)}<code>{escape(row.name)}</code></td>'
    return f'<tr>{what}<td class="n">{escape(row.value)}</td></tr>'


def _source(row: provenance.Provenance) -> str:
    """Return one row of the table of sources (HTML)."""
    kind = f'<span class="kind {row.kind}">{row.kind}</span>'
    return f"<tr><td>{escape(row.what)}</td><td>{kind}</td><td>{escape(row.where)}</td></tr>"
