"""What devices draw by readings that move, stand still, or say nothing: known answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.parts.actions import Action
from wattqueue.policy.device_limits import DeviceReadings
from wattqueue.policy.device_power import DevicePower, device_power
from wattqueue.policy.policy import load_policy
from wattqueue.policy.state_view import StateView
from wattqueue.sim.engine import simulate

NODES = Machine("four", (Partition("p", 4, idle_w=50.0, max_w=150.0),))


class Reads:
    """A control that looks at given readings once the job runs."""

    period_s = 10.0
    events: frozenset[str] = frozenset()

    def __init__(self, power_w: list[float], moves: list[bool]) -> None:
        self.power_w, self.moves = np.array(power_w), np.array(moves)
        self.found: DevicePower | None = None

    def act(self, view: StateView) -> Sequence[Action]:
        if view.now_s >= 20.0 and self.found is None:
            taken = np.full(4, view.now_s)
            self.found = device_power(replace(view, readings=DeviceReadings(self.power_w, taken, self.moves)))
        return []


def read(power_w: list[float], moves: list[bool]) -> DevicePower:
    """One job runs on the first node, predicted at 150 W."""
    control = Reads(power_w, moves)
    jobs = Jobs.build(np.zeros(1), np.ones(1), np.full(1, 100.0))
    simulate(jobs, NODES, load_policy("easy", controls=[control]))
    assert control.found is not None
    return control.found


def test_a_reading_that_moves_counts_as_it_is() -> None:
    found = read([120.0, 70.0, 50.0, 40.0], [True] * 4)
    assert found.net_w.tolist() == [70.0, 20.0, 0.0, 0.0]
    assert found.draws.tolist() == [True, False, False, False]


def test_a_reading_that_stands_still_can_only_raise_what_a_job_counts() -> None:
    assert read([180.0, 50.0, 50.0, 50.0], [False, True, True, True]).net_w[0] == 130.0
    assert read([120.0, 50.0, 50.0, 50.0], [False, True, True, True]).net_w[0] == 100.0


def test_a_reading_of_an_idle_node_that_stands_still_is_none() -> None:
    found = read([120.0, 90.0, 90.0, np.nan], [True, False, True, True])
    assert found.net_w.tolist() == [70.0, 0.0, 40.0, 0.0]
