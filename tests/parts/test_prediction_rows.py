"""The rows of a prediction: jobs that share a row, jobs with a row of their own, and one row for all."""

import numpy as np
import pytest

from wattqueue.kernels.state import Rows
from wattqueue.parts.contracts import Prediction
from wattqueue.policy.build import rows_for, rows_of, time_factors, unit_uw

WATTS = np.array([[300.0, 200.0], [500.0, 400.0], [700.0, 600.0]])
TIMES = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]])
JOBS = np.array([2, 0], np.int32)
OPTIONS = np.array([0, 1], np.int32)
CASES = {
    "own": (Prediction(WATTS, TIMES), [700.0, 200.0], [1.0, 2.0]),
    "shared": (Prediction(WATTS[:2], TIMES[:2], np.array([1, 1, 0], np.int32)), [300.0, 400.0], [1.0, 3.0]),
    "one for all": (Prediction(WATTS[1:2], TIMES[1:2], np.zeros(3, np.int32)), [500.0, 400.0], [1.0, 3.0]),
    "one for all, no row": (Prediction(WATTS[1:2], TIMES[1:2]), [500.0, 400.0], [1.0, 3.0]),
    "one time for all": (Prediction(WATTS, TIMES[2:]), [700.0, 200.0], [1.0, 4.0]),
}


@pytest.mark.parametrize(("prediction", "watts", "times"), CASES.values(), ids=CASES)
def test_watts_and_times_of_jobs(prediction: Prediction, watts: list[float], times: list[float]) -> None:
    assert prediction.watts(JOBS, OPTIONS).tolist() == watts
    assert prediction.watts(JOBS, 1).tolist() == [prediction.watts(JOBS[k : k + 1], 1)[0] for k in (0, 1)]
    each = prediction.take(JOBS)
    assert each.row is None
    assert each.power_w[[0, 1], OPTIONS].tolist() == watts
    assert each.time_factor[[0, 1], OPTIONS].tolist() == times


@pytest.mark.parametrize(("prediction", "watts", "times"), CASES.values(), ids=CASES)
def test_the_kernels_rows_give_the_same(prediction: Prediction, watts: list[float], times: list[float]) -> None:
    rows: Rows = rows_of(prediction)
    assert (unit_uw(rows, JOBS, OPTIONS) / 1e6).tolist() == watts
    assert time_factors(rows, JOBS, OPTIONS).tolist() == times
    assert [float(unit_uw(rows, int(job), int(k)) / 1e6) for job, k in zip(JOBS, OPTIONS, strict=True)] == watts
    small = rows_for(rows, JOBS)
    assert small.watts(np.array([0, 1], np.int32), OPTIONS).tolist() == watts


def test_quantiles_are_taken_with_their_jobs() -> None:
    prediction = Prediction(WATTS[:2], TIMES[:2], np.array([1, 1, 0], np.int32), {0.9: WATTS[:2] * 2})
    assert prediction.take(JOBS).quantiles[0.9].tolist() == [[600.0, 400.0], [1000.0, 800.0]]
