"""The live controller on a large cluster: 10,000 jobs queued on 10,000 nodes, generated as squeue prints them.

Times are of the processor; what Slurm itself takes to answer is not in them (tests/live/test_size_real.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from bench.harness import Measured, benchmark
from tests.live.bigview import NOW_S, BigSlurm
from tests.live.drive import lab_machine, make_controller
from tests.live.test_live_targets import Stated
from wattqueue.errors import WattQueueError
from wattqueue.live.cluster import Snapshot, StopJob
from wattqueue.live.consent_tags import CONSENT, SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.features.budgets import LiveBudgets
from wattqueue.live.features.job_energy import EnergyRecorder
from wattqueue.live.files.energy_records import EnergyFolder
from wattqueue.live.guard.audit import AuditFile
from wattqueue.live.guard.client import GuardConnection, GuardedCommands, GuardWriter
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.guard.settings import GuardSettings
from wattqueue.live.guard.sockets import listen, serve
from wattqueue.live.planner import RoundState
from wattqueue.live.reports.why_file import WhyFile
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import CommandResult
from wattqueue.live.slurm.lists import JOBS
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.slurm.writer import SlurmWriter
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap

NODES = QUEUED = 10_000
ROUNDS = 15
ROOM_W = 20_000.0
PAIRS = 24
MEDIAN_RANK = 7
"""Of 24 values the median lies between the 7th from either end with 97.7 % (binomial)."""


@contextmanager
def site() -> Iterator[tuple[BigSlurm, Controller]]:
    """A controller in a folder of its own, after its first round."""
    with tempfile.TemporaryDirectory() as folder:
        slurm = BigSlurm(QUEUED, NODES, running=2000)
        cap = Cap.constant(100.0 * NODES + slurm.used_w + ROOM_W)
        cluster = SlurmCluster(slurm, clock=lambda: NOW_S)
        controller = make_controller(
            cluster, Path(folder), lambda: NOW_S, cap=cap, machine=lab_machine(NODES), checked=False
        )
        controller.planner.plan(cluster.observe(), {}, telemetry_ok=True)
        yield slurm, controller


def least_ms(what: Callable[[], object], before: Callable[[int], object] = lambda _: None) -> float:
    """The least of some rounds: on a busy machine even time of the processor grows."""
    took = []
    for k in range(ROUNDS):
        before(k)
        begin = time.process_time()
        what()
        took.append(1e3 * (time.process_time() - begin))
    return min(took)


@benchmark("live: view and decision, 10,000 queued on 10,000 nodes", unit="ms", at_most=20)
def steady() -> Measured:
    """Nothing changed since the last round."""
    with site() as (_, controller):
        snapshot = controller.cluster.observe()
        return Measured(least_ms(lambda: controller.planner.plan(snapshot, {}, telemetry_ok=True)))


def leaving(slurm: BigSlurm, controller: Controller) -> list[Snapshot]:
    """Return what each round sees; each time another waiting job has left squeue's list."""
    seen = []
    for k in range(ROUNDS):
        slurm.without_line(5000 + 7 * k)
        seen.append(controller.cluster.observe())
    return seen


@benchmark("live: view and decision in a round in which a job goes", unit="ms", at_most=20)
def changing() -> Measured:
    """Each time another waiting job has left."""
    with site() as (slurm, controller):
        rounds = iter(leaving(slurm, controller))
        return Measured(least_ms(lambda: controller.planner.plan(next(rounds), {}, telemetry_ok=True)))


@benchmark("live: view, decision and why.json", unit="ms", at_most=20)
def steady_with_why() -> Measured:
    """Nothing changed in the queue, running jobs end at other times: the file is written in each round."""
    with site() as (_, controller):
        snapshot = controller.cluster.observe()
        return Measured(least_ms(lambda: explain(controller, snapshot)))


@benchmark("live: view, decision and why.json in a round in which a job goes", unit="ms", at_most=20)
def changing_with_why() -> Measured:
    """Each time another waiting job has left, and the whole file is made once more."""
    with site() as (slurm, controller):
        rounds = iter(leaving(slurm, controller))
        return Measured(least_ms(lambda: explain(controller, next(rounds))))


