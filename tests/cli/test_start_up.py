"""A short run imports what it needs: its modules are counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = """
import sys
from wattqueue.cli import main
try:
    main()
finally:
    print(" ".join(sys.modules), file=sys.stderr)
"""
SLOW_TO_IMPORT = {"typer", "pydantic", "rich", "polars", "numba", "importlib.metadata", "numpy.random"}
"""Each takes as long as a tenth of a short run or more."""
MOST_OWN = 106
"""Modules of WattQueue beside the kernels; 24 of them are the packages themselves. With a library there are 30 of
kernels more (``tests/kernels/test_library.py``)."""
MOST_OTHERS = 235
"""Modules of numpy and of the standard library: an interpreter that has imported numpy has 172."""


def imported(folder: Path, *words: str, **variables: str) -> set[str]:
    """The modules that a run of 200 generated jobs has imported when it ends."""
    trace = folder / "jobs.swf"
    rows = [f"{k} {60 * k} -1 {600 + k} 4 -1 -1 4 1200 -1 1 7 1 3 1 1 -1 -1" for k in range(1, 201)]
    trace.write_text("; MaxNodes: 64\n" + "\n".join(rows) + "\n")
    command = [sys.executable, "-c", COUNT, "simulate", str(trace), "--nodes", "64", "--node-watts", "100:400", *words]
    found = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env={**os.environ, **variables}
    )
    return set(found.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("words", [(), ("--cap", "70%"), ("--quiet",), ("--json",)])
def test_a_short_run_imports_few_modules(tmp_path: Path, words: tuple[str, ...]) -> None:
    found = imported(tmp_path, *words, NUMBA_DISABLE_JIT="1")
    assert not found & SLOW_TO_IMPORT
    own = {name for name in found if name.partition(".")[0] == "wattqueue"}
    assert len({name for name in own if ".kernels." not in name}) <= MOST_OWN
    assert len(found - own) <= MOST_OTHERS


def test_a_part_of_another_row_is_imported_when_it_is_named(tmp_path: Path) -> None:
    """The twin: the count sees what a row adds."""
    plain, learning = (
        imported(tmp_path, *words, NUMBA_DISABLE_JIT="1") for words in ((), ("--policy", "conservative"))
    )
    assert "wattqueue.parts.backfill.conservative" in learning - plain
