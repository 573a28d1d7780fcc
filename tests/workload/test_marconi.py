"""The generated Marconi100: calibration against published figures, load, determinism, invariants."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.workload import marconi
from wattqueue.workload.marginals import power_tail

Floats = NDArray[np.float64]

# PM100's published sample of 5,000 jobs (May to October 2020).
PM100 = {"q25": 13.0, "q50": 204.0, "q75": 2185.0, "mean": 5976.632, "sd": 16760.133028}


@pytest.fixture(scope="module")
def trace() -> Jobs:
    """A month of it."""
    return marconi.generate(np.random.default_rng(20), jobs=60_000)


def digest(jobs: Jobs) -> str:
    assert jobs.profiles is not None
    columns = (
        jobs.job_id, jobs.submit_s, jobs.nodes, jobs.walltime_s, jobs.runtime_s, jobs.user.codes, jobs.app.codes,
        jobs.mean_power_w, jobs.max_power_w, jobs.profiles.pattern, jobs.profiles.base_w, jobs.profiles.level,
    )  # fmt: skip
    return hashlib.sha256(b"".join(np.ascontiguousarray(c).tobytes() for c in columns)).hexdigest()


def pareto(low: float, high: float, exponent: float, power: int) -> float:
    """E[t^power] of density t^(-1-exponent) on low .. high; exponent 0 is log-uniform."""

    def integral(e: float) -> float:
        return float(np.log(high / low)) if e == 0 else (high**e - low**e) / e

    return integral(power - exponent) / integral(-exponent)


def test_the_typed_in_tail_is_what_the_published_moments_ask_for() -> None:
    q25, q50, q75, limit = PM100["q25"], PM100["q50"], PM100["q75"], marconi.LIMIT_S
    total = (PM100["mean"], PM100["sd"] ** 2 * 4999 / 5000 + PM100["mean"] ** 2)
    first = (q25 / 2, q25**2 / 3)  # the shortest quarter: flat from 0 to 13 s
    top = [4 * total[p - 1] - first[p - 1] - pareto(q25, q50, 0, p) - pareto(q50, q75, 0, p) for p in (1, 2)]

    def atom(exponent: float) -> float:
        """The mass at the limit that gives the top quarter its mean."""
        mean = pareto(q75, limit, exponent, 1)
        return (top[0] - mean) / (limit - mean)

    def miss(exponent: float) -> float:
        a = atom(exponent)
        return a * limit**2 + (1 - a) * pareto(q75, limit, exponent, 2) - top[1]

    low, high = 0.1, 1.0  # the second moment rises with the exponent, as the mass at the limit does
    assert miss(low) < 0 < miss(high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if miss(middle) < 0 else (low, middle)
    short = 0.25 + 0.25 * float(np.log(60 / q25) / np.log(q50 / q25))
    want = power_tail(
        {0.0: 60.0, (0.5 - short) / (1 - short): q50, (0.75 - short) / (1 - short): q75},
        limit, exponent=low, atom=0.25 * atom(low) / (1 - short),
    )  # fmt: skip
    p = np.array([k / 100 for k in range(1, 100)])
    assert marconi.RUNTIME.value(p) == pytest.approx(want.value(p), rel=1e-3)
    every = np.array([(k + 0.5) / 1e4 for k in range(10_000)])
    assert float(marconi.RUNTIME.value(every).mean()) == pytest.approx(9770, rel=5e-3)


def test_sizes_and_walltimes_have_the_published_moments() -> None:
    size, wall = marconi.SIZE, marconi.WALLTIME_MIN
    assert size.mean() == pytest.approx(4.1258, rel=0.002)
    assert np.sqrt(size.mass @ size.x**2 - size.mean() ** 2) == pytest.approx(14.824, rel=0.005)
    assert size.value(np.array([0.25, 0.5, 0.75, 1.0])).tolist() == [1, 1, 2, 256]
    assert wall.mean() == pytest.approx(716.7, rel=0.002)
    assert np.sqrt(wall.mass @ wall.x**2 - wall.mean() ** 2) == pytest.approx(635.5, rel=0.002)
    assert wall.value(np.array([0.25, 0.5, 0.75, 1.0])).tolist() == [50, 540, 1440, 1440]


def test_marginals_are_pm100s_given_a_minute_and_more(trace: Jobs) -> None:
    run = trace.runtime_s
    assert run.min() == 60
    assert run.max() == 86400
    for seconds, p in ((204, 0.1818), (2185, 0.5909), (86399, 0.9612)):
        assert (run <= seconds).mean() == pytest.approx(p, abs=0.015)
    assert run.mean() == pytest.approx(9770, rel=0.03)
    assert run.std() == pytest.approx(20556, rel=0.03)
    assert np.quantile(trace.walltime_s / 60, [0.25, 0.5, 0.75, 1]).tolist() == [50, 540, 1440, 1440]
    assert np.quantile(trace.nodes, [0.25, 0.5, 0.75, 1]).tolist() == [1, 1, 2, 256]
    assert trace.nodes.mean() == pytest.approx(4.126, rel=0.01)
    assert trace.nodes.std() == pytest.approx(14.82, rel=0.01)
    assert (run == trace.walltime_s).mean() == pytest.approx(156 / 1994, abs=0.004)


def test_watts_peak_near_700_and_stay_below_2100(trace: Jobs) -> None:
    mean, high = trace.mean_power_w, trace.max_power_w
    assert mean is not None
    assert high is not None
    counts, edges = np.histogram(mean, np.arange(200, 2150, 50))
    assert 650 <= edges[counts.argmax()] <= 700
    counts, edges = np.histogram(high, np.arange(210, 2150, 100))  # five readings in each bin
    assert 610 <= edges[counts.argmax()] <= 710
    assert mean.min() >= marconi.NODE_LEAST_W
    assert high.max() <= marconi.NODE_MAX_W
    assert (high >= mean).all()
    assert trace.profiles is not None
    low, _ = trace.profiles.level_range(trace.runtime_s)
    assert (trace.profiles.base_w + trace.profiles.scale_w * low).min() >= marconi.NODE_LEAST_W - 1e-6


def test_a_jobs_figures_are_those_of_its_profile(trace: Jobs) -> None:
    assert trace.profiles is not None
    assert trace.mean_power_w is not None
    assert trace.max_power_w is not None
    for j in np.random.default_rng(1).integers(0, len(trace), 60):
        run = float(trace.runtime_s[j])
        watts = trace.profiles.samples_w(int(j), run)
        weight = np.full(len(watts), 20.0)
        weight[-1] = run - 20.0 * (len(watts) - 1)
        assert trace.mean_power_w[j] == pytest.approx(watts @ weight / run, rel=1e-9)
        assert trace.max_power_w[j] >= max(watts.max() - marconi.READING_W / 2, trace.mean_power_w[j])


def test_a_jobs_maximum_is_a_reading_of_its_highest_node(trace: Jobs) -> None:
    """Whole multiples of 20 W; those of one node are its profile's highest, of many nodes above that of their mean."""
    assert trace.profiles is not None
    assert trace.max_power_w is not None
    assert trace.mean_power_w is not None
    assert (trace.max_power_w % marconi.READING_W == 0).all()
    mean_node = trace.profiles.max_power_w(trace.runtime_s)
    above = trace.max_power_w / mean_node
    reading = np.maximum(
        marconi.READING_W * np.rint(mean_node / marconi.READING_W),
        marconi.READING_W * np.ceil(trace.mean_power_w / marconi.READING_W),
    )
    assert (trace.max_power_w == reading)[trace.nodes == 1].all()
    wide = (trace.nodes >= 32) & (trace.runtime_s > 600)
    assert 1.06 < np.median(above[wide]) < 1.16


