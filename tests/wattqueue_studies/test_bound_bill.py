"""Bills: what is proven is below every schedule within the limit of waiting, on tiny worlds whose least is known."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_studies.bound_worlds import draw_certificate, draw_problem, ticks_of
from wattqueue.errors import EngineError, InputError
from wattqueue.formats.tariff import SignalSource, Tariff
from wattqueue.model.signals import Series
from wattqueue_studies.bound import prove as prove_module
from wattqueue_studies.bound.bill import (
    BillLists,
    TariffLimit,
    billed,
    bound_bill,
    even_rate,
    in_time,
    kept_limit,
    latest_starts,
)
from wattqueue_studies.bound.certificate import (
    Certificate,
    GoalRates,
    Objective,
    proven_bill,
    unit_amount,
)
from wattqueue_studies.bound.instance import Instance
from wattqueue_studies.bound.problem import instance_of
from wattqueue_studies.bound.schedules import Lists, found_schedules

PER_J = 1
"""An amount per joule: bills of tiny worlds are watts times ticks times prices."""


@pytest.fixture(autouse=True)
def coarse_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every grid is a proof; fine ones take seconds with kernels as plain Python."""
    monkeypatch.setattr(prove_module, "FEW_INTERVALS", 16)


def draw_tariff(rng: np.random.Generator, *, lowest: int = -3, limit: int = 6) -> tuple[TariffLimit, list[float]]:
    """Prices that change at a few whole ticks, and what a microwatt costs at every tick."""
    steps = int(rng.integers(1, 6))
    time = np.append(0, np.sort(rng.choice(np.arange(1, 16), steps - 1, replace=False)))
    value = rng.integers(lowest, 9, steps)
    each = [float(value[np.searchsorted(time, t, side="right") - 1]) / 1e6 for t in range(60)]
    series = Series(time.astype(np.float64), value.astype(np.float64))
    return TariffLimit(series, PER_J, "EUR/J", float(limit), float(limit)), each


def billed_certificate(rng: np.random.Generator, instance: Instance, objective: Objective) -> Certificate:
    """Random prices of resources, beside a tariff."""
    found = draw_certificate(rng, instance, objective=objective)
    return replace(found, shift=12, price=found.price * 64, own=replace(found.own, value=found.own.value * 64))


def test_random_prices_never_exceed_the_least_bill() -> None:
    close = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        problem = draw_problem(rng, jobs=3)
        tariff, each = draw_tariff(rng, lowest=-3 if seed % 2 else 0)
        least = ticks_of(problem).least_bill(6, each, times=False)
        instance = billed(instance_of(problem), problem, tariff)
        goal = GoalRates(ends=False, bill=even_rate(instance), times=False)
        if least is None:
            continue
        for _ in range(4):
            proven = proven_bill(instance, billed_certificate(rng, instance, goal.whole(12)))
            assert proven <= least + 1e-9
        none = billed_certificate(rng, instance, goal.whole(28))
        free = replace(none, shift=28, price=none.price * 0, own=replace(none.own, value=none.own.value * 0))
        close += proven_bill(instance, free) >= least - 0.001 * abs(least) - 1e-3
    assert close > 3, "in some worlds nobody is in another's way"


@pytest.mark.parametrize("lowest", [0, -3])
def test_what_is_proven_is_below_the_least_bill_and_what_is_found_is_above(lowest: int) -> None:
    pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(100 + seed)
        problem = draw_problem(rng, jobs=3)
        tariff, each = draw_tariff(rng, lowest=lowest)
        world, instance = ticks_of(problem), instance_of(problem)
        least, listed = world.least_bill(6, each, times=False), found_schedules(problem, [], 0, 1)
        if least is None:
            assert in_time(problem, listed, 6.0) is None
            with pytest.raises(EngineError):
                bound_bill(problem, instance, tariff, listed, 100.0, 60, rng)
            continue
        found = bound_bill(problem, instance, tariff, listed, 100.0, 60, rng)
        assert found.bound <= least + 1e-6
        assert found.best >= least - 1e-6
        ratios.append(found.best - least)
        horizon = int(found.horizon_s)
        assert found.idle == pytest.approx(100.0 * 1e6 * sum(each[min(t, 59)] for t in range(horizon)))
    assert sum(each < 1e-6 for each in ratios) > len(ratios) // 2


def test_ends_and_bill_together_are_below_every_schedule() -> None:
    pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")
    for seed in range(6):
        rng = np.random.default_rng(200 + seed)
        problem = draw_problem(rng, jobs=3)
        tariff, each = draw_tariff(rng)
        both = ticks_of(problem).least_bill(6, each, times=True)
        instance = billed(instance_of(problem), problem, tariff)
        if both is None:
            continue
        goal = GoalRates(bill=unit_amount(instance))  # a tick for an amount
        lists = BillLists(problem, instance, tariff, goal)
        known = [replace(one, total=round(lists.cost(one))) for one in found_schedules(problem, [], 0, 1)]
        proven = prove_module.prove(instance, known, goal, steps=40).certificate
        assert proven.ticks(instance) <= both
        found = lists.improved([lists.plain.release], 60, rng)
        assert found is not None
        assert lists.cost(found) >= both - 1e-6


