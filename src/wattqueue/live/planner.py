"""Plan one round without I/O: a snapshot of Slurm and measured power in, a goal for Slurm out.

``Planner.plan`` returns a ``Plan``: the goal, the view on which it was decided, and the figures that
the status shows. It runs in the order of an instant (semantics, rule 2), with a round in the place of
an instant:

1. classify jobs (``Sorter``) and nodes (``Nodes``), predict the jobs that are new;
2. count running jobs: their licence, or what was measured;
3. occupy units: running jobs first, then those under way;
4. the budget: the cap less idle watts is the pool that Slurm should hold;
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
- a running job that was given more nodes than were counted gets the watts of all of them (``_given_w``);
- a requeued job has its watts written again, because some releases of Slurm free them (``_lost_licences``);
- a running job without watts (from before the installation) is taken off the pool at its nodes' maximum
  (``_budget``), because no licence will ever stand for it;
- a measured licence never falls below a share of the maximum (``Tracker.floor``), and a reading that no powered
  node can have counts as the maximum (``tracking.trusted``).

State. The planner keeps ``memory`` (written through to the database), ``tracker``, and caches that can
be dropped at any time. The same snapshot planned twice gives a goal that needs no further write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.kernels import codes
from wattqueue.live.capfile import Announced
from wattqueue.live.cluster import Details, Job, JobKey, Node, Snapshot
from wattqueue.live.decision import Decider, Decision, Seen
from wattqueue.live.goal import Goal, JobGoal, NodeGoal
from wattqueue.live.job_tables import joined, offered
from wattqueue.live.placement import ChosenStart, Naming, NodeChoice
from wattqueue.live.predictor import JobRequest, ObservedJob, Predictor
from wattqueue.live.sorting import USER_HELD, Mode, Sorted, Sorter
from wattqueue.live.state.memory import Memory, Refused, ReleasedJob
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.tracking import CountedPower, Tracker, labels
from wattqueue.live.world import Busy, KnownPlacement, Layout, Nodes, Occupation
from wattqueue.model.jobs import Ints
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.signals import NO_SIGNALS, Cap, Signals
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.actions import Refusal, StartJob
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.policy import Policy
from wattqueue.policy.round import Round

PRIORITY_TOP = 2_000_000_000
"""Slurm priority of the first job that a round releases; the next ones count down, so Slurm keeps the order."""
FIRST_BACKOFF_S = 30.0
"""Back-off after the first refusal: about two scheduling periods of Slurm; doubles with each further refusal."""
HOLDS_WATTS = frozenset({"starting", "running", "suspended"})
"""States in which a job's watts can be changed; a completing job is about to give them back."""
REASSERTED = "reasserted"
"""Mark of a requeued job whose watts were written again."""
REQUEUED = "requeued"
"""Mark of a job that was seen running and then pending under the same key."""
RANGE = "nodes="
"""Mark with the range of nodes of a job before it was pinned, as ``nodes=1-4``."""
LONGEST_BACKOFF_S = 3600.0
"""Longest back-off: a job that could start again should not wait longer than this for being tried."""


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
    """Whether licences of running jobs follow what is measured."""
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
    """The cap in force, inf for none."""
    pool_w: int | None
    """Licences that Slurm should leave open; None where the licence is not configured."""
    counted_w: float
    """What the ledger counts in the cap's scope, idle watts included."""
    labels: dict[str, int]
    """Running jobs by where their watts come from."""
    refusals: tuple[Refusal, ...]
    """Actions that will not be carried out, with reasons; the parts see them in this round's view."""
    sorted: Sorted
    decision: Decision
    """The round of the session: what it was asked, and all that it answered."""


class PendingJobs(NamedTuple):
    """The waiting jobs as arrays, kept while the queue does not change."""

    jobs: KnownJobs
    prediction: Prediction
    row: Ints
    """Rows of ``prediction`` for ``jobs``."""
    entries: Entries
    window: tuple[NDArray[Any], NDArray[Any]]
    """First and last option of each entry."""
    rank: NDArray[np.float64] | None
    """Rank of each unit for each application of ``jobs``; None where the policy has none."""


