"""Groups of tests that share a real Slurm or a costly fixture stay on one worker."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("kept")
def test_a_group_of_tests_is_kept_together(request: pytest.FixtureRequest) -> None:
    """pytest-xdist groups by what it adds to a test's id; with pytest 9.2 it added nothing, without a word.

    Real Slurms then ran on every worker at once, and each worker made every module's fixtures.
    """
    grouping = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@kept") or not grouping
