"""Rule 19 on every published row, with every kind of cap, target, idle share, failures and ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.sim.progress_oracle import watch
from tests.sim.test_progress import KeepsFree
from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.budgets import Book, Budget
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap, Series
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.controls.delay_consenting import DelayConsenting
from wattqueue.parts.controls.energy_budgets import EnergyBudgets
from wattqueue.parts.estimator.ear import Ear
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.capabilities import some_control
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.rows import published_rows
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents, actual_power

CHANCE = {"part": "chance", "deviations": 3.0, "own": 0.5, "common": 0.3, "share": 0.9}
LEDGERS: list[Any] = [
    None, None, None, CHANCE, {"part": "adaptive", "begin": 6.0}, "measured", {"part": "measured", "deviations": 4.0},
    "in-flight", {"part": "in-flight", "deviations": 5.0}, "ramped", KeepsFree(400.0), KeepsFree(1e5),
]  # fmt: skip
ROWS = list(published_rows())
TABLE = UnitTable.of_watts(["cholesky"], [str(unit) for unit in range(10)], np.linspace(60.0, 80.0, 10)[np.newaxis])
KNOWN = ["unknown", *Ear().profiles.apps[:2]]
"""Applications of rows whose estimator looks them up."""


def policy_of(name: str, machine: Machine, rng: np.random.Generator) -> Policy:
    """A row with its own ledger or another one that it can be combined with."""
    ledger = LEDGERS[rng.integers(len(LEDGERS))]
    more: dict[str, Any] = {} if ledger is None else {"ledger": ledger}
    if published_rows()[name]["placement"] == "benchmark":  # refused without a table
        more["placement"] = Benchmark(table=TABLE)
    if "delay-consenting" in published_rows()[name]["controls"]:  # refused without prices
        more["controls"] = [DelayConsenting(prices=Series(np.array([0.0, 60.0, 120.0]), np.array([9.0, 3.0, 6.0])))]
    return load_policy(name, machine=machine, **more)


def budgets_of(most: float, rng: np.random.Generator, more: dict[str, Any]) -> EnergyBudgets:
    """Budgets of two users and of all, which renew every few minutes; some jobs fit none of them."""
    found = []
    for users, jobs in ((["0"], 3.0), (["1"], 1.5), ([], 5.0)):
        edges = float(rng.integers(0, 60)) + np.arange(0.0, 3_000.0, float(rng.choice([100.0, 300.0])))
        amount = round(float(rng.uniform(0.5, jobs)) * most * 80.0 * 1e3)
        found.append(Budget("".join(users) or "all", frozenset(users), amount, "kWh", edges, **more))
    control = EnergyBudgets(budgets=tuple(found))
    control.period_s = 20.0
    control.begin()
    return control


def world(name: str, seed: int, *, budgets: bool = False) -> Simulation:
    """A small world under a tight cap, and budgets of energy."""
    rng = np.random.default_rng((seed, ROWS.index(name)))
    most, names = (400.0, KNOWN) if published_rows()[name]["estimator"] == "ear" else (100.0, ["0", "1", "2"])
    idle = float(rng.choice([0.0, 0.1, 0.5, 0.9])) * most
    clocks = (2.6e9, 2.0e9, 1.4e9) if rng.random() < 0.6 else ()
    parts = tuple(
        Partition(
            f"p{p + 1}", int(rng.integers(2, 6)), frequencies_hz=clocks, idle_w=idle,
            max_w=None if p and rng.random() < 0.2 else most, boot_s=7.0, boot_w=idle, shutdown_s=5.0, shutdown_w=idle,
            off_w=min(idle, 3.0), dvfs_beta=0.7,
        )
        for p in range(int(rng.integers(1, 3)))
    )  # fmt: skip
    scope = rng.choice(["machine", "machine", "dynamic", "jobs"])
    machine = Machine("small", parts, scope, sensor=PowerSensor(sample_s=5.0, poll_s=5.0))
    n, widest = int(rng.integers(4, 12)), max(p.units for p in parts)
    submit = np.sort(np.floor(rng.exponential(25.0, n).cumsum() * (rng.random() < 0.8)))
    runtime = np.ceil(rng.exponential(40.0, n)) + 1.0
    watts = np.round(idle + rng.uniform(0.05, 1.0, n) * (most - idle), 1)
    jobs = Jobs.build(
        submit, rng.integers(1, widest + 1, n), runtime, walltime_s=runtime * rng.choice([1.0, 2.0, 5.0], n),
        user=[str(u) for u in rng.integers(0, 3, n)], app=[names[a] for a in rng.integers(0, 3, n)], mean_power_w=watts,
        max_power_w=np.minimum(watts * 1.1, most),
    )  # fmt: skip
    targets = LoadTargets.none()
    if rng.random() < 0.5:
        begin = float(rng.integers(0, 120))
        watts_then = base_of(machine) + float(rng.uniform(0.5, 4.0)) * most
        rate = float(rng.choice([np.inf, 2.0]))
        targets = LoadTargets.of(
            LoadTarget(begin, begin + float(rng.integers(10, 90)), watts_then, notice_s=60.0, ramp_w_per_s=rate)
        )
    events = NodeEvents.none()
    if rng.random() < 0.3 and not budgets:  # what a requeued job used before is not in the log
        down = float(rng.integers(0, 80))
        unit = int(rng.integers(machine.units))
        events = NodeEvents(np.array([down, down + 50.0]), np.array([unit] * 2, np.int32), np.array([False, True]))
    policy, cap = policy_of(name, machine, rng), cap_of(machine, most, rng)
    if budgets:
        # a maximum is refused beside limits of devices
        quantile = {"mode": "quantile", "quantile": 0.9} if some_control(policy, "sets_limits") else {}
        control = budgets_of(most, np.random.default_rng((seed, 36)), quantile)
        policy = replace(policy, controls=(*policy.controls, control))
    return Simulation(jobs, machine, policy, cap, actual_power(jobs, machine), events, targets=targets)


def base_of(machine: Machine) -> float:
    return machine.scope_idle_w() if machine.cap_scope == "machine" else 0.0


def cap_of(machine: Machine, each: float, rng: np.random.Generator) -> Cap:
    """A cap that is constant, moves, or is too low for a while for one job beside the idle watts."""
    base = base_of(machine)
    kind = rng.integers(4)
    if kind == 0:
        return Cap.constant(base + float(rng.uniform(1.0, 4.0)) * each)
    if kind == 1:
        return Cap(np.array([-np.inf, 50.0, 120.0]), base + rng.uniform(0.3, 4.0, 3) * each)
    if kind == 2:
        return Cap(np.array([-np.inf, 90.0]), np.array([max(base - 5.0, 1.0), base + 2.5 * each]))
    return Cap(np.array([-np.inf, 30.0, 80.0]), np.array([np.inf, base + 1.5 * each, np.inf]))


def broken(name: str, seed: int, *, rule: bool = True, budgets: bool = False) -> list[str] | None:
    """What breaks the rule in a world; None where the row refuses its ledger or machine.

    Without ``rule`` the engine takes units for so powerful that none fits at its maximum: the rule never acts.
    """
    try:
        simulation = world(name, seed, budgets=budgets)
        if not rule:
            simulation.view.units.most_uw[:] = 10**15
        return watch(simulation)[1]
    except (PolicyError, MachineError):  # some controls see the machine at their first call
        return None


@pytest.mark.parametrize("name", ROWS)
def test_no_eligible_job_that_fits_waits_on_an_idle_machine(name: str) -> None:
    assert not broken(name, 1)


@pytest.mark.parametrize("name", ROWS[::4])
def test_budgets_bar_no_job_that_fits_them(name: str) -> None:
    """Budgets are eligibility in the rule: the first of their jobs that fits them has to start like any other."""
    assert not broken(name, 2, budgets=True)


def test_the_oracle_finds_budgets_that_bar_a_job_that_fits() -> None:
    def nothing(*_: Any) -> bool:
        return False  # no amount fits

    with patch.object(Book, "fits", nothing):
        assert any(broken("easy", seed, budgets=True) for seed in range(6))


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_budgets_in_many_worlds(name: str) -> None:
    found = {seed: broken(name, seed, budgets=True) for seed in range(60)}
    assert not {seed: words for seed, words in found.items() if words}
    assert sum(words is not None for words in found.values()) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_in_many_worlds(name: str) -> None:
    found = {seed: broken(name, seed) for seed in range(60)}
    assert not {seed: words for seed, words in found.items() if words}
    assert sum(words is not None for words in found.values()) >= 20


@pytest.mark.compiled  # up to fourteen worlds a row, of which the test above runs the first
@pytest.mark.parametrize("name", ["easy", "fcfs", "conservative", "easy+pc-chance-1", "easy-sjbf", "dr-easy-ahead"])
def test_the_oracle_finds_a_pass_without_the_rule(name: str) -> None:
    assert any(broken(name, seed, rule=False) for seed in range(14))
