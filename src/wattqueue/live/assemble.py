"""Build a controller from its configuration, and run it until SIGTERM or SIGINT.

The only module that knows all the others, the driver of the cluster among them: it opens files and databases, chooses
implementations by configuration, and connects them. :func:`assemble` reads what a configuration names;
:func:`build` makes a complete controller of it, and is what tests call with values of their own.

Order in :func:`assemble`: files first (machine, policy, cap, secrets), then the cluster, then the run folder, then the
database. What is wrong in the files is reported on any host, without a Slurm; and nothing is locked or created before
everything that can be wrong has been read. In control mode the driver's check comes before the run folder is claimed: a
controller that job_submit.lua would refuse must not hold the lease.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from wattqueue.errors import InputError
from wattqueue.formats.machine.file import load_machine
from wattqueue.live.applications import Applications
from wattqueue.live.apply import Applier
from wattqueue.live.capfile import CapFile
from wattqueue.live.cluster import Cluster
from wattqueue.live.config import LiveConfig, read_secret
from wattqueue.live.controller import Controller, Report
from wattqueue.live.decision import Decider, require_live
from wattqueue.live.learning import MeasuredJobs
from wattqueue.live.metrics import LiveMetrics, serve
from wattqueue.live.notify import notify
from wattqueue.live.planner import Planner, Rules
from wattqueue.live.predictor import Predictor
from wattqueue.live.recording import Recorder
from wattqueue.live.slurm.accounting import SlurmEnergy
from wattqueue.live.slurm.connect import commands_for, connect
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.memory import Memory
from wattqueue.live.status import HEAD, RunDir
from wattqueue.live.teaching import Teacher
from wattqueue.live.telemetry.base import JobSource, Telemetry, TelemetrySource
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.telemetry.powercap import Powercap
from wattqueue.live.telemetry.prometheus import Prometheus
from wattqueue.live.warm_up import warm_up
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.store.database import open_database


def sources_of(config: LiveConfig) -> list[TelemetrySource]:
    """Return the telemetry sources in order of trust: the closest to the hardware first."""
    t = config.telemetry
    sources: list[TelemetrySource] = []
    if t.powercap:
        sources.append(Powercap(t.powercap, t.other_w))
    if t.pm_counters:
        sources.append(PmCounters(t.pm_counters))
    if t.broker is not None:
        from wattqueue.live.agent.link import agents_behind  # needs paho-mqtt

        sources.append(agents_behind(t.broker, t.other_w))
    if t.prometheus_url:
        token = read_secret(t.prometheus_token_file) if t.prometheus_token_file is not None else ""
        where = (t.prometheus_url, t.prometheus_query, t.prometheus_label, t.prometheus_fresh_query)
        sources.append(Prometheus(*where, token=token))
    return sources


def rules_of(config: LiveConfig) -> Rules:
    """Return the planner's rules."""
    t = config.telemetry
    return Rules(
        config.mode, config.start_timeout_s, config.starts_a_cycle, config.slurm.write_priority,
        config.slurm.place_nodes, config.slurm.power_nodes, t.track_running and t.any_node_source, t.settle_s, t.margin,
        idle_tolerance=t.idle_tolerance, licence_floor=t.licence_floor, sets_frequency=config.frequency_dir is not None,
    )  # fmt: skip


def audit_of(config: LiveConfig, engine: Engine, who: str, clock: Callable[[], float] = time.time) -> Audit:
    """Return the audit log of this configuration; ``who`` names the process in each row."""
    key = read_secret(config.audit_key_file).encode() if config.audit_key_file is not None else b""
    return Audit(engine, who, clock, key, config.run_dir / HEAD)


