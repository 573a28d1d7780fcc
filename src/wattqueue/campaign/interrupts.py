"""Signals while worker processes start and end: Ctrl-C and SIGTERM must leave no worker and print no traceback.

A terminal sends Ctrl-C to the whole foreground process group, a batch system SIGTERM to one process or to all. The main
process turns them into KeyboardInterrupt (``wattqueue.cli``); the campaign then closes its backend, which ends the
workers. Three things would go wrong without this module:

- a worker that receives SIGINT itself prints a traceback from wherever it is, often from its imports. ``blocked_here``
  blocks SIGINT in this thread while workers start, and they inherit that: the parent alone decides;
- a second signal while workers are being ended interrupts that, and workers, semaphores and folders in /dev/shm remain.
  ``deferred`` delays signals until a block is complete, then delivers the first;
- loky's resource tracker, a process of its own that removes semaphores after a crash, prints a warning for each kind
  of them. ``start_trackers`` starts it with that warning off; it still removes them.

Python handles signals in the main thread only. In other threads (a campaign inside a server) ``deferred`` does
nothing.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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


def start_trackers() -> None:
    """Start the resource trackers without their warnings; they take over the interpreter's options when they start.

    To be called before ``blocked_here``: Python 3.11 unblocks SIGINT in this thread when it starts its tracker, which
    joblib has it do beside its own.
    """
    from multiprocessing import resource_tracker as of_python

    from joblib.externals.loky.backend import resource_tracker as of_loky

    option = "ignore:resource_tracker"
    sys.warnoptions.append(option)
    try:
        of_loky.ensure_running()
        of_python.ensure_running()
    finally:
        sys.warnoptions.remove(option)


def end_workers() -> None:
    """End loky's worker processes of this process now, and remove their semaphores and temporary folders.

    Otherwise they live until the interpreter exits, when nothing handles signals any more. Signals are delayed.
    """
    reusable = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(reusable, "_executor", None)
    if executor is not None:
        with deferred():
            executor.terminate(kill_workers=True)
