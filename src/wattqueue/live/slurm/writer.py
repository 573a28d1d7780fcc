"""Carry out writes to an unmodified Slurm by its commands, for jobs and a pool that somebody else observed.

How many watts running jobs may hold together is set by a licence reservation, or by the count in slurm.conf
(``PoolMethod``). The frequency of a job is written into a file for TaskProlog (``Frequencies``).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import atomic_text
from wattqueue.live.cluster import (
    FOREIGN,
    ChangeJob,
    JobKey,
    Pool,
    SetDrain,
    SetJobFrequency,
    SetPool,
    Snapshot,
    Write,
    WriteDriver,
    apply_each,
)
from wattqueue.live.slurm.commands import JOB, LICENCE, Slurm, SlurmError, must
from wattqueue.live.slurm.lists import SUBMITTED
from wattqueue.live.slurm.writes import DRAIN_REASON, commands_of, shape
from wattqueue.model.plain_numbers import is_whole


@dataclass
class Frequencies:
    """The per-job files that TaskProlog reads: ``FOLDER/JOB`` holds kHz. Without a folder nothing is kept.

    Slurm takes a frequency at submission and never later (``scontrol update CpuFreqMax`` is refused), so a file that
    the job's own prolog reads at its start is the only way to choose it when the job is released.
    """

    folder: Path | None

    def set(self, name: str, khz: int) -> None:
        """Write one job's file atomically, or remove it with 0. Raises SlurmError.

        A TaskProlog reads it at any moment; half a number would be another frequency.
        """
        if self.folder is None or not JOB.fullmatch(name):
            return
        try:
            file = self.folder / name
            if khz <= 0:
                file.unlink(missing_ok=True)
                return
            atomic_text(file, f"{khz}\n", mode=0o644, sync=False)
        except OSError as error:
            raise SlurmError(f"frequency of job {name}: {error.strerror}", where=self.folder) from error
        except OutputError as error:
            raise SlurmError(f"frequency of job {name}: {error.what}", where=self.folder) from error


RESERVATION = "wattqueue"
"""Name of the licence reservation that withholds watts from jobs."""


class PoolMethod(Protocol):
    """How the pool is set. There is one implementation for each right that a site may grant."""

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        """Let running jobs hold ``open_w`` of ``total_w`` together. Raises SlurmError."""
        ...


@dataclass(frozen=True)
class ReservationPool:
    """A licence reservation withholds watts from jobs: about 6 ms, the operator role suffices.

    While one stands, backfill of Slurm (22.05 to 26.05) does not plan for licences, and wide jobs starve; so the
    reservation is deleted where the whole pool is open. The reservation belongs to root: a user who could name it
    (``--reservation``) could use the watts in it.
    """

    name: str = RESERVATION

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        self._hold(slurm, self._shown(slurm), {LICENCE: total_w - open_w})

    def _shown(self, slurm: Slurm) -> str:
        """Return the reservation as scontrol prints it; empty where there is none. Raises SlurmError."""
        shown = slurm.run(("scontrol", "-o", "show", "reservation", self.name))
        return shown.out if shown.code == 0 and f"ReservationName={self.name} " in shown.out else ""

    def _hold(self, slurm: Slurm, shown: str, counts: Mapping[str, int]) -> None:
        """Let the reservation hold so much of some licences and nothing else. Raises SlurmError."""
        licences = ",".join(f"{name}:{count}" for name, count in counts.items() if count > 0)
        if licences and shown:
            must(slurm, ("scontrol", "update", f"ReservationName={self.name}", f"Licenses={licences}"))
        elif licences:
            fields = ("StartTime=now", "Duration=UNLIMITED", "Flags=LICENSE_ONLY", "Users=root", f"Licenses={licences}")
            must(slurm, ("scontrol", "create", "reservation", f"ReservationName={self.name}", *fields))
        elif shown:
            must(slurm, ("scontrol", "delete", f"ReservationName={self.name}"))


@dataclass(frozen=True)
class ReconfigurePool:
    """Rewrites a file that slurm.conf includes, then reconfigures: about 30 ms, needs the rights of SlurmUser.

    ``line`` is the whole ``Licenses=`` line of the site, with ``{watts}`` for our count: slurm.conf has one such
    line, so the site's other licences stand in it too. Running jobs keep their licences when the count falls below what
    is in use; Slurm then starts nothing until enough of them ended.
    """

    file: Path
    line: str = f"Licenses={LICENCE}:{{watts}}"

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        try:
            line = self.line.format(watts=open_w)
            atomic_text(self.file, f"# written by wattqueue live\n{line}\n", mode=0o644)
        except OutputError as error:
            raise SlurmError(error.what, where=error.where, hint=error.hint) from error
        must(slurm, ("scontrol", "reconfigure"))


CONFIRM_S = 2.0
"""Age from which a list of jobs is read again before something is written to one of them."""


REPLACED = "Slurm has given this id to another job since the job was seen"


class SnapshotWriter(WriteDriver, Protocol):
    """What carries out writes, and is given each snapshot on which they are decided."""

    def observed(self, snapshot: Snapshot) -> None:
        """Take over a snapshot that was read just now."""
        ...


@dataclass
class SlurmWriter:
    """What carries out writes. ``clock`` gives seconds since the epoch.

    ``seen`` is the last snapshot, from which it knows a job's other licences and the pool.
    """

    slurm: Slurm
    pool: PoolMethod = field(default_factory=ReservationPool)
    frequencies: Frequencies = field(default_factory=lambda: Frequencies(None))
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Begin without a snapshot."""
        self.seen: Snapshot | None = None
        self._listed_s = math.inf
        self._submit_s: dict[str, float] = {}

    def observed(self, snapshot: Snapshot) -> None:
        """Take over a snapshot that was read just now."""
        self.seen, self._listed_s, self._submit_s = snapshot, snapshot.taken_s, {}

    def apply(self, write: Write) -> None:
        """Carry one write out. Raises: SlurmError."""
        if write.key is not None and write.key in self._replaced([write]):
            raise SlurmError(f"{write.kind} {write.target}: {REPLACED}")
        try:
            if isinstance(write, SetPool):
                seen = self._seen_pool()
                self.pool.set(self.slurm, max(0, write.open_w - seen.uncounted), seen.total)
            elif isinstance(write, SetJobFrequency):
                self.frequencies.set(write.target, write.khz)
            else:
                if isinstance(write, SetDrain):
                    self._require_ours(write)
                for argv in commands_of(write, self._licences(write), self._seen_pool().total):
                    must(self.slurm, argv)
        except OSError as error:
            raise SlurmError(f"{write.kind} {write.target}: {error}") from error

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry writes of one kind out, those of one shape by the same commands; return the error of each.

        Where a command reports an error, half of the jobs are tried by themselves, and so on: Slurm's messages do not
        name the job in each release. No command can do harm by being repeated.
        """
        alike: dict[tuple[object, ...], list[int]] = {}
        try:
            replaced = self._replaced(writes)
        except SlurmError as unanswered:
            return [str(unanswered)] * len(writes)
        if replaced:
            rest = [write for write in writes if write.key not in replaced]
            others = iter(self.apply_batch(rest))
            return [REPLACED if write.key in replaced else next(others) for write in writes]
        for k, write in enumerate(writes):
            alike.setdefault(shape(write, self._licences(write)), []).append(k)
        errors = [""] * len(writes)
        for places in alike.values():
            for k, error in zip(places, self._all([writes[k] for k in places]), strict=True):
                errors[k] = error
        return errors

    def _replaced(self, writes: Sequence[Write]) -> set[JobKey]:
        """Return the jobs of some writes whose ids other jobs have by now, by their submit times.

        A slurmctld that crashed gives ids out again that it had not saved. Jobs are listed again where the last list is
        older than ``CONFIRM_S``; one that is not listed any more is left to Slurm, which refuses it.

        Raises: SlurmError.
        """
        if self.seen is None:
            return set()
        now_s = self.clock()
        if not 0.0 <= now_s - self._listed_s < CONFIRM_S:
            answer = self.slurm.run(SUBMITTED)
            if answer.code != 0:
                raise SlurmError(f"squeue: {answer.err.strip()[:160]}")
            pairs = (line.split("|")[:2] for line in answer.out.splitlines() if line.count("|") == 1)
            self._submit_s = {name: float(submit) for name, submit in pairs if is_whole(submit)}
            self._listed_s = now_s
        keys = {write.key for write in writes if write.key is not None}
        return {key for key in keys if self._submit_s.get(key.name, key.submit_s) != key.submit_s}

    def _all(self, writes: Sequence[Write]) -> list[str]:
        """Carry out writes of one shape; return the error of each."""
        if len(writes) == 1:
            return apply_each(self, writes)
        try:
            commands = commands_of(writes[0], self._licences(writes[0]), self._seen_pool().total, writes[1:])
            answers = [self.slurm.run(argv) for argv in commands]
        except SlurmError as error:  # no answer: single commands would each wait as long
            return [str(error)] * len(writes)
        if all(answer.code == 0 and not answer.err.strip() for answer in answers):
            return [""] * len(writes)
        half = len(writes) // 2
        return [*self._all(writes[:half]), *self._all(writes[half:])]

    def _require_ours(self, write: SetDrain) -> None:
        """Raise SlurmError for a node that somebody else drained: its reason is not ours."""
        shown = self.slurm.run(("scontrol", "-o", "show", "node", write.target))
        drained = re.search(r" State=[A-Z+]*DRAIN", shown.out) is not None
        if shown.code != 0 or (drained and f" Reason={DRAIN_REASON}" not in shown.out):
            raise SlurmError(f"{FOREIGN}: {write.target} is not this controller's to drain or to bring back")

    def _seen_pool(self) -> Pool:
        """Return the pool, as last seen; an empty one where there is none."""
        pool = self.seen.pool if self.seen is not None else None
        return Pool(0, 0, 0) if pool is None else pool

    def _licences(self, write: Write) -> tuple[str, ...]:
        """Return the job's other licences, as last seen: an update replaces the whole list."""
        if not isinstance(write, ChangeJob) or write.key is None or self.seen is None:
            return ()
        row = self.seen.by_key.get(write.key)
        return row.native if row is not None and isinstance(row.native, tuple) else ()
