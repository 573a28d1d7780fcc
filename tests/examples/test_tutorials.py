"""The tutorials work as printed, from an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.shell_blocks import blocks_of, commands_of, follow, missing

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
ELSEWHERE = {"index", "observe", "flux"}
"""A list, and the pages that tests follow on a real Slurm and a real Flux (``test_tutorial_real.py``)."""


@pytest.mark.compiled
@pytest.mark.parametrize("name", sorted({page.stem for page in TUTORIALS.glob("*.md")} - ELSEWHERE))
def test_a_tutorial_works_as_printed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATTQUEUE_CLONE", str(Path(__file__).parents[2]))
    page = TUTORIALS / f"{name}.md"
    assert len(follow(page, tmp_path)) == len(blocks_of(page)) >= 4


def test_what_a_page_shows_and_nobody_prints_is_found() -> None:
    printed = "one  line\ntwo lines\nthree lines, the last\n"
    assert missing("one line\n...\nthree lines\n", printed) == []
    assert missing("two lines\none line\n", printed) == ["one line"]
    assert missing("a line\n", printed) == ["a line"]


def test_only_commands_that_need_no_shell_leave_it() -> None:
    between = "cat > a.toml <<'END'\nwattqueue check a.py\nEND\nwattqueue check b.py || true"
    assert list(commands_of(f"wattqueue check c.py\n{between}\nwattqueue check d.py\n")) == [
        *("wattqueue check c.py", between, "wattqueue check d.py")
    ]
