"""The generator has the averages of the paper's text, and the form of the one published trace."""

from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue_studies.eamc.cirne import DAILY_AMPLITUDE, DAY_S, LOG_DEVIATION, CirneModel, arrivals, generate


@pytest.mark.parametrize("seed", range(5))
def test_averages_of_the_text(seed: int) -> None:
    jobs = generate(CirneModel(), np.random.default_rng(seed))
    assert len(jobs) == 5_000
    assert jobs.nodes.mean() == pytest.approx(18.29, rel=0.002)
    assert jobs.runtime_s.mean() / 3600 == pytest.approx(3.65, rel=0.005)
    assert jobs.nodes.max() == 128
    assert set(np.unique(jobs.nodes)) <= {1, 2, 4, 8, 16, 32, 64, 128}
    assert (jobs.walltime_s >= jobs.runtime_s).all()
    assert jobs.origin == "generated"
    # Anti-correlated: well under what independent sizes and durations would need.
    assert 0.5 < (jobs.nodes * jobs.runtime_s).mean() / (18.29 * 3.65 * 3600) < 0.7


@pytest.mark.parametrize(("share", "wanted"), [(None, 625), (0.33, 1650), (0.5, 2500)])
def test_shares_of_stream(share: float | None, wanted: int) -> None:
    jobs = generate(CirneModel(), np.random.default_rng(1), share)
    count = np.bincount(jobs.app.codes, minlength=8)
    assert count[7] == wanted
    assert np.ptp(count[:7]) <= 1


def test_the_same_seed_gives_the_same_workload_and_another_one_another() -> None:
    a, b, c = (generate(CirneModel(), np.random.default_rng(s)) for s in (3, 3, 4))
    for column in ("submit_s", "nodes", "runtime_s", "walltime_s"):
        assert (getattr(a, column) == getattr(b, column)).all()
    assert (a.runtime_s != c.runtime_s).any()


def test_arrivals_follow_the_daily_cycle_to_the_last_second() -> None:
    times = arrivals(24_000, 10 * DAY_S, np.random.default_rng(0))
    assert times[0] == 0
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= 10 * DAY_S
    assert times[-1] > 9.99 * DAY_S
    wave = np.exp(2j * np.pi * (times - 14 * 3600) / DAY_S).mean()
    assert wave.real == pytest.approx(DAILY_AMPLITUDE / 2, abs=0.01)


def test_form_of_the_published_trace(data_dir: Path) -> None:
    """Sizes are powers of two, log-durations deviate by 1.41, arrivals have a cycle of amplitude 0.42."""
    rows = [
        line.split(";") for line in (data_dir / "eamc/cirne.10n.maxjob8n.anl.200.ascii.sim.txt").read_text().split()
    ]
    submit, duration, _, nodes = np.array([row[2:6] for row in rows], float).T
    assert set(nodes) == {1, 2, 4, 8}
    assert np.log(duration).std() == pytest.approx(LOG_DEVIATION, abs=0.005)
    assert duration.max() / duration.mean() == pytest.approx(10.5, abs=0.05)
    waves = [abs(np.exp(2j * np.pi * submit / period).mean()) for period in np.arange(20, 30, 0.1)]
    assert 2 * max(waves) == pytest.approx(DAILY_AMPLITUDE, abs=0.01)


def test_users_without_a_requested_time_get_the_default_and_nobody_less_than_his_run_time() -> None:
    model = CirneModel(default_share=0.5, default_walltime_s=7_200.0)
    jobs = generate(model, np.random.default_rng(2))
    default = jobs.walltime_s == 7_200.0
    assert 0.2 < default.mean() < 0.5
    assert (jobs.walltime_s >= jobs.runtime_s).all()


def test_a_million_jobs_are_generated_vectorised() -> None:
    jobs = generate(CirneModel(jobs=1_000_000, span_s=60 * DAY_S), np.random.default_rng(0))
    assert len(jobs) == 1_000_000
    assert jobs.nodes.mean() == pytest.approx(18.29, rel=1e-3)


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"mean_nodes": 200.0}, {"correlation": 1.0}, {"lowest_accuracy": 0.0}])
def test_figures_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        CirneModel(**wrong)  # type: ignore[arg-type]
