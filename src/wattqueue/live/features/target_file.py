"""Load targets from a file that a site writes, read again whenever it changes (``targets`` in live.toml).

The file is the CSV of ``wattqueue simulate --targets`` with times in seconds since the epoch. A target whose start has
passed is in force until its end, so one that came while the controller was away is honoured when it is back. One that
is over changes nothing. No file means no target.

A file that cannot be used (a target below idle watts, targets that overlap, units that do not fit, a line that is cut
short) leaves the last targets in force, and the status says which line is wrong. They are kept in the run folder, so
that they are in force after a restart, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wattqueue.errors import OutputError, WattQueueError
from wattqueue.formats.load_target import read_load_targets, write_load_targets
from wattqueue.live.files.followed import refuse_pipe
from wattqueue.live.files.stamp import Stamp, stamp_of
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap

KEPT = "targets.csv"
"""File in the run folder with the last targets that could be used, in watts."""


@dataclass
class TargetFile:
    """A file of load targets (``load_targets.TargetSource``).

    Attributes:
        path: The file.
        machine: Gives idle watts, and the maximum of which a target may be a share.
        cap: Gives the site's cap, of which a target may be a share: when the file is read.
        folder: The run folder.
    """

    path: Path
    machine: Machine
    cap: Callable[[], Cap]
    folder: Path
    problem: str = ""
    _found: LoadTargets = field(default_factory=LoadTargets.none)
    _stamp: Stamp | None = None

    def start(self, say: Callable[[str], None]) -> None:
        """Begin: nothing is to be done."""

    def close(self) -> None:
        """End: nothing is to be done."""

    def targets(self) -> LoadTargets:
        """Return the targets in watts; the same object as long as they are the same."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return self._found
        first, self._stamp = self._stamp is None, stamp
        try:
            self._found, self.problem = self._read() if stamp else LoadTargets.none(), ""
        except WattQueueError as error:
            if first:
                self._found = self._last()
            self.problem = f"the last {len(self._found)} load targets stay in force: {error}"
            return self._found
        with suppress(OutputError, OSError):  # the file itself is there
            self._keep()
        return self._found

    def problems(self) -> Sequence[str]:
        """Return why the file's content is not in force; empty where it is."""
        return (self.problem,) if self.problem else ()

    def unusable(self) -> int:
        """Return 1 while the file's content is not in force."""
        return int(bool(self.problem))

    def measured(self, time_s: float, power_w: float, *, measured: bool, consenting_w: float | None = None) -> None:
        """Take what the cluster draws: nobody asks for it."""

    def _read(self) -> LoadTargets:
        """Return the file's targets in watts. Raises: InputError or MachineError naming the line."""
        cap = self.cap()
        refuse_pipe(self.path)
        return read_load_targets(self.path, self.machine, cap).in_watts(self.machine, cap)

    def _keep(self) -> None:
        """Keep the targets for a start at which the file cannot be used."""
        kept = self.folder / KEPT
        if len(self._found):
            write_load_targets(kept, self._found)
        else:
            kept.unlink(missing_ok=True)

    def _last(self) -> LoadTargets:
        """Return what was kept; none where that cannot be read either."""
        try:
            return read_load_targets(self.folder / KEPT)
        except WattQueueError:
            return LoadTargets.none()
