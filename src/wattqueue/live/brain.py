"""One period's thinking, without I/O: a snapshot and what was measured in, what should be out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.formats.hostlist import compress, expand
from wattqueue.live.predictor import Asked, Predictor, Ran
from wattqueue.live.slurm.goal import Goal, JobGoal, NodeGoal
from wattqueue.live.slurm.snapshot import Details, JobKey, JobRow, Snapshot
from wattqueue.live.sorting import Mode, Sorted, Sorter
from wattqueue.live.state.memory import Memory, Placed, Refused
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.tracking import Figure, Tracker
from wattqueue.live.world import NO_LIMIT_S, Busy, Layout, Nodes, Occupation, Seen
from wattqueue.model.jobs import Ints, Jobs, Labels
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.actions import Action, Refusal, Requeue, StartJob, StopNode, WakeNode
from wattqueue.policy.build import PassSettings
from wattqueue.policy.decide import Snapshot as PolicySnapshot
from wattqueue.policy.decide import decide
from wattqueue.policy.policy import Policy

PRIORITY_TOP = 2_000_000_000
FIRST_BACKOFF_S = 30.0
LONGEST_BACKOFF_S = 3600.0
Decide = Callable[[PolicySnapshot], Sequence[StartJob]]


@dataclass(frozen=True)
class Rules:
    """What a site settled beside the policy."""

    mode: Mode = "observe"
    start_timeout_s: float = 30.0
    starts_a_cycle: int = 200
    write_priority: bool = True
    place_nodes: bool = False
    power_nodes: bool = False
    track_running: bool = False
    settle_s: float = 10.0
    margin: float = 0.1
    sets_frequency: bool = False


@dataclass(frozen=True)
class Thought:
    """What one period came to."""

    goal: Goal
    placed: tuple[Placed, ...]
    view: PolicySnapshot
    starts: tuple[StartJob, ...]
    busy: tuple[Busy, ...]
    cap_w: float
    pool_w: int | None
    counted_w: float
    labels: dict[str, int]
    refusals: tuple[Refusal, ...]
    sorted: Sorted
    actions: tuple[Action, ...] = ()


class Asking(NamedTuple):
    """What waits, as parts are asked about it: table, predictions, entries and their options."""

    jobs: Jobs
    prediction: Prediction
    row: Ints
    entries: Entries
    window: tuple[NDArray[Any], NDArray[Any]]


class Running(NamedTuple):
    """A running job beside what it counts for."""

    row: JobRow
    option: int
    figure: Figure


@dataclass
class Brain:
    """Builds the view, calls ``decide``, and says what should be. All state is in ``memory`` and ``tracker``."""

    layout: Layout
    policy: Policy
    cap: Cap
    rules: Rules
    memory: Memory
    predictor: Predictor
    decide: Decide = decide
    tracker: Tracker = field(default_factory=lambda: Tracker(10.0, 0.1))

    def __post_init__(self) -> None:
        self.sorter = Sorter(self.layout, self.rules.mode, self.rules.start_timeout_s, self._ask)
        self.nodes = Nodes(self.layout)
        self._seen: dict[int, Seen] = {}
        self._ran: dict[int, Running] = {}
        self._last: tuple[Sequence[JobKey], bool, Asking] | None = None
        self.tracker = Tracker(self.rules.settle_s, self.rules.margin)
        self.settings = PassSettings(
            self.policy.backfill.code,  # type: ignore[union-attr]
            getattr(self.policy.backfill, "queue_depth", 0),
            self.layout.machine.cap_scope,
            getattr(self.policy.ledger, "terms", None),
        )

    def think(self, snapshot: Snapshot, power: Mapping[str, NodePower], *, believed: bool) -> Thought:
        """What should be, given a snapshot and the power of each node; ``believed`` is false without telemetry."""
        now_s, memory = snapshot.taken_s, self.memory
        rows = self.sorter.sort(snapshot, memory.placed, memory.refused, memory.origin)
        self.nodes.look(snapshot)
        self.predictor.ask(self.sorter.fresh, now_s, self.sorter.asked)
        running = self._all_running(rows.running, power, now_s)
        occupation = self._occupation(rows, running, now_s)
        base = self.nodes.base_uw
        cap_w, pool_w = self._budget(snapshot, base)
        view = self._view(snapshot, rows, occupation, (cap_w, base), believed=believed)
        starts = tuple(self.decide(view)[: self.rules.starts_a_cycle])
        goals, placed = self._starts(rows.waiting, starts, now_s)
        late, refusals = self._late(rows, now_s)
        adopt = [JobGoal(row.key, held=True, why="released by someone else: the policy decides") for row in rows.adopt]
        hand = [JobGoal(row.key, held=False, why="a heterogeneous job is Slurm's own") for row in rows.hand_over]
        licences = self._licences(snapshot, running)
        goal = Goal(pool_w, (*licences, *late, *adopt, *hand, *goals), why_pool=f"cap {cap_w:.0f} W")
        return Thought(
            goal, tuple(placed), view, starts, tuple(occupation.busy), cap_w, pool_w,
            sum(b.net_w for b in occupation.busy) + base / 1e6, _labels(running), refusals, rows,
        )  # fmt: skip

    def with_actions(self, thought: Thought, actions: Sequence[Action]) -> Thought:
        """Add what the policy's controls want: nodes on and off, jobs back to the queue."""
        nodes, requeue, refusals = [], [], list(thought.refusals)
        for action in actions:
            if isinstance(action, StopNode | WakeNode) and self.rules.power_nodes:
                name = self.layout.names[action.node]
                nodes.append(NodeGoal(name, isinstance(action, WakeNode), "the policy's control"))
            elif isinstance(action, Requeue):
                busy = [b for b in thought.busy if b.row.key.name == str(thought.view.jobs.job_id[action.job])]
                requeue += [(b.row.key, "the policy's control") for b in busy]
                if not busy:
                    refusals.append(Refusal(action, "it does not run yet"))
            else:
                refusals.append(Refusal(action, "needs an agent on the node"))
        goal = thought.goal._replace(nodes=tuple(nodes), requeue=tuple(requeue))
        return replace(thought, goal=goal, refusals=tuple(refusals), actions=tuple(actions))

    def ran(self, busy: Busy) -> Ran:
        """What was asked for a running job, the watts of one node that were predicted for it, and where it runs."""
        known, machine = self.predictor.of(busy.row.key), self.layout.machine
        watts = math.nan if known is None else float(known[0][busy.option])
        hardware, hertz = machine.partitions[busy.partition].name, float(machine.option_frequency_hz[busy.option])
        return Ran(self.sorter.asked[busy.row.key], watts, hardware, hertz)

    def refuse(self, key: JobKey, reason: str, now_s: float) -> None:
        """A start that came to nothing: tried again after 30 s, then twice as long, up to an hour."""
        before = self.memory.refused.get(key)
        times = 1 if before is None else before.times + 1
        wait_s = min(FIRST_BACKOFF_S * 2.0 ** (times - 1), LONGEST_BACKOFF_S)
        self.memory.refuse(Refused(key, now_s + wait_s, times, reason))

    # -- parts of a thought --------------------------------------------------------------------
    def _ask(self, row: JobRow, known: Details | None) -> Asked:
        allowed = self.layout.allowed(row.partition)
        one = self.layout.machine.partitions[next(iter(allowed))].name if len(allowed) == 1 else ""
        app = known.app if known is not None else ""
        return Asked(row.key, f"u{row.uid}", app, one, self._nodes(row), row.walltime_s)

    def _nodes(self, row: JobRow) -> int:
        """Nodes that a job takes: as stated, or what its CPUs need on the smallest nodes it may use."""
        if not row.pending:
            return row.nodes
        partitions = [self.layout.machine.partitions[p] for p in self.layout.allowed(row.partition)]
        cores = [p.sockets_per_node * p.cores_per_socket for p in partitions]
        fewest = min((c for c in cores if c > 1), default=0)
        return max(row.nodes, math.ceil(row.cpus / fewest) if fewest else 1)

    def _most(self, partition: int, row: JobRow) -> int:
        return self.layout.most_net_w(partition) * row.nodes

    def _partition(self, row: JobRow) -> int:
        names = expand(row.node_list)
        unit = self.layout.unit.get(names[0]) if names else None
        if unit is not None:
            return int(np.searchsorted(self.layout.first, unit, side="right")) - 1
        return min(self.layout.allowed(row.partition), default=0)

    def _all_running(self, rows: Sequence[JobRow], power: Mapping[str, NodePower], now_s: float) -> list[Running]:
        """Running jobs and what they count for; without measurements a row that is unchanged counts what it did."""
        if self.rules.track_running:
            return [self._running(row, power, now_s) for row in rows]
        known, self._ran = self._ran, {}
        for row in rows:
            job = known.get(id(row))
            self._ran[id(row)] = job if job is not None and job.row is row else self._running(row, power, now_s)
        return list(self._ran.values())

    def _running(self, row: JobRow, power: Mapping[str, NodePower], now_s: float) -> Running:
        partition = self._partition(row)
        placed = self.memory.placed.get(row.key)
        option = placed.option if placed is not None else int(self.layout.machine.option_start[partition])
        most = self._most(partition, row)
        licence = row.watts if row.watts >= 0 else most
        figure = Figure(licence, licence, "predicted")
        if self.rules.track_running:
            known = self.predictor.of(row.key)
            expected = float(known[0][option]) if known is not None else math.nan
            names = expand(row.node_list)
            samples = [power[n] for n in names if n in power]
            if len(samples) < len(names):
                samples = []
            self.tracker.see(self.sorter.asked[row.key], row.start_s, expected, samples, now_s)
            idle_w = 0.0 if self.layout.machine.cap_scope == "jobs" else self._idle_w(partition) * row.nodes
            figure = self.tracker.figure(row.key, licence, idle_w, most)
        return Running(row, option, figure)

    def _idle_w(self, partition: int) -> float:
        return self.layout.machine.partitions[partition].idle_w

    def _occupation(self, rows: Sorted, running: Sequence[Running], now_s: float) -> Occupation:
        occupation = Occupation(self.layout, seen=self._seen)
        if len(self._seen) > 2 * len(running) + 1000:
            self._seen.clear()
        for job in running:
            occupation.running(job.row, job.option, job.figure.net_w, now_s)
        for row in rows.under_way:
            placed = self.memory.placed.get(row.key)
            partition = self._partition(row)
            option = placed.option if placed is not None else int(self.layout.machine.option_start[partition])
            wanted = expand(row.requested) or (expand(placed.nodes) if placed is not None else ())
            net_w = row.watts if row.watts >= 0 else self._most(partition, row)
            occupation.under_way(row, partition, option, net_w, wanted, now_s)
        return occupation

    def _budget(self, snapshot: Snapshot, base: int) -> tuple[float, int | None]:
        """The cap that the policy is told, and the pool that Slurm is to hold: the cap less idle watts, whole."""
        cap_w = float(self.cap.at(np.array([snapshot.taken_s]))[0])
        total = snapshot.pool.total if snapshot.pool is not None else None
        if not math.isfinite(cap_w):
            return (cap_w if total is None else base / 1e6 + total), total
        room = math.floor(cap_w - base / 1e6 + 1e-6)
        room = max(0, room if total is None else min(room, total))
        return base / 1e6 + room, room

    def _view(
        self, snapshot: Snapshot, rows: Sorted, occupation: Occupation, budget: tuple[float, int], *, believed: bool
    ) -> PolicySnapshot:
        cap_w, base = budget
        asking = self._asking(rows, believed=believed)
        busy = occupation.busy
        row = np.concatenate((asking.row, np.zeros(len(busy), np.int32)))
        running = occupation.as_running(len(asking.jobs))
        unusable = occupation.unusable(self.nodes.usable, self.nodes.hidden(occupation.taken))
        elsewhere_w = float(self._elsewhere_w(snapshot, rows, busy))
        return PolicySnapshot(
            snapshot.taken_s, _joined(asking.jobs, busy), self.layout.machine, replace(asking.prediction, row=row),
            asking.entries, asking.window, self.settings, running, cap_w, elsewhere_w, base, unusable,
        )  # fmt: skip

    def _elsewhere_w(self, snapshot: Snapshot, rows: Sorted, busy: Sequence[Busy]) -> int:
        """Watts of the pool that jobs outside the machine hold, and what no row accounts for.

        A job under way may have started since its row was read, so its watts account for some of the pool.
        """
        if snapshot.pool is None or self.rules.mode != "control":
            return 0
        ours = {id(job.row) for job in busy}
        outside = sum(max(row.watts, 0) for row in rows.running if id(row) not in ours)
        known = sum(max(row.watts, 0) for row in (*rows.running, *rows.under_way))
        return outside + max(0, snapshot.pool.used - known)

    def _asking(self, rows: Sorted, *, believed: bool) -> Asking:
        """Waiting jobs with their predictions, entries and frequencies; as before where the queue is as before."""
        if self._last is not None and self._last[0] is rows.waiting and self._last[1] == believed:
            return self._last[2]
        queue, machine = self.sorter.queue, self.layout.machine
        keys = queue.keys()
        without: np.ndarray | None = None
        if len(rows.waiting) < len(keys):
            kept = set(rows.waiting)
            without = np.fromiter((key not in kept for key in keys), np.bool_, len(keys))
        jobs, allowed = queue.table(without)
        prediction = self.predictor.prediction(rows.waiting, believed=believed)
        entries = self._allowed(self.policy.order.entries(jobs, prediction, machine), allowed)
        window = self.policy.frequency.window(entries, prediction, machine)
        row = np.zeros(0, np.int32) if prediction.row is None else prediction.row
        entries, window = _offered(entries, window, prediction.power_w[row])
        asking = Asking(jobs, prediction, row, entries, window)
        self._last = (rows.waiting, believed, asking)
        return asking

    def _allowed(self, entries: Entries, allowed: np.ndarray) -> Entries:
        """Leave out partitions that a job's own list does not name; ``allowed`` (n,) holds them as bits."""
        if len(self.layout.machine.partitions) == 1:
            return entries
        keep = (allowed[entries.job] >> entries.partition) & 1 == 1
        return Entries(entries.job[keep], entries.partition[keep], entries.priority[keep])

    def _starts(
        self, waiting: Sequence[JobKey], starts: Sequence[StartJob], now_s: float
    ) -> tuple[list[JobGoal], list[Placed]]:
        goals, placed = [], []
        for k, start in enumerate(starts):
            row = self.sorter.queue.row[waiting[start.job]]
            known = self.predictor.of(row.key)
            if known is None:  # a decide of someone else's started what was not asked about
                continue
            power_w, factor = float(known[0][start.option]), float(known[1][start.option])
            watts = int(self.layout.net_w(known[0])[start.option]) * len(start.nodes)
            partition = self.layout.name_for(start.partition, row.partition)
            names = tuple(self.layout.names[u] for u in start.nodes)
            limit_s = row.walltime_s * max(1.0, factor)
            why = f"{self.policy.name} starts it: {watts} W of the budget"
            hertz = float(self.layout.machine.option_frequency_hz[start.option])
            khz = round(hertz / 1e3) if self.rules.sets_frequency and not math.isnan(hertz) else None
            priority = PRIORITY_TOP - k if self.rules.write_priority else None
            nodes = names if self.rules.place_nodes else None
            goals.append(JobGoal(row.key, False, partition, watts, nodes, limit_s, priority, khz, None, why))
            total_w = power_w * len(start.nodes)
            placed.append(Placed(row.key, now_s, partition, start.option, watts, total_w, limit_s, compress(names)))
        return goals, placed

    def _late(self, rows: Sorted, now_s: float) -> tuple[list[JobGoal], tuple[Refusal, ...]]:
        goals, refusals = [], []
        for row in rows.late:
            why = f"Slurm did not start it within {self.rules.start_timeout_s:.0f} s: {row.reason}"
            goals.append(JobGoal(row.key, held=True, why=why))
            placed = self.memory.placed[row.key]
            refusals.append(Refusal(StartJob(row.job_id, 0, (), placed.option), why))
        return goals, tuple(refusals)

    def _licences(self, snapshot: Snapshot, running: Sequence[Running]) -> list[JobGoal]:
        """Licences that follow what was measured: down at once, up only into room that nobody holds."""
        if not self.rules.track_running or snapshot.pool is None:
            return []
        held = max(snapshot.pool.used, sum(max(job.row.watts, 0) for job in running))
        room = snapshot.pool.open_w - held
        goals = []
        for job in running:
            now, wanted = job.row.watts, job.figure.licence
            if now < 0 or wanted == now or (wanted > now and wanted - now > room):
                continue
            room -= max(0, wanted - now)
            word = "lowered to" if wanted < now else "raised to"
            goals.append(JobGoal(job.row.key, watts=wanted, why=f"{word} what was measured, and a margin"))
        return goals


