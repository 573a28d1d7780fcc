"""Readings of a sensor: means of samples, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.power_sensor import MONTBLANC, RAPL, PowerSensor
from wattqueue.model.steps import Steps

RISE = Steps(np.array([0.0, 6.0]), np.array([100.0, 200.0]))
"""100 W, from 6 s on 200 W."""


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def test_rapl_reads_the_mean_of_each_period() -> None:
    found = RAPL.read(RISE, 0.0, 13.0, rng())
    assert found.time_s.tolist() == [4.0, 8.0, 12.0]
    assert found.power_w.tolist() == [100.0, 150.0, 200.0]
    assert found.fresh_s.tolist() == [4.0, 8.0, 12.0]
    np.testing.assert_array_equal(found.latest(np.array([3.9, 4.0, 11.0, 99.0])), [np.nan, 100.0, 150.0, 200.0])


def test_a_reading_averages_the_samples_of_its_time() -> None:
    """Samples of 2 s: 100 100 100 200 200 W. Read each 3 s, averaged over 4 s: two samples at most."""
    found = PowerSensor(sample_s=2.0, poll_s=3.0, average_s=4.0).read(RISE, 0.0, 10.0, rng())
    assert found.time_s.tolist() == [3.0, 6.0, 9.0]
    # At 3 s one sample has ended. At 6 s those count that ended at 4 and 6 s; at 9 s those of 6 and 8 s.
    assert found.power_w.tolist() == [100.0, 100.0, 150.0]
    assert found.fresh_s.tolist() == [2.0, 6.0, 8.0]


def test_montblanc_polls_more_often_than_its_sensor_measures() -> None:
    found = MONTBLANC.read(RISE, 0.0, 20.0, rng())
    assert found.time_s[0] == 1.5
    assert (np.diff(found.time_s) == 0.5).all()
    assert ((found.time_s - found.fresh_s) < 1.12).all()
    assert len(np.unique(found.fresh_s)) == 17
    assert found.power_w[-1] == 200.0
    assert 100.0 < found.power_w[found.time_s == 8.0][0] < 200.0


def test_noise_and_loss_have_their_shares() -> None:
    flat = Steps(np.zeros(1), np.full(1, 100.0))
    found = PowerSensor(1.0, 1.0, noise=0.05, loss=0.2).read(flat, 0.0, 20_000.0, rng())
    there = found.power_w[~np.isnan(found.power_w)]
    assert np.isnan(found.power_w).mean() == pytest.approx(0.2, abs=0.01)
    assert there.mean() == pytest.approx(100.0, abs=0.2)
    assert there.std() == pytest.approx(5.0, rel=0.05)


def test_a_time_shorter_than_a_sample_has_no_reading() -> None:
    assert len(RAPL.read(RISE, 0.0, 3.0, rng()).time_s) == 0
    assert np.isnan(RAPL.read(RISE, 0.0, 3.0, rng()).latest(np.array([2.0]))).all()


@pytest.mark.parametrize("figures", [(0.0, 1.0), (1.0, -1.0), (1.0, 1.0, -1.0), (1.0, 1.0, 0.0, 0.0, 1.5)])
def test_figures_out_of_range_are_refused(figures: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="power sensor"):
        PowerSensor(*figures)
