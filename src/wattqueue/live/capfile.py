"""The cap of a site that moves it: its file is read again whenever it changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import WattQueueError
from wattqueue.formats.cap import parse_cap
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap


@dataclass
class CapFile:
    """A cap, and the file behind it if there is one. Raises the errors of ``parse_cap`` when it is made.

    Later a file that is gone or is no cap any more leaves the last cap in force; ``problem`` says so.
    """

    text: str
    machine: Machine
    problem: str = ""
    cap: Cap = field(init=False)
    _stamp: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._stamp = self._look()
        self.cap = parse_cap(self.text, self.machine)

    def changed(self) -> bool:
        """Look at the file; whether another cap is in force now."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.cap = parse_cap(self.text, self.machine)
        except WattQueueError as error:
            self.problem = f"the cap as it was stays in force: {error}"
            return False
        self.problem = ""
        return True

    def _look(self) -> tuple[int, ...]:
        """What tells one state of the file from another; nothing where the cap is no file."""
        try:
            status = Path(self.text).stat()
        except (OSError, ValueError):
            return ()
        return status.st_mtime_ns, status.st_size, status.st_ino
