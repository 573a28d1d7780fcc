"""The command line: one thin file per verb; heavy imports stay inside the verb.

``main`` is the entry point. It builds an application of the one verb that was named (``_app.build``), runs it, turns
every ``WattQueueError`` into one line on stderr, and maps how it ended to an exit status:

- 0 done; 1 the verb's own negative result (``rerun`` found differences, ``check`` found faults)
- 2 an error, printed as ``wattqueue: where: what (hint)``
- 130 interrupted by Ctrl-C, 143 ended by SIGTERM (a batch system's time limit), 129 by SIGHUP

A signal is raised as KeyboardInterrupt wherever the program is, so that one way of cleaning up serves all of them:
temporary files (``.part``) are removed and workers ended before the process exits. It prints nothing. This module
imports nothing heavy, so that a Ctrl-C in the first moments is handled as well.

A new verb is one new file here: ``cli/NAME.py`` (a trailing underscore is dropped, as in
``import_.py``; other underscores become dashes). The first line of its docstring is the line in
``wattqueue --help``; ``python -m tools.verbs`` writes it into the table of verbs. It has either

- a function ``run`` that ``verbs.verb_of`` makes the verb itself, or
- ``app = typer.Typer(...)`` with commands of its own: ``wattqueue NAME COMMAND``.

Files that start with an underscore are helpers. Only the named verb is imported: numpy, numba, polars and typer take
half a second together, which ``wattqueue --help`` does not need.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from types import FrameType

from wattqueue.cli._ascii import accept_every_character

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command; 128 + their number is its exit status, as a shell reports it."""


def main() -> None:
    """Run the command line of ``sys.argv`` and exit with its status (see the module's docstring)."""
    received: list[int] = []
    try:
        _raise_on_signals(received)  # in here: a signal may come before it returns
        status = _run(sys.argv[1:], received)
        status = _flushed(status)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    finally:
        # From here on nothing is left to clean up but workers, which end with their parent.
        sys.unraisablehook = sys.__unraisablehook__
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + received[0] if received else status)


def _run(arguments: list[str], received: list[int]) -> int | str | None:
    """Run a command and return its exit status; print what went wrong as one line.

    Raises: any unexpected error, which is a defect; with ``--traceback``, any error.
    """
    _replace_closed_streams()
    accept_every_character()
    _collect_rarely()
    try:
        from wattqueue.cli._words import plain_call

        if call := plain_call(arguments):
            call()
        else:
            from wattqueue.cli._app import build

            build(arguments)(prog_name="wattqueue")
    except SystemExit as e:
        if isinstance(e.__context__, BrokenPipeError) and e.code == 1:  # typer's own end for a pipe without a reader
            return _without_reader(e.__context__)
        return e.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError as e:
        return _without_reader(e)
    except Exception as e:
        from wattqueue.cli._app import explain

        if received:
            return 0  # an import that was interrupted can raise anything; the signal decides the status
        line = explain(e)
        if "--traceback" in arguments or line is None:
            raise
        with contextlib.suppress(OSError):
            print(f"wattqueue: {line}", file=sys.stderr)
        return 2
    return 0


def _without_reader(error: BrokenPipeError) -> int:
    """Return the status where the reader of a pipe has gone: what it asked for was written, unless it was an error."""
    _mute_stdout()
    return 0 if error.__context__ is None else 2


def _raise_on_signals(received: list[int]) -> None:
    """Let each ending signal raise KeyboardInterrupt in the main thread, and note the first in ``received``.

    A signal that the parent process has set to be ignored (``nohup``) stays ignored. ``live run`` replaces the
    handlers by its own, which end a round in order.
    """

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
        raise KeyboardInterrupt

    def again(error: sys.UnraisableHookArgs) -> None:
        """Send SIGINT once more, soon, where Python swallowed the first: in a destructor, which cannot raise."""
        if not issubclass(error.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(error)
        elif sys.unraisablehook is again:
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            timer.start()

    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)
    sys.unraisablehook = again


def _replace_closed_streams() -> None:
    """Open /dev/null in place of a closed stdout or stderr (``>&-``), where Python has None.

    Without it the next file that is opened would get the free descriptor 1, and receive what libraries print.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _collect_rarely() -> None:
    """Let Python collect garbage rarely, and not once more at exit.

    Importing numba and polars makes some hundred thousand objects, all of which stay alive: with Python's default of
    700 new objects between collections, and one at exit, a third of a short run's time would go there.
    """
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


def _flushed(status: int | str | None) -> int | str | None:
    """Flush stdout and return the exit status: a reader that has gone (``| head -1``) is no error, a full disk is."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute_stdout()
    except OSError as e:
        _mute_stdout()
        with contextlib.suppress(OSError):
            print(f"wattqueue: {e.strerror or e}", file=sys.stderr)
        return 2
    return status


def _mute_stdout() -> None:
    """Point stdout at /dev/null, so that the interpreter's own flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
