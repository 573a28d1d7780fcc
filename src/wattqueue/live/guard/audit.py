"""The guard's record of its writes: lines of JSON, each with the hash of the one before.

Every line has a number, a time, what was about to be done or what came of it, and ``hash``: SHA-256 of the line without
it and of the hash before. A line that is changed or removed breaks all that follow (``audit_check``, for ``doctor``). A
file of more than ``most_bytes`` is renamed to ``NAME.1``, in place of the one before; the new one begins with a line
that states the last hash of that, so that the chain goes on. Lines are ASCII, whatever a planner wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import OutputError
from wattqueue.live.cluster import Write

AUDIT, OLDER = "audit.jsonl", "audit.jsonl.1"
"""The file in the guard's run folder, and the one before it."""
MOST_BYTES = 50_000_000
"""Size from which a file is put aside; some 200,000 lines."""
BEGIN = "begin"
"""Kind of the first line of a file that follows another one; ``why`` is the last hash of that."""


@dataclass
class AuditFile:
    """A journal of writes (``live.apply.Journal``)."""

    folder: Path
    clock: Callable[[], float] = time.time
    most_bytes: int = MOST_BYTES
    _last: tuple[int, str] = field(default=(0, ""))
    _end: str = ""
    """What ends a line that was cut short, as by a power failure; ``audit_check`` names such a line."""

    def __post_init__(self) -> None:
        """Go on behind the last line. Raises: OutputError where the file cannot be read."""
        self.path, older = self.folder / AUDIT, self.folder / OLDER
        try:
            path = older if older.exists() and not self.path.exists() else self.path
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else [""]
        except OSError as error:
            raise OutputError(f"the audit file cannot be read: {error.strerror}", where=path) from error
        self._end = "\n" if lines[-1] and path == self.path else ""
        for line in reversed(lines):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found = json.loads(line)
                self._last = int(found["number"]), str(found["hash"])
                break

    def intend(self, writes: Sequence[Write]) -> list[int]:
        """Record that writes are about to be done; return their numbers. Raises: OutputError."""
        return self._add([{"kind": w.kind, "target": w.target, "before": w.before, "after": w.after, "why": w.why}
                          for w in writes])  # fmt: skip

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        """Record outcomes by the numbers of writes: ``done``, or the error. Raises: OutputError."""
        self._add([{"of": number, "outcome": outcome} for number, outcome in outcomes], sync=False)

    def note(self, kind: str, text: str) -> None:
        """Record what is no write: a start, an end, a refusal. Raises: OutputError."""
        self._add([{"kind": kind, "why": text}])

    def _add(self, rows: Sequence[dict[str, object]], *, sync: bool = True) -> list[int]:
        """Append lines; return their numbers. A part that was written is taken back where the disk is full.

        ``sync``: bring them to disk now, which an outcome need not: an intent without one says as much.
        """
        try:
            text, last = self._lines([*self._begin(), *rows])
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                size = os.fstat(handle).st_size
                if os.write(handle, text) != len(text):
                    os.ftruncate(handle, size)
                    raise OSError(None, "the disk is full")
                if sync:
                    os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise OutputError(f"the audit file cannot be written: {error.strerror}", where=self.path) from error
        self._last, self._end = last, ""
        return list(range(last[0] - len(rows) + 1, last[0] + 1))

    def _begin(self) -> list[dict[str, object]]:
        """Put a file that is too large aside; return the first line of one that follows it. Raises: OSError."""
        if self.path.exists():
            if self.path.stat().st_size <= self.most_bytes:
                return []
            self.path.replace(self.folder / OLDER)
        return [{"kind": BEGIN, "why": self._last[1]}] if self._last[0] else []

    def _lines(self, rows: Sequence[dict[str, object]]) -> tuple[bytes, tuple[int, str]]:
        """Return rows as lines behind the last one, and number and hash of the last of them."""
        (number, before), text = self._last, self._end
        for row in rows:
            number += 1
            content = {"number": number, "time_s": self.clock(), **row}
            before = hashed(content, before)
            text += json.dumps({**content, "hash": before}) + "\n"
        return text.encode(), (number, before)


def hashed(content: dict[str, object], before: str) -> str:
    """Return the hash of a line behind another one."""
    return hashlib.sha256((before + json.dumps(content, sort_keys=True)).encode()).hexdigest()
