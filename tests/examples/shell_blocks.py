"""Shell blocks of a page, run from top to bottom in one folder: what a reader who follows the page types.

Commands of the program run in this process where they need no shell: to start one takes longer than most of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tests.program import wattqueue

BLOCK = re.compile(r"^```bash\n(?P<code>.*?)^```$(?:\n+```text\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"wattqueue( [\w.,:%=+/-]+)+")
"""A line that is one command of the program, of words in which a shell changes nothing."""
DOCUMENT = re.compile(r"<<'(\w+)'$")


class Block(NamedTuple):
    """Commands, and the output that the page shows behind them (empty if none)."""

    code: str
    shown: str


def blocks_of(page: Path) -> list[Block]:
    """The shell blocks of a page, each with the text block that follows it directly."""
    text = page.read_text(encoding="utf-8")
    return [Block(found["code"], found["shown"] or "") for found in BLOCK.finditer(text)]


def commands_of(code: str) -> Iterator[str]:
    """Each line of a block that is a command of the program, and the lines between them as they stand."""
    lines: list[str] = []
    end = ""
    for line in code.splitlines():
        if end or not PROGRAM.fullmatch(line):
            lines.append(line)
            found = DOCUMENT.search(line)
            end = found[1] if found else "" if line == end else end
            continue
        if lines:
            yield "\n".join(lines)
        lines = []
        yield line
    if lines:
        yield "\n".join(lines)


def follow(page: Path, folder: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """Run all blocks of a page in ``folder/work``; returns what each printed.

    With variables of their own (``env``) all commands run in processes of their own.

    Raises: AssertionError where a block fails, or does not print what the page shows.
    """
    programs = folder / "bin"
    programs.mkdir()
    for name, code in (("python", '"$@"'), ("wattqueue", '-c "from wattqueue.cli import main; main()" "$@"')):
        (programs / name).write_text(f"#!/bin/sh\nexec {sys.executable} {code}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    work = folder / "work"
    work.mkdir()
    own = {**os.environ, "COLUMNS": "80", **(env or {})}
    own["PATH"] = f"{programs}:{own['PATH']}"
    with mock.patch.dict(os.environ, own):
        return [run(block, work, within=env is None) for block in blocks_of(page)]


def run(block: Block, work: Path, *, within: bool) -> str:
    """Run a block, ``within`` this process where that is possible; returns what it printed."""
    printed = ""
    for code in commands_of(block.code) if within else [block.code]:
        if within and PROGRAM.fullmatch(code):
            done = wattqueue(*code.split()[1:], cwd=work)
        else:
            shell = ["bash", "-euo", "pipefail", "-c", code]
            done = subprocess.run(shell, cwd=work, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    assert missing(block.shown, printed) == [], f"{block.code} prints\n{printed}"
    return printed


def missing(shown: str, printed: str) -> list[str]:
    """Lines that a page shows and that are not printed, in this order; a shown line may be the start of a printed one.

    A line ``...`` stands for lines that are left out, which may also be left out without one.
    """
    left = iter(" ".join(line.split()) for line in printed.splitlines())
    wanted = [" ".join(line.split()) for line in shown.splitlines() if line.strip() not in ("", "...")]
    return [line for line in wanted if not any(found.startswith(line) for found in left)]