def explain(controller: Controller, snapshot: Snapshot) -> None:
    """Plan a round and write why jobs wait, as a controller does every few seconds."""
    plan = controller.planner.plan(snapshot, {}, telemetry_ok=True)
    why = next(one.keeps for one in controller.extensions if isinstance(one.keeps, WhyFile))
    why.every_s = -1.0
    why._last = ""  # noqa: SLF001 - as if something had changed
    why.write(plan)


@benchmark("live: budgets in a round, 10,000 jobs barred by 100 budgets", unit="ms", at_most=20)
def budgets() -> Measured:
    """The stage alone, the median of rounds in which nothing changed, a waiting job left, and a running one ended."""
    with tempfile.TemporaryDirectory() as name:
        folder, slurm, now = Path(name), BigSlurm(QUEUED, NODES, running=2000), [NOW_S]
        rows = [("centre", 1.0, "")] + [(f"u{uid}", 20.0, f'user = "{uid}"\n') for uid in range(1000, 1100)]
        text = "".join(f'[[budgets]]\nname = "{name}"\namount = {kwh}\n{more}' for name, kwh, more in rows)
        (folder / "budgets.toml").write_text(text)
        cluster = SlurmCluster(slurm, clock=lambda: now[0])
        controller = make_controller(
            cluster, folder, lambda: now[0], cap=Cap.constant(100.0 * NODES + slurm.used_w + ROOM_W),
            machine=lab_machine(NODES), checked=False, budgets=folder / "budgets.toml",
            energies=EnergyRecorder(EnergyFolder(folder / "energy")),
        )  # fmt: skip
        keeps = next(one.keeps for one in controller.extensions if isinstance(one.keeps, LiveBudgets))
        took, look = [], keeps.look

        def timed(state: RoundState) -> None:
            begin = time.process_time()
            look(state)
            took.append(1e3 * (time.process_time() - begin))

        stages = controller.planner.stages
        controller.planner.stages = tuple(timed if one == look else one for one in stages)
        controller.planner.plan(cluster.observe(), {}, telemetry_ok=True)
        if len(keeps.books.barred) != QUEUED:
            raise WattQueueError("not all jobs are barred")
        medians = []
        for kind in ("nothing", "a job leaves", "a job ended"):
            took.clear()
            for k in range(ROUNDS):
                now[0] += 5.0
                if kind == "a job leaves":
                    slurm.without_line(5000 + 7 * k)
                elif kind == "a job ended":
                    keeps.books.freed.update((0, 1 + k))
                controller.planner.plan(cluster.observe(), {}, telemetry_ok=True)
            medians.append(statistics.median(took))
        text = "{:.1f} ms where nothing changed, {:.1f} where a job left, {:.1f} where one ended; largest {:.1f}"
        return Measured(max(medians), detail={"rounds": text.format(*medians, max(took))})


@benchmark("live: parsing squeue's 12,000 lines afresh", unit="ms")
def parsing() -> Measured:
    """As after a start of the controller."""
    with site() as (slurm, _):
        observer = Observer(slurm, lambda: NOW_S)

        def forget(_: int) -> None:
            observer._jobs.clear()  # noqa: SLF001 - what it remembers of the lines before

        return Measured(least_ms(observer.snapshot, forget))


@benchmark("live: parsing them again, nothing changed", unit="ms")
def parsing_again() -> Measured:
    """Lines that stand as before are not read again."""
    with site() as (_, controller):
        return Measured(least_ms(controller.cluster.observe))


@benchmark("live: what a guard adds to a round, 10,000 queued on 10,000 nodes", unit="ms", at_most=20)
def guarded() -> Measured:
    """Median difference of whole rounds with and without, in turn, by processor time of planner and guard together.

    A job leaves in each, and no other fits. The detail has an interval of the median, from the order of differences.
    """
    took: dict[str, list[float]] = {"direct": [], "guard": []}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as both:
        of = {name: both.enter_context(rounds(Path(folder) / name, behind=name == "guard")) for name in took}
        for name in took:
            of[name]()  # compiles, and reads everything for the first time
        for k in range(PAIRS):
            for name in ("direct", "guard") if k % 2 else ("guard", "direct"):
                took[name].append(of[name]())
    more = sorted(guard - direct for guard, direct in zip(took["guard"], took["direct"], strict=True))
    figures = {name: statistics.median(one) for name, one in took.items()}
    figures |= {"least": more[MEDIAN_RANK - 1], "most": more[-MEDIAN_RANK]}
    return Measured(statistics.median(more), detail=figures)


