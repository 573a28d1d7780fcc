"""Follow the cap of a site that moves it: its file is read again whenever it changes.

A file that becomes unreadable while the controller runs leaves the last cap in force. At the start there is no last
cap. Ending would leave every job held until the release fall-back acts, and starting without a cap would void it, so
the pool is closed (a cap of 0 W: nothing new starts, what runs goes on) until the file can be read.

A file may state a cap below the watts of idle nodes, as an emergency does: the pool is closed for as long. The same
figure in the configuration itself is an error, since it can only be a mistake there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import WattQueueError
from wattqueue.formats.cap import names_file, parse_cap
from wattqueue.live.extension import Extension
from wattqueue.live.files.followed import refuse_pipe
from wattqueue.live.files.stamp import Stamp, stamp_of
from wattqueue.live.planner import RoundState
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap


@dataclass
class CapFile:
    """A cap, and the file behind it if there is one.

    Raises: the errors of ``parse_cap`` when it is made with a text that names no file.
    """

    text: str
    machine: Machine
    problem: str = ""
    """Why the file's content is not in force; empty where it is."""
    closed: bool = False
    """Whether the pool is closed because the file could not be read at the start."""
    cap: Cap = field(init=False)
    _stamp: Stamp = ()
    """State of the file when it was last read."""

    def __post_init__(self) -> None:
        self._stamp = stamp_of(Path(self.text))
        try:
            self.cap = self._read()
        except WattQueueError as error:
            if not names_file(self.text):
                raise
            self.cap, self.closed = Cap.constant(0.0), True
            self.problem = f"nothing is started until the cap's file can be read: {error}"

    def _read(self) -> Cap:
        """Return the cap. Raises: the errors of ``parse_cap``."""
        refuse_pipe(Path(self.text))
        return parse_cap(self.text, self.machine, below_idle=True)

    def changed(self) -> bool:
        """Look at the file; whether another cap is in force now."""
        stamp = stamp_of(Path(self.text))
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.cap = self._read()
        except WattQueueError as error:
            kept = "nothing is started until then" if self.closed else "the last cap stays in force"
            self.problem = f"{kept}: {error}"
            return False
        self.problem, self.closed = "", False
        return True


def cap_extension(
    caps: CapFile, note: Callable[[str, str], None], heard: Iterable[Callable[[Cap], None]] = ()
) -> Extension:
    """Return the stage that reads the cap's file again. A bad file leaves the last cap in force.

    ``note`` records in the audit log; ``heard`` are called with another cap.
    """

    def take(now: RoundState) -> None:
        if caps.changed():
            now.planner.cap = caps.cap
            for tell in heard:
                tell(caps.cap)
            note("cap", f"read again: {caps.text}")
        now.cap_problem, now.cap_unknown = caps.problem, caps.closed

    return Extension({"observed": take})
