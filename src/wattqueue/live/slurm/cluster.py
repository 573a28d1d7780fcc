"""The driver of an unmodified Slurm, through its commands (``live.cluster.Cluster``)."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wattqueue.live.cluster import (
    ChangeJob,
    Finding,
    JobKey,
    Pool,
    SetDrain,
    SetJobFrequency,
    SetPool,
    Snapshot,
    Write,
    apply_each,
)
from wattqueue.live.draining import FOREIGN
from wattqueue.live.slurm.commands import Slurm, SlurmError, must
from wattqueue.live.slurm.frequencies import Frequencies
from wattqueue.live.slurm.observe import SUBMITTED, Observer
from wattqueue.live.slurm.pool import PoolMethod, ReservationPool
from wattqueue.live.slurm.writes import DRAIN_REASON, commands_of, shape
from wattqueue.model.bounds import is_whole

CONFIRM_S = 2.0
"""Age from which a list of jobs is read again before something is written to one of them."""


REPLACED = "Slurm has given this id to another job since the job was seen"


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

    def __post_init__(self) -> None:
        """Create the observer, which keeps what it parsed from one snapshot to the next."""
        self._observer = Observer(
            self.slurm,
            self.clock,
            wait=self.wait,
            comments_every_s=self.comments_every_s,
            priorities=self.priorities,
        )
        self._last: Snapshot | None = None
        self._listed_s = math.inf
        self._submit_s: dict[str, float] = {}

    def observe(self) -> Snapshot:
        """Return the Slurm now, with the frequencies that its jobs are told to use.

        Raises: SlurmError where a list cannot be read. A folder of frequencies that cannot be read is a problem of
        the snapshot: nothing else depends on it.
        """
        seen = self._observer.snapshot()
        self._listed_s, self._submit_s = seen.taken_s, {}
        try:
            files = self.frequencies.now()
            self._last = replace(seen, frequencies=files) if files else seen
        except OSError as error:
            self._last = replace(seen, problems=(*seen.problems, f"the frequencies: {error}"))
        return self._last

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
        if self._last is None:
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

    def check(self) -> Sequence[Finding]:
        """Compare what is installed with the configuration. Raises: SlurmError where Slurm does not answer."""
        return self.checks()

    def _seen_pool(self) -> Pool:
        """Return the pool, as last seen; an empty one where there is none."""
        pool = self._last.pool if self._last is not None else None
        return Pool(0, 0, 0) if pool is None else pool

    def _licences(self, write: Write) -> tuple[str, ...]:
        """Return the job's other licences, as last seen: an update replaces the whole list."""
        if not isinstance(write, ChangeJob) or write.key is None or self._last is None:
            return ()
        row = self._last.by_key.get(write.key)
        return row.native if row is not None and isinstance(row.native, tuple) else ()
