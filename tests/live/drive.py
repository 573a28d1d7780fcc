"""A controller over any cluster, built as ``wattqueue live`` builds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.live.table_check import TableCheck
from wattqueue.live.assemble import Inputs, build
from wattqueue.live.consent_tags import SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.driver import Cluster
from wattqueue.live.features.applications import Applications
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.features.job_counters import JobCounters
from wattqueue.live.features.job_energy import EnergyRecorder
from wattqueue.live.features.load_targets import TargetSource
from wattqueue.live.features.misnamed import MisnamedRecord
from wattqueue.live.files.status import HEAD, RunDir
from wattqueue.live.planner import Rules
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.database import open_state
from wattqueue.live.state.shared_lease import SharedLease
from wattqueue.live.telemetry.base import JobSource, TelemetrySource
from wattqueue.live.watts.bound import AcceptedOvershoot
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

Kept = TypeVar("Kept")
IDLE_W, MOST_W = 100.0, 300.0
ACCEPTS_ALL = AcceptedOvershoot(watts=1e6)
"""Of a site that accepts whatever follows from licences that measurements lower."""


def lab_machine(nodes: int = 8, frequencies: tuple[float, ...] = ()) -> Machine:
    """The lab's: two partitions of equal size, a node 100 to 300 W."""
    half = nodes // 2
    parts = tuple(
        Partition(name, half, frequencies_hz=frequencies, idle_w=IDLE_W, max_w=MOST_W) for name in ("p1", "p2")
    )
    return Machine("lab", parts)


def kept(controller: Controller, kind: type[Kept]) -> Kept | None:
    """What an optional feature of a controller keeps; None where the controller does not have it."""
    return next((one.keeps for one in controller.extensions if isinstance(one.keeps, kind)), None)


def make_controller(
    cluster: Cluster,
    folder: Path,
    clock: Callable[[], float],
    *,
    cap: Cap | CapFile,
    machine: Machine | None = None,
    policy: str | Policy = "easy",
    rules: Rules | None = None,
    sources: tuple[TelemetrySource, ...] = (),
    record: bool = False,
    boundary: Callable[[str], None] = lambda _: None,
    applications: Applications | None = None,
    state: str | None = None,
    targets: TargetSource | None = None,
    accounting: JobSource | None = None,
    shared: SharedLease | None = None,
    consent: SiteDefaults | None = None,
    misnamed: MisnamedRecord | None = None,
    shared_nodes: SharedNodes | None = None,
    counters: JobCounters | None = None,
    energies: EnergyRecorder | None = None,
    budgets: Path | None = None,
    checked: bool = True,
    domains: Mapping[str, str] | None = None,
    hres: bool = False,
) -> Controller:
    """Everything but the loop. ``checked``: whether the table of jobs is looked at after each plan.

    A second call goes on from the state in ``folder`` (or in the database ``state``).

    With a clock of the test's, a round takes no time: one that compiles its pass for more than ``OLD_SNAPSHOT_S``
    would else write nothing.
    """
    machine = machine or lab_machine()
    layout = Layout.of(machine, cluster.observe().nodes, {})
    engine = open_state(state or folder / "live.db")
    chosen = load_policy(policy) if isinstance(policy, str) else policy
    audit = Audit(engine, "controller", clock, b"", folder / HEAD)
    run_dir = RunDir(folder / "run")
    run_dir.folder.mkdir(exist_ok=True)
    controller = build(
        Inputs(
            chosen, cap, cluster, layout, rules or Rules(mode="control", write_priority=False), engine, run_dir, audit,
            sources, stale_s=3.0, applications=applications, accounting=accounting,
            record=folder / "views.jsonl" if record else None, clock=clock, boundary=boundary,
            shared=shared, targets=targets, consent=consent, misnamed=misnamed,
            shared_nodes=shared_nodes or SharedNodes(), counters=counters, energies=energies, budgets=budgets,
            domains=domains, hres=hres,
        )
    )  # fmt: skip
    if checked:
        controller.planner.stages = (*controller.planner.stages, TableCheck())
    if clock is not time.time:
        controller.applier.clock = clock
    return controller
