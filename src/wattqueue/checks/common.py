"""What the checks of all axes share: failing, copying, comparing, a generated prediction, and an end in time.

Bound checks in time: a part may never return, or keep a run from ending.
"""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from types import FrameType
from typing import Any, NoReturn, TypeVar

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Prediction

T = TypeVar("T")
Make = Callable[[], Any]
"""Makes a new part; a class without required arguments is one."""
Check = Callable[[Make, Jobs, Machine], None]
"""One check: raises PolicyError where the parts that are made break a rule."""

MOST_BYTES = 1_000_000
MOST_BYTES_A_JOB = 2_000
"""A part's pickled state may take the first plus the second for each job."""


def fail(part: object, what: str, hint: str) -> NoReturn:
    """Raise PolicyError with the part's class as its place."""
    raise PolicyError(what, where=type(part).__name__, hint=hint)


def pickled(part: object) -> bytes:
    """Return the part as bytes. Raises: PolicyError if it cannot be pickled."""
    try:
        return pickle.dumps(part)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise PolicyError(
            f"cannot be pickled: {error}",
            where=type(part).__name__,
            hint="keep state in plain attributes: no lambdas, open files or local classes",
        ) from error


def copied(part: Any) -> Any:
    """Return the part as another process would receive it."""
    return pickle.loads(pickled(part))  # noqa: S301 - bytes pickled in the line above


def contents(value: Any) -> bytes:
    """Return a job table, or a tuple of arrays, as bytes to be compared."""
    if isinstance(value, Jobs | KnownJobs):
        columns = [getattr(value, f.name) for f in fields(value)]
        return pickle.dumps([(c.codes, c.names) if isinstance(c, Labels) else c for c in columns])
    return pickle.dumps(value)


def expect_small(part: object, n: int) -> None:
    """Check that the state stays within some bytes per job. Raises: PolicyError."""
    size, allowed = len(pickled(part)), MOST_BYTES + MOST_BYTES_A_JOB * n
    if size > allowed:
        fail(part, f"its state takes {size:,} bytes after {n} jobs", f"keep it below {allowed:,}")


def sample_prediction(jobs: Jobs | KnownJobs, machine: Machine) -> Prediction:
    """Return generated watts and times by option: lower clocks draw less and take longer, by other factors per job.

    It depends on the number of jobs only, so that a perturbed workload has the same prediction: otherwise a decision
    that rightly follows the prediction would look like a leak.
    """
    rng = np.random.default_rng(2)
    n, options = len(jobs), len(machine.option_partition)
    idle = np.array([machine.partitions[p].idle_w for p in machine.option_partition])
    power = idle + rng.uniform(100.0, 1_200.0, (n, 1)) * machine.option_dynamic_factor
    time = np.ones((n, options)) * machine.option_time_factor * rng.uniform(0.9, 1.2, (n, 1))
    return Prediction(power * rng.uniform(0.95, 1.05, (n, options)), time)


def by_unit(prediction: Prediction, apps: int, machine: Machine) -> Prediction:
    """Return the prediction with generated watts by application and unit, which a placement may rank by."""
    rng = np.random.default_rng(3)
    return replace(prediction, unit_factor=rng.uniform(0.9, 1.1, (apps, machine.units)))


def no_jobs(jobs: Jobs) -> Jobs:
    """Return the same table without a row."""
    return jobs.take(np.zeros(0, np.int64))


LONGEST_S = 300.0
"""A check takes seconds; the slowest of our own parts need half a minute on a busy core."""
AGAIN_S = 1.0
"""The alarm is repeated: a part may catch it and go on."""


class _OutOfTime(BaseException):
    """Raised by the alarm. Not an Exception, which parts may catch for good reasons."""


def within(part: object, seconds: float, function: Callable[[], T]) -> T:
    """Call a function, bounded to so many seconds; return its result.

    Signals are for main threads: on another one nothing is bounded. The alarm raises nothing once the function has
    returned: an exception while the alarm is being switched off would leave it on, and every second one in whatever
    runs by then.

    Raises: PolicyError once the time is over, with the part's class as its place.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()

    def call() -> T:
        return function()

    def stop(_number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not call.__code__:
            frame = frame.f_back
        if frame is not None:
            raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
        return call()
    except _OutOfTime:
        fail(part, f"has not ended after {seconds:g} s", "return from every call, and let jobs end")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def bounded(check: Check) -> Check:
    """Return a check that fails after ``LONGEST_S``."""

    def run(make: Make, jobs: Jobs, machine: Machine) -> None:
        within(make(), LONGEST_S, lambda: check(make, jobs, machine))

    run.__doc__ = check.__doc__
    return run
