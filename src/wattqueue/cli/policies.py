"""Policies: list the published ones with their eight parts and source, or show one.

A policy is a row with one part for each of eight choices (``policy.policy``). ``list`` shows the rows of
policies.toml, as a table on wide terminals and as paragraphs elsewhere; ``show`` prints one row, of policies.toml or
of the user's own file, as TOML to copy. Summaries of parts are the first lines of their docstrings, read when they
are printed, so that they cannot differ from the code.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wattqueue.verbs import Printed, verb_of

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(rich_markup_mode=None)
WIDE = 240
"""Width of a terminal from which a table of nine columns is readable."""
PLAIN = 100
"""Width where there is no terminal and COLUMNS is not set (a pipe, a file, a CI log)."""


@app.callback(invoke_without_command=True)
@verb_of(Printed)
def list_(printed: Printed, context: typer.Context) -> None:
    """List the published policies: one value for each of the eight choices, and where it comes from.

    A table from 240 columns on, else one paragraph per policy, folded to the width of the terminal (or COLUMNS).
    """
    if context.invoked_subcommand is not None:
        return
    from wattqueue.policy.rows import ROW_DEFAULTS, published_rows

    printed.show(
        lambda: {"policies": {name: {**ROW_DEFAULTS, **row} for name, row in published_rows().items()}}, _print_list
    )


def _print_list() -> None:
    """Print the published policies: a table on wide terminals, paragraphs elsewhere."""
    from rich.console import Console

    console = Console()
    width = console.width
    # rich assumes 80 columns for a pipe; COLUMNS is how a user or a CI system states another width.
    if not console.is_terminal and "COLUMNS" not in os.environ:
        width = PLAIN
    if width >= WIDE:
        console.width = width
        console.print(_table())
        return
    for line, style in _paragraphs(width):
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def _table() -> Table:
    """Return one row per policy, one column per choice.

    Defaults are filled in, so that each row is complete. ``fold`` breaks long values instead of cutting them.
    """
    from rich.table import Table

    from wattqueue.policy.interfaces import AXES
    from wattqueue.policy.rows import ROW_DEFAULTS, published_rows

    table = Table(title=_title())
    table.add_column("policy", no_wrap=True, style="bold")
    for axis in AXES:
        table.add_column(axis, overflow="fold")
    table.add_column("source", overflow="fold", style="dim", ratio=1)
    for name, row in published_rows().items():
        full = {**ROW_DEFAULTS, **row}
        table.add_row(name, *(part_text(full[axis]) for axis in AXES), full["source"])
    return table


def _paragraphs(width: int) -> Iterator[tuple[str, str]]:
    """Yield lines and their styles, none longer than ``width``: the defaults once, then what each policy changes.

    The style is one of rich (bold, dim, italic, or empty). The defaults would repeat in nearly every paragraph, so a
    policy lists only what differs.
    """
    from wattqueue.policy.interfaces import AXES
    from wattqueue.policy.rows import ROW_DEFAULTS, published_rows

    def folded(text: str, style: str, indent: str = "  ") -> Iterator[tuple[str, str]]:
        """Yield a text as indented lines with one style."""
        return ((line, style) for line in wrap(text, width, initial_indent=indent, subsequent_indent=indent))

    def parts(row: dict[str, Any]) -> str:
        """Return the parts that a row states, in the order of the eight choices."""
        return ", ".join(
            f"{axis} {part_text(row[axis])}" if row[axis] else f"no {axis}" for axis in AXES if axis in row
        )

    yield from folded(_title(), "italic", "")
    yield from folded(f"Unless a policy states another part: {parts(ROW_DEFAULTS)}.", "italic", "")
    for name, row in published_rows().items():
        own = {axis: value for axis, value in row.items() if value != ROW_DEFAULTS.get(axis)}
        yield name, "bold"
        yield from folded(parts(own) or "the default parts", "")
        yield from folded(str(row["source"]), "dim")


def _title() -> str:
    """Return the heading: how many policies there are, and how to use one."""
    from wattqueue.policy.rows import published_rows

    return f"{len(published_rows())} policies (wattqueue policies show NAME; --policy NAME)"


@app.command()
@verb_of(Printed)
def show(
    printed: Printed,
    name: Annotated[
        str, typer.Argument(help="A published name, my.toml:row, or my.py:MyPart.", metavar="NAME", show_default=False)
    ],
    machine: Annotated[
        str | None, typer.Option(help="The row for this machine: a name of the catalogue, or a TOML file.")
    ] = None,
) -> None:
    """Print one policy as a row of a TOML file, ready to be copied and changed, with a comment on each part.

    The row is complete, defaults included, so that a copy does not change with a later default. With --machine choices
    "for-machine" are parts, and what the machine cannot give is said.
    """
    from wattqueue.formats.machine.file import load_machine
    from wattqueue.formats.toml import key_of, one_line
    from wattqueue.policy.interfaces import AXES, CORRECTIONS
    from wattqueue.policy.policy import load_policy
    from wattqueue.policy.rows import LEFT_OUT, composed, listed

    there = None if machine is None else load_machine(machine)
    row, name = load_policy(name, machine=there).row, composed(name)  # raises what is wrong with it
    lines = [f"[{key_of(_plain_name(name))}]", f"source = {one_line(row['source'])}"]
    for axis in AXES:
        parts = listed(row[axis])
        kinds = [CORRECTIONS if axis == "estimator" and k else axis for k in range(len(parts))]
        summaries = zip(kinds, parts, strict=True)
        comments = (f"{part_text(value)}: {part_summary(kind, value)}" for kind, value in summaries)
        lines += [f"# {' '.join(comment.split())}" for comment in comments]
        lines.append(f"{axis} = {one_line(row[axis])}")
    lines += [f"# left out: {what}" for what in row.get(LEFT_OUT, ())]
    printed.show(lambda: {"name": name, **row}, lambda: lines)


def _plain_name(name: str) -> str:
    """Return a name under which ``FILE:NAME`` finds the row: no folders, and none of the signs that mean something."""
    return re.sub(r"[^\w.+-]+", "-", re.sub(r"[^+=]*/", "", name))


def part_text(value: Any) -> str:
    """Return a part as text: ``reorder, t_weight 1.5`` with options, several joined by a plus, ``-`` for none.

    ``value`` is as a row has it: a name, a table with ``part`` and its options, or a list of either.
    """
    if isinstance(value, list):
        return " + ".join(part_text(each) for each in value) or "-"
    if isinstance(value, dict):
        options = (f"{key} {option}" for key, option in value.items() if key != "part")
        return ", ".join([str(value["part"]), *options])
    return str(value)


def part_summary(axis: str, value: Any) -> str:
    """Return the first line of a part's docstring.

    For a part of the user's own this imports its file. Raises: PolicyError where there is no such part.
    """
    from wattqueue.policy.for_machine import CHOICES
    from wattqueue.policy.registry import part_class
    from wattqueue.policy.rows import FOR_MACHINE

    if value == FOR_MACHINE:
        return (CHOICES[axis].__doc__ or "").partition("\n")[0]
    found = part_class(axis, value["part"] if isinstance(value, dict) else value)
    return (found.__doc__ or "").strip().partition("\n")[0]
