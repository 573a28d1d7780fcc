"""Every check of every axis: ``check_part("order", MyOrder)``.

Which module serves an axis follows from when its parts are called: ``estimator`` and ``runtime`` walk a trace,
``static`` calls a part once before a run, ``in_a_run`` puts a probe into a simulation. An order that
re-ranks gets the last two.
"""

from __future__ import annotations

from collections.abc import Iterator

from wattqueue.checks.bounded import bounded
from wattqueue.checks.common import Check, Make
from wattqueue.checks.estimator import estimator_checks
from wattqueue.checks.in_a_run import run_checks
from wattqueue.checks.runtime import runtime_checks
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.checks.static import static_checks
from wattqueue.errors import PolicyError, one_of
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.policy.interfaces import AXES, method_of


def checks_of(axis: str, make: Make, seed: int = 0) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check that applies to the parts that ``make()`` gives, bounded in time.

    Use it with pytest: ``@pytest.mark.parametrize(("name", "check"), list(checks_of("order", MyOrder)))``, and in the
    test ``check(MyOrder, sample_jobs(), sample_machine())``. ``seed`` draws the size of a large sample.

    Raises: PolicyError for an unknown axis.
    """
    if axis not in AXES:
        raise PolicyError(f"unknown axis {axis!r}", hint=one_of(axis, AXES))
    yield from ((name, bounded(check)) for name, check in _checks_of(axis, make, seed))


def _checks_of(axis: str, make: Make, seed: int) -> Iterator[tuple[str, Check]]:
    """Yield the checks of an axis without a bound on their time."""
    if axis == "estimator":
        yield from estimator_checks(seed)
    elif axis == "runtime":
        yield from runtime_checks(seed)
    elif axis in ("order", "frequency", "placement"):
        yield from static_checks(axis, seed)
        if axis == "order" and method_of(make(), "rerank") is not None:
            yield from ((f"{name}_of_rerank", check) for name, check in run_checks(axis))
    else:
        yield from run_checks(axis)


def check_part(axis: str, make: Make, jobs: Jobs | None = None, machine: Machine | None = None) -> None:
    """Run every check of an axis on the parts that ``make()`` gives; each check makes new ones.

    ``jobs`` and ``machine`` replace the generated samples where a part needs other data.

    Raises: PolicyError of the first check that fails.
    """
    for _, check in checks_of(axis, make):
        check(make, jobs or sample_jobs(), machine or sample_machine())