def _labels(running: Sequence[Running]) -> dict[str, int]:
    out: dict[str, int] = {}
    for job in running:
        out[job.figure.label] = out.get(job.figure.label, 0) + 1
    return out


def _joined(first: Jobs, busy: Sequence[Busy]) -> Jobs:
    """Waiting jobs, then busy ones, as one table; of the latter nobody asks who they are."""
    if not busy:
        return first
    count = len(busy)
    wall = np.fromiter((min(b.row.walltime_s, NO_LIMIT_S) for b in busy), np.float64, count)

    def more(labels: Labels) -> Labels:
        return Labels(np.concatenate((labels.codes, np.full(count, -1, np.int32))), labels.names)

    return replace(
        first,
        job_id=np.concatenate((first.job_id, np.array([b.row.key.name for b in busy], object))),
        submit_s=np.concatenate((first.submit_s, np.fromiter((b.row.key.submit_s for b in busy), np.float64, count))),
        nodes=np.concatenate((first.nodes, np.fromiter((len(b.units) for b in busy), np.int32, count))),
        walltime_s=np.concatenate((first.walltime_s, wall)),
        runtime_s=np.concatenate((first.runtime_s, wall)),
        user=more(first.user),
        app=more(first.app),
        partition=more(first.partition),
    )


def _offered(
    entries: Entries, window: tuple[np.ndarray, np.ndarray], power_w: np.ndarray
) -> tuple[Entries, tuple[np.ndarray, np.ndarray]]:
    """Leave out entries whose watts are infinite: options that an estimator never offers."""
    first, last = (np.asarray(side) for side in window)
    keep = np.isfinite(power_w[entries.job, first]) & np.isfinite(power_w[entries.job, last])
    if keep.all():
        return entries, (first, last)
    return Entries(entries.job[keep], entries.partition[keep], entries.priority[keep]), (first[keep], last[keep])
