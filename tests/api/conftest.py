"""A small trace, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from wattqueue.cli import _app

Line = Callable[..., Result]
ROW = "{i} {submit} -1 {run} {nodes} -1 -1 {nodes} 400 -1 1 {user} 1 1 -1 -1 -1 -1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """80 jobs as SWF; the last one cannot be used."""
    rows = [ROW.format(i=i, submit=i * 10, run=60 + i % 7 * 30, nodes=1 + i % 5, user=i % 3) for i in range(1, 80)]
    path = tmp_path / "trace.swf"
    path.write_text("".join(rows) + "80 900 -1 -1 4 -1 -1 4 400 -1 1 1 1 1 -1 -1 -1 -1\n")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """120 jobs with watts in WattQueue's own table."""
    lines = [
        "# wattqueue jobs schema_version=1 origin=generated",
        "submit_s,nodes,runtime_s,walltime_s,user,mean_power_w",
    ]
    lines += [f"{i * 40},{1 + i % 4},{300 + i % 9 * 60},{1200},u{i % 5},{110 + i % 5 * 12 + i % 3}" for i in range(120)]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def line() -> Line:
    """Call the command line; an error is kept in ``result.exception``."""

    def call(*arguments: str | Path) -> Result:
        words = [str(word) for word in arguments]
        return CliRunner().invoke(_app.build(words), words)

    return call