class RunningJob(NamedTuple):
    """A running job and what it counts for."""

    row: Job
    option: int
    """The option of its start; the partition's highest frequency where the controller did not start it."""
    counted: CountedPower
    given_w: int
    """Licence that it must hold for the nodes that it was given; -1 where it carries none."""
    restarted: bool
    """Whether it was requeued before, or that is not known yet."""


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
    tracker: Tracker = field(default_factory=lambda: Tracker(10.0, 0.1))

    def __post_init__(self) -> None:
        """Create the parts that keep state from round to round."""
        rules, memory = self.rules, self.memory
        self.placement = NodeChoice(self.layout, self.policy, self.predictor, memory, rules.place_nodes)
        self.sorter = Sorter(self.layout, rules.mode, rules.start_timeout_s, self._request, marked=memory.marked)
        self.nodes = Nodes(self.layout)
        # caches by row identity, valid while the observer hands out the same row objects
        self._seen: dict[int, KnownPlacement] = {}
        self._counted: dict[int, RunningJob] = {}
        # waiting keys, telemetry_ok, the cap, and the arrays built from them
        self._last: tuple[Sequence[JobKey], bool, Cap, PendingJobs] | None = None
        self.tracker = Tracker(self.rules.settle_s, self.rules.margin, floor=self.rules.licence_floor)
        self.announced = Announced(Signals(self.cap), self.cap)
        self.settings = self.decider.session.needs.pass_settings(self.layout.machine.cap_scope)

    def plan(
        self,
        snapshot: Snapshot,
        power: Mapping[str, NodePower],
        *,
        telemetry_ok: bool,
        ended: Callable[[Sorted, float], None] = lambda *_: None,
    ) -> Plan:
        """Return the plan for a snapshot.

        ``power`` is the counted power of each node by name, empty without telemetry. ``telemetry_ok`` is false while
        telemetry is configured and lost: jobs are then admitted by the machine's maxima. ``ended`` is called with the
        sorted jobs and the time before new jobs are predicted: completions are learned first (semantics, rule 2).
        """
        now_s, memory = snapshot.taken_s, self.memory
        rows = self.sorter.sort(snapshot, memory.placed, memory.refused, memory.origin)
        self.placement.forget_names(snapshot)
        memory.mark(rows.user_held, USER_HELD)
        memory.mark(rows.user_released, USER_HELD, present=False)
        ended(rows, now_s)
        nodes = self.decider.orders.expected(snapshot.nodes, now_s)
        self.nodes.update(nodes)
        self.predictor.predict(self.sorter.fresh, now_s, self.sorter.requests)
        running = self._all_running(rows.running, power, now_s, snapshot.details)
        occupation = self._occupation(rows, running, now_s)
        base = self.nodes.base_uw
        # backfill of Slurm 22.05 with bf_licenses starts others on the licences of suspended jobs, and a resume
        # checks nothing: their watts leave the pool, like those of running jobs without a licence
        # jobs without a licence hold units and watts that Slurm does not count
        bare_w = sum(
            b.net_w for b in occupation.busy if b.row.active and (b.row.watts < 0 or b.row.state == "suspended")
        )
        cap_w, pool_w = self._budget(snapshot, base, bare_w)
        view = self._view(snapshot, rows, occupation, (cap_w, base), telemetry_ok=telemetry_ok)
        # goals in the order of their urgency; ``plan_writes`` sorts the writes by what they do to the pool
        late = self._late(rows)
        decision = self.decider.decide(
            view,
            self._seen_by_parts(rows, occupation, nodes) if self.decider.asks else None,
            lambda row: self._range(self.sorter.queue.row[rows.waiting[row]])[1],
        )
        if decision.now.base_added_uw:  # nodes that boot: their watts leave the pool in the round that wakes them
            base += decision.now.base_added_uw
            pool_w = self._budget(snapshot, base, bare_w)[1]
        started = [self.sorter.queue.row[rows.waiting[row]] for row in decision.rows[: self.rules.starts_a_cycle]]
        chosen = self.placement.choose(decision, started, self.rules.starts_a_cycle)
        goals, placed = self._starts(snapshot, chosen)
        back, why = self.placement.taken_back, "released outside WattQueue: the policy decides"
        adopt = [back(JobGoal(row.key, held=True, why=why), row) for row in rows.adopt]
        restored = self.placement.restored(snapshot, {one.row.key for one in chosen})
        hand = [JobGoal(row.key, held=False, why="heterogeneous jobs are scheduled by Slurm") for row in rows.hand_over]
        corrections = self._corrections(snapshot, running)
        licences = self._licences(snapshot, running, {goal.key for goal in corrections})
        goal = Goal(
            pool_w,
            (*corrections, *licences, *late, *adopt, *restored, *hand, *goals),
            *self._actions(decision.now, occupation),
            why_pool=f"cap {cap_w:.0f} W",
        )
        return Plan(
            goal, tuple(placed), decision.view, tuple(c.start for c in chosen), tuple(occupation.busy), cap_w, pool_w,
            sum(b.net_w for b in occupation.busy) + base / 1e6, labels(job.counted for job in running),
            decision.refusals, rows, decision,
        )  # fmt: skip

    def _seen_by_parts(self, rows: Sorted, occupation: Occupation, nodes: tuple[Node, ...]) -> Seen:
        """Return what the session compares with the round before."""
        busy = occupation.busy
        running, under_way = [b.row.key.name for b in busy if b.row.active], [row.key.name for row in rows.under_way]
        return Seen(nodes, [key.name for key in self.sorter.queue.keys()], running, under_way)  # noqa: SIM118

    def _actions(
        self, now: Round, occupation: Occupation
    ) -> tuple[tuple[NodeGoal, ...], tuple[tuple[JobKey, str], ...]]:
        """Return the nodes to power and the jobs to requeue, as the controls of the policy asked."""
        why = "a control of the policy"
        nodes = [NodeGoal(self.layout.names[u], s == codes.UNIT_BOOTING, why) for u, s in now.powered.items()]
        busy = {b.row.key.name: b.row.key for b in occupation.busy} if now.requeued else {}
        return tuple(nodes), tuple((busy[name], why) for name in now.requeued)

    def ran(self, busy: Busy) -> ObservedJob:
        """Return a running job with its request, its prediction and where it runs."""
        known, machine = self.predictor.of(busy.row.key), self.layout.machine
        watts = math.nan if known is None else float(known[0][busy.option])
        hardware, hertz = machine.partitions[busy.partition].name, float(machine.option_frequency_hz[busy.option])
        return ObservedJob(self.sorter.requests[busy.row.key], watts, hardware, hertz)

    def keep_ranges(self, snapshot: Snapshot, placed: Sequence[ReleasedJob]) -> None:
        """Store the range of nodes of jobs that are about to be pinned."""
        rows = [snapshot.by_key[one.key] for one in placed if one.key in snapshot.by_key]
        for row in rows:
            least, most = self._range(row)
            if most > least:
                self.memory.mark([row.key], f"{RANGE}{least}-{most}")

    def refuse(self, key: JobKey, reason: str, now_s: float) -> None:
        """Store a start that failed: it is tried again after 30 s, then twice as long, up to an hour."""
        before = self.memory.refused.get(key)
        times = 1 if before is None else before.times + 1
        wait_s = min(FIRST_BACKOFF_S * 2.0 ** (times - 1), LONGEST_BACKOFF_S)
        self.memory.refuse(Refused(key, now_s + wait_s, times, reason))

    # -- steps of a plan -----------------------------------------------------------------------
    def _request(self, row: Job, known: Details | None) -> JobRequest:
        """Return what the user of a row requested, for the estimator."""
        allowed = self.layout.allowed(row.partition)
        one = self.layout.machine.partitions[next(iter(allowed))].name if len(allowed) == 1 else ""
        app = known.app if known is not None else ""
        return JobRequest(row.key, f"u{row.uid}", app, one, self._nodes(row), row.walltime_s)

    def _nodes(self, row: Job) -> int:
        """Return the nodes that a job takes: what it was given, or the least number that it accepts."""
        return self._range(row)[0] if row.pending else row.nodes

    def _least_nodes(self, row: Job) -> int:
        """Return the least nodes of a waiting job: as stated, or what its CPUs need on the smallest allowed nodes.

        squeue shows one node for ``sbatch -n 64`` until the job starts.
        """
        partitions = [self.layout.machine.partitions[p] for p in self.layout.allowed(row.partition)]
        cores = [p.sockets_per_node * p.cores_per_socket for p in partitions]
        fewest = min((c for c in cores if c > 1), default=0)
        return max(row.nodes, math.ceil(row.cpus / fewest) if fewest else 1)

    def _range(self, row: Job) -> tuple[int, int]:
        """Return the least and the greatest number of nodes of a waiting job.

        A job that was pinned for a start which then did not happen shows the pinned number only; its
        own range was stored as a mark before the pin was written.
        """
        for mark in self.memory.marks.get(row.key, ()):
            if mark.startswith(RANGE):
                low, _, high = mark.removeprefix(RANGE).partition("-")
                return int(low), int(high)
        least = self._least_nodes(row)
        return least, max(least, row.most_nodes)

    def _given_w(self, row: Job) -> int:
        """Return the net watts that a running job must hold for the nodes that it was given.

        More than its licence where Slurm gave it more nodes than the controller counted (a range that was not pinned,
        or a release that reached Slurm while its update was lost), or other ones that draw more (``live.placement``).
        """
        placed = self.memory.placed.get(row.key)
        counted = len(expand(placed.nodes)) if placed is not None else 0
        first = int(self.layout.machine.option_start[self._partition(row)])
        if (placed is not None or not self.rules.track_running) and self.placement.falls_short(row, placed, first):
            return self.placement.drawn_w(row, first if placed is None else placed.option)
        if placed is None or not counted or row.nodes <= counted:
            return row.watts
        return max(row.watts, math.ceil(placed.watts / counted) * row.nodes)

    def _most(self, partition: int, row: Job) -> int:
        """Return the greatest net watts of a job's nodes in a machine partition."""
        return self.layout.most_net_w(partition) * row.nodes

    def _partition(self, row: Job) -> int:
        """Return the machine partition of a job: of its first node, else the first that it may use."""
        names = row.node_names
        unit = self.layout.unit.get(names[0]) if names else None
        if unit is not None:
            return int(np.searchsorted(self.layout.first, unit, side="right")) - 1
        return min(self.layout.allowed(row.partition), default=0)

    def _all_running(
        self, rows: Sequence[Job], power: Mapping[str, NodePower], now_s: float, details: Mapping[JobKey, Details]
    ) -> list[RunningJob]:
        """Return the running jobs with what they count for.

        Without measurements this depends on the row alone, so unchanged rows are taken from the last
        round.
        """
        if self.rules.track_running:
            return [self._running(row, power, now_s, details) for row in rows]
        known, self._counted = self._counted, {}
        for row in rows:
            job = known.get(id(row))
            if job is None or job.row is not row:
                job = self._running(row, power, now_s, details)
            self._counted[id(row)] = job
        return list(self._counted.values())

    def _running(
        self, row: Job, power: Mapping[str, NodePower], now_s: float, details: Mapping[JobKey, Details]
    ) -> RunningJob:
        """Return a running job with what it counts for: its licence, its maximum without one, or measured."""
        partition = self._partition(row)
        placed = self.memory.placed.get(row.key)
        option = placed.option if placed is not None else int(self.layout.machine.option_start[partition])
        most = self._most(partition, row)
        given_w = self._given_w(row) if row.watts >= 0 else -1
        licence = given_w if row.watts >= 0 else most
        figure = CountedPower(licence, licence, "predicted")
        if self.rules.track_running:
            known = self.predictor.of(row.key)
            expected = float(known[0][option]) if known is not None else math.nan
            names = row.node_names
            samples = [power[n] for n in names if n in power]
            if len(samples) < len(names):  # a node outside the machine: its share of the job is not measured
                samples = []
            self.tracker.observe(self.sorter.requests[row.key], row.start_s, expected, samples, now_s)
            idle_w = 0.0 if self.layout.machine.cap_scope == "jobs" else self._idle_w(partition) * row.nodes
            figure = self.tracker.figure(row.key, licence, idle_w, most)
        known_details = details.get(row.key)
        restarted = known_details is None or known_details.restarts > 0 or self.memory.marked(row.key, REQUEUED)
        return RunningJob(row, option, figure, given_w, restarted)

    def _idle_w(self, partition: int) -> float:
        """Return the idle watts of one node of a machine partition."""
        return self.layout.machine.partitions[partition].idle_w

    def _occupation(self, rows: Sorted, running: Sequence[RunningJob], now_s: float) -> Occupation:
        """Return who holds which unit: running jobs, then those under way on what they leave."""
        occupation = Occupation(self.layout, seen=self._seen)
        # placements are kept by the identity of rows; those of rows that are gone are dropped together
        if len(self._seen) > 2 * len(running) + 1000:
            self._seen.clear()
        for job in running:
            occupation.running(job.row, job.option, job.counted.net_w, now_s)
        for row in rows.under_way:
            # an adopted or foreign job has no stored release: its partition's first option, its own watts
            placed = self.memory.placed.get(row.key)
            partition = self._partition(row)
            option = placed.option if placed is not None else int(self.layout.machine.option_start[partition])
            wanted = row.requested or (expand(placed.nodes) if placed is not None else ())
            net_w = row.watts if row.watts >= 0 else self._most(partition, row)
            occupation.under_way(row, partition, option, net_w, wanted, now_s)
        return occupation

    def _budget(self, snapshot: Snapshot, base: int, bare_w: int) -> tuple[float, int | None]:
        """Return the cap for the policy, and the pool that Slurm should hold: the cap less idle watts, whole.

        The pool cannot be greater than the licence's total in slurm.conf. ``bare_w`` is what running
        jobs without a licence may draw (they started before the installation): Slurm does not count
        them, so the pool is smaller by it. The policy gets the cap that the pool stands for, so that it
        never plans on watts that Slurm will not admit; its own ledger counts the bare jobs.
        """
        cap_w = float(self.cap.at(np.array([snapshot.taken_s]))[0])
        total = snapshot.pool.total if snapshot.pool is not None else None
        if not math.isfinite(cap_w):
            return (cap_w if total is None else base / 1e6 + total + bare_w), total
        room = math.floor(cap_w - base / 1e6 + 1e-6) - bare_w
        room = max(0, room if total is None else min(room, total))
        return base / 1e6 + room + bare_w, room

    def _view(
        self,
        snapshot: Snapshot,
        rows: Sorted,
        occupation: Occupation,
        budget: tuple[float, int],
        *,
        telemetry_ok: bool,
    ) -> PolicySnapshot:
        cap_w, base = budget
        pending = self._pending(rows, telemetry_ok=telemetry_ok)
        busy = occupation.busy
        row = np.concatenate((pending.row, np.zeros(len(busy), np.int32)))
        running = occupation.as_running(len(pending.jobs))
        unusable = occupation.unusable(self.nodes.usable, self.nodes.hidden(occupation.taken))
        elsewhere_w = float(self._elsewhere_w(snapshot, rows, busy))
        prediction = replace(pending.prediction, row=row)
        return PolicySnapshot(
            snapshot.taken_s, joined(pending.jobs, busy), self.layout.machine, prediction, pending.entries,
            pending.window, self.settings, running, cap_w, elsewhere_w, base, unusable, pending.rank,
            signals=self.announced.at(self.cap, snapshot.taken_s) if self.decider.asks else NO_SIGNALS,
        )  # fmt: skip

    def _elsewhere_w(self, snapshot: Snapshot, rows: Sorted, busy: Sequence[Busy]) -> int:
        """Return watts of the pool that are not for the policy to use.

        They are held by running jobs outside the machine, or by jobs that no row shows: the pool is
        read after the jobs, so one may have started in between. A job under way may be that very job;
        its watts are counted already and account for some of the difference.
        """
        if snapshot.pool is None or self.rules.mode != "control":
            return 0
        ours = {id(job.row) for job in busy}
        outside = sum(max(row.watts, 0) for row in rows.running if id(row) not in ours)
        known = sum(max(row.watts, 0) for row in (*rows.running, *rows.under_way))
        return outside + max(0, snapshot.pool.used - known)

    def _pending(self, rows: Sorted, *, telemetry_ok: bool) -> PendingJobs:
        """Return the waiting jobs as arrays, those of the last round while the queue did not change."""
        last = self._last
        if last is not None and (last[0] is rows.waiting and last[1] == telemetry_ok and last[2] is self.cap):
            return last[3]
        queue, machine = self.sorter.queue, self.layout.machine
        keys = queue.keys()
        without: np.ndarray | None = None
        if len(rows.waiting) < len(keys):
            kept = set(rows.waiting)
            without = np.fromiter((key not in kept for key in keys), np.bool_, len(keys))
        jobs, allowed = queue.table(without)
        prediction = self.predictor.prediction(rows.waiting, telemetry_ok=telemetry_ok)
        jobs, prediction, rank = self.placement.tell_apart(jobs, prediction, telemetry_ok=telemetry_ok)
        entries = self._allowed(self.policy.order.entries(jobs, prediction, machine), allowed)
        window = self.policy.frequency.window(jobs, entries, prediction, machine, Signals(self.cap))
        row = np.zeros(0, np.int32) if prediction.row is None else prediction.row
        entries, window = offered(entries, window, prediction)
        pending = PendingJobs(jobs, prediction, row, entries, window, rank)
        self._last = (rows.waiting, telemetry_ok, self.cap, pending)
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
                    self._lost_licences(snapshot, row.key),
                )
            )  # fmt: skip
            total_w = power_w * len(start.nodes)
            placed.append(
                ReleasedJob(
                    row.key, snapshot.taken_s, partition, start.option, watts, total_w, limit_s, compress(names)
                )
            )
        return goals, placed

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

    def _lost_licences(self, snapshot: Snapshot, key: JobKey) -> bool:
        """Whether Slurm may hold no watts for a job although it shows them.

        Slurm 25.05 and 25.11.0 to 25.11.6 free the licences of a job that is requeued and do not take
        them again when it starts; the text of its request stays as it was. So the watts of every
        requeued job are written once after each requeue, whatever they show.
        """
        details, marked = snapshot.details.get(key), self.memory.marked
        requeued = (details is not None and details.restarts > 0) or marked(key, REQUEUED)
        return requeued and not marked(key, REASSERTED)

    def _corrections(self, snapshot: Snapshot, running: Sequence[RunningJob]) -> list[JobGoal]:
        """Return goals for running jobs whose licence in Slurm is not what they may draw.

        These are written whether or not the pool has room: the watts are in use already, and a pool
        that shows them keeps others from starting.
        """
        goals = []
        # two fields of each running job, so that a round of ten thousand of them stays cheap
        for job in [job for job in running if job.restarted or job.given_w > job.row.watts]:
            row, lost, wanted = job.row, self._lost_licences(snapshot, job.row.key), job.given_w
            if row.watts >= 0 and row.state in HOLDS_WATTS and (lost or wanted > row.watts):
                why = "requeued: Slurm may have freed its watts" if lost else f"it was given {row.nodes} nodes"
                goals.append(JobGoal(row.key, watts=wanted, why=why, reassert=lost))
        return goals

    def _licences(
        self, snapshot: Snapshot, running: Sequence[RunningJob], corrected: Container[JobKey]
    ) -> list[JobGoal]:
        """Return goals for licences that follow what was measured.

        Lowering needs no room. Raising takes room that is free in the pool now, in the order of the
        jobs: Slurm does not check it on a running job (it would let the pool be exceeded).
        """
        if not self.rules.track_running or snapshot.pool is None:
            return []
        # the greater of what Slurm counts and what the rows show: either list may be a moment older
        held = max(snapshot.pool.used, sum(max(job.row.watts, 0) for job in running))
        room = snapshot.pool.open_w - held
        goals = []
        for job in running:
            now, wanted = job.row.watts, job.counted.licence
            if now < 0 or wanted == now or job.row.key in corrected or (wanted > now and wanted - now > room):
                continue
            room -= max(0, wanted - now)
            word = "lowered" if wanted < now else "raised"
            goals.append(JobGoal(job.row.key, watts=wanted, why=f"{word} to measured power plus the margin"))
        return goals
