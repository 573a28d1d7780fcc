"""Run rounds: observe Slurm, plan, write the difference.

A round starts from what Slurm shows and never from what the controller did before (a level-triggered
reconcile loop). A write that failed, a job that was requeued, a restart of either side: each is simply
another snapshot, and the same code handles it. ``Controller.round`` is:

1. read jobs, nodes and the pool (``Observer``); if that fails, nothing is written in this round, and
   the next round comes later (exponential back-off up to 30 s);
2. read the cap's file again if it changed, read telemetry;
3. forget jobs that are gone, carry the queue position of requeued jobs over (``_remember``);
4. learn from ended jobs, then plan (``Planner``): predictions, the policy's controls, its pass;
5. store the releases, then write the difference to Slurm, lowering before raising before starting;
6. look up in the accounting what no telemetry measured;
7. once more from 1 if jobs were held, then publish heartbeat, status and metrics.

Who may write. The run folder's lease is taken after the first plan and read before each write (``live.lease``). A
controller that was stopped and resumes, or one that could not observe Slurm for so long that ``live release`` took
over, ends with LeaseLostError; systemd starts it again, and it begins from what Slurm shows. Within a round nothing is
written from a snapshot older than ``OLD_SNAPSHOT_S``: the process may have been stopped in between, and what the
snapshot shows as free may be in use.

What a full disk does. Five things are written to disk in a round, and none of them may end it:

==================  ================================================================================================
releases            not stored: nothing is released in this round (``Memory.place``)
audit log           not recorded: only writes that lower are carried out
other state         kept in memory, stored later (``Memory.unsaved``)
lease, heartbeat    overwritten in place; if that fails too they grow stale, and the release fall-back takes over
status, recording,  left out and reported (``_beside``)
measured jobs
==================  ================================================================================================

What happens on failure. A failed write is not repeated within the round; the next snapshot shows
whether it took effect, and the difference is written again. A start that failed is refused with a
back-off, so that one broken job cannot fill every round. A controller that dies at any point leaves
the cap to Slurm's licences, which admit no more than the pool.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.exc import SQLAlchemyError

from wattqueue.errors import InputError, OutputError, WattQueueError
from wattqueue.live.apply import LEFT_OUT, Applier, WriteResult
from wattqueue.live.bound import NO_LIMITS
from wattqueue.live.capfile import CapFile
from wattqueue.live.cluster import (
    ChangeJob,
    Cluster,
    ClusterError,
    HoldJob,
    JobKey,
    Node,
    PowerNode,
    ReleaseJob,
    SetJobFrequency,
    SetPriority,
    Snapshot,
    Write,
)
from wattqueue.live.conditions import conditions
from wattqueue.live.consent import consenting_w
from wattqueue.live.frequency_changes import FrequencyChange, FrequencyChanges
from wattqueue.live.goal import Goal, JobGoal, plan_writes
from wattqueue.live.impossible import why_held
from wattqueue.live.licences import REASSERTED, REQUEUED
from wattqueue.live.load_targets import TargetedCap, in_words
from wattqueue.live.lowering import licence_rules
from wattqueue.live.node_limits import NodeLimits
from wattqueue.live.node_power import mostly_measured, node_power
from wattqueue.live.partitions import fits, inspect_partitions
from wattqueue.live.planner import BLOCKED_BACKOFF_S, LONGEST_BACKOFF_S, Plan, Planner
from wattqueue.live.recording import Recorder
from wattqueue.live.report import Meter, Report, describe, measured_w
from wattqueue.live.requests import MeasuredJob, ObservedJob
from wattqueue.live.sorting import Sorted
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.memory import cause
from wattqueue.live.state.shared_lease import SharedLease
from wattqueue.live.status import RunDir
from wattqueue.live.teaching import Teacher
from wattqueue.live.telemetry.base import NodePower, Telemetry
from wattqueue.live.why_file import WhyFile
from wattqueue.live.withheld import stored_figure, suspended_w

LONGEST_WAIT_S = 30.0
"""Longest wait between two rounds while Slurm does not answer."""
OLD_SNAPSHOT_S = 20.0
"""Age of a snapshot from which nothing is written any more: several times what a round takes on a busy Slurm."""
DAY_S = 86400.0
REPORTED_S = 60.0
"""How long the status reports what failed once: a person who looks every minute sees it."""


@dataclass
class Controller:
    """The controller of one cluster with one policy. The module's docstring describes a round.

    ``round`` does not raise for what Slurm refuses or fails to answer: that is counted, reported, and
    tried again.
    """

    planner: Planner
    cluster: Cluster
    applier: Applier
    telemetry: Telemetry
    audit: Audit
    run_dir: RunDir
    clock: Callable[[], float] = time.time
    """Gives seconds since the epoch."""
    away_s: float = 120.0
    """Age of the heartbeat from which job_submit.lua stops holding jobs."""
    meter: Meter | None = None
    recorder: Recorder | None = None
    caps: CapFile | None = None
    """The cap's file, if the cap is one."""
    teacher: Teacher | None = None
    """What learns from jobs that end."""
    limits: NodeLimits | None = None
    """Limits of nodes, where they have agents."""
    standing: Sequence[str] = ()
    """Findings about the installation, for the status."""
    problem: str = ""
    """Why the cluster could not be observed in the last round."""
    failures: int = 0
    """Rounds in a row in which Slurm could not be observed."""
    blind_rounds: int = 0
    """Rounds in a row in which most nodes were not measured."""
    last: Report | None = None
    troubles: dict[str, float] = field(default_factory=dict)
    """What failed without ending a round, and when last."""
    refusals: dict[str, float] = field(default_factory=dict)
    """Actions of controls that were refused, and when last."""
    _released: set[JobKey] = field(default_factory=set)
    """Jobs that this process released, so that they are not held because it never came to it."""
    _begun_s: float = 0.0
    """When the round began, by the applier's clock."""
    _names: dict[str, JobKey] = field(default_factory=dict)
    """Jobs of the last snapshot by name: a requeued job comes back under the same name with another key."""
    _ran: dict[JobKey, ObservedJob] = field(default_factory=dict)
    """Running jobs with their predictions, kept until they end."""
    _advised: dict[JobKey, str] = field(default_factory=dict)
    """Comments written in advise mode: each is written once, and replaced only if it is still ours."""
    renew: Callable[[Sequence[Node], Controller], Controller] | None = None
    """Returns a controller that takes over from this one, with other nodes (``renewed``)."""
    demand: TargetedCap | None = None
    """The cap with load targets in it, where there is a source of them."""
    audit_days: float = math.inf
    """Age from which rows of the audit log are removed, once a day."""
    shared: SharedLease | None = None
    """The right to write among controllers of several hosts; None in observe and advise mode."""
    why: WhyFile = field(init=False)
    _pruned_s: float = -math.inf
    """When old rows were removed last."""
    outdated: bool = False
    """Whether the cluster has other nodes than the layout: ``renewed`` has one that fits."""
    _inspected: tuple[Sequence[Node], list[str]] = ((), [])
    """Nodes of the last snapshot, and what comparing their partitions with the machine file found."""

    def __post_init__(self) -> None:
        """Create what needs the planner's parts."""
        planner = self.planner
        self.frequencies = FrequencyChanges(
            planner.layout, planner.predictor, planner.memory, at_start=not planner.rules.sets_frequency
        )
        self.why = WhyFile(self.run_dir.folder)
        if self.teacher is not None:
            self._ran = {ran.request.key: ran for ran in self.teacher.left_running()}

    @property
    def mode(self) -> str:
        """observe, advise or control."""
        return self.planner.rules.mode

    def round(self) -> Report | None:
        """Run one round, and return its report; None where Slurm could not be observed.

        Slurm shows a hold at once, so a round that held jobs looks and plans a second time: what was released
        outside waits now, what was not started in time frees its watts, and the policy decides about both. The next
        round over an unchanged Slurm then has nothing to write.
        """
        now_s = self.clock()
        self.troubles = {text: at_s for text, at_s in self.troubles.items() if now_s - at_s < REPORTED_S}
        self.refusals = {text: at_s for text, at_s in self.refusals.items() if now_s - at_s < REPORTED_S}
        self.planner.memory.sync()
        misnamed = self.planner.misnamed
        if misnamed is not None:
            self._beside("the record of misnamed jobs", lambda: misnamed.read(now_s))
        report = self._pass(None)
        if report is not None and any(isinstance(o.write, HoldJob) and not o.error for o in report.outcomes):
            report = self._pass(report) or report
        if report is None:
            return None
        taken_s = report.snapshot.taken_s
        if taken_s - self._pruned_s >= DAY_S and math.isfinite(self.audit_days):
            self._pruned_s = taken_s
            self._beside("removing old rows of the audit log", lambda: self.audit.prune(self.audit_days))
        if self.teacher is not None:
            self._beside("accounting", lambda: self.teacher.after_round(taken_s) if self.teacher else None)
        unreadable = self.caps is not None and self.caps.problem != ""
        found = conditions(
            report.snapshot, report.plan, self.planner.memory.refused.values(), self.mode == "control",
            cap_unreadable=unreadable, cap_unknown=self.caps is not None and self.caps.closed,
        )  # fmt: skip
        unusable = 0 if self.demand is None else self.demand.source.unusable()
        report = replace(report, conditions=found, unusable_targets=unusable)
        report = replace(report, problems=self._problems(report))
        if self.demand is not None and report.power:
            measured = all(power.label == "measured" for power in report.power.values())
            sheds_w = consenting_w(self.planner.consents, report.plan.busy)
            self.demand.source.measured(taken_s, measured_w(report) or 0.0, measured=measured, consenting_w=sheds_w)
        self._show(report)
        return report

    def _pass(self, earlier: Report | None) -> Report | None:
        """Observe, plan and write once. ``earlier`` is the report of the first pass of this round, if this is a second.

        The second pass counts the power of the first: the nodes are not measured more often than once a round.
        """
        begin, self._begun_s = time.perf_counter(), self.applier.clock()
        try:
            snapshot = self.cluster.observe()
        except ClusterError as error:
            self.failures += 1
            self.problem = str(error)
            if self.meter is not None:
                self.meter.failed(str(error))
            return None
        self.failures = 0
        self.troubles |= dict.fromkeys(snapshot.problems, self.clock())
        if snapshot.nodes is not self._inspected[0]:
            planner = self.planner
            self._inspected = (snapshot.nodes, inspect_partitions(planner.layout, snapshot.nodes, planner.shared))
            self.outdated = not fits(self.planner.layout, snapshot.nodes)
        self._take_cap()
        power = self._power(snapshot) if earlier is None else earlier.power
        telemetry_ok = self._telemetry_ok(power) if earlier is None else earlier.telemetry_ok
        # the memory follows the snapshot before anything is planned on it
        begin_plan = time.perf_counter()
        self._remember(snapshot)
        limits = None if self.limits is None else self.limits.observe(self.clock(), snapshot.nodes)
        in_force = NO_LIMITS
        if self.limits is not None:
            in_force = self.limits.in_force(self.planner.left.in_force_w(snapshot.taken_s))
        plan = self.planner.plan(
            snapshot, power, telemetry_ok=telemetry_ok, ended=self._learn, limits=limits, in_force=in_force
        )
        kinds = {(type(refusal.action).__name__, refusal.reason) for refusal in plan.refusals}
        self.refusals |= {f"{kind} refused: {reason}": self.clock() for kind, reason in kinds}
        self.troubles |= dict.fromkeys(self.planner.decider.session.estimation.take_problems(), self.clock())
        began: list[ObservedJob] = []
        for busy in plan.busy:
            if busy.row.active and busy.row.key not in self._ran:
                began.append(self.planner.ran(busy))
                self._ran[busy.row.key] = began[-1]
        if began and self.teacher is not None:
            self._beside("the running jobs", lambda: self.teacher.began(began) if self.teacher else None)
        plan_s = time.perf_counter() - begin_plan
        if self.recorder is not None:
            self._beside("the recording", lambda: self.recorder.write(plan.decision) if self.recorder else None)
        if self.mode == "control":  # in the other modes it holds and releases nothing, and keeps no release away
            self.run_dir.take_lease(self.clock())
            if self.shared is not None and (refused := self.shared.permit()):
                self.troubles[refused] = self.clock()
        outcomes, would = self._carry_out(snapshot, plan)
        took_s = time.perf_counter() - begin
        if earlier is not None:
            outcomes = [*earlier.outcomes, *outcomes]
            took_s, plan_s = took_s + earlier.took_s, plan_s + earlier.plan_s
        figures = self.limits.figures() if self.limits is not None else {}
        return Report(snapshot, plan, power, outcomes, would, took_s, plan_s, telemetry_ok, limits=figures)

    def _permit(self) -> str:
        """Return why the rest of this round's writes must be left out; empty where they may go on.

        Time is the applier's monotonic clock, which counts on while the process is stopped. A snapshot that is too
        old is not written from: what it shows as free may be in use by now.

        Raises: LeaseLostError where another process holds the lease.
        """
        lease = self.run_dir.lease
        if lease is not None and not lease.held():
            raise lease.lost()
        if self.shared is not None and (refused := self.shared.permit()):
            return refused
        age_s = self.applier.clock() - self._begun_s
        return f"the snapshot is {age_s:.0f} s old" if age_s > OLD_SNAPSHOT_S else ""

    def _beside(self, what: str, work: Callable[[], object]) -> None:
        """Do work on which no decision depends: what fails in it is reported, and the round goes on."""
        try:
            work()
        except (OSError, SQLAlchemyError, OutputError, InputError) as error:
            text = cause(error) if isinstance(error, SQLAlchemyError) else str(error)
            self.troubles[f"{what}: {text}"] = self.clock()

    def renewed(self) -> Controller:
        """Return the controller to go on with: this one, or one whose layout has the nodes of the last snapshot.

        Telemetry, metrics, the run folder's lock and the audit log go over to it; the rest is read from the state, as
        at a start. Where the other nodes fit no policy or table, this controller goes on without them, and says so.
        """
        if not self.outdated or self.renew is None or self.planner.memory.unsaved:
            return self
        self.outdated = False
        if self.limits is not None:  # which limits are in force on which node is known to this controller alone
            self.troubles["the nodes of the cluster changed: restart the controller to take them up"] = self.clock()
            return self
        try:
            other = self.renew(self._inspected[0], self)
        except WattQueueError as error:
            self.troubles[f"the nodes of the cluster changed and are not taken up: {error}"] = self.clock()
            return self
        other.take_over(self)
        return other

    def take_over(self, other: Controller) -> None:
        """Go on from the last round of a controller of the same jobs."""
        self._released, self._names, self._advised = other._released, other._names, other._advised
        self.blind_rounds, self.troubles, self.last = other.blind_rounds, other.troubles, other.last
        total = len(self.planner.layout.names)
        self.audit.note("nodes", f"the cluster has {total} managed nodes, it had {len(other.planner.layout.names)}")

    def wait_s(self, period_s: float) -> float:
        """Return the wait before the next round: the period, doubled per failure while Slurm does not answer."""
        return period_s if self.failures == 0 else min(period_s * 2.0 ** min(self.failures, 10), LONGEST_WAIT_S)

    # -- steps of a round ----------------------------------------------------------------------
    def _take_cap(self) -> None:
        """Read the cap's file again if it changed, and put load targets into the cap.

        A bad file leaves the last cap in force.
        """
        if self.caps is not None and self.caps.changed():
            self.planner.cap = self.caps.cap
            if self.demand is not None:
                self.demand.stated = self.caps.cap
            self.audit.note("cap", f"read again: {self.caps.text}")
        if self.demand is not None and self.demand.changed():
            self.planner.cap, self.planner.announced.targets = self.demand.limit, self.demand.targets
            self.audit.note("targets", in_words(self.demand.targets))

    def _limit(self, snapshot: Snapshot, plan: Plan) -> Plan:
        """Ask agents for the limits that a plan decided; return the plan, without its starts where these have to wait.

        They wait until the limits that hold the budget are in force: a job that starts before could draw more.
        """
        if self.limits is None:
            return plan
        self.limits.decide(plan.decision.now.limited, self.frequencies.hertz(snapshot))
        self.limits.send(self.clock())
        if not self.limits.keep_waiting(plan.cap_w):
            return plan
        if plan.placed:
            self.troubles["nothing starts while limits of nodes may sum to more than the cap"] = self.clock()
        kept = tuple(goal for goal in plan.goal.jobs if goal.held is not False)
        return replace(plan, placed=(), goal=plan.goal._replace(jobs=kept))

    def _problems(self, report: Report) -> list[str]:
        """Return what the status should report to a person, a bounded number of lines."""
        stated = report.plan.stated_w, report.plan.alone_w
        lines = report.conditions.lines(*stated, observing=self.mode != "control")
        if self.planner.memory.problem:
            lines.insert(0, f"the state cannot be stored, and nothing starts unstored: {self.planner.memory.problem}")
        lines += [text for text in (self.audit.problem, self.audit.lost) if text]
        lines += self.limits.problems() if self.limits is not None else []
        lines += self.demand.source.problems() if self.demand is not None else []
        lines += [
            *self.planner.placement.problems(),
            *(self.planner.misnamed.lines() if self.planner.misnamed is not None else ()),
            *self.standing,
            *self._inspected[1],
            *self.troubles,
            *self.refusals,
        ]
        return [self.caps.problem, *lines] if self.caps is not None and self.caps.problem else lines

    def _power(self, snapshot: Snapshot) -> dict[str, NodePower]:
        """Read telemetry, and return the power that counts for each node: measured, or its maximum."""
        planner, now_s = self.planner, self.clock()
        tolerance = planner.rules.idle_tolerance
        power, low = node_power(self.telemetry, planner.layout, planner.shared, snapshot, tolerance, now_s)
        if low:
            text = f"{low} nodes are measured far below idle and count as their maximum: is the source in watts?"
            self.troubles[text] = now_s
        return power

    def _telemetry_ok(self, power: dict[str, NodePower]) -> bool:
        """Whether predictions may be trusted: most nodes are measured, or no telemetry is configured.

        One round without measurements is tolerated (a scrape may be late), a second one is not.
        """
        if mostly_measured(power, self.planner.layout.names):
            self.blind_rounds = 0
            return True
        self.blind_rounds += 1
        return self.blind_rounds < 2

    def _remember(self, snapshot: Snapshot) -> None:
        """Bring the memory up to date with a snapshot, before planning.

        Forget jobs that are gone. Carry the first submission of a requeued job over to its new key.
        Forget releases whose job is held because the controller was killed before it released them.
        A job that was released and is held again was refused, by Slurm (BadConstraints: no node can
        serve it as pinned) or by an administrator: without a back-off it would be released every
        round, and hold watts on an idle machine in between.
        """
        memory, now = self.planner.memory, snapshot.by_key
        names = {key.name: key for key in now}
        # a requeue resets the submit time, so the same name comes back with another key
        for name, key in names.items():
            old = self._names.get(name)
            if old is None or old == key:
                continue
            details = snapshot.details.get(key)
            if details is not None and details.restarts > 0:
                memory.requeued(key, memory.origin.get(old, old.submit_s))
                self.planner.placement.carry_over(old, key)
        if not self._names:  # after a restart: requeued while nobody looked
            for key in list(memory.placed):
                new = names.get(key.name)
                if new is not None and new != key and (d := snapshot.details.get(new)) is not None and d.restarts:
                    memory.requeued(new, memory.origin.get(key, key.submit_s))
                    self.planner.placement.carry_over(key, new)
        self._names = names
        self.planner.parking.settle(snapshot.jobs)
        self.planner.draining.settle(snapshot.nodes)
        memory.forget([k for k in memory.known() if k not in now])
        # from here on every key of the memory is a job of this snapshot
        self._released &= memory.placed.keys()
        again = [k for k in self._ran if k in now and now[k].pending]  # requeued under the same key
        memory.unplace(again)
        memory.mark(again, REASSERTED, present=False)
        memory.mark(again, REQUEUED)
        for key in [k for k in memory.placed if now[k].held]:
            if now[key].held_by == "failed":
                memory.unplace([key])
            elif key in self._released or now[key].held_by == "manager":
                self.planner.refuse(key, why_held(now[key]), snapshot.taken_s)
            else:
                memory.unplace([key])

    def _carry_out(self, snapshot: Snapshot, plan: Plan) -> tuple[list[WriteResult], list[Write]]:
        """Write the difference between plan and snapshot; return outcomes, and writes that the mode leaves out.

        Releases are stored first: a job under way whose release was forgotten would be adopted and
        held again. While the state cannot be stored (full disk), only writes that lower are carried out.
        """
        changes: list[FrequencyChange] = []
        if self.mode == "control":
            plan, changes = self._change_frequencies(snapshot, plan)
            plan = self._limit(snapshot, plan)
        writes = plan_writes(snapshot, plan.goal)
        if self.mode == "observe":
            return [], writes
        if self.mode == "advise":
            advice = plan_writes(snapshot, self._advice(snapshot, plan))
            return self.applier.apply(advice, plan.bound, self._permit), writes
        # range and release are stored before Slurm is asked: a controller killed in between finds the job
        # held, and forgets the release; the other order could lose the range, or the watts of a job under way
        try:
            self.planner.keep_ranges(snapshot, plan.placed)
            self.planner.placement.keep_names(plan.goal.jobs)
            self.planner.memory.place(plan.placed)
            self.planner.memory.park(plan.parked)
            self.planner.memory.drain((n.name for n in plan.goal.nodes if n.drained), plan.until_s)
        except OutputError:  # the status shows why, as the memory's problem
            writes = [write for write in writes if write.lowers]
        # frequencies of jobs that ended are removed here: the job itself only reads its own
        told = snapshot.frequencies
        gone = sorted(told.keys() - {row.key.name for row in snapshot.jobs}) if told else []
        writes += [SetJobFrequency(name, str(told[name]), "0", why="the job is gone") for name in gone]
        if plan.goal.pool_w is not None and snapshot.pool is not None:
            suspended = suspended_w(b.row for b in plan.busy)
            self.run_dir.withhold(stored_figure(plan.goal.pool_w, snapshot.pool.total, suspended), snapshot.taken_s)
        outcomes = self.applier.apply(writes, plan.bound, self._permit)
        for write in (outcome.write for outcome in outcomes if not outcome.error):
            if isinstance(write, PowerNode):
                self.planner.decider.orders.tell(write.target, powered=write.on, now_s=snapshot.taken_s)
        self._settle(snapshot, plan, outcomes)
        self.planner.draining.note(outcomes)
        self.planner.parking.note(outcomes)
        if self.planner.consents is not None:
            self.planner.consents.note(outcomes)
        failed = {outcome.write.key for outcome in outcomes if outcome.error}
        raised = [change for change in changes if change.raises and change.placed.key not in failed]
        self._beside("a frequency", lambda: self.frequencies.store(raised))
        return outcomes, []

    def _change_frequencies(self, snapshot: Snapshot, plan: Plan) -> tuple[Plan, list[FrequencyChange]]:
        """Store the frequencies that a plan lowers; return it with what all of its changes write, and the changes."""
        options = plan.decision.now.options
        if not options:
            return plan, []
        changes = self.frequencies.changes(options, plan.busy, snapshot.taken_s)
        self._beside("a frequency", lambda: self.frequencies.store(c for c in changes if not c.raises))
        keys = {change.placed.key for change in changes}
        jobs = (*(goal for goal in plan.goal.jobs if goal.key not in keys), *(change.goal for change in changes))
        return replace(plan, goal=plan.goal._replace(jobs=jobs)), changes

    def _settle(self, snapshot: Snapshot, plan: Plan, outcomes: Sequence[WriteResult]) -> None:
        """Refuse starts that failed, and jobs that were taken back; the others are under way."""
        done = {(type(o.write), o.write.key) for o in outcomes if not o.error}
        late = {row.key: row for row in plan.sorted.late}
        starts = {placed.key for placed in plan.placed}
        # a write that was not tried (not recorded, or the pool could not be set) is nothing to blame the job for
        real = [o for o in outcomes if not o.error.startswith(LEFT_OUT)]
        failed = {o.write.key: o.error for o in real if o.error and not isinstance(o.write, SetPriority)}
        for key in starts & failed.keys():
            self.planner.refuse(key, failed[key], snapshot.taken_s)
        failed_keys = {o.write.key for o in outcomes if o.error}
        self._released |= {p.key for p in plan.placed if (ReleaseJob, p.key) in done}
        written = {goal.key for goal in plan.goal.jobs if goal.reassert and (ChangeJob, goal.key) in done}
        self.planner.memory.mark(written - failed_keys, REASSERTED)
        for key in late.keys() & {key for kind, key in done if kind is HoldJob and key is not None}:
            blocked, reason = late[key].blocked, late[key].reason
            text = f"kept from starting: {reason}" if blocked else f"not started in time: {reason}"
            longest_s = BLOCKED_BACKOFF_S if blocked else LONGEST_BACKOFF_S
            self.planner.refuse(key, text, snapshot.taken_s, longest_s)

    def _advice(self, snapshot: Snapshot, plan: Plan) -> Goal:
        """Return comments in place of starts (advise mode), for jobs whose comment is empty or ours."""
        goals = []
        for goal in plan.goal.jobs:
            details = snapshot.details.get(goal.key)
            if goal.held is not False or details is None:
                continue
            text = f"wattqueue: would start now on {goal.partition}, {goal.watts} W of the budget"
            if self._advised.get(goal.key) == text or details.comment not in ("", self._advised.get(goal.key, "")):
                continue
            self._advised[goal.key] = text
            goals.append(JobGoal(goal.key, comment=text, why="advice"))
        self._advised = {k: v for k, v in self._advised.items() if k in snapshot.by_key}
        return Goal(jobs=tuple(goals))

    def _learn(self, rows: Sorted, now_s: float) -> None:
        """Hand the jobs that have ended to the estimator and to the store.

        Called before this round's new jobs are predicted (semantics, rule 2).
        """
        running = {row.key for row in rows.running}
        learned = [self._placed(one) for one in self.planner.tracker.ended(running)]
        if learned:
            self.planner.predictor.learn(learned)
        self._learn_runs(running, now_s)
        # a job that telemetry measured long enough is not looked for in the accounting again
        known = {one.request.key for one in learned}
        gone = {key: self._ran.pop(key) for key in [k for k in self._ran if k not in running]}
        if self.teacher is not None and (learned or gone):
            unmeasured = [ran for key, ran in gone.items() if key not in known]
            self._beside("the measured jobs", lambda: self._store(learned, unmeasured, now_s))

    def _learn_runs(self, running: set[JobKey], now_s: float) -> None:
        """Hand run times of jobs that have ended to the run-time part and to the store, where the policy has one."""
        predictor, teacher = self.planner.predictor, self.teacher
        runs = [] if predictor.run_times is None else predictor.run_times.gone(running, self._names, now_s)
        predictor.learn_runs(runs)
        if runs and teacher is not None:
            self._beside("the run times", lambda: teacher.ran(runs))

    def _store(self, learned: Sequence[MeasuredJob], unmeasured: Sequence[ObservedJob], now_s: float) -> None:
        """Store jobs that ended: no decision of this round depends on it."""
        if self.teacher is None:
            return
        if learned:
            self.teacher.measured(learned)
        for ran in unmeasured:
            self.teacher.unmeasured(ran, now_s)

    def _placed(self, one: MeasuredJob) -> MeasuredJob:
        """Return a measured job with the hardware and frequency on which it ran."""
        ran = self._ran.get(one.request.key)
        return one if ran is None else one._replace(hardware=ran.hardware, frequency_hz=ran.frequency_hz)

    def _show(self, report: Report) -> None:
        """Publish heartbeat, status and metrics. The heartbeat claims that jobs are held: control mode only."""
        now_s = self.clock()
        self._beside("the heartbeat", lambda: self.run_dir.beat(self.mode, now_s, self.away_s / 4.0))
        planner = self.planner
        values = describe(report, self.mode, self.telemetry)
        values["licences"] = licence_rules(
            planner.policy, planner.rules.overshoot, follows=planner.rules.track_running, agents=self.limits is not None
        )._asdict()
        self._beside("the status", lambda: self.run_dir.status(values, now_s))
        if self.mode == "control":
            self._beside(
                "the explanations",
                lambda: self.why.write(report.snapshot, report.plan, planner.memory, planner.layout, planner.consents),
            )
        if self.meter is not None:
            self.meter.round(report)
        self.last = report
