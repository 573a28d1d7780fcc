"""Recorded instants, shown once more through each driver: the fake's, Slurm's and Flux's.

An *instant* is one round of a recording: the jobs that wait and run, the nodes, the cap, and what was decided. It is
decided *alike* where the same jobs start, in the same order, on the same nodes at the same option. It is decided four
times more: by the session of the policy alone (``recordings.replay``), and by a controller over each driver, which is
told the instant in its resource manager's own words: as jobs of the fake, as what squeue, sinfo and scontrol print, and
as the messages of Flux's protocol.

A job that was under way is shown as running, since it holds nodes and watts; a node that was off as down. What that
changes of the watts that count without any job is added to the cap. Watts are the recorded ones: estimators are not
asked again here, but by the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.formats.machine.file import machine_of
from wattqueue.live.cluster import Details, Job, JobKey
from wattqueue.live.controller import Controller
from wattqueue.live.driver import Cluster
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.recording import dumps, inputs_of
from wattqueue.live.recordings.replay import Replay, recorded_policy
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import CommandResult
from wattqueue.live.slurm.lists import COLUMNS, DETAILS, JOBS, POOL
from wattqueue.live.slurm.observe import NODES
from wattqueue.live.state.memory import ReleasedJob
from wattqueue.live.world import NO_LIMIT_S
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.policy.decide import PolicySnapshot
from wattqueue.policy.registry import Policy
from wattqueue_flux.cluster import FluxCluster, Grant
from wattqueue_flux.jobspec import NodeNeed
from wattqueue_flux.nodes import FluxInstance, FluxNode

TOTAL_W = 2**31 - 1
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
Starts = list[tuple[int, tuple[int, ...], int]]
"""Number of the job, units and option of each start, in order."""


class ShownJob(NamedTuple):
    """A job of an instant. Times are seconds since the epoch; ``start_s`` is NaN for one that waits."""

    number: int
    submit_s: float
    nodes: int
    most: int
    limit_s: float
    partitions: tuple[str, ...]
    uid: int
    start_s: float = np.nan
    units: tuple[int, ...] = ()
    watts: int = 0
    option: int = 0

    @property
    def runs(self) -> bool:
        """Whether it holds nodes."""
        return bool(self.units)


class Instant(NamedTuple):
    """What a round saw, and what it decided."""

    now_s: float
    cap: Cap
    down: frozenset[int]
    jobs: tuple[ShownJob, ...]
    starts: Starts


@dataclass
class Told:
    """An estimator that answers what was recorded of each job."""

    asked: Asked = "once"
    machine_figures: bool = False
    rows: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Watts and time factors of each job."""
        rows = [self.rows[str(name)] for name in jobs.job_id.tolist()]
        shape = (len(rows), len(machine.option_partition))
        watts, factors = (np.array([row[k] for row in rows], np.float64).reshape(shape) for k in range(2))
        return Prediction(watts, factors)


