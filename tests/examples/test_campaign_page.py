"""The campaign of the guide runs as printed, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "campaign.md"


def block(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.compiled
def test_the_page_is_true(tmp_path: Path) -> None:
    (tmp_path / "caps.toml").write_text(block("toml"))
    call = [sys.executable, "-W", "error", "-c", "from wattqueue.cli import main; main()", "campaign", "caps.toml"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == lines(block("text"))


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]
