"""Device limits that several jobs share: cases worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, SetDeviceLimits, StopNode
from wattqueue.policy.actions import NO_FREE_UNIT, NO_OPTION, NO_POWER
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.truth import NodeEvents

SOCKETS = Machine("two sockets", (Partition("p", 1, unit="core", sockets_per_node=2, cores_per_socket=2, max_w=100.0),))
"""Four cores of one node, 0 and 1 in the first device; watts fall with the square of the speed, time is 1 / speed."""


class Once:
    """A control that acts once, at the first instant from ``at_s`` on, and keeps the reasons of refusals."""

    period_s = 1.0
    events: frozenset[str] = frozenset()

    def __init__(self, at_s: float, *actions: Action) -> None:
        self.at_s, self.actions, self.reasons = at_s, list(actions), []  # type: ignore[var-annotated]

    def act(self, view: View) -> Sequence[Action]:
        self.reasons += [refusal.reason for refusal in view.refusals]
        if view.now_s < self.at_s:
            return []
        found, self.actions = self.actions, []
        return found


def replay(rows: list[tuple[float, int, float]], control: Once, machine: Machine = SOCKETS, **more: Any) -> Run:
    """Replay jobs of (submit, cores, run time), each of 100 W a core."""
    submit, cores, runtime = (np.array(column) for column in zip(*rows, strict=True))
    watts = np.full(len(rows), 100.0)
    jobs = Jobs.build(submit, cores, runtime, walltime_s=4 * runtime, mean_power_w=watts, max_power_w=watts)
    policy = replace(load_policy("easy", estimator="oracle-max"), controls=(control,))
    return simulate(jobs, machine, policy, **more)


def test_two_jobs_share_the_limit_of_their_socket() -> None:
    """200 W of demand under 50 W: a quarter of the watts at half the speed."""
    run = replay([(0.0, 1, 10.0), (0.0, 1, 10.0)], Once(0.0, SetDeviceLimits([0], [50.0])))
    assert run.schedule.end_s.tolist() == [20.0, 20.0]
    assert run.schedule.energy_j.tolist() == [500.0, 500.0]
    assert run.power.jobs_w.max() == 50.0


def test_the_end_of_one_speeds_the_other_up() -> None:
    """Half the speed for 20 s, then 50 W for one core alone: 0.7071 of the speed for what is left."""
    run = replay([(0.0, 1, 10.0), (0.0, 1, 20.0)], Once(0.0, SetDeviceLimits([0], [50.0])))
    assert run.schedule.end_s.tolist() == [20.0, pytest.approx(20.0 + 10.0 * 2**0.5, abs=1e-6)]
    assert run.power.jobs_w.tolist()[:2] == [50.0, 50.0]


def test_a_start_slows_the_job_beside_it() -> None:
    """Alone it needs no more than the limit; from 5 s on both run at 0.7071 of the speed."""
    run = replay([(0.0, 1, 10.0), (5.0, 1, 5.0)], Once(0.0, SetDeviceLimits([0], [100.0])))
    assert run.schedule.end_s.tolist() == pytest.approx([5.0 + 5.0 * 2**0.5] * 2, abs=1e-6)


def test_the_slowest_device_slows_the_whole_job() -> None:
    """Three cores over both sockets; the second is limited to what half the speed takes. Other jobs gain nothing."""
    control = Once(0.0, SetDeviceLimits([0, 1], [100.0, 50.0]))
    run = replay([(0.0, 1, 10.0), (0.0, 3, 10.0)], control)
    # The first socket by itself runs at 0.7071, though its second core is held back further.
    assert run.schedule.end_s.tolist() == [pytest.approx(10.0 * 2**0.5, abs=1e-6), 20.0]
    assert run.power.jobs_w.max() == pytest.approx(50.0 + 3 * 25.0)


def test_idle_cores_count_below_the_limit() -> None:
    """One core idles at 10 W: 45 W of limit leave 35 W, of which 25 W are above idle."""
    machine = Machine("idle", (replace(SOCKETS.partitions[0], idle_w=10.0),))
    run = replay([(0.0, 1, 10.0)], Once(0.0, SetDeviceLimits([0], [45.0])), machine)
    assert run.power.jobs_w.max() == pytest.approx(35.0, abs=1e-6)


def test_a_job_below_idle_is_slowed_with_its_socket_and_draws_no_more() -> None:
    """The socket is limited to idle watts: both jobs run at a tenth; 20 W of the one stay, the other idles at 50 W."""
    machine = Machine("idle", (replace(SOCKETS.partitions[0], idle_w=50.0),))
    jobs = Jobs.build([0.0, 0.0], [1, 1], [10.0, 10.0], walltime_s=[40.0] * 2, mean_power_w=[20.0, 150.0])
    policy = replace(load_policy("easy"), controls=(Once(0.0, SetDeviceLimits([0], [70.0])),))
    run = simulate(jobs, machine, policy)
    assert run.schedule.end_s.tolist() == [100.0, 100.0]
    assert run.power.jobs_w.max() == pytest.approx(20.0 + 50.0 + 100.0 * 0.01)


def test_what_an_end_gives_to_others_is_in_the_ledger() -> None:
    """The third job fits beside two slowed ones, at 150 W of 200; when one ends the other takes the room."""
    control = Once(0.0, SetDeviceLimits([0], [100.0]))
    rows = [(0.0, 1, 10.0), (0.0, 1, 100.0), (1.0, 1, 10.0), (15.0, 1, 10.0)]
    run = replay(rows, control, cap=Cap.constant(200.0))
    assert run.schedule.start_s.tolist() == [0.0, 0.0, 1.0, 15.0]
    assert run.power.jobs_w.max() == 200.0


def test_a_limit_without_room_leaves_everything_as_it_was() -> None:
    control = Once(0.0, SetDeviceLimits([0], [50.0]))
    later = Once(2.0, SetDeviceLimits([0, 0], [60.0, 200.0]))
    jobs = Jobs.build([0.0, 0.0, 1.0], [1, 1, 1], [10.0] * 3, walltime_s=[40.0] * 3, max_power_w=[100.0] * 3)
    policy = replace(load_policy("easy", estimator="oracle-max"), controls=(control, later))
    run = simulate(jobs, SOCKETS, policy, cap=Cap.constant(200.0))
    assert later.reasons == [NO_POWER]
    assert run.schedule.end_s.tolist() == [20.0, 20.0, 11.0]


@pytest.mark.parametrize(
    ("devices", "caps_w"), [([2], [50.0]), ([-1], [50.0]), ([0], [-1.0]), ([0, 1], [50.0, np.nan])]
)
def test_what_is_no_limit_is_refused(devices: list[int], caps_w: list[float]) -> None:
    control = Once(0.0, SetDeviceLimits(devices, caps_w))
    run = replay([(0.0, 1, 10.0), (3.0, 1, 10.0)], control)
    assert control.reasons == [NO_OPTION]
    assert run.schedule.end_s.tolist() == [10.0, 13.0]


@pytest.mark.parametrize(("devices", "caps_w"), [([0.5], [50.0]), ([0, 1], [50.0]), ([[0]], [[50.0]])])
def test_arrays_that_do_not_fit_name_the_control(devices: Any, caps_w: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        replay([(0.0, 1, 10.0)], Once(0.0, SetDeviceLimits(devices, caps_w)))
    assert caught.value.where == "Once"


def test_no_device_is_no_action() -> None:
    run = replay([(0.0, 1, 10.0)], Once(0.0, SetDeviceLimits([], [])))
    assert (run.schedule.end_s.tolist(), run.notes) == ([10.0], {})


def test_a_node_stops_as_a_whole_and_draws_its_figures_once() -> None:
    part = Partition("p", 2, unit="core", cores_per_socket=2, idle_w=10.0, shutdown_s=2.0, shutdown_w=30.0, off_w=3.0)
    control = Once(1.0, StopNode(0), StopNode(3))
    run = replay([(0.0, 1, 10.0)], control, Machine("two nodes", (part,)))
    assert control.reasons == [NO_FREE_UNIT]
    assert run.power.other_w.tolist()[:3] == [30.0, 10.0 + 30.0, 10.0 + 3.0]


def test_a_core_that_fails_takes_its_node_down() -> None:
    events = NodeEvents(np.array([4.0, 6.0]), np.array([3, 2], np.int32), np.array([False, True]))
    run = replay([(0.0, 1, 10.0), (0.0, 1, 10.0)], Once(99.0), events=events)
    assert run.schedule.start_s.tolist() == [6.0, 6.0]
