"""Build a controller from its configuration, and run it until SIGTERM or SIGINT.

The only module that knows all the others: it opens files and databases, chooses implementations by configuration, and
connects them. Everything it builds takes its parts as arguments, so tests build controllers of their own without it.

Order in :func:`assemble`: files first (machine, policy, cap, secrets), then Slurm, then the run folder, then the
database. What is wrong in the files is reported on any host, without a Slurm; and nothing is locked or created before
everything that can be wrong has been read. In control mode the guard's check comes before the run folder is claimed: a
controller that job_submit.lua would refuse must not hold the lease.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Engine

from wattqueue.errors import InputError, WattQueueError
from wattqueue.formats.machine.file import load_machine
from wattqueue.kernels import codes
from wattqueue.live.applications import Applications
from wattqueue.live.capfile import CapFile
from wattqueue.live.config import LiveConfig, read_secret
from wattqueue.live.controller import Controller
from wattqueue.live.guard import Guard, fatal
from wattqueue.live.learning import MeasuredJobs
from wattqueue.live.metrics import LiveMetrics, serve
from wattqueue.live.notify import notify
from wattqueue.live.planner import Planner, Rules
from wattqueue.live.predictor import MeasuredJob, Predictor
from wattqueue.live.python_parts import Controls, decide_with
from wattqueue.live.recording import Recorder
from wattqueue.live.slurm.apply import Applier, Frequencies, Pool, ReconfigurePool, ReservationPool
from wattqueue.live.slurm.commands import Commands, Slurm
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.memory import Memory
from wattqueue.live.status import HEAD, RunDir
from wattqueue.live.telemetry.base import Telemetry, TelemetrySource
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.telemetry.powercap import Powercap
from wattqueue.live.telemetry.prometheus import Prometheus
from wattqueue.live.telemetry.slurm_energy import SlurmEnergy
from wattqueue.parts.estimator.ear import Ear
from wattqueue.parts.placement.lowest import Lowest
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.store.database import open_database

ACCOUNTING_S = 60.0
"""Time between two reads of Slurm's accounting: sacct takes a second on a busy slurmdbd, and nothing waits for it."""


def slurm_of(config: LiveConfig) -> Slurm:
    """Return the commands of the configured Slurm."""
    environment = {} if config.slurm.conf is None else {"SLURM_CONF": str(config.slurm.conf)}
    return Commands(config.slurm.timeout_s, environment, config.slurm.bin_dir)


def sources_of(config: LiveConfig) -> list[TelemetrySource]:
    """Return the telemetry sources in order of trust: the closest to the hardware first."""
    t = config.telemetry
    sources: list[TelemetrySource] = []
    if t.powercap:
        sources.append(Powercap(t.powercap, t.other_w))
    if t.pm_counters:
        sources.append(PmCounters(t.pm_counters))
    if t.prometheus_url:
        token = read_secret(t.prometheus_token_file) if t.prometheus_token_file is not None else ""
        where = (t.prometheus_url, t.prometheus_query, t.prometheus_label, t.prometheus_fresh_query)
        sources.append(Prometheus(*where, token=token))
    return sources


def require_driven(policy: Policy) -> None:
    """Refuse choices that the live controller does not carry out, before it touches Slurm.

    Ignoring one would run another policy than the one that was simulated. The simulator refuses its own list
    (``policy.capabilities``).

    Raises: InputError for a pass in plain Python, a placement that ranks nodes, or a measured ledger.
    """
    unsupported = {
        "a pass of its own": not hasattr(policy.backfill, "code"),
        "a placement that ranks nodes": not isinstance(policy.placement, Lowest),
        "a measured ledger": policy.ledger.code == codes.MEASURED,
    }
    for what, chosen in unsupported.items():
        if chosen:
            raise InputError(
                f"policy {policy.name} has {what}, which live does not drive",
                where="policy",
                hint="`wattqueue policies` lists the rows; those of the table can be driven",
            )


def rules_of(config: LiveConfig) -> Rules:
    """Return the planner's rules. Nodes are named where the site asks for it; no policy that live drives ranks them."""
    place = config.slurm.place_nodes == "always"
    t = config.telemetry
    return Rules(
        config.mode, config.start_timeout_s, config.starts_a_cycle, config.slurm.write_priority, place,
        config.slurm.power_nodes, t.track_running and t.any_node_source, t.settle_s, t.margin,
        idle_tolerance=t.idle_tolerance, licence_floor=t.licence_floor, sets_frequency=config.frequency_dir is not None,
    )  # fmt: skip


def audit_of(config: LiveConfig, engine: Engine, who: str, clock: Callable[[], float] = time.time) -> Audit:
    """Return the audit log of this configuration; ``who`` names the process in each row."""
    key = read_secret(config.audit_key_file).encode() if config.audit_key_file is not None else b""
    return Audit(engine, who, clock, key, config.run_dir / HEAD)


