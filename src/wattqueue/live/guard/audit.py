"""The guard's record of its writes: lines of JSON, each with the hash of the one before.

Every line has a number, a time, what was about to be done or what came of it, and ``hash``: SHA-256 of the line without
it and of the hash before. A line that is changed or removed breaks all that follow (``audit_check.broken``). A file is
not removed by the guard; an administrator who rotates it begins a new chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.live.cluster import Write


@dataclass
class AuditFile:
    """A journal of writes (``live.apply.Journal``)."""

    path: Path
    clock: Callable[[], float] = time.time
    _last: tuple[int, str] = field(default=(0, ""))

    def __post_init__(self) -> None:
        """Go on behind the last line. Raises: OutputError where the file cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise OutputError(f"the audit file cannot be read: {error}", where=self.path) from error
        if lines:
            try:
                found = json.loads(lines[-1])
                self._last = int(found["number"]), str(found["hash"])
            except (ValueError, KeyError, TypeError):  # a line cut short by a full disk; ``audit_check`` names it
                self._last = len(lines), ""

    def intend(self, writes: Sequence[Write]) -> list[int]:
        """Record that writes are about to be done; return their numbers. Raises: OutputError."""
        return self._add([{"kind": w.kind, "target": w.target, "before": w.before, "after": w.after, "why": w.why}
                          for w in writes])  # fmt: skip

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        """Record outcomes by the numbers of writes: ``done``, or the error. Raises: OutputError."""
        self._add([{"of": number, "outcome": outcome} for number, outcome in outcomes])

    def note(self, kind: str, text: str) -> None:
        """Record what is no write: a start, an end, a refusal. Raises: OutputError."""
        self._add([{"kind": kind, "why": text}])

    def _add(self, rows: Sequence[dict[str, object]]) -> list[int]:
        number, before = self._last
        lines, numbers = [], []
        for row in rows:
            number += 1
            content = {"number": number, "time_s": self.clock(), **row}
            before = hashed(content, before)
            lines.append(json.dumps({**content, "hash": before}, ensure_ascii=False) + "\n")
            numbers.append(number)
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                text = "".join(lines).encode("utf-8", "replace")
                if os.write(handle, text) != len(text):
                    raise OSError(None, "the disk is full")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise OutputError(f"the audit file cannot be written: {error.strerror}", where=self.path) from error
        self._last = number, before
        return numbers


def hashed(content: dict[str, object], before: str) -> str:
    """Return the hash of a line behind another one."""
    return hashlib.sha256((before + json.dumps(content, sort_keys=True)).encode()).hexdigest()
