"""Put a controller together from its configuration, and run it until it is told to stop."""

from __future__ import annotations

import json
import os
import pwd
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Engine

from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.cap import parse_cap
from wattqueue.formats.machine_toml import load_machine
from wattqueue.live.applications import Applications
from wattqueue.live.asking import Controls, decide_with
from wattqueue.live.brain import Brain, Rules
from wattqueue.live.capfile import CapFile
from wattqueue.live.config import LiveConfig, read_secret
from wattqueue.live.controller import Controller
from wattqueue.live.learning import Lessons
from wattqueue.live.metrics import Metrics, serve
from wattqueue.live.predictor import Learned, Predictor
from wattqueue.live.recording import Recorder
from wattqueue.live.slurm.apply import Applier, Frequencies, Pool, ReconfigurePool, ReservationPool
from wattqueue.live.slurm.commands import Commands, Slurm
from wattqueue.live.slurm.install import NodeWatts, Settings
from wattqueue.live.slurm.observe import NODES, Observer, parse_nodes
from wattqueue.live.slurm.rest import Rest
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.memory import Memory
from wattqueue.live.status import BEAT, HEAD, RunDir, read_beat
from wattqueue.live.telemetry.base import Source, Telemetry
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.telemetry.powercap import Powercap
from wattqueue.live.telemetry.prometheus import Prometheus
from wattqueue.live.telemetry.slurm_energy import SlurmEnergy
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.parts.estimator.ear import Ear
from wattqueue.policy.policy import load_policy
from wattqueue.store.database import open_database

ACCOUNTING_S = 60.0


def slurm_of(config: LiveConfig) -> Slurm:
    """The configured Slurm: its commands, and where configured slurmrestd for the lists.

    Raises: InputError for a token that cannot be read, or that others may read.
    """
    environment = {} if config.slurm.conf is None else {"SLURM_CONF": str(config.slurm.conf)}
    commands = Commands(config.slurm.timeout_s, environment, config.slurm.bin_dir)
    if not config.slurm.rest:
        return commands
    file, user = config.slurm.rest_token_file, config.user or pwd.getpwuid(os.geteuid()).pw_name
    if file is not None:
        read_secret(file)
    token = (lambda: "") if file is None else (lambda: read_secret(file))
    return Rest(commands, config.slurm.rest, user, token, config.slurm.rest_version, config.slurm.timeout_s)


def layout_of(config: LiveConfig, slurm: Slurm, machine: Machine) -> Layout:
    """Which node of Slurm is which unit.

    Raises: MachineError where machine and Slurm differ, SlurmError where no Slurm answers here.
    """
    from wattqueue.live.slurm.commands import SlurmError, read

    try:
        listed = read(slurm, NODES)
    except SlurmError as error:
        mend = "live needs a machine where sinfo answers; [slurm] conf = FILE names another slurm.conf"
        raise SlurmError(error.what, where=error.where, mend=mend) from error
    rows = [row for line in listed.splitlines() for row in parse_nodes(line)]
    layout = Layout.of(machine, rows, config.slurm.partitions)
    for p in range(len(machine.partitions)):
        layout.most_net_w(p)
    return layout


def sources_of(config: LiveConfig) -> list[Source]:
    """Telemetry sources in order of trust."""
    t = config.telemetry
    sources: list[Source] = []
    if t.powercap:
        sources.append(Powercap(t.powercap, t.other_w))
    if t.pm_counters:
        sources.append(PmCounters(t.pm_counters))
    if t.prometheus_url:
        token = read_secret(t.prometheus_token_file) if t.prometheus_token_file is not None else ""
        where = (t.prometheus_url, t.prometheus_query, t.prometheus_label, t.prometheus_fresh_query)
        sources.append(Prometheus(*where, token=token))
    return sources


def settings_of(config: LiveConfig, slurm: Slurm, whole_pool_w: int) -> Settings:
    """What job_submit.lua is told. The pool is what the highest cap leaves above idle."""
    import math

    machine = load_machine(config.machine)
    layout = layout_of(config, slurm, machine)
    nodes: dict[str, NodeWatts] = {}
    for name, row in layout.partition_of.items():
        partition = machine.partitions[row]
        factor = layout.machine.option_dynamic_factor[machine.option_start[row] : machine.option_start[row + 1]]
        most = layout.most_net_w(row)
        idle = partition.idle_w if machine.cap_scope == "jobs" else 0.0
        least = math.ceil(idle + (most - idle) * float(factor.min()))
        cpus = partition.sockets_per_node * partition.cores_per_socket
        nodes[name] = NodeWatts(most, min(least, most), cpus)
    pool = whole_pool_w or whole_pool(config, machine)
    return Settings(nodes, [uid_of(config)], config.run_dir.resolve() / BEAT, math.ceil(config.away_s), pool)


