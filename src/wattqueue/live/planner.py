"""Plan one round without I/O: a snapshot of Slurm and measured power in, a goal for Slurm out.

``Planner.plan`` returns a ``Plan``: the goal, the view on which it was decided, and the figures that
the status shows. It runs in the order of an instant (semantics, rule 2), with a round in the place of
an instant:

1. classify jobs (``Sorter``) and nodes (``Nodes``), predict the jobs that are new;
2. count running jobs: their licence, or what was measured;
3. occupy units by running jobs;
4. the budget: the cap less shared nodes and idle watts is the pool that Slurm should hold (``live.budget``); room is
   kept for jobs that wait and may start at any moment (``live.pending_room``), which are no power;
5. build the policy's snapshot and have the session decide on it (``Decider``): controls, then the pass;
6. turn its starts and actions, the jobs to take back and the licences to move into a goal.

Jobs that have ended are learned from between 1's classification and its predictions (``ended``).

What counts at once and what later (rule 2): a released job counts nodes and watts from the moment of
its release, whether or not Slurm has started it. What a job frees counts only when a later snapshot
shows it. A round therefore never plans on watts that Slurm may still hand to someone else.

What Slurm shows is not always what it counts, and what a licence says is not always what its job may draw. The
planner corrects these cases, each in the round in which it is seen:

- a job with a range of nodes (``-N 1-4``) is pinned to one number, with the watts of just that number
  (``live.moldable``); the range is stored first, since Slurm forgets it;
- a running job that was given more nodes than were counted gets the watts of all of them (``live.running_jobs``);
- a requeued job has its watts written again, because some releases of Slurm free them (``_lost_licences``);
- a running job without watts (from before the installation) is taken off the pool at its nodes' maximum
  (``live.budget``), because no licence will ever stand for it;
- a measured licence falls no further than the bound allows (``live.bound``), nor below a share of the maximum
  (``Tracker.floor``), and a reading that no powered node can have counts as the maximum (``tracking.trusted``).

State: ``memory`` (written through to the database), ``tracker``, and caches that can be dropped at any time. The same
snapshot planned twice gives a goal that needs no further write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.above_cap import AboveCap, measured_over_w
from wattqueue.live.bound import NO_LIMITS, LimitsInForce, WattBound, held_watts, watt_bound
from wattqueue.live.budget import Budget, elsewhere_w, pool_under, uncounted_w
from wattqueue.live.capfile import Announced
from wattqueue.live.cluster import UNANSWERED, Details, Job, JobKey, Node, Snapshot
from wattqueue.live.components import handed_over, left_over
from wattqueue.live.consent import Consents, changed_consent
from wattqueue.live.decision import Decider, Decision, Seen
from wattqueue.live.draining import Draining
from wattqueue.live.goal import Goal, JobGoal
from wattqueue.live.impossible import Owners
from wattqueue.live.job_tables import joined, offered, with_running
from wattqueue.live.ledger_meter import LedgerMeter
from wattqueue.live.licences import licences_of_running, lost_licences
from wattqueue.live.load_targets import target_end_s, target_name
from wattqueue.live.lowered_licences import allot
from wattqueue.live.lowering import NONE as NO_OVERSHOOT
from wattqueue.live.lowering import AcceptedOvershoot
from wattqueue.live.misnamed import MisnamedRecord
from wattqueue.live.moldable import node_range, range_mark
from wattqueue.live.never_starts import NeverStarting
from wattqueue.live.node_power import readings_of
from wattqueue.live.occupied import PlacedJobs, busy_columns
from wattqueue.live.parking import Parking
from wattqueue.live.pending_jobs import PendingJobs
from wattqueue.live.pending_room import PendingRoom
from wattqueue.live.placement import ChosenStart, Naming, NodeChoice
from wattqueue.live.predictor import Predictor
from wattqueue.live.requests import JobRequest, ObservedJob
from wattqueue.live.running_jobs import RunningCount
from wattqueue.live.shared_nodes import SharedCount, SharedNodes
from wattqueue.live.site_filter import SiteFilter, SitePriority, with_priorities
from wattqueue.live.sorting import USER_HELD, Mode, Sorted, Sorter
from wattqueue.live.state.memory import Memory, ParkedJob, Refused, ReleasedJob
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.tracking import Tracker, labels
from wattqueue.live.world import Busy, Layout, Nodes, Occupation
from wattqueue.model.signals import NO_SIGNALS, Cap, RiseScale, Signals
from wattqueue.parts.actions import Refusal, StartJob
from wattqueue.parts.contracts import Entries
from wattqueue.policy.consented import consented_windows
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.domain_limits import DomainLimits
from wattqueue.policy.policy import Policy

PRIORITY_TOP = 2_000_000_000
"""Slurm priority of the first job that a round releases; the next ones count down, so Slurm keeps the order."""
FIRST_BACKOFF_S = 30.0
"""Back-off after the first refusal: about two scheduling periods of Slurm; doubles with each further refusal."""
LONGEST_BACKOFF_S = 3600.0
"""Longest back-off: a job that could start again should not wait longer than this for being tried."""
BLOCKED_BACKOFF_S = 300.0
"""... for one that was blocked by what may end at any time (a limit, a reservation): a try costs about two seconds."""


@dataclass(frozen=True)
class Rules:
    """What the site's configuration settles beside the policy."""

    mode: Mode = "observe"
    start_timeout_s: float = 30.0
    """A released job that has not started after this time is held again."""
    starts_a_cycle: int = 200
    """Starts per round at most, so that a round stays short: each is two or three commands."""
    write_priority: bool = True
    """Whether released jobs get Slurm priorities in the order of the policy."""
    place_nodes: Naming = "auto"
    """Whether released jobs are bound to the very nodes that the policy chose (``live.placement``)."""
    power_nodes: bool = False
    """Whether nodes may be powered up and down."""
    track_running: bool = False
    """Whether licences of running jobs follow what is measured, as far as ``live.lowering`` allows."""
    settle_s: float = 10.0
    """See ``Tracker``."""
    margin: float = 0.1
    """See ``Tracker``."""
    idle_tolerance: float = 0.2
    """Share by which a reading may be below idle and still counts as idle; below that it counts as the maximum."""
    licence_floor: float = 0.2
    """See ``Tracker.floor``."""
    sets_frequency: bool = False
    """Whether the chosen frequency is handed to the job's steps (TaskProlog)."""
    overshoot: AcceptedOvershoot = NO_OVERSHOOT
    """What the site accepts that running jobs draw above the cap."""


