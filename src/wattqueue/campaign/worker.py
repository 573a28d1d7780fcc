"""A worker process of this machine: started, given one cell at a time, ended.

A worker is an interpreter of its own that reads cells from its standard input and writes outcomes to its standard
output, pickled. It does not run the main script again, as multiprocessing's workers do: a script without
``if __name__ == "__main__"`` may run a campaign. Classes that such a script defines itself are sent by value, which
needs the package cloudpickle.

Signals are kept back while worker processes start and end: Ctrl-C and SIGTERM must leave no worker and print no
traceback.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any, cast

from wattqueue.campaign.cell import Cell
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.work import Done, perform
from wattqueue.errors import CampaignError

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a campaign."""


@contextmanager
def blocked_here() -> Iterator[None]:
    """Block SIGINT in this thread; threads and processes started in the block inherit that for their whole life."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def deferred() -> Iterator[None]:
    """Delay ending signals until the block is complete; the first that came is delivered then.

    Handlers are replaced instead of blocking the signals, since another thread could receive a blocked one. Ignored
    signals stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    handled = [n for n in ENDING if signal.getsignal(n) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, remember) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


PARENT_CHECK_S = 0.5
"""Interval at which a worker checks whether its parent process still exists."""


class WorkerDiedError(Exception):
    """A worker ended before it had finished its cell."""


class Worker:
    """A worker process."""

    def __init__(self) -> None:
        """Start the process. It blocks SIGINT: a terminal sends Ctrl-C to all, and the parent alone decides."""
        path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # noqa: PTH100 - "" is the present folder
        call = [sys.executable, "-P", "-m", "wattqueue.campaign.worker"]
        with blocked_here():
            self.process = subprocess.Popen(
                call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}
            )
        self.calls = cast("IO[bytes]", self.process.stdin)
        self.outcomes = cast("IO[bytes]", self.process.stdout)

    def start(self, index: int, cell: Cell, shared: Shared, expected: str) -> None:
        """Have it run a cell, as ``work.perform`` does. Raises: CampaignError for one that cannot be sent."""
        with suppress(BrokenPipeError):  # noticed when the outcome is read
            self.calls.write(_pickled((index, cell, shared, expected)))
            self.calls.flush()

    def result(self) -> Done:
        """Wait for the outcome of the cell.

        Raises: WorkerDiedError if the process ended; what the cell raised, unless it is a failed run.
        """
        try:
            found = pickle.load(self.outcomes)  # noqa: S301 - written by our own process
        except (EOFError, pickle.UnpicklingError, OSError) as error:
            raise WorkerDiedError from error
        if isinstance(found, BaseException):
            raise found
        done: Done = found
        return done

    def end(self) -> None:
        """End the process now, whatever it does, and wait until it has ended."""
        self.process.kill()
        with suppress(OSError):  # what was not sent yet
            self.calls.close()
        self.outcomes.close()
        self.process.wait()


def _pickled(message: Any) -> bytes:
    """Return a message as bytes; classes of the main script by value, where cloudpickle is installed.

    Raises: CampaignError for a cell that cannot be sent.
    """
    try:
        from cloudpickle import dumps
    except ModuleNotFoundError:
        from pickle import dumps
    try:
        return bytes(dumps(message))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise CampaignError(f"cannot be sent to a worker: {error}", where="cell", hint="use one worker") from error


def main() -> None:
    """Run cells until the parent closes the pipe."""
    calls = sys.stdin.buffer
    outcomes = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a cell prints must not stand among the outcomes
    exit_with_parent()
    while True:
        try:
            call = pickle.load(calls)  # noqa: S301 - written by our own parent
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - a class that cannot be imported here
            answer: Any = _sendable(error)
        else:
            try:
                answer = perform(*call)
            except Exception as error:  # noqa: BLE001 - the parent raises it
                answer = _sendable(error)
        outcomes.write(_pickled(answer))
        outcomes.flush()


def _sendable(error: Exception) -> Exception:
    """Return the error with its traceback as a note, or, where it cannot be pickled, its text in another one."""
    text = traceback.format_exc()
    try:
        error = pickle.loads(_pickled(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever its class does
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(text)
    return error


def exit_with_parent() -> None:
    """End this process soon after its parent, also while it runs a cell.

    A parent that has ended is replaced by another (init or a subreaper), which changes ``getppid``.
    """
    parent, never = os.getppid(), threading.Event()

    def watch() -> None:
        """Poll the parent; ``_exit`` skips handlers that would wait for the parent's pipes."""
        while os.getppid() == parent:
            never.wait(PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, name="leave-with-parent", daemon=True).start()


if __name__ == "__main__":
    main()
