"""A Slurm that lives in memory: it speaks the text of the commands and does what 22.05 was seen to do.

Time is the test's own. ``fault`` is asked before each command and may have it hang, fail, print
garbage, be carried out but reported as failed, or be cut short.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wattqueue.formats.slurm.hostlist import compress, expand
from wattqueue.live.slurm.commands import CommandResult, SlurmError

READS = {"squeue", "sinfo"}


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
    requested: str = ""
    most_nodes: int = 0
    """The maximum of a range of nodes (``-N 1-4``); the fake gives as many as are free, like Slurm."""
    least_nodes: int = 0
    """Nodes that it really needs; pinned to fewer it is held with BadConstraints."""
    begin_s: float = 0.0
    dependency: str = "(null)"
    restarts: int = 0
    starts: int = 0
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
    frees_requeued: bool = False
    """As Slurm 25.05 and 25.11.0 to 25.11.6: a requeue frees a job's licences for good, until they are changed."""
    requeue_delay_s: float = 5.0
    """A requeued job does not start before so long (the real one waits for two minutes)."""
    fault: Callable[[Sequence[str]], str | None] = lambda _: None
    jobs: dict[int, FakeJob] = field(default_factory=dict)
    power: dict[str, tuple[str, float]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    reservations: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[str, ...]] = field(default_factory=list)
    calls: list[tuple[str, ...]] = field(default_factory=list)
    peak_w: int = 0
    last_id: int = 0
    last_priority: int = 4_000_000_000
    version: str = "22.05.8"
    config: dict[str, str] = field(default_factory=dict)
    """Further lines of ``scontrol show config``."""

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
        if self.hold_new:
            job.priority, job.reason, job.mark = 0, "JobHeldUser", job.mark or "wattqueue:held"
        else:
            self.last_priority -= 1
            job.priority = self.last_priority
        self.jobs[job.id] = job
        return job

    @property
    def used_w(self) -> int:
        """Licences that running jobs hold."""
        return sum(j.counted_w for j in self.running())

    @property
    def drawn_w(self) -> int:
        """Watts that running jobs may draw, whether Slurm counts them or not."""
        return sum(j.licences.get("watts", 0) for j in self.running())

    @property
    def open_w(self) -> int:
        """What running jobs may hold together."""
        return self.total_w - sum(self.reservations.values())

    def running(self) -> list[FakeJob]:
        """Running jobs in order of their ids."""
        return [j for j in self.jobs.values() if j.state == "RUNNING"]

    def requeue(self, job: FakeJob) -> None:
        """A running job goes back to the queue (a failed node, an administrator); Slurm resets its submit time."""
        job.state, job.reason, job.submit_s, job.start_s, job.held_nodes = "PENDING", "BeginTime", self.now_s, -1.0, ()
        job.begin_s, job.restarts, job.freed = self.now_s + self.requeue_delay_s, job.restarts + 1, self.frees_requeued

    def step(self, seconds: float = 1.0) -> None:
        """Let time pass: jobs end, nodes boot, Slurm schedules."""
        self.now_s += seconds
        for job in self.running():
            limit = min(job.runtime_s, job.limit_s)
            if self.now_s >= job.start_s + limit:
                job.state = "COMPLETED" if job.runtime_s <= job.limit_s else "TIMEOUT"
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
            free = [n for n in self.partitions[job.partition.split(",")[0]] if self.node_state(n) == "idle"]
            if job.requested:
                free = [n for n in expand(job.requested) if n in free]
            if job.least_nodes > max(job.nodes, job.most_nodes):
                job.priority, job.reason = 0, "BadConstraints"
            elif len(free) < job.nodes:
                job.reason = "Resources"
            elif self.used_w + job.counted_w > self.open_w:
                job.reason = "Licenses"
            else:
                job.state, job.reason, job.start_s = "RUNNING", "None", self.now_s
                job.held_nodes = tuple(free[: max(job.nodes, job.most_nodes)])
                job.starts += 1
                self.peak_w = max(self.peak_w, self.used_w)

    def node_state(self, name: str) -> str:
        """State as sinfo prints it."""
        if name in self.down:
            return "down*"
        if name in self.power:
            return {"off": "idle~", "booting": "idle#", "stopping": "idle%"}[self.power[name][0]]
        return "allocated" if any(name in j.held_nodes for j in self.running()) else "idle"

    # -- the commands --------------------------------------------------------------------------
    def run(self, argv: Sequence[str]) -> CommandResult:
        """Run one command as the real ones would, unless a fault is due."""
        argv = tuple(argv)
        self.calls.append(argv)
        fault = self.fault(argv)
        if fault == "hang":
            raise SlurmError(f"{argv[0]}: no answer in 10 s")
        if fault == "fail":
            return CommandResult(1, "", f"{argv[0]}: error: Unable to contact slurm controller", 0.0)
        if fault == "garbage":
            return CommandResult(0, "\x00\x7f|||not what you\nexpected=|", "", 0.0)
        answer = self._read(argv) if argv[0] in READS or "show" in argv else self._write(argv)
        if fault == "lost":
            raise SlurmError(f"{argv[0]}: carried out, the answer was lost")
        if fault == "cut":
            return answer._replace(out=answer.out[: len(answer.out) // 2].rstrip("\n"))
        return answer

    def _read(self, argv: tuple[str, ...]) -> CommandResult:
        if argv[0] == "squeue" and "--json" in argv:
            return CommandResult(0, json.dumps({"jobs": [self._json(j) for j in self._listed()]}), "", 0.0)
        if argv[0] == "squeue":
            return CommandResult(0, "".join(self._line(j) + "\n" for j in self._listed()), "", 0.0)
        if argv[0] == "sinfo":
            groups: dict[tuple[str, str], list[str]] = {}
            for partition, names in self.partitions.items():
                for name in names:
                    groups.setdefault((self.node_state(name), partition), []).append(name)
            lines = [
                f"{compress(names)}|{state}|{part}|{self.cpus}|64000|2|{self.cpus // 2}|(null)\n"
                for (state, part), names in groups.items()
            ]
            return CommandResult(0, "".join(lines), "", 0.0)
        if "config" in argv:
            values = {"SLURM_CONF": "/nowhere/slurm.conf", "JobSubmitPlugins": "lua", "SLURM_VERSION": self.version}
            text = "".join(f"{key:<24}= {value}\n" for key, value in (values | self.config).items())
            return CommandResult(0, f"Configuration data as of now\n{text}", "", 0.0)
        if "licenses" in argv:
            aside = sum(self.reservations.values())
            free = self.total_w - self.used_w
            text = f"LicenseName=watts Total={self.total_w} Used={self.used_w} Free={free} Reserved={aside} Remote=no\n"
            return CommandResult(0, text, "", 0.0)
        if "reservation" in argv:
            name = argv[-1]
            if name in self.reservations:
                return CommandResult(
                    0, f"ReservationName={name} StartTime=1 Licenses=watts:{self.reservations[name]}\n", "", 0.0
                )
            return CommandResult(1, "", f"Reservation {name} not found", 0.0)
        raise AssertionError(argv)

    def _listed(self) -> list[FakeJob]:
        return [j for j in self.jobs.values() if j.state in ("PENDING", "RUNNING")]

    def _line(self, job: FakeJob) -> str:
        licences = ",".join(f"{k}:{v}" for k, v in job.licences.items()) or "(null)"
        minutes = round(job.limit_s / 60)
        start = "N/A" if job.start_s < 0 else str(int(job.start_s))
        if job.state == "PENDING" and job.begin_s > self.now_s:
            start = str(int(job.begin_s))
        fields = [job.name, job.id, int(job.submit_s), job.state, job.reason, job.partition, job.nodes]
        fields += [job.nodes * self.cpus, f"{minutes // 60}:{minutes % 60:02d}:00", licences, job.priority, job.uid]
        fields += [start, compress(job.held_nodes) if job.state == "RUNNING" else "", job.requested, job.dependency]
        fields += [max(job.nodes, job.most_nodes)]
        return "|".join(str(f) for f in fields)

    def _json(self, job: FakeJob) -> dict[str, object]:
        return {
            "job_id": job.id, "array_job_id": 0, "array_task_id": None, "array_max_tasks": 0, "name": job.app,
            "user_name": f"u{job.uid}", "account": "all", "comment": job.comment, "admin_comment": job.mark,
            "restart_cnt": job.restarts, "het_job_id": 0, "submit_time": int(job.submit_s),
        }  # fmt: skip

    def _write(self, argv: tuple[str, ...]) -> CommandResult:
        self.writes.append(argv)
        verb, rest = argv[1], argv[2:]
        if verb in ("hold", "release", "requeuehold"):
            return self._control(verb, int(rest[0]))
        if verb in ("create", "delete") or rest[0].startswith("ReservationName="):
            return self._reserve(verb, rest)
        if rest[0].startswith("NodeName="):
            return self._node(rest)
        return self._update(rest)

    def _control(self, verb: str, number: int) -> CommandResult:
        job = self.jobs.get(number)
        if job is None or job.state not in ("PENDING", "RUNNING"):
            return CommandResult(1, "", f"Invalid job id specified for job {number}", 0.0)
        if verb == "requeuehold":
            if job.state != "RUNNING":
                return CommandResult(1, "", "Requested operation is presently disabled", 0.0)
            job.state, job.priority, job.reason = "PENDING", 0, "JobHeldAdmin"
            job.submit_s, job.start_s, job.held_nodes = float(int(self.now_s)), -1.0, ()
            job.restarts += 1
        elif job.state != "PENDING":
            return CommandResult(1, "", "Job is no longer pending execution", 0.0)
        elif verb == "hold":
            job.priority, job.reason = 0, "JobHeldAdmin"
        elif job.priority == 0:
            self.last_priority -= 1
            job.priority, job.reason, job.begin_s = self.last_priority, "None", max(job.begin_s, self.now_s)
        return CommandResult(0, "", "", 0.0)

    def _reserve(self, verb: str, rest: tuple[str, ...]) -> CommandResult:
        fields = dict(r.split("=", 1) for r in rest if "=" in r)
        name = fields["ReservationName"]
        if verb == "delete":
            return CommandResult(0 if self.reservations.pop(name, None) is not None else 1, "", "", 0.0)
        if (verb == "create") == (name in self.reservations):
            return CommandResult(1, "", "Duplicate or unknown reservation name", 0.0)
        self.reservations[name] = int(fields["Licenses"].split(":")[1])
        return CommandResult(0, "", "", 0.0)

    def _node(self, rest: tuple[str, ...]) -> CommandResult:
        name, state = rest[0].split("=")[1], rest[1].split("=")[1]
        if state == "POWER_DOWN":
            self.power[name] = ("stopping", self.now_s)
        elif name in self.power:
            self.power[name] = ("booting", self.now_s)
        return CommandResult(0, "", "", 0.0)

    def _update(self, rest: tuple[str, ...]) -> CommandResult:
        fields = dict(r.split("=", 1) for r in rest)
        job = self.jobs.get(int(fields.pop("JobId")))
        if job is None or job.state not in ("PENDING", "RUNNING"):
            return CommandResult(1, "", "Invalid job id specified", 0.0)
        if "Priority" in fields and job.priority == 0:
            return CommandResult(1, "", "Job is in held state", 0.0)
        if "Licenses" in fields:
            wanted = {k: int(v or 1) for k, _, v in (p.partition(":") for p in fields.pop("Licenses").split(","))}
            if wanted.get("watts", 0) > self.total_w:
                return CommandResult(1, "", "Invalid license specification", 0.0)
            if wanted != job.licences:  # slurmctld drops an update to the same text
                job.licences, job.freed = wanted, False
        job.partition = fields.pop("Partition", job.partition)
        job.requested = fields.pop("ReqNodeList", job.requested)
        job.limit_s = 60.0 * int(fields.pop("TimeLimit", round(job.limit_s / 60)))
        job.priority = int(fields.pop("Priority", job.priority))
        job.comment = fields.pop("Comment", job.comment)
        if "NumNodes" in fields:
            least, _, most = fields.pop("NumNodes").partition("-")
            job.nodes, job.most_nodes = int(least), int(most or job.most_nodes)
        assert not fields, fields
        return CommandResult(0, "", "", 0.0)
