"""Metrics against figures computed by hand, and against a plain loop on random runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import (
    CapFigures,
    cap_figures,
    energies,
    job_figures,
    mape_percent,
    metrics,
    span,
    waits_so_far,
)
from wattqueue.model.quantities import quantity
from wattqueue.model.schedule import PowerSeries, Schedule, State
from wattqueue.model.signals import Cap, RiseScale, capped

NAN = float("nan")


def schedule(
    state: list[int], start: list[float], end: list[float], energy: list[float], predicted: list[float]
) -> Schedule:
    n = len(state)
    return Schedule(
        np.array(state, np.int8), np.zeros(n, np.int8), np.array(start, np.float64), np.array(end, np.float64),
        np.zeros(n, np.int16), np.array(energy, np.float64), np.array(predicted, np.float64),
        np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32),
    )  # fmt: skip


def series(*rows: tuple[float, float, float, float, int]) -> PowerSeries:
    time, jobs, other, idle, busy = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    return PowerSeries(time, jobs, other, idle, busy.astype(np.int32))


def machine(scope: str = "machine") -> Machine:
    return Machine("m", (Partition("p", 4, idle_w=10, max_w=100),), scope)  # type: ignore[arg-type]


# Four units of 10 W idle. Job 1 takes 2 units at 50 W from 0 to 100, job 2 waits 90 s for one at 100 W from
# 100 to 105, job 3 is killed after 20 s (2 units, 50 W, 100 to 120), job 4 is rejected, job 5 never starts.
JOBS = Jobs.build([0, 10, 10, 20, 30], [2, 1, 2, 9, 4], [100, 5, 50, 1, 1], walltime_s=[200, 10, 20, 1, 1])
SCHEDULE = schedule(
    [State.COMPLETED, State.COMPLETED, State.KILLED, State.REJECTED, State.NOT_STARTED],
    [0, 100, 100, NAN, NAN],
    [100, 105, 120, NAN, NAN],
    [10_000, 500, 2_000, 0, 0],
    [150, 100, 80, NAN, NAN],
)
POWER = series((0, 100, 20, 20, 2), (100, 200, 10, 30, 3), (105, 100, 20, 20, 2), (120, 0, 40, 0, 0))


def test_by_hand() -> None:
    found = metrics(JOBS, SCHEDULE, POWER, machine(), Cap.constant(180), rows_unusable=7)
    assert found["jobs"] == 5
    assert found["jobs_completed"] == 2
    assert found["jobs_killed"] == 1
    assert found["jobs_never_ran"] == 2
    assert found["rows_unusable"] == 7
    assert found["wait_s_mean"] == 60  # 0, 90, 90
    assert found["wait_s_median"] == 90
    assert found["wait_s_p95"] == 90
    # The rejected job never waits; the one that never ran has waited 90 s when the run ends.
    assert found["all_wait_s_mean"] == (0 + 90 + 90 + 90) / 4
    assert found["node_wait_s_mean"] == (2 * 0 + 1 * 90 + 2 * 90) / 5
    assert found["energy_per_node_h_j"] == pytest.approx(14_850 * 3600 / (2 * 100 + 1 * 5 + 2 * 20))
    assert found["turnaround_s_mean"] == pytest.approx((100 + 95 + 110) / 3)
    assert found["turnaround_s_median"] == 100
    assert found["turnaround_s_p99"] == pytest.approx(100 + 0.98 * 10)
    assert found["bounded_slowdown_mean"] == pytest.approx((1 + 9.5 + 5.5) / 3)  # 95/max(5, 10), 110/20
    assert found["bounded_slowdown_p95"] == pytest.approx(5.5 + 0.9 * 4)
    assert found["makespan_s"] == 120
    assert found["utilization"] == pytest.approx((2 * 100 + 3 * 5 + 2 * 15) / (4 * 120))
    assert found["job_energy_j"] == 10_000 + 1_000 + 1_500
    assert found["machine_energy_j"] == 12_500 + 2_000 + 50 + 300
    assert found["edp_js"] == 14_850 * 120
    assert found["power_utilization"] == pytest.approx(14_850 / (180 * 120))
    assert found["cap_overshoot_w"] == 30
    assert found["cap_over_s"] == 5
    assert found["cap_over_j"] == 150
    assert found["mape_percent"] == pytest.approx(100 * (50 / 100 + 0 + 20 / 100) / 3)


@pytest.mark.parametrize(("scope", "used"), [("machine", 14_850), ("dynamic", 12_500 - 2_450), ("jobs", 12_500)])
def test_the_scope_of_the_cap(scope: str, used: float) -> None:
    found = metrics(JOBS, SCHEDULE, POWER, machine(scope), Cap.constant(1000))
    assert found["power_utilization"] == pytest.approx(used / 120_000)
    assert found["cap_overshoot_w"] == found["cap_over_s"] == found["cap_over_j"] == 0
    assert found["machine_energy_j"] == 14_850


def test_a_cap_that_changes_between_the_steps() -> None:
    # 0-50 no cap; 50-103: 100 W; 103-110: 150 W; from 110: 500 W
    cap = Cap(np.array([-5.0, 50, 103, 110]), np.array([np.inf, 100, 150, 500]))
    found = cap_figures(POWER, machine(), cap, 0, 120)
    # excess: 50-100 20 W, 100-103 110 W, 103-105 60 W, then 120 W under 150 and 500
    assert found.cap_overshoot_w == 110
    assert found.cap_over_s == 55
    assert found.cap_over_j == 50 * 20 + 3 * 110 + 2 * 60
    used = 50 * 120 + 5 * 210 + 15 * 120
    assert found.power_utilization == pytest.approx(used / (53 * 100 + 7 * 150 + 10 * 500))


def test_what_is_above_a_load_target_is_not_above_the_cap() -> None:
    # 110 W to 50 s; then 20 W more each 20 s, up to the cap at 120 s. Power: 120 W, and 210 W from 100 to 105 s.
    target = LoadTargets.of(LoadTarget(0.0, 50.0, 110.0, ramp_w_per_s=1.0))
    limit = capped(Cap.constant(180), target, RiseScale(400.0, 20.0))
    found = metrics(JOBS, SCHEDULE, POWER, machine(), limit)
    assert (found["target_overshoot_w"], found["target_over_s"], found["target_over_j"]) == (60, 75, 1_000)
    plain = metrics(JOBS, SCHEDULE, POWER, machine(), Cap.constant(180))
    assert {k: v for k, v in found.items() if v != plain[k]}.keys() == {k for k in found if k.startswith("target_")}
    alone = metrics(JOBS, SCHEDULE, POWER, machine(), capped(Cap.none(), target, RiseScale()))
    assert (alone["cap_over_s"], alone["power_utilization"], alone["target_over_s"]) == (None, None, 50)


def test_a_job_that_never_ran_waits_at_least_up_to_the_last_submission() -> None:
    jobs = Jobs.build([0, 0, 500], [1, 1, 1], [100, 5, 5])
    ran = schedule([State.COMPLETED, State.NOT_STARTED, State.NOT_STARTED], [0, NAN, NAN], [100, NAN, NAN], [1, 0, 0],
                   [1, NAN, NAN])  # fmt: skip
    assert waits_so_far(jobs, ran.state, ran.start_s, ran.end_s).tolist() == [0, 500, 0]


def test_no_cap_no_figures() -> None:
    for cap in (Cap.none(), Cap(np.array([0.0, 500]), np.array([np.inf, 5]))):
        assert cap_figures(POWER, machine(), cap, 0, 120) == CapFigures()
    assert cap_figures(POWER, machine(), Cap.constant(0), 0, 120).power_utilization is None
    within = cap_figures(series((0, 100.0000005, 0, 0, 1), (9, 0, 0, 0, 0)), machine(), Cap.constant(100), 0, 9)
    assert (within.cap_overshoot_w, within.cap_over_s) == (0, 0)


def test_before_the_first_row_the_machine_is_idle() -> None:
    late = series((50, 100, 20, 20, 2), (100, 0, 40, 0, 0))
    assert energies(late, machine(), 0, 100) == {"jobs_j": 5000, "machine_j": 6000 + 2000, "busy_unit_s": 100}
    found = cap_figures(late, machine(), Cap.constant(39), 0, 100)
    assert found.cap_over_j == 50 * 1 + 50 * 81
    assert energies(late, machine(), 0, 20) == {"jobs_j": 0, "machine_j": 800, "busy_unit_s": 0}
    assert energies(late, machine(), 60, 70) == {"jobs_j": 1000, "machine_j": 1200, "busy_unit_s": 20}


def test_nothing_ran() -> None:
    none = schedule([State.REJECTED], [NAN], [NAN], [0], [NAN])
    found = metrics(Jobs.build([5], [9], [1]), none, series((5, 0, 40, 0, 0)), machine(), Cap.constant(50))
    assert found["makespan_s"] == found["machine_energy_j"] == found["edp_js"] == 0
    for name in ("utilization", "wait_s_mean", "wait_s_p99", "power_utilization", "cap_over_s", "mape_percent"):
        assert found[name] is None


def test_every_name_is_a_quantity() -> None:
    limit = capped(Cap.constant(180), LoadTargets.of(LoadTarget(0.0, 20.0, 170.0)), RiseScale())
    for name, value in metrics(JOBS, SCHEDULE, POWER, machine(), limit).items():
        found = quantity(name)
        assert value is not None
        assert found.range is not None
        assert value in found.range


def test_job_figures_keep_the_rows() -> None:
    found = job_figures(JOBS, SCHEDULE)
    np.testing.assert_array_equal(found.wait_s, [0, 90, 90, NAN, NAN])
    np.testing.assert_array_equal(found.run_s, [100, 5, 20, NAN, NAN])
    np.testing.assert_array_equal(found.turnaround_s, [100, 95, 110, NAN, NAN])
    np.testing.assert_array_equal(found.bounded_slowdown, [1, 9.5, 5.5, NAN, NAN])
    assert span(JOBS, SCHEDULE) == (0, 120)
    assert mape_percent(schedule([State.COMPLETED], [0], [1], [0], [5])) is None


whole = st.integers(0, 40)


@st.composite
def runs(draw: st.DrawFn) -> tuple[PowerSeries, Cap, float, float]:
    def rising(least: int) -> list[int]:
        return sorted(draw(st.sets(whole, min_size=least, max_size=8)))

    times = rising(1)
    rows: list[Any] = [(t, draw(whole), draw(whole), 0, draw(st.integers(0, 4))) for t in times]
    caps = rising(1)
    watts = [draw(st.one_of(st.just(np.inf), whole)) for _ in caps]
    begin, end = draw(whole), draw(whole)
    return series(*rows), Cap(np.array(caps, np.float64), np.array(watts, np.float64)), float(begin), float(end)


@given(runs())
def test_integrals_equal_a_sum_over_seconds(run: tuple[PowerSeries, Cap, float, float]) -> None:
    power, cap, begin, end = run
    total: dict[str, float] = {
        "jobs": 0,
        "machine": 0,
        "busy": 0,
        "over": 0,
        "over_s": 0,
        "most": 0,
        "used": 0,
        "limit": 0,
    }
    for t in range(int(begin), int(end)):
        k = int(np.searchsorted(power.time_s, t, side="right")) - 1
        jobs_w = power.jobs_w[k] if k >= 0 else 0.0
        watts = jobs_w + (power.other_w[k] if k >= 0 else 40.0)
        total["jobs"] += jobs_w
        total["machine"] += watts
        total["busy"] += power.busy_units[k] if k >= 0 else 0
        limit = cap.cap_w[max(int(np.searchsorted(cap.time_s, t, side="right")) - 1, 0)]
        if np.isfinite(limit):
            total["used"] += watts
            total["limit"] += limit
            total["over"] += max(0.0, watts - limit)
            total["over_s"] += watts > limit
            total["most"] = max(total["most"], watts - limit)
    found = energies(power, machine(), begin, end)
    if end > begin:
        assert found == {"jobs_j": total["jobs"], "machine_j": total["machine"], "busy_unit_s": total["busy"]}
    kept = cap_figures(power, machine(), cap, begin, end)
    if kept.cap_over_s is not None:
        assert (kept.cap_overshoot_w, kept.cap_over_s, kept.cap_over_j) == (
            total["most"],
            total["over_s"],
            total["over"],
        )
        if kept.power_utilization is not None:
            assert kept.power_utilization == pytest.approx(total["used"] / total["limit"])
    else:
        assert total["limit"] == 0


def test_figures_do_not_hang_on_the_threads_of_blas() -> None:
    rng, rows = np.random.default_rng(1), 60_000
    time, watts = np.cumsum(rng.random(rows)), rng.random(rows) * 1e6
    power = PowerSeries(time, watts, watts / 3, watts / 9, rng.integers(0, 4, rows).astype(np.int32))
    cap = Cap.constant(7e5)

    def found() -> tuple[object, ...]:
        end = float(time[-1]) + 1
        return energies(power, machine(), 0.0, end), cap_figures(power, machine(), cap, 0.0, end)

    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(1):
        alone = found()
    with threadpoolctl.threadpool_limits(2):
        assert found() == alone
