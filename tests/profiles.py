"""How many examples a property is tried on, by the run: continuous integration, kernels as plain Python, or by hand."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}
"""Whether kernels are plain Python. That pass is for coverage, and takes up to a hundred times longer an example."""

# ci: the same examples on every run, so that a red build is red again; dev: new ones each time (make test-slow).
settings.register_profile(
    "ci", derandomize=True, max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", max_examples=60, deadline=None)
settings.register_profile("thorough", max_examples=3_000, deadline=None)
settings.register_profile("ci-plain", settings.get_profile("ci"), max_examples=15)
settings.register_profile("ci-cover", settings.get_profile("ci"), max_examples=8)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci-plain" if PLAIN else "ci")
settings.load_profile(PROFILE)
if settings.get_profile(PROFILE).derandomize:
    # Else one value in forty is a constant of the sources that this process happens to have imported: examples would
    # depend on the tests that ran before, and each process would read all sources for it.
    NO_CONSTANTS = Constants()
    providers._get_local_constants = lambda: NO_CONSTANTS


def examples(compiled: int) -> settings:
    """Return settings with so many examples, and no more than the profile's.

    A property that states more than 20 has them in longer runs (``HYPOTHESIS_PROFILE=thorough``).
    """
    return settings(max_examples=min(compiled, settings.get_profile(PROFILE).max_examples))


def sampled(values: Iterable[Any], fast: Collection[Any]) -> list[Any]:
    """Values of a parameter, of which the fast suite tries those in ``fast``, and ``make test-slow`` the others."""
    values = list(values)
    assert set(fast) <= set(values)
    return [value if value in fast else pytest.param(value, marks=pytest.mark.slow) for value in values]
