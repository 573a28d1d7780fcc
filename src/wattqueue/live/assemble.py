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

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from wattqueue.errors import InputError
from wattqueue.live.apply import Applier
from wattqueue.live.cluster import Node
from wattqueue.live.config import LimitsSection, LiveConfig
from wattqueue.live.consent_tags import SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.decision import Decider, require_live
from wattqueue.live.driver import Cluster, Finding
from wattqueue.live.extension import Extension
from wattqueue.live.features.agent_controls import AppSources, load_live_policy
from wattqueue.live.features.applications import Applications
from wattqueue.live.features.budgets import LiveBudgets, budgets_extension
from wattqueue.live.features.capfile import CapFile, cap_extension
from wattqueue.live.features.configured import (
    applications_of,
    audit_of,
    layout_of,
    misnamed_of,
    require_frequencies,
    rules_of,
    run_dir_of,
    sources_of,
    targets_of,
)
from wattqueue.live.features.consent import Consents, consent_extension
from wattqueue.live.features.job_counters import JobCounters
from wattqueue.live.features.job_energy import EnergyRecorder, energies_of, energy_extension
from wattqueue.live.features.learning import MeasuredJobs
from wattqueue.live.features.ledger_meter import LedgerMeter, ledger_extension
from wattqueue.live.features.load_targets import TargetedCap, TargetSource, demand_extension
from wattqueue.live.features.misnamed import MisnamedRecord, misnamed_extension
from wattqueue.live.features.node_limits import agents_extension, limits_of
from wattqueue.live.features.run_history import RunHistory
from wattqueue.live.features.supply import binds, licences_of, require_same_domains, supply_extension
from wattqueue.live.features.teaching import Teacher, teacher_extension
from wattqueue.live.files.reading import read_secret
from wattqueue.live.files.status import RunDir, notify, status_text
from wattqueue.live.files.supply_limits import GATE
from wattqueue.live.guard.required import require_accepted
from wattqueue.live.managed import managed_machine, shared_nodes, site_of
from wattqueue.live.planner import Planner, Rules
from wattqueue.live.predictor import Predictor
from wattqueue.live.recordings.recording import Recorder, recorder_extension
from wattqueue.live.reports.metrics import LiveMetrics, serve
from wattqueue.live.reports.page_file import PageFile, page_extension
from wattqueue.live.reports.report import ControllerLog
from wattqueue.live.reports.why_file import WhyFile, why_extension
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.slurm.accounting import SlurmEnergy, managers
from wattqueue.live.slurm.connect import commands_for, connect_controller
from wattqueue.live.slurm.submit_file import SubmitFile, submit_extension, submit_file_of
from wattqueue.live.stages import plan_with
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.database import open_state, upgrade_state
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.state.shared_lease import SharedLease
from wattqueue.live.telemetry.base import JobSource, Telemetry, TelemetrySource
from wattqueue.live.warm_up import run_small_rounds, warm_up
from wattqueue.live.watts.domains import LiveDomains
from wattqueue.live.watts.lowering import conditions_of, require_condition
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, RiseScale
from wattqueue.policy.capabilities import some_control
from wattqueue.policy.effects import Situation, without_effect
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import Policy
from wattqueue.store.failures import cause


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
    limits: LimitsSection = field(default_factory=LimitsSection)
    """How limits are set, where agents are among the sources."""
    targets: TargetSource | None = None
    """Where load targets come from."""
    standing: Sequence[str] = ()
    """Findings about the installation, for the status."""
    record: Path | None = None
    away_s: float = 120.0
    clock: Callable[[], float] = time.time
    shared: SharedLease | None = None
    record_bytes: float = math.inf
    """Size from which a new file of views begins."""
    audit_days: float = math.inf
    """Age from which rows of the audit log are removed."""
    boundary: Callable[[str], None] = lambda _: None
    """Called before and after each write."""
    counters: JobCounters | None = None
    """What measures ``app-check``, where the policy has it."""
    renew: Callable[[Inputs, Sequence[Node]], Inputs] | None = None
    """Returns the inputs for a cluster with other nodes; None: these, with another layout."""
    consent: SiteDefaults | None = None
    """Defaults of what users allow during a load target; None where they are not asked."""
    misnamed: MisnamedRecord | None = None
    """What follows from users' records of misnamed jobs."""
    shared_nodes: SharedNodes = field(default_factory=SharedNodes)
    """Partitions whose nodes jobs share."""
    submit: SubmitFile | None = None
    """Keeps the data file of job_submit.lua; None outside of control mode, and with another driver."""
    energies: EnergyRecorder | None = None
    """Records the energy of jobs, where the site asks for it."""
    budgets: Path | None = None
    """Its file of budgets."""
    domains: Mapping[str, str] | None = None
    """Licences of power domains; None where a policy is refused that domains could hold back."""
    hres: bool = False
    """Whether Slurm counts power domains by itself."""


