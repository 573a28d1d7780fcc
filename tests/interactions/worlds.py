"""Small worlds in which features meet: a draft that features change, and the simulation that it becomes.

A draft is plain values, so that a world can be run again, with one feature less, or through another driver. Parts keep
state while they run: they stand here as functions that make them, or as the values of a policy's row.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import CapScope, Machine, Partition
from wattqueue.model.physics import Cells, LimitFigures, Physics
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Simulation
from wattqueue.sim.physics import TrueFigures, true_figures
from wattqueue.sim.truth import NodeEvents, actual_power

APPS = ("cg", "ft", "lu")
USERS = ("ada", "bob", "eve")
CLOCKS = (3.0e9, 2.4e9, 1.8e9)


@dataclass
class Draft:
    """A world before it is built; features change it."""

    seed: tuple[int, ...]
    row: dict[str, Any] = field(default_factory=dict)
    """Choices of the policy by axis, without controls; a callable makes the part."""
    controls: list[Any] = field(default_factory=list)
    """Controls in their order: names, rows, or callables that make one."""
    parts: list[dict[str, Any]] = field(default_factory=list)
    """Figures of each partition."""
    scope: CapScope = "machine"
    sensor: PowerSensor | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    """Columns of the job table."""
    consent: dict[str, Any] = field(default_factory=dict)
    """Columns of consent; empty where no job states anything."""
    cap: list[tuple[float, float]] = field(default_factory=list)
    """Times, and shares of the watts between idle and maximum."""
    targets: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    """Start, end, share of the same watts, notice, and share of them by which the limit may rise in a second."""
    failures: list[tuple[float, int, bool]] = field(default_factory=list)
    phases_s: float | None = None
    unit_factor: bool = False
    """Whether the true watts of an application depend on the unit."""
    physics: bool = False
    """Whether files state the true watts and run times of two applications, by partition and clock and under limits."""
    unit: str = "node"
    """What jobs occupy."""
    pass_options: dict[str, Any] = field(default_factory=dict)
    """Options of the pass."""

    @property
    def rng(self) -> np.random.Generator:
        """A generator of this world, always from its beginning."""
        return np.random.default_rng(self.seed)

    @property
    def n(self) -> int:
        return len(self.columns["submit_s"])

    def copy(self) -> Draft:
        return deepcopy(self)

    def machine(self) -> Machine:
        parts = tuple(Partition(f"p{k}", **self.of_units(figures)) for k, figures in enumerate(self.parts))
        return Machine("small", parts, self.scope, sensor=self.sensor)

    def of_units(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Return the figures of a partition with about as many sockets or cores instead of nodes."""
        per = {"node": 1, "socket": 2, "core": 4}[self.unit]
        sizes = {} if per == 1 else {"sockets_per_node": 2, "cores_per_socket": per // 2, "unit": self.unit}
        return {**figures, **sizes, "nodes": -(-figures["nodes"] // per)}

    def table(self, machine: Machine) -> UnitTable:
        """Factors of the applications on each unit."""
        factor = np.round(self.rng.uniform(0.6, 1.3, (len(APPS), machine.units)), 2)
        units = tuple(str(unit) for unit in range(machine.units))
        return UnitTable(APPS, units, np.array([110.0, 130.0, 145.0]), factor)

    def policy(self) -> Policy:
        """Make the parts anew, and put them together."""
        row = {axis: value() if callable(value) else value for axis, value in self.row.items()}
        if self.pass_options:
            row["backfill"] = with_options(row.get("backfill", "easy"), self.pass_options)
        controls = [control() if callable(control) else control for control in self.controls]
        return load_policy("easy", **row, controls=controls)

    def jobs(self) -> Jobs:
        columns = dict(self.columns)
        consent = Consent.build(self.n, **self.consent) if self.consent else None
        profiles = None
        if self.phases_s is not None:
            rng, mean = self.rng, columns["mean_power_w"]
            samples = [watts * rng.choice([0.6, 1.0, 1.4], 12) for watts in mean]
            profiles = PowerProfiles.from_samples([np.minimum(each, 199.0) for each in samples], period_s=5.0)
        return Jobs.build(**columns, consent=consent, profiles=profiles)

    def watts(self, share: float) -> float:
        """Watts of the cap's scope at a share of what jobs can draw above idle."""
        machine = self.machine()
        dynamic = sum(p.units * ((p.max_w or 0.0) - p.idle_w) for p in machine.partitions)
        busy = machine.idle_w if machine.cap_scope == "jobs" else 0.0
        return round(machine.scope_idle_w() + share * (dynamic + busy), 3)

    def limits(self) -> tuple[Cap, LoadTargets]:
        time, share = zip(*self.cap, strict=True)
        cap = Cap(np.array(time), np.array([self.watts(each) for each in share]))
        span_w = self.watts(1.0) - self.watts(0.0)
        rows = [
            LoadTarget(start, end, self.watts(level), notice_s=notice, ramp_w_per_s=ramp * span_w)
            for start, end, level, notice, ramp in self.targets
        ]
        return cap, LoadTargets.of(*rows)

    def events(self) -> NodeEvents:
        rows = sorted(self.failures)
        time, unit, up = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        return NodeEvents(np.array(time, float), np.array(unit, np.int32), np.array(up, bool))

    def stated(self, machine: Machine) -> Physics:
        """Return physics of applications that were recorded at the lowest clock.

        Some lose little by it, and by a limit, others much.
        """
        kinds = (("cg", 11.0, 11.5), ("ft", 20.0, 16.0), ("lu", 14.0, 12.0))
        rows = [(kind, p.name) for kind in kinds for p in machine.partitions]
        app, partition = tuple(kind[0] for kind, _ in rows), tuple(name for _, name in rows)
        clock_s, limit_s = (np.array([kind[k] for kind, _ in rows]) for k in (1, 2))
        ones, where = np.ones(len(rows)), ("stated",) * (2 * len(rows))
        hz, watts, time_s = (np.append(*pair) for pair in zip(
            (CLOCKS[0] * ones, 180.0 * ones, 10.0 * ones), (CLOCKS[2] * ones, 171.0 * ones, clock_s), strict=True
        ))  # fmt: skip
        limit_w, held_w, held_s = (np.append(*pair) for pair in zip(
            (400.0 * ones, 180.0 * ones, 10.0 * ones), (180.0 * ones, 100.0 * ones, limit_s), strict=True
        ))  # fmt: skip
        return Physics(
            (Cells("cells", 2 * app, 2 * partition, hz, watts, time_s, where),),
            reference="p0",
            reference_hz=CLOCKS[2],
            limits=LimitFigures("limits", 2 * app, 2 * partition, limit_w, held_w, held_s, where),
        )

    def simulation(self, kind: type[Simulation] = Simulation, policy: Policy | None = None) -> Simulation:
        """Build the run; nothing has happened yet."""
        machine, jobs = self.machine(), self.jobs()
        cap, targets = self.limits()
        figures = true_figures(self.stated(machine), jobs, machine) if self.physics else None
        actual: Prediction | TrueFigures | None = figures
        if self.unit_factor:
            named = [APPS.index(app) for app in jobs.app.names]
            factor = np.minimum(self.table(machine).factor[named], 1.0)
            plain = actual_power(jobs, machine) if figures is None else figures.actual
            by_unit = replace(plain, unit_factor=factor)
            actual = by_unit if figures is None else replace(figures, actual=by_unit)
        chosen = self.policy() if policy is None else policy
        return kind(jobs, machine, chosen, cap, actual, self.events(), phases_s=self.phases_s, targets=targets)


def with_options(chosen: Any, options: dict[str, Any]) -> Any:
    """Return a choice of a policy with more options."""
    if isinstance(chosen, str | dict):
        return {**(chosen if isinstance(chosen, dict) else {"part": chosen}), **options}
    for name, value in options.items():
        setattr(chosen, name, value)
    return chosen


LEVELS = ((0.52, 0.75), (0.34, 0.5), (0.2, 0.36))
"""Shares of the watts above idle that a world's cap lets jobs draw: some worlds are tighter."""


def base(seed: tuple[int, ...]) -> Draft:
    """One partition of a few nodes with three frequencies, and more jobs than its cap lets run at once.

    The last figure of the seed is the number of the attempt: each third world has a tighter cap, and narrower jobs.
    """
    draft = Draft(seed)
    rng, n = draft.rng, 16
    style = seed[-1] % len(LEVELS)
    draft.parts = [
        {
            "nodes": 6, "frequencies_hz": CLOCKS, "idle_w": 40.0, "max_w": 200.0, "boot_s": 6.0, "boot_w": 60.0,
            "shutdown_s": 4.0, "shutdown_w": 30.0, "off_w": 5.0, "dvfs_beta": 0.6,
        }
    ]  # fmt: skip
    runtime = np.round(rng.exponential(35.0, n) + 5.0)
    draft.columns = {
        "submit_s": np.floor(rng.exponential(5.0, n).cumsum()),
        "nodes": rng.integers(1, (4, 3, 2)[style], n),
        "runtime_s": runtime,
        "walltime_s": np.ceil(runtime * rng.uniform(1.0, 2.5, n)),
        "user": rng.choice(USERS, n),
        "app": rng.choice(APPS, n),
        "mean_power_w": np.round(rng.uniform(70.0, 185.0, n), 1),
    }
    draft.columns["max_power_w"] = np.minimum(200.0, draft.columns["mean_power_w"] * 1.05)
    draft.cap = [(-np.inf, round(float(rng.uniform(*LEVELS[style])), 2))]
    return draft