@dataclass(frozen=True)
class Plan:
    """The result of one round: what Slurm should look like, and how that was decided."""

    goal: Goal
    placed: tuple[ReleasedJob, ...]
    """Jobs that the goal starts; to be stored before Slurm is written to."""
    view: PolicySnapshot
    """What the policy decided on."""
    starts: tuple[StartJob, ...]
    """The policy's starts."""
    busy: tuple[Busy, ...]
    """Running and under-way jobs, with what they count for."""
    cap_w: float
    """The cap that the pool stands for, inf for none: what the policy plans with."""
    stated_w: float
    """The limit as it is stated, the lower of the site's cap and load targets; inf for none."""
    alone_w: float
    """The site's cap without load targets, inf for none."""
    idle_w: float
    """Watts that count without any job: of idle nodes in the cap's scope, and of shared nodes."""
    pool_w: int | None
    """Licences that Slurm should leave open; None where the licence is not configured."""
    counted_w: float
    """Power in the cap's scope: of the jobs that hold nodes, and idle watts."""
    labels: dict[str, int]
    """Running jobs by where their watts come from."""
    refusals: tuple[Refusal, ...]
    """Actions that will not be carried out, with reasons; the parts see them in this round's view."""
    sorted: Sorted
    decision: Decision
    """The round of the session: what it was asked, and all that it answered."""
    parked: tuple[ParkedJob, ...] = ()
    """Jobs that the goal stops; to be stored before Slurm is written to."""
    promise: Mapping[str, float] = field(default_factory=dict)
    """What an adaptive ledger has spent and keeps free (``LedgerMeter.figures``); empty for another ledger."""
    until_s: float = 0.0
    """End of the load target in force; the time of the round without one."""
    shared: SharedCount = field(default_factory=SharedCount)
    """What shared nodes count; in ``idle_w`` and ``counted_w`` already."""
    reserved_w: float = 0.0
    """Watts kept for jobs that wait and may start at any moment; they are no power."""
    bound: WattBound = field(default_factory=WattBound.none)
    """What every write of the round passes."""
    in_target: bool = False
    """Whether a load target is in force."""
    above: AboveCap = field(default_factory=lambda: AboveCap(acts=False))
    """By how much measured power is above the cap, and what was done about it."""


