"""The ingredients of ``combined``, one by one: rows that have some of them, on one scenario in which all can act.

Two partitions of nodes that differ, clocks, sensors, a cap that falls by day, load targets with the consent of every
second job, prices and carbon by the hour. Physics differs by 5 % from the tables that policies read. Everything is
generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from wattqueue.model.consent import Consent
from wattqueue.model.eamc_table1 import APPS, table1_profiles
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.physics import Cells, Physics, UnitFigures
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap, Series
from wattqueue.model.steps import Steps
from wattqueue.model.unit_table import UnitTable
from wattqueue.policy.for_machine import SLOWED, redistribution
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import Run
from wattqueue_studies.combined.scenarios import DAY_S, HOUR_S, ScenarioWorld
from wattqueue_studies.eamc.workloads import SYSTEMS
from wattqueue_studies.eamc.workloads import systems as eamc_systems
from wattqueue_studies.frame.samples import TrialFigures
from wattqueue_studies.unit_telemetry import UnitTelemetry, learn_factors

INGREDIENTS = ("ear", "units", "run times", "measured", "redistribution", "ahead", "consent", "price")
"""EAR's partitions and clocks; watts and placement by unit; predicted run times, the shortest first; the measured
ledger; limits moved between nodes; announced limits; by consent lower clocks in targets, delays to cheaper hours."""
BASE, ALL = "base", "all"
NODES = {"p1": 32, "p2": 24}
IDLE_W, MAX_W = 120.0, 620.0
DAYS, HORIZON_DAYS = 2.0, 6.0
"""Days of submissions, and until when energy is counted: the same for all rows."""
COUNT, USERS = 300, 20
DAY_W, NIGHT_W, TARGET_W = 20e3, 24e3, 14e3
"""Cap from 6 to 20 h and at night; load targets from 17 to 20 h, known six hours before. All nodes idle draw 6.7 kW."""
ERROR, SPREAD, OWN, NOISE = 0.05, 0.04, 0.01, 0.02
"""Standard deviations: of the truth from EAR's tables; of nodes of one kind, in common and by application; of a job's
watts in the telemetry that factors are learned from."""
LEARNED_JOBS, LEARNED_NODES = 1_500, 4
"""Jobs of the days before, and the nodes of each."""


def name_of(chosen: frozenset[str]) -> str:
    """Return what tables call a row with some ingredients."""
    if chosen in (frozenset(), frozenset(INGREDIENTS)):
        return ALL if chosen else BASE
    if len(chosen) > 2:
        return f"all without {', '.join(each for each in INGREDIENTS if each not in chosen)}"
    return " + ".join(each for each in INGREDIENTS if each in chosen)


def choices() -> dict[str, frozenset[str]]:
    """Return the rows by name: none, each alone, every two, each left out, all."""
    every = frozenset(INGREDIENTS)
    found = [frozenset[str](), *(frozenset(some) for k in (1, 2) for some in combinations(INGREDIENTS, k))]
    found += [*(every - {each} for each in INGREDIENTS), every]
    return {name_of(chosen): chosen for chosen in found}


def parts_of(chosen: frozenset[str], machine: Machine, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices of a row with some ingredients, over EASY with every node at its maximum."""
    ear, consent, shortest = "ear" in chosen, "consent" in chosen, "run times" in chosen
    table = {"table": known["table"]}
    estimator: Any = {"part": "unit-watts", **table} if "units" in chosen else "maximum"
    if ear:
        base = {"part": "ear", "profiles": known["profiles"]}
        estimator = [base, {"part": "unit-factors", **table}] if "units" in chosen else base
    clocks: list[Any] = (
        ["least-distance-or-lower", {"part": "frequency-window", "lowest_hz": 0.0}] if ear else ["highest"]
    )
    backfill: dict[str, Any] = {"part": "easy-sjbf" if shortest else "easy"}
    if "ahead" in chosen:
        backfill |= {"ahead": "limits"} | ({"slowed": True} if consent else {})
    controls = [
        *(["slow-consenting"] if consent else []),
        *([redistribution(machine)] if "redistribution" in chosen else []),
        *([{"part": "delay-consenting", "prices": known["prices"]}] if "price" in chosen else []),
    ]
    return {
        "estimator": estimator,
        "runtime": "recent-quantile" if shortest else "user-limit",
        "order": "priority-inc" if ear else "fcfs",
        "frequency": [*clocks, dict(SLOWED)] if consent else clocks,
        "placement": "least-watts" if "units" in chosen else "lowest",
        "backfill": backfill,
        "ledger": "measured" if "measured" in chosen else "predicted",
        "controls": controls,
    }


