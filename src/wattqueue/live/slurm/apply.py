"""Carry writes out, one by one: say what is about to be done, do it, say what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from wattqueue.live.slurm.commands import HOSTS, JOB, WORD, Slurm, SlurmError, first_line
from wattqueue.live.slurm.goal import RESERVATION, Write
from wattqueue.live.slurm.snapshot import LICENCE, JobKey

SLOW_S = 2.0
"""A write that fails after so long ends the round's writing: the next one might stall as well."""


class Outcome(NamedTuple):
    """What came of a write; ``error`` is empty where it succeeded."""

    write: Write
    error: str = ""


class Journal(Protocol):
    """Who is told of each write, before and after. The audit log is one."""

    def intend(self, write: Write) -> int:
        """A write is about to be done; returns its number."""
        ...

    def settle(self, number: int, outcome: str) -> None:
        """What came of it."""
        ...


class Pool(Protocol):
    """How the pool is set: a way of its own for each right that a site grants."""

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        """Let running jobs hold ``open_w`` of ``total_w`` together. Raises SlurmError."""
        ...


@dataclass(frozen=True)
class ReservationPool:
    """A licence reservation sets aside what jobs must not take: about 6 ms, an operator may do it.

    While one stands, backfill of Slurm 22.05 does not plan for licences (bf_licenses), so none
    stands where the whole pool is open.
    """

    name: str = RESERVATION

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        shown = slurm.run(("scontrol", "-o", "show", "reservation", self.name))
        exists = shown.code == 0 and f"ReservationName={self.name} " in shown.out
        aside_w = total_w - open_w
        if aside_w <= 0:
            if exists:
                must(slurm, ("scontrol", "delete", f"ReservationName={self.name}"))
        elif exists:
            must(slurm, ("scontrol", "update", f"ReservationName={self.name}", f"Licenses={LICENCE}:{aside_w}"))
        else:
            fields = ("StartTime=now", "Duration=UNLIMITED", "Flags=LICENSE_ONLY", "Users=root")
            licences = f"Licenses={LICENCE}:{aside_w}"
            must(slurm, ("scontrol", "create", "reservation", f"ReservationName={self.name}", *fields, licences))


@dataclass(frozen=True)
class ReconfigurePool:
    """Rewrites a file that slurm.conf includes, then reconfigures: about 30 ms, needs SlurmUser.

    ``line`` is the whole line with every licence of the site, ``{watts}`` in the place of ours.
    """

    file: Path
    line: str = f"Licenses={LICENCE}:{{watts}}"

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        aside = self.file.with_name(f".{self.file.name}.part")
        aside.write_text(f"# written by wattqueue live\n{self.line.format(watts=open_w)}\n")
        aside.chmod(0o644)
        aside.replace(self.file)
        must(slurm, ("scontrol", "reconfigure"))


def must(slurm: Slurm, argv: Sequence[str]) -> None:
    """Run a command that has to succeed. Raises SlurmError with what it said."""
    answer = slurm.run(argv)
    said = first_line(answer.err or answer.out)
    if answer.code != 0:
        raise SlurmError(f"{' '.join(argv[:3])}: exit {answer.code}: {said}")


@dataclass
class Frequencies:
    """The per-job files that TaskProlog reads: ``FOLDER/JOB`` holds kHz. No folder: nothing is kept."""

    folder: Path | None

    def now(self) -> dict[str, int]:
        """Frequency in kHz by job name."""
        if self.folder is None or not self.folder.is_dir():
            return {}
        found = {}
        for file in self.folder.iterdir():
            text = file.read_text().strip() if JOB.fullmatch(file.name) else ""
            if text.isdigit():
                found[file.name] = int(text)
        return found

    def set(self, name: str, khz: int) -> None:
        """Write (or with 0 remove) one job's file, whole or not at all. Raises SlurmError."""
        if self.folder is None or not JOB.fullmatch(name):
            return
        try:
            file = self.folder / name
            if khz <= 0:
                file.unlink(missing_ok=True)
                return
            aside = self.folder / f".{name}.part"
            aside.write_text(f"{khz}\n")
            aside.chmod(0o644)
            aside.replace(file)
        except OSError as error:
            raise SlurmError(f"frequency of job {name}: {error.strerror}", where=self.folder) from error


@dataclass
class Applier:
    """Carries out writes. A failed write ends the others of its job in this round, never the round.

    But a write that failed slowly leaves what follows to the next round. Slurm 22.05 waits 5 s for a
    job whose accounting index was lost when slurmctld stopped, then refuses, and does so for ever.

    ``boundary`` is called before and after each write: where the tests kill the controller;
    ``clock`` counts seconds.
    """

    slurm: Slurm
    journal: Journal
    pool: Pool = field(default_factory=ReservationPool)
    frequencies: Frequencies = field(default_factory=lambda: Frequencies(None))
    boundary: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic

    def apply(self, writes: Sequence[Write], total_w: int = 0) -> list[Outcome]:
        """Do each write in order; the outcomes of those tried. ``total_w`` is the whole pool of slurm.conf."""
        outcomes: list[Outcome] = []
        failed: set[JobKey] = set()
        blocked = False
        for write in writes:
            if write.key in failed or (blocked and write.kind in ("release", "priority")):
                outcomes.append(Outcome(write, "left out: an earlier write failed"))
                continue
            number = self.journal.intend(write)
            self.boundary("before")
            begin_s = self.clock()
            error = self._do(write, total_w)
            self.boundary("done")
            self.journal.settle(number, error or "done")
            self.boundary("after")
            if error and write.key is not None:
                failed.add(write.key)
            # a pool or a licence that could not be lowered leaves no room to start anything on
            blocked |= bool(error) and write.kind in ("pool", "hold", "requeue")
            outcomes.append(Outcome(write, error))
            if error and self.clock() - begin_s > SLOW_S:
                break
        return outcomes

    def _do(self, write: Write, total_w: int) -> str:
        try:
            check(write)
            if write.kind == "pool":
                self.pool.set(self.slurm, int(write.after), total_w)
            elif write.kind == "frequency":
                self.frequencies.set(write.target, int(write.after))
            else:
                must(self.slurm, write.argv)
        except SlurmError as error:
            return str(error)
        except OSError as error:
            return f"{write.kind} {write.target}: {error}"
        return ""


def check(write: Write) -> None:
    """Names that go into a command must be names. Raises SlurmError for any other text."""
    pattern = WORD if write.kind in ("power", "pool") else JOB
    if not pattern.fullmatch(write.target):
        raise SlurmError(f"{write.target[:40]!r} is no name that a command could take")
    for argument in write.argv[2:]:
        field_name, _, value = argument.partition("=")
        if field_name in ("ReqNodeList", "Partition") and value and not HOSTS.fullmatch(value):
            raise SlurmError(f"{field_name}={value[:40]!r} is no list of names")
