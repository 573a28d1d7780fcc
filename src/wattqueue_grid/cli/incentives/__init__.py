"""Reward users whose jobs made room for the grid: settle events, state rewards, design them, offer power.

One file per command with a function ``run``; ``wattqueue_grid.incentives`` computes.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True)

# Files that start with an underscore are helpers.
for _file in sorted(Path(__file__).parent.glob("[!_]*.py")):
    app.command(_file.stem.replace("_", "-"))(importlib.import_module(f"{__name__}.{_file.stem}").run)


@app.callback()
def _root() -> None:
    """Make each file a command of its own, even if there is only one."""
