"""Lending without touching promised watts: the pure rule, and every step of simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.controls.rapl_lending import RaplLending, keep_promises, promised_limits
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents

EPSILON_W = 1e-6
CAPS = st.lists(st.tuples(st.floats(10, 100), st.floats(10, 100)), min_size=1, max_size=8)


@given(caps=CAPS, data=st.data(), count=st.integers(1, 3))
def test_no_raise_uses_promised_watts(caps: list[tuple[float, float]], data: st.DataObject, count: int) -> None:
    asked, before = (np.array(column) for column in zip(*caps, strict=True))
    flags = st.lists(st.booleans(), min_size=len(caps), max_size=len(caps))
    held = np.array([data.draw(flags) for _ in range(count)])
    limit = np.array([data.draw(st.integers(0, 10**9)) for _ in range(count)])
    new = keep_promises(asked, before, held, limit)
    least = np.minimum(asked, before)
    assert (new <= asked + EPSILON_W).all()
    assert (new >= least - EPSILON_W).all()
    for busy, most in zip(held, limit, strict=True):
        assert new[busy].sum() <= max(most / 1e6, least[busy].sum()) + EPSILON_W
    free = ~held.any(axis=0)
    np.testing.assert_array_equal(new[free], asked[free])


IDLE_W, MAX_W, SOCKETS = 10.0, 100.0, 6
MACHINE = Machine(
    "six", (Partition("one", SOCKETS // 2, unit="socket", sockets_per_node=2, idle_w=IDLE_W, max_w=MAX_W),)
)


class Watched(RaplLending):
    """Readings of a simulation; counts the steps in which a raise took promised watts."""

    def __init__(self) -> None:
        super().__init__(minimum_w=IDLE_W, maximum_w=MAX_W, measure=self.read)
        self.drawn_w = np.zeros(0)
        self.checked = 0
        self.touched = 0

    def read(self, view: View) -> Floats:
        """Sockets that run a job draw what the job wants, or their caps."""
        power = np.full(SOCKETS, IDLE_W)
        for row in view.running:
            power[view.machine.device_of_unit[view.job_units(int(row))]] = self.drawn_w[row]
        drawn: Floats = np.minimum(power, self.limits_w)
        return drawn

    def _allowed(self, view: View, cap_w: Floats, before_w: Floats, begins: NDArray[np.intp]) -> Floats:
        """Return what the control allows, checked."""
        new = super()._allowed(view, cap_w, before_w, begins)
        promises = view.promises
        if not promises:
            return new
        held, most = promised_limits(view, promises, self.minimum_w)
        for busy, limit in zip(held, most, strict=True):
            begun = np.isin(np.arange(SOCKETS), begins)
            kept = np.where(begun, cap_w, np.minimum(cap_w, before_w))
            self.touched += int(new[busy].sum() > max(limit / 1e6, float(kept[busy].sum())) + EPSILON_W)
            self.checked += 1
        return new


def random_jobs(seed: int) -> tuple[Jobs, Floats]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    run_s = rng.uniform(10.0, 60.0, n)
    drawn = rng.uniform(30.0, MAX_W, n)
    submit = np.sort(rng.uniform(0.0, 60.0, n))
    jobs = Jobs.build(submit, rng.integers(1, 5, n), run_s, walltime_s=run_s * rng.uniform(1, 3), mean_power_w=drawn)
    return jobs, drawn


def run_watched(seed: int) -> Watched:
    jobs, drawn = random_jobs(seed)
    control = Watched()
    control.drawn_w = drawn
    budget = float(np.random.default_rng((seed, 1)).uniform(250.0, 450.0))
    policy = load_policy("easy", estimator="maximum", controls=[control])
    Simulation(jobs, MACHINE, policy, Cap.constant(budget), None, NodeEvents.none()).go()
    return control


def test_promises_are_made_and_checked() -> None:
    seen = [run_watched(seed) for seed in range(3)]
    assert sum(one.checked for one in seen) > 10
    assert sum(one.touched for one in seen) == 0


@pytest.mark.compiled  # some hundred steps a world
@given(seed=st.integers(0, 2**32 - 1))
def test_promised_watts_are_not_touched_in_random_worlds(seed: int) -> None:
    assert run_watched(seed).touched == 0


@pytest.mark.parametrize(("control", "end_s"), [(RaplRedistribution, 3.0), (RaplLending, 0.0)])
def test_a_job_begins_under_an_even_cap(control: type[RaplRedistribution], end_s: float) -> None:
    """A socket whose cap has decayed to 15 W is reset in the instant of the start, not at the next step 3 s later."""
    part = Partition("one", 1, unit="socket", sockets_per_node=2, idle_w=IDLE_W, max_w=MAX_W)
    machine = Machine("two", (part,))
    jobs = Jobs.build([0.0, 201.0], [1, 1], [400.0, 100.0], walltime_s=[400.0, 100.0], mean_power_w=[50.0, 60.0])

    def read(view: View) -> Floats:
        power = np.full(2, IDLE_W)
        for row in view.running:
            power[view.job_units(int(row))] = (50.0, 60.0)[row]
        drawn: Floats = np.minimum(power, asked.limits_w)
        return drawn

    asked = control(minimum_w=15.0, maximum_w=MAX_W, measure=read)
    policy = load_policy("easy", estimator="maximum", controls=[asked])
    simulation = Simulation(jobs, machine, policy, Cap.constant(200.0), None, NodeEvents.none())
    simulation.go()
    slowed = (5.0 / 50.0) ** 0.5  # of the speed, while 15 W hold
    late_s = float(simulation.log.end[1]) - 301.0
    assert late_s == pytest.approx(end_s * (1.0 - slowed), abs=1e-5)
