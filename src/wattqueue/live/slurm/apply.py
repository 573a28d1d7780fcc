"""Carry writes out one by one, each recorded in a journal before and after.

``goal.plan_writes`` decides what to write and in which order; this module does it and reports what happened. It holds
three decisions about failure:

* **Intent before effect.** The journal has a row before the command runs, and a second one with the outcome. A crash in
  between leaves an intent without outcome; what Slurm shows in the next round then tells which it was.
* **A failure stays local, unless it is about the budget.** A failed write ends the other writes of its job in this
  round. Where the pool could not be set, or a job not be held or requeued, nothing is started in this round either:
  there may be no room for it.
* **A slow failure ends the round's writing.** Each of the writes behind it might stall as long, and the snapshot that
  they were planned on grows old. The next round plans again.

No write is undone. The goal is computed from what Slurm shows, so a half-finished list is simply where the next round
starts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from wattqueue.errors import OutputError
from wattqueue.live.slurm.commands import HOSTS, JOB, WORD, Slurm, SlurmError, first_line
from wattqueue.live.slurm.goal import RESERVATION, Write
from wattqueue.live.slurm.snapshot import LICENCE, JobKey

LEFT_OUT = "left out"
"""Beginning of the outcome of a write that was not tried: an earlier one failed, or it could not be recorded."""
SLOW_S = 2.0
"""A write that fails after so long ends the round's writing: the next one might stall as well."""


class WriteResult(NamedTuple):
    """A write and its outcome; ``error`` is empty where it succeeded."""

    write: Write
    error: str = ""


class Journal(Protocol):
    """What records each write, before and after. The audit log is one. Raises OutputError where it cannot record."""

    def intend(self, write: Write) -> int:
        """Record that a write is about to be done; returns its number for ``settle``."""
        ...

    def settle(self, number: int, outcome: str) -> None:
        """Record the outcome of write ``number``: ``done``, or the error."""
        ...


class Pool(Protocol):
    """How the pool is set. There is one implementation for each right that a site may grant."""

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        """Let running jobs hold ``open_w`` of ``total_w`` together. Raises SlurmError."""
        ...


@dataclass(frozen=True)
class ReservationPool:
    """A licence reservation withholds watts from jobs: about 6 ms, the operator role suffices.

    While one stands, backfill of Slurm 22.05 does not plan for licences (bf_licenses), and wide jobs starve; so the
    reservation is deleted where the whole pool is open. The reservation belongs to root: a user who could name it
    (``--reservation``) could use the watts in it.
    """

    name: str = RESERVATION

    def set(self, slurm: Slurm, open_w: int, total_w: int) -> None:
        shown = slurm.run(("scontrol", "-o", "show", "reservation", self.name))
        exists = shown.code == 0 and f"ReservationName={self.name} " in shown.out
        withheld_w = total_w - open_w
        if withheld_w <= 0:
            if exists:
                must(slurm, ("scontrol", "delete", f"ReservationName={self.name}"))
        elif exists:
            must(slurm, ("scontrol", "update", f"ReservationName={self.name}", f"Licenses={LICENCE}:{withheld_w}"))
        else:
            fields = ("StartTime=now", "Duration=UNLIMITED", "Flags=LICENSE_ONLY", "Users=root")
            licences = f"Licenses={LICENCE}:{withheld_w}"
            must(slurm, ("scontrol", "create", "reservation", f"ReservationName={self.name}", *fields, licences))


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
        aside = self.file.with_name(f".{self.file.name}.part")
        aside.write_text(f"# written by wattqueue live\n{self.line.format(watts=open_w)}\n")
        aside.chmod(0o644)
        aside.replace(self.file)
        must(slurm, ("scontrol", "reconfigure"))


def must(slurm: Slurm, argv: Sequence[str]) -> None:
    """Run a command that has to succeed. Raises SlurmError with the first line of its message."""
    answer = slurm.run(argv)
    said = first_line(answer.err or answer.out)
    if answer.code != 0:
        raise SlurmError(f"{' '.join(argv[:3])}: exit {answer.code}: {said}")


