"""HTML that notebooks show for results: a sentence, a picture, tables.

Everything is inline and self-contained: no script, no style sheet, no request. Colours are those of the notebook's
theme (see ``power_svg``). Labels, units and values come from the same functions as the HTML reports, so a figure
never reads differently in a notebook.

Styles stand in the elements themselves because notebooks differ in what they let through: JupyterLab keeps a ``style``
element only in trusted notebooks, and a rule in it would apply to all other cells of the page. All text is escaped:
names of users, applications and files come from traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from wattqueue.api.power_svg import power_svg
from wattqueue.report import document, metric_table, words
from wattqueue.report.figures import power
from wattqueue.report.text_table import without_gaps

if TYPE_CHECKING:
    from wattqueue.api.compare import RunComparison
    from wattqueue.api.jobs import JobTable
    from wattqueue.api.predict import PredictionScores
    from wattqueue.api.run import RunResult
    from wattqueue.api.whatif import CapStudy

# Inline styles. Nothing sets a colour or background of its own: "inherit" and opacity follow any theme.
FRAME = "max-width:760px;line-height:1.45;color:inherit"
SOFT = "opacity:.72;font-size:.9em"
CELL = "padding:2px 12px 2px 0;border:0;background:none;color:inherit;vertical-align:top"
TABLE = "border-collapse:collapse;border:0;margin:0;table-layout:auto;font-size:inherit"
"""Notebooks have rules of their own for tables (centred, fixed columns), which are set back here."""
HEAD = f"{CELL};font-weight:600;border-bottom:1px solid currentColor"
SHOWN = (
    *(
        "jobs_completed",
        "jobs_killed",
        "jobs_never_ran",
        "all_wait_s_mean",
        "wait_s_mean",
        "node_wait_s_mean",
        "wait_s_p95",
        "bounded_slowdown_mean",
    ),
    *("makespan_s", "utilization", "job_energy_j", "machine_energy_j", "power_utilization"),
    *("cap_overshoot_w", "cap_over_s", "target_overshoot_w", "target_over_s", "mape_percent"),
)
"""Metrics that are shown at once; a fold holds the others."""
QUIET = ("jobs_killed", "jobs_never_ran", "all_wait_s_mean")
"""Metrics that are shown at once only where they say something (``metric_table.says_nothing``)."""
FIRST_ROWS = 5
"""Rows of a job table that are shown."""


def run_html(run: RunResult) -> str:
    """Return a run: heading, sentence, power against the cap, metrics, remarks.

    The picture is left out where neither trace nor machine state watts, as in the report.
    """
    data = run.data
    picture = power_svg(power.figure(data)) if data.has_watts else ""
    found = metric_table.rows(run.record.metrics)
    zero = {name for name in QUIET if metric_table.says_nothing(name, run.record.metrics)}
    main = [row for row in found if row.name in SHOWN and row.name not in zero]
    more = [row for row in found if row not in main]
    half = (len(main) + 1) // 2
    columns = "".join(f'<div style="flex:1 1 320px">{_metrics(part)}</div>' for part in (main[:half], main[half:]))
    fold = f'<details><summary style="{SOFT};cursor:pointer">All metrics</summary>{_metrics(more)}</details>'
    return _framed(
        document.title(data),
        document.eyebrow(data),
        _paragraph(document.lede(data)),
        picture,
        f'<div style="display:flex;flex-wrap:wrap;gap:0 24px;margin-top:6px">{columns}</div>',
        fold if more else "",
        _list(f"{count:,} × {what}" for what, count in run.notes.items()),
    )


def jobs_html(jobs: JobTable) -> str:
    """Return a workload: number of jobs, their origin, the first rows, remarks of its reader."""
    lost = len(jobs.workload.unusable)
    said = f"<strong>{words.count(len(jobs), 'job')}</strong>, {escape(jobs.jobs.origin)}"
    said += f"; {words.count(lost, 'unusable row')} left out" if lost else ""
    frame = jobs.frame.head(FIRST_ROWS)
    rows = [[_value(v) for v in row] for row in frame.iter_rows()]
    return _framed(jobs.name, "", _paragraph(f"{said}."), _table(frame.columns, rows), _list(jobs.notes))


def comparison_html(found: RunComparison) -> str:
    """Return a comparison: one row per metric, one column per group, differences from the first.

    Metrics are those of ``SHOWN``; ``RunComparison.frame`` has all of them.
    """
    from wattqueue.report.compare.table import difference, notes, says_nothing, shown

    comparison = found.comparison
    rows = []
    for cells in comparison.rows:
        if cells[0].metric in SHOWN and not says_nothing(cells):
            what = metric_table.known(cells[0].metric)
            values = [" ".join(filter(None, (shown(c), f"({difference(c)})" if difference(c) else ""))) for c in cells]
            rows.append([what.label if what else cells[0].metric, *values])
    heads = ["", *(group.label for group in comparison.groups)]
    return _framed(
        "Comparison",
        f"differences are from {comparison.groups[0].label}",
        _table(heads, rows),
        _list(notes(comparison)),
    )


def study_html(study: CapStudy) -> str:
    """Return a study of caps: one table and its sentences per configuration, then remarks on the inputs."""
    parts = []
    for table in study.tables:
        parts += [f"<p style='margin:8px 0 2px'><strong>{escape(table.label)}</strong></p>"]
        parts += [_table(table.heads, table.rows), _list(table.sentences)]
    return _framed("What would a cap do?", study.about, *parts, _list(study.remarks))


def scores_html(scores: PredictionScores) -> str:
    """Return an evaluation of estimators: one row each, and remarks on the data."""
    from wattqueue.study.evaluation.page import HEADS, row

    found = scores.evaluation
    # The coverage of quantiles is left out where no estimator predicts any.
    heads, rows = without_gaps([head.replace("\n", ", ") for head in HEADS], [row(e.score) for e in found.found])
    table = _table(heads, rows)
    return _framed("Predicted power of jobs", found.name, table, _list(found.remarks))


def _framed(title: str, below: str, *parts: str) -> str:
    """Return parts under a heading and the line below it, both plain text."""
    head = f'<div style="font-weight:600;font-size:1.15em">{escape(title)}</div>'
    line = f'<div style="{SOFT}">{escape(below)}</div>' if below else ""
    return f'<div class="wattqueue" style="{FRAME}">{head}{line}{"".join(parts)}</div>'


def _value(value: Any) -> str:
    """Return a cell of a job table as text: six significant digits, empty for a gap."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _paragraph(html: str) -> str:
    """Return a sentence (HTML) as a paragraph."""
    return f'<p style="margin:4px 0 8px">{html}</p>'


