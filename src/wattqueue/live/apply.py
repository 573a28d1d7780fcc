"""Carry writes out in order, each recorded in a journal before and after.

``goal.plan_writes`` decides what to write and in which order; this module does it and reports what happened. It holds
five decisions:

* **Intent before effect.** The journal has a row before the write, and a second one with the outcome. A crash in
  between leaves an intent without outcome; what the cluster shows in the next round then tells which it was.
* **A failure stays local, unless it is about the budget.** A failed write ends the other writes of its job in this
  round. Where the pool could not be set, or a job not be held or requeued, nothing is started in this round either:
  there may be no room for it.
* **Writes of one kind go together.** Neighbours in the list that may be carried out together (``Write.batchable``:
  stops, continuations, changes of jobs) are a batch of at most ``TOGETHER``, and their rows are recorded at
  once: a load target that parks hundreds of jobs is in force within seconds.
* **Every write passes the bound.** ``WattBound`` (``watts.bound``) is asked before each batch and told of its outcome:
  what would let jobs draw more than the pool and the accepted overshoot is left out.
* **A slow failure ends the round's writing.** Each of the writes behind it might stall as long, and the snapshot that
  they were planned on grows old. The next round plans again.

No write is undone. The goal is computed from what the cluster shows, so a half-finished list is simply where the next
round starts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wattqueue.errors import OutputError
from wattqueue.live.cluster import (
    HoldJob,
    JobKey,
    ReleaseJob,
    RequeueJob,
    SetDomains,
    SetPool,
    SetPriority,
    Write,
    WriteDriver,
    apply_each,
)
from wattqueue.live.watts.bound import WattBound

LEFT_OUT = "left out"
"""Beginning of the outcome of a write that was not tried: an earlier one failed, or it could not be recorded."""
TRIED = "tried"
"""Outcome of a write that is being tried."""
TOGETHER = 100
"""Writes that are carried out together at most."""
SLOW_S = 2.0
"""A write that fails after so long ends the round's writing: the next one might stall as well."""


class WriteResult(NamedTuple):
    """A write and its outcome; ``error`` is empty where it succeeded."""

    write: Write
    error: str = ""


class Journal(Protocol):
    """What records each write, before and after. The audit log is one. Raises OutputError where it cannot record."""

    def intend(self, writes: Sequence[Write]) -> list[int]:
        """Record that writes are about to be done; returns their numbers for ``record_outcomes``."""
        ...

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        """Record the outcomes of writes by their numbers: ``done``, or the error."""
        ...


@dataclass
class Applier:
    """Carries out writes; the module's description states what a failure ends.

    The known slow failure: Slurm 22.05 waits 5 s for a job whose accounting index was lost when slurmctld stopped, then
    refuses the update, and does so for ever.

    ``boundary`` is called before and after each batch of writes: where the tests kill the controller;
    ``clock`` counts seconds.

    A write that cannot be recorded in the journal (full disk) is carried out only if it reduces power: holding the cap
    must not depend on a disk.
    """

    cluster: WriteDriver
    journal: Journal
    boundary: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic

    def apply(self, writes: Sequence[Write], bound: WattBound, permit: Callable[[], str] = str) -> list[WriteResult]:
        """Do each write in order; returns the outcomes of those that were reached.

        ``bound`` is what jobs hold in the snapshot that the writes were planned on; it follows what is written.

        ``permit`` is called before each batch and returns a reason to end (empty for none); it raises LeaseLostError
        where another process writes now. It is asked so often since a process can be stopped and resumed at any time.

        Raises nothing but what ``permit`` raises: a write that fails is an outcome.
        """
        outcomes: list[WriteResult] = []
        failed: set[JobKey] = set()
        blocked = False
        for batch in batches(writes):
            due = []
            for write in batch:
                if write.key in failed or (blocked and isinstance(write, ReleaseJob | SetPriority)):
                    outcomes.append(WriteResult(write, f"{LEFT_OUT}: an earlier write failed"))
                elif refused := bound.refusal(write):
                    outcomes.append(WriteResult(write, f"{LEFT_OUT}: {refused}"))
                    failed |= set() if write.key is None else {write.key}
                else:
                    # told before it is tried: the next ones of the batch go with it, and nothing that fails frees watts
                    bound.note(write, TRIED)
                    due.append(write)
            if not due:
                continue
            if permit():
                break
            begin_s = self.clock()
            done = self._recorded(due)
            outcomes += done
            for one in done:
                bound.note(one.write, one.error)
            # of a job whose write failed or was left out nothing more: a release without its change would start it on
            # other watts
            failed |= {one.write.key for one in done if one.error and one.write.key is not None}
            tried = [one for one in done if one.error and not one.error.startswith(LEFT_OUT)]
            # a pool or a job's watts that could not be lowered leaves no room to start anything on
            blocked |= any(isinstance(one.write, SetPool | SetDomains | HoldJob | RequeueJob) for one in tried)
            if tried and self.clock() - begin_s > SLOW_S:
                break
        return outcomes

    def _recorded(self, batch: Sequence[Write]) -> list[WriteResult]:
        """Carry a batch out, recorded before and after; return the outcomes."""
        try:
            numbers = self.journal.intend(batch)
        except OutputError as problem:
            text = f"{LEFT_OUT}: it could not be recorded: {problem}"
            kept = [write for write in batch if write.reduces_power]
            left = [WriteResult(write, text) for write in batch if not write.reduces_power]
            return [*left, *self._done(kept)]
        self.boundary("before")
        done = self._done(batch)
        self.boundary("done")
        with contextlib.suppress(OutputError):  # an intent without outcome: the next snapshot tells the outcome
            self.journal.record_outcomes(
                [(number, one.error or "done") for number, one in zip(numbers, done, strict=True)]
            )
        self.boundary("after")
        return done

    def _done(self, batch: Sequence[Write]) -> list[WriteResult]:
        """Carry a batch out; return the outcomes."""
        errors = apply_each(self.cluster, batch) if len(batch) < 2 else self.cluster.apply_batch(batch)
        return [WriteResult(write, error) for write, error in zip(batch, errors, strict=True)]


def batches(writes: Sequence[Write]) -> Iterator[list[Write]]:
    """Yield writes in their order, neighbours that may be carried out together in one list."""
    batch: list[Write] = []
    keys: set[JobKey | None] = set()
    for write in writes:
        alike = write.batchable and bool(batch) and type(write) is type(batch[0]) and write.key not in keys
        if batch and not (alike and len(batch) < TOGETHER):
            yield batch
            batch, keys = [], set()
        batch.append(write)
        keys.add(write.key)
    if batch:
        yield batch
