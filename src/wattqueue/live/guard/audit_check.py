"""Find a line of the guard's audit files that was changed or removed, for ``doctor``. The guard itself checks none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from wattqueue.live.guard.audit import AUDIT, BEGIN, OLDER, hashed


class AuditCheck(NamedTuple):
    """What was found in the files of a folder."""

    lines: int
    """Lines that follow from those before."""
    problem: str = ""
    """The first line that does not; empty for none."""


def check_audit(folder: Path) -> AuditCheck:
    """Follow the chain of a guard through its files. Raises: OSError where one cannot be read.

    The line with which the older file begins states a hash of a file that is gone, so it is taken for granted.
    """
    lines, before = 0, ""
    for path in (folder / OLDER, folder / AUDIT):
        if not path.exists():
            continue
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            for place, text in enumerate(file, 1):
                found = _hash_of(text, before, begins=place == 1 and lines == 0)
                if not found:
                    return AuditCheck(lines, f"line {place} of {path.name} does not follow from those before")
                before, lines = found, lines + 1
    return AuditCheck(lines)


def _hash_of(text: str, before: str, *, begins: bool) -> str:
    """Return the hash of a line, empty for one that does not follow; ``begins``: nothing is known before it."""
    try:
        line = json.loads(text)
        stated = str(line.pop("hash"))
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""
    if line.get("kind") == BEGIN:
        if not begins and line.get("why") != before:
            return ""
        before = str(line.get("why"))
    elif begins and line.get("number") != 1:
        return ""
    return stated if stated == hashed(line, before) else ""
