"""Each rule of docs/semantics.md, in its order, by cases small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.sim.invariants import check_invariants, units_of
from tests.sim.workloads import Ready
from wattqueue.errors import MachineError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import CapScope, Machine, Partition, plain_machine
from wattqueue.model.metrics import metrics
from wattqueue.model.schedule import Reason, State
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.actions import Action, Requeue, WakeNode
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.actions import WRONG_STATE
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.truth import NodeEvents

NAN = np.nan
Rows = Sequence[tuple[float, int, float]]
"""Submit time, units and run time of jobs."""


def starts(
    rows: Rows,
    machine: Machine,
    policy: Any = "easy",
    cap: Cap | None = None,
    **more: Any,
) -> list[float]:
    """Start times of jobs (submit, units, run time) whose walltime is their run time."""
    run = simulate(jobs_of(rows, **more), machine, load_policy(policy) if isinstance(policy, str) else policy, cap=cap)
    check_invariants(run)
    return [float(s) for s in run.schedule.start_s]


def jobs_of(rows: Rows, **more: Any) -> Jobs:
    submit, nodes, runtime = (list(column) for column in zip(*rows, strict=True))
    return Jobs.build(submit, nodes, runtime, **more)


def oracle(name: str, **options: Any) -> Any:
    """A stock policy with known watts, and options of its backfilling."""
    return load_policy(name, estimator="oracle-mean", backfill={"part": name if name != "fcfs" else "none", **options})


# -- the clock, and the order of one instant --------------------------------------------------


def test_times_are_those_of_the_trace() -> None:
    assert starts([(1_000_000.25, 1, 10.0), (1_000_003.5, 1, 10.0)], plain_machine(1)) == [1_000_000.25, 1_000_010.25]
    assert starts([(-50.0, 1, 10.0), (-45.0, 1, 1.0)], plain_machine(1)) == [-50.0, -40.0]


def test_submissions_out_of_order_in_the_file_are_in_order_in_the_queue() -> None:
    assert starts([(7.0, 1, 10.0), (0.0, 1, 10.0), (3.0, 1, 10.0)], plain_machine(1)) == [20.0, 0.0, 10.0]


def test_a_unit_freed_at_an_instant_serves_a_job_submitted_at_it() -> None:
    assert starts([(0.0, 1, 10.0), (10.0, 1, 5.0)], plain_machine(1)) == [0.0, 10.0]


def test_all_events_of_an_instant_come_before_its_one_pass() -> None:
    # At 10 both units become free and both jobs arrive: the wide one is first in the queue and gets both.
    rows = [(0.0, 1, 10.0), (0.0, 1, 10.0), (10.0, 2, 5.0), (10.0, 1, 5.0)]
    assert starts(rows, plain_machine(2)) == [0.0, 0.0, 10.0, 15.0]


def test_a_cap_of_an_instant_holds_in_its_pass() -> None:
    cap = Cap(np.array([-np.inf, 10.0, 20.0]), np.array([100.0, 40.0, 100.0]))
    machine = plain_machine(2, 0.0, 50.0)
    assert starts([(10.0, 1, 5.0)], machine, cap=cap) == [20.0]


def test_before_its_first_row_the_first_value_of_a_cap_holds() -> None:
    cap = Cap(np.array([5.0, 20.0]), np.array([40.0, 100.0]))
    assert starts([(0.0, 1, 5.0)], plain_machine(2, 0.0, 50.0), cap=cap) == [20.0]


def test_a_failure_and_a_submission_at_one_instant() -> None:
    # At 10 node 0 fails and node 1 becomes free: job 0 is back at its old place before job 1, and gets node 1.
    events = NodeEvents(np.array([10.0, 30.0]), np.array([0, 0], np.int32), np.array([False, True]))
    jobs = jobs_of([(0.0, 1, 100.0), (10.0, 1, 5.0), (0.0, 1, 10.0)])
    run = simulate(jobs, plain_machine(2), load_policy("easy"), events=events)
    assert run.schedule.start_s.tolist() == [10.0, 30.0, 0.0]
    assert [units_of(run.schedule, job) for job in range(3)] == [[1], [0], [1]]


def test_of_one_instant_a_unit_goes_down_before_one_comes_up() -> None:
    # Listed the other way round: unit 0 comes up at 10 and unit 1 goes down at 10; the wide job never finds both.
    times, units = np.array([0.0, 10.0, 10.0, 20.0]), np.array([0, 0, 1, 1], np.int32)
    events = NodeEvents(times, units, np.array([False, True, False, True]))
    run = simulate(jobs_of([(0.0, 2, 5.0)]), plain_machine(2), load_policy("easy"), events=events)
    assert run.schedule.start_s.tolist() == [20.0]
    again = NodeEvents(np.array([0.0, 5.0, 5.0]), np.zeros(3, np.int32), np.array([False, True, False]))
    run = simulate(jobs_of([(1.0, 2, 5.0)]), plain_machine(2), load_policy("easy"), events=again)
    assert run.schedule.start_s.tolist() == [5.0]


# -- what a job does ---------------------------------------------------------------------------------


def test_a_job_that_outruns_its_walltime_is_killed_there() -> None:
    jobs = Jobs.build([0.0, 0.0], [1, 1], [100.0, 10.0], walltime_s=[60.0, 60.0])
    run = simulate(jobs, plain_machine(1), load_policy("fcfs"))
    assert run.schedule.end_s.tolist() == [60.0, 70.0]
    assert run.schedule.state.tolist() == [State.KILLED, State.COMPLETED]


def test_a_job_that_takes_exactly_its_walltime_is_not_killed() -> None:
    run = simulate(jobs_of([(0.0, 1, 60.0)]), plain_machine(1), load_policy("fcfs"))
    assert run.schedule.state.tolist() == [State.COMPLETED]


def test_a_missing_walltime_is_the_run_time() -> None:
    # Known exactly, so the second job fits into the gap before the reservation of the wide one at 10.
    jobs = Jobs.build([0.0, 1.0, 2.0], [1, 2, 1], [10.0, 5.0, 8.0], walltime_s=[NAN, NAN, NAN])
    assert simulate(jobs, plain_machine(2), load_policy("easy")).schedule.start_s.tolist() == [0.0, 10.0, 2.0]


def test_nobody_is_killed_for_a_slowness_that_he_did_not_choose() -> None:
    actual = Prediction(np.ones((1, 1)), np.full((1, 1), 3.0))
    run = simulate(jobs_of([(0.0, 1, 60.0)]), plain_machine(1), load_policy("fcfs"), actual=actual)
    assert run.schedule.end_s.tolist() == [180.0]
    assert run.schedule.state.tolist() == [State.COMPLETED]


def test_computed_times_are_rounded_to_the_microsecond() -> None:
    actual = Prediction(np.ones((1, 1)), np.full((1, 1), 1.0 / 3.0 + 1.0))
    run = simulate(jobs_of([(0.0, 1, 1.0)]), plain_machine(1), load_policy("fcfs"), actual=actual)
    assert run.schedule.end_s.tolist() == [1.333333]


@dataclass
class AtOneTime:
    """Does one thing, once."""

    time_s: float
    action: Action
    period_s: float = 5.0
    events: frozenset[str] = frozenset()

    def act(self, view: View) -> Sequence[Action]:
        return [self.action] if view.now_s == self.time_s else []


def with_control(control: AtOneTime, rows: Rows, machine: Machine) -> Run:
    policy = replace(load_policy("fcfs"), controls=(control,))
    return simulate(jobs_of(rows), machine, policy)


def test_a_requeued_job_starts_from_zero_at_its_old_place() -> None:
    # Job 0 goes back at 20 and is at once ahead of job 1, which was first in the queue until then.
    run = with_control(AtOneTime(20.0, Requeue("1")), [(0.0, 1, 50.0), (1.0, 1, 10.0)], plain_machine(1))
    assert run.schedule.start_s.tolist() == [20.0, 70.0]
    assert run.schedule.end_s.tolist() == [70.0, 80.0]
    found = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    assert found["wait_s_mean"] == (20.0 + 69.0) / 2


def test_the_job_of_a_failed_node_is_requeued() -> None:
    events = NodeEvents(np.array([30.0]), np.array([1], np.int32), np.array([False]))
    run = simulate(jobs_of([(0.0, 2, 50.0)]), plain_machine(3), load_policy("easy"), events=events)
    assert run.schedule.start_s.tolist() == [30.0]
    assert units_of(run.schedule, 0) == [0, 2]


def test_a_job_that_can_never_run_again_is_not_started() -> None:
    events = NodeEvents(np.array([30.0]), np.array([1], np.int32), np.array([False]))
    run = simulate(jobs_of([(0.0, 2, 50.0)]), plain_machine(2), load_policy("easy"), events=events)
    assert run.schedule.state.tolist() == [State.NOT_STARTED]
    assert run.schedule.reason.tolist() == [Reason.QUEUED]
    assert np.isnan(run.schedule.start_s).all()


# -- rejection ---------------------------------------------------------------------------------------


def test_a_job_wider_than_every_partition_is_rejected_and_blocks_nobody() -> None:
    run = simulate(jobs_of([(0.0, 3, 10.0), (0.0, 2, 10.0)]), plain_machine(2), load_policy("fcfs"))
    assert run.schedule.state.tolist() == [State.REJECTED, State.COMPLETED]
    assert run.schedule.reason.tolist() == [Reason.TOO_WIDE, Reason.NONE]
    assert run.schedule.start_s[1] == 0.0


@pytest.mark.parametrize("order", ["fcfs", "all-partitions", "best-only"])
def test_too_wide_for_every_partition_is_rejected_whatever_the_order_lists(order: str) -> None:
    jobs = jobs_of([(0.0, 5, 10.0), (1.0, 2, 10.0)], mean_power_w=[1.0, 1.0])
    policy = load_policy("fcfs", order=order, estimator="oracle-mean")
    run = simulate(jobs, two_partitions((2, 3)), policy)
    assert run.schedule.reason.tolist() == [Reason.TOO_WIDE, Reason.NONE]
    assert run.schedule.start_s[1] == 1.0


def test_a_job_is_rejected_by_the_machines_own_maxima_and_the_highest_cap_to_come() -> None:
    cap = Cap(np.array([-np.inf, 100.0, 200.0]), np.array([100.0, 300.0, 100.0]))
    machine = plain_machine(4, 0.0, 100.0)
    run = simulate(jobs_of([(0.0, 3, 10.0), (0.0, 4, 10.0), (250.0, 2, 10.0)]), machine, load_policy("easy"), cap=cap)
    assert run.schedule.state.tolist() == [State.COMPLETED, State.REJECTED, State.REJECTED]
    assert run.schedule.reason.tolist() == [Reason.NONE, Reason.TOO_MUCH_POWER, Reason.TOO_MUCH_POWER]
    assert run.schedule.start_s[0] == 100.0


def test_a_prediction_never_rejects() -> None:
    jobs = jobs_of([(0.0, 2, 10.0)], mean_power_w=[80.0])
    policy = load_policy("easy", estimator="oracle-mean")
    run = simulate(jobs, plain_machine(2, 0.0, 100.0), policy, cap=Cap.constant(150.0))
    assert run.schedule.state.tolist() == [State.NOT_STARTED]
    assert run.schedule.reason.tolist() == [Reason.NEVER_FITS]


def test_a_cap_needs_known_watts() -> None:
    with pytest.raises(MachineError) as caught:
        simulate(jobs_of([(0.0, 1, 10.0)]), plain_machine(2), load_policy("easy"), cap=Cap.constant(150.0))
    assert str(caught.value.where).endswith("partition batch")
    assert "--node-watts" in str(caught.value.hint)


# -- the queue --------------------------------------------------------------------------------


def test_equal_submissions_keep_the_order_of_the_trace() -> None:
    assert starts([(5.0, 1, 10.0), (5.0, 1, 1.0), (5.0, 1, 3.0)], plain_machine(1)) == [5.0, 15.0, 16.0]


def two_partitions(counts: tuple[int, int] = (2, 2), **figures: Any) -> Machine:
    return Machine("two", (Partition("a", counts[0], **figures), Partition("b", counts[1], **figures)))


def entries_of(rows: Sequence[tuple[int, int, float]], machine: Machine, jobs: Jobs, policy: str, **more: Any) -> Run:
    """A run of entries (job, partition, priority) with 1 W a unit, or ``power_w``."""
    job, partition, priority = (np.array(column) for column in zip(*rows, strict=True))
    shape = len(jobs), len(machine.option_partition)
    power = np.broadcast_to(np.asarray(more.pop("power_w", np.ones((1, 1))), np.float64), shape).copy()
    prediction = Prediction(power, np.ones(shape))
    first = machine.option_start[partition]
    ready = Ready(prediction, Entries(job.astype(np.int32), partition.astype(np.int32), priority * 1.0), (first, first))
    stock = replace(oracle(policy, **more.pop("options", {})), estimator=ready, order=ready, frequency=ready)
    run = simulate(jobs, machine, stock, actual=prediction, **more)
    check_invariants(run)
    return run


def test_priority_comes_before_submission_and_submission_before_the_partition() -> None:
    machine = two_partitions((1, 1))
    jobs = jobs_of([(0.0, 1, 10.0), (1.0, 1, 10.0), (2.0, 1, 10.0), (3.0, 1, 10.0)])
    every = [(j, p, 0.0) for j in range(4) for p in range(2)]
    run = entries_of(every, machine, jobs, "easy")
    assert run.schedule.start_s.tolist() == [0.0, 1.0, 10.0, 11.0]
    assert [units_of(run.schedule, j) for j in range(4)] == [[0], [1], [0], [1]]
    ranked = [(j, p, 5.0 if j == 3 else 0.0) for j in range(4) for p in range(2)]
    assert entries_of(ranked, machine, jobs, "easy").schedule.start_s.tolist() == [0.0, 1.0, 11.0, 10.0]


def test_each_entry_has_a_priority_of_its_own() -> None:
    machine = two_partitions((1, 1))
    jobs = jobs_of([(0.0, 1, 10.0)])
    assert units_of(entries_of([(0, 0, 0.0), (0, 1, 1.0)], machine, jobs, "easy").schedule, 0) == [1]
    assert units_of(entries_of([(0, 0, 0.0), (0, 1, 0.0)], machine, jobs, "easy").schedule, 0) == [0]


def test_starting_one_entry_removes_the_others() -> None:
    run = entries_of([(0, 0, 0.0), (0, 1, 0.0)], two_partitions((1, 1)), jobs_of([(0.0, 1, 10.0)]), "first-fit")
    assert run.power.busy_units.max() == 1


# -- none and first-fit ------------------------------------------------------------------------------

BLOCKED = [(0.0, 1, 10.0), (1.0, 2, 10.0), (2.0, 1, 100.0), (3.0, 1, 1.0)]
"""One of two units busy, a wide job in front, then a long and a short narrow one."""


def test_without_backfilling_the_first_that_does_not_fit_stops_all() -> None:
    assert starts(BLOCKED, plain_machine(2), "fcfs") == [0.0, 10.0, 20.0, 20.0]


def test_without_backfilling_only_its_own_partitions_pass_ends() -> None:
    machine = two_partitions((1, 1))
    jobs = jobs_of([(0.0, 1, 10.0), (1.0, 1, 10.0), (2.0, 1, 10.0)])
    run = entries_of([(0, 0, 0.0), (1, 0, 0.0), (2, 1, 0.0)], machine, jobs, "fcfs")
    assert run.schedule.start_s.tolist() == [0.0, 10.0, 2.0]


def test_an_entry_that_closed_its_partition_opens_it_when_its_job_starts_elsewhere() -> None:
    # At 1 job 1 is refused in a (one of its units is busy), which ends a's pass; then it starts in b.
    # At 2 nothing is ahead of job 2 any more, and a has a unit free.
    machine = two_partitions((2, 2))
    jobs = jobs_of([(0.0, 1, 100.0), (1.0, 2, 100.0), (2.0, 1, 10.0)])
    run = entries_of([(0, 0, 0.0), (1, 0, 0.0), (1, 1, 0.0), (2, 0, 0.0)], machine, jobs, "fcfs")
    assert run.schedule.start_s.tolist() == [0.0, 1.0, 2.0]


def test_first_fit_starts_whatever_fits() -> None:
    assert starts(BLOCKED, plain_machine(2), "first-fit") == [0.0, 102.0, 2.0, 10.0]


# -- EASY --------------------------------------------------------------------------------------------


def test_easy_lets_nobody_delay_the_head() -> None:
    # The wide job is promised 10; the long narrow one would delay it, the short one ends before.
    assert starts(BLOCKED, plain_machine(2)) == [0.0, 10.0, 20.0, 3.0]


def test_a_job_that_ends_exactly_at_the_shadow_time_may_start() -> None:
    rows = [(0.0, 1, 10.0), (1.0, 2, 10.0), (2.0, 1, 8.0)]
    assert starts(rows, plain_machine(2)) == [0.0, 10.0, 2.0]
    rows[2] = (2.0, 1, 8.000001)
    assert starts(rows, plain_machine(2)) == [0.0, 10.0, 20.0]


def test_a_longer_job_may_take_the_units_left_over_at_the_shadow_time_once() -> None:
    # Three units; the head needs two at 10, so one is left over: one long job may have it, not two.
    rows = [(0.0, 2, 10.0), (1.0, 2, 10.0), (2.0, 1, 100.0), (3.0, 1, 100.0)]
    assert starts(rows, plain_machine(3)) == [0.0, 10.0, 2.0, 20.0]


def test_watts_are_a_second_resource_of_the_promise() -> None:
    # 100 W in all. Head: 90 W at 10. 10 W are left over there, so a long job of 10 W starts, one of 20 W does not.
    machine = plain_machine(10, 0.0, 100.0)
    cap = Cap.constant(100.0)
    rows = [(0.0, 1, 10.0), (1.0, 1, 10.0), (2.0, 1, 100.0), (3.0, 1, 100.0)]
    jobs = jobs_of(rows, mean_power_w=[80.0, 90.0, 20.0, 10.0])
    run = simulate(jobs, machine, oracle("easy"), cap=cap)
    assert run.schedule.start_s.tolist() == [0.0, 10.0, 20.0, 3.0]


def test_ends_of_one_instant_count_together_for_the_shadow_time() -> None:
    # Two of four units end at 10, the head needs three: after the first end nothing would be left over, after both
    # one unit is. One long job may have it.
    rows = [(0.0, 1, 10.0), (0.0, 1, 10.0), (1.0, 3, 10.0), (2.0, 1, 100.0), (3.0, 1, 100.0)]
    assert starts(rows, plain_machine(4)) == [0.0, 0.0, 10.0, 2.0, 20.0]


def test_promises_of_two_partitions_bind_watts_in_both() -> None:
    # 100 W, no idle watts. a: job 0 (60 W to 10), job 1 waits for a's only unit, promised 10.
    # b: job 2 draws 50 W for 100 s: at 10 job 1 (60 W) would find 50 W left, so job 2 waits.
    machine = two_partitions((1, 1), max_w=100.0)
    jobs = jobs_of([(0.0, 1, 10.0), (1.0, 1, 10.0), (2.0, 1, 100.0)])
    power = np.array([[40.0, 40.0], [60.0, 60.0], [50.0, 50.0]])
    every = [(0, 0, 0.0), (1, 0, 0.0), (2, 1, 0.0)]
    run = entries_of(every, machine, jobs, "easy", power_w=power, cap=Cap.constant(100.0))
    assert run.schedule.start_s.tolist() == [0.0, 10.0, 20.0]
    power[2] = 40.0  # what is left over at 10
    run = entries_of(every, machine, jobs, "easy", power_w=power, cap=Cap.constant(100.0))
    assert run.schedule.start_s.tolist() == [0.0, 10.0, 2.0]


def test_units_of_a_promise_bind_its_own_partition_only() -> None:
    machine = two_partitions((2, 1))
    jobs = jobs_of([(0.0, 1, 10.0), (1.0, 2, 10.0), (2.0, 1, 100.0)])
    run = entries_of([(0, 0, 0.0), (1, 0, 0.0), (2, 0, 0.0), (2, 1, 0.0)], machine, jobs, "easy")
    assert run.schedule.start_s.tolist() == [0.0, 10.0, 2.0]
    assert units_of(run.schedule, 2) == [2]


def test_a_job_is_not_bound_by_its_own_promise() -> None:
    # Job 1 waits in a, promised 10 with 60 W; in b it fits now and runs 100 s, past 10, at 60 W of the 100.
    # What it would leave over for itself (100 - 60 at 10) is less than it draws: its own promise does not count.
    machine = two_partitions((1, 1), max_w=100.0)
    jobs = jobs_of([(0.0, 1, 10.0), (1.0, 1, 100.0)])
    power = np.array([[40.0, 40.0], [60.0, 60.0]])
    run = entries_of(
        [(0, 0, 0.0), (1, 0, 0.0), (1, 1, 0.0)], machine, jobs, "easy", power_w=power, cap=Cap.constant(100.0)
    )
    assert run.schedule.start_s.tolist() == [0.0, 1.0]
    assert units_of(run.schedule, 1) == [1]


def test_a_job_that_starts_drops_its_promise_and_the_next_in_line_gets_one() -> None:
    # Pass at 3: job 1 cannot start in a and is promised 10 there, then starts in b: that promise is dropped.
    # Job 2 (two units) does not start in a and gets the new one, at 10; job 3 would delay it and waits to 20.
    machine = two_partitions((2, 2))
    jobs = jobs_of([(0.0, 1, 10.0), (3.0, 2, 100.0), (3.0, 2, 10.0), (3.0, 1, 50.0)])
    run = entries_of([(0, 0, 0.0), (1, 0, 0.0), (1, 1, 0.0), (2, 0, 0.0), (3, 0, 0.0)], machine, jobs, "easy")
    assert run.schedule.start_s.tolist() == [0.0, 3.0, 10.0, 20.0]


def test_nothing_already_passed_is_tried_again() -> None:
    # In the order of the pass: job 1 in a is promised; job 2 (long) in a may not delay it and is passed; then job 1
    # starts in b and its promise is gone. Job 2 is not tried again at 3, only in the next pass, at 4.
    machine = two_partitions((2, 2))
    jobs = jobs_of([(0.0, 1, 10.0), (3.0, 2, 100.0), (3.0, 1, 50.0), (4.0, 2, 1.0)])
    rows = [(0, 0, 9.0), (1, 0, 8.0), (2, 0, 7.0), (1, 1, 6.0), (3, 1, 5.0)]
    run = entries_of(rows, machine, jobs, "easy")
    assert run.schedule.start_s[:3].tolist() == [0.0, 3.0, 4.0]


def test_a_promise_that_nothing_can_keep_is_infinite_and_stops_nobody() -> None:
    # The head needs 150 W by its prediction, the cap is 100: others run past it, as long as watts and units do.
    jobs = jobs_of([(0.0, 2, 10.0), (1.0, 1, 100.0), (2.0, 1, 100.0)], mean_power_w=[75.0, 50.0, 50.0])
    run = simulate(jobs, plain_machine(2, 0.0, 100.0), oracle("easy"), cap=Cap.constant(100.0))
    assert run.schedule.start_s[1:].tolist() == [1.0, 2.0]
    assert run.schedule.state[0] == State.NOT_STARTED
    higher = Cap(np.array([-np.inf, 300.0]), np.array([100.0, 200.0]))
    run = simulate(jobs, plain_machine(2, 0.0, 100.0), oracle("easy"), cap=higher)
    assert run.schedule.start_s.tolist() == [300.0, 1.0, 2.0]


def test_walltimes_count_for_promises_not_run_times() -> None:
    # The running job asked for 100 s and takes 10: the narrow job of 50 s may run before 100, and delays the head.
    jobs = Jobs.build([0.0, 1.0, 2.0], [1, 2, 1], [10.0, 10.0, 50.0], walltime_s=[100.0, 10.0, 50.0])
    assert simulate(jobs, plain_machine(2), load_policy("easy")).schedule.start_s.tolist() == [0.0, 52.0, 2.0]


# -- conservative ------------------------------------------------------------------------------------


def test_conservative_lets_nobody_be_delayed() -> None:
    # Four units. Job 1 is planned at 10 with all; job 2 at 20 with three; job 3 (one unit, 30 s) fits beside 2 at 20,
    # and not before: it would overlap job 1. Under EASY the same holds for job 1 only.
    rows = [(0.0, 3, 10.0), (1.0, 4, 10.0), (2.0, 3, 10.0), (3.0, 1, 30.0), (4.0, 1, 6.0)]
    assert starts(rows, plain_machine(4), "conservative") == [0.0, 10.0, 20.0, 20.0, 4.0]


def test_conservative_keeps_a_second_promise_that_easy_breaks() -> None:
    # Six units. Job 0 has 4 to 10. Job 1 (3) is planned at 10, job 2 (6) at 20. Job 3 (2 units, 30 s) fits now and
    # leaves job 1 alone, so EASY starts it at 3 and job 2 waits to 33; conservative has it wait for 30.
    rows = [(0.0, 4, 10.0), (1.0, 3, 10.0), (2.0, 6, 10.0), (3.0, 2, 30.0)]
    assert starts(rows, plain_machine(6), "easy") == [0.0, 10.0, 33.0, 3.0]
    assert starts(rows, plain_machine(6), "conservative") == [0.0, 10.0, 20.0, 30.0]


class EitherOfTwo:
    """Any of a machine's two frequencies."""

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Any, Any]:
        return np.zeros(len(entries.job), np.int32), np.ones(len(entries.job), np.int32)


