"""Tables in a terminal: no value is cut, however narrow it is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from wattqueue.cli._table import print_table

HEADS = ("policy", "Waiting\ntime,\nmean (h)", "Bounded\nslow-\ndown", *(f"Figure\n{k}" for k in range(9)))
ROWS = [(f"easy+pc-adaptive-{k}", "\N{GREATER-THAN OR EQUAL TO} 123.456", "12,345.6", *["987,654.3"] * 8, f"{k}.5 EUR")
        for k in range(3)]  # fmt: skip


def printed(width: int, *, no_wrap: bool) -> str:
    table = Table(title="2 runs", caption="means")
    for head in HEADS:
        table.add_column(head, no_wrap=no_wrap, justify="right")
    for row in ROWS:
        table.add_row(*row)
    console = Console(file=io.StringIO(), width=width)
    print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("no_wrap", [False, True])
@pytest.mark.parametrize("width", [40, 80, 100])
def test_every_value_is_there(width: int, no_wrap: bool) -> None:
    text = printed(width, no_wrap=no_wrap)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert max(map(len, text.splitlines())) <= width
    lines = [line.strip() for line in text.splitlines()]
    assert lines.count("Bounded slowdown: 12,345.6") == len(ROWS)
    for k in range(3):
        assert f"easy+pc-adaptive-{k}" in lines
        assert f"Figure 8: {k}.5 EUR" in lines


def test_a_table_that_fits_is_a_table() -> None:
    assert "easy+pc-adaptive-0 \N{BOX DRAWINGS LIGHT VERTICAL}" in printed(220, no_wrap=True)
