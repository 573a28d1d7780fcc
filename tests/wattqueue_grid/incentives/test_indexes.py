"""The indexes of each job by hand: waits, run times and energy with and without an event, and consent withdrawn."""

import numpy as np

from wattqueue.model.schedule import Schedule, State
from wattqueue_grid.incentives.indexes import indexes
from wattqueue_grid.incentives.rewards import JobQuantities


def schedule(start: list[float], end: list[float], energy: list[float]) -> Schedule:
    n = len(start)
    ran = np.isfinite(start)
    state = np.where(ran, State.COMPLETED, State.NOT_STARTED).astype(np.int8)
    zeros = np.zeros(n)
    whole = zeros.astype(np.int64)
    return Schedule(
        state, zeros.astype(np.int8), np.array(start), np.array(end), zeros.astype(np.int16), np.array(energy), zeros,
        whole, whole.astype(np.int32), np.empty(0, np.int32), np.empty(0, np.int32),
    )  # fmt: skip


NODES = np.array([2, 1, 4], np.int32)
WITHOUT = schedule([100.0, 200.0, 0.0], [1_100.0, 700.0, 500.0], [2e6, 1e6, 4e6])
WITH = schedule([400.0, 200.0, 0.0], [1_650.0, 600.0, 500.0], [1.25e6, 1e6, 4e6])
EVENT = [(300.0, 800.0)]


def test_added_wait_run_time_power_and_energy_of_a_consenting_job() -> None:
    found = indexes(NODES, np.array([True, True, False]), WITH, WITHOUT, EVENT)
    # Job 1 waits 300 s longer and runs 1,250 s instead of 1,000 s, on 2 nodes: 600 and 500 node-seconds.
    # In the event it drew 2,000 W for 500 s without, 1,000 W for 400 s with it: 1.0 - 0.4 = 0.6 MJ, 1,200 W on average.
    assert found.of_job(0) == JobQuantities(600, 500, 1_200, 600_000, 2_000)
    # Job 2 ran shorter: nothing is added, and nothing is charged. 2,000 W x 400 s less 2,500 W x 300 s: 50 kJ.
    assert found.of_job(1) == JobQuantities(0, 0, 100, 50_000, 500)
    # Job 3 does not consent.
    assert found.of_job(2) == JobQuantities(0, 0, 0, 0, 2_000)


def test_what_was_added_until_consent_was_withdrawn_counts_and_nothing_later() -> None:
    everyone = np.ones(3, bool)
    # At 350 s: 250 of the 300 s of wait had passed; no run time was added yet; 2,000 W x 50 s were freed.
    early = indexes(NODES, everyone, WITH, WITHOUT, EVENT, np.array([350.0, np.inf, np.inf]))
    assert early.of_job(0) == JobQuantities(500, 0, 200, 100_000, 2_000)
    # At 1,500 s: at full speed job 1 would have ended at 1,400 s, so 100 of the 250 s count.
    late = indexes(NODES, everyone, WITH, WITHOUT, EVENT, np.array([1_500.0, np.inf, np.inf]))
    assert late.of_job(0) == JobQuantities(600, 200, 1_200, 600_000, 2_000)
    # Before the event and the start without it: nothing.
    never = indexes(NODES, everyone, WITH, WITHOUT, EVENT, np.array([50.0, np.inf, np.inf]))
    assert never.of_job(0) == JobQuantities(0, 0, 0, 0, 2_000)


def test_a_job_that_did_not_run_in_one_of_the_two_has_no_index() -> None:
    nan = float("nan")
    lost = schedule([nan, 200.0, 0.0], [nan, 600.0, 500.0], [0.0, 1e6, 4e6])
    found = indexes(NODES, np.ones(3, bool), lost, WITHOUT, EVENT)
    assert found.of_job(0) == JobQuantities(0, 0, 0, 0, 2_000)


def test_events_settled_together_add_their_energy_and_share_their_length() -> None:
    # 300-500 and 500-800 s are the event of above in two parts: the same energy over the same 500 s.
    both = indexes(NODES, np.ones(3, bool), WITH, WITHOUT, [(300.0, 500.0), (500.0, 800.0)])
    assert both.of_job(0) == JobQuantities(600, 500, 1_200, 600_000, 2_000)