def refuse_second(shared: SharedLease) -> None:
    """Take the lease of the database. Raises: InputError where another controller is at work."""
    holder = shared.take()
    if holder:
        hint = "stop it first, or start this one with --standby: it takes over when the other is silent"
        raise InputError(f"another controller is at work: {holder}", where=shared.engine.url.database, hint=hint)


def stand_by(shared: SharedLease, say: Callable[[str], None], wait: Callable[[float], None] = time.sleep) -> None:
    """Wait until no other controller is at work, and take the lease. systemd sees a service that is up and alive."""
    told, period_s = False, min(1.0, shared.stale_s / 10.0)
    notify("READY=1")
    while True:
        try:
            holder = shared.take()
        except SQLAlchemyError as error:
            holder = f"not known: the database cannot be read ({cause(error)})"
        if not holder:
            say("standby: takes over" if told else "standby: no other controller is at work")
            return
        if not told:
            say(f"standby: at work is {holder}")
            told = True
        notify("WATCHDOG=1")
        wait(period_s)


def assemble(
    config: LiveConfig,
    cluster: Cluster | None = None,
    clock: Callable[[], float] = time.time,
    waiting: Callable[[SharedLease], None] = refuse_second,
) -> Controller:
    """Build a controller with everything that its configuration names; its run folder is claimed.

    ``cluster`` stands in for the configured Slurm, ``clock`` for the time. ``waiting`` takes the lease of the
    database: by default it refuses where another controller is at work, a standby waits.

    Raises: InputError, MachineError or ClusterError for what cannot be used, or contradicts what is installed.
    """
    machine, common = managed_machine(config), shared_nodes(config)
    # a percentage is of all that the cap covers; of as many nodes as the machine file states, until Slurm is read
    whole = replace(machine, partitions=(*machine.partitions, *common.partitions), supply=())
    applications, caps = applications_of(config), CapFile(config.cap, whole)
    misnamed = misnamed_of(config, applications)
    counters, left_out = JobCounters(), list[str]()

    def policy_of(machine: Machine) -> Policy:
        agents, measures = config.telemetry.broker is not None, rules_of(config).track_running
        given = AppSources(applications, counters if agents else None)
        policy, left_out[:] = load_live_policy(config.policy, given, site_of(config, machine))
        policy = policy if applications is None else applications.into(policy)
        policy = policy if misnamed is None else misnamed.into(policy)
        meters, names = config.telemetry.any_node_source, config.slurm.place_nodes != "never"
        require_condition(policy, conditions_of(policy, rules_of(config).overshoot, agents=agents), follows=measures)
        require_live(
            policy, machine, names_nodes=names, agents=agents, measures=measures, meters=meters, domains=tested
        )
        return policy

    tested = (licences := licences_of(config, machine)) is not None
    policy = policy_of(machine)
    require_frequencies(config, machine, policy)
    sources, targets = sources_of(config), targets_of(config, whole, lambda: caps.cap)
    if cluster is None:  # after the files; a cap that cannot be read now says nothing about the pool that was installed
        readable = config.model_copy(update={"cap": "none"}) if caps.closed else config
        cluster = connect_controller(readable, clock, priorities=stated(policy.order, "site_priorities", False))
    findings = _require_installed(config, cluster)
    rules = replace(rules_of(config), without_jobs_w=require_accepted(config, policy, machine))
    layout = layout_of(config, (nodes := cluster.observe().nodes), machine, common)
    if layout.listed:  # other nodes than in the machine file: tables by node and caps in percent are of these
        policy = policy_of(layout.machine)
    if layout.listed or common.partitions:
        caps = CapFile(config.cap, common.with_shared(layout.machine, nodes))

    def renew(given: Inputs, nodes: Sequence[Node]) -> Inputs:
        layout = layout_of(config, nodes, machine, common)
        cap = CapFile(config.cap, common.with_shared(layout.machine, nodes))
        if cap.closed and isinstance(given.cap, CapFile) and not given.cap.closed:
            cap = given.cap  # a file that cannot be read now leaves the last cap in force
        return replace(given, policy=policy_of(layout.machine), cap=cap, layout=layout)

    engine = open_state(config.state, upgraded=False)
    shared = SharedLease(engine, clock, min(config.takeover_s, config.away_s)) if config.mode == "control" else None
    if shared is not None:
        waiting(shared)
    run_dir = run_dir_of(config, across_hosts=shared is not None and shared.across_hosts)
    run_dir.claim()
    matched = partial(layout_of, config, machine=machine, shared=common)
    done = upgrade_state(engine)  # now that no other controller is at work on these tables
    audit = audit_of(config, engine, f"controller/{policy.name}/{os.getpid()}", clock)
    if done is not None:
        audit.note("upgrade", str(done))
    accounting = SlurmEnergy(commands_for(config)) if config.telemetry.slurm_energy else None
    return build(
        Inputs(
            policy, caps, cluster, layout, rules, engine, run_dir, audit, sources,
            config.telemetry.stale_s, applications, accounting, config.limits, targets,
            [*left_out, *(one.what for one in findings)], config.record, config.away_s, clock,
            counters=counters if some_control(policy, "reads_counters") else None,
            record_bytes=config.record_mb * 1e6, audit_days=config.audit_days, renew=renew,
            shared=shared, consent=None if config.consent is None else config.consent.defaults(), misnamed=misnamed,
            shared_nodes=common, submit=submit_file_of(config, cluster, matched, run_dir.holds_lease, clock),
            energies=energies_of(config.energy, config.run_dir, accounting, partial(managers, commands_for(config))),
            budgets=None if config.budgets is None else config.budgets.file, domains=licences, hres=config.slurm.hres,
        )
    )  # fmt: skip