def test_a_job_too_short_for_the_clock_waits_for_units_all_the_same() -> None:
    # Its end is the next microsecond: units are asked for at no later row.
    machine = Machine("m", (Partition("a", 2, frequencies_hz=(2e9, 1e9), idle_w=50.0, max_w=100.0),))
    policy = replace(load_policy("conservative"), frequency=EitherOfTwo())
    jobs = jobs_of([(0.0, 2, 100.0), (1.0, 2, 1e-6)])
    assert simulate(jobs, machine, policy).schedule.start_s.tolist() == [0.0, 100.0]


def test_a_later_entry_is_planned_as_if_the_earlier_were_absent() -> None:
    # Watts couple the partitions. Job 1 (60 W) is planned in a at 20 (its unit is busy till then). Its entry in b
    # would fit at 10, when job 2's 60 W are free; were its own place from 20 on counted, 120 W would not fit.
    machine = two_partitions((1, 1), max_w=100.0)
    jobs = jobs_of([(0.0, 1, 20.0), (0.0, 1, 10.0), (1.0, 1, 30.0)])
    power = np.array([[40.0, 40.0], [60.0, 60.0], [60.0, 60.0]])
    rows = [(0, 0, 0.0), (1, 1, 0.0), (2, 0, 0.0), (2, 1, 0.0)]
    run = entries_of(rows, machine, jobs, "conservative", power_w=power, cap=Cap.constant(100.0))
    assert run.schedule.start_s.tolist() == [0.0, 0.0, 10.0]
    assert units_of(run.schedule, 2) == [1]


