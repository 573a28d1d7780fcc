"""The command that dumps accounting is one line, wherever a document prints it: that of ``sacct_command``."""

from __future__ import annotations

import re
from pathlib import Path

from wattqueue.formats.slurm.sacct import sacct_command

ROOT = Path(__file__).parents[2]
DATED = re.compile(r"(?:SLURM_TIME_FORMAT=\S+ )?sacct -[^`\n]*?-S (\d{4}-\d\d-\d\d)[^`>\n]*")


def commands(text: str) -> list[tuple[str, str]]:
    """Commands with the date since which they dump; a line that is continued is one."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [(found[0].strip(), found[1]) for found in DATED.finditer(joined)]


def test_documents_print_one_command() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {page.name: commands(page.read_text(encoding="utf-8")) for page in pages if "_build" not in page.parts}
    assert {name for name, lines in found.items() if lines} >= {"import.md", "live.md"}
    wrong = {name: lines for name, lines in found.items() if any(one != sacct_command(day) for one, day in lines)}
    assert not wrong


def test_another_command_is_found() -> None:
    assert commands("1. `sacct -aXP -S 2026-09-01 --format=ALL > sept.psv`") == [
        ("sacct -aXP -S 2026-09-01 --format=ALL", "2026-09-01")
    ]
