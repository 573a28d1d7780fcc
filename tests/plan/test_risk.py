"""Time above limits, against sums unit by unit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.sim.invariants import units_of
from wattqueue.model.domain_load import DomainLoad, domain_loads
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain
from wattqueue.plan.ratios import LEAST_DAYS
from wattqueue.plan.risk import exceedance, over_by_day, resampled_days, worst_of
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate


def made_run(scope: str = "machine") -> Run:
    rng = np.random.default_rng(4)
    n = 80
    jobs = Jobs.build(
        np.sort(rng.uniform(0, 4_000, n)).round(), rng.integers(1, 5, n), rng.integers(50, 900, n),
        mean_power_w=rng.integers(110, 290, n),
    )  # fmt: skip
    supply = (
        SupplyDomain(name="row", base_w=30.0, efficiency=0.9),
        SupplyDomain(name="r1", parent="row", nodes="a[1-3],b[2]", efficiency=0.95),
        SupplyDomain(name="r2", parent="row", nodes="a[4-6],b[1]"),
    )
    parts = Partition("a", 6, idle_w=60.0, max_w=300.0), Partition("b", 2, idle_w=40.0, max_w=300.0)
    machine = Machine("m", parts, cap_scope=scope, supply=supply)  # type: ignore[arg-type]
    return simulate(jobs, machine, load_policy("easy"))


def naive_input(run: Run, name: str, unit_w: Floats, at_s: float) -> float:
    """Return the input of a domain at a time, from the watts of every unit and the formula of rule 22."""
    machine, tree = run.machine, run.machine.supply_tree
    in_watts = machine.cap_scope == "machine"
    idle = machine.by_unit([part.idle_w for part in machine.partitions])
    watts = idle.copy() if in_watts else np.zeros(machine.units)
    for job in np.flatnonzero((run.schedule.start_s <= at_s) & (at_s < run.schedule.end_s)):
        for unit in units_of(run.schedule, int(job)):
            less = idle[unit] if machine.cap_scope == "dynamic" else 0.0
            watts[unit] = max(unit_w[job], idle[unit]) - less if machine.cap_scope != "jobs" else unit_w[job]

    def input_of(domain: SupplyDomain) -> float:
        k = tree.domains.index(domain)
        own = watts[tree.of_unit == k].sum() + sum(input_of(one) for one in tree.domains if one.parent == domain.name)
        return float(own / domain.efficiency + domain.base_w if in_watts else own)

    return float(input_of(next(one for one in tree.domains if one.name == name)))


@pytest.mark.parametrize("scope", ["machine", "dynamic", "jobs"])
def test_seconds_above_are_those_of_units_added_one_by_one(scope: str) -> None:
    run = made_run(scope)
    unit_w = np.asarray(run.jobs.mean_power_w, np.float64)
    limits = np.array([{"row": 1_400.0, "r1": 700.0, "r2": 700.0}[one.name] for one in run.machine.supply_tree.domains])
    part = run.machine.option_partition[run.schedule.option]
    idle = np.array([0.0 if scope == "jobs" else p.idle_w for p in run.machine.partitions])[part]
    edge = np.array([0.0, 1_000.0, 2_500.0, 4_000.0])
    times = np.unique(np.concatenate([run.schedule.start_s, run.schedule.end_s, edge]))
    for load in domain_loads(run.machine, run.schedule, limits):
        found = over_by_day(
            load, (run.schedule.start_s, run.schedule.end_s), np.maximum(unit_w - idle, 0.0)[:, None], edge
        )
        wanted = np.zeros(3)
        for begin, end in itertools.pairwise(times):
            day = int(np.searchsorted(edge, begin, side="right")) - 1
            if 0 <= day < 3 and naive_input(run, load.name, unit_w, float(begin)) > load.limit_w + 1e-6:
                wanted[day] += end - begin
        assert found == pytest.approx(wanted)
        assert wanted.sum() > 0


def one_load(limit_w: float) -> DomainLoad:
    return DomainLoad("r", limit_w, 10.0, np.array([0, 1]), np.array([2.0, 1.0]))


def test_hand_computed_share() -> None:
    # two units of 100 W from 0 to 50 s, one of 100 W from 20 to 80 s, 10 W idle: 310 W from 20 to 50 s
    span = np.array([0.0, 20.0]), np.array([50.0, 80.0])
    edge, draws = np.array([0.0, 100.0]), np.full((2, 1), 100.0)
    found = exceedance([one_load(309.0)], span, iter([draws]), edge, 0.0, resample=None)
    assert (found.share, found.upper) == (0.3, 1.0)  # one day gives no interval
    found = exceedance([one_load(310.0)], span, iter([draws]), edge, 0.0, resample=None)
    assert (found.share, found.upper) == (0.0, 0.0)
    both = exceedance([one_load(310.0), one_load(209.0)], span, iter([draws]), edge, 0.0, resample=None)
    assert both.share == 0.5
    assert both.mean == pytest.approx(0.25)


def test_the_bound_comes_from_days() -> None:
    days = 30
    edge = np.linspace(0.0, 10.0 * days, days + 1)
    over = np.array([0.0, 10.0])  # the job runs above the limit on the first day alone
    load = DomainLoad("r", 150.0, 0.0, np.array([0]), np.array([2.0]))
    found = exceedance([load], (over[:1], over[1:]), iter([np.full((1, 4), 100.0)]), edge, 0.0,
                       resample=resampled_days(days, 0))  # fmt: skip
    assert found.share == pytest.approx(1 / days)
    assert 2 / days < found.upper < 6 / days
    assert worst_of([found, exceedance([], (over, over), iter([]), edge, 1.0, resample=None)]) is found


def test_resampled_days_are_as_many_as_there_are() -> None:
    assert resampled_days(LEAST_DAYS - 1, 0) is None
    rows = resampled_days(30, 0)
    assert rows is not None
    assert (rows.sum(1) == 30).all()
    assert rows.mean(0) == pytest.approx(np.ones(30), abs=0.15)
