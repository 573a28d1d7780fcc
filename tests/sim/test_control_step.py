"""A control whose steps the compiled loop takes itself: the same outcomes as of its Python form, on random worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.control_step import InPython, device_watts
from tests.sim.test_against_twin import targeted_world
from tests.sim.workloads import World, random_world
from wattqueue.kernels import codes
from wattqueue.kernels.device_power import read_devices
from wattqueue.model.power_sensor import Covers, PowerSensor
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.parts.controls.idle_off import IdleOff
from wattqueue.parts.controls.rapl_lending import RaplLending
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.parts.ledger.measured import Measured
from wattqueue.parts.run_contracts import Control
from wattqueue.policy.capabilities import resolve
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, Simulation

SEEDS = st.integers(0, 2**32 - 1)


def with_sensor(world: World, rng: np.random.Generator) -> World:
    """The world with a power sensor on each unit, socket or node, whose readings may be lost."""
    covers: list[Covers] = ["unit", "socket", "node"]
    sensor = PowerSensor(
        sample_s=float(rng.choice([1.0, 4.0])),
        poll_s=float(rng.choice([2.0, 4.0])),
        noise=float(rng.choice([0.0, 0.05])),
        loss=float(rng.choice([0.0, 0.3])),
        covers=covers[rng.integers(3)],
    )
    return replace(world, machine=replace(world.machine, sensor=sensor))


def with_profiles(world: World, rng: np.random.Generator) -> World:
    """The world with a random power profile of each job."""
    low, high = world.machine.partitions[0].idle_w, 300.0
    samples = [rng.uniform(low, high, int(rng.integers(1, 8))) for _ in range(len(world.jobs))]
    profiles = PowerProfiles.from_samples(samples, float(rng.integers(3, 20)))
    return replace(world, jobs=replace(world.jobs, profiles=profiles), phases_s=float(rng.integers(2, 9)))


class ResetAtStart(RaplLending):
    """What lending does at starts and signals, without its regard for promises."""

    lends = False


KINDS = (RaplRedistribution, RaplLending, ResetAtStart)


def run_form(world: World, seed: int, kind: type[RaplRedistribution], *, compiled: bool) -> tuple[Run, Simulation]:
    """Run with the control in one of its forms, alone or beside one in Python."""
    rng = np.random.default_rng((seed, 1))
    control = kind(
        minimum_w=float(rng.uniform(1, 20)),
        maximum_w=float(rng.choice([200.0, np.inf])),
        reset=bool(rng.integers(2)),
        period_s=float(rng.choice([4.0, 7.5])),
    )
    controls: list[Control] = [control if compiled else InPython(control)]
    if rng.integers(2):
        controls.insert(int(rng.integers(2)), IdleOff())
    ledger = {"ledger": Measured()} if rng.integers(2) else {}
    simulation = world.simulation(controls=tuple(controls), **ledger)
    simulation.go()
    return simulation.result(), simulation


@pytest.mark.compiled  # hundreds of steps a world
@given(SEEDS, st.sampled_from(KINDS), st.booleans())
def test_both_forms_have_equal_outcomes(seed: int, kind: type[RaplRedistribution], targets: bool) -> None:
    expect_equal_forms(seed, kind, targets=targets)


@pytest.mark.parametrize("kind", [RaplRedistribution, RaplLending])
def test_a_control_forgets_the_run_before(kind: type[RaplRedistribution]) -> None:
    world, control = limited_world(3, targets=False), InPython(kind(minimum_w=15.0))
    first, second = (world.engine(controls=(control,)) for _ in range(2))
    np.testing.assert_array_equal(second.schedule.end_s, first.schedule.end_s)
    np.testing.assert_array_equal(second.power.jobs_w, first.power.jobs_w)


@pytest.mark.compiled  # a thousand steps
def test_steps_of_limits_do_not_keep_a_run_alive() -> None:
    """Two jobs can never start, and the sensors' noise changes limits for ever."""
    expect_equal_forms(87678)


@pytest.mark.parametrize(
    ("seed", "kind", "targets"),
    [
        (1, RaplRedistribution, False),
        (10, RaplRedistribution, False),
        (46, RaplLending, False),  # here a raise is cut for a promise
        (10, RaplLending, True),
    ],
)
def test_both_forms_have_equal_outcomes_in_some_worlds(
    seed: int, kind: type[RaplRedistribution], targets: bool
) -> None:
    expect_equal_forms(seed, kind, targets=targets)


def limited_world(seed: int, *, targets: bool) -> World:
    """A world with sensors whose cap, and targets, leave room for the least caps; with profiles now and then."""
    rng = np.random.default_rng((seed, 2))
    world = targeted_world(seed) if targets else random_world(seed, failures=seed % 2 == 0)
    least = 20.0 * world.machine.devices + 1.0
    if world.targets is not None:
        world = replace(world, targets=replace(world.targets, limit=np.maximum(world.targets.limit, least)))
    world = with_sensor(replace(world, cap=Cap(world.cap.time_s, np.maximum(world.cap.cap_w, least))), rng)
    return with_profiles(world, rng) if rng.integers(2) else world


def expect_equal_forms(
    seed: int, kind: type[RaplRedistribution] = RaplRedistribution, *, targets: bool = False
) -> None:
    world = limited_world(seed, targets=targets)
    python, _ = run_form(world, seed, kind, compiled=False)
    compiled, simulation = run_form(world, seed, kind, compiled=True)
    assert simulation.parts.step.now.at_s < np.inf
    for column in ("state", "start_s", "end_s", "option", "energy_j"):
        np.testing.assert_array_equal(getattr(compiled.schedule, column), getattr(python.schedule, column), column)
    for column in ("time_s", "jobs_w", "other_w", "machine_w"):
        np.testing.assert_array_equal(getattr(compiled.power, column), getattr(python.power, column), column)
    assert compiled.notes == python.notes


def test_a_budget_below_the_least_caps_is_left_to_python() -> None:
    """Only Python can raise the error, so the compiled step is not taken."""
    world = replace(with_sensor(random_world(3), np.random.default_rng(3)), cap=Cap.constant(1.0))
    simulation = world.simulation(controls=(RaplRedistribution(minimum_w=50.0),))
    assert simulation.parts.step.now.at_s == np.inf


@pytest.mark.parametrize("periods", [1, 2])
def test_the_first_control_with_a_step_has_it(periods: int) -> None:
    controls = [RaplRedistribution(period_s=4.0 * k) for k in range(1, periods + 1)]
    needs = resolve(load_policy("easy", controls=[IdleOff(), *controls]))
    assert needs.step_control == 1
    assert needs.step is not None
    assert needs.step.code == codes.REDISTRIBUTE


@given(SEEDS)
def test_readings_of_devices_are_shares_of_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    simulation = with_sensor(random_world(seed), rng).simulation(controls=(RaplRedistribution(),))
    measured, machine = simulation.view.measured, simulation.machine
    measured.sample_uw[:] = rng.integers(-1, 3, len(measured.sample_uw)) * 50_000_001
    found = np.empty(machine.devices)
    read_devices(simulation.view, machine.device_of_unit, found)
    want = device_watts(measured.sample_uw.tolist(), measured.of_unit.tolist(), machine.device_of_unit.tolist())
    np.testing.assert_allclose(found, want, rtol=1e-12)
