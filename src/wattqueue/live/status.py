"""What the controller shows of itself: a beat for job_submit.lua, a status for people, each whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError

BEAT, STATUS, LOCK, HEAD = "beat", "status.json", "lock", "audit.head"


@dataclass
class RunDir:
    """A folder with the beat (Slurm's user reads it), the status, and a lock that lets one controller run."""

    folder: Path
    _lock: int = -1
    _beat_s: float = field(default=-1e18)
    _status_s: float = field(default=-1e18)

    def claim(self) -> None:
        """Be the one controller of this folder. Raises InputError where another is at work."""
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True)
                self.folder.chmod(0o711)  # Slurm's user walks through to the beat, nobody lists the rest
            self._lock = os.open(self.folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise InputError("another controller is at work here", where=self.folder, mend="stop it first") from error
        except OSError as error:
            raise InputError(f"cannot be used: {error.strerror}", where=self.folder) from error

    def release(self) -> None:
        """Let another controller run."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def beat(self, mode: str, now_s: float, every_s: float) -> None:
        """Show job_submit.lua that a controller is at work, at most every ``every_s``."""
        if now_s - self._beat_s >= every_s:
            put(self.folder / BEAT, f"{mode} {int(now_s)}\n", 0o644)
            self._beat_s = now_s

    def away(self) -> None:
        """Say at once that no controller is at work."""
        (self.folder / BEAT).unlink(missing_ok=True)
        self._beat_s = -1e18

    def status(self, values: Mapping[str, Any], now_s: float, every_s: float = 5.0) -> None:
        """The state for ``wattqueue live status``, at most every ``every_s``."""
        if now_s - self._status_s >= every_s:
            put(self.folder / STATUS, json.dumps(values, sort_keys=True) + "\n", 0o640)
            self._status_s = now_s


def put(path: Path, text: str, mode: int) -> None:
    """Write a file aside with its mode, then rename it."""
    aside = path.with_name(f".{path.name}.part")
    handle = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)
    with os.fdopen(handle, "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    aside.replace(path)


def read_beat(folder: Path) -> tuple[str, float] | None:
    """Mode and time of the last beat; None where there is none."""
    try:
        mode, _, at = (folder / BEAT).read_text().strip().partition(" ")
        return mode, float(at)
    except (OSError, ValueError):
        return None


def read_status(folder: Path) -> dict[str, Any]:
    """The last status. Raises InputError where there is none."""
    try:
        values: dict[str, Any] = json.loads((folder / STATUS).read_text())
    except OSError as error:
        mend = "is the controller running, with this configuration?"
        raise InputError(f"no status: {error.strerror}", where=folder / STATUS, mend=mend) from error
    except ValueError as error:
        raise InputError("is no status", where=folder / STATUS) from error
    return values