@dataclass
class Planner:
    """Plans round after round for one cluster and one policy. The module's docstring describes a round."""

    layout: Layout
    policy: Policy
    cap: Cap
    rules: Rules
    memory: Memory
    predictor: Predictor
    decider: Decider
    consents: Consents | None = None
    """What users allow during a load target; None where the site does not ask them."""
    misnamed: MisnamedRecord | None = None
    """What follows from users' records of misnamed jobs; None where nothing does."""
    tracker: Tracker = field(default_factory=lambda: Tracker(10.0, 0.1))
    shared: SharedNodes = field(default_factory=SharedNodes)
    """Partitions whose nodes jobs share."""

    def __post_init__(self) -> None:
        """Create the parts that keep state from round to round."""
        rules, memory = self.rules, self.memory
        self.placement = NodeChoice(self.layout, self.policy, self.predictor, memory, rules.place_nodes)
        self.sorter = Sorter(self.layout, rules.mode, rules.start_timeout_s, self._request, marked=memory.marked)
        self.nodes, self.parking, self.site = Nodes(self.layout), Parking(self.layout, memory), SiteFilter(self.layout)
        self.pending_room = PendingRoom(self.layout, rules.start_timeout_s)
        self.draining, self.budget, self.owners = Draining(self.layout, memory), Budget(self.shared), Owners(memory)
        # caches by row identity, valid while the observer hands out the same row objects
        self.placed, self._columns = PlacedJobs(self.layout), busy_columns((), None)
        # by whether telemetry counts: waiting keys, what else the arrays depend on, the site's priorities, the arrays
        self._last: dict[bool, tuple[Sequence[JobKey], tuple[object, ...], SitePriority, PendingJobs]] = {}
        needs = self.decider.session.needs
        self.never = NeverStarting(self.layout.machine, needs)
        floor = self.rules.licence_floor
        self.tracker = Tracker(self.rules.settle_s, self.rules.margin, floor=floor, ledger=needs.corrects)
        self.running = RunningCount(
            self.layout, rules, memory, self.predictor, self.placement, self.parking, self.tracker, self.shared,
            lambda: self.sorter.requests,
        )  # fmt: skip
        self.meter = None if needs.metered is None else LedgerMeter(needs.metered, memory, self.layout)
        self.announced = Announced(Signals(self.cap, scale=RiseScale.of(self.layout.machine)), self.cap)
        self.above = AboveCap(self.decider.session.acts_by_power)
        self.settings = self.decider.session.needs.pass_settings(self.layout.machine.cap_scope)
        # Whether signals are needed: by parts in Python, or by what looks at load targets.
        self._looks_ahead = self.decider.asks or self.settings.by_target or bool(self.settings.looks_ahead)
        # A pass that looks ahead counts a running job at the last option of its window.
        self._asks_running = self.decider.asks or bool(self.settings.looks_ahead)

    @property
    def left(self) -> Cap:
        """What the site's cap leaves beside shared nodes: the cap that the policy and its parts know."""
        return self.budget.left_of(self.cap)

    def plan(
        self,
        snapshot: Snapshot,
        power: Mapping[str, NodePower],
        *,
        telemetry_ok: bool,
        ended: Callable[[Sorted, float], None] = lambda *_: None,
        limits: DomainLimits | None = None,
        in_force: LimitsInForce = NO_LIMITS,
    ) -> Plan:
        """Return the plan for a snapshot.

        ``power`` is the counted power of each node by name, empty without telemetry. ``telemetry_ok`` is false while
        telemetry is configured and lost: jobs are then admitted by the machine's maxima. ``ended`` is called with the
        sorted jobs and the time before new jobs are predicted: completions are learned first (semantics, rule 2).
        ``limits``: of nodes, as their agents state them; None without agents. ``in_force``: those that were read back.
        """
        now_s, rows = snapshot.taken_s, self._sorted(snapshot)
        ended(rows, now_s)
        self.nodes.update(nodes := self.decider.orders.expected(snapshot.nodes, now_s))
        self.budget.update(snapshot)
        self.predictor.predict(self.sorter.fresh, now_s, self.sorter.requests)
        overshoot_w, promised = self.rules.overshoot.of(self.left.in_force_w(now_s)), self.meter is not None
        running = self.running.of(rows.running, power, now_s, snapshot.details)
        running, withheld = allot(running, overshoot_w, in_force, promised=promised)
        occupation = self.placed.occupation(running, now_s)
        holding = list(occupation.busy)  # what holds nodes; what is added to ``occupation`` waits, and is no power
        base = self.nodes.base_uw
        bare_w, left_w = uncounted_w(holding), self.left.in_force_w(now_s)
        cap_w, pool_w = pool_under(left_w, snapshot.pool, base, bare_w, withheld)
        held_w, elsewhere = sum([b.net_w for b in holding]), self._elsewhere_w(snapshot, rows, holding)
        room_w = math.inf if pool_w is None else pool_w + bare_w - held_w - elsewhere
        room_w -= self._keep_room(rows, occupation, room_w, now_s)
        self.site.keep_back(snapshot, rows, self.sorter.queue, occupation.taken)
        reserved = self.site.start_reserved(occupation, now_s, room_w, self.predictor.of)
        self._read_meter(now_s, power, holding, known=telemetry_ok)
        view = self._view(snapshot, rows, occupation, (cap_w, base, float(elsewhere)), telemetry_ok=telemetry_ok)
        # goals in the order of their urgency; ``plan_writes`` sorts the writes by what they do to the pool
        late = self._late(rows)
        decision = self.decider.decide(
            view,
            self._seen_by_parts(rows, occupation, nodes, limits, power) if self.decider.asks else None,
            lambda row: self._range(self.sorter.queue.row[rows.waiting[row]])[1],
        )
        self._note_pass(decision, power)
        if decision.now.base_added_uw:  # nodes that boot: their watts leave the pool in the round that wakes them
            base += decision.now.base_added_uw
            pool_w = pool_under(left_w, snapshot.pool, base, bare_w, withheld)[1]
        started = [self.sorter.queue.row[rows.waiting[row]] for row in decision.rows[: self.rules.starts_a_cycle]]
        chosen = self.placement.choose(decision, started, self.rules.starts_a_cycle)
        chosen = self.site.together([*reserved, *chosen])
        goals, placed = self._starts(snapshot, chosen)
        back, why = self.placement.taken_back, "released outside WattQueue: the policy decides"
        adopt = [back(JobGoal(row.key, held=True, why=why), row) for row in rows.adopt]
        restored = self.placement.restored(snapshot, {one.row.key for one in chosen})
        shared, hand = self.budget.counted, self._undecided(snapshot, rows)
        target, until_s = self._parks_for(view), target_end_s(view.signals.targets, now_s)
        parked = self.parking.goals(decision.now, occupation.busy, now_s, target, until_s)
        follow, other = self.rules.track_running, {goal.key for goal in parked.jobs}
        licences = licences_of_running(self.memory, snapshot, running, other, follow=follow)
        goal = Goal(
            pool_w,
            (*licences, *parked.jobs, *late, *adopt, *restored, *left_over(rows.orphans), *hand, *goals),
            self.draining.goals(decision.now, snapshot),
            parked.requeue,
            why_pool=f"limit {cap_w:.0f} W" + (f" beside {shared.watts:.0f} W of shared nodes" if shared.open else ""),
        )
        return Plan(
            goal, tuple(placed), decision.view, tuple(c.start for c in chosen), tuple(occupation.busy), cap_w,
            self.cap.in_force_w(now_s), self.cap.alone.in_force_w(now_s), base / 1e6 + shared.watts, pool_w,
            held_w + base / 1e6 + shared.watts, labels(job.counted for job in running),
            decision.refusals, rows, decision, parked.stored, self.meter.figures() if self.meter is not None else {},
            until_s, shared, float(sum([b.net_w for b in occupation.busy[len(holding) :]])),
            watt_bound(
                left_w - base / 1e6, overshoot_w, snapshot,
                lambda: held_watts(holding, rows, running, in_force, promised=promised), elsewhere,
            ), self.announced.targets.in_force(now_s) >= 0, self.above,
        )  # fmt: skip

    def _sorted(self, snapshot: Snapshot) -> Sorted:
        """Return the jobs of a snapshot by what is to be done with them, and remember what their users do."""
        memory = self.memory
        if self.consents is not None:
            self.consents.follow(snapshot.details)
        rows = self.sorter.sort(snapshot, memory.placed, memory.refused, memory.origin)
        self.placement.forget_names(snapshot)
        memory.mark(rows.user_held, USER_HELD)
        memory.mark(rows.user_released, USER_HELD, present=False)
        return rows

    def _read_meter(self, now_s: float, power: Mapping[str, NodePower], busy: Sequence[Busy], *, known: bool) -> None:
        """Read the meter of an adaptive ledger, and put the margin that follows in force."""
        if self.meter is not None:
            self.meter.read(now_s, power, busy, self.nodes.on, self.left.in_force_w(now_s), self.nodes.base_uw,
                            known=known)  # fmt: skip
            self.settings = replace(self.settings, chance=self.meter.terms)

    def _parks_for(self, view: PolicySnapshot) -> str:
        """Return for what jobs are parked in this round, in words."""
        in_force = view.signals.targets.in_force(view.now_s) >= 0
        if self.decider.session.acts_by_power and not in_force:
            return "measured power is above the cap"
        return target_name(view.signals.targets, view.now_s)

    def _note_pass(self, decision: Decision, power: Mapping[str, NodePower]) -> None:
        """Hand what a pass left to the meter of an adaptive ledger; note what was done about power above the cap."""
        self.above.round(measured_over_w(decision.now, power, self.layout), decision.answers.actions)
        if self.meter is not None:
            self.meter.passed(decision.now.kernel)

    def _seen_by_parts(
        self, rows: Sorted, occupation: Occupation, nodes: tuple[Node, ...], limits: DomainLimits | None,
        power: Mapping[str, NodePower],
    ) -> Seen:  # fmt: skip
        """Return what the session compares with the round before."""
        busy = occupation.busy
        running, under_way = [b.row.key.name for b in busy if b.row.active], [row.key.name for row in rows.under_way]
        still = [b.row.key.name for b in busy if b.row.state in ("stopped", "suspended") and not b.parked]
        return Seen(
            nodes, [key.name for key in self.sorter.queue.keys()], running, [*under_way, *still], limits,  # noqa: SIM118
            self.parking.resumes_w(busy), self.parking.happened(rows.running) | changed_consent(self.consents),
            self.memory.drained,
            readings_of(power, self.layout) if power and self.decider.session.needs.reads_sensors else None,
        )  # fmt: skip

    def ran(self, busy: Busy) -> ObservedJob:
        """Return a running job with its request, its prediction and where it runs."""
        known, machine = self.predictor.of(busy.row.key), self.layout.machine
        watts = math.nan if known is None else float(known[0][busy.option])
        hardware, hertz = machine.partitions[busy.partition].name, float(machine.option_frequency_hz[busy.option])
        return ObservedJob(self.sorter.requests[busy.row.key], watts, hardware, hertz)

    def keep_ranges(self, snapshot: Snapshot, placed: Sequence[ReleasedJob]) -> None:
        """Store the range of nodes of jobs that are about to be pinned."""
        for row in (snapshot.by_key[one.key] for one in placed if one.key in snapshot.by_key):
            least, most = self._range(row)
            if most > least:
                self.memory.mark([row.key], range_mark(least, most))

    def refuse(self, key: JobKey, reason: str, now_s: float, longest_s: float = LONGEST_BACKOFF_S) -> None:
        """Store a start that failed: it is tried again after 30 s, then twice as long, up to an hour.

        A cluster that does not answer is no reason to wait longer for this job each time: always 30 s then.
        """
        longest_s = FIRST_BACKOFF_S if UNANSWERED in reason else longest_s
        before = self.memory.refused.get(key)
        times = 1 if before is None else before.times + 1
        wait_s = min(FIRST_BACKOFF_S * 2.0 ** min(times - 1, 20), longest_s)
        self.memory.refuse(Refused(key, now_s + wait_s, times, reason))

    # -- steps of a plan -----------------------------------------------------------------------
    def _request(self, row: Job, known: Details | None) -> JobRequest:
        """Return what the user of a row requested, for the estimator."""
        allowed = self.layout.allowed(row.partition)
        one = self.layout.machine.partitions[next(iter(allowed))].name if len(allowed) == 1 else ""
        user = f"u{row.uid}"
        ignored = self.misnamed is not None and self.misnamed.ignores(user)
        app = "" if known is None or ignored else known.app
        return JobRequest(row.key, user, app, one, self._nodes(row), row.walltime_s)

    def _nodes(self, row: Job) -> int:
        """Return the nodes that a job takes: what it was given, or the least number that it accepts."""
        return self._range(row)[0] if row.pending else row.nodes

    def _range(self, row: Job) -> tuple[int, int]:
        """Return the least and the greatest number of nodes of a waiting job."""
        return node_range(row, self.memory.marks.get(row.key, ()), self.layout)

    def _keep_room(self, rows: Sorted, occupation: Occupation, room_w: float, now_s: float) -> int:
        """Add the jobs that wait to who holds which unit, on what running ones leave; return the watts kept for them.

        Jobs that were released first, then those that only the cluster schedules, as far as ``live.pending_room`` says.
        """
        first, others = len(occupation.busy), {id(row) for row in rows.foreign}
        for row in rows.under_way:
            if id(row) not in others:
                self._reserve(row, occupation, now_s)
        room_w -= sum([b.net_w for b in occupation.busy[first:]])
        foreign = [row for row in rows.under_way if id(row) in others]
        free = (self.nodes.usable, occupation.taken)
        for row in self.pending_room.kept(foreign, self.layout.of_job, free, room_w, now_s):
            self._reserve(row, occupation, now_s)
        self.predictor.expect_ends(occupation, self.sorter.requests, now_s)
        return sum([b.net_w for b in occupation.busy[first:]])

    def _reserve(self, row: Job, occupation: Occupation, now_s: float) -> None:
        """Keep nodes and watts for a job that waits and that may start at any moment."""
        # an adopted or foreign job has no stored release: its partition's first option, its own watts
        placed = self.memory.placed.get(row.key)
        partition = self.layout.of_job(row)
        option = placed.option if placed is not None else int(self.layout.machine.option_start[partition])
        wanted = row.requested or (expand(placed.nodes) if placed is not None else ())
        net_w = row.watts if row.watts >= 0 else self.layout.most_of(partition, row)
        occupation.under_way(row, partition, option, net_w, wanted, now_s)

    def _view(
        self,
        snapshot: Snapshot,
        rows: Sorted,
        occupation: Occupation,
        budget: tuple[float, int, float],
        *,
        telemetry_ok: bool,
    ) -> PolicySnapshot:
        cap_w, base, elsewhere_w = budget
        pending = self._deciding(snapshot, rows, telemetry_ok=telemetry_ok)
        busy = occupation.busy
        known = self.predictor.rows(busy if self._asks_running else (), len(busy), pending.prediction)
        columns = self._columns = busy_columns(busy, self._columns)
        unusable = occupation.unusable(self.nodes.usable, self.nodes.hidden(occupation.taken))
        prediction = replace(pending.prediction, row=np.concatenate((pending.row, known)))
        alike = pending.rank is None and prediction.unit_factor is None  # tables by node have a row an application
        named = self.sorter.requests if self.decider.asks and alike else {}
        jobs, running = joined(pending.jobs, columns, named, self.consents), columns.as_running(len(pending.jobs))
        signals = self.announced.at(self.left, snapshot.taken_s) if self._looks_ahead else NO_SIGNALS
        entries, window = pending.entries, pending.window
        if self._asks_running and (self.settings.by_target or self.settings.looks_ahead or len(signals.targets)):
            known = np.array([self.predictor.of(b.row.key) is not None for b in busy], np.bool_)
            asked = (jobs, entries, window, prediction, self.layout.machine, signals)
            entries, window = with_running(self.policy.frequency, busy, known, *asked, self.settings.by_target)
        return PolicySnapshot(
            snapshot.taken_s, jobs, self.layout.machine, prediction, entries, window, self.settings, running, cap_w,
            elsewhere_w, base, unusable, pending.rank, signals=signals,
            planned_s=None if pending.planned_s is None else np.concatenate((pending.planned_s, occupation.planned_s)),
            alone_w=self.budget.alone_w(self.cap, snapshot, base, uncounted_w(busy)),
        )  # fmt: skip

    def _elsewhere_w(self, snapshot: Snapshot, rows: Sorted, busy: Sequence[Busy]) -> int:
        """Return watts of the pool that are not for the policy to use; none where nothing is controlled."""
        return elsewhere_w(snapshot.pool if self.rules.mode == "control" else None, rows, busy)

    def _deciding(self, snapshot: Snapshot, rows: Sorted, *, telemetry_ok: bool) -> PendingJobs:
        """Return the waiting jobs of which the policy decides; what can start under no limit to come is set aside."""
        priority, base = snapshot.site.priority, self.nodes.base_uw
        pending = self._pending(rows, priority, telemetry_ok=telemetry_ok)
        predicted = pending if telemetry_ok else self._pending(rows, priority, telemetry_ok=True)
        highest_w = float(self.left.highest_from(np.array([snapshot.taken_s]))[0])
        if highest_w <= 0.0:  # closed, as while the cap's file cannot be read: nothing starts, and nothing is known
            return pending
        highest_w, _ = pool_under(highest_w, snapshot.pool, base, 0)
        target_w = self.left.highest_in_target_w(self.announced.targets, snapshot.taken_s)
        if target_w > 0.0:
            target_w, _ = pool_under(target_w, snapshot.pool, base, 0)
        return self.never.set_aside(rows, self.sorter.queue, pending, predicted, highest_w, base, target_w=target_w)

    def _pending(self, rows: Sorted, priority: SitePriority, *, telemetry_ok: bool) -> PendingJobs:
        """Return the waiting jobs as arrays, those of the last round while neither queue nor priorities changed."""
        last = self._last.get(telemetry_ok)
        behind = frozenset[str]() if self.misnamed is None else self.misnamed.order.users
        asked = (0 if self.consents is None else self.consents.changes, self.left, behind)
        if last is not None and (last[0] is rows.waiting and last[1] == asked and last[2] is priority):
            return last[3]
        queue, machine = self.sorter.queue, self.layout.machine
        keys = queue.keys()
        without: np.ndarray | None = None
        if len(rows.waiting) < len(keys):
            kept = set(rows.waiting)
            without = np.fromiter((key not in kept for key in keys), np.bool_, len(keys))
        jobs, allowed = queue.table(without)
        if self.consents is not None:
            jobs = replace(jobs, consent=self.consents.columns(rows.waiting))
        prediction = self.predictor.prediction(rows.waiting, telemetry_ok=telemetry_ok)
        jobs, prediction, rank = self.placement.tell_apart(jobs, prediction, telemetry_ok=telemetry_ok)
        ranked = with_priorities(jobs, rows.waiting, priority, self.layout)
        entries = self._allowed(self.policy.order.entries(ranked, prediction, machine), allowed)
        told = jobs, entries, prediction, machine, self.announced.whole(self.left)
        window = consented_windows(self.policy.frequency, *told, by_target=self.settings.by_target)
        row = np.zeros(0, np.int32) if prediction.row is None else prediction.row
        entries, window = offered(entries, window, prediction)
        planned_s = self.predictor.planned_s(rows.waiting, jobs.walltime_s)
        pending = PendingJobs(jobs, prediction, row, entries, window, rank, planned_s)
        self._last[telemetry_ok] = (rows.waiting, asked, priority, pending)
        return pending

    def _allowed(self, entries: Entries, allowed: np.ndarray) -> Entries:
        """Return the entries whose partition the job's own list names; ``allowed`` (n,) holds them as bits."""
        if len(self.layout.machine.partitions) == 1:
            return entries
        keep = (allowed[entries.job] >> entries.partition) & 1 == 1
        return Entries(entries.job[keep], entries.partition[keep], entries.priority[keep])

    def _starts(self, snapshot: Snapshot, chosen: Sequence[ChosenStart]) -> tuple[list[JobGoal], list[ReleasedJob]]:
        """Turn the policy's starts into goals for Slurm and rows for the memory, in the order of the starts."""
        goals, placed = [], []
        for k, (row, start, power_w, factor, watts, nodes) in enumerate(chosen):
            partition = self.layout.name_for(start.partition, row.partition)
            names = tuple(self.layout.names[u] for u in start.nodes)
            # walltime is work at reference speed: a slower start gets a longer limit, a faster one keeps its own
            limit_s = row.walltime_s * max(1.0, factor)
            why = f"started by {self.policy.name}: {watts} W of the budget"
            hertz = float(self.layout.machine.option_frequency_hz[start.option])
            khz = round(hertz / 1e3) if self.rules.sets_frequency and not math.isnan(hertz) else None
            priority = PRIORITY_TOP - k if self.rules.write_priority else None
            goals.append(
                JobGoal(
                    row.key, False, partition, watts, nodes, limit_s, priority, khz, None, why, len(names),
                    lost_licences(self.memory, snapshot, row.key),
                )
            )  # fmt: skip
            total_w = power_w * len(start.nodes)
            placed.append(
                ReleasedJob(
                    row.key, snapshot.taken_s, partition, start.option, watts, total_w, limit_s, compress(names)
                )
            )
        return goals, placed

    def _undecided(self, snapshot: Snapshot, rows: Sorted) -> list[JobGoal]:
        """Return goals of jobs about which the policy decides nothing in this round."""
        goals = handed_over(self.layout, snapshot.nodes, rows.hand_over, rows.aside)
        if self.rules.mode == "control":
            goals += self.shared.leaving(rows.aside, lambda row: self.sorter.user_holds(row, snapshot.details))
            goals += self.owners.goals(snapshot)
        return goals

    def _late(self, rows: Sorted) -> list[JobGoal]:
        """Take back jobs that were released and did not start: hold them, and refuse the start.

        The back-off begins only when the hold has succeeded (the controller calls ``refuse``).
        """
        goals = []
        for row in rows.late:
            why = f"it was not started within {self.rules.start_timeout_s:.0f} s"
            goals.append(self.placement.taken_back(JobGoal(row.key, held=True, why=f"{why}: {row.reason}"), row))
            placed = self.memory.placed[row.key]
            self.decider.session.refuse(StartJob(row.key.name, -1, (), placed.option), why)
        return goals
