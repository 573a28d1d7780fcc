"""The EAR model against its equations by hand, the learning phase against coefficients that are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.model.ear import Coefficients, Signatures, at_frequency, project
from wattqueue.model.ear_learning import BenchmarkRuns, estimate_elsewhere, learn, time_coefficient

GHZ = 1e9
ABC_DEF: list[float] = [0.8, -0.5, 10.0, 1.1, 0.01, -0.02]


def two_speeds() -> Coefficients:
    """2 GHz reaches itself and 1 GHz; 1 GHz has nothing."""
    return Coefficients.of_pairs(
        [2 * GHZ, 2 * GHZ, 1 * GHZ],
        [2 * GHZ, 1 * GHZ, 1 * GHZ],
        [1, 1, 1],
        [[1.0, 0.0, 0.0, 1.0, 0.0, 0.0], ABC_DEF, [0.0] * 6],
    )


def test_equations_1_to_3_by_hand() -> None:
    app = Signatures.of([100.0], [300.0], [0.5], [20.0])
    seen = project(two_speeds(), app, 2 * GHZ)
    assert seen.frequency_hz.tolist() == [2 * GHZ, 1 * GHZ]
    assert seen.power_w[0].tolist() == [300.0, pytest.approx(0.8 * 300 - 0.5 * 20 + 10)]
    cpi = 1.1 * 0.5 + 0.01 * 20 - 0.02
    assert seen.cpi[0, 1] == pytest.approx(cpi)
    assert seen.time_s[0, 1] == pytest.approx(100 * cpi / 0.5 * 2 / 1)
    assert seen.energy_j[0, 1] == pytest.approx(seen.power_w[0, 1] * seen.time_s[0, 1])


def test_an_all_zero_row_is_no_coefficients_even_if_it_says_available() -> None:
    table = two_speeds()
    assert table.nominal_hz == 2 * GHZ
    assert not table.available[table.row(1 * GHZ)].any()
    assert len(table.targets_hz(1 * GHZ)) == 0
    with pytest.raises(InputError) as caught:
        at_frequency(table, Signatures.of([1.0], [1.0], [1.0], [1.0]), 1 * GHZ, 2 * GHZ)
    assert caught.value.where == "coefficients"
    assert caught.value.hint


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        two_speeds().row(3 * GHZ)
    assert caught.value.where == "coefficients"
    assert caught.value.hint
    with pytest.raises(InputError) as caught:
        Coefficients.of_pairs([GHZ, GHZ], [GHZ, GHZ], [1, 1], [ABC_DEF, ABC_DEF])
    assert caught.value.where == "coefficients"
    with pytest.raises(InputError) as caught:
        Coefficients.of_pairs([GHZ], [GHZ], [1], [[np.nan] * 6])
    assert caught.value.where == "coefficients"


def runs_from(frequencies: list[float], apps: int, rng: np.random.Generator) -> tuple[BenchmarkRuns, Coefficients]:
    """Benchmark runs that follow known coefficients exactly, from the highest frequency."""
    power, cpi, tpi = rng.uniform(200, 500, apps), rng.uniform(0.3, 5, apps), rng.uniform(0, 60, apps)
    low = [0.5, -0.3, -5.0, 0.8, 0.0, -0.01]
    high = [0.9, 0.0, 5.0, 1.0, 0.002, 0.0]
    pairs = [np.array([1.0, 0, 0, 1, 0, 0]), *(rng.uniform(low, high) for _ in frequencies[1:])]
    n = len(frequencies)
    truth = Coefficients.of_pairs([frequencies[0]] * n, frequencies, [1] * n, np.stack(pairs))
    seen = project(truth, Signatures(np.full(apps, 10.0), power, cpi, tpi), frequencies[0])
    name = np.repeat([f"bench{i}" for i in range(apps)], n)
    metrics = Signatures(seen.time_s.ravel(), seen.power_w.ravel(), seen.cpi.ravel(), np.repeat(tpi, n))
    return BenchmarkRuns(name, np.tile(frequencies, apps), metrics), truth


@given(st.integers(4, 12), st.integers(0, 10_000))
def test_learning_recovers_coefficients_that_the_runs_follow(apps: int, seed: int) -> None:
    frequencies = [2.4 * GHZ, 2.0 * GHZ, 1.2 * GHZ]
    runs, truth = runs_from(frequencies, apps, np.random.default_rng(seed))
    fit = learn(runs, worst_condition=1e6)
    assert fit.coefficients.available.all()
    np.testing.assert_allclose(fit.coefficients.values[0], truth.values[0], rtol=1e-5, atol=1e-6)
    assert (fit.rank == 3).all()
    assert (fit.benchmarks == apps).all()
    assert np.nanmax(fit.power_rms_w) < 1e-6
    assert np.nanmax(fit.cpi_rms) < 1e-8


def test_residuals_report_what_the_fit_leaves_over() -> None:
    runs, _ = runs_from([2 * GHZ, 1 * GHZ], 6, np.random.default_rng(5))
    noisy = runs.metrics.power_w + np.where(runs.frequency_hz == GHZ, np.tile([3.0, 3.0, -3.0, -3.0], 3), 0)
    fit = learn(
        BenchmarkRuns(
            runs.app, runs.frequency_hz, Signatures(runs.metrics.time_s, noisy, runs.metrics.cpi, runs.metrics.tpi)
        )
    )
    assert 0.3 < fit.power_rms_w[0, 1] < 3.0
    assert fit.power_rms_w[0, 0] < 1e-6


def test_collinear_benchmarks_are_refused() -> None:
    apps, f = ["a", "b", "c", "d"], [2 * GHZ] * 4
    same = np.array([1.0, 2.0, 3.0, 4.0])
    # TPI is a multiple of both power and CPI: one kind of benchmark four times over.
    collinear = Signatures(same * 10, same * 100, same, same * 7)
    with pytest.raises(InputError) as caught:
        learn(BenchmarkRuns(np.array(apps), np.array(f), collinear))
    assert caught.value.where == "learning phase"
    with pytest.raises(InputError) as caught:
        learn(BenchmarkRuns(np.array(["a", "b"]), np.array(f[:2]), Signatures(same[:2], same[:2], same[:2], same[:2])))
    assert caught.value.where == "learning phase"


def test_pairs_without_three_common_benchmarks_have_no_coefficients() -> None:
    runs, _ = runs_from([2 * GHZ, 1 * GHZ], 5, np.random.default_rng(1))
    keep = (runs.frequency_hz > 1.5 * GHZ) | np.isin(runs.app, ["bench0", "bench1"])
    m = runs.metrics
    fit = learn(
        BenchmarkRuns(
            runs.app[keep], runs.frequency_hz[keep], Signatures(*(c[keep] for c in (m.time_s, m.power_w, m.cpi, m.tpi)))
        )
    )
    assert fit.coefficients.available.tolist() == [[True, False], [False, False]]
    assert fit.benchmarks.tolist() == [[5, 2], [2, 2]]


def test_time_coefficient_and_new_hardware() -> None:
    assert time_coefficient(np.array([50.0]), np.array([60.0])).tolist() == [1.2]
    here = Signatures.of([50.0, 100.0, 80.0], [300.0, 400.0, 350.0], [0.5, 1.0, 0.7], [1.0, 2.0, 1.5])
    there = Signatures.of([60.0, 120.0, np.nan], [330.0, 440.0, np.nan], [0.5, 1.0, np.nan], [1.0, 2.0, np.nan])
    guess = estimate_elsewhere(here, there, Signatures.of([80.0], [350.0], [0.7], [1.5]))
    assert guess.time_s[0] == pytest.approx(96.0)
    assert guess.power_w[0] == pytest.approx(385.0)
    assert guess.cpi[0] == pytest.approx(0.7)
    nothing = Signatures.of([np.nan], [np.nan], [np.nan], [np.nan])
    with pytest.raises(InputError) as caught:
        estimate_elsewhere(nothing, nothing, nothing)
    assert caught.value.where == "metrics"
    assert caught.value.hint
