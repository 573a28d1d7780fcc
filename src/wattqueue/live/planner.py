"""Plan one round without I/O: a snapshot of the cluster and measured power in, a goal for the cluster out.

``Planner.plan`` takes a ``RoundState`` through a list of stages (``live.stages``), each a function that reads some of
its fields and columns of the table of jobs, and writes others. They follow the order of an instant (semantics, rule 2),
with a round in the place of an instant; optional features insert stages of their own at named places
(``live.extension``).

What counts at once and what later (rule 2): a released job counts nodes and watts from the moment of its release,
whether or not Slurm has started it. What a job frees counts only when a later snapshot shows it. A round therefore
never plans on watts that Slurm may still hand to someone else.

What Slurm shows is not always what it counts, and what a licence says is not always what its job may draw. Stages
correct these cases, each in the round in which it is seen:

- a job with a range of nodes (``-N 1-4``) is pinned to one number, with the watts of just that number
  (``live.moldable``); the range is stored first, since Slurm forgets it;
- a running job that was given more nodes than were counted gets the watts of all of them (``stages.count``);
- a requeued job has its watts written again, because some releases of Slurm free them (``live.watts.licences``);
- a running job without watts (from before the installation) is taken off the pool at its nodes' maximum
  (``stages.budget``), because no licence will ever stand for it;
- a measured licence falls no further than the bound allows (``live.watts.bound``), nor below a share of the maximum
  (``Tracker.floor``), and a reading that no powered node can have counts as the maximum (``tracking.trusted``).

What lasts: ``memory`` (written through to the database), ``tracker``, and caches that can be dropped at any time. The
same snapshot planned twice gives a goal that needs no further write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from wattqueue.live.apply import WriteResult
from wattqueue.live.cluster import UNANSWERED, Job, JobKey, Node, Snapshot
from wattqueue.live.components import ComponentTurns
from wattqueue.live.decision import Announced, Decider, Decision
from wattqueue.live.features.frequency_changes import FrequencyChanges
from wattqueue.live.goal import Goal, JobGoal
from wattqueue.live.job_tables import PendingJobs, SitePriority
from wattqueue.live.moldable import node_range
from wattqueue.live.never_starts import NeverStarting, Owners
from wattqueue.live.node_power import AboveCap
from wattqueue.live.parking import Draining, Parking
from wattqueue.live.placement import ChosenStart, Naming, NodeChoice
from wattqueue.live.predictor import Predictor
from wattqueue.live.requests import MeasuredJob, ObservedJob
from wattqueue.live.run_times import EndedRun
from wattqueue.live.shared_nodes import SharedCount, SharedNodes
from wattqueue.live.state.memory import ControllerState, ParkedJob, Refused, ReleasedJob
from wattqueue.live.table import LiveJobs, Slots, Stage
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.watts.bound import NO_OVERSHOOT, AcceptedOvershoot, WattBound
from wattqueue.live.watts.lowering import NO_LIMITS, LimitsInForce
from wattqueue.live.watts.tracking import Tracker
from wattqueue.live.world import Layout, Nodes
from wattqueue.model.power_sensor import IDLE_TOLERANCE
from wattqueue.model.signals import Cap, RiseScale, Signals
from wattqueue.parts.actions import Refusal, StartJob
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.device_limits import DeviceLimits
from wattqueue.policy.registry import Policy

FIRST_BACKOFF_S = 30.0
"""Back-off after the first refusal: about two scheduling periods of Slurm; doubles with each further refusal."""
LONGEST_BACKOFF_S = 3600.0
"""Longest back-off: a job that could start again should not wait longer than this for being tried."""
BLOCKED_BACKOFF_S = 300.0
"""... for one that was blocked by what may end at any time (a limit, a reservation): a try costs about two seconds."""
Mode = Literal["observe", "advise", "control"]


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
    """Whether licences of running jobs follow what is measured, as far as ``live.watts.lowering`` allows."""
    warm_up_s: float = 10.0
    """See ``Tracker``."""
    margin: float = 0.1
    """See ``Tracker``."""
    idle_tolerance: float = IDLE_TOLERANCE
    """Share by which a reading may be below idle and still counts as idle; below that it counts as the maximum."""
    licence_floor: float = 0.2
    """See ``Tracker.floor``."""
    sets_frequency: bool = False
    """Whether the chosen frequency is handed to the job's steps (TaskProlog)."""
    overshoot: AcceptedOvershoot = NO_OVERSHOOT
    """What the site accepts that running jobs draw above the cap."""
    without_jobs_w: float = 0.0
    """What a guard counts of the cap without any job, whatever the states of nodes; 0 without a guard."""