@dataclass(frozen=True, eq=False)
class SiteDraw:
    """One draw of the scenario."""

    seed: int

    @cached_property
    def machine(self) -> Machine:
        """Return the two partitions, measured node by node each minute."""
        found = eamc_systems(table1_profiles())["p1/p2"].machine
        parts = (replace(p, nodes=NODES[p.name], idle_w=IDLE_W, max_w=MAX_W) for p in found.partitions)
        sensor = PowerSensor(sample_s=60.0, poll_s=60.0, noise=0.01)
        return replace(found, name="site", partitions=tuple(parts), cap_scope="machine", sensor=sensor)

    @cached_property
    def jobs(self) -> Jobs:
        """Return jobs of users with two applications each; every second job consents, and can wait for some hours."""
        rng = np.random.default_rng([self.seed, 1])
        hours = np.arange(24 * int(DAYS))
        busy = 1.0 + 0.6 * np.cos(2 * np.pi * (hours % 24 - 14) / 24)
        submit = HOUR_S * (rng.choice(hours, COUNT, p=busy / busy.sum()) + rng.random(COUNT))
        order = np.argsort(submit, kind="stable")
        user = rng.integers(0, USERS, COUNT)
        app = (user * 3 + 5 * rng.integers(0, 2, COUNT)) % len(APPS)
        run = np.clip(rng.lognormal(np.log(2_400.0), 1.0, COUNT), 120.0, 6 * HOUR_S)
        walltime = np.ceil(run / rng.uniform(0.1, 1.0, COUNT) / 60) * 60
        nodes = np.minimum(2 ** rng.integers(0, 5, COUNT), min(NODES.values()))
        late = submit[order] + walltime + rng.uniform(6 * HOUR_S, DAY_S, COUNT)
        allowed = (rng.random(COUNT) < 0.5).astype(np.float64)
        consent = Consent.build(COUNT, allowed=allowed, greatest_slowdown=np.full(COUNT, 2.0), latest_end_s=late)
        return Jobs.build(
            submit[order], nodes, run, walltime_s=walltime, user=[f"u{u}" for u in user], app=[APPS[a] for a in app],
            consent=consent, origin="generated",
        )  # fmt: skip

    @cached_property
    def true_factor(self) -> Floats:
        """Return what each node draws over the mean of its kind, by application. Shape (applications, units)."""
        rng, units = np.random.default_rng([self.seed, 2]), self.machine.units
        both = rng.normal(0.0, SPREAD, units) + rng.normal(0.0, OWN, (len(APPS), units))
        return np.exp(np.clip(both, -0.1, 0.1))

    @cached_property
    def kind_w(self) -> Floats:
        """Return watts of each application on each node at the highest clock by EAR's tables. Shape (A, units)."""
        found = [table1_profiles().on(p.name).power_w[:, :1].repeat(p.units, 1) for p in self.machine.partitions]
        return np.concatenate(found, axis=1)

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """Return what policies may read: EAR's tables, factors learned from the days before, prices."""
        rng, machine = np.random.default_rng([self.seed, 3]), self.machine
        app = rng.integers(0, len(APPS), LEARNED_JOBS)
        first = machine.unit_start[rng.integers(0, len(machine.partitions), LEARNED_JOBS)]
        size = np.where(first == 0, machine.partitions[0].units, machine.partitions[1].units)
        unit = np.stack([f + rng.choice(s, LEARNED_NODES, replace=False) for f, s in zip(first, size, strict=True)])
        job, app, unit = np.repeat(np.arange(LEARNED_JOBS), LEARNED_NODES), np.repeat(app, LEARNED_NODES), unit.ravel()
        watts = (self.kind_w * self.true_factor)[app, unit] * np.exp(rng.normal(0.0, NOISE, len(unit)))
        telemetry = UnitTelemetry.of_jobs(job, app, unit, job.astype(np.float64), watts)
        base_w = np.array([watts[app == a].mean() for a in range(len(APPS))])
        names = [str(u) for u in range(machine.units)]
        table = learn_factors(telemetry, machine.units).table(APPS, base_w, names)
        return {"profiles": table1_profiles(), "table": table, "prices": price()}

    @cached_property
    def physics(self) -> Physics:
        """Return the truth: EAR's tables with an error, and the nodes' own watts."""
        names = [str(u) for u in range(self.machine.units)]
        units = UnitFigures(
            "nodes", "nodes", UnitTable.of_watts(APPS, names, self.kind_w * self.true_factor, "generated")
        )
        profiles = table1_profiles().among([p.name for p in self.machine.partitions])
        cells = Cells.of_profiles(profiles, profiles.source, SYSTEMS["p1/p2"])
        return Physics((cells,), units, reference="p1", where="scenario", error=ERROR, seed=self.seed)

    def world(self) -> SiteWorld:
        """Return the draw as a world whose rows are those of ``choices``."""
        machine, known = self.machine, self.known

        def made(chosen: frozenset[str]) -> Callable[[], Policy]:
            return lambda: load_policy("easy", **parts_of(chosen, machine, known))

        rows = {name: made(chosen) for name, chosen in choices().items()}
        return SiteWorld(self.jobs, self.machine, rows, moving_cap(), evening_targets(), self.physics, known=known)


