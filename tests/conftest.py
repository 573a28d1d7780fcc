"""Fixtures and set-up that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# ci: the same examples on every run, so that a red build is red again; dev: new ones each time.
settings.register_profile(
    "ci", derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", max_examples=60, deadline=None)
settings.register_profile("thorough", max_examples=3_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real traces; tests that want it are skipped, with this reason, where there is none."""
    where = os.environ.get("WATTQUEUE_DATA")
    if not where:
        pytest.skip("needs real traces: set WATTQUEUE_DATA to their folder")
    folder = Path(where)
    if not folder.is_dir():
        pytest.fail(f"WATTQUEUE_DATA={where} is not a folder")
    return folder