def test_of_two_entries_that_could_start_together_the_first_stays() -> None:
    machine = two_partitions((1, 1))
    jobs = jobs_of([(0.0, 1, 10.0), (0.0, 1, 10.0), (1.0, 1, 5.0)])
    run = entries_of([(0, 0, 0.0), (1, 1, 0.0), (2, 0, 0.0), (2, 1, 0.0)], machine, jobs, "conservative")
    assert units_of(run.schedule, 2) == [0]


def test_conservative_passes_over_an_entry_that_the_cap_never_lets_in() -> None:
    jobs = jobs_of([(0.0, 2, 10.0), (1.0, 1, 10.0)], mean_power_w=[75.0, 50.0])
    run = simulate(jobs, plain_machine(2, 0.0, 100.0), oracle("conservative"), cap=Cap.constant(100.0))
    assert run.schedule.state.tolist() == [State.NOT_STARTED, State.COMPLETED]
    assert run.schedule.start_s[1] == 1.0


@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_a_job_past_its_expected_end_keeps_its_units(policy: str) -> None:
    # Expected to end at 100, it runs to 110; a job that arrives at 105 has to wait for it.
    actual = Prediction(np.ones((2, 1)), np.array([[1.1], [1.0]]))
    run = simulate(jobs_of([(0.0, 1, 100.0), (105.0, 1, 10.0)]), plain_machine(1), load_policy(policy), actual=actual)
    assert run.schedule.start_s.tolist() == [0.0, 110.0]