def test_a_bill_waits_for_the_cheaper_hour_no_longer_than_it_may() -> None:
    """One job of 10 W and 4 ticks: 5 a tick, 1 from tick 6 on; with 3 ticks of waiting one of its ticks is cheap."""
    rng = np.random.default_rng(0)
    one = draw_problem(rng, jobs=1, capped=False)
    jobs = replace(
        one.jobs, release_s=np.zeros(1), first=np.array([0, 1]), option=np.zeros(1, np.int64),
        partition=np.zeros(1, np.int64), nodes=np.ones(1, np.int64), run_s=np.array([4.0]),
        net_uw=np.array([10_000_000]), energy_j=np.zeros(1), above_uw=np.array([10_000_000]),
    )  # fmt: skip
    nothing = np.zeros(0, np.int64)
    problem = replace(
        one, jobs=jobs, busy_until_s=np.zeros(0), busy_partition=nothing, busy_units=nothing, busy_uw=nothing
    )
    series = Series(np.array([0.0, 6.0]), np.array([5.0, 1.0]))
    pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")
    for limit, least in ((0.0, 200.0), (3.0, 160.0), (6.0, 40.0), (20.0, 40.0)):
        tariff = TariffLimit(series, PER_J, "EUR/J", limit, limit)
        found = bound_bill(problem, instance_of(problem), tariff, found_schedules(problem, [], 0, 1), 0.0, 40, rng)
        assert found.bound == pytest.approx(least, rel=1e-4)
        assert found.best == pytest.approx(least)
        again = Instance.of_values(json.loads(json.dumps(found.instance.values())))
        assert again.digest() == found.instance.digest()
        assert proven_bill(again, found.certificate) == found.bound


def test_a_job_without_watts_has_no_bill() -> None:
    problem = draw_problem(np.random.default_rng(1), capped=False)
    unknown = replace(problem, jobs=replace(problem.jobs, above_uw=problem.jobs.above_uw * 0 - 1))
    tariff, _ = draw_tariff(np.random.default_rng(1))
    with pytest.raises(InputError) as caught:
        billed(instance_of(problem), unknown, tariff)
    assert caught.value.where == "job j0"


def test_a_limit_that_no_schedule_keeps_is_raised_to_the_least_that_one_does() -> None:
    """Three jobs of an hour on one unit: the last waits two hours, whatever is done."""
    rng = np.random.default_rng(0)
    one = draw_problem(rng, jobs=1, capped=False)
    three = np.zeros(3, np.int64)
    jobs = replace(
        one.jobs, names=("a", "b", "c"), release_s=np.zeros(3), first=np.arange(4), option=three, partition=three,
        run_s=np.full(3, 3_600.0), nodes=three + 1, net_uw=three, energy_j=np.zeros(3), above_uw=three + 1_000_000,
    )  # fmt: skip
    nothing = np.zeros(0, np.int64)
    problem = replace(
        one, jobs=jobs, units=np.array([1]), busy_until_s=np.zeros(0), busy_partition=nothing, busy_units=nothing,
        busy_uw=nothing,
    )  # fmt: skip
    source = SignalSource(Path("p.csv"), "EUR/MWh", "EUR", 3.6e9)
    tariff = Tariff(source, Series(np.array([0.0, 18_000.0, 36_000.0]), np.full(3, 5.0)), np.arange(3), (), "")
    for asked_h, kept_h in ((0.0, 2.0), (0.5, 2.5), (1.0, 2.0), (2.0, 2.0), (4.0, 4.0)):
        limit = kept_limit(problem, [], tariff, 3_600.0 * asked_h, 0.0)
        assert (limit.asked_s, limit.limit_s) == (3_600.0 * asked_h, 3_600.0 * kept_h)
        assert len(limit.remarks()) == (asked_h != kept_h)
        found = in_time(problem, [], limit.limit_s)
        assert found is not None
        assert (found.start <= latest_starts(problem, limit.limit_s)).all()
    with pytest.raises(InputError, match="not covered"):
        kept_limit(problem, [], tariff, 0.0, 54_000.0)


def test_jobs_that_are_late_move_ahead() -> None:
    """Lists in the order of the latest starts are late in some worlds whose other lists are not."""
    kept = 0
    for seed in range(60):
        problem = draw_problem(np.random.default_rng(seed), jobs=5)
        waits = [Lists(problem).schedule(np.array(order)) for order in itertools.permutations(range(5))]
        least = min(int((one.start - problem.jobs.release_s).max()) for one in waits if one is not None)
        found = in_time(problem, [], float(least))
        kept += found is not None
        assert in_time(problem, [], float(least) - 1.0) is None
    assert kept > 50