@dataclass
class Frequencies:
    """The per-job files that TaskProlog reads: ``FOLDER/JOB`` holds kHz. Without a folder nothing is kept.

    Slurm takes a frequency at submission and never later (``scontrol update CpuFreqMax`` is refused), so a file that
    the job's own prolog reads at its start is the only way to choose it when the job is released.
    """

    folder: Path | None

    def now(self) -> dict[str, int]:
        """Return the frequency in kHz by job name. Files of other names, or without a number, are left out."""
        if self.folder is None or not self.folder.is_dir():
            return {}
        found = {}
        for file in self.folder.iterdir():
            text = file.read_text().strip() if JOB.fullmatch(file.name) else ""
            if text.isdigit():
                found[file.name] = int(text)
        return found

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
            aside = self.folder / f".{name}.part"
            aside.write_text(f"{khz}\n")
            aside.chmod(0o644)
            aside.replace(file)
        except OSError as error:
            raise SlurmError(f"frequency of job {name}: {error.strerror}", where=self.folder) from error


@dataclass
class Applier:
    """Carries out writes; the module's description states what a failure ends.

    The known slow failure: Slurm 22.05 waits 5 s for a job whose accounting index was lost when slurmctld stopped, then
    refuses the update, and does so for ever.

    ``boundary`` is called before and after each write: where the tests kill the controller;
    ``clock`` counts seconds. ``permit`` is called before each write and returns a reason to end the batch (empty for
    none); it raises LeaseLostError where another process writes now. It is asked per write and not per batch, since
    a process can be stopped and resumed between any two writes.

    A write that cannot be recorded in the journal (full disk) is carried out only if it lowers: holding the cap must
    not depend on a disk.
    """

    slurm: Slurm
    journal: Journal
    pool: Pool = field(default_factory=ReservationPool)
    frequencies: Frequencies = field(default_factory=lambda: Frequencies(None))
    boundary: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    permit: Callable[[], str] = str

    def apply(self, writes: Sequence[Write], total_w: int = 0) -> list[WriteResult]:
        """Do each write in order; returns the outcomes of those that were reached.

        ``total_w`` is the whole pool of slurm.conf. Raises nothing but what ``permit`` raises: a command that fails is
        an outcome.
        """
        outcomes: list[WriteResult] = []
        failed: set[JobKey] = set()
        blocked = False
        for write in writes:
            if write.key in failed or (blocked and write.kind in ("release", "priority")):
                outcomes.append(WriteResult(write, f"{LEFT_OUT}: an earlier write failed"))
                continue
            if self.permit():
                break
            try:
                number = self.journal.intend(write)
            except OutputError as problem:
                if not write.lowers:
                    outcomes.append(WriteResult(write, f"{LEFT_OUT}: it could not be recorded: {problem}"))
                    if write.key is not None:  # a release without its update would start the job on other watts
                        failed.add(write.key)
                    continue
                number = 0
            self.boundary("before")
            begin_s = self.clock()
            error = self._do(write, total_w)
            self.boundary("done")
            with contextlib.suppress(OutputError):  # an intent without outcome: what Slurm shows tells the outcome
                self.journal.settle(number, error or "done")
            self.boundary("after")
            if error and write.key is not None:
                failed.add(write.key)
            # a pool or a licence that could not be lowered leaves no room to start anything on
            blocked |= bool(error) and write.kind in ("pool", "hold", "requeue")
            outcomes.append(WriteResult(write, error))
            if error and self.clock() - begin_s > SLOW_S:
                break
        return outcomes

    def _do(self, write: Write, total_w: int) -> str:
        """Carry one write out; returns its error, empty for none."""
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
    """Raise SlurmError for a target, node list or partition that is no plain name.

    The values come from Slurm's own output, so this never fails in practice. It is the last point at which a text that
    a user chose could become part of a command, and it does not rely on the parser before it.
    """
    pattern = WORD if write.kind in ("power", "pool") else JOB
    if not pattern.fullmatch(write.target):
        raise SlurmError(f"{write.target[:40]!r} is no name that a command could take")
    for argument in write.argv[2:]:
        field_name, _, value = argument.partition("=")
        if field_name in ("ReqNodeList", "Partition") and value and not HOSTS.fullmatch(value):
            raise SlurmError(f"{field_name}={value[:40]!r} is no list of names")
