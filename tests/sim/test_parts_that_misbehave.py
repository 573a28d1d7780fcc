"""Parts that break their contract end a run with an error that names them: never a hang, never in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.sim.workloads import Ready
from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.metrics import metrics
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetFrequency, StartJob, StopNode, WakeNode
from wattqueue.parts.contracts import Entries, Prediction, Start
from wattqueue.parts.controls.app_check import AppCheck
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.profiles import with_phases, with_profiles

JOBS = Jobs.build([0.0, 1.0], [1, 2], [5.0, 5.0], mean_power_w=[50.0, 60.0])
MACHINE = plain_machine(2, 10.0, 100.0)


class Control:
    """A control that acts once a second; ``decide`` says how."""

    period_s = 1.0
    events: frozenset[str] = frozenset()

    def act(self, view: View) -> Sequence[Action]:
        found: Sequence[Action] = self.decide(view)
        return found

    def decide(self, view: View) -> Any:
        return ()


class RequeuesAll(Control):
    def decide(self, view: View) -> Any:
        return [Requeue(job) for job in view.job_ids(view.running)]


class StopsAndWakes(Control):
    """The job needs both nodes; one stays off, the other is stopped and woken without end."""

    def decide(self, view: View) -> Any:
        return [StopNode(1), StopNode(0), WakeNode(0)]


class WakesAtOnce(Control):
    """Woken by the very node events that it causes: the clock never moves on."""

    period_s = 0.0
    events = frozenset({"node", "arrival"})

    def decide(self, view: View) -> Any:
        return [StopNode(1), WakeNode(1)]


def run_with(control: Any, jobs: Jobs = JOBS, machine: Machine = MACHINE) -> Run:
    return simulate(jobs, machine, replace(load_policy("easy"), controls=(control,)))


def refused(control: Any, jobs: Jobs = JOBS, machine: Machine = MACHINE) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        run_with(control, jobs, machine)
    assert caught.value.where == type(control).__name__
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("control", [RequeuesAll(), StopsAndWakes(), WakesAtOnce()], ids=lambda c: type(c).__name__)
def test_a_control_that_never_ends_is_named(control: Any) -> None:
    part = Partition("p", 2, idle_w=10.0, max_w=100.0)  # boots and stops take no time
    jobs = Jobs.build([0.0], [2], [5.0], mean_power_w=[50.0])
    refused(control, jobs, Machine("quick", (part,)))


def test_a_control_may_requeue_a_job_more_than_once() -> None:
    class Twice(Control):
        def decide(self, view: View) -> Any:
            return [Requeue("1")] if view.now_s in (1.0, 3.0) else []

    assert run_with(Twice()).schedule.start_s.tolist() == [3.0, 8.0]


@pytest.mark.parametrize("period_s", [np.nan, -1.0, 1e-9, np.inf])
def test_a_period_that_no_clock_can_keep_is_refused(period_s: float) -> None:
    control = Control()
    control.period_s = period_s
    refused(control)


def test_a_control_that_nothing_wakes_is_refused() -> None:
    control = Control()
    control.period_s = 0.0
    refused(control)


def test_an_event_that_does_not_exist_is_refused() -> None:
    control = Control()
    control.events = frozenset({"full moon"})
    assert "full moon" in refused(control).what


@pytest.mark.parametrize("answer", [None, 3, "stop", ["stop"], [None]])
def test_an_answer_that_is_no_list_of_actions_is_refused(answer: Any) -> None:
    class Odd(Control):
        def decide(self, view: View) -> Any:
            return answer

    refused(Odd())


def test_numbers_of_numpy_and_fractions() -> None:
    class Numpy(Control):
        def decide(self, view: View) -> Any:
            return [SetFrequency("1", np.int16(0)), StopNode(np.int64(1))]  # type: ignore[arg-type]

    class Half(Control):
        def decide(self, view: View) -> Any:
            return [StopNode(0.5)]  # type: ignore[arg-type]

    class ByRow(Control):
        def decide(self, view: View) -> Any:
            return [Requeue(0)]  # type: ignore[arg-type]

    assert run_with(Numpy()).schedule.ran.tolist() == [True, False]
    refused(Half())
    refused(ByRow())


def test_units_that_a_start_names_are_those_that_it_gets() -> None:
    """Placement is by lowest number: a start on other units is refused, not moved."""

    class Starts(Control):
        nodes: tuple[int, ...] = ()

        def decide(self, view: View) -> Any:
            return [StartJob("2", 0, self.nodes, 0)] if view.now_s == 1.0 else []

    jobs = Jobs.build([0.0, 1.0, 1.0], [1, 1, 1], [50.0, 5.0, 5.0])
    machine = plain_machine(3, 10.0, 100.0)
    for nodes, refusals in (((1,), 0), ((), 0), ((2,), 1), ((0,), 1), ((1, 2), 1)):
        control = Starts()
        control.nodes = nodes
        assert sum(run_with(control, jobs, machine).notes.values()) == refusals


class StartsNothing:
    def schedule(self, view: View) -> Sequence[Start]:
        return []


class AnswersNone:
    def schedule(self, view: View) -> Any:
        return None


def test_a_policy_that_starts_nothing_has_figures() -> None:
    """With power profiles, too: their sum has no row to begin with."""
    profiles = PowerProfiles.from_samples([[50.0, 70.0]] * 2)
    jobs = replace(JOBS, profiles=profiles, mean_power_w=profiles.mean_power_w(JOBS.runtime_s))
    policy = replace(load_policy("easy"), backfill=StartsNothing())
    for cap in (Cap.none(), Cap.constant(500.0)):
        run = simulate(jobs, MACHINE, policy, cap=cap)
        assert run.schedule.start_s.tolist() != run.schedule.start_s.tolist()  # NaN
        found, kept = with_phases(run)
        assert len(found.power.time_s) == len(with_profiles(run).power.time_s) == 0
        figures = metrics(found.jobs, found.schedule, found.power, found.machine, found.cap)
        assert figures["jobs_completed"] == 0
        assert kept.cap_over_s == figures["cap_over_s"]


def test_a_pass_that_returns_no_list_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, MACHINE, replace(load_policy("easy"), backfill=AnswersNone()))
    assert caught.value.where == "AnswersNone"


@pytest.mark.parametrize("margin_w", [np.nan, -1.0, np.inf])
def test_a_margin_that_raises_the_cap_is_refused(margin_w: float) -> None:
    class Odd(Predicted):
        def margin_w(self, view: View) -> float:
            return margin_w

    ledger: Any = Odd()
    policy = replace(load_policy("easy"), ledger=ledger, backfill=StartsNothing())
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, MACHINE, policy, cap=Cap.constant(500.0))
    assert caught.value.where == "Odd"


@pytest.mark.parametrize("knob", [{"queue_depth": -1}, {"pass_interval_s": -1.0}, {"pass_interval_s": np.nan}])
def test_knobs_out_of_range_are_refused(knob: dict[str, Any]) -> None:
    @dataclass
    class Knobs(StartsNothing):
        queue_depth: int = 0
        pass_interval_s: float = 0.0

    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, MACHINE, replace(load_policy("easy"), backfill=Knobs(**knob)))
    assert caught.value.where == "Knobs"


def test_a_control_without_its_source_is_refused() -> None:
    """``app-check`` measures; without a source of measurements it would do nothing, everywhere."""
    with pytest.raises(PolicyError) as caught:
        load_policy("easy", controls=["app-check"])
    assert "app-check" in caught.value.what
    assert caught.value.where == "easy"
    assert caught.value.hint
    with pytest.raises(PolicyError):
        run_with(AppCheck())
    assert run_with(AppCheck(measure=lambda _view, _job: None)).schedule.ran.all()


@pytest.mark.parametrize("nodes", [2**31 - 1, 2**24 + 1])
def test_a_machine_that_takes_all_memory_is_refused(nodes: int) -> None:
    with pytest.raises(MachineError) as caught:
        simulate(JOBS, plain_machine(nodes, 10.0, 100.0), load_policy("easy"))
    assert "memory" in str(caught.value.hint)


FREE = Machine("clocked", (Partition("p", 2, frequencies_hz=(3e9, 2e9, 1e9), idle_w=10.0, max_w=100.0),))
WATTS, FACTOR = np.full((2, 3), 50.0), np.ones((2, 3))
ROWS, NOTHING = np.array([0, 1], np.int32), np.zeros(2, np.int32)
BROKEN: dict[str, dict[str, Any]] = {
    "negative watts": {"power": -WATTS},
    "too few columns": {"power": WATTS[:, :2]},
    "too few rows": {"power": WATTS, "row": np.array([0, 2], np.int32)},
    "a row below 0": {"row": np.array([0, -1], np.int32)},
    "rows of other jobs": {"row": np.array([0], np.int32)},
    "a time of nothing": {"factor": 0.0 * FACTOR},
    "a time of NaN": {"factor": np.nan * FACTOR},
    "a job that does not exist": {"job": np.array([0, 2], np.int32)},
    "a job below 0": {"job": np.array([0, -1], np.int32)},
    "a partition that does not exist": {"partition": np.array([0, 1], np.int32)},
    "the same entry twice": {"job": np.array([1, 1], np.int32)},
    "an option that does not exist": {"last": NOTHING + 3},
    "a priority of NaN": {"priority": np.array([0.0, np.nan])},
    "fewer priorities": {"priority": np.zeros(1)},
}


def world(
    power: Any = WATTS, factor: Any = FACTOR, row: Any = None, job: Any = ROWS, partition: Any = NOTHING,
    priority: Any = NOTHING + 0.0, first: Any = NOTHING, last: Any = NOTHING, cap: Cap | None = None, **more: Any,
) -> Run:  # fmt: skip
    """Two jobs on two nodes of three frequencies, with the tables that parts would return."""
    ready = Ready(Prediction(power, factor, row), Entries(job, partition, priority), (first, last))
    policy = replace(load_policy("easy"), estimator=ready, order=ready, frequency=ready)  # type: ignore[arg-type]
    return simulate(JOBS, FREE, policy, cap=cap, **more)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_tables_that_would_lead_kernels_astray_are_refused(broken: str) -> None:
    assert world().schedule.ran.all()
    with pytest.raises(PolicyError):
        world(**BROKEN[broken])


def test_the_truth_that_a_caller_gives_is_checked_too() -> None:
    assert world(actual=Prediction(WATTS, FACTOR)).schedule.ran.all()
    for wrong in (Prediction(WATTS[:, :1], FACTOR), Prediction(-WATTS, FACTOR), Prediction(WATTS, np.nan * FACTOR)):
        with pytest.raises(PolicyError):
            world(actual=wrong)


def test_every_option_of_a_window_counts() -> None:
    """An option in the middle that is never offered, or of unknown watts, is no option of 0 W."""
    window = {"first": NOTHING, "last": NOTHING + 2}
    tight = Cap.constant(130.0)
    middle = np.array([[80.0, np.inf, 60.0], [50.0, 50.0, 50.0]])
    assert world(power=middle, **window, cap=tight).schedule.ran.tolist() == [False, True]
    with pytest.raises(MachineError):
        world(power=np.where(np.isinf(middle), np.nan, middle), **window, cap=tight)