@dataclass(frozen=True)
class Inputs:
    """What a controller is built from, read and checked: files as values, the cluster as its driver."""

    policy: Policy
    cap: CapFile | Cap
    """A file that is read again when it changes, or a fixed series."""
    cluster: Cluster
    layout: Layout
    rules: Rules
    state: Engine
    run_dir: RunDir
    audit: Audit
    sources: Sequence[TelemetrySource] = ()
    stale_s: float = 10.0
    """Age from which a sample counts as the node's maximum."""
    applications: Applications | None = None
    accounting: JobSource | None = None
    standing: Sequence[str] = ()
    """Findings about the installation, for the status."""
    record: Path | None = None
    away_s: float = 120.0
    clock: Callable[[], float] = time.time
    boundary: Callable[[str], None] = lambda _: None
    """Called before and after each write."""


def assemble(config: LiveConfig, cluster: Cluster | None = None, clock: Callable[[], float] = time.time) -> Controller:
    """Build a controller with everything that its configuration names; its run folder is claimed.

    ``cluster`` stands in for the configured Slurm, ``clock`` for the time.

    Raises: InputError, MachineError or ClusterError naming the part of the configuration that cannot be used; in
    control mode also where what is installed on the cluster contradicts it.
    """
    machine = load_machine(config.machine)
    policy, applications, caps = load_policy(config.policy), applications_of(config), CapFile(config.cap, machine)
    if applications is not None:
        policy = applications.into(policy)
    require_live(policy, machine, names_nodes=config.slurm.place_nodes != "never")
    if config.frequency_dir is not None and not config.frequency_dir.is_dir():
        raise InputError(
            "frequency_dir is no folder", where=config.frequency_dir, hint="make it, on storage all nodes see"
        )
    sources = sources_of(config)
    if cluster is None:  # after the files: what is wrong in them is found without a Slurm
        # a cap that cannot be read now says nothing about the pool that was installed
        cluster = connect(config.model_copy(update={"cap": "none"}) if caps.closed else config, clock=clock)
    findings = cluster.check()
    dangerous = [one.what for one in findings if one.fatal]
    if config.mode == "control" and dangerous:
        hint = "run `wattqueue live install --write` with this configuration, and follow what it prints"
        raise InputError(dangerous[0], where="job_submit.lua", hint=hint)
    layout = layout_of(config, cluster, machine)
    run_dir = RunDir(config.run_dir)
    run_dir.claim()
    engine = open_database(config.state)
    return build(
        Inputs(
            policy, caps, cluster, layout, rules_of(config), engine, run_dir,
            audit_of(config, engine, f"controller/{policy.name}/{os.getpid()}", clock), sources,
            config.telemetry.stale_s, applications,
            SlurmEnergy(commands_for(config)) if config.telemetry.slurm_energy else None,
            [one.what for one in findings], config.record, config.away_s, clock,
        )
    )  # fmt: skip


def build(given: Inputs) -> Controller:
    """Build a controller, complete, from inputs that were read and checked."""
    policy, layout, metrics = given.policy, given.layout, LiveMetrics(given.rules.mode)
    caps = given.cap if isinstance(given.cap, CapFile) else None
    measured_jobs = MeasuredJobs(given.state, metrics.learned)
    cap = given.cap.cap if isinstance(given.cap, CapFile) else given.cap
    rules = given.rules
    decider = Decider(policy, layout, power_nodes=rules.power_nodes, patience_s=rules.start_timeout_s)
    predictor = Predictor(decider.session, layout)
    predictor.learn(measured_jobs.recall())
    planner = Planner(layout, policy, cap, rules, Memory(given.state), predictor, decider)
    recorder = None
    if given.record is not None:
        recorder = Recorder(given.record, policy, layout.machine, predictor, power_nodes=rules.power_nodes)
    return Controller(
        planner, given.cluster, Applier(given.cluster, given.audit, given.boundary),
        Telemetry(given.sources, given.stale_s), given.audit, given.run_dir, given.clock, given.away_s, metrics,
        recorder,
        caps,
        Teacher(predictor, measured_jobs, given.accounting, given.applications, given.clock()), given.standing,
    )  # fmt: skip