def _metrics(rows: Sequence[metric_table.MetricRow]) -> str:
    """Return metrics as a table of label and value, with name and meaning as tooltip."""
    body = "".join(
        f'<tr title="{escape(row.name)}: {escape(row.meaning)}" style="background:none">'
        f'<td style="{CELL};text-align:left">{escape(row.label)}</td>'
        f'<td style="{CELL};text-align:right;white-space:nowrap">{escape(row.value)}</td></tr>'
        for row in rows
    )
    return f'<table style="{TABLE};width:100%"><tbody>{body}</tbody></table>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of plain texts; the first column is aligned left."""

    def cells(tag: str, row: Sequence[str], style: str) -> str:
        sides = ["left", *["right"] * (len(row) - 1)]
        found = zip(sides, row, strict=True)
        # Names in the first column stay on one line; only heads may be broken.
        wrap = ";white-space:nowrap" if tag == "td" else ""
        return "".join(f'<{tag} style="{style};text-align:{side}{wrap}">{escape(v)}</{tag}>' for side, v in found)

    body = "".join(f'<tr style="background:none">{cells("td", row, CELL)}</tr>' for row in rows)
    head = f'<thead><tr style="background:none">{cells("th", heads, HEAD)}</tr></thead>'
    table = f'<table style="{TABLE}">{head}<tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto">{table}</div>'


def _list(sentences: Iterable[str]) -> str:
    """Return sentences as a list, nothing for none."""
    items = "".join(f"<li>{escape(line.strip())}</li>" for line in sentences)
    return f'<ul style="{SOFT};margin:6px 0;padding-left:1.2em">{items}</ul>' if items else ""