@dataclass
class Reader:
    """Reads the instants of one controller's recording."""

    machine: Machine
    told: Told = field(default_factory=Told)

    def instant(self, data: dict[str, Any], last: PolicySnapshot | None) -> tuple[Instant, PolicySnapshot]:
        """One line of the recording; ``last`` is the view of the line before."""
        inputs = inputs_of(data, last)
        view = inputs.view
        for what, there in (
            ("delays", view.not_before_s is not None), ("parked jobs", bool(view.running.parked.any())),
            ("nodes that differ", view.rank is not None or view.prediction.unit_factor is not None),
            ("predicted run times", view.planned_s is not None), ("watts in flight", len(view.running.variance_left)),
        ):  # fmt: skip
            assert not there, f"{what} are not shown through the drivers yet"
        jobs = tuple(self._jobs(view, inputs.ranges))
        by_name = {str(name): job.number for name, job in zip(view.jobs.job_id.tolist(), jobs, strict=True)}
        starts = [(by_name[one[1]], tuple(one[3]), one[4]) for one in data["decided"]["starts"]]
        held = {unit for job in jobs for unit in job.units}
        down = frozenset(view.unusable.tolist()) - held
        return Instant(view.now_s, self._cap(view), down, jobs, starts), view

    def _jobs(self, view: PolicySnapshot, ranges: Mapping[int, int]) -> Iterator[ShownJob]:
        table, running, names = view.jobs, view.running, [one.name for one in self.machine.partitions]
        held = {int(row): k for k, row in enumerate(running.row.tolist())}
        parts: dict[int, list[str]] = {}
        for job, part in zip(view.entries.job.tolist(), view.entries.partition.tolist(), strict=True):
            parts.setdefault(job, []).append(names[part])
        for row, name in enumerate(table.job_id.tolist()):
            number, submit_s = number_of(str(name)), float(table.submit_s[row])
            of = row if view.prediction.row is None else int(view.prediction.row[row])
            self.told.rows.setdefault(str(number), (view.prediction.power_w[of], view.prediction.time_factor[of]))
            user = table.user.names[table.user.codes[row]] if table.user.codes[row] >= 0 else "u1000"
            nodes, limit_s = int(table.nodes[row]), float(table.walltime_s[row])
            one = ShownJob(number, submit_s, nodes, max(nodes, ranges.get(row, 0)), limit_s, tuple(parts.get(row, ())),
                           int(user[1:]))  # fmt: skip
            yield self._running(one, view, held[row]) if row in held else one

    def _running(self, one: ShownJob, view: PolicySnapshot, k: int) -> ShownJob:
        running = view.running
        first, count = int(running.first[k]), int(running.count[k])
        pieces = [(int(running.low[i]), int(running.high[i])) for i in range(first, first + count)]
        units = tuple(unit for low, high in pieces for unit in range(low, high + 1))
        part = self.machine.partitions[int(np.searchsorted(self.first, units[0], side="right")) - 1].name
        # the end alone decides: whole seconds before it, as squeue prints limits
        end_s, begin_s = float(running.expected_end_s[k]), float(view.jobs.observed.start_s[running.row[k]])
        begin_s = view.now_s if np.isnan(begin_s) else begin_s
        limit_s = max(1.0, float(round(end_s - begin_s)))
        return one._replace(
            nodes=len(units), most=len(units), partitions=(part,), start_s=end_s - limit_s, units=units,
            limit_s=limit_s, watts=int(running.net_uw[k]) // 10**6, option=int(running.option[k]),
        )  # fmt: skip

    @property
    def first(self) -> Any:
        """First unit of each partition, and the number of units."""
        return np.concatenate(([0], np.cumsum([one.nodes for one in self.machine.partitions])))

    def _cap(self, view: PolicySnapshot) -> Cap:
        """The cap in force and those announced, as if all nodes were on."""
        machine = self.machine
        idle_w = sum(part.nodes * part.idle_w for part in machine.partitions) if machine.cap_scope == "machine" else 0.0
        more_w = idle_w - (idle_w if view.base_uw is None else view.base_uw / 1e6) - view.margin_w
        later = view.signals.cap.time_s > view.now_s
        times = np.concatenate(([-np.inf], view.signals.cap.time_s[later]))
        return Cap(times, np.concatenate(([view.cap_w], view.signals.cap.cap_w[later])) + more_w)


def number_of(name: str) -> int:
    """A number of a job that sorts as its resource manager sorts names: of an array's tasks, and of Flux's letters."""
    if name.startswith("f"):
        number = 0
        for letter in name[1:]:
            number = 58 * number + BASE58.index(letter)
        return number
    whole, _, part = name.replace("+", "_").partition("_")
    return 10_000 * int(whole) + int(part or 0)


class Shows(Protocol):
    """A driver whose cluster can be made to look like an instant."""

    def __init__(self, machine: Machine, names: Sequence[str]) -> None: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def now_s(self) -> float: ...

    def show(self, now: Instant) -> None:
        """Make the cluster look so."""
        ...

    def key(self, job: ShownJob) -> JobKey:
        """The job as its snapshots name it."""
        ...


class ExactFake(FakeSlurm):
    """The fake, but for its whole seconds of starts and whole minutes of limits: other managers have others."""

    def _row(self, job: FakeJob) -> Job:
        return super()._row(job)._replace(walltime_s=job.limit_s, start_s=np.nan if job.start_s < 0 else job.start_s)


class ShowsFake:
    """As jobs of the fake."""

    def __init__(self, machine: Machine, names: Sequence[str]) -> None:
        self.names = names
        self.cluster = ExactFake({part: list(own) for part, own in nodes_by_partition(machine, names)}, TOTAL_W)

    @property
    def now_s(self) -> float:
        return self.cluster.now_s

    def show(self, now: Instant) -> None:
        self.cluster.now_s = now.now_s
        self.cluster.down = {self.names[unit] for unit in now.down}
        self.cluster.jobs = {job.number: self._job(job) for job in now.jobs}

    def _job(self, job: ShownJob) -> FakeJob:
        made = FakeJob(
            job.number, str(job.number), job.submit_s, job.nodes, 1.0, job.limit_s, ",".join(job.partitions),
            {"watts": job.watts}, uid=job.uid, most_nodes=job.most,
        )  # fmt: skip
        if job.runs:
            made.state, made.start_s, made.held_nodes = "RUNNING", job.start_s, tuple(self.names[u] for u in job.units)
        else:
            made.priority, made.reason, made.mark = 0, "JobHeldUser", "wattqueue:held"
        return made

    def key(self, job: ShownJob) -> JobKey:
        return JobKey(str(job.number), job.submit_s)


