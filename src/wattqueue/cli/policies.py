"""Policies: list the published ones with their seven parts and source, show one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode=None)
WIDE = 190
"""Columns of a terminal from which nine columns of a table can be read."""


@app.callback(invoke_without_command=True)
def list_(context: typer.Context) -> None:
    """List the published policies: one value for each of the seven choices, and where it comes from."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = 220  # in a pipe or a file nothing is folded to 80 columns
    console.print(_table() if console.width >= WIDE else _paragraphs())


def _table() -> Table:
    """A column a choice."""
    from rich.table import Table

    from wattqueue.policy.policy import ROW_DEFAULTS, published_rows
    from wattqueue.policy.registry import AXES

    table = Table(title=_title())
    table.add_column("policy", no_wrap=True, style="bold")
    for axis in AXES:
        table.add_column(axis, overflow="fold")
    table.add_column("source", overflow="fold", style="dim", ratio=1)
    for name, row in published_rows().items():
        full = {**ROW_DEFAULTS, **row}
        table.add_row(name, *(part_text(full[axis]) for axis in AXES), full["source"])
    return table


def _paragraphs() -> Table:
    """A paragraph a policy, for terminals that nine columns do not fit: what a row says beyond the usual parts."""
    from rich.table import Table
    from rich.text import Text

    from wattqueue.policy.policy import ROW_DEFAULTS, published_rows
    from wattqueue.policy.registry import AXES

    def said(row: dict[str, Any]) -> str:
        return ", ".join(
            f"{axis} {part_text(row[axis])}" if row[axis] else f"no {axis}" for axis in AXES if axis in row
        )

    grid = Table(
        title=_title(), title_justify="left", box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False
    )
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("", Text(f"where nothing else is said: {said(ROW_DEFAULTS)}", style="italic"))
    for name, row in published_rows().items():
        own = {axis: value for axis, value in row.items() if value != ROW_DEFAULTS.get(axis)}
        grid.add_row(name, Text.assemble(f"{said(own) or 'the usual parts'}\n", (str(row["source"]), "dim")))
    return grid


def _title() -> str:
    from wattqueue.policy.policy import published_rows

    return f"{len(published_rows())} policies (wattqueue policies show NAME; --policy NAME)"


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="A published name, my.toml:row, or my.py:MyPart.", metavar="NAME", show_default=False)
    ],
) -> None:
    """Print one policy as a row of a TOML file, ready to be copied and changed, with what each part does."""
    from wattqueue.policy.policy import ROW_DEFAULTS, find_row, policy_from_row
    from wattqueue.policy.registry import AXES

    row = {**ROW_DEFAULTS, **find_row(name)}
    policy_from_row(name, row)  # says what is wrong with it
    print(f'["{name}"]' if not name.replace("-", "").isalnum() else f"[{name}]")
    print(f"source = {toml_text(row['source'])}")
    for axis in AXES:
        listed = row[axis] if isinstance(row[axis], list) else [row[axis]]
        for value in listed:
            print(f"# {part_text(value)}: {part_summary(axis, value)}")
        print(f"{axis} = {toml_text(row[axis])}")


def part_text(value: Any) -> str:
    """``reorder, t_weight 1.5`` of a part with options; several joined by a plus."""
    if isinstance(value, list):
        return " + ".join(part_text(each) for each in value) or "-"
    if isinstance(value, dict):
        options = (f"{key} {option}" for key, option in value.items() if key != "part")
        return ", ".join([str(value["part"]), *options])
    return str(value)


def part_summary(axis: str, value: Any) -> str:
    """First line of a part's docstring."""
    from wattqueue.policy.registry import part_class

    found = part_class(axis, value["part"] if isinstance(value, dict) else value)
    return (found.__doc__ or "").strip().partition("\n")[0]


def toml_text(value: Any) -> str:
    """A value of a row as TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml_text(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml_text(each) for each in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        import json

        return json.dumps(value, ensure_ascii=False)
    return repr(value)
