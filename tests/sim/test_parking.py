"""Suspended jobs and draining nodes, by hand (rule 16 of docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sim.invariants import check_invariants
from wattqueue.errors import PolicyError
from wattqueue.formats.rundir.folder import RunRecord, read_run, write_run
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.recorded_schedule import RecordedSchedule
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, DrainNode, Requeue, Resume, SetFrequency, Suspend, WakeNode
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.replay import replay_workload

MACHINE = Machine("small", (Partition("one", 2, idle_w=20.0, max_w=100.0, shutdown_s=5.0, shutdown_w=10.0),))


class At:
    """Acts at given instants; notes refusals and what is suspended and draining."""

    events: frozenset[str] = frozenset()

    def __init__(self, actions: dict[float, Sequence[Action]], period_s: float = 10.0) -> None:
        self.actions, self.period_s = actions, period_s
        self.refused: list[tuple[float, str]] = []
        self.seen: dict[float, tuple[list[int], list[int]]] = {}

    def act(self, view: View) -> Sequence[Action]:
        self.refused += [(view.now_s, refusal.reason) for refusal in view.refusals]
        self.seen[view.now_s] = view.suspended.tolist(), view.units_draining.tolist()
        return self.actions.get(view.now_s, ())


class Available(At):
    """Also notes what is free below the cap."""

    def act(self, view: View) -> Sequence[Action]:
        self.free = {**getattr(self, "free", {}), view.now_s: view.available_w}
        return super().act(view)


def run(jobs: Jobs, control: At, cap_w: float = np.inf, machine: Machine = MACHINE, policy: str = "easy") -> Run:
    row: dict[str, Any] = {"name": "easy", "ledger": "measured"} if policy == "measured" else {"name": policy}
    done = simulate(jobs, machine, load_policy(**row, controls=[control]), cap=Cap.constant(cap_w))
    check_invariants(done)
    return done


def parked(done: Run) -> list[float]:
    assert done.schedule.parked_s is not None
    found: list[float] = done.schedule.parked_s.tolist()
    return found


def watts(done: Run, at: float) -> float:
    row = int(np.searchsorted(done.power.time_s, at, side="right")) - 1
    return float(done.power.machine_w[row])


def test_parked_time_is_a_column_of_a_run_that_replays_count(tmp_path: Path) -> None:
    control = At({30.0: [Suspend("1")], 70.0: [Resume("1")]})
    jobs = Jobs.build([0.0, 0.0], [1, 2], [100.0, 10.0], mean_power_w=[100.0, 100.0])
    done = run(jobs, control)
    record = RunRecord(done.jobs, done.machine, done.cap, done.schedule, done.power, {}, {})
    write_run(tmp_path / "run", record)
    head = (tmp_path / "run" / "jobs.csv").read_text(encoding="utf-8").splitlines()[0]
    assert head.endswith(",parked_s")
    again = read_run(tmp_path / "run")
    assert again.schedule.parked_s is not None
    assert again.schedule.parked_s.tolist() == [40.0, 0.0]
    # By the same physics the job takes 40 s longer than its work, and the second starts behind it.
    replayed = replay_workload(RecordedSchedule(jobs, done.machine, again.schedule, done.cap), jobs)
    assert replayed.schedule.end_s.tolist() == [140.0, 150.0]


def test_a_suspended_job_keeps_its_units_at_idle_watts_and_ends_later_by_its_suspension() -> None:
    control = At({30.0: [Suspend("1")], 70.0: [Resume("1")]})
    done = run(Jobs.build([0.0, 0.0], [1, 2], [100.0, 10.0], mean_power_w=[100.0, 100.0]), control)
    # The second needs both nodes: it waits until the first has ended, though that one did nothing for 40 s.
    assert done.schedule.start_s.tolist() == [0.0, 140.0]
    assert done.schedule.end_s.tolist() == [140.0, 150.0]
    assert parked(done) == [40.0, 0.0]
    assert [watts(done, t) for t in (20.0, 50.0, 80.0)] == [120.0, 40.0, 120.0]
    assert done.schedule.energy_j[0] == 100 * 100.0 + 40 * 20.0
    assert control.seen[50.0] == ([0], [])
    assert control.seen[80.0] == ([], [])


def test_the_watts_of_a_suspended_job_start_another_and_its_resumption_waits_for_them() -> None:
    # 130 W: one job of 100 W beside an idle node of 20 W.
    control = At({20.0: [Suspend("1")], 40.0: [Resume("1")], 80.0: [Resume("1")]})
    done = run(Jobs.build([0.0, 0.0], [1, 1], [60.0, 50.0], mean_power_w=[100.0] * 2), control, cap_w=130.0)
    assert done.schedule.start_s.tolist() == [0.0, 20.0]
    assert control.refused == [(50.0, "not enough power below the cap")]
    assert done.schedule.end_s.tolist() == [120.0, 70.0]
    assert done.power.scope_w("machine").max() <= 130.0


def test_what_no_suspended_or_running_job_can_do_is_refused() -> None:
    actions: list[Action] = [Resume("1"), Suspend("1"), Suspend("1"), SetFrequency("1", 0), Suspend("2"), Resume("9")]
    control = At({20.0: actions, 30.0: [Resume("1")]})
    run(Jobs.build([0.0, 90.0], [1, 1], [60.0, 5.0], mean_power_w=[100.0] * 2), control)
    assert control.refused == [(30.0, "wrong state")] * 5


def test_a_suspended_job_that_is_requeued_starts_from_zero() -> None:
    control = At({20.0: [Suspend("1")], 50.0: [Requeue("1")]})
    done = run(Jobs.build([0.0], [1], [60.0], mean_power_w=[100.0]), control)
    assert (done.schedule.start_s[0], done.schedule.end_s[0]) == (50.0, 110.0)
    assert parked(done) == [30.0]
    assert done.schedule.energy_j[0] == 20 * 100.0 + 30 * 20.0 + 60 * 100.0


def test_kept_work_need_not_be_done_again() -> None:
    # 100 s of work: 30 s are done when it goes back, 20 s of them are kept, then all of the next 30 s.
    control = At({30.0: [Requeue("1", 20.0)], 60.0: [Requeue("1", np.inf)]})
    consent = Consent.build(1, checkpoint_s=[5.0])
    jobs = Jobs.build([0.0], [1], [100.0], walltime_s=[200.0], mean_power_w=[100.0], consent=consent)
    done = run(jobs, control)
    assert (done.schedule.start_s[0], done.schedule.end_s[0]) == (60.0, 110.0)
    assert done.checkpointed_s.tolist() == [50.0]
    assert done.schedule.energy_j[0] == 110 * 100.0
    assert jobs.runtime_s.tolist() == [100.0]
    assert jobs.walltime_s.tolist() == [200.0]


def test_no_more_is_kept_than_was_done_and_plans_count_what_is_left() -> None:
    # The first goes back at 40 s with 40 of its 50 s: 10 s fit before the second's reservation, 50 s would not.
    control = At({40.0: [Requeue("1", 1e9)]})
    consent = Consent.build(3, checkpoint_s=[5.0, np.nan, np.nan])
    jobs = Jobs.build([0.0, 5.0, 6.0], [1, 1, 2], [50.0, 45.0, 10.0], mean_power_w=[100.0] * 3, consent=consent)
    done = run(jobs, control)
    assert done.schedule.start_s.tolist() == [40.0, 5.0, 50.0]
    assert done.schedule.end_s[0] == 50.0


def test_a_suspended_job_with_kept_work_begins_at_what_it_has_left() -> None:
    control = At({20.0: [Suspend("1")], 50.0: [Requeue("1", np.inf)]})
    consent = Consent.build(1, checkpoint_s=[10.0])
    done = run(Jobs.build([0.0], [1], [60.0], mean_power_w=[100.0], consent=consent), control)
    assert (done.schedule.start_s[0], done.schedule.end_s[0]) == (50.0, 90.0)


def test_negative_work_is_no_work_to_keep() -> None:
    with pytest.raises(PolicyError, match="checkpointed_s"):
        run(Jobs.build([0.0], [1], [60.0], mean_power_w=[100.0]), At({20.0: [Requeue("1", -1.0)]}))


def test_a_measured_ledger_counts_a_suspended_job_as_idle_and_a_resumed_one_as_predicted() -> None:
    # Two nodes of 20 W idle with a sensor each, read each 10 s; the job draws 60 W, predicted are 100 W.
    machine = replace(MACHINE, sensor=PowerSensor(sample_s=10.0, poll_s=10.0))
    control = Available({40.0: [Suspend("1")], 70.0: [Resume("1")]})
    done = run(
        Jobs.build([0.0], [1], [100.0], mean_power_w=[60.0]), control, cap_w=200.0, machine=machine, policy="measured"
    )
    free = control.free
    assert (free[0.0], free[10.0], free[20.0]) == (160.0, 120.0, 120.0)
    assert (free[50.0], free[60.0], free[70.0]) == (160.0, 160.0, 160.0)
    assert (free[80.0], free[90.0]) == (120.0, 120.0)
    assert done.schedule.end_s.tolist() == [130.0]
    # 130 W: its prediction, 80 W above idle, has no room when it asks, though it would draw 40 W.
    control = Available({40.0: [Suspend("1")], 70.0: [Resume("1")], 100.0: [Resume("1")]})
    jobs = Jobs.build([0.0, 45.0], [1, 1], [100.0, 30.0], mean_power_w=[60.0] * 2)
    done = run(jobs, control, cap_w=130.0, machine=machine, policy="measured")
    assert control.refused == [(80.0, "not enough power below the cap")]
    assert done.schedule.end_s.tolist() == [160.0, 75.0]


def test_a_job_that_is_never_resumed_never_ran() -> None:
    done = run(Jobs.build([0.0], [1], [60.0], mean_power_w=[100.0]), At({20.0: [Suspend("1")]}))
    assert not done.schedule.ran.any()
    assert done.schedule.reason.tolist() == [Reason.SUSPENDED]


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_no_shadow_time_counts_on_a_suspended_job(policy: str) -> None:
    control = At({10.0: [Suspend("1")], 100.0: [Resume("1")]})
    jobs = Jobs.build([0.0, 5.0, 12.0], [1, 2, 1], [50.0, 10.0, 60.0], mean_power_w=[100.0] * 3)
    done = run(jobs, control, policy=policy)
    # The second has no promised start while the first is suspended: the third may start beside it.
    assert done.schedule.start_s.tolist() == [0.0, 140.0, 12.0]


def test_a_draining_node_stops_when_its_job_ends_and_takes_no_other() -> None:
    control = At({10.0: [DrainNode(0)], 60.0: [WakeNode(0)]})
    done = run(Jobs.build([0.0, 20.0], [1, 2], [30.0, 10.0], mean_power_w=[100.0] * 2), control)
    assert control.seen[20.0] == ([], [0])
    # 30 s: the shutdown begins, 35 s: off (0 W); 60 s: woken; both nodes are there for the second job.
    assert [watts(done, t) for t in (25.0, 32.0, 40.0)] == [120.0, 30.0, 20.0]
    assert done.schedule.start_s.tolist() == [0.0, 60.0]


def test_a_drain_is_taken_back_by_a_wake_and_is_a_stop_on_an_idle_node() -> None:
    control = At({10.0: [DrainNode(0), DrainNode(1)], 20.0: [WakeNode(0), WakeNode(1), DrainNode(7), DrainNode(0)]})
    done = run(Jobs.build([0.0, 25.0], [1, 1], [30.0, 10.0], mean_power_w=[100.0] * 2), control)
    assert control.refused == [(30.0, "no such option")]
    assert watts(done, 12.0) == 110.0
    assert watts(done, 16.0) == 100.0
    assert done.schedule.start_s.tolist() == [0.0, 25.0]
    assert done.schedule.end_s.tolist() == [30.0, 35.0]


def test_cores_of_a_draining_node_that_become_free_stay_out_of_use() -> None:
    cores = Machine("cores", (Partition("one", 1, unit="core", cores_per_socket=4, idle_w=5.0, max_w=50.0),))
    control = At({10.0: [DrainNode(2)]})
    jobs = Jobs.build([0.0, 0.0, 15.0], [1, 2, 1], [20.0, 40.0, 5.0], mean_power_w=[50.0] * 3)
    done = run(jobs, control, machine=cores)
    assert done.schedule.ran.tolist() == [True, True, False]
    assert control.seen[30.0] == ([], [0, 1, 2, 3])
