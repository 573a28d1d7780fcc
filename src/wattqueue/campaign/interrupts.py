"""Signals while worker processes start and end: Ctrl-C and SIGTERM must leave no worker and print no traceback.

A terminal sends Ctrl-C to the whole foreground process group, a batch system SIGTERM to one process or to all. The main
process turns them into KeyboardInterrupt (``wattqueue.cli``); the campaign then closes its backend, which ends the
workers. Two things would go wrong without this module:

- a worker that receives SIGINT itself prints a traceback from wherever it is, often from its imports. ``blocked_here``
  blocks SIGINT in this thread while workers start, and they inherit that: the parent alone decides;
- a second signal while workers are being ended interrupts that, and workers remain. ``deferred`` delays signals until a
  block is complete, then delivers the first.

Python handles signals in the main thread only. In other threads (a campaign inside a server) ``deferred`` does
nothing.
"""

from __future__ import annotations

import signal
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
