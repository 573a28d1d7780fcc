"""The commands of docs/guide/settlement.md, followed from top to bottom in one folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.shell_blocks import follow
from tools.packages import ROOT

# In processes of their own, which coverage does not follow.
pytestmark = pytest.mark.compiled
GUIDE = ROOT / "docs" / "guide" / "settlement.md"


def test_the_guide_works_as_printed(tmp_path: Path) -> None:
    _, settled, rewarded, designed, offered = follow(GUIDE, tmp_path)
    assert "for comparison only" in settled
    assert "You get" in rewarded
    assert "is generated: assumed for this example" in designed
    assert "with a confidence of 90 %" in offered
    assert "No offer pays: the contract pays at most 0.22 EUR to 0.43 EUR" in offered
    pages = ("settled/statement.html", "u042.html", "design/design.html")
    for page in pages:
        text = (tmp_path / "work" / page).read_text(encoding="utf-8")
        assert "<h1>" in text
        assert not re.search(r'(src|href)="https?://', text)