def layout_of(config: LiveConfig, cluster: Cluster, machine: Machine) -> Layout:
    """Match the nodes of the cluster with the units of the machine.

    Raises: MachineError where they differ or a maximum is not stated, ClusterError where the cluster does not answer.
    """
    layout = Layout.of(machine, cluster.observe().nodes, config.slurm.partitions)
    for p in range(len(machine.partitions)):
        layout.most_net_w(p)  # raises where the maximum is missing: better now than in a round
    return layout


def applications_of(config: LiveConfig) -> Applications | None:
    """Return the configured application database. Raises: InputError for one that cannot be opened."""
    section = config.applications
    return None if section is None else Applications.open(section.database, section.coefficients, section.first_run)


def run_until_stopped(controller: Controller, config: LiveConfig, say: Callable[[str], None], rounds: int = 0) -> bool:
    """Run a round every period until SIGTERM or SIGINT (or ``rounds`` of them), then clean up.

    Returns False where it was stopped before the pass was compiled: a thread then still compiles, and the process
    has to end without waiting for it (``live.warm_up``).

    The signal handlers only set an event: a round in progress ends its current writes, so no command is cut off in the
    middle. At the end the heartbeat is removed at once, so that job_submit.lua stops holding jobs without waiting for
    ``away_s``, and systemd's watchdog learns that the silence is intended. A problem is logged when it appears, not in
    every round.
    """
    stop = threading.Event()

    def request_stop(*_: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, request_stop)
    # the metrics' server is a thread of its own: a scrape that hangs delays no round
    server = None
    if config.metrics.port and isinstance(controller.meter, LiveMetrics):
        token = read_secret(config.metrics.token_file) if config.metrics.token_file is not None else ""
        status = config.run_dir / "status.json"
        where = (config.metrics.address, config.metrics.port)
        server = serve(controller.meter, *where, token, lambda: _text(status))
    controller.audit.note("start", f"mode {config.mode}, policy {config.policy}, cap {config.cap}")
    say(f"{config.mode}: policy {config.policy}, cap {config.cap}, every {config.period_s:g} s")
    notify("READY=1")
    done, reported, compiled = 0, set[str](), False
    try:
        compiled = warm_up(stop, say) or not stop.is_set()
        while not stop.is_set():
            begin = time.monotonic()
            report = controller.round()
            notify("WATCHDOG=1")
            done += 1
            if report is None:
                name, times = controller.cluster.name, controller.failures
                say(f"{name} could not be observed ({times} in a row): {controller.problem}")
            else:
                for line in [*(text for text in report.problems if text not in reported), *log_lines(report)]:
                    say(line)
                reported = set(report.problems)
            if rounds and done >= rounds:
                break
            stop.wait(max(0.0, controller.wait_s(config.period_s) - (time.monotonic() - begin)))
    finally:
        controller.audit.note("stop", "by signal" if stop.is_set() else "ended")
        if server is not None:
            server.shutdown()
            server.server_close()
        controller.telemetry.close()
        notify("STOPPING=1")
        controller.run_dir.away()
        controller.run_dir.release()
    return compiled


def log_lines(report: Report) -> list[str]:
    """Return the lines of a round for the log: writes, failures, and in the other modes what would be written."""
    lines = []
    for outcome in report.outcomes:
        write = outcome.write
        what = f"{write.kind} {write.target}: {write.before} -> {write.after} ({write.why})"
        lines.append(f"{what}: {outcome.error}" if outcome.error else what)
    if report.would:
        first = "; ".join(f"{w.kind} {w.target} {w.after}" for w in report.would[:5])
        lines.append(f"would write {len(report.would)}: {first}")
    return lines


def _text(path: Path) -> str:
    """Return the status file's content; an empty object while there is none."""
    try:
        return path.read_text()
    except OSError:
        return json.dumps({})
