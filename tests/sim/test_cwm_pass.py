"""The pass of cwm-simulator (rules 8 and 10), cases worked out by hand; the twin is in test_against_twin.py."""

from __future__ import annotations

import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import plain_machine
from wattqueue.policy.capabilities import DriverAbilities, require_carried_out, resolve
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


def starts(jobs: Jobs, units: int, **options: object) -> list[float]:
    policy = load_policy("easy", backfill={"part": "cwm", **options})
    found: list[float] = simulate(jobs, plain_machine(units), policy).schedule.start_s.tolist()
    return found


def test_behind_a_job_that_waits_only_those_start_that_end_before_the_last_running_one() -> None:
    """Job 1 waits for 3 units; job 2 would end at 101 s, after job 0; job 3 ends with it at 100 s."""
    jobs = Jobs.build([0.0] * 4, [2, 3, 1, 1], [100.0, 10.0, 101.0, 100.0])
    assert starts(jobs, 3) == [0.0, 100.0, 110.0, 0.0]


def test_a_pass_tries_few_entries_of_the_queue() -> None:
    """Of three jobs at once two are tried; the next pass is at the completion of both at 50 s."""
    jobs = Jobs.build([0.0] * 3, [1, 1, 1], [50.0, 50.0, 50.0])
    assert starts(jobs, 3, queue_depth=2) == [0.0, 0.0, 50.0]


def test_passes_come_at_whole_intervals_and_completions() -> None:
    """Job 1 waits for the pass at 60 s, job 2 for that of job 0's end at 100 s.

    Job 1 ends at 130 s, which is a pass, too: from there the interval counts for job 3.
    """
    jobs = Jobs.build([0.0, 5.0, 70.0, 131.0], [1, 1, 1, 1], [100.0, 70.0, 20.0, 5.0])
    assert starts(jobs, 9) == [0.0, 60.0, 100.0, 190.0]
    assert starts(jobs, 9, pass_at_completion=False) == [0.0, 60.0, 120.0, 180.0]


def test_a_driver_without_such_passes_refuses_them() -> None:
    policy, machine = load_policy("easy", backfill="cwm"), plain_machine(2)
    jobs = Jobs.build([0.0], [1], [1.0])
    prediction = policy.estimator.predict(KnownJobs.of(jobs), machine)
    with pytest.raises(PolicyError, match="completions"):
        require_carried_out(policy, resolve(policy), DriverAbilities("live", {}), 0, machine, prediction)
