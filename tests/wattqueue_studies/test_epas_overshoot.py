"""Seconds above the budget under redistributed caps: the bound on random and on recorded demand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.formats.series import read_steps
from wattqueue_studies.clustercockpit import read_node_series
from wattqueue_studies.epas.overshoot import Demand, node_demand, overshoot_table, ramp_table, replay, wide_job


def test_a_ramp_by_hand() -> None:
    """Two sockets of 100 W each rise to 200 W at 8 s; the budget of 300 W is exceeded until the hardware settles.

    Their caps, by what they drew before, fall 0.25 s later, and the hardware needs its second from then on.
    """
    demand = Demand("ramp", 8.0, np.array([[100.0, 100.0], [200.0, 200.0]]))
    found = replay(demand, 300.0, settle_s=1.0)
    np.testing.assert_allclose(found.over_s, [0.0, 0.0, 1.25, 0.0])
    np.testing.assert_allclose(found.free_s, [0.0, 0.0, 4.0, 4.0])
    np.testing.assert_allclose(found.bound_s, [1.0, 1.0, 2.0, 1.0])
    assert found.excess_w == pytest.approx(100.0)
    assert replay(demand, 400.0, settle_s=1.0).over_s.sum() == 0.0


def test_a_guard_bounds_the_height_of_a_rise_within_it() -> None:
    """Two sockets under 95 W each; one rises from 100 to 130 W, which is seen whole until the hardware settles."""
    demand = Demand("one rises", 8.0, np.array([[100.0, 100.0], [100.0, 130.0]]))
    assert replay(demand, 190.0, settle_s=1.0).excess_w == pytest.approx(95 + 130 - 190)
    guarded = replay(demand, 190.0, settle_s=1.0, guard=0.4)  # caps of 57 W: 57 + 130 W are within the budget
    assert guarded.over_s.sum() == guarded.excess_w == 0.0


def test_ramps_as_short_as_the_hardware_settles_leave_no_bound() -> None:
    """All of 40 moves are rises above the caps: 4 s have room for (4 / ramp + 1) settling times, at most all of it."""
    watts = np.repeat(np.linspace(100.0, 200.0, 41), 2).reshape(41, 2)
    table, figures = ramp_table(Demand("rises", 15.0, watts))
    found = {(one["ramp_s"], one["settle_s"]): one for one in figures}
    assert len(table.rows) == len(figures) == 12
    assert found[15.0, 1.0]["bound_percent"] == pytest.approx(100 * (1 / 15 + 1 / 4))
    assert found[0.5, 1.0]["bound_percent"] == 100.0
    assert found[0.5, 1.0]["whole_periods_percent"] > 50.0
    assert found[15.0, 0.25]["whole_periods_percent"] == 0.0
    shares = [found[ramp, 1.0]["above_percent"][0] for ramp in (15.0, 4.0, 2.0, 1.0)]
    assert shares == sorted(shares)
    assert all(one["above_percent"][0] <= one["bound_percent"] for one in figures)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    sockets=st.integers(1, 6),
    sample_s=st.sampled_from([1.0, 1.5, 7.0, 15.0]),
    settle_s=st.sampled_from([0.25, 1.0, 1.5]),
    share=st.floats(0.3, 1.1),
)
def test_every_period_is_within_the_bound(
    seed: int, sockets: int, sample_s: float, settle_s: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    demand = Demand("random", sample_s, rng.uniform(20.0, 120.0, (8, sockets)))
    found = replay(demand, share * float(demand.watts.sum(axis=1).max()), settle_s)
    assert (found.over_s <= found.bound_s + 1e-9).all()


@pytest.mark.compiled  # thousands of steps
def test_real_ramps_and_profiles_are_within_the_bound(data_dir: Path) -> None:
    """Frontier under one wide job, and two hours of two jobs on Emmy."""
    nodes = read_node_series(data_dir / "jobs" / "clustercockpit_emmy_2jobs_node_timeseries.csv.gz")
    ramps = read_steps(data_dir / "power" / "ramps" / "frontier_hpl_15s.csv", "datetime", "sum vals")
    spread = np.array([one.watts.mean() for one in nodes])
    emmy = node_demand("Emmy", nodes, 60.0)
    demands = [
        wide_job("Frontier", 15.0, ramps.value[:200], spread),
        Demand("Emmy", 60.0, emmy.watts[:20]),
    ]
    table, figures = overshoot_table(demands)
    assert len(figures) == len(table.rows) == 12
    assert all(one["within"] for one in figures)
    wide = [one for one in figures if one["demand"] == "Frontier"]
    assert all(one["over_s"] > 0.0 and one["free_s"] > 10 * one["over_s"] for one in wide)
