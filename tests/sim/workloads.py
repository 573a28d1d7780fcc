"""Small random worlds, for the engine and its naive twin alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.reference.simulator import Simulator
from wattqueue.kernels import codes
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import CapScope, Machine, Partition
from wattqueue.model.signals import Cap, RiseScale, Signals, capped
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run, Simulation
from wattqueue.sim.truth import NodeEvents

NAMES = {
    codes.NO_BACKFILL: "none",
    codes.FIRST_FIT: "first-fit",
    codes.EASY: "easy",
    codes.CONSERVATIVE: "conservative",
    codes.LAST_END: "cwm",
    codes.SHORTEST: "easy-sjbf",
}


@dataclass(frozen=True)
class Ready:
    """An estimator, order and frequency that return what they were made with."""

    prediction: Prediction
    table: Entries
    options: tuple[Any, Any]
    asked: str = "once"
    machine_figures: bool = False
    by_target: bool = False
    """Whether options behind the first are for load targets alone, in which jobs start at the last."""
    plain: Any = None
    """The last option of each entry outside of load targets; None: all but with ``by_target``."""

    @property
    def window_sides(self) -> tuple[Any, Any, Any]:
        """First option, last one in load targets, and last one outside of them."""
        first, last = self.options
        plain = self.plain if self.plain is not None else first if self.by_target else last
        return first, last, plain

    def in_targets(self, entries: Entries, machine: Machine) -> Any:
        return self.window_sides[1]

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        return self.prediction

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        return self.table

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Any, Any]:
        first, _, plain = self.window_sides
        return first, plain


@dataclass(frozen=True)
class World:
    """Everything that a run depends on."""

    jobs: Jobs
    machine: Machine
    ready: Ready
    actual: Prediction
    cap: Cap
    code: int
    depth: int
    interval_s: float
    events: NodeEvents
    at_completion: bool = False
    phases_s: float | None = None
    targets: LoadTargets | None = None
    runtime: Any = None
    looks_ahead: int = 0
    all_limits: bool = False
    """Whether the pass looks ahead to all announced limits, else to the next load target."""
    ramped: bool = False

    def policy(self, **more: Any) -> Policy:
        backfill = {
            "part": NAMES[self.code],
            "queue_depth": self.depth or codes.ANY_NEED,
            "pass_interval_s": self.interval_s,
            **({"pass_at_completion": self.at_completion} if self.code == codes.LAST_END else {}),
            **self.foresight(),
        }
        plain = load_policy("easy", backfill=backfill, ledger="ramped" if self.ramped else "predicted")
        return replace(
            plain,
            estimator=self.ready,  # type: ignore[arg-type]
            order=self.ready,
            frequency=self.ready,
            **({"runtime": self.runtime} if self.runtime is not None else {}),
            **more,
        )

    def simulation(self, **more: Any) -> Simulation:
        policy, phases_s = self.policy(**more), self.phases_s
        return Simulation(
            self.jobs, self.machine, policy, self.cap, self.actual, self.events, phases_s=phases_s, targets=self.targets
        )

    def engine(self, **more: Any) -> Run:
        simulation = self.simulation(**more)
        simulation.go()
        return simulation.result()

    def foresight(self) -> dict[str, Any]:
        """Options of the pass by which it looks ahead."""
        if not self.looks_ahead:
            return {}
        slowed = self.looks_ahead == codes.AHEAD_SLOWED
        return {"ahead": "limits" if self.all_limits else "target", "slowed": slowed}

    def limit(self) -> Cap:
        """The lower of cap and targets, which the twin takes as a cap."""
        return self.cap if self.targets is None else capped(self.cap, self.targets, RiseScale.of(self.machine))

    def of_targets(self) -> dict[str, Any]:
        """What the twin needs to know of load targets, and of what is announced."""
        targets = self.targets
        signals = Signals(self.cap, targets or LoadTargets.none(), RiseScale.of(self.machine))
        everything = {"ahead_all": bool(self.looks_ahead) and self.all_limits, "known": signals.limit}
        if targets is None:
            return everything
        watts = np.minimum(targets.limit, self.cap.at(targets.start_s))
        ahead = [*zip(targets.announced_s, targets.start_s, watts, [True] * len(targets), strict=True)]
        return {
            **everything,
            "targets": [*zip(targets.announced_s, targets.start_s, targets.end_s, strict=True)],
            "by_target": self.ready.by_target,
            "ahead": ahead if self.looks_ahead else (),
            "ahead_slowed": self.looks_ahead == codes.AHEAD_SLOWED,
            "ramps": [*zip(targets.start_s, targets.end_s, targets.ramp_w_per_s, strict=True)] if self.ramped else None,
            "full_cap": self.cap,
        }

    def twin(self, reject: Any, **more: Any) -> Simulator:
        simulator = Simulator(
            self.jobs, self.machine, self.ready.prediction, self.actual, self.ready.table, self.ready.window_sides,
            self.code, self.limit(), reject, self.depth, self.interval_s, self.events, at_completion=self.at_completion,
            phases_s=self.phases_s,
            **self.of_targets(),
            **more,
        )  # fmt: skip
        simulator.run()
        return simulator


def random_world(seed: int, *, failures: bool = False) -> World:
    """A world of some jobs on a small machine, drawn from ``seed``; busy enough to queue."""
    rng = np.random.default_rng(seed)
    scopes: list[CapScope] = ["machine", "dynamic", "jobs"]
    parts = []
    for p in range(int(rng.integers(1, 4))):
        levels = int(rng.integers(1, 4))
        clocks = tuple(float(f) for f in (3.0e9, 2.0e9, 1.5e9)[:levels]) if levels > 1 else ()
        parts.append(
            Partition(
                f"p{p}",
                **random_units(rng),
                frequencies_hz=clocks,
                idle_w=float(rng.integers(0, 60)),
                max_w=400.0,
                boot_s=float(rng.integers(1, 40)),
                boot_w=70.0,
                shutdown_s=float(rng.integers(1, 20)),
                shutdown_w=30.0,
                off_w=3.0,
                dvfs_beta=0.7,
            )
        )
    machine = Machine("random", tuple(parts), scopes[rng.integers(3)])
    n = int(rng.integers(1, 26))
    whole = bool(rng.integers(2))  # whole seconds make ties
    widest = max(p.units for p in parts)
    runtime = rng.exponential(60.0, n) + 1.0
    submit = np.sort(rng.exponential(8.0, n).cumsum())
    wall = runtime * rng.uniform(0.8, 4.0, n)
    if whole:
        submit, runtime, wall = np.floor(submit), np.ceil(runtime / 10) * 10, np.ceil(wall / 10) * 10
    jobs = Jobs.build(submit, rng.integers(1, widest + 1, n), runtime, walltime_s=wall)
    options = len(machine.option_partition)
    idle = np.array([parts[p].idle_w for p in machine.option_partition])
    lowest = -20.0 if rng.random() < 0.15 else 0.0  # some draw less than the idle share
    base = rng.integers(5, 300, (n, 1)) * machine.option_dynamic_factor + idle
    predicted = np.maximum(0.0, np.round(base * rng.uniform(0.7, 1.3, (n, 1)) + lowest * 3, 3))
    speed = np.array(machine.option_time_factor)
    prediction = Prediction(predicted, np.broadcast_to(speed, (n, options)).copy())
    slowest = float(rng.choice([1.1, 3.0]))  # some worlds run far past what was expected
    actual = Prediction(np.round(base, 3), speed[np.newaxis] * rng.uniform(0.9, slowest, (n, 1)))
    entries, window = random_entries(rng, jobs, machine)
    top = float((jobs.nodes[:, np.newaxis] * predicted).max()) + machine.idle_w
    values = [np.inf] if rng.random() < 0.3 else list(rng.uniform(0.6, 1.8, int(rng.integers(1, 4))) * top)
    times = np.concatenate(([-np.inf], np.sort(rng.uniform(0, submit[-1] + 200, len(values) - 1))))
    cap = Cap(times, np.round(np.array(values), 3))
    return World(
        jobs,
        machine,
        Ready(prediction, entries, window),
        actual,
        cap,
        code=int(rng.integers(0, 4)),
        depth=int(rng.integers(1, 6)) if rng.random() < 0.2 else 0,
        interval_s=float(rng.integers(1, 30)) if rng.random() < 0.15 else 0.0,
        events=random_failures(rng, machine, float(submit[-1])) if failures else NodeEvents.none(),
    )


def random_units(rng: np.random.Generator) -> dict[str, Any]:
    """Nodes of one unit each, or of several: sockets, or cores that share them."""
    kind = str(rng.choice(["node", "node", "socket", "core"]))
    if kind == "node":
        return {"nodes": int(rng.integers(2, 9))}
    sockets, cores = (int(k) for k in rng.integers(1, 4, 2))
    return {
        "nodes": int(rng.integers(1, 4)),
        "unit": kind,
        "sockets_per_node": sockets,
        "cores_per_socket": cores if kind == "core" else 16,
    }


def random_entries(rng: np.random.Generator, jobs: Jobs, machine: Machine) -> tuple[Entries, tuple[Any, Any]]:
    """An entry for most (job, wide enough partition), sometimes with priorities and frequency windows."""
    pairs = [
        (j, p)
        for j in range(len(jobs))
        for p, part in enumerate(machine.partitions)
        if jobs.nodes[j] <= part.units and rng.random() < 0.9
    ]
    job = np.array([j for j, _ in pairs], np.int32)
    partition = np.array([p for _, p in pairs], np.int32)
    ranked = rng.random() < 0.4
    priority = rng.integers(0, 3, len(pairs)).astype(float) if ranked else np.zeros(len(pairs))
    first, end = machine.option_start[partition], machine.option_start[partition + 1]
    if rng.random() < 0.5:
        return Entries(job, partition, priority), (first, end - 1)
    one = np.array([rng.integers(a, b) for a, b in zip(first, end, strict=True)], np.int32)
    return Entries(job, partition, priority), (one, one)


def random_failures(rng: np.random.Generator, machine: Machine, until_s: float) -> NodeEvents:
    """Units that fail now and then, and mostly return."""
    rows: list[tuple[float, int, bool]] = []
    for _ in range(int(rng.integers(0, 5))):
        unit, time = int(rng.integers(machine.units)), float(np.round(rng.uniform(0, until_s + 60), 1))
        rows += [(time, unit, False), (time + float(rng.integers(1, 90)), unit, True)]
    rows.sort()
    return NodeEvents(
        np.array([r[0] for r in rows]), np.array([r[1] for r in rows], np.int32), np.array([r[2] for r in rows], bool)
    )


def bounded_world(seed: int, *, failures: bool = False) -> World:
    """A random world with the pass ``cwm``: mostly few entries a pass, passes at whole intervals and at completions."""
    rng = np.random.default_rng((seed, 4))
    world = random_world(seed, failures=failures)
    return replace(
        world,
        code=codes.LAST_END,
        depth=int(rng.integers(0, 6)),
        interval_s=float(rng.choice([0.0, 7.0, 25.5])),
        at_completion=bool(rng.random() < 0.7),
    )


def shortest_world(seed: int, *, failures: bool = False) -> World:
    """A random world with the pass ``easy-sjbf``."""
    return replace(random_world(seed, failures=failures), code=codes.SHORTEST)
