"""Keep at most one writer to Slurm: a lease file that names the writer, and when it last renewed it.

The run folder's flock already keeps two controllers apart, but it belongs to a *process*, and a process that hangs or
is stopped (SIGSTOP, a frozen virtual machine, an unresponsive disk) keeps it for ever. ``wattqueue live release`` must
be able to act in just that case. So there is a second file, the lease:

- Its holder renews it every ``away_s / 4``. A lease that is older than ``away_s`` is *stale*.
- Whoever finds a stale lease may take it over by writing its own token.
- A writer reads the file before each write to Slurm. If it holds another token, the writer stops at once: a controller
  that was stopped for a minute and resumes must not carry out what it planned a minute ago.

No lock is held while a lease is taken, since a stopped process would keep that lock too. Two processes that take the
lease at the same moment both write; the later rename wins, and the other one finds a foreign token before its next
write. One command that was already running may still complete. That is safe: the cap is held by Slurm's licence
pool, whoever writes, and every write stands by itself.

A full disk: a new file cannot be written, but an existing one of the same length can be overwritten in place
(``renew``). A lease that cannot be taken over in this way is removed instead, which also ends the holder's right.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import OutputError, WattQueueError
from wattqueue.formats.atomic_write import atomic_text

LEASE, BEAT = "lease", "beat"
"""Files of a run folder: who may write to Slurm, and the heartbeat (``live.files.status``)."""
AHEAD_S = 10.0
"""A time further in the future than this was written by a clock that was wrong, and says nothing about its writer."""


class LeaseLostError(WattQueueError):
    """Another process has taken the right to write to Slurm over; this one must stop."""


@dataclass
class Lease:
    """The lease of one process on the run folder ``folder``; ``who`` is ``controller`` or ``release``."""

    folder: Path
    who: str
    token: str = field(init=False)
    """Names this process and this run of it: process ids are given out again."""

    def __post_init__(self) -> None:
        self.token = f"{self.who}/{os.getpid()}/{time.monotonic_ns():020d}"

    def take(self, now_s: float) -> None:
        """Become the holder, whoever was it before. Raises: OutputError where the folder cannot be written."""
        atomic_text(self.folder / LEASE, self._text(now_s), mode=0o644, sync=False)

    def renew(self, now_s: float) -> None:
        """Renew the lease. Raises: LeaseLostError where another process holds it now."""
        if not self.held():
            raise self.lost()
        replace_text(self.folder / LEASE, self._text(now_s))

    def held(self) -> bool:
        """Whether this process is the holder. A file that cannot be read counts as lost: to stop is the safe side."""
        found = read_lease(self.folder)
        return found is not None and found[0] == self.token

    def lost(self) -> LeaseLostError:
        """Return the error for a holder that is none any more."""
        found = read_lease(self.folder)
        holder = "was removed" if found is None else f"is held by {found[0].rpartition('/')[0]}"
        hint = "nothing is to be done: a controller that is started again takes it back"
        return LeaseLostError(f"the lease {holder}: this process writes nothing more", where=self.folder, hint=hint)

    def drop(self) -> None:
        """Give the lease up, if it is still ours."""
        if self.held():
            (self.folder / LEASE).unlink(missing_ok=True)

    def _text(self, now_s: float) -> str:
        # the same length each time, so that it can be overwritten in place on a full disk
        return f"{self.token} {int(now_s):012d}\n"


def read_lease(folder: Path) -> tuple[str, float] | None:
    """Return token and time (seconds since the epoch) of the lease; None where there is none that can be read."""
    return read_stamp(folder / LEASE)


def read_stamp(path: Path) -> tuple[str, float] | None:
    """Return word and time (seconds since the epoch) of a file that holds these two; None where it cannot be read."""
    try:
        word, _, at = path.read_text().strip().partition(" ")
        return word, float(at)
    except (OSError, ValueError):
        return None


def write_beat(folder: Path, mode: str, now_s: float) -> None:
    """Write the heartbeat, which job_submit.lua reads. Raises: OutputError."""
    replace_text(folder / BEAT, f"{mode} {int(now_s)}\n")


def is_young(age_s: float, away_s: float) -> bool:
    """Whether a heartbeat or lease of this age is in force: neither too old nor from the future.

    Clocks of two hosts differ by a few seconds, so ``AHEAD_S`` is allowed. job_submit.lua has the same rule.
    """
    return -AHEAD_S <= age_s <= away_s


def replace_text(path: Path, text: str) -> None:
    """Replace a small file atomically; on a full disk overwrite it in place, if it has the same length.

    Overwriting needs no new block on file systems that do not copy on write. A reader could see a mixture of both
    texts only between two pages, and these files are shorter than a page.

    Raises: OutputError where neither is possible.
    """
    try:
        atomic_text(path, text, mode=0o644, sync=False)
    except OutputError as error:
        content = text.encode()
        try:
            handle = os.open(path, os.O_WRONLY)
            try:
                if os.fstat(handle).st_size != len(content):
                    raise
                os.pwrite(handle, content, 0)
            finally:
                os.close(handle)
        except OSError:
            raise error from None
