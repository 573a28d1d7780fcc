"""Run rounds: observe Slurm, plan, write the difference.

A round starts from what Slurm shows and never from what the controller did before (a level-triggered
reconcile loop). A write that failed, a job that was requeued, a restart of either side: each is simply
another snapshot, and the same code handles it. ``Controller.round`` is:

1. read jobs, nodes and the pool (``Observer``); if that fails, nothing is written in this round, and
   the next round comes later (exponential back-off up to 30 s);
2. read telemetry, and take the round through the stages of the plan (``live.stages``);
3. store the releases, then write the difference to Slurm, lowering before raising before starting (``live.writing``);
4. once more from 1 if jobs were held, then publish heartbeat, status and metrics.

Who may write. The run folder's lease is taken after the first plan and read before each write (``live.files.lease``). A
controller that was stopped and resumes, or one that could not observe Slurm for so long that ``live release`` took
over, ends with LeaseLostError; systemd starts it again, and it begins from what Slurm shows. Within a round nothing is
written from a snapshot older than ``OLD_SNAPSHOT_S``: the process may have been stopped in between, and what the
snapshot shows as free may be in use.

What a full disk does. Five things are written to disk in a round, and none of them may end it:

==================  ================================================================================================
releases            not stored: nothing is released in this round (``ControllerState.place``)
audit log           not recorded: only writes that lower are carried out
other state         kept in memory, stored later (``ControllerState.unsaved``)
lease, heartbeat    overwritten in place; if that fails too they grow stale, and the release fall-back takes over
status, recording,  left out and reported (``extension.beside``)
measured jobs
==================  ================================================================================================

What happens on failure. A failed write is not repeated within the round; the next snapshot shows
whether it took effect, and the difference is written again. A start that failed is refused with a
back-off, so that one broken job cannot fill every round. A controller that dies at any point leaves
the cap to Slurm's licences, under which Slurm admits jobs while no controller is at work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wattqueue.errors import WattQueueError
from wattqueue.live.apply import Applier
from wattqueue.live.cluster import ClusterError, HoldJob, Node, Snapshot
from wattqueue.live.driver import Cluster
from wattqueue.live.extension import Extension, Place, beside
from wattqueue.live.files.liveness import note_blind
from wattqueue.live.files.status import RunDir
from wattqueue.live.node_power import mostly_measured, node_power
from wattqueue.live.partitions import fits, inspect_partitions
from wattqueue.live.planner import Planner, RoundState, StageFunction
from wattqueue.live.reports.conditions import conditions
from wattqueue.live.reports.report import Meter, Report, describe
from wattqueue.live.state.audit import Audit
from wattqueue.live.telemetry.base import NodePower, Telemetry
from wattqueue.live.watts.lowering import licence_rules
from wattqueue.live.writing import Writer

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
    meter: Meter
    extensions: Sequence[Extension] = ()
    """Optional features, whose stages the planner has, too."""
    clock: Callable[[], float] = time.time
    """Gives seconds since the epoch."""
    away_s: float = 120.0
    """Age of the heartbeat from which job_submit.lua stops holding jobs."""
    audit_days: float = math.inf
    """Age from which rows of the audit log are removed, once a day."""
    permits: Sequence[Callable[[], str]] = ()
    """Each returns why this process may not write now, empty where it may: leases among several hosts."""
    renew: Callable[[Sequence[Node], Controller], Controller] = lambda _nodes, controller: controller
    """Returns a controller that takes over from this one, with other nodes (``renewed``)."""
    at_end: Callable[[], object] = lambda: None
    """Gives the right to write back, when the controller ends."""
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
    outdated: bool = False
    """Whether the cluster has other nodes than the layout: ``renewed`` has one that fits."""
    _begun_s: float = 0.0
    """When the round began, by the applier's clock."""
    _pruned_s: float = -math.inf
    """When old rows were removed last."""
    _inspected: tuple[Sequence[Node], list[str]] = ((), [])
    """Nodes of the last snapshot, and what comparing their partitions with the machine file found."""

    def __post_init__(self) -> None:
        """Create what writes."""
        self.writer = Writer(self.planner, self.applier, self.run_dir, self.stages_at("writes"))

    @property
    def mode(self) -> str:
        """observe, advise or control."""
        return self.planner.rules.mode

    def stages_at(self, place: Place) -> list[StageFunction]:
        """Return the stages that extensions have at a place outside of the plan."""
        return [one.stages[place] for one in self.extensions if place in one.stages]

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
        report = self._pass()
        if report is not None and any(isinstance(o.write, HoldJob) and not o.error for o in report.outcomes):
            report = self._pass(report) or report
        if report is None:
            return None
        now = report.plan
        if now.now_s - self._pruned_s >= DAY_S and math.isfinite(self.audit_days):
            self._pruned_s = now.now_s
            beside("removing old rows of the audit log", lambda _: self.audit.prune(self.audit_days))(now)
        for one in self.stages_at("report"):
            one(now)
        self._note(now)
        report = replace(report, conditions=conditions(now))
        report = replace(report, problems=self._problems(report))
        self._show(report)
        return report

    def _pass(self, earlier: Report | None = None) -> Report | None:
        """Observe, plan and write once. ``earlier`` is the report of the first pass of this round, if this is a second.

        The second pass counts the power of the first: the nodes are not measured more often than once a round.
        """
        begin, self._begun_s = time.perf_counter(), self.applier.clock()
        try:
            snapshot = self.cluster.observe()
        except ClusterError as error:
            self.failures += 1
            self.problem = str(error)
            self.meter.failed(self.problem)
            note_blind(self.run_dir.folder, self.problem, self.clock())
            return None
        self.failures = 0
        self.troubles |= dict.fromkeys(snapshot.problems, self.clock())
        self._inspect(snapshot)
        power = self._power(snapshot) if earlier is None else earlier.power
        telemetry_ok = self._telemetry_ok(power) if earlier is None else earlier.plan.telemetry_ok
        begin_plan = time.perf_counter()
        now = self.planner.plan(snapshot, power, telemetry_ok=telemetry_ok)
        kinds = {(type(refusal.action).__name__, refusal.reason) for refusal in now.refusals}
        self.refusals |= {f"{kind} refused: {reason}": self.clock() for kind, reason in kinds}
        now.troubles += self.planner.session.estimation.pop_problems()
        plan_s = time.perf_counter() - begin_plan
        self._note(now)
        if self.mode == "control":  # in the other modes it holds and releases nothing, and keeps no release away
            self.run_dir.take_lease(self.clock())
            refused = [text for text in (permit() for permit in self.permits) if text]
            self.troubles |= dict.fromkeys(refused, self.clock())
        outcomes, would = self.writer.carry_out(now, self._permit)
        now.outcomes = outcomes
        for one in self.stages_at("written"):
            one(now)
        self._note(now)
        took_s = time.perf_counter() - begin
        if earlier is not None:
            outcomes = [*earlier.outcomes, *outcomes]
            took_s, plan_s = took_s + earlier.took_s, plan_s + earlier.plan_s
        return Report(now, outcomes, would, took_s, plan_s)

    def _permit(self) -> str:
        """Return why the rest of this round's writes must be left out; empty where they may go on.

        Time is the applier's monotonic clock, which counts on while the process is stopped. A snapshot that is too
        old is not written from: what it shows as free may be in use by now.

        Raises: LeaseLostError where another process holds the lease.
        """
        lease = self.run_dir.lease
        if lease is not None and not lease.held():
            raise lease.lost()
        for permit in self.permits:
            if refused := permit():
                return refused
        age_s = self.applier.clock() - self._begun_s
        return f"the snapshot is {age_s:.0f} s old" if age_s > OLD_SNAPSHOT_S else ""

    def _note(self, now: RoundState) -> None:
        """Take over what failed in a round without ending it."""
        self.troubles |= dict.fromkeys(now.troubles, self.clock())
        now.troubles = []

    def _inspect(self, snapshot: Snapshot) -> None:
        """Compare the nodes with the layout, where they are others than in the last round."""
        if snapshot.nodes is not self._inspected[0]:
            layout = self.planner.layout
            found = inspect_partitions(layout, snapshot.nodes, self.planner.shared_nodes)
            self._inspected, self.outdated = (snapshot.nodes, found), not fits(layout, snapshot.nodes)

    def renewed(self) -> Controller:
        """Return the controller to go on with: this one, or one whose layout has the nodes of the last snapshot.

        Telemetry, metrics, the run folder's lock and the audit log go over to it; the rest is read from the state, as
        at a start. Where the other nodes fit no policy or table, this controller goes on without them, and says so.
        """
        if not self.outdated or self.planner.memory.unsaved:
            return self
        self.outdated = False
        if any(one.knows_nodes for one in self.extensions):
            self.troubles["the nodes of the cluster changed: restart the controller to take them up"] = self.clock()
            return self
        try:
            other = self.renew(self._inspected[0], self)
        except WattQueueError as error:
            self.troubles[f"the nodes of the cluster changed and are not taken up: {error}"] = self.clock()
            return self
        if other is not self:
            other.take_over(self)
        return other

    def take_over(self, other: Controller) -> None:
        """Go on from the last round of a controller of the same jobs."""
        mine, before = self.planner, other.planner
        mine.released, mine.inherited = before.released, tuple(before.jobs.slot)
        self.writer.advised = other.writer.advised
        self.blind_rounds, self.troubles, self.last = other.blind_rounds, other.troubles, other.last
        total = len(mine.layout.names)
        self.audit.note("nodes", f"the cluster has {total} managed nodes, it had {len(before.layout.names)}")

    def wait_s(self, period_s: float) -> float:
        """Return the wait before the next round: the period, doubled per failure while Slurm does not answer."""
        return period_s if self.failures == 0 else min(period_s * 2.0 ** min(self.failures, 10), LONGEST_WAIT_S)

    def _power(self, snapshot: Snapshot) -> dict[str, NodePower]:
        """Read telemetry, and return the power that counts for each node: measured, or its maximum."""
        planner, now_s = self.planner, self.clock()
        tolerance = planner.rules.idle_tolerance
        power, low = node_power(self.telemetry, planner.layout, planner.shared_nodes, snapshot, tolerance, now_s)
        if low:
            text = f"{low} nodes are measured far below idle and count as their maximum: is the source in watts?"
            self.troubles[text] = now_s
        return power

    def _telemetry_ok(self, power: Mapping[str, NodePower]) -> bool:
        """Whether predictions may be trusted: most nodes are measured, or no telemetry is configured.

        One round without measurements is tolerated (a scrape may be late), a second one is not.
        """
        if mostly_measured(power, self.planner.layout.names):
            self.blind_rounds = 0
            return True
        self.blind_rounds += 1
        return self.blind_rounds < 2

    def _problems(self, report: Report) -> list[str]:
        """Return what the status should report to a person, a bounded number of lines."""
        plan, planner = report.plan, self.planner
        lines = report.conditions.lines(plan.stated_w, plan.alone_w, observing=self.mode != "control")
        if planner.memory.problem:
            lines.insert(0, f"the state cannot be stored, and nothing starts unstored: {planner.memory.problem}")
        return [
            *([plan.cap_problem] if plan.cap_problem else ()),
            *lines,
            *(text for text in (self.audit.problem, self.audit.lost) if text),
            *(line for extension in self.extensions for line in extension.lines()),
            *planner.placement.problems(),
            *self.standing,
            *self._inspected[1],
            *self.troubles,
            *self.refusals,
        ]

    def _show(self, report: Report) -> None:
        """Publish heartbeat, status and metrics. The heartbeat claims that jobs are held: control mode only."""
        now_s, planner = self.clock(), self.planner
        values = describe(report, self.mode, self.telemetry)
        agents = any(one.knows_nodes for one in self.extensions)
        rules = planner.rules
        follows = licence_rules(planner.policy, rules.overshoot, follows=rules.track_running, agents=agents)
        values["licences"] = follows._asdict()
        beside("the heartbeat", lambda _: self.run_dir.beat(self.mode, now_s, self.away_s / 4.0))(report.plan)
        beside("the status", lambda _: self.run_dir.status(values, now_s))(report.plan)
        self._note(report.plan)
        self.meter.round(report)
        self.last = report