@contextmanager
def rounds(folder: Path, *, behind: bool) -> Iterator[Callable[[], float]]:
    """Yield what runs a round and returns its processor time in ms, with or without a guard in a process of its own."""
    folder.mkdir()
    slurm = LeavingSlurm(QUEUED, NODES, running=2000)
    cap_w = 100.0 * NODES + slurm.used_w
    socket, child = folder / "socket", 0
    if behind and (child := os.fork()) == 0:
        settings = GuardSettings(
            socket, folder, f"{cap_w:.0f} W", {"p1": 200, "p2": 200}, 100.0 * NODES, accepted=frozenset({"estimates"})
        )
        serve_until_killed(WriteGuard(settings, slurm, SlurmWriter(slurm), AuditFile(folder)), socket)
    connection = GuardConnection(socket)
    try:
        while behind and not socket.exists():
            time.sleep(0.01)
        commands = GuardedCommands(connection) if behind else slurm
        cluster = SlurmCluster(commands, clock=lambda: NOW_S, writer=GuardWriter(connection) if behind else None)
        controller = make_controller(
            cluster, folder, lambda: NOW_S, cap=Cap.constant(cap_w), machine=lab_machine(NODES), checked=False
        )

        def run() -> float:
            begin_s = processor_s(child)
            report = controller.round()
            if report is None or any(one.error for one in report.outcomes):
                raise WattQueueError("a round that is measured has to be carried out")
            return 1e3 * (processor_s(child) - begin_s)

        yield run
    finally:
        connection.close()
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def processor_s(child: int) -> float:
    """Return the processor time of this process, and of a child with one thread (0 for none)."""
    own_s = time.process_time()
    return own_s + int(Path(f"/proc/{child}/schedstat").read_text().split()[0]) / 1e9 if child else own_s


class LeavingSlurm(BigSlurm):
    """A large cluster of which another waiting job has left at each look."""

    def run(self, argv: Sequence[str]) -> CommandResult:
        """Return the prepared text."""
        if tuple(argv) == JOBS:
            self.without_line(5000 + 7 * self.calls)
        return super().run(argv)


def serve_until_killed(guard: WriteGuard, socket: Path) -> NoReturn:
    """Be a guard, and nothing else of this process."""
    with contextlib.suppress(BaseException):
        serve(guard, listen(socket), lambda _: None, lambda: False)
    os._exit(1)


@benchmark("live: a load target for 1,000 nodes, decided, stored and handed to Slurm", unit="s", at_most=3)
def target() -> Measured:
    """All that runs consents and is parked in one round. What Slurm takes to answer the commands is not in it."""
    with tempfile.TemporaryDirectory() as folder:
        slurm = BigSlurm(0, 1_000, running=450, running_w=200, comment=CONSENT)
        cap, source = Cap.constant(100.0 * 1_000 + slurm.used_w), Stated()
        controller = make_controller(
            SlurmCluster(slurm, clock=lambda: NOW_S), Path(folder), lambda: NOW_S, cap=cap,
            machine=lab_machine(1_000), policy="dr-parking", targets=source, consent=SiteDefaults(), checked=False,
        )  # fmt: skip
        controller.round()
        source.stated = LoadTargets.of(LoadTarget(NOW_S - 1.0, NOW_S + 3600.0, 100.0 * 1_000))
        begin = time.process_time()
        report = controller.round()
        took_s = time.process_time() - begin
        outcomes = [] if report is None else report.outcomes
        stopped = sum(isinstance(o.write, StopJob) and not o.error for o in outcomes)
        return Measured(took_s, detail={"jobs": stopped, "writes": len(outcomes)})
