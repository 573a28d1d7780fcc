"""The generated Fugaku: calibration against F-DATA's published sample, load, determinism, memory."""

import hashlib
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.workload import fugaku


@pytest.fixture(scope="module")
def trace() -> Jobs:
    return fugaku.generate(np.random.default_rng(3), jobs=1_200_000)


def digest(jobs: Jobs) -> str:
    assert jobs.mean_power_w is not None
    assert jobs.max_power_w is not None
    columns = (jobs.submit_s, jobs.nodes, jobs.walltime_s, jobs.runtime_s, jobs.user.codes, jobs.mean_power_w)
    return hashlib.sha256(b"".join(c.tobytes() for c in (*columns, jobs.max_power_w))).hexdigest()


def test_menus_have_the_published_moments() -> None:
    for menu, mean, sd, quartiles in (
        (fugaku.SIZE, 37.83, 221.5, [1, 1, 12, 6912]),
        (fugaku.WALLTIME_S, 32012.7, 59878.7, [3600, 5400, 21600, 518400]),
    ):
        assert menu.mean() == pytest.approx(mean, rel=0.002)
        assert np.sqrt(menu.mass @ menu.x**2 - menu.mean() ** 2) == pytest.approx(sd, rel=0.002)
        assert menu.value(np.array([0.25, 0.5, 0.75, 1.0])).tolist() == quartiles


def test_marginals_are_fdatas(trace: Jobs) -> None:
    run = trace.runtime_s
    assert run.min() == 1
    assert run.max() == pytest.approx(167_331, rel=2e-3)
    for seconds, p in ((123, 0.25), (2084, 0.5), (8774, 0.75)):
        assert (run <= seconds).mean() == pytest.approx(p, abs=0.015)
    assert run.mean() == pytest.approx(11653, rel=0.08)
    assert run.std() == pytest.approx(25410, rel=0.08)
    assert np.quantile(trace.nodes, [0.25, 0.5, 0.75]).tolist() == [1, 1, 12]
    assert trace.nodes.mean() == pytest.approx(37.83, rel=0.05)
    assert np.quantile(trace.walltime_s, [0.25, 0.5, 0.75]).tolist() == [3600, 5400, 21600]
    assert trace.walltime_s.mean() == pytest.approx(32013, rel=0.03)


def test_watts_are_fdatas(trace: Jobs) -> None:
    assert trace.mean_power_w is not None
    assert trace.max_power_w is not None
    total, peak = trace.mean_power_w * trace.nodes, trace.max_power_w * trace.nodes
    assert np.quantile(total, [0.25, 0.5]) == pytest.approx([90.1, 114.1], rel=0.03)
    assert total.mean() == pytest.approx(3390.6, rel=0.1)
    assert np.median(peak) / np.median(total) == pytest.approx(117.1 / 114.1, abs=0.03)
    assert peak.mean() / total.mean() == pytest.approx(3621.8 / 3390.6, abs=0.02)
    assert trace.mean_power_w.min() >= fugaku.NODE_LEAST_W
    assert trace.max_power_w.max() <= fugaku.NODE_MAX_W


def test_the_natural_rate_and_load_are_fdatas(trace: Jobs) -> None:
    assert len(trace) / (trace.submit_s[-1] / 86400) == pytest.approx(24e6 / 1157, rel=0.01)
    load = float(trace.nodes @ trace.runtime_s) / (fugaku.NODES * trace.submit_s[-1])
    assert load == pytest.approx(0.67, abs=0.2)


@pytest.mark.parametrize("load", [0.3, 0.95])
def test_load_is_reached(load: float) -> None:
    jobs = fugaku.generate(np.random.default_rng(5), jobs=50_000, load=load)
    work = float(jobs.nodes @ jobs.runtime_s)
    span_s = work / (load * fugaku.NODES)
    assert 0.95 * span_s < jobs.submit_s[-1] <= span_s


def test_equal_rngs_give_equal_bytes() -> None:
    once, again, other = (digest(fugaku.generate(np.random.default_rng(s), jobs=20_000)) for s in (1, 1, 2))
    assert once == again != other


@settings(max_examples=25)
@given(st.integers(0, 2**40), st.integers(1, 3000), st.integers(1, 200_000), st.integers(1, 3000))
def test_any_parameters_give_a_valid_workload(seed: int, jobs: int, nodes: int, users: int) -> None:
    got = fugaku.generate(np.random.default_rng(seed), jobs=jobs, nodes=nodes, users=users)
    assert len(got) == jobs
    assert got.origin == "generated"
    assert (np.diff(got.submit_s) >= 0).all()
    assert got.submit_s[0] >= 0
    assert (got.runtime_s >= 1).all()
    assert (got.runtime_s <= got.walltime_s).all()
    assert (got.nodes <= nodes).all()
    assert got.user.codes.max() < users
    assert got.mean_power_w is not None
    assert got.max_power_w is not None
    assert (got.max_power_w >= got.mean_power_w).all()


def test_memory_is_that_of_the_columns_and_one_chunk() -> None:
    tracemalloc.start()
    jobs = fugaku.generate(np.random.default_rng(1), jobs=3 * fugaku.CHUNK)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    per_job = 8 + 8 + 4 + 8 + 8 + 4 + 4 + 8 + 8
    assert peak < len(jobs) * per_job + 150 * fugaku.CHUNK + 5e6


@pytest.mark.parametrize("more", [{"jobs": 0}, {"nodes": 0}, {"users": 0}, {"load": 0.0}, {"load": float("inf")}])
def test_options_out_of_range_are_refused(more: dict[str, int]) -> None:
    with pytest.raises(InputError) as caught:
        fugaku.generate(np.random.default_rng(1), **more)
    assert caught.value.hint