class ShowsSlurm:
    """As what Slurm's commands print: whole seconds of a submission; starts keep their fractions."""

    def __init__(self, machine: Machine, names: Sequence[str]) -> None:
        self.parts, self.names, self.now_s = dict(nodes_by_partition(machine, names)), names, 0.0
        self.cluster = SlurmCluster(self, clock=lambda: self.now_s, wait=lambda _: None)
        self.texts: dict[tuple[str, ...], str] = {}
        self.show(Instant(0.0, Cap.constant(0.0), frozenset(), (), []))

    def run(self, argv: Sequence[str]) -> CommandResult:
        """What a command prints; nothing of what a site may have settled."""
        return CommandResult(0, self.texts.get(tuple(argv), ""), "", 0.0)

    def show(self, now: Instant) -> None:
        self.now_s = now.now_s
        busy = {self.names[unit] for job in now.jobs for unit in job.units}
        down = {self.names[unit] for unit in now.down}
        lines = [
            f"{name}|{'down' if name in down else 'allocated' if name in busy else 'idle'}|{part}|16|32000|1|8|(null)\n"
            for part, own in self.parts.items() for name in own
        ]  # fmt: skip
        used = sum(job.watts for job in now.jobs)
        counts = f"Total={TOTAL_W} Used={used} Free={TOTAL_W - used} Reserved=0"
        self.texts = {
            NODES: "".join(lines), POOL: f"LicenseName=watts {counts} Remote=no\n",
            JOBS: "\n".join(["|".join(name.upper() for name in COLUMNS), *map(self._line, now.jobs), ""]),
            DETAILS: json.dumps({"jobs": [self._record(job) for job in now.jobs]}),
        }  # fmt: skip

    def _line(self, job: ShownJob) -> str:
        days, left = divmod(int(job.limit_s), 86400)
        limit = (
            "UNLIMITED"
            if job.limit_s >= NO_LIMIT_S
            else f"{days}-{left // 3600:02}:{left // 60 % 60:02}:{left % 60:02}"
        )
        state = ("RUNNING", "None") if job.runs else ("PENDING", "JobHeldUser")
        held = ",".join(self.names[unit] for unit in job.units)
        return "|".join([
            str(job.number), str(job.number), str(int(job.submit_s)), *state, ",".join(job.partitions), str(job.nodes),
            str(16 * job.nodes), limit, f"watts:{job.watts}", "1" if job.runs else "0", str(job.uid),
            repr(job.start_s) if job.runs else "N/A", held, "", "(null)", str(job.most),
        ])  # fmt: skip

    def _record(self, job: ShownJob) -> dict[str, Any]:
        return {
            "job_id": job.number,
            "submit_time": int(job.submit_s),
            "name": "app",
            "admin_comment": "wattqueue:held",
        }

    def key(self, job: ShownJob) -> JobKey:
        return JobKey(str(job.number), float(int(job.submit_s)))


