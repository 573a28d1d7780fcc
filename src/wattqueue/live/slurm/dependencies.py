"""Find out whether what a held job waits for has happened, before slurmctld itself looks.

slurmctld looks at the dependencies of a *held* job only once in ``sched_interval`` (60 s by default): on 22.05.8 a job
without a hold started 0.9 s after the job that it waited for had ended, and a held one was shown as still waiting for
44 to 53 s. So the jobs it names are looked up as soon as none of them is in the queue any more. Only the plain kinds
are answered here (``afterok``, ``afternotok``, ``afterany``, ``after``, all of them required); for any other, and where
a job is no longer known, Slurm's own answer is awaited. Slurm examines the dependency again after the release, so that
a wrong answer starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.live.slurm.commands import Slurm, SlurmError, read

_PIECE = re.compile(r"(after|afterany|afterok|afternotok):([0-9]+)(_\*|_[0-9]+)?(?:\((?:un)?fulfilled\))?")
ENDED = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL", "PREEMPTED"}
)


class Condition(NamedTuple):
    """One job, or array, that has to end in a certain way."""

    kind: str
    job: str
    """As commands accept it; an array as a whole by its number."""

    @property
    def number(self) -> int:
        """Job id, of an array that of the array."""
        return int(self.job.partition("_")[0])

    def met(self, states: Collection[str]) -> bool:
        """Whether jobs that ended in these states meet it."""
        if not states or not ENDED.issuperset(states):
            return False
        good = set(states) == {"COMPLETED"}
        return good if self.kind == "afterok" else not good if self.kind == "afternotok" else True


def parse_dependency(text: str) -> tuple[Condition, ...] | None:
    """Conditions of squeue's dependency that must all be met; None for a form that only Slurm answers."""
    found = []
    for piece in text.split(","):
        match = _PIECE.fullmatch(piece)
        if match is None:
            return None
        found.append(Condition(match[1], match[2] + (match[3] or "").replace("_*", "")))
    return tuple(found)


@dataclass
class Dependencies:
    """Answers for held jobs. How a job ended is asked once, when it has left the queue."""

    slurm: Slurm
    _ended: dict[str, frozenset[str]] = field(default_factory=dict)
    """States in which a job, or the tasks of an array, ended; empty where Slurm no longer knows."""

    def met(self, texts: Iterable[str], present: Collection[int]) -> set[str]:
        """Return those of the dependencies that are met. ``present`` are the ids of all jobs and arrays queued."""
        parsed = {text: parse_dependency(text) for text in set(texts)}
        ready = {t: c for t, c in parsed.items() if c is not None and not any(one.number in present for one in c)}
        named = {one.job for conditions in ready.values() for one in conditions}
        self._ended = {job: states for job, states in self._ended.items() if job in named}
        for job in named - self._ended.keys():
            self._ended[job] = self._ask(job)
        return {t for t, conditions in ready.items() if all(one.met(self._ended[one.job]) for one in conditions)}

    def _ask(self, job: str) -> frozenset[str]:
        """Return the states of a job that is not in the queue; empty for one that Slurm has forgotten."""
        try:
            text = read(self.slurm, ("squeue", "-h", "-r", "-a", "-t", "all", "-j", job, "-o", "%T"), tries=1)
        except SlurmError:
            return frozenset()
        return frozenset(text.split())
