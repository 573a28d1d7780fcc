"""HTML that notebooks show for the documents of results: a sentence, a picture, tables.

Everything is inline and self-contained: no script, no style sheet, no request. Colours are those of the notebook's
theme (see ``plot.inline``). Labels, units and values come from the same functions as the HTML reports, so a figure
never reads differently in a notebook.

Styles stand in the elements themselves because notebooks differ in what they let through: JupyterLab keeps a ``style``
element only in trusted notebooks, and a rule in it would apply to all other cells of the page. All text is escaped:
names of users, applications and files come from traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from wattqueue.report import metric_table
from wattqueue.report.document import Document, Table
from wattqueue.report.html import Html, marked_up

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
COLUMNS = 360
"""Bins of a picture over time: more do not fit the width of a cell, and a notebook stores its outputs as text."""
QUIET = ("jobs_killed", "jobs_never_ran", "all_wait_s_mean")
"""Metrics that are shown at once only where they say something (``metric_table.says_nothing``)."""


def document_html(shown: Document) -> str:
    """Return title, lede and text of a document; sentences beside each other are a list, strong ones headings."""
    head = f'<div style="font-weight:600;font-size:1.15em">{escape(shown.title)}</div>'
    line = f'<div style="{SOFT}">{escape(shown.eyebrow)}</div>' if shown.eyebrow else ""
    body = f'<p style="margin:4px 0 8px">{marked_up(shown.lede)}</p>' if shown.lede else ""
    for sentences, parts in groupby(shown.text, _is_sentence):
        found = [*parts]
        body += _list(map(str, found)) if sentences else "".join(map(_part, found))
    return f'<div class="wattqueue" style="{FRAME}">{head}{line}{body}</div>'


def _is_sentence(part: object) -> bool:
    """Return whether a part of a text is one of a list of sentences: neither HTML nor a heading."""
    return isinstance(part, str) and not isinstance(part, Html) and part[:2] != "**"


def _part(part: object) -> str:
    """Return a table, HTML as it is, or a heading."""
    if isinstance(part, Table):
        return _table(*part.columns_of_text)
    return part if isinstance(part, Html) else f'<p style="margin:8px 0 2px">{marked_up(str(part))}</p>'


def metrics_html(rows: Sequence[metric_table.MetricRow]) -> str:
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
    items = "".join(f"<li>{marked_up(line.strip())}</li>" for line in sentences)
    return f'<ul style="{SOFT};margin:6px 0;padding-left:1.2em">{items}</ul>' if items else ""
