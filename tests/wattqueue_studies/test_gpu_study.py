"""The study of GPU limits: the model by hand, what is fitted on what, floors, and the real measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.model.gpu_limits import GpuCurve, LimitedRun, floor_of, pooled_curve, share_left
from wattqueue_studies.frame.claim import Verdict
from wattqueue_studies.gpu.fit import FittedWorkload, KindOfGpu, across
from wattqueue_studies.gpu.study import NETWORKS, ONE, THIRD, TIME, TWO, WATTS, GpuStudy, of_limits
from wattqueue_studies.gpu.zeus import MeasuredGpu, read_zeus

HEAD = "dataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\n"
LIMITS = np.array([100.0, 150.0, 200.0, 250.0])


def made(demand_w: float, *, idle_w: float = 40.0, exponent: float = 1.0) -> LimitedRun:
    """A workload that follows the model exactly, its greatest limit without effect: time is (1 / share)^exponent."""
    share = share_left(np.full(4, demand_w - idle_w), np.append(LIMITS[:-1] - idle_w, np.inf))
    watts = idle_w + (demand_w - idle_w) * share
    return LimitedRun(LIMITS.copy(), watts, 10.0 * share**-exponent)


@given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4))
def test_no_more_than_demand_and_limit_is_left(demand: float, limit: float) -> None:
    left = demand * float(share_left(np.array([demand]), np.array([limit]))[0])
    assert left <= min(demand, limit) * (1 + 1e-12)
    assert left >= min(demand, limit) * 2 ** (-1 / 8) * (1 - 1e-12), "least where both are equal"


def test_a_limit_far_above_takes_nothing() -> None:
    assert share_left(np.array([100.0, 0.0]), np.array([np.inf, 0.0])).tolist() == [1.0, 1.0]
    assert share_left(np.array([100.0]), np.array([0.0])).tolist() == [0.0]


def test_the_time_between_points_and_below_the_lowest() -> None:
    curve = GpuCurve((0.5, 1.0), (2.0, 1.0))
    assert curve.time_factor(np.array([1.0, 0.5, 0.75])).tolist() == pytest.approx([1.0, 2.0, 2**0.5])
    # a quarter of the lowest share: half the clock, twice the time of the lowest point
    assert curve.time_factor(np.array([0.125])).tolist() == pytest.approx([4.0])


def test_the_floor_is_above_every_limit_that_was_broken() -> None:
    """An A40 at 100 W draws 120.7 W: neither 100 W is trusted, nor what was seen to hold below a broken limit."""
    held = LimitedRun(LIMITS, np.array([99.0, 149.0, 180.0, 180.0]), np.ones(4))
    broken = LimitedRun(LIMITS, np.array([99.0, 160.0, 180.0, 180.0]), np.ones(4))
    assert floor_of([held]) == 100.0
    assert floor_of([held, broken]) == 200.0
    assert floor_of([LimitedRun(LIMITS, 2 * LIMITS, np.ones(4))]) == np.inf


def test_a_pooled_curve_does_not_rise_and_ends_at_one() -> None:
    curve = pooled_curve([made(d, exponent=0.5) for d in (150.0, 180.0, 210.0, 240.0)] * 3, 40.0)
    assert curve.share[-1] == curve.time[-1] == 1.0
    assert list(curve.share) == sorted(curve.share)
    assert list(curve.time) == sorted(curve.time, reverse=True)
    flat = pooled_curve([made(41.0)], 40.0)
    assert flat == GpuCurve(), "a job that is hardly above idle says nothing of shares"


def test_two_limits_find_what_made_the_workload() -> None:
    share = np.linspace(0.1, 1.0, 200)
    kind = KindOfGpu(100.0, 40.0, GpuCurve(tuple(share), tuple(share**-0.5)))
    run = made(220.0, exponent=1.0)
    fitted = FittedWorkload.of(kind, run)
    watts, time = fitted.predict(run.limit_w[1:3])
    assert watts == pytest.approx(run.watts[1:3], rel=1e-9)
    assert time == pytest.approx(run.time_s[1:3] / run.time_s[-1], rel=1e-3)
    assert fitted.exponent == pytest.approx(2.0, rel=1e-3), "twice the logarithm of the kind's workloads"


def test_below_the_floor_the_floor_counts() -> None:
    kind = KindOfGpu(150.0, 40.0, GpuCurve((0.3, 1.0), (2.0, 1.0)))
    fitted = FittedWorkload(kind, 240.0)
    watts, time = fitted.predict(np.array([50.0, 100.0, 150.0, 200.0]))
    assert watts[0] == watts[1] == watts[2] < watts[3]
    assert time[0] == time[1] == time[2] > time[3]


def test_only_the_two_ends_of_a_workload_are_read() -> None:
    kind = KindOfGpu.of([made(d) for d in (120.0, 180.0, 240.0)])
    run = made(220.0)
    other = LimitedRun(run.limit_w, np.where([True, False, False, True], run.watts, 1.0), run.time_s.copy())
    assert FittedWorkload.of(kind, run) == FittedWorkload.of(kind, other)


def test_a_kind_that_was_not_measured_draws_the_same_share_of_its_rated_watts() -> None:
    kind = KindOfGpu(100.0, 40.0, GpuCurve())
    known = [(250.0, FittedWorkload(kind, 200.0, 1.0, 2.0)), (300.0, FittedWorkload(kind, 180.0, 1.0, 0.5))]
    found = across(known, 400.0, kind)
    assert found.demand_w == pytest.approx(400.0 * (0.8 + 0.6) / 2)
    assert found.exponent == pytest.approx(1.0)


def test_no_cell_of_a_workload_or_of_its_network_fits_its_kind() -> None:
    """A network that is slowed down otherwise is predicted by the others, so that its own cells change nothing."""
    usual = {("a", "x", str(k), "o"): made(d, exponent=0.5) for k, d in enumerate(np.linspace(150.0, 240.0, 12))}
    strange = {("b", "y", str(k), "o"): made(d, exponent=3.0) for k, d in enumerate(np.linspace(150.0, 240.0, 12))}
    errors = of_limits(MeasuredGpu("g", {**usual, **strange}))
    alone = of_limits(MeasuredGpu("g", {**usual, next(iter(strange)): next(iter(strange.values()))}))
    assert errors["g", NETWORKS, TIME][12] == pytest.approx(alone["g", NETWORKS, TIME][12])
    assert errors["g", TWO, TIME][12] != pytest.approx(alone["g", TWO, TIME][12])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("d,n,8,o,100,1,-5\n", "average_power is missing, 0 or outside"),
        ("d,,8,o,100,1,50\n", "a name is missing"),
        ("d,n,8,o,100,1,50\nd,n,8,o,100,1,50\nd,n,8,o,150,1,50\n", "has 3 limits, of which 2 differ"),
        ("d,n,8,o,100,1,50\nd,n,8,o,150,1,50\n", "has 2 limits"),
    ],
)
def test_measurements_that_cannot_be_used(tmp_path: Path, rows: str, told: str) -> None:
    path = tmp_path / "zeus_x.csv"
    path.write_text(HEAD + rows)
    with pytest.raises(InputError, match=told):
        read_zeus(path)


def test_a_study_without_files() -> None:
    with pytest.raises(InputError, match="no measurements"):
        GpuStudy(()).run()


def test_the_real_measurements(data_dir: Path) -> None:
    """Zeus' V100, A40 and P100: floors, errors, and what the page says of them."""
    pytest.importorskip("scipy.stats")
    found = GpuStudy([data_dir / "gpu" / f"zeus_{name}.csv" for name in ("v100", "a40", "p100")]).run()
    gpus = {row["name"]: row for row in found.figures["gpus"]}
    assert [gpus[name]["workloads"] for name in ("v100", "a40", "p100")] == [68, 53, 45]
    assert {row["floor_w"] for row in gpus.values()} == {125.0}
    errors = {(row["setting"], row["task"], row["metric"]): np.array(row["values"]) for row in found.figures["errors"]}
    assert len(errors["p100", THIRD, WATTS]) == 38
    for gpu in gpus:
        assert errors[gpu, TWO, WATTS].mean() < 4.0
        assert errors[gpu, TWO, WATTS].mean() < errors[gpu, ONE, WATTS].mean()
    verdicts = {row.claim.statement: row.verdict for row in found.claims.rows}
    assert verdicts["Minos: watts"] is Verdict.NOT_COMPARABLE
