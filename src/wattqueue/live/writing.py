"""Write what a plan decided, and take over what came of it.

Releases are stored before Slurm is asked: a job under way whose release was forgotten would be adopted and held again.
While the state cannot be stored (full disk), only writes that lower are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wattqueue.errors import OutputError
from wattqueue.live.apply import LEFT_OUT, Applier, WriteResult
from wattqueue.live.cluster import (
    ChangeJob,
    HoldJob,
    JobKey,
    PowerNode,
    ReleaseJob,
    SetJobFrequency,
    SetPriority,
    Write,
)
from wattqueue.live.extension import beside
from wattqueue.live.features.frequency_changes import FrequencyChange
from wattqueue.live.files.status import RunDir
from wattqueue.live.files.withheld import stored_figure, suspended_w
from wattqueue.live.goal import Goal, JobGoal, plan_writes
from wattqueue.live.moldable import range_mark
from wattqueue.live.planner import BLOCKED_BACKOFF_S, LONGEST_BACKOFF_S, Planner, RoundState, StageFunction
from wattqueue.live.table import Stage
from wattqueue.live.watts.licences import REWRITTEN


@dataclass
class Writer:
    """Writes the differences between plans and snapshots of one controller."""

    planner: Planner
    applier: Applier
    run_dir: RunDir
    before: Sequence[StageFunction] = ()
    """Stages between the plan and its writes."""
    advised: dict[JobKey, str] = field(default_factory=dict)
    """Comments written in advise mode: each is written once, and replaced only if it is still ours."""

    def carry_out(self, now: RoundState, permit: Callable[[], str]) -> tuple[list[WriteResult], list[Write]]:
        """Write the difference between plan and snapshot; return outcomes, and writes that the mode leaves out."""
        mode = self.planner.rules.mode
        if mode != "control":
            would = plan_writes(now.snapshot, now.goal)
            if mode == "observe":
                return [], would
            advice = plan_writes(now.snapshot, self._advice(now))
            return self.applier.apply(advice, now.bound, permit), would
        changes = self._change_frequencies(now)
        for one in self.before:
            one(now)
        outcomes = self.applier.apply(self._stored(now), now.bound, permit)
        self._take_over(now, outcomes, changes)
        return outcomes, []

    def _stored(self, now: RoundState) -> list[Write]:
        """Store what must be known before Slurm is asked; return the writes that may follow."""
        planner, snapshot, goal = self.planner, now.snapshot, now.goal
        writes = plan_writes(snapshot, goal)
        # a controller killed in between finds the job held, and forgets the release; the other order could lose the
        # range, or the watts of a job under way
        try:
            self._store_ranges(now)
            planner.placement.store_asked(one.row for one in now.chosen if one.nodes)
            planner.placement.store_names(goal.jobs)
            planner.memory.store_books()
            planner.memory.place(now.placed)
            planner.memory.park(now.parked)
            planner.memory.drain((node.name for node in goal.nodes if node.drained), now.until_s)
        except OutputError:  # the status shows why, as the memory's problem
            writes = [write for write in writes if write.reduces_power]
        # frequencies of jobs that ended are removed here: the job itself only reads its own
        told = snapshot.frequencies
        gone = sorted(told.keys() - {row.key.name for row in snapshot.jobs}) if told else []
        writes += [SetJobFrequency(name, str(told[name]), "0", why="the job is gone") for name in gone]
        if goal.pool_w is not None and snapshot.pool is not None:
            suspended = suspended_w(now.jobs.rows(now.holding[: now.holders]))
            self.run_dir.withhold(stored_figure(goal.pool_w, snapshot.pool.total, suspended), now.now_s)
        return writes

    def _store_ranges(self, now: RoundState) -> None:
        """Store the range of nodes of jobs that are about to be pinned."""
        for one in now.chosen if now.placed else ():
            least, most = self.planner.node_range(one.row)
            if most > least:
                self.planner.memory.mark([one.row.key], range_mark(least, most))

    def _take_over(self, now: RoundState, outcomes: Sequence[WriteResult], changes: Sequence[FrequencyChange]) -> None:
        """Take over what came of the writes."""
        planner = self.planner
        for write in (outcome.write for outcome in outcomes if not outcome.error):
            if isinstance(write, PowerNode):
                planner.decider.orders.record(write.target, powered=write.on, now_s=now.now_s)
        self._record_outcomes(now, outcomes)
        planner.draining.note(outcomes)
        planner.parking.note(outcomes)
        failed = {outcome.write.key for outcome in outcomes if outcome.error}
        raised = [change for change in changes if change.raises and change.placed.key not in failed]
        beside("a frequency", lambda _: planner.frequencies.store(raised))(now)

    def _change_frequencies(self, now: RoundState) -> list[FrequencyChange]:
        """Store the frequencies that a plan lowers, and put what all changes write into its goal; return these."""
        options, frequencies = now.decision.now.options, self.planner.frequencies
        if not options:
            return []
        changes = frequencies.changes(options, now.jobs.rows(now.holding), now.now_s)
        beside("a frequency", lambda _: frequencies.store(c for c in changes if not c.raises))(now)
        keys = {change.placed.key for change in changes}
        jobs = (*(goal for goal in now.goal.jobs if goal.key not in keys), *(change.goal for change in changes))
        now.goal = now.goal._replace(jobs=jobs)
        return changes

    def _record_outcomes(self, now: RoundState, outcomes: Sequence[WriteResult]) -> None:
        """Refuse starts that failed, and jobs that were taken back; the others are under way."""
        planner = self.planner
        done = {(type(o.write), o.write.key) for o in outcomes if not o.error}
        starts = {placed.key for placed in now.placed}
        # a write that was not tried (not recorded, or the pool could not be set) is nothing to blame the job for
        real = [o for o in outcomes if not o.error.startswith(LEFT_OUT)]
        failed = {o.write.key: o.error for o in real if o.error and not isinstance(o.write, SetPriority)}
        for key in starts & failed.keys():
            planner.refuse(key, failed[key], now.now_s)
        failed_keys = {o.write.key for o in outcomes if o.error}
        planner.released |= {placed.key for placed in now.placed if (ReleaseJob, placed.key) in done}
        written = {goal.key for goal in now.goal.jobs if goal.rewrite_watts and (ChangeJob, goal.key) in done}
        planner.memory.mark(written - failed_keys, REWRITTEN)
        waited = [row for row in now.rows_at(Stage.STALLED) if row.whole in planner.turns.late]
        late = {row.key: row for row in (*now.rows_at(Stage.LATE), *waited)}
        back = {key for kind, key in done if kind is HoldJob and key is not None}
        planner.memory.unplace(now.displaced.keys() & back)
        for key in (late.keys() - now.displaced.keys()) & back:
            blocked, reason = late[key].blocked, late[key].reason
            text = f"kept from starting: {reason}" if blocked else f"not started in time: {reason}"
            planner.refuse(key, text, now.now_s, BLOCKED_BACKOFF_S if blocked else LONGEST_BACKOFF_S)

    def _advice(self, now: RoundState) -> Goal:
        """Return comments in place of starts (advise mode), for jobs whose comment is empty or ours."""
        goals, advised = [], self.advised
        for goal in now.goal.jobs:
            details = now.snapshot.details.get(goal.key)
            if goal.held is not False or details is None:
                continue
            text = f"wattqueue: would start now on {goal.partition}, {goal.watts} W of the budget"
            if advised.get(goal.key) == text or details.comment not in ("", advised.get(goal.key, "")):
                continue
            advised[goal.key] = text
            goals.append(JobGoal(goal.key, comment=text, why="advice"))
        self.advised = {key: text for key, text in advised.items() if key in now.snapshot.by_key}
        return Goal(jobs=tuple(goals))
