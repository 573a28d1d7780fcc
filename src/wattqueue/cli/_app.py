"""Find the verbs, import the one that was named, and explain an error in one line.

Verbs of WattQueue's own packages, installed or not, stand in a table (``_verbs``, made by ``tools/verbs.py``), so that
``wattqueue --help`` reads one module. Those of other distributions are entry points in the group ``wattqueue.verbs``;
they are looked for when a word names no verb of the table, since reading entry points takes longer than the help.

``build`` makes a typer application for one call of the program. Only the named verb is a real command in it;
importing all verbs would take longer than most of them run. ``explain`` decides which exceptions are expected, and
therefore one line, and which are defects of WattQueue, and therefore a traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from wattqueue.cli._verbs import VERBS
from wattqueue.cli._words import refuse_empty, refuse_foreign_digits
from wattqueue.errors import InputError, WattQueueError
from wattqueue.version import __version__

GROUP = "wattqueue.verbs"
INSTALL = "this installation has the core alone: pip install wattqueue"
"""What to do where a package beside the core is missing."""
EXTRAS = {
    "numba": "parts",
    "sklearn": "ml",
    "scipy": "ml",
    "sqlalchemy": "live",
    "alembic": "live",
    "httpx": "live",
    "prometheus_client": "live",
    "psycopg": "live",
    "pymysql": "live",
    "starlette": "page",
    "uvicorn": "page",
    "paho": "agent",
    "pynvml": "agent",
    "dask": "scale",
    "distributed": "scale",
    "dask_jobqueue": "scale",
    "highspy": "bounds",
    "matplotlib": "plot",
    "pandas": "pandas",
    "pyarrow": "pandas",
}
"""The extra of WattQueue (``pip install 'wattqueue[EXTRA]'``) that installs each optional package, by module name."""


class Verb(NamedTuple):
    """A verb of the command line."""

    module: str
    """With ``run`` or ``app``; imported when the verb is named."""
    summary: str


def verbs() -> dict[str, Verb]:
    """Return the verbs of WattQueue's packages by the names they are called with, sorted by name."""
    return {name: Verb(*row) for name, row in VERBS.items()}


def other_verbs() -> dict[str, Verb]:
    """Return the verbs that other distributions add (entry points in ``wattqueue.verbs``)."""
    from wattqueue.installed import entry_points_of

    found = entry_points_of(GROUP)
    return {point.name: Verb(point.value, f"From {point.value}.") for point in found if point.name not in VERBS}


