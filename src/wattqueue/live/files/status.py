"""Publish the controller's state in its run folder: heartbeat, status, lock.

``heartbeat`` (file ``beat``): "MODE SECONDS", read by job_submit.lua on every submission. While it is
younger than ``away_s``, new jobs are held for the controller; when it is older, they go to Slurm's own
scheduler. It is written every ``away_s / 4``, so that three writes may fail before anyone reacts.

``compiling``: "SINCE SECONDS", while a controller compiles before its first round.

``status.json``: for ``wattqueue live status`` and ``/status``, at most every few seconds.

``lock``: an flock that lets one controller run per folder. The kernel releases it when the process
ends, however it ends, so no stale lock is left behind. ``lease`` says who may write to Slurm now, since a process
that hangs keeps its flock (``live.files.lease``).

Every file is replaced atomically: slurmctld reads the heartbeat at any moment.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from wattqueue.errors import InputError, OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.files.lease import AHEAD_S, BEAT, Lease, is_young, read_stamp, write_beat
from wattqueue.live.files.withheld import store
from wattqueue.model.plain_numbers import is_whole

STATUS, LOCK, HEAD, COMPILING = "status.json", "lock", "audit.head", "compiling"
COMPILING_S = 30.0
"""Age from which the sign of a controller that compiles says nothing any more: several times between two of them."""


@dataclass
class RunDir:
    """The run folder of one controller. Slurm's own account must be able to read the heartbeat in it."""

    folder: Path
    across_hosts: bool = False
    """Whether other hosts use the folder too: each has a lock of its own, and the database says who may write."""
    lease: Lease | None = None
    """The right to write to Slurm; None until the folder is claimed."""
    _lock: int = -1
    """Descriptor that holds the flock; -1 for none."""
    _beat_s: float = field(default=-1e18)
    """Time of the last heartbeat."""
    _status_s: float = field(default=-1e18)
    """Time of the last status."""
    _withheld_w: int = -1
    """The figure that was stored last; -1 for none."""

    def claim(self) -> None:
        """Create the folder and take its lock. Nothing may be written to Slurm before ``take_lease``.

        Raises: InputError where another controller holds the lock, or the folder cannot be used.
        """
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True)
                self.folder.chmod(0o711)  # Slurm's account opens the heartbeat by its name, nobody lists the rest
            name = f"{LOCK}.{socket.gethostname()}" if self.across_hosts else LOCK
            self._lock = os.open(self.folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            self._lock = -1  # a later release would close what has its number by then
            raise InputError("another controller is running", where=self.folder, hint="stop it first") from error
        except OSError as error:
            raise InputError(f"the run folder cannot be used: {error.strerror}", where=self.folder) from error

    def take_lease(self, now_s: float) -> None:
        """Take the right to write, if the folder is claimed and the right is not ours yet.

        Only a controller that has observed Slurm and planned takes it. One that ends while it starts (a damaged
        database) and is started again and again would otherwise renew the lease each time, and keep ``live release``
        away for ever. A lease of ``live release`` is taken over: that process notices before its next write.

        Raises: OutputError where the lease cannot be written.
        """
        if self._lock >= 0 and self.lease is None:
            lease = Lease(self.folder, "controller")
            lease.take(now_s)
            self.lease = lease

    def holds_lease(self) -> bool:
        """Whether this process may write."""
        return self.lease is not None and self.lease.held()

    def release(self) -> None:
        """Give lease and lock up; another controller may start."""
        if self.lease is not None:
            self.lease.drop()
            self.lease = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def beat(self, mode: str, now_s: float, every_s: float) -> None:
        """Renew the lease, and in control mode the heartbeat, at most every ``every_s``.

        Raises: LeaseLostError where another process holds the lease; OutputError where neither a new file can be
        written nor the old one be overwritten.
        """
        if not 0.0 <= now_s - self._beat_s < every_s:  # also after the clock was set back
            if self.lease is not None:
                self.lease.renew(now_s)
            if mode == "control":
                write_beat(self.folder, mode, now_s)
            self._beat_s = now_s

    def compiling(self, since_s: float, now_s: float) -> None:
        """Say that the controller is there and compiles; renewed until the first round, which removes it.

        Readers alone depend on it, so a folder that cannot be written is left to the first round.
        """
        with suppress(OutputError):
            put(self.folder / COMPILING, f"{int(since_s)} {int(now_s)}\n", 0o644)

    def compiled(self) -> None:
        """Remove the sign of a controller that compiles."""
        with suppress(OSError):
            (self.folder / COMPILING).unlink(missing_ok=True)

    def withhold(self, watts: int, now_s: float) -> None:
        """Store what the cap alone keeps back from the pool, for ``live release``; a full disk keeps the last."""
        if watts != self._withheld_w:
            with suppress(OutputError):
                store(self.folder, watts, now_s)
                self._withheld_w = watts

    def away(self) -> None:
        """Remove the heartbeat: job_submit.lua stops holding jobs at once, not after ``away_s``.

        Not where the lease is another's: the heartbeat may then be, too.
        """
        if self.lease is None or self.lease.held():
            (self.folder / BEAT).unlink(missing_ok=True)
        self._beat_s = -1e18

    def status(self, values: Mapping[str, Any], now_s: float, every_s: float = 5.0) -> None:
        """Write the status, at most every ``every_s``."""
        if not 0.0 <= now_s - self._status_s < every_s:
            put(self.folder / STATUS, json.dumps(values, sort_keys=True) + "\n", 0o640)
            self._status_s = now_s


def put(path: Path, text: str, mode: int) -> None:
    """Write a small file atomically, with exactly this mode (the umask is not applied).

    Without fsync: these files are worthless after a power failure, and are written every few seconds.
    """
    atomic_text(path, text, mode=mode, sync=False)


def status_text(folder: Path) -> str:
    """Return the content of ``status.json``; an empty object while there is none."""
    try:
        return (folder / STATUS).read_text()
    except OSError:
        return "{}"


def read_beat(folder: Path) -> tuple[str, float] | None:
    """Return mode and time (seconds since the epoch) of the last heartbeat; None where there is none."""
    return read_stamp(folder / BEAT)


class Heartbeat(NamedTuple):
    """The heartbeat as a reader finds it."""

    age_s: float | None
    """None where there is none."""
    problems: tuple[str, ...]
    """What a person should know about it; empty in observe and advise mode, which have none."""


def heartbeat_of(folder: Path, mode: str, now_s: float, away_s: float) -> Heartbeat:
    """Return the heartbeat in a run folder, and whether job_submit.lua counts it."""
    found = read_beat(folder)
    age_s = None if found is None else now_s - found[1]
    if mode != "control":
        return Heartbeat(age_s, ())
    if age_s is None:
        return Heartbeat(None, ("there is no heartbeat: the controller has ended, and Slurm schedules alone",))
    if age_s < -AHEAD_S:
        return Heartbeat(age_s, (f"the heartbeat is {-age_s:.0f} s in the future, and does not count: set the clock",))
    if age_s > away_s / 2.0:  # it is renewed every away_s / 4
        after = "Slurm schedules alone" if age_s > away_s else f"after {away_s:.0f} s Slurm schedules alone"
        return Heartbeat(age_s, (f"the heartbeat is {age_s:.0f} s old: {after}",))
    return Heartbeat(age_s, ())


def compiling_since(folder: Path, now_s: float) -> float | None:
    """Return since when a controller compiles before its first round (seconds since the epoch); None if none does."""
    found = read_stamp(folder / COMPILING)
    if found is None or not is_whole(found[0]) or not is_young(now_s - found[1], COMPILING_S):
        return None
    return float(found[0])


def read_status(folder: Path) -> dict[str, Any]:
    """Return the last status. Raises: InputError where there is none."""
    try:
        values: dict[str, Any] = json.loads((folder / STATUS).read_text())
    except OSError as error:
        hint = "is the controller running, with this configuration?"
        raise InputError(f"no status: {error.strerror}", where=folder / STATUS, hint=hint) from error
    except ValueError as error:
        raise InputError("is no status of the controller (not JSON)", where=folder / STATUS) from error
    return values


def notify(state: str) -> bool:
    """Send ``state`` (``READY=1``, ``WATCHDOG=1``, ``STOPPING=1``) to systemd; whether there was someone to send it to.

    Never raises: without systemd, or with a full socket, the controller works all the same.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    where = "\0" + address[1:] if address.startswith("@") else address  # @: an abstract socket, which has no file
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.settimeout(1.0)
        client.sendto(state.encode(), where)
        return True
    return False
