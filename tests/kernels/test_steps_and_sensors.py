"""Where the steps of profiles wait, and what the sensors of an idle machine say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.drivers import put_one_step
from wattqueue.kernels.measured import new_measured
from wattqueue.kernels.profile_power import NEAR
from wattqueue.sim.profiles import _next_steps


@pytest.mark.parametrize("waiting", [1, 2, NEAR, NEAR + 1, NEAR + 2, 3 * NEAR])
@pytest.mark.parametrize("behind", [0, 1, 2, NEAR, NEAR + 1])
def test_the_queue_of_steps_stays_in_order_of_time(waiting: int, behind: int) -> None:
    """A step before ``behind`` others is inserted where it is near the end, and heaped where it is not."""
    due = _next_steps(4 * NEAR)
    due.now.first = len(due.time) - 3  # the ring begins near its end
    for k in range(waiting):
        put_one_step(due, float(k), k)
    before = min(behind, waiting)
    put_one_step(due, waiting - before - 0.5, waiting)
    heaped = before > NEAR
    assert [due.now.queued, due.heap.filled[0]] == [waiting + (not heaped), int(heaped)]
    at = (due.now.first + np.arange(due.now.queued)) % len(due.time)
    expected = sorted([*map(float, range(waiting)), *([] if heaped else [waiting - before - 0.5])])
    assert due.time[at].tolist() == expected
    assert due.run[at].tolist() == [waiting if time % 1 else int(time) for time in expected]


def test_sensors_of_an_idle_machine_say_so() -> None:
    start, of_unit = np.array([0, 2, 3], np.int32), np.array([0, 0, 1], np.int32)
    found = new_measured(start, of_unit, np.array([10, 10, 30]), np.array([100, 100, 300]))
    assert found.sample_uw.tolist() == [20, 30]
    assert found.most_uw.tolist() == [100, 300]
    assert found.share_uw.tolist() == [10, 30]
