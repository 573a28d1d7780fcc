"""A cluster that lives in memory, a driver like any other, which does what Slurm 22.05 was seen to do.

Time is the test's own. ``fault`` is asked before each list that is read and each write; it may have it fail, be carried
out but reported as failed (``lost``), or, a write, be accepted and forgotten (``ignored``) or not be answered
(``silent``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from wattqueue.live.cluster import (
    FOREIGN,
    NO_CONSTRAINTS,
    UNANSWERED,
    ChangeJob,
    ClusterError,
    ContinueJob,
    Details,
    HeldBy,
    HoldJob,
    Job,
    JobFields,
    JobKey,
    Node,
    Pool,
    Power,
    PowerNode,
    ReleaseJob,
    RequeueJob,
    SetDomains,
    SetDrain,
    SetJobFrequency,
    SetPool,
    SetPriority,
    SiteConstraints,
    Snapshot,
    State,
    StopJob,
    Write,
    apply_each,
)
from wattqueue.live.driver import Finding

DRAIN_REASON = "wattqueue: load target"
HELD_BY: dict[str, HeldBy] = {
    "JobHeldUser": "user", "JobHeldAdmin": "operator", "launch failed requeued held": "failed",
}  # fmt: skip


@dataclass
class FakeJob:
    """A job of the fake. ``runtime_s`` is how long it runs once started (its own secret)."""

    id: int
    name: str
    submit_s: float
    nodes: int
    runtime_s: float
    limit_s: float
    partition: str
    licences: dict[str, int]
    app: str = "app"
    uid: int = 1000
    priority: int = 1
    state: str = "PENDING"
    reason: str = "None"
    mark: str = ""
    comment: str = ""
    start_s: float = -1.0
    end_s: float = -1.0
    held_nodes: tuple[str, ...] = ()
    requested: tuple[str, ...] = ()
    most_nodes: int = 0
    """The maximum of a range of nodes (``-N 1-4``); the fake gives as many as are free, like Slurm."""
    estimated_nodes: int = 0
    """What Slurm shows for the least number once it tried to start the job: its estimate."""
    excluded: tuple[str, ...] = ()
    least_nodes: int = 0
    """Nodes that it really needs; pinned to fewer it is held with BadConstraints."""
    begin_s: float = 0.0
    dependency: str = "(null)"
    restarts: int = 0
    starts: int = 0
    stopped_s: float = -1.0
    """Since when its processes stand still; -1 where they do not. Its time limit runs on."""
    account: str = "all"
    project: str = ""
    cpus: int = 0
    """CPUs of one node that it needs in a partition that shares nodes; 0 for whole nodes."""
    array: str = ""
    """The array of which it is a task, with its number and the tasks that may run at once (0 for all)."""
    task: int = 0
    throttle: int = 0
    whole: str = ""
    """The job of several components of which it is one, with its number and how many there are."""
    component: int = 0
    parts: int = 1
    freed: bool = False
    """Whether Slurm counts none of its licences though it shows them (``frees_requeued``)."""

    @property
    def counted_w(self) -> int:
        """Watts that Slurm counts for it while it runs."""
        return 0 if self.freed else self.licences.get("watts", 0)


@dataclass
class FakeSlurm:
    """Nodes by name with their partition; jobs start in order of priority where nodes and licences are free."""

    partitions: dict[str, list[str]]
    total_w: int
    cpus: int = 16
    now_s: float = 1_000_000.0
    boot_s: float = 2.0
    start_delay_s: float = 0.0
    hold_new: bool = True
    shared: frozenset[str] = frozenset()
    """Partitions that share nodes: their jobs take CPUs of one node, and job_submit.lua leaves them alone."""
    returned_twice_w: int = 0
    """Licences that Slurm counts too few: a restart of slurmctld while jobs completed leaves it so."""
    frees_requeued: bool = False
    """As Slurm 25.05 and 25.11.0 to 25.11.6: a requeue frees a job's licences for good, until they are changed."""
    requeue_delay_s: float = 5.0
    """A requeued job does not start before so long (the real one waits for two minutes)."""
    fault: Callable[[str | Write], str | None] = lambda _: None
    jobs: dict[int, FakeJob] = field(default_factory=dict)
    power: dict[str, tuple[Power, float]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    drained: dict[str, str] = field(default_factory=dict)
    """Nodes that take no new job, with the reason."""
    reserved_w: int = 0
    """Watts withheld from jobs."""
    frequencies: dict[str, int] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    """Writes that were carried out."""
    calls: list[str | Write] = field(default_factory=list)
    peak_w: int = 0
    last_id: int = 0
    last_priority: int = 4_000_000_000
    findings: Sequence[Finding] = ()
    domains: dict[str, int] = field(default_factory=dict)
    """Totals of the licences of power domains."""
    domains_aside: dict[str, int] = field(default_factory=dict)
    """What is withheld of each."""
    layers: Sequence[tuple[Collection[str], int]] = ()
    """Nodes and count of each layer of the hierarchical resource ``power``: 26.05."""
    rules: SiteConstraints = NO_CONSTRAINTS
    """What the site has settled."""
    name: str = "a fake Slurm"
    _rows: dict[int, Job] = field(default_factory=dict)
    _texts: dict[int, Details] = field(default_factory=dict)
    _last_nodes: tuple[Node, ...] = ()

    # -- the world -----------------------------------------------------------------------------
    def submit(self, nodes: int, runtime_s: float, *, watts: int, limit_s: float = 3600.0, **more: object) -> FakeJob:
        """A job arrives; with ``hold_new`` as our job_submit.lua would leave it."""
        self.last_id += 1
        partition = str(more.pop("partition", next(iter(self.partitions))))
        job = FakeJob(
            self.last_id,
            str(self.last_id),
            float(int(self.now_s)),
            nodes,
            runtime_s,
            limit_s,
            partition,
            {"watts": watts},
        )
        job = replace(job, **more)  # type: ignore[arg-type]
        if self.shared.issuperset(partition.split(",")):
            pass
        elif self.hold_new:
            job.priority, job.reason, job.mark = 0, "JobHeldUser", job.mark or "wattqueue:held"
        else:
            self.last_priority -= 1
            job.priority = self.last_priority
        self.jobs[job.id] = job
        return job

    def submit_array(self, tasks: int, nodes: int, runtime_s: float, *, watts: int, **more: object) -> list[FakeJob]:
        """An array arrives: its tasks have one submit time, and names of their own."""
        jobs = [self.submit(nodes, runtime_s, watts=watts, **more) for _ in range(tasks)]  # type: ignore[arg-type]
        for k, job in enumerate(jobs):
            job.array, job.task, job.name = str(jobs[0].id), k, f"{jobs[0].id}_{k}"
        return jobs

    def submit_whole(self, partitions: Sequence[str], runtime_s: float, *, watts: int, **more: object) -> list[FakeJob]:
        """A job of several components arrives, each of one node; each starts where it fits, unlike in Slurm."""
        jobs = [
            self.submit(1, runtime_s, watts=watts, partition=name, mark="wattqueue:needs-controller", **more)  # type: ignore[arg-type]
            for name in partitions
        ]
        for k, job in enumerate(jobs):
            job.whole, job.component, job.parts, job.name = str(jobs[0].id), k, len(jobs), f"{jobs[0].id}+{k}"
        return jobs

    def submit_shared(self, cpus: int, runtime_s: float, partition: str) -> FakeJob:
        """A job of some CPUs arrives in a partition that shares nodes: without watts, and held by nobody."""
        self.last_priority -= 1
        own = {"priority": self.last_priority, "cpus": cpus, "licences": dict[str, int]()}
        return self.submit(1, runtime_s, watts=0, partition=partition, **own)  # type: ignore[arg-type]

    @property
    def used_w(self) -> int:
        """Licences that Slurm counts as held by running jobs."""
        return max(0, self.held_w - self.returned_twice_w)

    @property
    def held_w(self) -> int:
        """Licences that running jobs hold."""
        return sum(j.counted_w for j in self.running())

    @property
    def drawn_w(self) -> int:
        """Watts that running jobs may draw, whether Slurm counts them or not."""
        return sum(j.licences.get("watts", 0) for j in self.running() if j.stopped_s < 0)

    @property
    def open_w(self) -> int:
        """What running jobs may hold together."""
        return self.total_w - self.reserved_w

    def running(self) -> list[FakeJob]:
        """Running jobs in order of their ids."""
        return [j for j in self.jobs.values() if j.state == "RUNNING"]

    def requeue(self, job: FakeJob) -> None:
        """A running job goes back to the queue (a failed node, an administrator); Slurm resets its submit time."""
        job.stopped_s = -1.0
        job.state, job.reason, job.submit_s, job.start_s, job.held_nodes = "PENDING", "BeginTime", self.now_s, -1.0, ()
        job.begin_s, job.restarts, job.freed = self.now_s + self.requeue_delay_s, job.restarts + 1, self.frees_requeued

    def step(self, seconds: float = 1.0) -> None:
        """Let time pass: jobs end, nodes boot, Slurm schedules."""
        self.now_s += seconds
        for job in self.running():
            if job.stopped_s >= 0 and self.now_s < job.start_s + job.limit_s:
                continue
            limit = min(job.runtime_s, job.limit_s) if job.stopped_s < 0 else job.limit_s
            if self.now_s >= job.start_s + limit:
                job.state = "COMPLETED" if job.runtime_s <= job.limit_s and job.stopped_s < 0 else "TIMEOUT"
                job.end_s = job.start_s + limit
        for name, (state, since) in list(self.power.items()):
            if state in ("booting", "stopping") and self.now_s - since >= self.boot_s:
                if state == "booting":
                    del self.power[name]
                else:
                    self.power[name] = ("off", self.now_s)
        self.schedule()
        self.peak_w = max(self.peak_w, self.used_w)

    def schedule(self) -> None:
        """One pass: every job that fits starts, highest priority first."""
        waiting = [j for j in self.jobs.values() if j.state == "PENDING" and j.priority > 0]
        for job in sorted(waiting, key=lambda j: (-j.priority, j.id)):
            if job.begin_s > self.now_s or job.dependency != "(null)" or self.now_s - job.begin_s < self.start_delay_s:
                continue
            free = self._free(job)
            if job.requested:
                free = [n for n in job.requested if n in free]
            free = self._within_layers(job, [n for n in free if n not in job.excluded])
            if job.least_nodes > max(job.nodes, job.most_nodes) or set(job.excluded) & set(job.requested):
                job.priority, job.reason = 0, "BadConstraints"
            elif len(free) < job.nodes:
                job.reason, job.estimated_nodes = "Resources", max(job.nodes, job.most_nodes)
            elif self.used_w + job.counted_w > self.open_w or not self._domains_fit(job):
                job.reason, job.estimated_nodes = "Licenses", max(job.nodes, job.most_nodes)
            else:
                job.state, job.reason, job.start_s = "RUNNING", "None", self.now_s
                job.held_nodes = tuple(self._within_layers(job, free)[: max(job.nodes, job.most_nodes)])
                job.starts += 1
                self.peak_w = max(self.peak_w, self.used_w)

    def _domains_fit(self, job: FakeJob) -> bool:
        """Whether the licences of power domains that a job carries are free."""
        return all(
            self.domain_used(name) + job.licences.get(name, 0) <= max(0, total - self.domains_aside.get(name, 0))
            for name, total in self.domains.items()
            if job.licences.get(name, 0)
        )

    def _within_layers(self, job: FakeJob, free: list[str]) -> list[str]:
        """Return nodes on which a job could run together, as far as it carries the hierarchical resource."""
        each, found = job.licences.get("power", 0), list[str]()
        left = [count - sum(j.licences.get("power", 0) * len(set(j.held_nodes) & set(names)) for j in self.running())
                for names, count in self.layers]  # fmt: skip
        for name in free:
            over = [k for k, (names, _) in enumerate(self.layers) if name in names]
            if all(left[k] >= each for k in over):
                found.append(name)
                for k in over:
                    left[k] -= each
        return found if each else free

    def domain_used(self, name: str) -> int:
        """What running jobs hold of the licence of a power domain."""
        return sum(j.licences.get(name, 0) for j in self.running() if not j.freed)

    def _free(self, job: FakeJob) -> list[str]:
        """Nodes of its partition on which a job could start."""
        partition = job.partition.split(",")[0]
        names = self.partitions[partition]
        if partition not in self.shared:
            return [n for n in names if self.node_state(n) == "idle"]
        open_ = [n for n in names if self.node_state(n) in ("idle", "mixed", "allocated")]
        return [n for n in open_ if self.cpus_in_use(n) + (job.cpus or self.cpus) <= self.cpus]

    def cpus_in_use(self, name: str) -> int:
        """CPUs of a node that running jobs hold."""
        return sum(j.cpus or self.cpus for j in self.running() if name in j.held_nodes)

    def node_state(self, name: str) -> str:
        """State of a node in a word."""
        if name in self.down:
            return "down"
        if name in self.power:
            return self.power[name][0]
        busy = any(name in j.held_nodes for j in self.running())
        if name in self.drained:
            return "draining" if busy else "drained"
        if busy and self.cpus_in_use(name) < self.cpus:
            return "mixed"
        return "allocated" if busy else "idle"

    # -- what people do ------------------------------------------------------------------------
    def release(self, job: FakeJob) -> None:
        """Somebody releases a held job; of several components all of them."""
        for other in self.jobs.values() if job.whole and not job.component else ():
            if other.whole == job.whole and other.component:
                self.release(other)
        if job.priority == 0:
            self.last_priority -= 1
            job.priority, job.reason, job.begin_s = self.last_priority, "None", max(job.begin_s, self.now_s)

    def requeue_and_hold(self, job: FakeJob) -> None:
        """An operator takes a running job back into the queue, held."""
        job.state, job.priority, job.reason = "PENDING", 0, "JobHeldAdmin"
        job.submit_s, job.start_s, job.held_nodes = float(int(self.now_s)), -1.0, ()
        job.restarts += 1

    def go_on(self, job: FakeJob) -> None:
        """Somebody lets a stopped job go on: it ends later by the time for which it stood still."""
        if job.stopped_s >= 0:
            job.runtime_s, job.stopped_s = job.runtime_s + self.now_s - job.stopped_s, -1.0

    # -- the driver ----------------------------------------------------------------------------
    def observe(self) -> Snapshot:
        """The lists, one after the other; ``fault`` is asked before each."""
        self._asked("nodes")
        nodes = self._known_nodes(self._nodes())
        taken_s = self.now_s
        self._asked("jobs")
        listed = self.listed()
        rows = tuple(self._row(job) for job in listed)
        details = {row.key: self._details(job) for row, job in zip(rows, listed, strict=True)}
        self._asked("pool")
        pool = Pool(self.total_w, self.held_w, self.reserved_w, self.held_w - self.used_w)
        pools = {n: Pool(w, self.domain_used(n), self.domains_aside.get(n, 0)) for n, w in self.domains.items()}
        return Snapshot(
            taken_s, rows, nodes, pool, details, frequencies=dict(self.frequencies), site=self.rules, domains=pools
        )

    def apply(self, write: Write) -> None:
        """Carry a write out as Slurm would, unless a fault is due."""
        self.calls.append(write)
        fault = self.fault(write)
        if fault == "fail":
            raise ClusterError(f"{write.kind} {write.target}: refused")
        if fault == "silent":
            raise ClusterError(f"{write.kind} {write.target}: {UNANSWERED} in 10 s")
        if fault == "ignored":
            return
        self.writes.append(write)
        self._do(write)
        if fault == "lost":
            raise ClusterError(f"{write.kind} {write.target}: {UNANSWERED}, and carried out")

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """One after the other: each may have a fault."""
        return apply_each(self, writes)

    def check(self) -> Sequence[Finding]:
        """Whatever the test says is installed."""
        return self.findings

    def listed(self) -> list[FakeJob]:
        """Jobs that the queue shows."""
        return [j for j in self.jobs.values() if j.state in ("PENDING", "RUNNING", "COMPLETING")]

    def _asked(self, what: str) -> None:
        self.calls.append(what)
        if self.fault(what) in ("fail", "lost"):
            raise ClusterError(f"{what}: no answer")

    def _row(self, job: FakeJob) -> Job:
        """A job as a driver shows it; the same object as before where nothing changed."""
        pending = job.state == "PENDING"
        state: State = "pending" if pending else "running" if job.stopped_s < 0 else "stopped"
        if job.state == "COMPLETING":
            state = "completing"
        held: HeldBy = HELD_BY.get(job.reason, "manager") if pending and job.priority == 0 else ""
        start_s = math.nan if job.start_s < 0 else float(int(job.start_s))
        if pending and job.begin_s > self.now_s:
            start_s = float(int(job.begin_s))
        most, nodes = max(job.nodes, job.most_nodes), (pending and job.estimated_nodes) or job.nodes
        row = Job(
            JobKey(job.name, float(int(job.submit_s))), job.id,
            state, job.reason,
            job.partition, nodes, job.cpus or nodes * self.cpus, 60.0 * round(job.limit_s / 60.0),
            job.licences.get("watts", -1), job.priority, job.uid, start_s, job.held_nodes if not pending else (),
            job.requested, job.dependency == "(null)" and not (held and start_s > self.now_s), held, most, "",
            (nodes, most), job.array, job.task, job.whole, job.component,
            native=tuple(name for name in job.licences if name not in ("watts", "power", *self.domains)),
            domains=tuple((n, watts) for n, watts in job.licences.items() if n in self.domains or n == "power"),
        )  # fmt: skip
        old = self._rows.get(job.id)
        # NaN differs from itself: a start that is not there must not make a row another one
        if old is None or old._replace(start_s=0.0) != row._replace(start_s=0.0) or repr(old.start_s) != repr(start_s):
            self._rows[job.id] = old = row
        return old

    def _details(self, job: FakeJob) -> Details:
        fresh = Details(
            job.app, f"u{job.uid}", job.account, job.comment, job.mark, job.restarts, job.parts, job.throttle,
            job.project,
        )  # fmt: skip
        if self._texts.get(job.id) != fresh:
            self._texts[job.id] = fresh
        return self._texts[job.id]

    def _nodes(self) -> tuple[Node, ...]:
        partitions: dict[str, tuple[str, ...]] = {}
        for partition, names in self.partitions.items():
            for name in names:
                partitions[name] = (*partitions.get(name, ()), partition)
        return tuple(self._node(name, member_of) for name, member_of in partitions.items())

    def _known_nodes(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        if nodes != self._last_nodes:
            self._last_nodes = nodes
        return self._last_nodes

    def _node(self, name: str, partitions: tuple[str, ...]) -> Node:
        state = self.node_state(name)
        power: Power = self.power[name][0] if name in self.power else "on"
        busy = state in ("allocated", "mixed")
        return Node(name, state, power, state == "idle" or busy, busy, partitions)

    def _do(self, write: Write) -> None:
        match write:
            case SetPool():
                self.reserved_w = self.total_w - max(0, write.open_w - (self.held_w - self.used_w))
            case SetDomains():
                self.domains_aside |= {name: self.domains[name] - open_w for name, open_w in write.open_w}
            case SetJobFrequency():
                self.frequencies |= {write.target: write.khz}
                if not write.khz:
                    del self.frequencies[write.target]
            case PowerNode():
                self.power_node(write)
            case SetDrain():
                if self.drained.get(write.target, DRAIN_REASON) != DRAIN_REASON:
                    raise ClusterError(f"{FOREIGN}: {write.target}")
                self.drained |= {write.target: DRAIN_REASON}
                if not write.on:
                    del self.drained[write.target]
            case _:
                self._change(write, self._job(write.target))

    def power_node(self, write: PowerNode) -> None:
        """A node stops or boots."""
        if not write.on:
            self.power[write.target] = ("stopping", self.now_s)
        elif write.target in self.power:
            self.power[write.target] = ("booting", self.now_s)

    def _job(self, name: str) -> FakeJob:
        array, _, task = name.partition("_")
        whole, _, component = name.partition("+")
        job = self.jobs.get(int(array) + int(task) if task else int(whole) + int(component or 0))
        if job is None or job.state not in ("PENDING", "RUNNING"):
            raise ClusterError(f"Invalid job id specified for job {name}")
        return job

    def _change(self, write: Write, job: FakeJob) -> None:
        if isinstance(write, RequeueJob) and job.state != "RUNNING":
            raise ClusterError("Requested operation is presently disabled")
        if isinstance(write, StopJob | ContinueJob) and job.state != "RUNNING":
            return  # left out by its state
        if isinstance(write, HoldJob | ReleaseJob) and job.state != "PENDING":
            raise ClusterError("Job is no longer pending execution")
        if isinstance(write, SetPriority) and job.priority == 0:
            raise ClusterError("Job is in held state")
        match write:
            case HoldJob():
                for one in [other for other in self.jobs.values() if job.whole and other.whole == job.whole] or [job]:
                    one.priority, one.reason = 0, "JobHeldAdmin"
            case ReleaseJob():
                self.release(job)
            case RequeueJob():
                self.requeue_and_hold(job)
            case StopJob():
                job.stopped_s = self.now_s if job.stopped_s < 0 else job.stopped_s
            case ContinueJob():
                self.go_on(job)
            case SetPriority():
                job.priority = write.priority
            case ChangeJob():
                self._update(job, write.fields, recount=write.recount)
            case _:
                raise AssertionError(write)

    def _update(self, job: FakeJob, new: JobFields, *, recount: bool) -> None:
        if new.watts is not None:
            if new.watts > self.total_w:
                raise ClusterError("Invalid license specification")
            if new.watts < 0:
                job.licences.pop("watts", None)
            elif recount or new.watts != job.licences.get("watts"):  # slurmctld drops an update to the same text
                job.licences["watts"], job.freed = new.watts, False
        if new.domains is not None:
            if any(watts > self.domains.get(name, self.total_w) for name, watts in new.domains):
                raise ClusterError("Invalid license specification")
            kept = {n: w for n, w in job.licences.items() if n != "power" and n not in self.domains}
            job.licences = kept | dict(new.domains)
        if new.node_count is not None:
            job.nodes, job.most_nodes, job.estimated_nodes = *new.node_count, 0
        job.partition = job.partition if new.partition is None else new.partition
        if job.reason == "BadConstraints":
            self.release(job)  # at any change: ``test_a_change_releases_a_job_that_slurm_holds_itself``
        job.requested = job.requested if new.nodes is None else tuple(new.nodes)
        job.limit_s = job.limit_s if new.limit_s is None else new.limit_s
        job.comment = job.comment if new.comment is None else new.comment
