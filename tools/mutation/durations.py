"""Plugin of pytest: write how long each passing test took, set-up included, to the file of MUTATION_DURATIONS.

Programs that a test starts are measured, too, by the configuration of coverage in MUTATION_COVERAGE.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_taken_s: dict[str, float] = defaultdict(float)
_failed: set[str] = set()


def pytest_runtest_setup() -> None:
    """Let coverage start in every Python from now on: not in workers of xdist, in which pytest-cov starts it."""
    os.environ["COVERAGE_PROCESS_START"] = os.environ["MUTATION_COVERAGE"]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the phases of a test. One that was skipped or fails can tell nothing about a mutation."""
    if report.skipped or report.failed:
        _failed.add(report.nodeid)
    _taken_s[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write on the process that hears of all tests: workers of xdist do not."""
    if not hasattr(session.config, "workerinput"):
        passed = {node: seconds for node, seconds in _taken_s.items() if node not in _failed}
        Path(os.environ["MUTATION_DURATIONS"]).write_text(json.dumps(passed))
