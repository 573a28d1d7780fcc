"""What the checks of all axes share."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Prediction

Make = Callable[[], Any]
Check = Callable[[Make, Jobs, Machine], None]

MOST_BYTES = 1_000_000
MOST_BYTES_A_JOB = 2_000


def fail(part: object, what: str, mend: str) -> NoReturn:
    """Raises PolicyError naming the part's class."""
    raise PolicyError(what, where=type(part).__name__, mend=mend)


def pickled(part: object) -> bytes:
    """The part as bytes. Raises: PolicyError where it cannot be pickled."""
    try:
        return pickle.dumps(part)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise PolicyError(
            f"cannot be pickled: {error}",
            where=type(part).__name__,
            mend="keep state in plain attributes: no lambdas, open files or local classes",
        ) from error


def copied(part: Any) -> Any:
    """The part after a journey to another process."""
    return pickle.loads(pickled(part))  # noqa: S301 - bytes of a moment ago


def contents(value: Any) -> bytes:
    """A job table, or a tuple of arrays, as bytes to be compared."""
    if isinstance(value, Jobs):
        columns = [getattr(value, f.name) for f in fields(value)]
        return pickle.dumps([(c.codes, c.names) if isinstance(c, Labels) else c for c in columns])
    return pickle.dumps(value)


def expect_small(part: object, n: int) -> None:
    """The state stays within some bytes a job."""
    size, allowed = len(pickled(part)), MOST_BYTES + MOST_BYTES_A_JOB * n
    if size > allowed:
        fail(part, f"its state takes {size:,} bytes after {n} jobs", f"keep it below {allowed:,}")


def sample_prediction(jobs: Jobs, machine: Machine) -> Prediction:
    """Generated watts and times by option: lower clocks draw less and take longer, not alike for all jobs."""
    rng = np.random.default_rng(2)
    n, options = len(jobs), len(machine.option_partition)
    idle = np.array([machine.partitions[p].idle_w for p in machine.option_partition])
    power = idle + rng.uniform(100.0, 1_200.0, (n, 1)) * machine.option_dynamic_factor
    time = np.ones((n, options)) * machine.option_time_factor * rng.uniform(0.9, 1.2, (n, 1))
    return Prediction(power * rng.uniform(0.95, 1.05, (n, options)), time)


def nobody(jobs: Jobs) -> Jobs:
    """The same table without a row."""
    return jobs.take(np.zeros(0, np.int64))
