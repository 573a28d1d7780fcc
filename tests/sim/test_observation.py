"""What Python parts learn of a run through their job table: starts of running jobs, outcomes of ended ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue
from wattqueue.parts.contracts import Finished
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation, simulate
from wattqueue.sim.truth import NodeEvents

MACHINE = plain_machine(4, 50.0, 300.0)
NAN = float("nan")


def jobs() -> Jobs:
    """Three jobs on four nodes: the second waits for the first."""
    return Jobs.build(
        [0.0, 10.0, 20.0],
        [3, 2, 1],
        [100.0, 50.0, 500.0],
        walltime_s=[200.0, 200.0, 1000.0],
        mean_power_w=[200.0, 150.0, 100.0],
        max_power_w=[220.0, NAN, 130.0],
    )


class Watches:
    """A control that writes down what it sees."""

    period_s = 0.0
    events = frozenset({"arrival", "completion"})

    def __init__(self) -> None:
        self.seen: dict[float, list[list[float]]] = {}
        self.writeable = True

    def act(self, view: View) -> Sequence[Action]:
        seen = view.jobs.observed
        columns = (seen.start_s, seen.end_s, seen.mean_power_w, seen.max_power_w, seen.runtime_s)
        self.seen[view.now_s] = [column.tolist() for column in columns]
        self.writeable = any(column.flags.writeable for column in columns[:4])
        return []


def test_starts_and_ended_jobs_are_visible_and_nothing_else() -> None:
    control = Watches()
    simulate(jobs(), MACHINE, load_policy("easy", controls=[control]))
    np.testing.assert_array_equal(control.seen[10.0], [[0.0, NAN, NAN], *[[NAN] * 3] * 4])
    start, end, mean, top, ran = control.seen[100.0]
    np.testing.assert_array_equal(start, [0.0, NAN, 20.0])
    np.testing.assert_array_equal(end, [100.0, NAN, NAN])
    np.testing.assert_allclose(mean, [200.0, NAN, NAN])
    np.testing.assert_allclose(top, [220.0, NAN, NAN])
    np.testing.assert_array_equal(ran, [100.0, NAN, NAN])
    # A job without a recorded peak has its mean as the highest watts that are known.
    np.testing.assert_allclose(control.seen[150.0][3], [220.0, 150.0, NAN])
    assert not control.writeable


class Oracle(Watches):
    knows_future = True

    def act(self, view: View) -> Sequence[Action]:
        self.true_s = view.jobs.truth.runtime_s.tolist()
        return super().act(view)


class Undeclared(Oracle):
    knows_future = False


def test_an_oracle_gets_the_truth_and_others_beside_it_do_not() -> None:
    oracle, plain = Oracle(), Watches()
    simulate(jobs(), MACHINE, load_policy("easy", controls=[plain, oracle]))
    assert oracle.true_s == [100.0, 50.0, 500.0]
    assert oracle.seen.keys() == plain.seen.keys()
    with pytest.raises(PolicyError) as caught:
        simulate(jobs(), MACHINE, load_policy("easy", controls=[oracle, Undeclared()]))
    assert caught.value.where == "Undeclared"


class NotesWhatItLearns(HistoryMean):
    """Called in Python, because the loop cannot note anything."""

    def __init__(self) -> None:
        super().__init__()
        self.learned: list[tuple[float, int]] = []

    def learn(self, finished: Finished) -> None:
        self.learned += zip(finished.end_s.tolist(), finished.rows.tolist(), strict=True)
        super().learn(finished)


def many() -> Jobs:
    rng = np.random.default_rng(3)
    n = 60
    return Jobs.build(
        np.sort(rng.integers(0, 3_000, n)), rng.integers(1, 4, n), rng.integers(10, 300, n),
        user=[f"u{k}" for k in rng.integers(0, 4, n)], mean_power_w=rng.uniform(100.0, 280.0, n),
    )  # fmt: skip


def test_a_control_that_looks_changes_nothing_for_the_estimator() -> None:
    alone, beside = NotesWhatItLearns(), NotesWhatItLearns()
    # Every job fits at its maximum. One that does not is set aside at its submission (rule 19), unless a control might
    # switch nodes off: there a control that only looks makes a difference.
    cap = Cap.constant(960.0)
    first = simulate(many(), MACHINE, load_policy("easy", estimator=alone), cap=cap)
    second = simulate(many(), MACHINE, load_policy("easy", estimator=beside, controls=[Watches()]), cap=cap)
    assert alone.learned == beside.learned
    assert len(alone.learned) > 20
    np.testing.assert_array_equal(first.schedule.start_s, second.schedule.start_s)


class Again:
    """A control that requeues the first job once, at 60 s."""

    period_s = 60.0
    events: frozenset[str] = frozenset()

    def act(self, view: View) -> Sequence[Action]:
        return [Requeue("1")] if view.now_s == 60.0 else []


@pytest.mark.parametrize("cause", ["requeue", "failure"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_job_that_began_again_teaches_the_watts_of_its_last_run(cause: str, compiled: bool) -> None:
    """Its energy is that of all its runs; 150 W over 160 s of two runs are not 240 W over the 100 s of the last."""
    table = Jobs.build([0.0, 500.0], [1, 1], [100.0, 50.0], user=["ada", "ada"], mean_power_w=[150.0, 120.0])
    noted = NotesWatts()
    estimator = HistoryMean() if compiled else noted
    failure = NodeEvents(np.array([60.0, 61.0]), np.array([0, 0], np.int32), np.array([False, True]))
    done = simulate(
        table, plain_machine(1, 50.0, 300.0),
        load_policy("easy", estimator=estimator, controls=[Again()] if cause == "requeue" else []),
        cap=Cap.constant(1_000.0), events=failure if cause == "failure" else None,
    )  # fmt: skip
    assert done.schedule.energy_j[0] == pytest.approx(150.0 * 160.0)
    assert done.schedule.predicted_w[1] == pytest.approx(150.0)
    assert compiled or noted.learned_w == [pytest.approx(150.0)]


class NotesWatts(HistoryMean):
    """Called in Python, because the loop cannot note anything."""

    def __init__(self) -> None:
        super().__init__()
        self.learned_w: list[float] = []

    def learn(self, finished: Finished) -> None:
        self.learned_w += finished.mean_power_w.tolist()
        super().learn(finished)


def simulation(policy: Policy) -> Simulation:
    return Simulation(many(), MACHINE, policy, Cap.none(), None, NodeEvents.none())


def test_nothing_is_allocated_where_no_part_gets_a_view() -> None:
    plain = simulation(load_policy("easy", estimator="history-mean"))
    assert plain.truth.loop.reports_completions == 0
    assert plain.world.observed is None
    watched = simulation(load_policy("easy", controls=[Watches()]))
    assert watched.truth.loop.reports_completions == 1
