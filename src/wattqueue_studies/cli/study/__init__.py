"""Reproduce a paper's evaluation: its machine, its workload, published values beside ours.

One file per study with a function ``run``. It makes the study from the options; ``_run.perform``
checks output files before any work, runs it, writes JSON and HTML atomically and prints tables. Imports stay inside
``run``: help is fast.
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
    """Make each study a command of its own, even if there is only one."""
