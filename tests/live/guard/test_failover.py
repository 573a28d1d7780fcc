"""Two whole controllers behind one guard: each of the three stands still, dies and comes back at any moment."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.guard.behind import Guarded, guarded
from tests.profiles import sampled
from wattqueue.live.cluster import Write
from wattqueue.live.controller import Controller
from wattqueue.live.files.lease import LeaseLostError
from wattqueue.live.guard.audit import AuditFile
from wattqueue.live.guard.audit_check import check_audit
from wattqueue.live.guard.client import GuardedRunDir, GuardWriter
from wattqueue.live.guard.place import PlannerPlace
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.state.database import HOLDER, open_state
from wattqueue.live.state.shared_lease import SharedLease
from wattqueue.model.signals import Cap

STALE_S = 15.0
CAP_W = 800.0 + 1000.0


class KilledError(BaseException):
    """The guard is gone at this very point: nothing after it runs."""


@dataclass
class Served:
    """One guard, whom it serves, and its clock."""

    cluster: Guarded
    place: PlannerPlace
    still_s: float = -math.inf
    """Until when it stands still."""
    dies: Callable[[], bool] = lambda: False
    """Whether it dies at a boundary of writes."""
    deaths: int = 0

    def boundary(self, _: str) -> None:
        """Die at a boundary of writes, where the test says so."""
        if self.dies():
            self.deaths += 1
            raise KilledError

    def start(self) -> None:
        """Start the guard, again where it died: it knows what its files say."""
        old = self.cluster.guard
        journal = AuditFile(old.journal.folder, old.journal.clock)
        self.cluster.guard = WriteGuard(old.settings, old.slurm, old.writer, journal, old.clock, self.boundary)
        self.place = PlannerPlace(STALE_S, self.place.clock)


@dataclass
class Connection:
    """What a planner asks, without a socket: ``GuardConnection`` of one planner."""

    served: Served

    def ask(self, request: Packet) -> Packet:
        """Return the answer. Raises: SlurmError where there is none, or where it is an error."""
        if self.served.place.clock() < self.served.still_s:
            raise SlurmError("the guard gives no answer: timed out")
        what = request.header["do"]
        refused = self.served.place.refusal(self, what)
        sent = Packet(json.loads(json.dumps(request.header)))
        try:
            header = {"error": refused} if refused else self.served.cluster.guard.answer(sent).header
        except KilledError:
            self.served.start()
            raise SlurmError("the guard gives no answer: the connection was closed") from None
        if "error" in header:
            raise SlurmError(f"the guard refuses: {header['error']}")
        return Packet(header)


@dataclass
class Planned:
    """The cluster of one planner: it looks through the guard, and has it write."""

    served: Served
    connection: Connection
    lease: SharedLease
    log: list[str]
    """Names of the planners whose writes were carried out, in order."""
    name: str = "a fake Slurm behind a guard, one of two planners"

    def wrote(self, count: int) -> None:
        """Take over that writes were carried out: by who holds the lease of the database, and nobody else."""
        if count:
            with self.lease.engine.connect() as connection:
                assert connection.execute(select(HOLDER.c.token)).scalar_one() == self.lease.token
            self.log += [self.lease.token.partition("/")[0]] * count

    def observe(self) -> Any:
        """Look. Raises: SlurmError while the guard stands still."""
        self.connection.ask(Packet({"do": "status"}))
        return self.served.cluster.observe()

    def apply(self, write: Write) -> None:
        """One write. Raises: SlurmError."""
        GuardWriter(self.connection).apply(write)  # type: ignore[arg-type]
        self.wrote(1)

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Writes in their order."""
        errors = GuardWriter(self.connection).apply_batch(writes)  # type: ignore[arg-type]
        self.wrote(errors.count(""))
        return errors

    def check(self) -> Sequence[Any]:
        """Nothing is installed."""
        return ()