class _Commands(TyperGroup):
    """The commands; a value of another type is refused in the words of the files (``in_words``), not in pydantic's."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command. Raises: what it raises; a value that cannot be used."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            from wattqueue.formats.checked_toml import in_words

            if isinstance(error.__cause__, ValidationError):
                finding = error.__cause__.errors(include_url=False)[0]
                error.message = f"{finding['input']!r} {in_words(finding)}"
            raise


def build(arguments: Sequence[str]) -> typer.Typer:
    """Return the application for these arguments: the named verb in full, the others by name and summary.

    For shell completion every verb is imported, because it completes their options.

    Raises: InputError for an empty argument.
    """
    refuse_empty(arguments)
    refuse_foreign_digits(arguments)
    app = typer.Typer(
        cls=_Commands,
        help="Energy- and power-aware scheduling for HPC clusters: simulate, predict, and drive a stock Slurm.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    everything = "_WATTQUEUE_COMPLETE" in os.environ  # set by the shell's completion script
    # The first word without a dash is the verb: no option before it takes a value.
    asked = next((a for a in arguments if not a.startswith("-")), "")
    known = verbs()
    if everything or (asked and asked not in known):
        known |= other_verbs()
    for name, verb in known.items():
        if name == asked or (everything and _is_installed(verb)):
            _register(app, name, verb)
        else:
            # Listed in the help only: this verb was not named, so the function is never called.
            app.command(name, short_help=verb.summary)(_not_asked)
    return app


def _is_installed(verb: Verb) -> bool:
    """Return whether the package of a verb can be imported."""
    return find_spec(verb.module.partition(".")[0]) is not None


def _register(app: typer.Typer, name: str, verb: Verb) -> None:
    """Import a verb and add it: a group of commands (``app``), or one command (``run``).

    ``name`` is what the user types. A module with neither ``app`` nor ``run`` is a defect and raises AttributeError.

    Raises: InputError where the verb's package is not installed.
    """
    package = verb.module.partition(".")[0]
    if not _is_installed(verb):
        raise InputError(f"needs the package {package}", where=name, hint=INSTALL)
    module = importlib.import_module(verb.module)
    nested = getattr(module, "app", None)
    if isinstance(nested, typer.Typer):
        app.add_typer(nested, name=name, help=verb.summary, short_help=verb.summary)
    else:
        app.command(name, short_help=verb.summary)(module.run)


def _not_asked() -> None:
    """Placeholder for a verb that is only listed."""


def _print_version(wanted: bool) -> None:
    """Print the version and exit, before any verb is looked at."""
    if wanted:
        typer.echo(f"wattqueue {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    _traceback: Annotated[bool, typer.Option("--traceback", help="Show where in the program an error arose.")] = False,
) -> None:
    """Declare the options before the verb; ``main`` reads ``--traceback`` itself, from the raw arguments."""


def explain(error: BaseException) -> str | None:
    """Return the error in one line (where, what, hint); None for a defect of WattQueue, which keeps its traceback.

    Used by ``main``, which prints the line and ends with status 2, or lets the traceback pass.
    """
    return next(_explanations(error), None)


def _explanations(error: BaseException) -> Iterator[str]:
    """Yield the explanation of an expected kind of error; nothing for an unexpected one.

    At most one line is yielded. The kinds are tried from the most specific one: errors of WattQueue, a missing
    optional package (with the extra that installs it), errors of the operating system, of a database's surroundings,
    lack of memory, and errors of the user's own parts. Line ends within a message become blanks, so that one error is
    one line of a log.
    """
    if isinstance(error, WattQueueError):
        # The text of a WattQueueError already has where, what and hint.
        yield " ".join(str(error).split())
    elif isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        yield f"this needs the package {error.name}: pip install 'wattqueue[{extra}]'"
    elif isinstance(error, OSError) and error.strerror:
        # Most OSErrors become WattQueueErrors where they arise; the others at least name their file here.
        place = f"{error.filename}: " if error.filename is not None else ""
        yield f"{place}{error.strerror}"
    elif _is_operational(error):
        from wattqueue.store.failures import hint_of

        yield f"the database fails: {error.__cause__} ({hint_of(error)})"
    elif isinstance(error, MemoryError):
        yield "out of memory (use a smaller workload, or a computer with more memory)"
    elif isinstance(error, Exception):
        yield from _of_own_part(error)


def _is_operational(error: BaseException) -> bool:
    """Return whether a database reports its surroundings: a full disk, a lost server, a file it cannot write.

    SQLAlchemy's other errors are defects of ours. A command that uses no database does not import it here either.
    """
    exceptions = sys.modules.get("sqlalchemy.exc")
    return exceptions is not None and isinstance(error, exceptions.OperationalError)


def _of_own_part(error: Exception) -> Iterator[str]:
    """Yield what a part of the user's own raised, with its line; or what was raised elsewhere while one was in use.

    An error outside the part's file may still follow from what the part returned, so it is no traceback, but it is
    reported with the place that raised it: the part need not be the cause.
    """
    # load_file gives modules of the user's own this prefix.
    files = [str(m.__file__) for name, m in sys.modules.items() if name.startswith("wattqueue_user_")]
    if not files:
        return
    frames = traceback.extract_tb(error.__traceback__)
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    # The innermost line of the part is the one to correct.
    inside = [f"{f.filename}:{f.lineno}" for f in frames if f.filename in files]
    if inside:
        yield f"{inside[-1]}: {said} (wattqueue check FILE tests a part, --traceback shows the calls)"
        return
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "wattqueue"
    yield (
        f"{place}: {said} (raised outside {', '.join(files)}, but while it was in use: wattqueue check FILE tests "
        "whether a part returns what it has to; --traceback shows the calls)"
    )