def _require_installed(config: LiveConfig, cluster: Cluster) -> Sequence[Finding]:
    """Return what differs in the installation. Raises: InputError where the cap, or the control, would not hold."""
    findings = cluster.check()
    dangerous = [one.what for one in findings if one.fatal]
    if config.mode == "control" and dangerous:
        hint = "run `wattqueue live install --write` with this configuration, and follow what it prints"
        raise InputError(dangerous[0], where="job_submit.lua", hint=hint)
    return findings


def build(given: Inputs, before: Controller | None = None) -> Controller:
    """Build a controller, complete, from inputs that were read and checked.

    ``before`` is one that it takes over from, with its metrics and telemetry.
    """
    policy, layout, rules = given.policy, given.layout, given.rules
    old = before.meter if before is not None else None
    metrics = old if isinstance(old, LiveMetrics) else LiveMetrics(rules.mode)
    tested = given.domains is not None and binds(layout.machine)
    if tested and before is not None:
        require_same_domains(before.planner.layout, layout)
    domains = LiveDomains(layout, given.hres, given.domains or {}) if tested else None
    require_live(policy, layout.machine, meters=bool(given.sources), domains=tested)
    decider = Decider(policy, layout, power_nodes=rules.power_nodes, timeout_s=rules.start_timeout_s, domains=tested)
    predictor, memory = Predictor(decider.session, layout), ControllerState(given.state)
    measured_jobs, run_history = MeasuredJobs(given.state, metrics.learned), RunHistory(given.state)
    predictor.learn(measured_jobs.recall())
    if predictor.run_times is not None:
        predictor.learn_runs(run_history.recall())
    teacher = Teacher(predictor, measured_jobs, run_history, given.accounting, given.applications, given.clock())
    extensions = _extensions(given, memory, teacher)
    cap = given.cap.cap if isinstance(given.cap, CapFile) else given.cap
    if domains is not None:
        extensions.insert(0, supply_extension(domains, given.run_dir.folder))
    planner = Planner(layout, policy, cap, rules, memory, predictor, decider, plan_with(extensions), given.shared_nodes)
    planner.domains = domains
    if domains is not None and domains.are_counted:
        planner.placement.gate = ((GATE, 1),)
    if given.misnamed is not None:
        planner.ignored = given.misnamed.ignores
    planner.ran = {ran.request.key: ran for ran in teacher.left_running()}
    return Controller(
        planner, given.cluster, Applier(given.cluster, given.audit, given.boundary),
        Telemetry(given.sources, given.stale_s) if before is None else before.telemetry, given.audit, given.run_dir,
        metrics, extensions, given.clock, given.away_s, given.audit_days,
        () if given.shared is None else (given.shared.permit,),
        lambda nodes, controller: build((given.renew or with_nodes)(given, nodes), controller),
        (lambda: None) if given.shared is None else given.shared.drop,
        (*given.standing, *without_effect(Situation(policy, layout.machine))),
    )  # fmt: skip


