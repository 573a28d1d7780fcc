"""Every example prints exactly what stands beside it."""

from __future__ import annotations

import contextlib
import runpy
from pathlib import Path

import pytest

from tests.program import Stream

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.compiled
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    out, err = Stream(), Stream()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        runpy.run_path(str(example), run_name="__main__")
    assert err.text() == ""
    assert out.text() == example.with_suffix(".out").read_text(encoding="utf-8")


def test_there_are_examples() -> None:
    assert EXAMPLES