def moving_cap() -> Cap:
    """Return the cap, lower by day."""
    edges = [(-np.inf, NIGHT_W)]
    for day in range(int(HORIZON_DAYS)):
        edges += [(day * DAY_S + 6 * HOUR_S, DAY_W), (day * DAY_S + 20 * HOUR_S, NIGHT_W)]
    time_s, watts = np.array(edges).T
    return Cap(time_s, watts)


def evening_targets() -> LoadTargets:
    """Return a load target in each evening of the days with submissions."""
    begins = (day * DAY_S + 17 * HOUR_S for day in range(int(DAYS)))
    return LoadTargets.of(*(LoadTarget(b, b + 3 * HOUR_S, TARGET_W, notice_s=6 * HOUR_S) for b in begins))


def price() -> Series:
    """Return a price by the hour, EUR/MWh: dearest at 18 h."""
    return _hourly(lambda hour: 90.0 + 50.0 * np.cos(2 * np.pi * (hour - 18) / 24))


def carbon() -> Series:
    """Return grams of CO2 for each kWh by the hour: least at 13 h."""
    return _hourly(lambda hour: 350.0 - 150.0 * np.cos(2 * np.pi * (hour - 13) / 24))


def _hourly(of: Callable[[Floats], Floats]) -> Series:
    """Return a figure by the hour until the horizon."""
    hours = np.arange(24.0 * HORIZON_DAYS)
    return Series(hours * HOUR_S, of(hours % 24))


@dataclass(frozen=True, eq=False)
class SiteWorld(ScenarioWorld):
    """The scenario with its own figures: bill, carbon, and what jobs that consent lose."""

    def trial(self, name: str) -> TrialFigures:
        """Simulate a row, and return its figures."""
        run = self.run(name)
        return TrialFigures.of(run, {**self.figures(run), **self.costs(run), "consent_node_h": self.later(name, run)})

    def later(self, name: str, run: Run) -> float:
        """Return the node-hours by which consenting jobs end later than under the same row if nobody consented."""
        consent = run.jobs.consent
        if consent is None or not choices()[name] & {"consent", "price"}:
            return 0.0
        nobody = replace(self, jobs=replace(self.jobs, consent=None)).run(name)
        later = run.jobs.nodes * (run.schedule.end_s - nobody.schedule.end_s) / HOUR_S
        return float(np.nansum(later[consent.given]))

    def costs(self, run: Run) -> Mapping[str, float]:
        """Return energy, bill and carbon of the machine until the horizon."""
        horizon = HORIZON_DAYS * DAY_S
        watts = Steps(
            np.append(run.power.time_s, run.power.time_s[-1] + 1e-6),
            np.append(run.power.machine_w, self.machine.idle_w),
        )
        hours = np.arange(0.0, horizon, HOUR_S)
        hourly_j = np.array([watts.integral(at, at + HOUR_S) for at in hours])
        return {
            "energy_j": float(hourly_j.sum()),
            "bill_eur": float((hourly_j * price().value).sum() / 3.6e9),
            "carbon_kg": float((hourly_j * carbon().value).sum() / 3.6e9),
            "last_end_s": float(np.nanmax(run.schedule.end_s)),
        }