def assemble(config: LiveConfig, slurm: Slurm | None = None, clock: Callable[[], float] = time.time) -> Controller:
    """Build a controller with everything that its configuration names; its run folder is claimed.

    ``slurm`` and ``clock`` are for tests.

    Raises: InputError, MachineError or SlurmError naming the part of the configuration that cannot be used; in control
    mode also where what is installed in Slurm contradicts it.
    """
    machine = load_machine(config.machine)
    policy, applications, caps = load_policy(config.policy), applications_of(config), CapFile(config.cap, machine)
    if applications is not None:
        policy = applications.into(policy)
    require_driven(policy)
    if config.frequency_dir is not None and not config.frequency_dir.is_dir():
        raise InputError(
            "frequency_dir is no folder", where=config.frequency_dir, hint="make it, on storage all nodes see"
        )
    telemetry = Telemetry(sources_of(config), config.telemetry.stale_s)
    slurm = slurm or slurm_of(config)  # after the files: what is wrong in them is found without a Slurm
    # a cap that cannot be read now says nothing about the pool that was installed
    guard = Guard.of(config.model_copy(update={"cap": "none"}) if caps.closed else config, slurm)
    layout, findings = guard.layout, guard.check(slurm)
    if config.mode == "control" and fatal(findings):
        hint = "run `wattqueue live install --write` with this configuration, and follow what it prints"
        raise InputError(fatal(findings)[0], where="job_submit.lua", hint=hint)
    run_dir = RunDir(config.run_dir)
    run_dir.claim()
    engine = open_database(config.state)
    memory, measured_jobs = Memory(engine), MeasuredJobs(engine)
    audit = audit_of(config, engine, f"controller/{policy.name}/{os.getpid()}", clock)
    predictor = Predictor(policy.estimator, layout)
    predictor.learn(measured_jobs.recall())
    rules = rules_of(config)
    planner = Planner(layout, policy, caps.cap, rules, memory, predictor, decide_with(policy))
    pool: Pool = ReservationPool()
    if config.slurm.pool == "reconfigure" and config.slurm.pool_file is not None:
        pool = ReconfigurePool(config.slurm.pool_file, config.slurm.pool_line)
    applier = Applier(slurm, audit, pool, Frequencies(config.frequency_dir))
    metrics = LiveMetrics(config.mode)
    measured_jobs.on_ratio = metrics.learned
    controller = Controller(
        planner, Observer(slurm, clock), applier, telemetry, audit, run_dir, clock, config.away_s, metrics,
        Recorder(config.record) if config.record is not None else None,
    )  # fmt: skip
    controller.caps = caps
    standing = [one.what for one in findings]
    controller.inspect = lambda nodes: [*standing, *guard.inspect(nodes)]
    if policy.controls:
        controller.controls = Controls(policy, layout)
    teach(controller, measured_jobs, SlurmEnergy(slurm) if config.telemetry.slurm_energy else None, applications)
    return controller


def applications_of(config: LiveConfig) -> Applications | None:
    """Return the configured application database. Raises: InputError for one that cannot be opened."""
    section = config.applications
    return None if section is None else Applications.open(section.database, section.coefficients, section.first_run)


def teach(
    controller: Controller,
    measured_jobs: MeasuredJobs,
    accounting: SlurmEnergy | None,
    applications: Applications | None = None,
) -> None:
    """Connect what ends with what learns: measured jobs are stored, and train the estimator.

    Jobs that telemetry did not measure are looked up in Slurm's accounting, if configured, once a minute and only
    while there are any. A failure there is ignored: they are looked up again a minute later.
    """
    last = controller.clock()
    predictor = controller.planner.predictor

    # what is already stored is not learned twice: after a restart Slurm may show the same end again
    def keep(jobs: Sequence[MeasuredJob]) -> list[MeasuredJob]:
        fresh = measured_jobs.keep(jobs)
        if applications is not None and applications.learn(fresh) and isinstance(predictor.estimator, Ear):
            predictor.estimator.profiles = applications.profiles()
        return fresh

    def learned(jobs: Sequence[MeasuredJob]) -> None:
        keep(jobs)

    controller.on_learned = learned
    if accounting is None:
        return

    def ask(now_s: float) -> None:
        nonlocal last
        if now_s - last < ACCOUNTING_S or not measured_jobs.gone:
            return
        # an hour earlier than the first missing end: slurmdbd receives ends late while it was down
        since = min(at for _, at in measured_jobs.gone.values()) - 3600.0
        last = now_s
        try:
            found = measured_jobs.from_accounting(accounting.finished(since))
        except WattQueueError:
            return
        predictor.learn(keep(found))

    controller.after_round = ask
    controller.on_ended = measured_jobs.ended


def run_until_stopped(controller: Controller, config: LiveConfig, say: Callable[[str], None], rounds: int = 0) -> None:
    """Run a round every period until SIGTERM or SIGINT (or ``rounds`` of them), then clean up.

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
    done, reported = 0, set[str]()
    try:
        while not stop.is_set():
            begin = time.monotonic()
            report = controller.round()
            notify("WATCHDOG=1")
            done += 1
            if report is None:
                say(f"Slurm could not be observed ({controller.failures} in a row): {controller.problem}")
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


def log_lines(report: object) -> list[str]:
    """Return the lines of a round for the log: writes, failures, and in the other modes what would be written."""
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
    """Return the status file's content; an empty object while there is none."""
    try:
        return path.read_text()
    except OSError:
        return json.dumps({})
