"""Find the verbs, import the one that was asked for, and say an error in one line."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wattqueue import __version__
from wattqueue.errors import WattQueueError

HERE = Path(__file__).parent
EXTRAS = {
    "sklearn": "ml",
    "scipy": "ml",
    "joblib": "scale",
    "sqlalchemy": "live",
    "alembic": "live",
    "httpx": "live",
    "prometheus_client": "live",
    "psycopg": "live",
    "dask": "scale",
    "distributed": "scale",
    "dask_jobqueue": "scale",
    "matplotlib": "plot",
}
"""The extra of ours that brings an optional package."""


def verbs() -> dict[str, str]:
    """Module name of each verb by the name it is called with, in order of their names."""
    stems = {p.stem if p.suffix == ".py" else p.name for p in HERE.iterdir() if _is_verb(p)}
    return {stem.rstrip("_").replace("_", "-"): stem for stem in sorted(stems)}


def _is_verb(path: Path) -> bool:
    if path.name.startswith(("_", ".")):
        return False
    return path.suffix == ".py" or (path / "__init__.py").is_file()


def summary(stem: str) -> str:
    """First line of a verb's docstring, read without importing it."""
    path = HERE / f"{stem}.py"
    with (path if path.is_file() else HERE / stem / "__init__.py").open(encoding="utf-8") as lines:
        return next(lines).strip().lstrip("r").strip('"')


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments: their verb in full, the others by name and summary."""
    app = typer.Typer(
        help="Energy- and power-aware scheduling for HPC clusters: simulate, predict, and drive a stock Slurm.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    everything = "_WATTQUEUE_COMPLETE" in os.environ
    asked = next((a for a in arguments if not a.startswith("-")), "")
    for name, stem in verbs().items():
        if everything or name == asked:
            _register(app, name, stem)
        else:
            app.command(name, short_help=summary(stem))(_not_asked)
    return app


def _register(app: typer.Typer, name: str, stem: str) -> None:
    module = importlib.import_module(f"wattqueue.cli.{stem}")
    nested = getattr(module, "app", None)
    if isinstance(nested, typer.Typer):
        app.add_typer(nested, name=name, help=summary(stem), short_help=summary(stem))
    else:
        app.command(name, short_help=summary(stem))(module.run)


def _not_asked() -> None:
    """Stand-in for a verb that is only listed."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wattqueue {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    _traceback: Annotated[bool, typer.Option("--traceback", help="Show where in the program an error arose.")] = False,
) -> None:
    """Options before the verb; both are handled elsewhere."""


def explain(error: BaseException) -> str | None:
    """The error in one line: what, where, how to mend; None for a defect of ours."""
    return next(_explanations(error), None)


def _explanations(error: BaseException) -> Iterator[str]:
    if isinstance(error, WattQueueError):
        yield " ".join(str(error).split())
    elif isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        yield f"this needs the package {error.name}: pip install 'wattqueue[{extra}]'"
    elif isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        yield f"{place}{error.strerror}"
    elif isinstance(error, MemoryError):
        yield "out of memory (use a smaller workload, or a machine with more)"
    elif isinstance(error, Exception):
        yield from _of_own_part(error)


def _of_own_part(error: Exception) -> Iterator[str]:
    """What a part file of the user's own raised, or what its answer made the engine raise."""
    files = [str(m.__file__) for name, m in sys.modules.items() if name.startswith("wattqueue_user_")]
    if not files:
        return
    inside = [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    said = " ".join(str(error).split())
    yield (
        f"{inside[-1] if inside else ', '.join(files)}: {type(error).__name__}: {said} "
        "(wattqueue check FILE says what a part has to answer, --traceback where it failed)"
    )
