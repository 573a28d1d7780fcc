"""The command line, a thin file a verb; heavy imports stay inside the verb.

A new verb is one new file here: ``cli/NAME.py`` (a trailing underscore is dropped, as in
``import_.py``; other underscores become dashes). The first line of its docstring is the line in
``wattqueue --help``. It has either

- a function ``run``, annotated as typer wants it: the verb itself, or
- ``app = typer.Typer(...)`` with commands of its own: ``wattqueue NAME COMMAND``.

Files that start with an underscore are helpers. Only the verb that was asked for is imported.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

from wattqueue.cli._app import build, explain


def main() -> None:
    """Entry point of ``wattqueue``: 0 done, 2 an error in one line, 130 interrupted."""
    _collect_rarely()
    arguments = sys.argv[1:]
    traceback = "--traceback" in arguments
    status: int | str | None = 0
    try:
        build(arguments)(prog_name="wattqueue")
    except SystemExit as e:
        status = e.code
    except KeyboardInterrupt:
        status = 130
    except Exception as e:
        line = explain(e)
        if traceback or line is None:
            raise
        print(f"wattqueue: {line}", file=sys.stderr)
        status = 2
    sys.exit(_flushed(status))


def _collect_rarely() -> None:
    """Have Python look for garbage seldom, and not once more at exit.

    Starting a verb makes some hundred thousand objects (numba, polars), all of which stay: with Python's own 700
    objects between searches, and the search at exit, a third of a short run's time would go there.
    """
    gc.set_threshold(20_000)
    atexit.register(gc.freeze)


def _flushed(status: int | str | None) -> int | str | None:
    """Write out what is buffered; a reader that went away is no error, a full disk is."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute_stdout()
    except OSError as e:
        _mute_stdout()
        print(f"wattqueue: {explain(e)}", file=sys.stderr)
        return 2
    return status


def _mute_stdout() -> None:
    """Keep the interpreter from trying, and failing, once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
