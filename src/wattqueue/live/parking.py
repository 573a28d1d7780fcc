"""Park running jobs whose users consent: stop them, count them at idle watts, and continue them later (rule 16).

A control asks for it (``Suspend``, ``Resume``); the session refuses what does not fit. What follows here::

    running -- Suspend: stored, stopped, its licence lowered to idle watts --> parked
    parked --- each round: licence and time limit are what they must be -----> parked
    parked --- Resume: its licence raised, its time limit moved, continued --> running, forgotten
    parked --- it ends, is cancelled or requeued ----------------------------> forgotten

A job is *parked* while the cluster shows it stopped and the controller's state names it. It is stored before it is
stopped, so that a controller that is killed at any point knows which jobs to continue, and a job that a person stopped
is never continued by this one. Each round compares what is stored with what the cluster shows: a licence that was not
lowered before a kill is lowered now; a parked job that somebody else continued gets its watts back at once. A stop
and a continuation are more than one command each, and are done again where a kill may have come between: a job is
forgotten when it was continued as a whole.

A stop is sent again after some seconds (``AGAIN_S``): a resource manager may show a job as stopped whose processes were
not yet started when the signal was sent, or whose node missed it. Slurm 22.05 on a busy machine did.

Its nodes stay its own. Its time limit runs on in the cluster, so it is moved ahead of the clock where it comes close,
and at the end to what it was and the time of the pause. Hundreds of jobs are therefore parked by equal changes, which a
driver carries out together.

Nodes are drained for a control in the same way (``DrainNode``), powered down when their jobs have ended, and the drain
is taken back. A drain of this controller is stored before the node is drained, and its reason in the resource manager
says whose it is. Only such drains are taken back: a node that somebody else drained before, or drained again since,
stays drained. A drained node that has become idle is powered down where that can be done; elsewhere it idles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.live.apply import WriteResult
from wattqueue.live.cluster import FOREIGN, ContinueJob, Job, JobKey, Node, SetDrain, Snapshot
from wattqueue.live.goal import JobGoal, NodeGoal
from wattqueue.live.state.memory import ControllerState, ParkedJob
from wattqueue.live.table import LiveJobs, Stage
from wattqueue.live.watts.tracking import CountedPower
from wattqueue.live.world import Layout
from wattqueue.policy.capabilities import EVENT_BITS
from wattqueue.policy.round import Round

WHY = "a control of the policy"


@dataclass
class Draining:
    """The nodes of one cluster that the controller drained."""

    layout: Layout
    memory: ControllerState

    def sync(self, nodes: Iterable[Node]) -> None:
        """Forget the nodes that take jobs again, and those that are gone."""
        if self.memory.drained:
            found = {node.name: node for node in nodes}
            back = [n for n in self.memory.drained if n not in found or (found[n].power == "on" and found[n].usable)]
            self.memory.undrain(back)

    def goals(self, now: Round, snapshot: Snapshot) -> tuple[NodeGoal, ...]:
        """Return what follows from the actions of a round, and which drained nodes are idle."""
        names, known = self.layout.names, self.memory.drained
        woken = {names[unit] for unit, state in now.powered.items() if state == codes.UNIT_BOOTING}
        back = {names[unit] for unit in now.undrained} | (woken & known.keys())
        out = [
            NodeGoal(names[unit], state == codes.UNIT_BOOTING, WHY)
            for unit, state in now.powered.items()
            if names[unit] not in back
        ]
        out += [NodeGoal(names[unit], None, WHY, drained=True) for unit in now.drained]
        out += [NodeGoal(name, True if name in woken else None, WHY, drained=False) for name in sorted(back)]
        nodes = snapshot.by_node if known else {}
        idle = [n for n in known if n in nodes and nodes[n].state == "drained" and n not in back]
        return (*out, *(NodeGoal(name, False, "its jobs have ended", drained=True) for name in sorted(idle)))

    def note(self, outcomes: Iterable[WriteResult]) -> None:
        """Forget the nodes whose drain has become somebody else's."""
        writes = [(o.write, o.error) for o in outcomes if isinstance(o.write, SetDrain)]
        self.memory.undrain([write.target for write, error in writes if not write.on and FOREIGN in error])


GRACE_S = 7200.0
"""A parked job's limit is moved so far ahead of the clock when less than half of that is left: the job survives a
controller that is away for so long."""
AGAIN_S = (5.0, 20.0, 60.0)
"""Seconds after which the stop of a parked job is sent again."""
PARKED = "parked"
"""Where the watts of a parked job come from, in the status."""


class ParkingGoals(NamedTuple):
    """What a round has to do about parked jobs."""

    jobs: tuple[JobGoal, ...] = ()
    stored: tuple[ParkedJob, ...] = ()
    """Jobs to store before the first of them is stopped."""
    requeue: tuple[tuple[JobKey, str], ...] = ()
    """Jobs to requeue, each with the reason."""