def _extensions(given: Inputs, memory: ControllerState, teacher: Teacher) -> list[Extension]:
    """Return the optional features that inputs ask for, in the order in which their stages stand at one place."""
    policy, layout, note = given.policy, given.layout, given.audit.note
    found, heard = list[Extension](), list[Callable[[Cap], None]]()
    limits = limits_of(given.sources, layout, policy, given.limits, given.counters)
    cap = given.cap.cap if isinstance(given.cap, CapFile) else given.cap
    demand = [] if given.targets is None else [TargetedCap(given.targets, cap, RiseScale.of(layout.machine))]
    if isinstance(given.cap, CapFile):
        heard += [one.restate for one in demand]
        found.append(cap_extension(given.cap, note, heard))
    found += [demand_extension(one, note) for one in demand]
    if limits is not None:
        found.append(agents_extension(limits, given.clock))
    if given.consent is not None:
        found.append(consent_extension(Consents(given.consent)))
    if given.misnamed is not None:
        found.append(misnamed_extension(given.misnamed))
    if (metered := teacher.predictor.session.needs.metered) is not None:
        found.append(ledger_extension(LedgerMeter(metered, memory)))
    found.append(teacher_extension(teacher))
    if given.record is not None:
        row = Recorder(
            given.record, policy, layout.machine, teacher.predictor, power_nodes=given.rules.power_nodes,
            most_bytes=given.record_bytes,
        )  # fmt: skip
        found.append(recorder_extension(row))
    found.append(why_extension(WhyFile(given.run_dir.folder)))
    if given.energies is not None:
        found.append(energy_extension(given.energies))
        if given.budgets is not None:
            parks = some_control(given.policy, "parks")
            budgets = LiveBudgets(given.budgets, memory, given.energies.folder, parks)
            found.append(budgets_extension(budgets, given.energies))
    found.append(page_extension(PageFile(given.run_dir.folder, [one.name for one in given.sources])))
    return found if given.submit is None else [*found, submit_extension(given.submit)]


def with_nodes(given: Inputs, nodes: Sequence[Node]) -> Inputs:
    """Return inputs whose layout has these nodes; the rest as it is."""
    layout = given.layout
    renamed = {name: layout.machine.partitions[row].name for name, row in layout.partition_of.items()}
    return replace(given, layout=Layout.of(layout.stated, nodes, renamed))


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
        where = (config.metrics.address, config.metrics.port)
        server = serve(controller.meter, *where, token, lambda: status_text(config.run_dir))
    controller.audit.note("start", f"mode {config.mode}, policy {config.policy}, cap {config.cap}")
    say(f"{config.mode}: policy {config.policy}, cap {config.cap}, every {config.period_s:g} s")
    notify("READY=1")
    done, compiled, journal = 0, False, ControllerLog(say)
    try:
        for extension in controller.extensions:
            extension.start(say)
        begun_s = time.time()
        compiled = (
            warm_up(
                stop,
                say,
                lambda: run_small_rounds(controller.planner),
                lambda: controller.run_dir.compiling(begun_s, time.time()),
            )
            or not stop.is_set()
        )
        controller.run_dir.compiled()
        while not stop.is_set():
            begin = time.monotonic()
            controller = controller.renewed()
            report = controller.round()
            notify("WATCHDOG=1")
            done += 1
            if report is None:
                name, times = controller.cluster.name, controller.failures
                say(f"{name} could not be observed ({times} in a row): {controller.problem}")
            else:
                journal.round(report)
            if rounds and done >= rounds:
                break
            stop.wait(max(0.0, controller.wait_s(config.period_s) - (time.monotonic() - begin)))
    finally:
        controller.audit.note("stop", "by signal" if stop.is_set() else "ended")
        if server is not None:
            server.shutdown()
            server.server_close()
        controller.telemetry.close()
        for extension in controller.extensions:
            extension.close()
        notify("STOPPING=1")
        controller.run_dir.away()
        controller.run_dir.release()
        controller.at_end()
    return compiled
