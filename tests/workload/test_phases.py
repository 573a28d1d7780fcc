"""Power patterns against the two real 32-node jobs and the ten real Marconi100 jobs."""

import csv
import gzip
import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from wattqueue.workload import phases

Floats = NDArray[np.float64]


@pytest.fixture(scope="module")
def bodies() -> Floats:
    """Levels after the ramp. Shape (shapes, classes, variants, samples)."""
    level = phases.library(np.random.default_rng(5)).level.astype(np.float64)
    shape = (phases.SHAPES, len(phases.SIZE_CLASSES), phases.VARIANTS, phases.LENGTH)
    return level.reshape(shape)[..., len(phases.RAMP) :]


def emmy(data_dir: Path) -> dict[str, Floats]:
    """Watts by job, (samples, nodes), NaN where missing, the first and last five minutes left out."""
    rows: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    with gzip.open(data_dir / "jobs" / "clustercockpit_emmy_2jobs_node_timeseries.csv.gz", "rt") as f:
        for r in csv.DictReader(f):
            if r["rapl_power"] and float(r["rapl_power"]) > 0:
                rows[r["job_id"]][r["host"]][int(r["t_s"])] = float(r["rapl_power"])
    out = {}
    for job, hosts in rows.items():
        times = sorted({t for series in hosts.values() for t in series})[5:-5]
        out[job] = np.array([[hosts[h].get(t, np.nan) for h in sorted(hosts)] for t in times])
    return out


def test_node_noise_is_that_of_the_real_jobs(data_dir: Path) -> None:
    for watts in emmy(data_dir).values():
        relative = watts / np.nanmean(watts, axis=0)
        assert float(np.nanstd(relative)) == pytest.approx(phases.node_noise_sd(), rel=0.03)
        dips = relative < 0.9
        seen = np.isfinite(watts)
        assert dips.sum() / seen.sum() == pytest.approx(phases.DIP_SHARE, abs=0.002)
        assert float(np.nanstd(relative[~dips])) == pytest.approx(phases.CALM_SD, rel=0.03)
        assert 1 - float(relative[dips].mean()) == pytest.approx(phases.DIP_DEPTH, rel=0.03)


def test_nodes_of_a_job_correlate_as_in_the_real_jobs(data_dir: Path) -> None:
    for watts in emmy(data_dir).values():
        relative = watts / np.nanmean(watts, axis=0)
        score = (relative - 1.0) / np.nanstd(relative, axis=0)
        pairs = itertools.combinations(score.T, 2)
        assert np.mean([np.nanmean(a * b) for a, b in pairs]) == pytest.approx(phases.NODE_CORRELATION, abs=0.01)


def test_a_steady_job_on_32_nodes_spreads_as_the_real_ones(data_dir: Path) -> None:
    made, _ = phases._noise(np.random.default_rng(1), 32)
    for watts in emmy(data_dir).values():
        total = np.nanmean(watts / np.nanmean(watts, axis=0), axis=1)
        assert float(made.std()) == pytest.approx(float(total.std()), rel=0.25)
        assert float(made.max()) == pytest.approx(float(total.max()) - 1, abs=0.03)


def test_phases_spread_and_peak_as_the_ten_marconi_jobs(data_dir: Path, bodies: Floats) -> None:
    with (data_dir / "jobs" / "marconi_job_power_agg_10rows.csv").open() as f:
        rows = [row for row in csv.DictReader(f) if row["total_power_std_watts"] != "..."]
    figures = np.array([[float(row[f"total_power_{name}_watts"]) for name in ("mean", "max", "std")] for row in rows])
    mean, high, sd = figures.T
    assert len(rows) == 10
    assert float(np.exp(np.log(sd / mean).mean())) == pytest.approx(phases.SPREAD_MEDIAN, rel=0.01)
    assert float(np.log(sd / mean).std(ddof=1)) == pytest.approx(phases.SPREAD_LOG_SD, rel=0.01)
    made = bodies.std(axis=-1)
    assert np.median(made[:, 0]) == pytest.approx(np.median(sd / mean), abs=0.03)
    assert np.quantile(made, 0.95) == pytest.approx((sd / mean).max(), abs=0.1)
    peak = (bodies.max(axis=-1) - 1.0) / made
    assert np.median(peak[:, 0]) == pytest.approx(np.median((high - mean) / sd), abs=0.4)
    assert bodies[:, 0].max(axis=-1).mean() == pytest.approx((high / mean).mean(), abs=0.12)


def test_levels_are_relative_to_their_mean_and_noise_averages_out(bodies: Floats) -> None:
    assert bodies.mean(axis=-1) == pytest.approx(1.0, abs=1e-5)
    assert bodies.min() > 0
    calmest = np.quantile(bodies.std(axis=-1), 0.05, axis=(0, 2))
    assert (np.diff(calmest) < 0).all()
    assert calmest[0] / calmest[-1] > 3


def test_nodes_of_a_job_differ_as_the_real_ones(data_dir: Path) -> None:
    for watts in emmy(data_dir).values():
        mean = np.nanmean(watts, axis=0)
        assert float(mean.std(ddof=1) / mean.mean()) == pytest.approx(phases.NODE_SPREAD, rel=0.06)


def test_the_highest_node_reads_above_the_mean_as_the_real_ones(data_dir: Path) -> None:
    """Of a steady job of 32 nodes: the median over time of highest over mean, and the highest reading over the mean."""
    rng, made, greatest = np.random.default_rng(1), [], []
    for _ in range(20):
        mean, shared = phases._noise(rng, 32)
        top = phases._highest_noise(rng, 32, mean, shared)
        assert (top >= mean).all()
        made.append(np.median((1 + top) / (1 + mean)))
        greatest.append((1 + top.max(axis=1)).mean())
    for watts in emmy(data_dir).values():
        real = np.median(np.nanmax(watts, axis=1) / np.nanmean(watts, axis=1))
        assert np.mean(made) == pytest.approx(real, abs=0.015)
        assert np.mean(greatest) == pytest.approx(np.nanmax(watts) / np.nanmean(watts), abs=0.03)


def test_a_single_node_is_its_own_highest() -> None:
    shelf = phases.library(np.random.default_rng(5))
    shape = (phases.SHAPES, len(phases.SIZE_CLASSES), phases.VARIANTS, phases.LENGTH)
    level, highest = shelf.level.reshape(shape), shelf.highest.reshape(shape)
    assert (highest >= level).all()
    assert (highest == level)[:, 0].all()
    assert not (highest == level)[:, 1:, :, len(phases.RAMP) :].all(axis=-1).any()


def test_a_pattern_knows_shape_class_and_variant() -> None:
    shelf = phases.library(np.random.default_rng(2))
    got = shelf.pattern(
        np.array([0, 0, 1, 1]), np.array([1, 980, 3, 32], np.int32), np.array([0, phases.VARIANTS - 1, 0, 1])
    )
    each = len(phases.SIZE_CLASSES) * phases.VARIANTS
    assert got.tolist() == [0, each - 1, each + phases.VARIANTS, 2 * each - phases.VARIANTS + 1]
    assert shelf.level.shape == (phases.SHAPES * each, phases.LENGTH)
    assert shelf.level[:, : len(phases.RAMP)] == pytest.approx(np.tile(phases.RAMP, (phases.SHAPES * each, 1)))