def test_the_highest_reading_by_hand() -> None:
    """Nearest multiple of 20 W; a mean between two readings needs one above it; never above the highest node."""
    highest, mean = np.array([709.0, 711.0, 646.0, 640.0, 2120.0]), np.array([600.0, 600.0, 645.0, 640.0, 1999.0])
    assert marconi.read_highest_w(highest, mean).tolist() == [700.0, 720.0, 660.0, 640.0, 2100.0]


def test_processors_have_pm100s_quartiles_and_differ_from_nodes(trace: Jobs) -> None:
    asked = np.asarray(trace.extra["processors"])
    assert np.percentile(asked, (25, 50, 75)).tolist() == [24.0, 128.0, 128.0]
    assert (asked / trace.nodes).mean() == pytest.approx(marconi.PROCESSORS.mean(), rel=0.01)
    assert len(np.unique(asked // trace.nodes)) == 8
    assert (asked % trace.nodes == 0).all()


def test_users_are_as_uneven_and_as_steady_as_in_the_real_extract(trace: Jobs) -> None:
    """Real, 30 hours: 185 users, the ten busiest 36 % of 1,994 jobs, next job of the same size in 90 %."""
    got: dict[str, list[float]] = {"users": [], "ten": [], "same": []}
    for day in range(1, 29, 3):
        rows = np.flatnonzero((trace.submit_s >= day * 86400) & (trace.submit_s < (day + 1.25) * 86400))
        user = trace.user.codes[rows]
        count = np.sort(np.bincount(user))[::-1]
        got["users"].append((count > 0).sum())
        got["ten"].append(count[:10].sum() / count.sum())
        order = np.argsort(user, kind="stable")
        again = user[order][1:] == user[order][:-1]
        got["same"].append((np.diff(trace.nodes[rows][order]) == 0)[again].mean())
    assert 120 < np.mean(got["users"]) < 220
    assert np.mean(got["ten"]) == pytest.approx(0.36, abs=0.1)
    assert np.mean(got["same"]) > 0.7


def test_full_size_has_all_users_and_the_rate_of_the_paper() -> None:
    jobs = marconi.generate(np.random.default_rng(3), jobs=marconi.JOBS)
    assert len(jobs) == 523_204
    assert len(np.unique(jobs.user.codes)) == 576
    assert jobs.submit_s[-1] <= 273 * 86400
    assert len(jobs) / (jobs.submit_s[-1] / 86400) == pytest.approx(1916, rel=0.01)
    assert jobs.origin == "generated"
    week = np.bincount((jobs.submit_s // 86400 % 7).astype(int), minlength=7)
    assert week[5] < 0.5 * week[2]


def test_equal_rngs_give_equal_bytes_and_others_do_not() -> None:
    wishes: list[dict[str, Any]] = [{"jobs": 3000}, {"days": 2.0}, {"days": 2.0, "load": 0.8}]
    for more in wishes:
        once = digest(marconi.generate(np.random.default_rng(8), **more))
        assert once == digest(marconi.generate(np.random.default_rng(8), **more))
        assert once != digest(marconi.generate(np.random.default_rng(9), **more))


@pytest.mark.parametrize("load", [0.1, 0.6, 1.0, 3.0])
def test_load_is_reached_exactly_by_the_length_of_the_trace(load: float) -> None:
    natural = marconi.generate(np.random.default_rng(4), jobs=5000)
    jobs = marconi.generate(np.random.default_rng(4), jobs=5000, load=load)
    work = float((jobs.nodes * jobs.runtime_s).sum())
    span_s = work / (load * 980)
    assert jobs.submit_s.max() < span_s
    assert jobs.submit_s.max() > 0.9 * span_s
    assert work == float((natural.nodes * natural.runtime_s).sum())  # the same jobs, faster or slower


@pytest.mark.parametrize("load", [0.3, 1.0, 2.0])
def test_load_is_reached_to_within_a_job_on_given_days(load: float) -> None:
    for seed in range(2):
        jobs = marconi.generate(np.random.default_rng(seed), days=7.0, load=load)
        work = jobs.nodes * jobs.runtime_s
        asked = load * 980 * 7 * 86400
        assert asked <= work.sum() <= asked + work.max()
        assert jobs.submit_s.max() < 7 * 86400


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**40), jobs=st.integers(1, 400), users=st.integers(1, 700), nodes=st.integers(1, 2000),
    load=st.none() | st.floats(0.05, 5.0), drift=st.floats(0, 5), spread=st.floats(0, 5),
)  # fmt: skip
def test_any_parameters_give_a_valid_workload(
    seed: int, jobs: int, users: int, nodes: int, load: float | None, drift: float, spread: float
) -> None:
    got = marconi.generate(
        np.random.default_rng(seed), jobs=jobs, load=load, users=users, nodes=nodes, drift=drift, spread=spread
    )
    assert len(got) == jobs
    assert (np.diff(got.submit_s) >= 0).all()
    assert got.submit_s.min() >= 0
    assert (got.submit_s % 1 == 0).all()
    assert (got.runtime_s % 1 == 0).all()
    assert (got.runtime_s >= 60).all()
    assert (got.runtime_s <= got.walltime_s).all()
    assert (got.nodes <= max(nodes, 1)).all()
    assert got.user.codes.min() >= 0
    assert got.user.codes.max() < users == len(got.user.names)
    owner = np.array([name.split("a")[0] for name in got.app.names])
    assert (owner[got.app.codes] == np.array(got.user.names)[got.user.codes]).all()
    assert got.mean_power_w is not None
    assert got.max_power_w is not None
    assert (got.max_power_w >= got.mean_power_w).all()
    assert got.max_power_w.max() <= 2100


def test_without_drift_and_spread_a_users_application_does_one_thing() -> None:
    still = marconi.generate(np.random.default_rng(6), jobs=4000, drift=0.0, spread=0.0)
    lively = marconi.generate(np.random.default_rng(6), jobs=4000, drift=1.0, spread=1.0)

    def within(jobs: Jobs) -> float:
        assert jobs.mean_power_w is not None
        groups = [jobs.mean_power_w[jobs.app.codes == a] for a in np.unique(jobs.app.codes)]
        return float(np.mean([g.std() / g.mean() for g in groups if len(g) > 5]))

    assert within(still) < 1e-9
    assert within(lively) > 0.05


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"jobs": 5, "days": 1.0},
        {"jobs": 0},
        {"days": -1.0},
        {"days": float("nan")},
        {"jobs": 5, "load": 0.0},
        {"jobs": 5, "load": float("nan")},
        {"jobs": 5, "users": 0},
        {"jobs": 5, "nodes": 0},
        {"jobs": 5, "drift": -1.0},
    ],
)
def test_options_out_of_range_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        marconi.generate(np.random.default_rng(1), **more)
    assert caught.value.hint
