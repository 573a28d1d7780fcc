"""The campaign of the guide runs as printed, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.program import wattqueue

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "campaign.md"


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.compiled
def test_the_page_is_true(tmp_path: Path) -> None:
    (tmp_path / "caps.toml").write_text(block("toml"))
    done = wattqueue("campaign", "caps.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == lines(block("text"))


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]
