"""Limits at the counted watts: jobs that draw more than was counted are slowed; by hand, and on random jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.actions import Action
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_at_counted import RaplAtCounted
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.truth import NodeEvents, actual_power

SOCKETS = Machine("two sockets", (Partition("p", 1, unit="socket", sockets_per_node=2, max_w=100.0),), cap_scope="jobs")
"""Watts fall with the square of the speed, time is 1 / speed."""


class Seen(RaplAtCounted):
    """Keeps what the view counts for each unit, by time."""

    def __init__(self) -> None:
        self.counted: list[tuple[float, list[float]]] = []

    def act(self, view: View) -> Sequence[Action]:
        self.counted.append((view.now_s, view.counted_unit_w.tolist()))
        return super().act(view)


def policy(watts: Sequence[float], *controls: RaplAtCounted) -> Policy:
    """EASY on a prediction of application x: watts by socket."""
    table = UnitTable.of_watts(["x"], [f"socket{k}" for k in range(len(watts))], np.array([watts]))
    return replace(load_policy("easy", estimator=UnitWatts(table=table)), controls=controls)


def jobs(submit_s: Sequence[float], sockets: Sequence[int], watts: float = 100.0) -> Jobs:
    """Jobs of application x, 10 s each."""
    n = len(submit_s)
    return Jobs.build(
        submit_s, sockets, [10.0] * n, walltime_s=[40.0] * n, mean_power_w=[watts] * n, app=Labels.of(["x"] * n)
    )


def test_a_socket_draws_what_was_counted_for_it() -> None:
    """100 W, of which 36 and 64 W were counted: 0.6 and 0.8 of the speed."""
    both = jobs([0.0, 0.0], [1, 1])
    free = simulate(both, SOCKETS, policy([36.0, 64.0]), cap=Cap.constant(100.0))
    assert (free.power.jobs_w.max(), free.schedule.end_s.tolist()) == (200.0, [10.0, 10.0])
    run = simulate(both, SOCKETS, policy([36.0, 64.0], RaplAtCounted()), cap=Cap.constant(100.0))
    assert run.power.jobs_w.max() == pytest.approx(100.0, abs=1e-6)
    assert run.schedule.end_s.tolist() == pytest.approx([10.0 / 0.6, 10.0 / 0.8], abs=1e-6)


def test_the_slowest_socket_slows_the_job() -> None:
    run = simulate(jobs([0.0], [2]), SOCKETS, policy([36.0, 64.0], RaplAtCounted()), cap=Cap.constant(100.0))
    assert run.schedule.end_s.tolist() == [pytest.approx(10.0 / 0.6, abs=1e-6)]
    assert run.power.jobs_w.max() == pytest.approx(72.0, abs=1e-6)


def test_limits_are_set_at_a_start_and_lifted_at_the_end() -> None:
    control = Seen()
    table = jobs([0.0, 20.0], [2, 1])
    simulation = Simulation(table, SOCKETS, policy([100.0, 64.0], control), Cap.none(), None, NodeEvents.none())
    simulation.go()
    assert np.isinf(simulation.truth.devices.cap_uw).all()
    shown = [(t, [None if np.isnan(w) else w for w in watts]) for t, watts in control.counted]
    assert shown == [
        (0.0, [None, None]),  # woken before the first submission: the state of the units is new
        (0.0, [100.0, 64.0]),
        (12.5, [None, None]),
        (20.0, [100.0, None]),
        (30.0, [None, None]),
    ]


def test_a_right_prediction_is_never_slowed() -> None:
    """Factors whose watts no float holds exactly: schedule and watts are those without limits, to the last digit."""
    many = jobs(np.arange(12.0).tolist(), [1, 2] * 6, 33.3)
    actual = replace(actual_power(many, SOCKETS), unit_factor=np.array([[0.9, 1.1]]))
    watts = [33.3 * 0.9, 33.3 * 1.1]
    free, held = (
        simulate(many, SOCKETS, policy(watts, *controls), cap=Cap.constant(70.0), actual=actual)
        for controls in ((), (RaplAtCounted(),))
    )
    assert held.schedule.end_s.tolist() == free.schedule.end_s.tolist()
    assert held.schedule.energy_j.tolist() == free.schedule.energy_j.tolist()


def test_a_phase_above_the_count_is_slowed() -> None:
    """100 W, then 50 W; 64 W are counted: 0.8 of the speed in the first half, full speed in the second."""
    profiles = PowerProfiles.from_samples([[100.0, 50.0]], 8.0)
    one = jobs([0.0], [1], 75.0)
    one = replace(one, profiles=profiles, runtime_s=np.array([16.0]))
    run = simulate(one, SOCKETS, policy([64.0, 64.0], RaplAtCounted()), cap=Cap.constant(64.0), phases_s=1.0)
    assert run.schedule.end_s.tolist() == [pytest.approx(18.0, abs=1e-6)]
    assert run.power.jobs_w.max() == pytest.approx(64.0, abs=1e-6)


def test_cores_share_the_limit_of_their_socket_with_idle_ones() -> None:
    """Counted: 40 W of the busy core, 10 W idle ones; the job draws 100 W: 30 of 90 W above idle remain."""
    cores = Partition("p", 1, unit="core", sockets_per_node=1, cores_per_socket=2, idle_w=10.0, max_w=200.0)
    run = simulate(jobs([0.0], [1]), Machine("cores", (cores,)), policy([40.0, 40.0], RaplAtCounted()))
    assert run.power.jobs_w.max() == pytest.approx(40.0, abs=1e-5)
    assert run.schedule.end_s.tolist() == [pytest.approx(10.0 * 3.0**0.5, abs=1e-6)]


@pytest.mark.parametrize("seed", range(4))
def test_the_budget_holds_however_wrong_the_prediction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = Machine("sockets", (replace(SOCKETS.partitions[0], nodes=6),), cap_scope="jobs")
    many = jobs(np.sort(rng.integers(0, 60, 60)).tolist(), rng.choice([1, 1, 2, 4], 60).tolist())
    counted: Floats = rng.uniform(30.0, 110.0, machine.units)
    actual = replace(actual_power(many, machine), unit_factor=rng.uniform(0.7, 1.3, (1, machine.units)))
    free, held = (
        simulate(many, machine, policy(counted.tolist(), *controls), cap=Cap.constant(500.0), actual=actual)
        for controls in ((), (RaplAtCounted(),))
    )
    assert held.power.jobs_w.max() <= 500.0 + 1e-6 < free.power.jobs_w.max()
    assert held.schedule.ran.all()