@dataclass
class Parking:
    """The parked jobs of one cluster."""

    layout: Layout
    memory: ControllerState
    asked: set[JobKey] = field(default_factory=set)
    """Jobs of which the last round wanted another state than the one they had."""
    repeated: dict[JobKey, int] = field(default_factory=dict)
    """How often the stop of each parked job was sent again by this process."""

    def counted(self, row: Job, partition: int) -> CountedPower:
        """Return what a parked job counts for: its licence, which is lowered to idle watts."""
        return CountedPower(max(row.watts, self._idle_w(row, partition)), max(row.watts, 0), PARKED)

    def least_w(self, row: Job) -> int:
        """Return the watts that a job must hold because it ran on again; -1 for none."""
        stored = self.memory.parked.get(row.key)
        return -1 if stored is None or row.state != "running" else stored.watts

    def resumes_w(self, jobs: LiveJobs) -> dict[str, float]:
        """Return the net watts for which each parked job counts again, by name."""
        parked = jobs.rows(jobs.at([Stage.PARKED])) if self.memory.parked else []
        return {row.key.name: float(self.memory.parked[row.key].watts) for row in parked}

    def happened(self, rows: Sequence[Job]) -> int:
        """Return the event ``parked`` where jobs stand still, were continued by somebody, or could not be stopped."""
        known = self.memory.parked.keys() | self.asked
        return EVENT_BITS["parked"] if known and any(row.key in known for row in rows) else 0

    def sync(self, rows: Iterable[Job]) -> None:
        """Forget the jobs that wait in the queue again."""
        if self.repeated:
            self.repeated = {key: count for key, count in self.repeated.items() if key in self.memory.parked}
        if self.memory.parked:
            self.memory.unpark([row.key for row in rows if row.pending and row.key in self.memory.parked])

    def note(self, outcomes: Iterable[WriteResult]) -> None:
        """Forget the jobs that were continued: they hold their watts, since those are raised before."""
        done = [o.write.key for o in outcomes if isinstance(o.write, ContinueJob) and not o.error]
        self.memory.unpark([key for key in done if key is not None])

    def goals(
        self, now: Round, jobs: LiveJobs, holding: Sequence[int], now_s: float, why: str, until_s: float
    ) -> ParkingGoals:
        """Return what follows from the actions of a round for jobs that hold units, and what parked jobs lack.

        ``why`` and ``until_s``: the load target in force, and its end.
        """
        stop, go_on = set(now.suspended), set(now.resumed)
        names = {jobs.name[slot]: jobs.row[slot].key for slot in holding} if now.requeued else {}
        requeue = tuple((names[name], f"{WHY}: {why}") for name in now.requeued)
        goals, stored, self.asked = list[JobGoal](), list[ParkedJob](), set()
        if not stop and not go_on and not self.memory.parked:
            return ParkingGoals(requeue=requeue)
        for slot in holding:
            row, known = jobs.row[slot], self.memory.parked.get(jobs.row[slot].key)
            part, found = int(jobs.part[slot]), jobs.stage[slot]
            if row.key.name in stop:
                one = ParkedJob(row.key, now_s, max(row.watts, 0), row.walltime_s, why, until_s)
                stored.append(one)
                goals.append(self._held(row, part, one, now_s, f"parked: {why}")._replace(stopped=True))
                self.asked.add(row.key)
            elif known is not None and found == Stage.PARKED and row.key.name in go_on:
                goals.append(continued(row, known, now_s))
            elif known is not None and found == Stage.PARKED:
                goal = self._held(row, part, known, now_s, f"parked still: {known.why}")
                goals.append(goal._replace(stopped=True, resend_stop=self._again(known, now_s)))
            elif known is not None and found == Stage.RESUMING:
                text = f"it runs again, and all of it has to: {known.why}"
                goals.append(continued(row, known, now_s)._replace(why=text))
        return ParkingGoals(tuple(goals), tuple(stored), requeue)

    def _again(self, parked: ParkedJob, now_s: float) -> bool:
        """Whether the stop of a parked job is to be sent again now."""
        due = sum(now_s - parked.since_s >= after_s for after_s in AGAIN_S)
        done, self.repeated[parked.key] = self.repeated.get(parked.key, 0), due
        return due > done

    def _held(self, row: Job, partition: int, parked: ParkedJob, now_s: float, why: str) -> JobGoal:
        """Return the goal of a job while it is parked. Its limit is moved when half of the grace is left."""
        ahead = row.start_s + row.walltime_s - now_s >= GRACE_S / 2.0
        limit_s = None if ahead else _moved(parked, now_s) + GRACE_S
        return JobGoal(row.key, watts=self._idle_w(row, partition), limit_s=limit_s, why=why)

    def _idle_w(self, row: Job, partition: int) -> int:
        """Return the licence of a parked job: the idle watts of its nodes, where the cap's scope is jobs alone."""
        if self.layout.machine.cap_scope != "jobs":
            return 0
        return math.ceil(self.layout.machine.partitions[partition].idle_w * row.nodes - 1e-6)


def _moved(parked: ParkedJob, now_s: float) -> float:
    """Return the time limit of a job that was parked until now."""
    return parked.limit_s + max(0.0, now_s - parked.since_s)


def continued(row: Job, parked: ParkedJob, now_s: float) -> JobGoal:
    """Return the goal of a parked job that goes on: its watts, its time limit and the pause, and it runs."""
    why = f"continues after {max(0.0, now_s - parked.since_s):.0f} s: {parked.why}"
    watts = parked.watts if row.watts < parked.watts else None
    return JobGoal(row.key, watts=watts, limit_s=_moved(parked, now_s), why=why, stopped=False)
