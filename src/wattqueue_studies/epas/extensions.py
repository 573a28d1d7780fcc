"""Beyond paper 3: redistribution that touches no promised watts, caps raised before a job starts, and overshoot.

LightESP on bull, as in the study; idle watts are not in the text. The policies differ in their control alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.series import read_steps
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action
from wattqueue.parts.controls.rapl_lending import RaplLending
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.parts.run_contracts import Control
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.report.compare.stats import estimate, with_interval
from wattqueue.report.document import Table
from wattqueue.sim.engine import simulate
from wattqueue.workload import lightesp
from wattqueue_studies.clustercockpit import read_node_series
from wattqueue_studies.epas.overshoot import Demand, node_demand, overshoot_table, ramp_table, wide_job
from wattqueue_studies.epas.trial import CAPS_W, LuleshWatts, app_physics, kept_cap, paper_machine, shared_figures
from wattqueue_studies.frame.samples import Samples, Trial, TrialFigures, never_ran_tables, sweep

MACHINE = "bull"
PLAIN, EPAS, AT_START, LENDING = "no redistribution", "rapl-redistribution", "reset at starts", "rapl-lending"
POLICIES = (PLAIN, EPAS, AT_START, LENDING)
LEDGERS = ("predicted", "measured")
NODE_SAMPLE_S = 60.0
"""Seconds between two samples of ClusterCockpit's series."""
LATE_S = 1.0
"""Seconds by which a start may miss its promised time and is not called broken."""
SHOWN = (
    ("makespan_s", "workload\ns", 0),
    ("wait_s", "mean wait\ns", 0),
    ("broken_percent", "promises\nbroken, %", 1),
    ("late_s", "late by,\nmean s", 1),
    ("power_percent", "power/cap\n%", 1),
    ("over_s", "above the\ncap, s", 1),
)
"""Metrics of the table: heading and digits."""


class ResetAtStart(RaplLending):
    """What ``rapl-lending`` does at starts, without its regard for promises."""

    lends: ClassVar[bool] = False


class Promises:
    """Notes when each job was first promised to start. A control that does nothing."""

    period_s = 0.0
    events = frozenset({"arrival", "completion", "start"})

    def __init__(self) -> None:
        self.first_s: dict[int, float] = {}
        """Time of the first promise of each job, by row."""

    def act(self, view: View) -> Sequence[Action]:
        """Look at the reservations of the last pass."""
        for promise in view.promises:
            self.first_s.setdefault(view.entry_job(promise.entry), promise.time_s)
        return []


def policy_of(name: str, ledger: str, machine: Machine, noted: Promises) -> Policy:
    """Return a policy of the comparison; the last control notes promises."""
    part = machine.partitions[0]
    cores = part.units // machine.devices
    low_w, high_w = part.idle_w * cores, (part.max_w or 0.0) * cores
    kinds: dict[str, type[RaplRedistribution]] = {
        EPAS: RaplRedistribution,
        AT_START: ResetAtStart,
        LENDING: RaplLending,
    }
    acting = [kinds[name](minimum_w=low_w, maximum_w=high_w)] if name in kinds else []
    controls: list[Control] = [*acting, noted]
    return load_policy("pas-any", estimator=LuleshWatts(), ledger=ledger, controls=controls)


@dataclass(frozen=True, slots=True)
class LendingCase:
    """LightESP on bull under one ledger.

    Attributes:
        ledger: Name of the ledger.
        idle_share: Idle watts as a share of the maximum.
        divide: ESP's run times over those of the jobs.
    """

    ledger: str
    idle_share: float
    divide: float = lightesp.DIVIDE

    @property
    def name(self) -> str:
        """Return the name of the setting."""
        return f"{MACHINE}, {self.ledger} ledger, idle {100 * self.idle_share:g} %"

    def draw(self, seed: int) -> Trial:
        """Return the simulation of a policy on the jobs of a seed."""
        machine = paper_machine(MACHINE, self.idle_share)
        jobs = lightesp.generate(np.random.default_rng(seed), nodes=machine.units, divide=self.divide)
        return lambda name: measured(jobs, machine, name, self.ledger)


