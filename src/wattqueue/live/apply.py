"""Carry writes out one by one, each recorded in a journal before and after.

``goal.plan_writes`` decides what to write and in which order; this module does it and reports what happened. It holds
three decisions about failure:

* **Intent before effect.** The journal has a row before the write, and a second one with the outcome. A crash in
  between leaves an intent without outcome; what the cluster shows in the next round then tells which it was.
* **A failure stays local, unless it is about the budget.** A failed write ends the other writes of its job in this
  round. Where the pool could not be set, or a job not be held or requeued, nothing is started in this round either:
  there may be no room for it.
* **A slow failure ends the round's writing.** Each of the writes behind it might stall as long, and the snapshot that
  they were planned on grows old. The next round plans again.

No write is undone. The goal is computed from what the cluster shows, so a half-finished list is simply where the next
round starts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wattqueue.errors import OutputError
from wattqueue.live.cluster import (
    Cluster,
    ClusterError,
    HoldJob,
    JobKey,
    ReleaseJob,
    RequeueJob,
    SetPool,
    SetPriority,
    Write,
)

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


@dataclass
class Applier:
    """Carries out writes; the module's description states what a failure ends.

    The known slow failure: Slurm 22.05 waits 5 s for a job whose accounting index was lost when slurmctld stopped, then
    refuses the update, and does so for ever.

    ``boundary`` is called before and after each write: where the tests kill the controller;
    ``clock`` counts seconds.

    A write that cannot be recorded in the journal (full disk) is carried out only if it lowers: holding the cap must
    not depend on a disk.
    """

    cluster: Cluster
    journal: Journal
    boundary: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic

    def apply(self, writes: Sequence[Write], permit: Callable[[], str] = str) -> list[WriteResult]:
        """Do each write in order; returns the outcomes of those that were reached.

        ``permit`` is called before each write and returns a reason to end the batch (empty for none); it raises
        LeaseLostError where another process writes now. It is asked per write and not per batch, since a process can be
        stopped and resumed between any two writes.

        Raises nothing but what ``permit`` raises: a write that fails is an outcome.
        """
        outcomes: list[WriteResult] = []
        failed: set[JobKey] = set()
        blocked = False
        for write in writes:
            if write.key in failed or (blocked and isinstance(write, ReleaseJob | SetPriority)):
                outcomes.append(WriteResult(write, f"{LEFT_OUT}: an earlier write failed"))
                continue
            if permit():
                break
            try:
                number = self.journal.intend(write)
            except OutputError as problem:
                if not write.lowers:
                    outcomes.append(WriteResult(write, f"{LEFT_OUT}: it could not be recorded: {problem}"))
                    if write.key is not None:  # a release without its change would start the job on other watts
                        failed.add(write.key)
                    continue
                number = 0
            self.boundary("before")
            begin_s = self.clock()
            error = self._do(write)
            self.boundary("done")
            with contextlib.suppress(OutputError):  # an intent without outcome: the next snapshot tells the outcome
                self.journal.settle(number, error or "done")
            self.boundary("after")
            if error and write.key is not None:
                failed.add(write.key)
            # a pool or a job's watts that could not be lowered leaves no room to start anything on
            blocked |= bool(error) and isinstance(write, SetPool | HoldJob | RequeueJob)
            outcomes.append(WriteResult(write, error))
            if error and self.clock() - begin_s > SLOW_S:
                break
        return outcomes

    def _do(self, write: Write) -> str:
        """Carry one write out; returns its error, empty for none."""
        try:
            self.cluster.apply(write)
        except ClusterError as error:
            return str(error)
        return ""
