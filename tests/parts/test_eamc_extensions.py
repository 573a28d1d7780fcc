"""Orders and frequencies that go beyond paper 1, on figures small enough to check by hand."""

import numpy as np
import pytest

from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import NO_SIGNALS, Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.frequency.least_distance_or_lower import LeastDistanceOrLower
from wattqueue.parts.order.priority_regret import PriorityRegret
from wattqueue.parts.order.wait_aware import WaitAware
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate

TWO = Machine("two", (Partition("a", 4), Partition("b", 4)))
# A job takes the same watts on both; on b it takes 1.2 times as long.
SLOWER_ON_B = Prediction(np.array([[100.0, 100.0]]), np.array([[1.0, 1.2]]), np.zeros(4, np.int32))


def table_of(entries: Entries) -> dict[tuple[int, int], float]:
    pairs = zip(entries.job.tolist(), entries.partition.tolist(), strict=True)
    return dict(zip(pairs, entries.priority.tolist(), strict=True))


def test_waits_are_the_requested_work_ahead_over_the_nodes() -> None:
    jobs = Jobs.build([0.0, 0.0, 30.0, 500.0], [4, 4, 2, 1], [100.0] * 4)
    part = WaitAware()
    time = np.outer(jobs.walltime_s, [1.0, 1.2])
    got = part.with_waits(KnownJobs.of(jobs), np.tile([1.0, 1.2], (4, 1)), time, TWO)
    # Job 0: no wait, a. Job 1 waits 100 s on a or none on b: 200 against 120, so b. Job 2 at 30 s: 70 s on
    # a, 90 on b. Job 3: both idle again.
    turnaround = np.array([[100, 120], [200, 120], [170, 210], [100, 120]], float)
    want = np.array([1.0, 1.44]) + (turnaround / turnaround.min(1, keepdims=True)) ** 2
    np.testing.assert_allclose(got, want)
    alone = table_of(WaitAware(alone=True).entries(KnownJobs.of(jobs), SLOWER_ON_B, TWO))
    assert [alone[j, 0] for j in range(4)] == [0.0, -1.0, 0.0, 0.0]
    both = table_of(part.entries(KnownJobs.of(jobs), SLOWER_ON_B, TWO))
    assert [both[j, 0] for j in range(4)] == [0.0, -1.0, 0.0, 0.0]
    assert [both[j, 1] for j in range(4)] == [-2.0, -1.0, -2.0, -2.0]


def test_accuracy_scales_work_and_run_time_alike() -> None:
    jobs = Jobs.build([0.0, 0.0], [4, 4], [100.0] * 2)
    time = np.outer(jobs.walltime_s * 0.5, [1.0, 1.2])
    full = WaitAware().with_waits(KnownJobs.of(jobs), np.ones((2, 2)), np.outer(jobs.walltime_s, [1.0, 1.2]), TWO)
    np.testing.assert_allclose(WaitAware(accuracy=0.5).with_waits(KnownJobs.of(jobs), np.ones((2, 2)), time, TWO), full)
    with pytest.raises(PolicyError) as caught:
        WaitAware(accuracy=0.0)
    assert caught.value.where == "wait_aware: accuracy"


def test_a_job_that_may_run_nowhere_counts_for_nobody() -> None:
    jobs = Jobs.build([0.0, 1.0], [4, 4], [100.0] * 2)
    energy = np.array([[np.inf, np.inf], [1.0, 1.0]])
    got = WaitAware().with_waits(KnownJobs.of(jobs), energy, np.where(np.isfinite(energy), 100.0, np.inf), TWO)
    assert np.isinf(got[0]).all()
    np.testing.assert_allclose(got[1], [2.0, 2.0])


def test_regret_ranks_by_degrees() -> None:
    jobs = Jobs.build([0.0, 1.0], [1, 1], [100.0] * 2)
    table = Prediction(np.full((2, 2), 100.0), np.array([[1.0, 1.1], [1.5, 1.0]]))
    got = table_of(PriorityRegret().entries(KnownJobs.of(jobs), table, TWO))
    assert got == {(0, 0): -1.0, (0, 1): pytest.approx(-1.1), (1, 0): pytest.approx(-1.5), (1, 1): -1.0}


def test_the_capped_window_goes_down_to_least_energy_and_stops_at_a_gap() -> None:
    machine = Machine("one", (Partition("a", 4, frequencies_hz=(4e9, 3e9, 2e9, 1e9)),))
    power = np.array([[400.0, 280.0, 180.0, 150.0], [400.0, 280.0, np.inf, 90.0]])
    time = np.array([[1.0, 1.2, 1.6, 3.0], [1.0, 1.2, 1.6, 3.0]])
    entries = Entries(np.arange(2, dtype=np.int32), np.zeros(2, np.int32), np.zeros(2))
    first, last = LeastDistanceOrLower().window(
        KnownJobs.build([], [], []), entries, Prediction(power, time), machine, NO_SIGNALS
    )
    # Joules 400, 336, 288, 450: eq. 4 takes 3 GHz, least energy is 2 GHz. Row 1: 270 J at 1 GHz, behind a gap.
    assert first.tolist() == [1, 1]
    assert last.tolist() == [2, 1]


def test_under_a_cap_a_job_is_slowed_rather_than_made_to_wait() -> None:
    row = load_policy("eamc-capped")
    from wattqueue.model.eamc_table1 import table1_profiles

    hz = tuple(table1_profiles().on("p1").frequency_hz.tolist())
    machine = Machine("p1", (Partition("p1", 2, frequencies_hz=hz),), cap_scope="jobs")
    jobs = Jobs.build([0.0, 0.0], [1, 1], [1000.0] * 2, app=["6", "6"])
    actual = row.estimator.predict(KnownJobs.of(jobs), machine)
    free = simulate(jobs, machine, row, actual=actual).schedule
    capped = simulate(jobs, machine, row, actual=actual, cap=Cap.constant(580.0)).schedule
    plain = simulate(jobs, machine, load_policy("eamc-priority-inc"), actual=actual, cap=Cap.constant(580.0)).schedule
    assert free.start_s.tolist() == capped.start_s.tolist() == [0.0, 0.0]
    assert capped.option[0] == free.option[0]
    assert capped.option[1] > free.option[1]
    assert capped.predicted_w.sum() <= 580.0
    assert plain.start_s[1] > 0.0