# -- knobs ------------------------------------------------------------------------------------------


def test_queue_depth_counts_entries_tried() -> None:
    # The third in the queue would fit, but only two are tried.
    rows = [(0.0, 1, 10.0), (1.0, 2, 10.0), (2.0, 2, 10.0), (3.0, 1, 1.0)]
    assert starts(rows, plain_machine(2), oracle("easy", queue_depth=2), mean_power_w=np.ones(4))[3] == 30.0
    assert starts(rows, plain_machine(2), oracle("easy", queue_depth=3), mean_power_w=np.ones(4))[3] == 3.0


def test_passes_keep_their_distance() -> None:
    rows = [(0.0, 1, 3.0), (1.0, 1, 3.0), (2.0, 1, 3.0), (31.0, 1, 1.0)]
    assert starts(rows, plain_machine(4), oracle("easy", pass_interval_s=30.0), mean_power_w=np.ones(4)) == [
        0.0, 30.0, 30.0, 60.0
    ]  # fmt: skip


# -- watts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "cap_w", "start"),
    [
        ("machine", 500.0, 0.0),  # 400 idle, and 100 above it for the job
        ("machine", 499.9, 50.0),
        ("dynamic", 100.0, 0.0),
        ("dynamic", 99.9, 50.0),
        ("jobs", 300.0, 0.0),
        ("jobs", 299.9, 50.0),
    ],
)
def test_what_a_cap_covers(scope: CapScope, cap_w: float, start: float) -> None:
    """Four nodes of 100 W idle; a job of two at 150 W."""
    machine = Machine("four", (Partition("batch", 4, idle_w=100.0, max_w=300.0),), scope)
    cap = Cap(np.array([-np.inf, 50.0]), np.array([cap_w, 10_000.0]))
    run = simulate(jobs_of([(0.0, 2, 10.0)], mean_power_w=[150.0]), machine, oracle("easy"), cap=cap)
    assert run.schedule.start_s.tolist() == [start]
    found = {"machine": 500.0, "dynamic": 100.0, "jobs": 300.0}[scope]
    assert run.power.scope_w(scope).max() == found