def uid_of(config: LiveConfig) -> int:
    """The account that the controller runs as. Raises InputError for one that is not there."""
    if not config.user:
        return os.geteuid()
    try:
        return pwd.getpwnam(config.user).pw_uid
    except KeyError as error:
        raise InputError(f"no account {config.user!r}", where="user", mend="make it, or name another") from error


def whole_pool(config: LiveConfig, machine: Machine) -> int:
    """Watts of the licence in slurm.conf: the highest cap less idle watts, or what all nodes can draw."""
    import math

    import numpy as np

    highest = float(parse_cap(config.cap, machine).cap_w.max())
    most = machine.scope_max_w()
    if most is None:
        raise InputError("max_w is not stated", where=machine.name, mend="live needs it of every partition")
    if not np.isfinite(highest):
        highest = most
    return max(0, math.floor(min(highest, most) - machine.scope_idle_w()))


def rules_of(config: LiveConfig, *, ranks_nodes: bool) -> Rules:
    """The site's rules."""
    place = config.slurm.place_nodes == "always" or (config.slurm.place_nodes == "auto" and ranks_nodes)
    t = config.telemetry
    return Rules(
        config.mode, config.start_timeout_s, config.starts_a_cycle, config.slurm.write_priority, place,
        config.slurm.power_nodes, t.track_running and t.any_node_source, t.settle_s, t.margin,
        config.frequency_dir is not None,
    )  # fmt: skip


def audit_of(config: LiveConfig, engine: Engine, who: str, clock: Callable[[], float] = time.time) -> Audit:
    """The audit log of this configuration."""
    key = read_secret(config.audit_key_file).encode() if config.audit_key_file is not None else b""
    return Audit(engine, who, clock, key, config.run_dir / HEAD)


def assemble(config: LiveConfig, slurm: Slurm | None = None, clock: Callable[[], float] = time.time) -> Controller:
    """A controller with everything that its configuration names; the run folder is claimed.

    Raises: the errors of ours that say which part of the configuration cannot be had.
    """
    machine = load_machine(config.machine)
    policy, applications, caps = load_policy(config.policy), applications_of(config), CapFile(config.cap, machine)
    if applications is not None:
        policy = applications.into(policy)
    if not hasattr(policy.backfill, "code"):
        raise InputError(f"policy {policy.name} has a pass of its own, which live does not drive", where="policy")
    if config.frequency_dir is not None and not config.frequency_dir.is_dir():
        raise InputError(
            "frequency_dir is no folder", where=config.frequency_dir, mend="make it, on storage all nodes see"
        )
    telemetry = Telemetry(sources_of(config), config.telemetry.stale_s)
    slurm = slurm or slurm_of(config)  # asked last: what the files say wrong needs no Slurm
    layout = layout_of(config, slurm, machine)
    run_dir = RunDir(config.run_dir)
    run_dir.claim()
    engine = open_database(config.state)
    memory, lessons = Memory(engine), Lessons(engine)
    audit = audit_of(config, engine, f"controller/{policy.name}/{os.getpid()}", clock)
    predictor = Predictor(policy.estimator, layout)
    predictor.learn(lessons.recall())
    ranks = type(policy.placement).__name__ != "Lowest"
    rules = rules_of(config, ranks_nodes=ranks)
    brain = Brain(layout, policy, caps.cap, rules, memory, predictor, decide_with(policy))
    pool: Pool = ReservationPool()
    if config.slurm.pool == "reconfigure" and config.slurm.pool_file is not None:
        pool = ReconfigurePool(config.slurm.pool_file, config.slurm.pool_line)
    applier = Applier(slurm, audit, pool, Frequencies(config.frequency_dir))
    metrics = Metrics(config.mode)
    lessons.on_ratio = metrics.learned
    controller = Controller(
        brain, Observer(slurm, clock), applier, telemetry, audit, run_dir, clock, config.away_s, metrics,
        Recorder(config.record) if config.record is not None else None,
    )  # fmt: skip
    controller.caps = caps
    if policy.controls:
        controller.controls = Controls(policy, layout)
    teach(controller, lessons, SlurmEnergy(slurm) if config.telemetry.slurm_energy else None, applications)
    return controller


def applications_of(config: LiveConfig) -> Applications | None:
    """The application database that is configured. Raises: InputError for one that cannot be opened."""
    section = config.applications
    return None if section is None else Applications.open(section.database, section.coefficients, section.first_run)


