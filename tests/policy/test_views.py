"""What a view says of watts, by hand, and what an estimator is asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Prediction
from wattqueue.parts.estimator.maximum import Maximum
from wattqueue.policy.estimation import EstimatorSession
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents

MACHINE = Machine("two", (Partition("one", 4, idle_w=20.0, max_w=100.0), Partition("two", 4, idle_w=60.0, max_w=100.0)))
JOBS = Jobs.build([0.0, 0.0], [3, 1], [100.0, 100.0])


class Forty:
    """Predicts 40 W of every unit."""

    asked: Asked = "once"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        shape = (1, len(machine.option_partition))
        return Prediction(np.full(shape, 40.0), np.ones(shape), np.zeros(len(jobs), np.int32))


def view_of(machine: Machine) -> View:
    policy = load_policy("easy", estimator=Forty())
    simulation = Simulation(JOBS, machine, policy, Cap.none(), None, NodeEvents.none())
    return View(KnownJobs.of(JOBS), machine, simulation.view, simulation.truth.unit_state)


def test_a_start_counts_its_watts_above_idle_and_nothing_below() -> None:
    view = view_of(MACHINE)
    assert [view.net_watts(job, option) for job in (0, 1) for option in (0, 1)] == [60.0, 0.0, 20.0, 0.0]
    assert view.net_watts_of(np.array([0, 1]), np.array([0, 0])).tolist() == [60.0, 20.0]


def test_a_cap_of_jobs_alone_counts_idle_watts_too() -> None:
    view = view_of(replace(MACHINE, cap_scope="jobs"))
    assert [view.net_watts(job, option) for job in (0, 1) for option in (0, 1)] == [120.0, 120.0, 40.0, 40.0]


def test_an_estimator_that_does_not_learn_is_not_asked_at_submission() -> None:
    with pytest.raises(PolicyError) as caught:
        EstimatorSession(Maximum(), None).arrive(None, np.array([0], np.int32), 0.0, 2)
    assert caught.value.where == "Maximum"
