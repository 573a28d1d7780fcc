"""Find a line of the guard's audit file that was changed or removed. The guard itself checks no line."""

from __future__ import annotations

import json
from pathlib import Path

from wattqueue.live.guard.audit import hashed


def broken(path: Path) -> int:
    """Return the number of the first line that does not follow from those before it; 0 for none."""
    before = ""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            line = json.loads(text)
            stated = line.pop("hash")
        except (ValueError, KeyError, AttributeError):
            return number
        if line.get("number") != number or stated != hashed(line, before):
            return number
        before = stated
    return 0
