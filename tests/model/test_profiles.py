"""Power profiles: closed forms against sample-by-sample sums."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.profiles import PowerProfiles


def naive(
    level: list[float], resume: int, base: float, scale: float, duration: float, period: float
) -> tuple[float, float]:
    """Mean and maximum by walking through the run period by period."""
    energy, highest, now, k = 0.0, -np.inf, 0.0, 0
    while now < duration:
        watts = base + scale * level[k]
        step = min(period, duration - now)
        energy += watts * step
        highest = max(highest, watts)
        now += period
        k = k + 1 if k + 1 < len(level) else resume
    return energy / duration, highest


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[float]], list[int], list[int], list[float], float]:
    patterns = draw(st.lists(st.lists(st.integers(0, 64).map(float), min_size=1, max_size=7), min_size=1, max_size=4))
    resume = [draw(st.integers(0, len(p) - 1)) for p in patterns]
    jobs = draw(st.lists(st.integers(0, len(patterns) - 1), min_size=1, max_size=6))
    durations = [draw(st.integers(1, 4000)) / 8 for _ in jobs]
    return patterns, resume, jobs, durations, draw(st.sampled_from([20.0, 2.5]))


@given(cases())
def test_mean_and_maximum_are_those_of_the_samples(
    case: tuple[list[list[float]], list[int], list[int], list[float], float],
) -> None:
    patterns, resume, jobs, durations, period = case
    first = np.cumsum([0] + [len(p) for p in patterns])
    base = np.array([10.0 * j for j in range(len(jobs))])
    scale = np.array([1.0 + j / 4 for j in range(len(jobs))])
    level = np.concatenate([np.array(p, np.float32) for p in patterns])
    got = PowerProfiles(np.array(jobs, np.int32), base, scale, level, first, np.array(resume, np.int64), period)
    run = np.array(durations)
    mean, high = got.mean_power_w(run), got.max_power_w(run)
    for j, q in enumerate(jobs):
        want = naive(patterns[q], resume[q], base[j], scale[j], durations[j], period)
        assert (mean[j], high[j]) == pytest.approx(want, rel=1e-12)
        assert got.samples_w(j, durations[j]).max() == pytest.approx(want[1])
        assert len(got.samples_w(j, durations[j])) == int(np.ceil(durations[j] / period))


def test_recorded_samples_hold_their_last_value_and_may_be_missing() -> None:
    got = PowerProfiles.from_samples([[100, 200], [], [50]])
    assert got.pattern.tolist() == [0, -1, 1]
    assert got.samples_w(0, 90.0).tolist() == [100, 200, 200, 200, 200]
    assert len(got.samples_w(1, 90.0)) == 0
    run = np.array([60.0, 60.0, 60.0])
    assert got.mean_power_w(run)[[0, 2]].tolist() == [pytest.approx(500 / 3), 50.0]
    assert np.isnan(got.mean_power_w(run)[1])
    assert np.isnan(got.max_power_w(run)[1])
    assert got.take(np.array([2, 0])).samples_w(1, 40.0).tolist() == [100, 200]


def test_jobs_carry_profiles_through_take() -> None:
    jobs = Jobs.build([0, 1, 2], [1, 1, 1], [40, 40, 40], profiles=PowerProfiles.from_samples([[1, 2], [3, 4], [5, 6]]))
    kept = jobs.take(np.array([False, True, True])).profiles
    assert kept is not None
    assert kept.samples_w(0, 40.0).tolist() == [3, 4]
    with pytest.raises(InputError) as caught:
        Jobs.build([0, 1], [1, 1], [40, 40], profiles=PowerProfiles.from_samples([[1, 2]]))
    assert caught.value.where == "column profiles"


@pytest.mark.parametrize(
    "change",
    [
        {"pattern": np.array([2], np.int32)},
        {"pattern": np.array([-2], np.int32)},
        {"base_w": np.zeros(2)},
        {"first": np.array([0, 0, 2])},
        {"first": np.array([0, 1, 5])},
        {"resume": np.array([0, 1])},
        {"scale_w": np.array([np.nan])},
        {"period_s": 0.0},
    ],
)
def test_columns_that_contradict_each_other_are_refused(change: dict[str, object]) -> None:
    good: dict[str, object] = {
        "pattern": np.array([1], np.int32), "base_w": np.zeros(1), "scale_w": np.ones(1),
        "level": np.ones(2, np.float32), "first": np.array([0, 1, 2]), "resume": np.array([0, 0]), "period_s": 20.0,
    }  # fmt: skip
    PowerProfiles(**good)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        PowerProfiles(**(good | change))  # type: ignore[arg-type]
    assert caught.value.where == "power profiles"


def test_profiles_travel_without_what_they_worked_out() -> None:
    profiles = PowerProfiles.from_samples([[1, 2], [3, 4]])
    before = len(pickle.dumps(profiles))
    profiles.mean_power_w(np.array([30.0, 30.0]))
    again = pickle.loads(pickle.dumps(profiles))  # noqa: S301
    assert len(pickle.dumps(profiles)) == before
    assert again.mean_power_w(np.array([30.0, 30.0])).tolist() == [pytest.approx(4 / 3), pytest.approx(10 / 3)]


def test_bad_samples_are_refused() -> None:
    for bad in ([1.0, -1.0], [np.nan], [np.inf]):
        with pytest.raises(InputError) as caught:
            PowerProfiles.from_samples([bad])
        assert caught.value.where == "power profiles"
    with pytest.raises(InputError) as caught:
        PowerProfiles.from_samples([[], []]).mean_power_w(np.ones(2))
    assert caught.value.where == "power profiles"
