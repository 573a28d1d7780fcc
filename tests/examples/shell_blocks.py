"""Shell blocks of a page, run from top to bottom in one folder: what a reader who follows the page types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```bash\n(?P<code>.*?)^```$(?:\n+```text\n(?P<shown>.*?)^```$)?", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """Commands, and the output that the page shows behind them (empty if none)."""

    code: str
    shown: str


def blocks_of(page: Path) -> list[Block]:
    """The shell blocks of a page, each with the text block that follows it directly."""
    text = page.read_text(encoding="utf-8")
    return [Block(found["code"], found["shown"] or "") for found in BLOCK.finditer(text)]


def follow(page: Path, folder: Path, env: Mapping[str, str] | None = None) -> list[str]:
    """Run all blocks of a page in ``folder/work``; returns what each printed.

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
    return [run(block, work, own) for block in blocks_of(page)]


def run(block: Block, work: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code], cwd=work, capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, f"{block.code}\n{done.stdout}\n{done.stderr}"
    assert missing(block.shown, done.stdout) == [], f"{block.code} prints\n{done.stdout}"
    return done.stdout


def missing(shown: str, printed: str) -> list[str]:
    """Lines that a page shows and that are not printed, in this order; a shown line may be the start of a printed one.

    A line ``...`` stands for lines that are left out, which may also be left out without one.
    """
    left = iter(" ".join(line.split()) for line in printed.splitlines())
    wanted = [" ".join(line.split()) for line in shown.splitlines() if line.strip() not in ("", "...")]
    return [line for line in wanted if not any(found.startswith(line) for found in left)]
