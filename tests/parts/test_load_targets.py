"""The rule of paper 5: consenting jobs run slowed during a load target, decided at submission or at the start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wattqueue as wq
from wattqueue.cli.rerun import differences
from wattqueue.errors import MachineError, PolicyError
from wattqueue.formats.load_target import write_load_targets
from wattqueue.formats.rundir.folder import write_run
from wattqueue.formats.table.job_table import write_table
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.runs.perform import load, perform
from wattqueue.runs.record import record, recorded_inputs
from wattqueue.runs.task import Task
from wattqueue.sim.engine import Run, simulate

HZ = (2.0e9, 1.0e9)
"""With alpha 1 and 20 W idle, 100 W become 60 W; run times double."""
ROWS = [
    "dr-fcfs", "dr-fcfs+frequency=target-at-start", "fcfs", "fcfs+controls=target-off",
    "dr-fcfs+controls=target-off", "fcfs+controls=target-drain",
]  # fmt: skip
MACHINE = Machine("small", (Partition("one", 4, frequencies_hz=HZ, idle_w=20.0, max_w=100.0, dvfs_alpha=1.0),))


def jobs_of(submit: list[float], nodes: list[int], allowed: list[float], run_s: float = 100.0, **more: Any) -> Jobs:
    consent = Consent.build(len(submit), allowed=allowed, **more)
    return Jobs.build(submit, nodes, [run_s] * len(submit), consent=consent)


def run(jobs: Jobs, row: str, *targets: LoadTarget, cap_w: float = 400.0) -> Run:
    return simulate(jobs, MACHINE, load_policy(row), cap=Cap.constant(cap_w), targets=LoadTargets.of(*targets))


def test_decided_at_submission_a_job_keeps_its_slow_down_and_earlier_ones_are_never_slowed() -> None:
    # Job 1 fills the machine until 100 s; job 2 is submitted before the target, 3 in it, 4 after it.
    jobs = jobs_of([0, 10, 30, 60], [4, 1, 1, 1], [1, 1, 1, 1])
    done = run(jobs, "dr-fcfs", LoadTarget(20.0, 50.0, 400.0))
    assert done.schedule.option.tolist() == [0, 0, 1, 0]
    assert done.schedule.start_s.tolist() == [0, 100, 100, 100]
    assert done.schedule.end_s.tolist() == [100, 200, 300, 200]


def test_decided_at_the_start_only_jobs_that_start_in_the_target_are_slowed() -> None:
    jobs = jobs_of([0, 10, 30, 60], [4, 1, 1, 1], [1, 1, 1, 1])
    done = run(jobs, "dr-fcfs+frequency=target-at-start", LoadTarget(20.0, 50.0, 400.0))
    assert done.schedule.option.tolist() == [0, 0, 0, 0]
    later = run(jobs, "dr-fcfs+frequency=target-at-start", LoadTarget(90.0, 150.0, 400.0))
    assert later.schedule.option.tolist() == [0, 1, 1, 1]


def test_a_disallowed_job_runs_at_full_speed_or_waits() -> None:
    # 260 W: 4 x 20 W idle leave 180 W; a full node takes 80 W, a slowed one 40 W.
    jobs = jobs_of([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1])
    done = run(jobs, "dr-fcfs", LoadTarget(0.0, 1_000.0, 260.0))
    assert done.schedule.option.tolist() == [0, 1, 0, 1]
    # Full, slowed: 120 W of 180; the third does not fit and blocks the fourth: the queue's head only.
    assert done.schedule.start_s.tolist() == [0, 0, 100, 100]
    assert done.power.scope_w(MACHINE.cap_scope).max() <= 260.0


def test_limits_of_a_consent_hold() -> None:
    jobs = jobs_of(
        [0, 0, 0], [1, 1, 1], [1, 1, 1], greatest_slowdown=[1.9, 2.0, np.nan], latest_end_s=[np.nan] * 2 + [150]
    )
    for row in ("dr-fcfs", "dr-fcfs+frequency=target-at-start"):
        assert run(jobs, row, LoadTarget(0.0, 50.0, 400.0)).schedule.option.tolist() == [0, 1, 0]


def test_nodes_that_are_off_leave_more_watts() -> None:
    jobs = jobs_of([0, 0], [2, 1], [1, 1])
    target = LoadTarget(0.0, 1_000.0, 310.0)
    # Idle: 80 W + 160 W + 80 W are too much. Off: one node less, 20 W more.
    assert run(jobs, "fcfs", target).schedule.start_s.tolist() == [0, 100]
    assert run(jobs, "fcfs+controls=target-off", target).schedule.start_s.tolist() == [0, 0]


JOB = st.tuples(st.integers(0, 300), st.integers(1, 4), st.sampled_from([0.0, 1.0, np.nan]), st.integers(1, 200))


@given(st.lists(JOB, min_size=1, max_size=12), st.integers(80, 400), st.sampled_from(ROWS), st.floats(0.0, 200.0))
def test_a_disallowed_job_is_never_slowed_and_starts_keep_the_target(
    rows: list[tuple[int, int, float, int]], watts: int, row: str, begin: float
) -> None:
    submit, nodes, allowed, run_s = (list(column) for column in zip(*rows, strict=True))
    jobs = Jobs.build(submit, nodes, run_s, consent=Consent.build(len(rows), allowed=allowed))
    done = run(jobs, row, LoadTarget(begin, begin + 150.0, watts))
    schedule, ran = done.schedule, done.schedule.ran
    free = ran & (np.array(allowed) != 1)
    assert (schedule.option[free] == 0).all()
    np.testing.assert_allclose((schedule.end_s - schedule.start_s)[free], np.array(run_s)[free])
    # Above the limit only while jobs run that started before it came down.
    power = done.power.scope_w(MACHINE.cap_scope)
    over = power > done.cap.at(done.power.time_s) + 1e-6
    for time_s in done.power.time_s[:-1][over[:-1]]:
        runs = ran & (schedule.start_s <= time_s) & (schedule.end_s > time_s)
        assert (schedule.start_s[runs] < begin).any()


class Watching:
    """Notes what it is shown at each signal."""

    period_s = 0.0
    events = frozenset({"signal"})

    def __init__(self) -> None:
        self.seen: list[tuple[float, int, float, int]] = []

    def act(self, view: View) -> list[Action]:
        self.seen.append((view.now_s, len(view.load_targets), view.target_w, len(view.announced_caps[0])))
        return []


def test_notice_start_and_end_are_events_and_nothing_is_known_before() -> None:
    control = Watching()
    policy = load_policy("dr-fcfs", controls=[control])
    targets = LoadTargets.of(LoadTarget(50.0, 80.0, 300.0, notice_s=20.0))
    simulate(jobs_of([0], [1], [0]), MACHINE, policy, cap=Cap.constant(400.0), targets=targets)
    inf = np.inf
    assert control.seen == [(0.0, 0, inf, 0), (30.0, 1, inf, 2), (50.0, 1, 300.0, 1), (80.0, 0, inf, 0)]


def test_a_run_with_targets_from_a_file_is_the_same_and_can_be_repeated(tmp_path: Path) -> None:
    jobs, targets = jobs_of([0, 30], [2, 2], [1, 1]), LoadTargets.of(LoadTarget(20.0, 50.0, 75.0, "% of maximum"))
    path, table, defaults = tmp_path / "targets.csv", tmp_path / "jobs.csv", tmp_path / "consent.toml"
    write_load_targets(path, targets)
    write_table(table, jobs)
    defaults.write_text("others = true\n", encoding="utf-8")
    task = Task(str(table), nodes=4, node_watts="20:100", policy="dr-fcfs", targets=str(path), consent=str(defaults))
    outcome = perform(load(task))
    assert outcome.run.cap.at(np.array([0.0, 20.0, 50.0])).tolist() == [np.inf, 300.0, np.inf]
    again = wq.simulate(jobs, plain_machine(4, 20.0, 100.0), policy="dr-fcfs", targets=targets)
    assert again.metrics["wait_s_mean"] == outcome.metrics["wait_s_mean"]
    write_run(tmp_path / "one", record(outcome))
    write_run(tmp_path / "two", record(perform(recorded_inputs(tmp_path / "one"))))
    assert differences(tmp_path / "one", tmp_path / "two") == []


def test_what_cannot_be_is_refused() -> None:
    jobs = jobs_of([0], [1], [1])
    with pytest.raises(MachineError):
        run(jobs, "dr-fcfs", LoadTarget(0.0, 10.0, 79.0))
    with pytest.raises(PolicyError):
        load_policy("dr-fcfs", frequency={"part": "target-at-start", "frequency_hz": 2.0})
    with pytest.raises(PolicyError):
        simulate(jobs, MACHINE, load_policy("dr-fcfs+frequency=target-at-start", backfill="conservative"))


def test_running_jobs_are_slowed_least_added_time_a_watt_first_and_sped_up_again() -> None:
    # Three single-node jobs: 100 s allowed, 300 s allowed, 300 s not. 80 W idle + 3 x 80 W = 320 W; slowed -40 W.
    consent = Consent.build(3, allowed=[1, 1, 0])
    jobs = Jobs.build([0, 0, 0], [1, 1, 1], [100.0, 300.0, 300.0], consent=consent)
    done = run(jobs, "dr-running", LoadTarget(50.0, 70.0, 290.0))
    # The first has 50 s left: slowing it adds least. 20 s at half speed are 10 s of work.
    assert done.schedule.end_s.tolist() == [110.0, 300.0, 300.0]
    power = done.power.scope_w(MACHINE.cap_scope)
    assert power[done.power.time_s == 50.0].tolist() == [280.0]
    assert power[done.power.time_s == 70.0].tolist() == [320.0]
    deeper = run(jobs, "dr-running", LoadTarget(50.0, 70.0, 250.0))
    assert deeper.schedule.end_s.tolist() == [110.0, 310.0, 300.0]


def test_after_a_target_jobs_return_no_faster_than_its_ramp() -> None:
    consent = Consent.build(3, allowed=[1, 1, 1])
    jobs = Jobs.build([0, 0, 0], [1, 1, 1], [300.0] * 3, consent=consent)
    done = run(jobs, "dr-running", LoadTarget(50.0, 70.0, 200.0, ramp_w_per_s=1.0))
    time_s, power = done.power.time_s, done.power.scope_w(MACHINE.cap_scope)
    after = time_s >= 70.0
    assert power[time_s == 50.0].tolist() == [200.0]
    assert (power[after] <= 200.0 + (time_s[after] - 70.0) + 1e-6).all()
    assert power[after].max() == 320.0


@given(st.lists(JOB, min_size=1, max_size=10), st.integers(80, 400), st.floats(0.0, 200.0))
def test_dr_running_never_touches_a_disallowed_job(
    rows: list[tuple[int, int, float, int]], watts: int, begin: float
) -> None:
    submit, nodes, allowed, run_s = (list(column) for column in zip(*rows, strict=True))
    jobs = Jobs.build(submit, nodes, run_s, consent=Consent.build(len(rows), allowed=allowed))
    schedule = run(jobs, "dr-running", LoadTarget(begin, begin + 100.0, watts, ramp_w_per_s=2.0)).schedule
    free = schedule.ran & (np.array(allowed) != 1)
    np.testing.assert_allclose((schedule.end_s - schedule.start_s)[free], np.array(run_s)[free])


def test_nodes_drain_as_many_as_the_others_can_be_busy_within_the_target() -> None:
    # 4 nodes of 100 W; 230 W from 50 s on: two may be busy. Jobs end at 60, 70, 200 s on three nodes, one is idle.
    jobs = Jobs.build([0, 0, 0, 55], [1, 1, 1, 1], [60.0, 70.0, 200.0, 30.0])
    done = run(jobs, "fcfs+controls=target-drain", LoadTarget(50.0, 100.0, 230.0))
    power = done.power.scope_w(MACHINE.cap_scope)
    watts = [float(power[done.power.time_s <= t][-1]) for t in (49.0, 50.0, 60.0, 70.0, 100.0)]
    # The idle node is off at 50 s, the first to end at 60 s; the fourth job takes the node that is left at 70 s.
    assert watts == [320.0, 300.0, 200.0, 200.0, 160.0]
    assert done.schedule.start_s.tolist() == [0.0, 0.0, 0.0, 70.0]
    scope = replace(MACHINE, cap_scope="jobs")
    targets = LoadTargets.of(LoadTarget(50.0, 100.0, 230.0))
    with pytest.raises(PolicyError, match="target-drain"):
        simulate(jobs, scope, load_policy("fcfs+controls=target-drain"), cap=Cap.constant(400.0), targets=targets)


def test_disallowed_jobs_are_ahead_by_a_stated_time_and_no_more() -> None:
    # All jobs need the whole machine, which is busy until 100 s.
    jobs = jobs_of([0, 10, 20, 40, 80], [4, 4, 4, 4, 4], [1, 1, 1, 0, 0])
    policy = load_policy("dr-easy", order={"part": "disallowed-first", "ahead_s": 25.0})
    started = simulate(jobs, MACHINE, policy, cap=Cap.constant(400.0)).schedule.start_s
    # Places: 10, 20, 40 - 25, 80 - 25.
    assert np.argsort(started).tolist() == [0, 1, 3, 2, 4]
    with pytest.raises(PolicyError):
        load_policy("dr-easy", order={"part": "disallowed-first", "ahead_s": -1.0})


EASY_ROWS = st.sampled_from(["dr-easy", "dr-easy-ahead", "dr-easy-ahead+ledger=ramped"])


@given(st.lists(JOB, min_size=1, max_size=10), st.integers(80, 400), st.floats(0.0, 200.0), EASY_ROWS)
def test_dr_easy_never_slows_a_disallowed_job(
    rows: list[tuple[int, int, float, int]], watts: int, begin: float, row: str
) -> None:
    submit, nodes, allowed, run_s = (list(column) for column in zip(*rows, strict=True))
    jobs = Jobs.build(submit, nodes, run_s, consent=Consent.build(len(rows), allowed=allowed))
    target = LoadTarget(begin, begin + 100.0, watts, notice_s=50.0, ramp_w_per_s=1.0)
    schedule = run(jobs, row, target).schedule
    assert schedule.ran.all()
    free = np.array(allowed) != 1
    np.testing.assert_allclose((schedule.end_s - schedule.start_s)[free], np.array(run_s)[free])
