"""Reservations under a chance ledger: the margin of what runs at the shadow time counts (cases worked out by hand)."""

from __future__ import annotations

import numpy as np

from tests.sim.test_semantics import jobs_of
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

# One deviation of each job's own: the margin is the root of the sum of 0.64 x^2, 0.8 x for a single job.
LEDGER = {"part": "chance", "deviations": 1.0, "own": 0.64, "common": 0.0}


def starts(rows: list[tuple[float, int, float]], watts: list[float], cap_w: float = 1_000.0) -> list[float]:
    """Start times of jobs (submit, nodes, run time) with known watts on four nodes without idle watts."""
    policy = load_policy("easy+pc-mean", estimator="oracle-mean", ledger=LEDGER)
    jobs = jobs_of(rows, mean_power_w=np.array(watts))
    run = simulate(jobs, plain_machine(4), policy, cap=Cap.constant(cap_w))
    return [float(s) for s in run.schedule.start_s]


def test_a_job_that_outlives_the_shadow_time_takes_what_the_margin_grows_by() -> None:
    # The head (500 W, 900 with its margin) can start when the first job ends at 20. The last one (150 W) fits now,
    # and by watts alone beside the head: 650 of 1,000 W. With the margin that is 650 + 0.8 root(500^2 + 150^2) = 1,068.
    rows = [(0.0, 1, 20.0), (1.0, 1, 10.0), (2.0, 1, 1_000.0)]
    assert starts(rows, [300.0, 500.0, 150.0]) == [0.0, 20.0, 30.0]
    # One that takes 40 W fits beside the head: 540 + 0.8 root(500^2 + 40^2) = 941 W.
    assert starts(rows, [300.0, 500.0, 40.0]) == [0.0, 20.0, 2.0]


def test_the_shadow_time_is_when_the_head_fits_with_its_own_margin() -> None:
    # 300 and 300 W run until 10 and 20. At 10 the head (300 W) would make 600 + 0.8 root(2 x 300^2) = 939 W; of 400 W
    # 700 + 0.8 root(300^2 + 400^2) = 1,100 W, so that its time is 20, and a job that ends by then may start.
    rows = [(0.0, 1, 10.0), (0.0, 1, 20.0), (1.0, 1, 10.0), (2.0, 1, 17.0)]
    assert starts(rows, [300.0, 300.0, 300.0, 10.0]) == [0.0, 0.0, 10.0, 2.0]
    assert starts(rows, [300.0, 300.0, 400.0, 10.0]) == [0.0, 0.0, 20.0, 2.0]


def test_a_stream_of_small_jobs_does_not_keep_the_head_waiting() -> None:
    # Each small job outlives the shadow time; by their watts alone each would fit beside the head.
    rows = [(0.0, 1, 20.0), (1.0, 1, 10.0), *((2.0 + 10.0 * k, 1, 25.0) for k in range(40))]
    assert starts(rows, [300.0, 500.0, *([150.0] * 40)])[1] == 20.0
