"""The commands of docs/guide/settlement.md, followed from top to bottom in one folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# In processes of their own, which coverage does not follow.
pytestmark = pytest.mark.compiled
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "settlement.md"


def test_the_guide_works_as_printed(tmp_path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    command = tmp_path / "bin" / "wattqueue"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom wattqueue.cli import main\nmain()\n", encoding="utf-8")
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    found = []
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=work, capture_output=True, text=True, check=False,
            env=os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    _, settled, rewarded, designed, offered = found
    assert "for comparison only" in settled
    assert "You get" in rewarded
    assert "is generated: assumed for this example" in designed
    assert "with a confidence of 90 %" in offered
    pages = ("settled/statement.html", "u042.html", "design/design.html")
    for page in pages:
        text = (work / page).read_text(encoding="utf-8")
        assert "<h1>" in text
        assert not re.search(r'(src|href)="https?://', text)
