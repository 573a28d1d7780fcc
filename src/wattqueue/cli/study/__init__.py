"""Reproduce a paper's evaluation: its machine, its workload, published values beside ours."""

from __future__ import annotations

import importlib
from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True)

# A study is one file here with a function ``run``; it imports what it needs inside.
for _file in sorted(Path(__file__).parent.glob("[!_]*.py")):
    app.command(_file.stem.replace("_", "-"))(importlib.import_module(f"{__name__}.{_file.stem}").run)


@app.callback()
def _root() -> None:
    """Each study is a command of its own, also while there is only one."""
