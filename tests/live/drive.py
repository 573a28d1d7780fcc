"""A controller over any Slurm that speaks the commands, put together as ``wattqueue live`` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wattqueue.live.controller import Controller
from wattqueue.live.planner import Planner, Rules
from wattqueue.live.predictor import Predictor
from wattqueue.live.python_parts import Controls, decide_with
from wattqueue.live.recording import Recorder
from wattqueue.live.slurm.apply import Applier, Frequencies
from wattqueue.live.slurm.commands import Slurm
from wattqueue.live.slurm.observe import Observer
from wattqueue.live.state.audit import Audit
from wattqueue.live.state.memory import Memory
from wattqueue.live.status import HEAD, RunDir
from wattqueue.live.telemetry.base import Telemetry, TelemetrySource
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import Policy, load_policy
from wattqueue.store.database import open_database

IDLE_W, MOST_W = 100.0, 300.0


def lab_machine(nodes: int = 8, frequencies: tuple[float, ...] = ()) -> Machine:
    """The lab's: two partitions of equal size, a node 100 to 300 W."""
    half = nodes // 2
    parts = tuple(
        Partition(name, half, frequencies_hz=frequencies, idle_w=IDLE_W, max_w=MOST_W) for name in ("p1", "p2")
    )
    return Machine("lab", parts)


def make_controller(
    slurm: Slurm,
    folder: Path,
    clock: Callable[[], float],
    *,
    cap: Cap,
    machine: Machine | None = None,
    policy: str | Policy = "easy",
    rules: Rules | None = None,
    sources: tuple[TelemetrySource, ...] = (),
    record: bool = False,
    frequencies: bool = False,
    boundary: Callable[[str], None] = lambda _: None,
    state: str | None = None,
) -> Controller:
    """Everything but the loop. A second call goes on from the state in ``folder`` (or in the database ``state``)."""
    machine = machine or lab_machine()
    rules = rules or Rules(mode="control", write_priority=False)
    observer = Observer(slurm, clock)
    layout = Layout.of(machine, observer.snapshot().nodes, {})
    engine = open_database(state or folder / "live.db")
    chosen = load_policy(policy) if isinstance(policy, str) else policy
    memory = Memory(engine)
    audit = Audit(engine, "controller", clock, b"", folder / HEAD)
    run_dir = RunDir(folder / "run")
    run_dir.folder.mkdir(exist_ok=True)
    planner = Planner(layout, chosen, cap, rules, memory, Predictor(chosen.estimator, layout), decide_with(chosen))
    files = Frequencies(folder / "freq" if frequencies else None)
    if files.folder is not None:
        files.folder.mkdir(exist_ok=True)
    applier = Applier(slurm, audit, frequencies=files, boundary=boundary)
    recorder = Recorder(folder / "views.jsonl") if record else None
    telemetry = Telemetry(sources, stale_s=3.0)
    controls = Controls(chosen, layout) if chosen.controls else None
    return Controller(
        planner, observer, applier, telemetry, audit, run_dir, clock, recorder=recorder, controls=controls
    )  # fmt: skip
