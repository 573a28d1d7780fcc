"""Record how each job of an adversarial run ends, and check that each ends exactly once.

What Slurm guarantees. slurmctld answers a command, and reports a start or an end, before it stores it: the file
``job_state`` is written at most 5 s after the first change that it lacks. An orderly stop stores everything. A crash
(SIGKILL) therefore forgets what happened between the last store and the kill: a job submitted then is unknown
afterwards and its id is given out again; one that started then waits again, and runs a second time; one that ended then
runs again too, since its node does not report it. slurmdbd receives the same messages, but slurmctld never reads a
job's state back from it. So a job is *durable* for a crash unless slurmctld's log names it after the last store, and
the checks below hold for every job that was durable at each crash. The others are counted and reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from tests.live.site import Site

FINAL = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
STORE_MARGIN_S = 1.0
"""What is logged so long before the file's time may be missing in it: it is written after the jobs were read."""
RESTORED = "] Recovered JobId="
"""What slurmctld logs at its start for each job of its store, and for each step."""
NAMED = re.compile(r"JobId=(\d+)(?:[_+][\d*]+)?(?:\((\d+)\))?")


class Crash(NamedTuple):
    """A kill of slurmctld: when its state was last stored, and when it was killed."""

    stored_s: float
    killed_s: float


class End(NamedTuple):
    """A final state that slurmctld showed: one run of one job."""

    job_id: int
    restarts: int
    state: str


@dataclass
class Outcomes:
    """The ends of all jobs, by the job's name and its task in an array (``a7.`` or ``a7.2``)."""

    site: Site
    ends: dict[str, set[End]] = field(default_factory=dict)

    def look(self) -> None:
        """Add the ends that slurmctld remembers now; it forgets a job some minutes after its end."""
        fields = "Name:|,ArrayTaskID:|,JobID:|,State:|,RestartCnt:|,HetJobOffset:"
        done = self.site.lab.run(["squeue", "-h", "-r", "-a", "-t", "all", "-O", fields], check=False)
        for row in done.out.splitlines():
            name, task, job_id, state, restarts, offset = row.split("|")
            if state in FINAL and offset in ("N/A", "0", ""):
                key = f"{name}.{'' if task == 'N/A' else task}"
                self.ends.setdefault(key, set()).add(End(int(job_id), int(restarts), state))

    def completions(self) -> dict[str, int]:
        """How often the script of each job ran to its last line."""
        return {file.name: len(file.read_text().split()) for file in (self.site.root / "work").glob("a*.*")}

    def violations(self, accepted: Mapping[str, tuple[int, Iterable[str]]], forgotten: set[int]) -> list[str]:
        """What contradicts "every job ends exactly once"; that nothing could be checked is a contradiction, too.

        ``accepted`` has the id and the tasks of each job that sbatch accepted, by its name; ``forgotten`` the ids of
        jobs that a crash may have forgotten.
        """
        completions = self.completions()
        found, checked = [], 0
        for name, (job_id, tasks) in accepted.items():
            for task in tasks:
                key = f"{name}.{task}"
                ends, ran = self.ends.get(key, set()), completions.get(key, 0)
                ids = {job_id, *(end.job_id for end in ends)}
                if not ids & forgotten:
                    checked += 1
                    array = job_id if task else 0
                    why = _contradictions(ends, ran, array)
                    found += [f"{key} ({sorted(ends)}, {ran} completions): {one}" for one in why]
        return found if checked else ["no job was durable: nothing was checked"]


def _contradictions(ends: set[End], completions: int, array: int = 0) -> Iterable[str]:
    """What is wrong with the ends of one durable job; ``array``: the id of a task's array.

    A task that is cancelled while it waits is shown with the array's id; requeued and started, it has one of its own.
    """
    if not ends:
        yield "it never ended"
        return
    if len({end.job_id for end in ends} - {array}) > 1:
        yield "two jobs of this name"
    if len({end.restarts for end in ends}) < len(ends):
        yield "one run has two ends"
    last = max(ends, key=lambda end: end.restarts)
    if completions > last.restarts + 1:
        yield "its script completed more often than it was started"
    if last.state == "COMPLETED" and not completions:
        yield "it is completed, and its script never was"


def forgotten(log: str, crashes: Iterable[Crash]) -> set[int]:
    """Ids of the jobs that slurmctld's log names between the last store of the state and a crash.

    A task of an array is logged as ``JobId=5_1(7)``: both numbers count. A job that a restart read from the store is
    no change of it: where a crash follows before the next store, the restart's list of all jobs is in between.
    """
    windows = [(crash.stored_s - STORE_MARGIN_S, crash.killed_s) for crash in crashes]
    found: set[int] = set()
    for line in log.splitlines():
        named = NAMED.findall(line)
        if named and line.startswith("[") and RESTORED not in line:
            at_s = datetime.fromisoformat(line[1 : line.index("]")]).timestamp()  # the log's times are local
            if any(low <= at_s <= high for low, high in windows):
                found.update(int(number) for pair in named for number in pair if number)
    return found
