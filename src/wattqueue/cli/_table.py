"""Print documents, and the metrics of runs side by side, in the terminal.

Names and units are those of the report (``report.metric_table``): one name per figure on every screen, and a prefix
that suits each value, so that a small cluster is not printed as 0.000 MWh.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from wattqueue.report.document import Document
    from wattqueue.report.document import Table as TextTable

ROWS = (
    *("jobs", "jobs_completed", "jobs_killed", "jobs_never_ran"),
    *("all_wait_s_mean", "wait_s_mean", "node_wait_s_mean", "wait_s_p95", "bounded_slowdown_mean"),
    *("utilization", "makespan_s"),
    *("job_energy_j", "machine_energy_j", "power_utilization", "cap_overshoot_w", "cap_over_s"),
    *("target_overshoot_w", "target_over_s"),
)
"""Metrics of the table, in its order."""
QUIET = {"jobs", "jobs_killed", "jobs_never_ran", "all_wait_s_mean"}
"""Metrics whose rows are left out where they say nothing (``metric_table.says_nothing``) for every run."""


WIDEST = 10_000
"""Characters of a line that no table needs."""
ROOM = 12
"""Characters by which a table in a pipe may be wider than its narrowest form, so that texts are hardly broken."""
BY_HAND = (("slowdown", "slow-\ndown"), ("tilization", "tili-\nzation"))
"""Words that would set the width of a column of short figures, and where they are broken."""


def show(title: str, columns: Sequence[tuple[str, Mapping[str, Any]]], console: Console | None = None) -> None:
    """Print ``columns`` of (heading, metrics) side by side; rows that no run has a figure for are left out.

    ``columns`` are in the order of printing; metrics by the names of docs/semantics.md, None for a figure that does
    not exist. ``console`` is for tests.
    """
    from wattqueue.report.metric_table import label, readable_of, says_nothing

    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("Metric")
    for heading, _ in columns:
        table.add_column(heading, justify="right")
    for name in ROWS:
        values = [figures.get(name) for _, figures in columns]
        # Without a cap, for example, its metrics do not exist in any run.
        if all(v is None for v in values):
            continue
        if name in QUIET and all(says_nothing(name, figures) for _, figures in columns):
            continue
        table.add_row(label(name), *(readable_of(name, figures) for _, figures in columns))
    print_table(table, console or Console())


def print_document(document: Document, console: Console | None = None) -> None:
    """Print the text of a document: sentences are broken at the width of a terminal, tables have a line below heads.

    In a pipe or a file each sentence is one line, so that it can be searched for, and a table is as wide as it needs to
    be. ``console`` is for tests.
    """
    from wattqueue.report.document import Table as TextTable

    console = console or Console()
    for part in document.text or document.blocks:
        if isinstance(part, TextTable):
            print_table(_boxed(part), console)
        elif isinstance(part, str):
            _say(console, part)


def _boxed(table: TextTable) -> Table:
    """Return the table for a terminal; heads are broken at blanks so that columns are narrow.

    Figures stand on the right, words on the left. Only columns of words may be broken.
    """
    heads, rows = table.columns_of_text
    found = Table(
        title=None if table.short else table.title, title_justify="left", title_style="bold",
        box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=True,
    )  # fmt: skip
    for k, (head, kind) in enumerate(zip(heads, table.kinds, strict=True)):
        broken = head.replace(" ", "\n")
        for word, parts in BY_HAND:
            broken = broken.replace(word, parts)
        found.add_column(broken, justify="right" if kind == "n" else "left", no_wrap=k not in table.words)
    for row in rows:
        found.add_row(*row)
    return found


def _say(console: Console, line: str) -> None:
    """Print a sentence, broken at the width of a terminal; blanks at its beginning indent all of its lines.

    A sentence that is strong as a whole is bold. Markup is off: file names and labels may contain brackets. Below 20
    characters of width lines are not broken further.
    """
    from wattqueue.report.html import plain

    style, text = ("bold", plain(line)) if line[:2] == "**" == line[-2:] else ("", plain(line))
    if not console.is_terminal:
        console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)
        return
    indent = " " * (len(text) - len(text.lstrip()))
    for part in textwrap.wrap(text, max(console.width, 20), subsequent_indent=indent, break_on_hyphens=False):
        console.print(part, style=style, highlight=False, markup=False)


def print_table(table: Table, console: Console) -> None:
    """Print a table; one that is too wide for the terminal has a block for each row, so that no value is cut."""
    for column in table.columns:
        column.overflow = "fold"
    least = Measurement.get(console, console.options.update_width(WIDEST), table).minimum
    if table.box is SIMPLE_HEAD and not console.is_terminal:
        console.width = max(console.width, least + ROOM)  # a pipe has no width to fit
    if least <= console.width:
        console.print(table)
        return
    if table.title:
        console.print(table.title, style="bold")
    heads = [" ".join(str(column.header).replace("-\n", "").split()) for column in table.columns]
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        console.print(first, style="bold")
        for head, cell in zip(heads[1:], others, strict=True):
            console.print(f"  {head}: {' '.join(str(cell).split())}")
    if table.caption:
        console.print(table.caption)
