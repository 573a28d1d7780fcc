"""Print documents, and the metrics of runs side by side, in the terminal.

Names and units are those of the report (``report.metric_table``): one name per figure on every screen, and a prefix
that suits each value, so that a small cluster is not printed as 0.000 MWh.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from wattqueue.report.document import Document
    from wattqueue.report.document import Table as TextTable

ROWS = (
    *("jobs", "jobs_completed", "jobs_killed", "jobs_never_ran"),
    *("all_wait_s_mean", "wait_s_mean", "node_wait_s_mean", "wait_s_p95", "bounded_slowdown_mean"),
    *("utilization", "makespan_s"),
    *("job_energy_j", "machine_energy_j", "power_utilization", "cap_overshoot_w", "cap_over_s"),
    *("target_overshoot_w", "target_over_s"),
    *("stranded_waiting_share", "domain_blocked_s", "racks_a_job_mean", "fragmented_gpus_mean"),
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


def show(title: str, columns: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Print ``columns`` of (heading, metrics) side by side; rows that no run has a figure for are left out.

    ``columns`` are in the order of printing; metrics by the names of docs/semantics.md, None for a figure that does
    not exist.
    """
    from wattqueue.report.metric_table import label, readable_of, says_nothing

    rows = [("Metric", *(heading for heading, _ in columns))]
    for name in ROWS:
        values = [figures.get(name) for _, figures in columns]
        # Without a cap, for example, its metrics do not exist in any run.
        if all(v is None for v in values):
            continue
        if name in QUIET and all(says_nothing(name, figures) for _, figures in columns):
            continue
        rows.append((label(name), *(readable_of(name, figures) for _, figures in columns)))
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    if sum(widths) + 3 * len(widths) + 1 <= shutil.get_terminal_size().columns:
        _print_framed(title, rows, widths)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for k, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if k else "left")
    for row in rows[1:]:
        table.add_row(*row)
    print_table(table, Console())


def _print_framed(title: str, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """Print a table that fits as it is, heads in its first row; without rich, which takes a tenth of a start-up."""
    strong, end = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")

    def line(left: str, dash: str, between: str, right: str) -> None:
        print(left + between.join(dash * (width + 2) for width in widths) + right)

    def row(cells: Sequence[str], bar: str, before: str, after: str) -> None:
        blanks = [" " * (width - _cells(cell)) for cell, width in zip(cells, widths, strict=True)]
        shown = [f"{cells[0]}{blanks[0]}", *(blank + cell for blank, cell in zip(blanks[1:], cells[1:], strict=True))]
        print(bar + bar.join(f" {before}{cell}{after} " for cell in shown) + bar)

    print(f"{strong}{title}{end}")
    line(*"┏━┳┓")
    row(rows[0], "┃", strong, end)
    line(*"┡━╇┩")
    for cells in rows[1:]:
        row(cells, "│", "", "")
    line(*"└─┴┘")


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def print_document(document: Document, console: Console | None = None) -> None:
    """Print the text of a document: sentences are broken at the width of a terminal, tables have a line below heads.

    In a pipe or a file each sentence is one line, so that it can be searched for, and a table is as wide as it needs to
    be. ``console`` is for tests.
    """
    from rich.console import Console

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
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

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
    from rich.box import SIMPLE_HEAD
    from rich.measure import Measurement

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
