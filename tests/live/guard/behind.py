"""The fake Slurm behind a guard: the tests of controllers run there as they stand.

A controller is given ``Guarded`` in the place of the fake. It observes the fake itself; the lists pass the guard, too,
as text, and each write is what the guard makes of its JSON. At each look, running jobs may draw no more than cap and
overshoot of the guard, or than they could before: by what the guard counts for them, which is no less than their
licences, and by the maximum of their nodes where it accepts nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.live.drive import IDLE_W, MOST_W, lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.live.cluster import ClusterError, Snapshot, Write
from wattqueue.live.controller import Controller
from wattqueue.live.driver import Finding
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.guard.audit import AuditFile
from wattqueue.live.guard.checks import GuardBound, Seen
from wattqueue.live.guard.client import to_json
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.guard.settings import GuardSettings
from wattqueue.live.guard.wire import Packet
from wattqueue.live.planner import Rules
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.slurm.commands import CommandResult
from wattqueue.live.slurm.lists import COLUMNS, DETAILS, JOBS, POOL, counted_pool, parse_jobs, parse_pool
from wattqueue.model.signals import Cap

NET_W = int(MOST_W - IDLE_W)


@dataclass
class Texts:
    """What Slurm's commands print about the fake, and its writes (``Slurm`` and ``SnapshotWriter``)."""

    fake: FakeSlurm

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Print a list."""
        printed = {JOBS: self._jobs, POOL: self._pool, DETAILS: self._details}[tuple(argv)]()
        return CommandResult(0, printed, "", 0.0)

    def _jobs(self) -> str:
        lines = ["|".join(COLUMNS), *map(self._line, self.fake.listed())]
        return "\n".join(lines) + "\n"

    def _line(self, job: FakeJob) -> str:
        state = "STOPPED" if job.state == "RUNNING" and job.stopped_s >= 0 else job.state
        licences = ",".join(f"{name}:{count}" for name, count in job.licences.items()) or "(null)"
        start = str(int(job.start_s)) if job.start_s >= 0 else "N/A"
        most = max(job.nodes, job.most_nodes)
        minutes = round(job.limit_s / 60.0)
        held = [] if job.state == "PENDING" else job.held_nodes
        words = [
            job.name, job.id, int(job.submit_s), state, job.reason, job.partition, job.nodes,
            job.cpus or job.nodes * self.fake.cpus, f"{minutes}:00", licences, job.priority, job.uid, start,
            ",".join(held), ",".join(job.requested), job.dependency, most,
        ]  # fmt: skip
        return "|".join(map(str, words))

    def _pool(self) -> str:
        fake = self.fake
        return f"LicenseName=watts Total={fake.total_w} Used={fake.used_w} Reserved={fake.reserved_w}\n"

    def _details(self) -> str:
        rows = [
            {"job_id": job.id, "submit_time": int(job.submit_s), "comment": job.comment, "admin_comment": job.mark,
             "user_name": f"u{job.uid}", "account": job.account, "restart_cnt": job.restarts}
            for job in self.fake.listed()
        ]  # fmt: skip
        return json.dumps({"jobs": rows})

    def observed(self, snapshot: Snapshot) -> None:
        """Nothing to do."""

    def apply(self, write: Write) -> None:
        """Carry one write out."""
        self.fake.apply(write)

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """Carry writes out one by one."""
        return self.fake.apply_batch(writes)


@dataclass
class Guarded:
    """A cluster whose writes pass a guard."""

    fake: FakeSlurm
    guard: WriteGuard
    texts: Texts
    name: str = "a fake Slurm behind a guard"
    refused: list[str] = field(default_factory=list)
    """Errors of writes."""
    _before_w: int = 0

    def observe(self) -> Snapshot:
        """Look, and have the guard see the lists that the planner sees."""
        self.check_watts()
        seen = self.fake.observe()
        for argv in (JOBS, POOL, DETAILS):
            self.guard.answer(Packet({"do": "read", "argv": list(argv)}))
        return seen

    def counted_w(self) -> int:
        """What the guard counts for the running jobs as they are now, above idle."""
        rows, bad = parse_jobs(self.texts.run(JOBS).out, {})
        assert not bad
        jobs = tuple(rows.values())
        pool = counted_pool(parse_pool(self.texts.run(POOL).out), jobs)
        return GuardBound(self.guard.settings, math.inf, Seen(self.fake.now_s, jobs, pool)).sum_w

    def most_w(self) -> int:
        """What the nodes of running jobs can draw above idle."""
        counted = [job for job in self.fake.running() if job.stopped_s < 0 and not self._free(job)]
        return sum(NET_W * len(job.held_nodes) for job in counted)

    def _free(self, job: FakeJob) -> bool:
        return self.guard.settings.free.issuperset(job.partition.split(","))

    def check_watts(self) -> None:
        """Running jobs are within cap and overshoot, or draw no more than before."""
        own, counted_w = self.guard.settings, self.counted_w()
        cap_w = self.guard.cap.in_force_w(self.fake.now_s)
        limit_w = cap_w - own.without_jobs_w + own.overshoot.of(cap_w)
        assert counted_w <= max(limit_w, self._before_w), f"{counted_w} W at {self.fake.now_s}"
        assert counted_w >= (self.fake.drawn_w if own.accepted else self.most_w())
        self._before_w = counted_w

    def apply(self, write: Write) -> None:
        """One write, as a batch of one. Raises: ClusterError."""
        (error,) = self.apply_batch([write])
        if error:
            raise ClusterError(error)

    def apply_batch(self, writes: Sequence[Write]) -> list[str]:
        """What the guard makes of writes that came as JSON."""
        sent = json.loads(json.dumps({"do": "write", "writes": [to_json(write) for write in writes]}))
        errors: list[str] = self.guard.answer(Packet(sent)).header["errors"]
        self.refused += [error for error in errors if error]
        return errors

    def check(self) -> Sequence[Finding]:
        """Whatever the test says is installed."""
        return self.fake.check()


def guarded(
    fake: FakeSlurm,
    folder: Path,
    cap: Cap,
    *,
    without_jobs_w: float,
    free: frozenset[str] = frozenset(),
    **accepts: Any,
) -> Guarded:
    """Return the fake behind a guard with this cap; ``accepts`` are other settings of it."""
    folder.mkdir(exist_ok=True)
    rows = [(max(0.0, time_s), watts) for time_s, watts in zip(cap.time_s.tolist(), cap.cap_w.tolist(), strict=True)]
    path = folder / "cap.csv"
    path.write_text("time_s,cap_w\n" + "".join(f"{time_s},{watts}\n" for time_s, watts in rows))
    node_w = {name: NET_W for name in fake.partitions if name not in free}
    settings = GuardSettings(folder / "socket", folder, str(path), node_w, without_jobs_w, free=free, **accepts)
    texts, ticks = Texts(fake), count()
    # each look at a clock is later than the one before, as in the world
    clock = lambda: fake.now_s + 1e-6 * next(ticks)  # noqa: E731
    guard = WriteGuard(settings, texts, texts, AuditFile(folder, clock), clock)
    return Guarded(fake, guard, texts)


@dataclass
class Behind:
    """Stands in for ``make_controller``: the controller is put behind a guard that accepts what is stated here."""

    accepts: Mapping[str, Any] = field(default_factory=dict)
    made: list[Guarded] = field(default_factory=list)
    cap: Cap | None = None
    """The guard's cap, where it is not that of the controller at its start."""

    def __call__(self, fake: FakeSlurm, folder: Path, clock: Callable[[], float], **more: Any) -> Controller:
        """Build a controller whose cluster is the fake behind a guard."""
        cap, machine = more["cap"], more.get("machine") or lab_machine()
        shared: SharedNodes = more.get("shared_nodes") or SharedNodes()
        rules: Rules = more.get("rules") or Rules(mode="control", write_priority=False)
        accepts = {"overshoot": rules.overshoot, **self.accepts}
        without_jobs_w = machine.scope_idle_w() + shared.most_of_all_w(fake.observe().nodes)
        own = self.cap or (cap.cap if isinstance(cap, CapFile) else cap)
        cluster = guarded(
            fake, folder / "guard", own,
            without_jobs_w=without_jobs_w, free=frozenset(fake.shared), **accepts,
        )  # fmt: skip
        self.made.append(cluster)
        more["rules"] = replace(rules, without_jobs_w=without_jobs_w)
        return make_controller(cluster, folder, clock, **more)
