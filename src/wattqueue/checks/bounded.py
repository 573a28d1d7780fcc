"""Bound checks in time: a part may never return, or keep a run from ending."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wattqueue.checks.common import Check, Make, fail
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine

LONGEST_S = 300.0
"""A check takes seconds; the slowest of our own parts need half a minute on a busy core."""
AGAIN_S = 1.0
"""The alarm is repeated: a part may catch it and go on."""


class _OutOfTime(BaseException):
    """Raised by the alarm. Not an Exception, which parts may catch for good reasons."""


@contextmanager
def within(part: object, seconds: float) -> Iterator[None]:
    """Bound what happens inside to so many seconds.

    Signals are for main threads: on another one nothing is bounded.

    Raises: PolicyError once the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    except _OutOfTime:
        fail(part, f"has not ended after {seconds:g} s", "return from every call, and let jobs end")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def bounded(check: Check) -> Check:
    """Return a check that fails after ``LONGEST_S``."""

    def run(make: Make, jobs: Jobs, machine: Machine) -> None:
        with within(make(), LONGEST_S):
            check(make, jobs, machine)

    run.__doc__ = check.__doc__
    return run