@dataclass
class RoundState:
    """All that is known and decided in one round; what is known of single jobs is in the table (``jobs``)."""

    planner: Planner
    snapshot: Snapshot
    power: Mapping[str, NodePower] = field(default_factory=dict)
    """Counted power of each node by name; empty without telemetry."""
    telemetry_ok: bool = True
    """False while telemetry is configured and lost: jobs are then admitted by the machine's maxima."""
    limits: DeviceLimits | None = None
    """Limits of nodes, as their agents state them; None without agents."""
    in_force: LimitsInForce = NO_LIMITS
    """Those that were read back."""
    limit_figures: Mapping[str, float] = field(default_factory=dict)
    """Figures of these limits for the status."""
    happened: int = 0
    """Events that only the controller knows, as bits."""
    asks_consent: bool = False
    """Whether users are asked what they allow during a load target (the column ``consent``)."""
    depends: tuple[object, ...] = ()
    """What else the arrays of waiting jobs depend on: others are made where it differs from the round before."""
    nodes: tuple[Node, ...] = ()
    """Nodes as they are about to be (``NodeOrders.expected``)."""
    fresh: list[int] = field(default_factory=list)
    """Jobs whose row is new in this round, as far as the controller has to do with them."""
    running: list[int] = field(default_factory=list)
    """Jobs that hold nodes, by submission."""
    under_way: list[int] = field(default_factory=list)
    """Jobs that wait and may start at any moment, by submission."""
    waiting: Slots = field(default_factory=lambda: np.zeros(0, np.int64))
    """Queued jobs of which the policy decides in this round, in the order of equal priorities."""
    never: Mapping[int, str] = field(default_factory=dict)
    """Queued jobs that can start under no limit to come, and why (rule 19); they are barred."""
    counted: list[int] = field(default_factory=list)
    """Running jobs whose nodes are of the machine, by submission."""
    withheld_w: int = 0
    """Watts that running jobs may draw above their licences, beyond what the site accepts."""
    overshoot_w: float = 0.0
    """Watts by which the site accepts that jobs may exceed the cap in force."""
    left_w: float = math.inf
    """What the site's cap in force leaves beside shared nodes."""
    holding: list[int] = field(default_factory=list)
    """Jobs that hold units, running ones first: then those for which units are kept, since they may start."""
    holders: int = 0
    """How many of them run."""
    taken: set[int] = field(default_factory=set)
    """Their units."""
    withheld: set[int] = field(default_factory=set)
    """Units that a job holds outside the partition of its first node: usable by nobody else."""
    base_uw: int = 0
    """Idle microwatts in the cap's scope."""
    bare_w: int = 0
    """Watts of running jobs that the resource manager does not count."""
    held_w: int = 0
    """Watts of the jobs that hold nodes."""
    elsewhere_w: int = 0
    """Watts of the pool that are not for the policy to use."""
    cap_w: float = math.inf
    """The cap that the pool stands for, inf for none: what the policy plans with."""
    pool_w: int | None = None
    """Licences that Slurm should leave open; None where the licence is not configured."""
    reserved_w: float = 0.0
    """Watts kept for jobs that wait and may start at any moment; they are no power."""
    without_nodes_w: int = 0
    """Those of them that are kept for jobs of which no node is free."""
    let_go: frozenset[str] = frozenset()
    """Jobs of several components that are released, or stay so; others are held."""
    free_nodes: frozenset[str] = frozenset()
    """Names of nodes on which a job may start, where the site's rules restrict any."""
    reserved: list[ChosenStart] = field(default_factory=list)
    """Starts of jobs of reservations, which the policy is not asked about."""
    planned_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Planned seconds of ``holding`` at reference speed, where run times are predicted."""
    promise: Mapping[str, float] = field(default_factory=dict)
    """What an adaptive ledger has spent and keeps free; empty for another ledger."""
    chosen: list[ChosenStart] = field(default_factory=list)
    """The starts of this round, with their watts and nodes."""
    displaced: dict[JobKey, str] = field(default_factory=dict)
    """Pinned jobs whose nodes are lost or taken, and how; they are placed again without a back-off."""
    placed: tuple[ReleasedJob, ...] = ()
    """Jobs that the goal starts; to be stored before Slurm is written to."""
    parked: tuple[ParkedJob, ...] = ()
    """Jobs that the goal stops; to be stored before Slurm is written to."""
    goal: Goal = field(default_factory=Goal)
    until_s: float = 0.0
    """End of the load target in force; the time of the round without one."""
    bound: WattBound = field(default_factory=WattBound.none)
    """What every write of the round passes."""
    outcomes: Sequence[WriteResult] = ()
    """The writes that were tried."""
    troubles: list[str] = field(default_factory=list)
    """What failed without ending the round."""
    measured: list[MeasuredJob] = field(default_factory=list)
    """Jobs that have ended and were measured."""
    unmeasured: list[ObservedJob] = field(default_factory=list)
    """Jobs that have ended and were not measured for long enough."""
    ended: list[EndedRun] = field(default_factory=list)
    """How long jobs ran that have ended, where the policy predicts run times."""
    began: list[ObservedJob] = field(default_factory=list)
    """Jobs that run since this round."""
    cap_problem: str = ""
    """Why the content of the cap's file is not in force; empty where it is."""
    cap_unknown: bool = False
    """Whether the cap's file could not be read since the start, so that the pool is closed."""
    unusable_targets: int = 0
    """How many statements of the source of load targets cannot be used."""
    explained: dict[str, Callable[[], Mapping[str, object]]] = field(default_factory=dict)
    """More records of jobs for those who ask why (``live.reports.why``), by kind."""
    view: PolicySnapshot = field(init=False)
    """What the policy decided on."""
    decision: Decision = field(init=False)
    """The round of the session: what it was asked, and all that it answered."""

    @property
    def jobs(self) -> LiveJobs:
        """The table of jobs."""
        return self.planner.jobs

    @property
    def now_s(self) -> float:
        """Time of the snapshot."""
        return self.snapshot.taken_s

    @property
    def starts(self) -> tuple[StartJob, ...]:
        """The starts of this round."""
        return tuple(one.start for one in self.chosen)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Actions that will not be carried out, with reasons; the parts see them in the next view."""
        return self.decision.refusals

    @property
    def stated_w(self) -> float:
        """The limit as it is stated, the lower of the site's cap and load targets; inf for none."""
        return self.planner.cap.in_force_w(self.now_s)

    @property
    def alone_w(self) -> float:
        """The site's cap without load targets, inf for none."""
        return self.planner.cap.alone.in_force_w(self.now_s)

    @property
    def idle_w(self) -> float:
        """Watts that count without any job: of idle nodes in the cap's scope, and of shared nodes."""
        return self.base_uw / 1e6 + self.shared.watts

    @property
    def counted_w(self) -> float:
        """Power in the cap's scope: of the jobs that hold nodes, and idle watts."""
        return self.held_w + self.idle_w

    @property
    def shared(self) -> SharedCount:
        """What shared nodes count; in ``idle_w`` and ``counted_w`` already."""
        return self.planner.shared_count

    @property
    def in_target(self) -> bool:
        """Whether a load target is in force."""
        return self.planner.announced.targets.in_force(self.now_s) >= 0

    def rows_at(self, *stages: Stage) -> list[Job]:
        """Return the rows of the jobs in some stages, by submission."""
        return self.jobs.rows(self.jobs.at(stages))


