"""Every check of every axis (``check_part("order", MyOrder)``), and names of methods that are most likely misspelt.

Which module serves an axis follows from when its parts are called: ``estimator``, ``correction`` (behind a base) and
``runtime`` walk a trace, ``static`` calls a part once before a run, ``in_a_run`` puts a probe into a simulation. An
order that re-ranks gets the last two.

Methods whose name is nearly one of the interfaces' names: most likely misspelt, and then never called.

Interfaces are structural (``parts/contracts.py``): a class is a part because of its methods' names. A class with
``predct`` is therefore no part at all, and an order with ``rerrank`` is one that is never re-ranked; neither is an
error anywhere. ``misspelt`` finds such names by similarity. Names with a leading underscore are a class's own business.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from wattqueue.checks.common import Check, Make, bounded
from wattqueue.checks.correction import correction_checks
from wattqueue.checks.estimator import estimator_checks
from wattqueue.checks.in_a_run import run_checks
from wattqueue.checks.runtime import runtime_checks
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.checks.static import static_checks
from wattqueue.errors import PolicyError, one_of
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.policy.interfaces import AXES, CORRECTIONS, METHODS, axes_of, method_of


def checks_of(axis: str, make: Make, seed: int = 0) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check that applies to the parts that ``make()`` gives, bounded in time.

    Use it with pytest: ``@pytest.mark.parametrize(("name", "check"), list(checks_of("order", MyOrder)))``, and in the
    test ``check(MyOrder, sample_jobs(), sample_machine())``. ``seed`` draws the size of a large sample.

    Raises: PolicyError for an unknown axis.
    """
    if axis not in METHODS:
        raise PolicyError(f"unknown axis {axis!r}", hint=one_of(axis, AXES))
    yield from ((name, bounded(check)) for name, check in _checks_of(axis, make, seed))


def _checks_of(axis: str, make: Make, seed: int) -> Iterator[tuple[str, Check]]:
    """Yield the checks of an axis without a bound on their time."""
    if axis == "estimator":
        yield from estimator_checks(seed)
    elif axis == CORRECTIONS:
        yield from correction_checks(seed)
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


CLOSE = 0.75
"""Similarity from which a name counts as misspelt in a class that is no part."""
CLOSE_IN_A_PART = 0.85
"""The same in a class that is a part: its other methods may have any name, so only slips of one letter count."""


def misspelt(found: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, method that it resembles) of each public method that is nearly an interface's.

    A class that is a part is compared with the further methods of its axes only.
    """
    axes = axes_of(found)
    names = [name for axis in axes or _likely(found) for name in METHODS[axis] if method_of(found, name) is None]
    known = {name for methods in METHODS.values() for name in methods}
    least = CLOSE_IN_A_PART if axes else CLOSE
    for name in _public_methods(found):
        if name in known:
            continue
        ratio, meant = max(((_similarity(name, other), other) for other in names), default=(0.0, ""))
        if ratio >= least:
            yield name, meant


def _likely(found: type[Any]) -> list[str]:
    """Return the kinds that a class without an interface may be meant for: a correction only if it has half of one.

    Its methods have common names (``insert`` is no misspelt ``invert``).
    """
    half = any(method_of(found, name) is not None for name in METHODS[CORRECTIONS][:2])
    return [kind for kind in METHODS if half or kind != CORRECTIONS]


def _similarity(name: str, other: str) -> float:
    """Return the similarity of two names, 1 for names that differ in case and underscores only."""
    one, two = (text.replace("_", "").lower() for text in (name, other))
    return SequenceMatcher(None, one, two).ratio()


def _public_methods(found: type[Any]) -> list[str]:
    """Return the names of public methods that a class or its bases define in Python, without those of object."""
    return [
        name
        for name in dir(found)
        if not name.startswith("_") and method_of(found, name) is not None and name not in vars(object)
    ]
