"""The driver of an unmodified Slurm, through its commands (``live.cluster.Cluster``)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from wattqueue.live.cluster import Snapshot, Write
from wattqueue.live.driver import Finding
from wattqueue.live.slurm.commands import JOB, Slurm
from wattqueue.live.slurm.domain_writer import DomainReservation, DomainWriter
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.slurm.writer import Frequencies, PoolMethod, ReservationPool, SlurmWriter, SnapshotWriter
from wattqueue.model.plain_numbers import is_whole


@dataclass
class SlurmCluster:
    """A Slurm. ``clock`` gives seconds since the epoch; ``wait`` is called between two tries of a read.

    ``checks`` compares what is installed (job_submit.lua, licences) with the configuration.
    """

    slurm: Slurm
    pool: PoolMethod = field(default_factory=ReservationPool)
    frequencies: Frequencies = field(default_factory=lambda: Frequencies(None))
    checks: Callable[[], Sequence[Finding]] = tuple
    clock: Callable[[], float] = time.time
    wait: Callable[[float], None] = time.sleep
    name: str = "Slurm"
    comments_every_s: float = math.inf
    """How often details are read again for comments that users changed; inf: never."""
    priorities: bool = False
    """Whether snapshots have the site's priorities."""
    domains: frozenset[str] = frozenset()
    """Licences that count watts in power domains."""
    writer: SnapshotWriter | None = None
    """What writes, where another process has the right to."""

    def __post_init__(self) -> None:
        """Create the observer, which keeps what it parsed from one snapshot to the next, and what writes."""
        self.observer = Observer(
            self.slurm,
            self.clock,
            wait=self.wait,
            comments_every_s=self.comments_every_s,
            priorities=self.priorities,
            domains=self.domains,
        )
        if self.domains and type(self.pool) is ReservationPool:
            self.pool = DomainReservation()
        kind = DomainWriter if self.domains else SlurmWriter
        self._writer: SnapshotWriter = self.writer or kind(self.slurm, self.pool, self.frequencies, self.clock)

    def observe(self) -> Snapshot:
        """Return the Slurm now, with the frequencies that its jobs are told to use.

        Raises: SlurmError where a list cannot be read. A folder of frequencies that cannot be read is a problem of
        the snapshot: nothing else depends on it.
        """
        seen = self.observer.snapshot()
        try:
            files = frequencies_in(self.frequencies.folder)
            seen = replace(seen, frequencies=files) if files else seen
        except OSError as error:
            seen = replace(seen, problems=(*seen.problems, f"the frequencies: {error}"))
        self._writer.observed(seen)
        return seen

    def apply(self, write: Write) -> None:
        """Carry one write out. Raises: SlurmError."""
        self._writer.apply(write)

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry writes of one kind out, those of one shape by the same commands; return the error of each."""
        return self._writer.apply_batch(writes)

    def check(self) -> Sequence[Finding]:
        """Compare what is installed with the configuration. Raises: SlurmError where Slurm does not answer."""
        return self.checks()


def frequencies_in(folder: Path | None) -> dict[str, int]:
    """Return the frequency in kHz by job name, as ``writer.Frequencies`` wrote them; nothing without a folder.

    Files of other names, or without a number, are left out. Raises: OSError.
    """
    if folder is None or not folder.is_dir():
        return {}
    found = {}
    for file in folder.iterdir():
        text = ""
        if JOB.fullmatch(file.name):
            with suppress(FileNotFoundError):  # a job that ended since: the script removes its file
                text = file.read_text(errors="replace").strip()
        if is_whole(text):
            found[file.name] = int(text)
    return found
