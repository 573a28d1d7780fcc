"""Make of a configuration what a controller is built from, one part by a function (``live.assemble`` connects them)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sqlalchemy import Engine

from wattqueue.errors import InputError
from wattqueue.live.agents import agents_behind
from wattqueue.live.cluster import Node
from wattqueue.live.config import LiveConfig
from wattqueue.live.entry_points import TargetExtension, live_extension
from wattqueue.live.features.applications import Applications
from wattqueue.live.features.load_targets import TargetSource
from wattqueue.live.features.misnamed import MisnamedRecord
from wattqueue.live.features.target_file import TargetFile
from wattqueue.live.files.reading import read_secret
from wattqueue.live.files.status import HEAD, RunDir
from wattqueue.live.guard.client import GuardedRunDir, connection_to
from wattqueue.live.guard.required import chooses_frequencies
from wattqueue.live.limits_guard.client import limits_at
from wattqueue.live.planner import Rules
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.state.audit import Audit
from wattqueue.live.telemetry.base import TelemetrySource
from wattqueue.live.telemetry.pm_counters import PmCounters
from wattqueue.live.telemetry.powercap import Powercap
from wattqueue.live.telemetry.prometheus import Prometheus
from wattqueue.live.watts.lowering import parse_overshoot
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.policy.registry import Policy


def sources_of(config: LiveConfig) -> list[TelemetrySource]:
    """Return the telemetry sources in order of trust: the closest to the hardware first."""
    t = config.telemetry
    sources: list[TelemetrySource] = []
    if t.powercap:
        sources.append(Powercap(t.powercap, t.other_w))
    if t.pm_counters:
        sources.append(PmCounters(t.pm_counters))
    if t.broker is not None:
        socket = None if config.guard is None else config.guard.limits_socket
        sources.append(agents_behind(t.broker, t.other_w, None if socket is None else limits_at(socket)))
    if t.prometheus_url:
        token = read_secret(t.prometheus_token_file) if t.prometheus_token_file is not None else ""
        where = (t.prometheus_url, t.prometheus_query, t.prometheus_label, t.prometheus_fresh_query)
        sources.append(Prometheus(*where, token=token, resolution_w=t.prometheus_resolution_w))
    return sources


def run_dir_of(config: LiveConfig, *, across_hosts: bool) -> RunDir:
    """Return the controller's run folder; where a guard writes, lease and heartbeat are the guard's."""
    if config.guard is None:
        return RunDir(config.run_dir, across_hosts)
    return GuardedRunDir(config.run_dir, across_hosts, guard=connection_to(config.guard.socket))


def rules_of(config: LiveConfig) -> Rules:
    """Return the planner's rules."""
    t = config.telemetry
    return Rules(
        config.mode, config.start_timeout_s, config.starts_a_cycle, config.slurm.write_priority,
        config.slurm.place_nodes, config.slurm.power_nodes, t.track_running and t.any_node_source,
        t.warm_up_s, t.margin, idle_tolerance=t.idle_tolerance, licence_floor=t.licence_floor,
        sets_frequency=config.frequency_dir is not None, overshoot=parse_overshoot(t.accepted_overshoot),
    )  # fmt: skip


def audit_of(config: LiveConfig, engine: Engine, who: str, clock: Callable[[], float] = time.time) -> Audit:
    """Return the audit log of this configuration; ``who`` names the process in each row."""
    key = read_secret(config.audit_key_file).encode() if config.audit_key_file is not None else b""
    return Audit(engine, who, clock, key, config.run_dir / HEAD)


def targets_of(config: LiveConfig, machine: Machine, cap: Callable[[], Cap] = Cap.none) -> TargetSource | None:
    """Return the configured source of load targets; ``cap`` gives the site's.

    Raises: InputError where a file of it cannot be used.
    """
    section = config.openadr
    if section is None:
        return None if config.targets is None else TargetFile(config.targets, machine, cap, config.run_dir)
    extension: TargetExtension = live_extension("openadr")
    return extension.source(section, machine, config.run_dir, controls=config.mode == "control")


def layout_of(config: LiveConfig, nodes: Sequence[Node], machine: Machine, shared: SharedNodes) -> Layout:
    """Match the nodes of the cluster with the units of the machine.

    Raises: MachineError where a partition has no nodes, a maximum is not stated, or a managed node is shared.
    """
    layout = Layout.of(machine, nodes, config.slurm.partitions)
    shared.refuse_mixed(layout, nodes)
    for p in range(len(machine.partitions)):
        layout.most_net_w(p)  # raises where the maximum is missing: better now than in a round
    return layout


def applications_of(config: LiveConfig) -> Applications | None:
    """Return the configured application database. Raises: InputError for one that cannot be opened."""
    section = config.applications
    return None if section is None else Applications.open(section.database, section.coefficients, section.first_run)


def misnamed_of(config: LiveConfig, applications: Applications | None) -> MisnamedRecord | None:
    """Return what follows from misnamed jobs; None where the configuration asks for nothing."""
    if applications is None or config.applications is None or config.applications.misnamed is None:
        return None
    return MisnamedRecord(applications.database, config.applications.misnamed.ladder())


def require_frequencies(config: LiveConfig, machine: Machine, policy: Policy) -> None:
    """Raise InputError where a policy chooses frequencies that nothing can set."""
    if config.frequency_dir is not None and not config.frequency_dir.is_dir():
        hint = "make it, on storage all nodes see"
        raise InputError("frequency_dir is no folder", where=config.frequency_dir, hint=hint)
    by_file = config.frequency_dir is not None and not any(part.gpu_caps_w for part in machine.partitions)
    carried = by_file or config.telemetry.broker is not None
    if config.mode == "control" and chooses_frequencies(policy, machine) and not carried:
        raise InputError(
            f"policy {policy.name} chooses frequencies, and nothing sets them: jobs would draw more than they count",
            where="frequency_dir",
            hint="name a folder that all nodes see (not for GPU limits), or the broker of agents in [telemetry.broker]",
        )
