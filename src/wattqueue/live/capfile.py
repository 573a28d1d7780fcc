"""Follow the cap of a site that moves it: its file is read again whenever it changes.

A file that becomes unreadable while the controller runs leaves the last cap in force. At the start there is no last
cap. Ending would leave every job held until the release fall-back acts, and starting without a cap would void it, so
the pool is closed (a cap of 0 W: nothing new starts, what runs goes on) until the file can be read.

A file may state a cap below the watts of idle nodes, as an emergency does: the pool is closed for as long. The same
figure in the configuration itself is an error, since it can only be a mistake there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from wattqueue.errors import WattQueueError
from wattqueue.formats.cap import parse_cap
from wattqueue.live.file_stamp import Stamp, stamp_of
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, Signals


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
            self.cap = parse_cap(self.text, self.machine, below_idle=True)
        except WattQueueError as error:
            if not names_file(self.text):
                raise
            self.cap, self.closed = Cap.constant(0.0), True
            self.problem = f"nothing is started until the cap's file can be read: {error}"

    def changed(self) -> bool:
        """Look at the file; whether another cap is in force now."""
        stamp = stamp_of(Path(self.text))
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.cap = parse_cap(self.text, self.machine, below_idle=True)
        except WattQueueError as error:
            kept = "nothing is started until then" if self.closed else "the last cap stays in force"
            self.problem = f"{kept}: {error}"
            return False
        self.problem, self.closed = "", False
        return True


@dataclass
class Announced:
    """The cap that parts of a policy see: what is in force, and what comes after.

    As announced: what Slurm admits may be less, because its pool is limited and in whole watts.
    """

    signals: Signals
    of: Cap
    """The cap that they were taken from."""
    targets: LoadTargets = field(default_factory=LoadTargets.none)
    """Load targets that are in the cap already: others come with another cap."""

    def whole(self, cap: Cap) -> Signals:
        """Return a cap with the targets in it, what is over included."""
        return replace(self.signals, cap=cap, targets=self.targets)

    def at(self, cap: Cap, now_s: float) -> Signals:
        """Return what is announced at an instant, the same object as long as it is the same."""
        self.signals = (self.signals if cap is self.of else self.whole(cap)).from_time(now_s)
        self.of = cap
        return self.signals


def names_file(text: str) -> bool:
    """Whether the text of a cap can only be meant as a file: it has a folder, or the ending of a series."""
    return "/" in text or Path(text).suffix.lower() in {".csv", ".gz"}