def teach(
    controller: Controller, lessons: Lessons, accounting: SlurmEnergy | None, applications: Applications | None = None
) -> None:
    """Measured jobs are stored and teach; those that only accounting measured are asked for once a minute."""
    last = controller.clock()
    predictor = controller.brain.predictor

    def keep(jobs: Sequence[Learned]) -> list[Learned]:
        fresh = lessons.keep(jobs)
        if applications is not None and applications.learn(fresh) and isinstance(predictor.estimator, Ear):
            predictor.estimator.profiles = applications.profiles()
        return fresh

    def learned(jobs: Sequence[Learned]) -> None:
        keep(jobs)

    controller.on_learned = learned
    if accounting is None:
        return

    def ask(now_s: float) -> None:
        nonlocal last
        if now_s - last < ACCOUNTING_S or not lessons.gone:
            return
        since = min(at for _, at in lessons.gone.values()) - 3600.0
        last = now_s
        try:
            found = lessons.from_accounting(accounting.finished(since))
        except WattQueueError:
            return
        predictor.learn(keep(found))

    controller.after_round = ask
    controller.on_ended = lessons.ended


def run_until_told(controller: Controller, config: LiveConfig, say: Callable[[str], None], rounds: int = 0) -> None:
    """Rounds every period until SIGTERM or SIGINT (or so many); then the beat stops and the run folder is free."""
    stop = threading.Event()

    def told(*_: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)
    server = None
    if config.metrics.port and isinstance(controller.meter, Metrics):
        token = read_secret(config.metrics.token_file) if config.metrics.token_file is not None else ""
        status = config.run_dir / "status.json"
        where = (config.metrics.address, config.metrics.port)
        server = serve(controller.meter, *where, token, lambda: _text(status))
    controller.audit.note("start", f"mode {config.mode}, policy {config.policy}, cap {config.cap}")
    say(f"{config.mode}: policy {config.policy}, cap {config.cap}, every {config.period_s:g} s")
    done = 0
    try:
        while not stop.is_set():
            begin = time.monotonic()
            report = controller.round()
            done += 1
            if report is None:
                say(f"Slurm could not be observed ({controller.failures} in a row): {controller.problem}")
            else:
                for line in told_of(report):
                    say(line)
            if rounds and done >= rounds:
                break
            stop.wait(max(0.0, controller.wait_s(config.period_s) - (time.monotonic() - begin)))
    finally:
        controller.audit.note("stop", "told to" if stop.is_set() else "ended")
        if server is not None:
            server.shutdown()
            server.server_close()
        controller.telemetry.close()
        controller.observer.close()
        controller.run_dir.away()
        controller.run_dir.release()


def told_of(report: object) -> list[str]:
    """Lines worth a log: what was written, what failed, what would have been written."""
    lines = []
    for outcome in getattr(report, "outcomes", ()):
        write = outcome.write
        what = f"{write.kind} {write.target}: {write.before} -> {write.after} ({write.why})"
        lines.append(f"{what}: {outcome.error}" if outcome.error else what)
    would = getattr(report, "would", ())
    if would:
        lines.append(f"would write {len(would)}: " + "; ".join(f"{w.kind} {w.target} {w.after}" for w in would[:5]))
    return lines


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return json.dumps({})


def release_all(
    config: LiveConfig, *, force: bool = False, slurm: Slurm | None = None, now_s: float | None = None
) -> int:
    """While the controller is away: let go of every job that it holds, so that Slurm schedules alone under the pool.

    Returns the number of jobs released; none while the beat is younger than ``away_s`` (unless ``force``).
    Jobs that need a lower frequency than their maximum, and those of their users, stay held.
    """
    from wattqueue.live.slurm.commands import JOB
    from wattqueue.live.slurm.goal import Write
    from wattqueue.live.sorting import MARK, USER_HELD

    now_s = time.time() if now_s is None else now_s
    beat = read_beat(config.run_dir)
    if beat is not None and now_s - beat[1] <= config.away_s and not force:
        return 0
    slurm = slurm or slurm_of(config)
    run_dir = RunDir(config.run_dir)
    run_dir.claim()  # two writers never meet: a controller that lives has the lock
    try:
        snapshot = Observer(slurm, lambda: now_s).snapshot()
        applier = Applier(slurm, audit_of(config, open_database(config.state), f"release/{os.getpid()}"))
        writes = []
        for row in snapshot.jobs:
            details = snapshot.details.get(row.key)
            name = row.key.name.partition("+")[0]
            if not (row.held and details is not None and details.mark.startswith(MARK) and JOB.fullmatch(name)):
                continue
            if details.mark == f"{MARK}needs-controller" or (details.mark == USER_HELD and row.reason == "JobHeldUser"):
                continue
            argv = ("scontrol", "release", name)
            writes.append(Write("release", name, argv, "held", "released", "the controller is away", row.key))
        outcomes = applier.apply(writes, snapshot.pool.total if snapshot.pool is not None else 0)
        return sum(not outcome.error for outcome in outcomes)
    finally:
        run_dir.release()