class PowerDomains(Protocol):
    """What a round asks of power domains (``live.watts.domains.LiveDomains``)."""

    set_aside: Mapping[str, int]
    postponed: int
    pinned_node_s: float

    @property
    def by_licence(self) -> Mapping[str, int]:
        """Return the number of each domain with a licence, by that."""
        ...

    def admit(self, now: RoundState, chosen: Sequence[ChosenStart]) -> list[ChosenStart]:
        """Return the starts for which all domains have room, each with its nodes."""
        ...

    def gates(self, now: RoundState) -> Iterator[JobGoal]:
        """Yield goals for held jobs that could start if somebody released them."""
        ...

    def open_w(self, now: RoundState) -> tuple[tuple[str, int], ...]:
        """Return what jobs may hold of each licence."""
        ...

    def figures(self, now: RoundState) -> dict[str, object]:
        """Return figures for the status."""
        ...


StageFunction = Callable[[RoundState], None]


def stage(reads: str, writes: str) -> Callable[[StageFunction], StageFunction]:
    """Declare what a stage uses: names of fields of ``RoundState``, and of columns of the table as ``jobs.NAME``.

    A test compares these with what the stages of many rounds use.
    """

    def declared(function: StageFunction) -> StageFunction:
        function.reads, function.writes = frozenset(reads.split()), frozenset(writes.split())  # type: ignore[attr-defined]
        return function

    return declared