def test_admission_counts_to_a_millionth_of_a_watt() -> None:
    machine = plain_machine(10, 0.0, 100.0)
    jobs = jobs_of([(0.0, 1, 10.0)] * 10, mean_power_w=np.full(10, 0.1))
    assert simulate(jobs, machine, oracle("easy"), cap=Cap.constant(1.0)).schedule.start_s.tolist() == [0.0] * 10
    late = simulate(jobs, machine, oracle("easy"), cap=Cap.constant(1.0 - 2e-6)).schedule.start_s
    assert late.tolist() == [0.0] * 9 + [10.0]


def test_a_lower_cap_leaves_running_work_alone() -> None:
    cap = Cap(np.array([-np.inf, 5.0]), np.array([100.0, 10.0]))
    jobs = jobs_of([(0.0, 1, 20.0), (6.0, 1, 1.0)], mean_power_w=[100.0, 10.0])
    run = simulate(jobs, plain_machine(2, 0.0, 100.0), oracle("easy"), cap=cap)
    assert run.schedule.end_s[0] == 20.0
    assert run.schedule.start_s[1] == 20.0
    found = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    assert (found["cap_overshoot_w"], found["cap_over_s"], found["cap_over_j"]) == (90.0, 15.0, 1350.0)


def test_the_ledger_counts_what_was_predicted_and_power_what_is_true() -> None:
    jobs = jobs_of([(0.0, 1, 10.0), (0.0, 1, 10.0)], mean_power_w=[80.0, 80.0], max_power_w=[100.0, 100.0])
    run = simulate(
        jobs, plain_machine(2, 0.0, 120.0), load_policy("easy", estimator="oracle-max"), cap=Cap.constant(160.0)
    )
    assert run.schedule.start_s.tolist() == [0.0, 10.0]
    assert run.power.jobs_w.max() == 80.0
    assert run.schedule.predicted_w.tolist() == [100.0, 100.0]