class ShowsFlux:
    """As the messages of Flux's protocol of schedulers, of what changed since the instant before."""

    def __init__(self, machine: Machine, names: Sequence[str]) -> None:
        self.parts, self.now_s = dict(nodes_by_partition(machine, names)), 0.0
        nodes = tuple(FluxNode(rank, name, name, "0-3", "", frozenset()) for rank, name in enumerate(names))
        partition = {name: part for part, own in self.parts.items() for name in own}
        self.cluster = FluxCluster(
            FluxInstance(nodes, partition, frozenset(range(len(names)))), self, lambda: self.now_s
        )
        self.shown: dict[int, ShownJob] = {}
        self.down = frozenset[int]()

    def start(self, start: Grant) -> None:
        raise AssertionError("nothing is started here")

    def signal(self, job_id: int, number: int) -> None:
        raise AssertionError("nothing is signalled here")

    def drain(self, rank: int, *, on: bool) -> None:
        raise AssertionError("nothing is drained here")

    def show(self, now: Instant) -> None:
        self.now_s, new = now.now_s, {job.number: job for job in now.jobs}
        for number in [number for number, job in self.shown.items() if new.get(number) != job]:
            self.cluster.gone(number)
        if now.down != self.down:
            ranks = set(self.cluster.instance.by_rank)
            self.cluster.nodes.update(self.cluster.instance.with_states(ranks, set(now.down)))
        for job in now.jobs:
            if self.shown.get(job.number) != job:
                self._tell(job)
        self.shown, self.down = new, now.down

    def _tell(self, job: ShownJob) -> None:
        end_s = 0.0 if job.limit_s >= NO_LIMIT_S else job.start_s + job.limit_s
        if job.runs:
            self.cluster.runs(job.number, self.key(job), job.uid, job.units, job.start_s, end_s, job.watts)
            return
        duration_s = 0.0 if job.limit_s >= NO_LIMIT_S else job.limit_s
        able = None
        if len(job.partitions) < len(self.parts):
            able = frozenset(name for part in job.partitions for name in self.parts[part])
        details = Details("app", f"u{job.uid}", "", "", "", 0, 1, 0)
        need = NodeNeed(job.nodes, job.most, 1, 1, duration_s, able)
        self.cluster.queued(job.number, self.key(job), job.uid, 16, need, details)

    def key(self, job: ShownJob) -> JobKey:
        return JobKey(f"f{job.number}", job.submit_s)


DRIVERS: dict[str, type[Shows]] = {"fake": ShowsFake, "Slurm": ShowsSlurm, "Flux": ShowsFlux}


def nodes_by_partition(machine: Machine, names: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """The nodes of each partition."""
    first = 0
    for part in machine.partitions:
        yield part.name, names[first : first + part.nodes]
        first += part.nodes


class Driven:
    """A controller over one driver that decides instants which it is shown."""

    def __init__(self, kind: type[Shows], machine: Machine, policy: Policy, told: Told, folder: Path) -> None:
        self.shows = kind(machine, [f"u{unit:05}" for unit in range(machine.units)])
        self.told = told
        folder.mkdir()
        self.controller: Controller = make_controller(
            self.shows.cluster, folder, lambda: self.shows.now_s, cap=Cap.constant(0.0), machine=machine,
            policy=replace(policy, estimator=self), rules=Rules("control", write_priority=False), state="sqlite://",
            checked=False,
        )  # fmt: skip
        self.controller.planner.memory.placed = {}

    asked: Asked = "once"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        """Watts and time factors of jobs by the names that this driver has for them."""
        return self.told.predict(
            replace(jobs, job_id=np.array([str(name).lstrip("f") for name in jobs.job_id])), machine
        )

    def decide(self, now: Instant) -> Starts:
        """What the controller would start."""
        self.shows.show(now)
        planner = self.controller.planner
        planner.cap = now.cap
        placed = {}
        for job in now.jobs:
            if job.runs:
                key = self.shows.key(job)
                placed[key] = ReleasedJob(key, 0.0, job.partitions[0], job.option, job.watts, float(job.watts), np.inf)
        planner.memory.placed = placed
        plan = planner.plan(self.shows.cluster.observe(), {}, telemetry_ok=True)
        return [(int(one.job.lstrip("f")), one.nodes, one.option) for one in plan.decision.starts]


class Alike(NamedTuple):
    """How many instants were decided again, in how many jobs start, how many; what differs: line and who decided."""

    instants: int
    starting: int
    starts: int
    differ: list[tuple[int, str]]


def decide_again(path: Path, folder: Path, policy: Policy | None = None) -> Alike:
    """Decide each instant of a recording by the session, and through each driver; by the recorded policy, or another.

    ``folder``: for files of the controllers.
    """
    again: Replay | None = None
    reader: Reader | None = None
    driven, last = dict[str, Driven](), None
    starts, differ, controllers = list[int](), list[tuple[int, str]](), 0
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            data = json.loads(line)
            if "begin" in data:
                machine = machine_of(data["begin"]["machine"], path)
                chosen = policy or recorded_policy(data["begin"])
                again, reader, last = Replay(data["begin"], chosen), Reader(machine), None
                controllers += 1
                driven = {
                    name: Driven(kind, machine, chosen, reader.told, folder / f"{name}-{path.stem}-{controllers}")
                    for name, kind in DRIVERS.items()
                }
                continue
            assert again is not None
            assert reader is not None
            now, last = reader.instant(data, last)
            if dumps(again.decide(data)) != dumps(data["decided"]):
                differ.append((number, "session"))
            differ += [(number, name) for name, one in driven.items() if one.decide(now) != now.starts]
            starts.append(len(now.starts))
    return Alike(len(starts), sum(map(bool, starts)), sum(starts), differ)