def measured(jobs: Jobs, machine: Machine, name: str, ledger: str) -> TrialFigures:
    """Simulate and return the figures of a run."""
    noted, cap = Promises(), Cap.constant(CAPS_W[MACHINE])
    policy = policy_of(name, ledger, machine, noted)
    run = simulate(jobs, machine, policy, cap=cap, actual=app_physics(machine))
    start = run.schedule.start_s
    late = np.array([start[job] - at for job, at in noted.first_s.items() if run.schedule.ran[job]])
    figures = {
        **shared_figures(run, kept_cap(run)),
        "promises": float(len(late)),
        "broken_percent": 100.0 * float((late > LATE_S).mean()) if len(late) else 0.0,
        "late_s": float(np.maximum(late, 0.0).mean()) if len(late) else 0.0,
    }
    return TrialFigures.of(run, figures)


def compare(seeds: int, threads: int, idle_share: float = 0.3) -> Samples:
    """Simulate every policy under both ledgers on every draw."""
    cases = {c.name: c for ledger in LEDGERS for c in (LendingCase(ledger, idle_share),)}
    return sweep(LendingCase.draw, cases, POLICIES, range(seeds), threads=threads, progress=None)


def lending_tables(samples: Samples) -> list[Table]:
    """Return a table for each ledger."""
    tables = []
    for setting in samples.settings:
        rows = []
        for name in samples.policies:
            values = [samples.of(setting, name, metric) for metric, _, _ in SHOWN]
            cells = [with_interval(estimate(v), "", digits) for v, (_, _, digits) in zip(values, SHOWN, strict=True)]
            rows.append([name, *cells])
        note = (
            f"A promise is broken where a job starts more than {LATE_S:g} s after the first time it was reserved for."
        )
        title = f"{setting} (±: 95 % over seeds)"
        tables.append(Table(("control", *(head for _, head, _ in SHOWN)), rows, title, note))
    return tables


@dataclass(frozen=True, slots=True, eq=False)
class ExtensionTables:
    """What was found beyond the paper, as tables and as figures for JSON."""

    tables: list[Table]
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extensions:
    """What goes beyond the paper.

    Attributes:
        ramps: Power of a whole machine (CSV, columns ``datetime`` and ``sum vals``), or None.
        profiles: Series of nodes as ClusterCockpit records them, or None. Ramps need them for the spread of nodes.
    """

    ramps: Path | None = None
    profiles: Path | None = None

    def found(self, seeds: int, threads: int) -> ExtensionTables:
        """Compare the controls, and replay recorded demand where there is some.

        Raises: InputError for ramps without profiles, and for a file that cannot be used.
        """
        demands = self.demands()
        samples = compare(seeds, threads)
        tables = [*lending_tables(samples), *never_ran_tables([samples])]
        figures: dict[str, Any] = {"lending": samples.rows()}
        if demands:
            table, overshoot = overshoot_table(demands)
            tables, figures = [*tables, table], {**figures, "overshoot": overshoot}
            played = [ramp_table(demand) for demand in demands]
            tables += [each for each, _ in played]
            figures["ramps"] = {demand.name: rows for demand, (_, rows) in zip(demands, played, strict=True)}
        return ExtensionTables(tables, figures)

    def demands(self) -> list[Demand]:
        """Return the recorded demand. Raises: InputError as ``found``."""
        if self.profiles is None:
            if self.ramps is not None:
                raise InputError("ramps without profiles", where="--ramps", hint="add --profiles FILE")
            return []
        nodes = read_node_series(self.profiles)
        profiles = node_demand(f"{len(nodes)} nodes, recorded", nodes, NODE_SAMPLE_S)
        if self.ramps is None:
            return [profiles]
        power = read_steps(self.ramps, "datetime", "sum vals")
        spread = np.array([one.watts.mean() for one in nodes])
        sample_s = float(np.median(np.diff(power.time_s)))
        return [wide_job("one wide job, recorded", sample_s, power.value, spread), profiles]
