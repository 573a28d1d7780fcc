"""The figures of a run that is worked out by hand, and the Gantt grid against a naive twin."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.cases import by_hand, generated
from wattqueue.model.signals import Cap
from wattqueue.report.figures import gantt, power, prediction, queue, users, waiting
from wattqueue.report.run import RunData

# Watts of by_hand over time, whole machine: idle 800 W (6 x 100 + 4 x 50).
# 1000: 4 x 300 + 2 x 100 + 4 x 50 = 1600; 1010: 1600 - 3 x 50 + 3 x 200 = 2050;
# 1100: 5 x 400 + 1 x 100 + 3 x 200 + 1 x 50 = 2750; 1160: 6 x 100 + 600 + 50 = 1250 to 1210.
WATTS = [1600.0, 2050.0, 2750.0, 1250.0]
STEPS = [0.0, 10.0, 100.0, 160.0]


def test_power_is_the_step_series_itself_where_steps_are_few() -> None:
    figure = power.figure(by_hand())
    assert figure.columns["time_s"].tolist() == STEPS
    for name in ("power_min_w", "power_mean_w", "power_max_w"):
        np.testing.assert_allclose(figure.columns[name], WATTS)
    np.testing.assert_allclose(figure.columns["other_mean_w"], [400, 250, 150, 650])
    assert "cap_w" not in figure.columns
    assert figure.x.label == "time since first submission (min)"
    assert figure.y.label == "power (kW)"


def test_excess_over_a_moving_cap_is_exact() -> None:
    cap = Cap(np.array([-np.inf, 1050.0, 1150.0]), np.array([2000.0, 2500.0, np.inf]))
    run = by_hand(cap)
    over = run.kept
    # 2050 > 2000 from 1010 to 1050; 2750 > 2500 from 1100 to 1150.
    assert over.cap_over_s == 90.0
    assert over.cap_over_j == 40 * 50 + 50 * 250
    assert over.cap_overshoot_w == 250.0
    figure = power.figure(run)
    assert figure.columns["time_s"].tolist() == [0, 10, 50, 100, 150, 160]
    assert figure.columns["excess_w"].tolist() == [0, 50, 0, 250, 0, 0]
    assert figure.columns["cap_w"].tolist() == [2000, 2000, 2500, 2500, np.inf, np.inf]
    assert all(value in figure.says for value in ("90 s", "250 W"))
    assert "2 kW to 2.5 kW" in figure.says


def test_a_cap_that_held_is_said_to_have_held() -> None:
    kept = power.figure(by_hand(Cap.constant(2750.0)))
    assert "2.75 kW" in kept.says
    assert not kept.columns["excess_w"].any()


def test_queue_counts_jobs_submitted_and_not_started() -> None:
    figure = queue.figure(by_hand())
    assert figure.columns["time_s"].tolist() == STEPS
    assert figure.columns["waiting_mean"].tolist() == [0, 1, 0, 0]  # the rejected job never waits
    np.testing.assert_allclose(figure.columns["utilization"], [0.4, 0.7, 0.8, 0.3])
    # One job from 1010 to 1100 in 210 s; busy 4 x 10 + 7 x 90 + 8 x 60 + 3 x 50 = 1300 of 2100 unit-seconds.
    assert all(value in figure.says for value in ("1 job", "0.429", "61.9 %", "10 nodes"))


def test_waits_and_slowdowns_are_those_of_jobs_that_ran() -> None:
    run = by_hand()
    assert run.wait_s.tolist() == [0, 0, 90]
    np.testing.assert_allclose(run.bounded_slowdown, [1, 1, 2.5])
    figure = waiting.wait(run)
    share, wait = figure.columns["share"], figure.columns["wait_s"]
    assert wait[0] == 0.0
    assert wait[-1] == 90.0
    assert share[np.flatnonzero(wait == 90.0)[0] - 1] <= 2 / 3
    assert re.findall(r"[\d.]+ (?:%|s\b)", figure.says) == ["66.7 %", "81 s", "88.2 s", "30 s"]
    assert re.findall(r"\d+\.\d+", waiting.slowdown(run).says)[-2:] == ["2.35", "1.5"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0, 1))
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    got = waiting.quantiles(np.array(values), np.array([share]))[0]
    at_or_below = [v for v in sorted(values) if sum(w <= v for w in values) >= share * len(values) - 1e-9]
    assert got == at_or_below[0]


def test_prediction_says_error_and_direction() -> None:
    figure = prediction.figure(by_hand())
    assert figure is not None
    assert figure.columns["jobs"].sum() == 3
    assert "10 %" in figure.says


def test_energy_by_user_adds_up() -> None:
    figure = users.figure(by_hand())
    assert figure is not None
    assert figure.columns["name"].tolist() == ["ann", "bob"]
    assert figure.columns["energy_j"].tolist() == [4 * 100 * 300 + 5 * 60 * 400, 3 * 200 * 200]
    assert figure.columns["jobs"].tolist() == [2, 1]
    assert figure.columns["wait_s"].tolist() == [45.0, 0.0]


def test_gantt_of_few_jobs_has_a_rectangle_a_block() -> None:
    figure = gantt.figure(by_hand())
    assert figure.columns["job_id"].tolist() == [1, 2, 3, 3]
    assert figure.columns["unit_first"].tolist() == [0, 6, 0, 5]
    assert figure.columns["unit_last"].tolist() == [3, 8, 3, 5]
    assert figure.columns["start_s"].tolist() == [0, 10, 100, 100]
    assert figure.columns["frequency_hz"].tolist() == [2.4e9, 2.0e9, 1.2e9, 1.2e9]
    assert figure.extra["users"] == ["ann", "bob"]
    assert figure.columns["user"].tolist() == [1, 2, 1, 1]
    assert figure.extra["partitions"] == (("fast", 6), ("plain", 4))


def test_watts_that_differ_by_rounding_alone_are_no_colouring() -> None:
    run = by_hand()
    run = replace(run, unit_w=np.linspace(300.0, 300.0 * (1.0 + 1e-13), len(run.jobs), dtype=np.float64))
    figure = gantt.figure(run)
    assert figure.extra["power"] is None
    assert re.findall(r"\d+ W", figure.says) == ["300 W"]


def naive_grid(run: RunData, rows: int, columns: int) -> dict[str, np.ndarray]:
    """Every cell looks at every rectangle."""
    what = gantt.rectangles(run)
    rank = gantt.user_rank(run, gantt.top_users(run))[what.job]
    wide, tall = (run.last_s - run.first_s) / columns, -(-run.units // rows)
    rows = -(-run.units // tall)
    busy, watts = np.zeros((rows, columns)), np.zeros((rows, columns))
    held = np.zeros((gantt.USERS + 1, rows, columns))
    for r in range(rows):
        units = np.minimum(what.high + 1, min((r + 1) * tall, run.units)) - np.maximum(what.low, r * tall)
        for c in range(columns):
            left = run.first_s + c * wide
            area = np.maximum(units, 0) * np.maximum(
                np.minimum(run.end_s[what.job], left + wide) - np.maximum(run.start_s[what.job], left), 0.0
            )
            busy[r, c] = area.sum() / (wide * (min((r + 1) * tall, run.units) - r * tall))
            watts[r, c] = (area * run.unit_w[what.job]).sum() / area.sum() if area.sum() > 0 else np.nan
            held[:, r, c] = np.bincount(rank, area, minlength=gantt.USERS + 1)
    return {"busy": busy, "unit_w": watts, "held": held}


@pytest.mark.parametrize(("units", "rows"), [(12, 64), (13, 5), (40, 8)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_grid_agrees_with_looking_at_every_cell(units: int, rows: int, seed: int) -> None:
    run = generated(60, units, seed)
    grid = gantt.grid(run, gantt.rectangles(run), gantt.top_users(run), rows, 17)
    naive = naive_grid(run, rows, 17)
    np.testing.assert_allclose(grid.busy, naive["busy"], atol=1e-9)
    there = naive["busy"] > 1e-6
    np.testing.assert_allclose(grid.unit_w[there], naive["unit_w"][there], rtol=1e-6)
    assert grid.user is not None
    best = np.take_along_axis(naive["held"], grid.user[None].astype(int), axis=0)[0]
    np.testing.assert_allclose(best[there], naive["held"].max(axis=0)[there], rtol=1e-6)


def test_grid_conserves_unit_seconds() -> None:
    run = generated(800, 100)
    grid = gantt.grid(run, gantt.rectangles(run), gantt.top_users(run), 7, 50)
    units = np.array([15] * 6 + [10])
    held = (grid.busy.sum(axis=1) * units).sum() * grid.column_s
    np.testing.assert_allclose(held, (run.jobs.nodes * run.jobs.runtime_s).sum(), rtol=1e-9)
    assert grid.frequency_hz is not None
    known = grid.frequency_hz[grid.busy > 1e-6]
    assert known.min() >= 2.0e9 - 1
    assert known.max() <= 2.6e9 + 1


def test_many_jobs_become_a_grid_with_a_table_of_its_rows() -> None:
    run = generated(gantt.EXACT_JOBS + 1, 24)
    figure = gantt.figure(run)
    assert figure.extra["grid"].busy.shape == (24, gantt.COLUMNS)
    assert figure.columns["unit_first"].tolist() == list(range(24))
    assert "1 node" in figure.says
    busy = (run.jobs.nodes * run.jobs.runtime_s).sum() / (24 * (run.last_s - run.first_s))
    np.testing.assert_allclose(figure.columns["busy"].mean(), busy, rtol=1e-9)