@dataclass
class Host:
    """A host with one controller, or a standby that waits for the lease."""

    name: str
    folder: Path
    slurm: FakeSlurm
    served: Served
    log: list[str]
    controller: Controller | None = None
    lease: SharedLease | None = None
    still_s: float = -math.inf
    """Until when its process stands still, or is gone."""
    takeovers: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def die(self, until_s: float) -> None:
        """Kill the process: its connection is closed, what it stored stays."""
        if self.controller is not None:
            self.served.place.leave(self.controller.cluster.connection)  # type: ignore[attr-defined]
            self.controller.audit.engine.dispose()
        if self.lease is not None:
            self.lease.engine.dispose()
        self.controller = self.lease = None
        self.still_s = until_s

    def step(self) -> None:
        """Do what the process does in a second."""
        now_s = self.slurm.now_s
        if now_s < self.still_s:
            return
        if self.lease is None:
            state = open_state(str(self.folder / "shared.db"))
            self.lease = SharedLease(state, lambda: self.slurm.now_s, STALE_S, f"{self.name}/1/{now_s:.0f}")
        if self.controller is None:
            if self.lease.take():
                return
            try:
                self.controller = self._started(self.lease)
            except SlurmError:  # the guard stands still: systemd tries again
                self.lease.drop()
                return
            self.takeovers += 1
        try:
            self.controller.round()
        except LeaseLostError:
            self.ends["lost the lease"] += 1
            self.die(now_s + 2.0)

    def _started(self, lease: SharedLease) -> Controller:
        mine = self.folder / self.name
        mine.mkdir(exist_ok=True)
        cluster = Planned(self.served, Connection(self.served), lease, self.log)
        controller = make_controller(
            cluster, mine, lambda: self.slurm.now_s, cap=Cap.constant(CAP_W), state=str(self.folder / "shared.db"),
            shared=lease,
        )  # fmt: skip
        run_dir = GuardedRunDir(mine / "run", guard=cluster.connection)  # type: ignore[arg-type]
        controller.run_dir = controller.writer.run_dir = run_dir
        return controller


@dataclass
class Two:
    """A fake Slurm, its guard, and two hosts."""

    folder: Path
    log: list[str] = field(default_factory=list)
    jobs: list[FakeJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
        cluster = guarded(
            self.slurm, self.folder / "guard", Cap.constant(CAP_W), without_jobs_w=lab_machine().scope_idle_w(),
            away_s=60.0,
        )  # fmt: skip
        self.served = Served(cluster, PlannerPlace(STALE_S, lambda: self.slurm.now_s))
        self.served.start()
        self.hosts = [Host(name, self.folder, self.slurm, self.served, self.log) for name in ("a", "b")]

    def submit(self, k: int) -> None:
        """A job of one to three nodes."""
        nodes, partition = 1 + k % 3, ("p1", "p2", "p1,p2")[k % 3]
        self.jobs.append(self.slurm.submit(nodes, 5.0 + k % 20, watts=200 * nodes, partition=partition, limit_s=600.0))

    def second(self) -> None:
        """Let a second pass for everybody."""
        for host in self.hosts:
            host.step()
        self.slurm.step()

    def require_done(self) -> None:
        """Every job was started once and has ended, in the budget; the guard's record is whole."""
        assert {job.state for job in self.jobs} == {"COMPLETED"}
        assert {job.starts for job in self.jobs} == {1}
        assert self.slurm.peak_w <= 1000
        assert check_audit(self.served.cluster.guard.journal.folder).problem == ""
        for host in self.hosts:
            host.die(math.inf)


def test_a_standby_takes_over_behind_the_same_guard_and_the_first_writes_nothing_more(tmp_path: Path) -> None:
    two = Two(tmp_path)
    first, second = two.hosts
    for k in range(12):
        two.submit(k)
    for _ in range(10):
        two.second()
    assert (first.takeovers, second.takeovers, {*two.log}) == (1, 0, {"a"})
    first.still_s = two.slurm.now_s + 60.0
    begin_s = two.slurm.now_s
    while "b" not in two.log and two.slurm.now_s < begin_s + STALE_S + 4.0:
        two.second()
    assert "b" in two.log
    for _ in range(400):
        two.second()
    assert first.ends == {"lost the lease": 1}
    assert two.log == ["a"] * two.log.count("a") + ["b"] * two.log.count("b"), "each in its time"
    assert first.controller is None, "the first one waits now"
    two.require_done()


def stormy(two: Two, seed: int) -> None:
    """Two hundred seconds in which each of the three stands still, dies and comes back, and quiet afterwards."""
    rng, slurm = np.random.default_rng(seed), two.slurm
    two.served.dies = lambda: slurm.now_s < 1_000_200.0 and bool(rng.random() < 0.02)
    for k in range(200):
        if k % 5 == 0:
            two.submit(k)
        for host in two.hosts:
            if rng.random() < 0.03:
                host.still_s = slurm.now_s + float(rng.integers(1, 40))
            elif rng.random() < 0.02:
                host.die(slurm.now_s + float(rng.integers(1, 30)))
        if rng.random() < 0.02:
            two.served.still_s = slurm.now_s + float(rng.integers(1, 30))
        two.second()
    for _ in range(900):
        two.second()


@pytest.mark.parametrize("seed", sampled(range(4), {0, 1}))
def test_whoever_stands_still_or_dies_nothing_starts_twice_and_all_gets_done(seed: int, tmp_path: Path) -> None:
    two = Two(tmp_path)
    stormy(two, seed)
    assert two.served.deaths > 0
    assert sum(host.takeovers for host in two.hosts) > 2, "they took turns"
    assert {*two.log} == {"a", "b"}
    two.require_done()