def test_a_nodes_idle_watts_leave_the_idle_sum_while_it_works() -> None:
    run = simulate(jobs_of([(0.0, 1, 10.0)], mean_power_w=[150.0]), plain_machine(2, 100.0, 300.0), oracle("easy"))
    assert run.power.machine_w[0] == 250.0
    found = metrics(run.jobs, run.schedule, run.power, run.machine, run.cap)
    assert (found["job_energy_j"], found["machine_energy_j"]) == (1_500.0, 2_500.0)


def test_the_highest_frequency_that_fits_is_taken() -> None:
    # 2 GHz: 300 W; 1 GHz: 100 + 200/4 = 150 W, twice the time.
    fast = Partition("batch", 2, frequencies_hz=(2.0e9, 1.0e9), idle_w=100.0, max_w=300.0)
    machine = Machine("two", (fast,))
    jobs = jobs_of([(0.0, 1, 100.0)])
    power = np.array([[300.0, 150.0]])
    entries = Entries(np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1))
    prediction = Prediction(power, np.array([[1.0, 2.0]]))
    ready = Ready(prediction, entries, (np.zeros(1, np.int32), np.ones(1, np.int32)))
    policy = replace(oracle("easy"), estimator=ready, order=ready, frequency=ready)
    for cap_w, option, end in ((400.0, 0, 100.0), (399.0, 1, 200.0)):
        run = simulate(jobs, machine, policy, cap=Cap.constant(cap_w), actual=prediction)
        assert (run.schedule.option[0], run.schedule.end_s[0]) == (option, end)


def test_lowest_numbers_first() -> None:
    rows = [(0.0, 2, 10.0), (0.0, 1, 30.0), (1.0, 1, 30.0), (10.0, 3, 5.0)]
    run = simulate(jobs_of(rows), plain_machine(5), load_policy("easy"))
    assert [units_of(run.schedule, job) for job in range(4)] == [[0, 1], [2], [3], [0, 1, 4]]


def test_a_stopped_node_that_nobody_wakes_leaves_the_queue_waiting() -> None:
    """WakeNode is refused for a node that runs; the run ends, and nothing hangs."""
    run = with_control(AtOneTime(0.0, WakeNode(0)), [(0.0, 1, 50.0)], plain_machine(1))
    assert run.notes == {f"refused: {WRONG_STATE}": 1}


# -- the empty and the smallest ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_no_jobs_at_all(policy: str) -> None:
    nobody = jobs_of([(0.0, 1, 1.0)]).take(np.zeros(0, np.int64))
    run = simulate(nobody, plain_machine(2, 10.0, 20.0), load_policy(policy), cap=Cap.constant(30.0))
    assert len(run.schedule.start_s) == 0