@dataclass
class Planner:
    """What stages share, and what lasts from round to round: one cluster, one policy."""

    layout: Layout
    policy: Policy
    cap: Cap
    rules: Rules
    memory: ControllerState
    predictor: Predictor
    decider: Decider
    stages: Sequence[StageFunction]
    """The stages of a plan, in their order."""
    shared_nodes: SharedNodes = field(default_factory=SharedNodes)
    """Partitions whose nodes jobs share."""
    ignored: Callable[[str], bool] = lambda _user: False
    """Whether names of applications that a user gives are ignored."""
    domains: PowerDomains | None = None
    """Power domains that can hold jobs back; None where there are none."""

    def __post_init__(self) -> None:
        """Create what keeps state from round to round."""
        rules, memory, machine = self.rules, self.memory, self.layout.machine
        self.jobs, self.throttles = LiveJobs(), dict[tuple[str, float], int]()
        self.shared_count = SharedCount()
        self.placement = NodeChoice(self.layout, self.policy, self.predictor, memory, rules.place_nodes)
        self.nodes, self.parking = Nodes(self.layout), Parking(self.layout, memory)
        self.turns = ComponentTurns(rules.start_timeout_s)
        self.draining, self.owners = Draining(self.layout, memory), Owners(memory)
        self.session = self.decider.session
        self.never = NeverStarting(machine, self.session.needs)
        needs = self.session.needs
        self.tracker = Tracker(rules.warm_up_s, rules.margin, floor=rules.licence_floor, ledger=needs.corrects)
        self.promised = needs.metered is not None
        self.announced = Announced(Signals(self.cap, scale=RiseScale.of(machine)), self.cap)
        self.above = AboveCap(self.session.acts_by_power)
        self.settings = self.session.needs.pass_settings(machine.cap_scope)
        # Whether signals are needed: by parts in Python, or by what looks at load targets.
        self.looks_ahead = self.decider.asks or self.settings.by_target or bool(self.settings.looks_ahead)
        # A pass that looks ahead counts a running job at the last option of its window.
        self.asks_running = self.decider.asks or bool(self.settings.looks_ahead)
        self.pending = dict[bool, tuple[tuple[object, ...], SitePriority, PendingJobs]]()
        """By whether telemetry counts: the arrays of waiting jobs, and what they depend on."""
        self.occupied: tuple[list[int], list[int], frozenset[int], frozenset[int]] = ([], [], frozenset(), frozenset())
        """Running jobs of the last round, those that held units, these, and units held elsewhere."""
        self.ran = dict[JobKey, ObservedJob]()
        """Running jobs with their predictions, kept until they end."""
        self.released = set[JobKey]()
        """Jobs that this process released, so that they are not held because it never came to it."""
        self.inherited: tuple[JobKey, ...] = ()
        """Jobs of the last snapshot of a planner that this one takes over from."""
        self.frequencies = FrequencyChanges(self.layout, self.placement, memory, at_start=not rules.sets_frequency)
        self._left: tuple[Cap, int, Cap] | None = None

    @property
    def left(self) -> Cap:
        """What the site's cap leaves beside shared nodes, not below 0: the cap that the policy and its parts know.

        The same object while nothing changed.
        """
        uw = self.shared_count.uw
        if not uw:
            return self.cap
        if self._left is None or self._left[0] is not self.cap or self._left[1] != uw:
            self._left = self.cap, uw, Cap(self.cap.time_s, np.maximum(self.cap.cap_w - uw / 1e6, 0.0))
        return self._left[2]

    def plan(self, snapshot: Snapshot, power: Mapping[str, NodePower], *, telemetry_ok: bool) -> RoundState:
        """Return the plan for a snapshot; ``power`` and ``telemetry_ok``: see ``RoundState``."""
        return self.take(RoundState(self, snapshot, power, telemetry_ok))

    def take(self, now: RoundState) -> RoundState:
        """Take a round through all stages."""
        for one in self.stages:
            one(now)
        return now

    def refuse(self, key: JobKey, reason: str, now_s: float, longest_s: float = LONGEST_BACKOFF_S) -> None:
        """Store a start that failed: it is tried again after 30 s, then twice as long, up to an hour.

        A cluster that does not answer is no reason to wait longer for this job each time: always 30 s then.
        """
        longest_s = FIRST_BACKOFF_S if UNANSWERED in reason else longest_s
        before = self.memory.refused.get(key)
        times = 1 if before is None else before.times + 1
        wait_s = min(FIRST_BACKOFF_S * 2.0 ** min(times - 1, 20), longest_s)
        self.memory.refuse(Refused(key, now_s + wait_s, times, reason))

    def node_range(self, row: Job) -> tuple[int, int]:
        """Return the least and the greatest number of nodes of a waiting job."""
        return node_range(row, self.memory.marks.get(row.key, ()), self.layout)
