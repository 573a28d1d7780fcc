"""The study of energy budgets: what it draws, its budgets and figures by hand, and a small run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattqueue.model.jobs import Jobs
from wattqueue.report.compare.stats import Estimate
from wattqueue_studies.budgets.study import BudgetsStudy, jain, named, report, trial, worded
from wattqueue_studies.budgets.world import ALL, AT_LEAST, HALF, NONE, BudgetDesign, GeneratedUsers, RecordedWindows
from wattqueue_studies.frame.samples import sweep

DESIGN = BudgetDesign.stated()
SMALL = replace(
    DESIGN, seeds=2, days=2.0, period_days=1.0, accounts=2, generated="marconi:days=2,load=0.4,nodes=8",
    generated_nodes=8, budgets={name: DESIGN.budgets[name] for name in ("no budgets", "accounts", "users")},
)  # fmt: skip
DAY = 86_400.0


def trace(days: float) -> RecordedWindows:
    """Four users by turns, a job of two nodes and half an hour each hour; limits are twice the run time."""
    submit = np.arange(0.0, days * DAY + 1.0, 3_600.0)
    users = [f"u{k % 4}" for k in range(len(submit))]
    return RecordedWindows(
        Jobs.build(submit, [2] * len(submit), [1_800.0] * len(submit), walltime_s=[3_600.0] * len(submit), user=users),
        4,
    )


def test_windows_lie_at_equal_distances_and_begin_at_0() -> None:
    design = replace(SMALL, seeds=3)
    first, last = (trace(10).world(design, seed).jobs for seed in (1, 3))
    assert first.job_id[0] == 1
    assert float(last.submit_s[0]) == 0.0
    assert int(last.job_id[0]) == 1 + 8 * 24
    assert max(float(jobs.submit_s.max()) for jobs in (first, last)) < 2 * DAY


def test_a_frugal_clock_takes_longer_and_draws_less() -> None:
    world = trace(4).world(SMALL, 1)
    plain, half, every = (world.reacted(who) for who in (NONE, HALF, ALL))
    stretch = world.stretch[world.jobs.user.codes]
    assert ((stretch > 1.0) & (stretch <= 1.0 + 0.9 * 0.25)).all()
    np.testing.assert_allclose(every.walltime_s, plain.walltime_s * stretch)
    assert plain.mean_power_w is not None
    assert every.mean_power_w is not None
    np.testing.assert_allclose(every.mean_power_w - 60.0, 0.6 * (plain.mean_power_w - 60.0))
    saves = world.saves(HALF)
    assert sorted({*world.jobs.user.values()[saves]}) != sorted({*world.jobs.user.values()})
    np.testing.assert_array_equal(half.runtime_s, np.where(saves, every.runtime_s, plain.runtime_s))


def test_a_budget_is_a_share_of_what_was_used_and_never_below_its_largest_job() -> None:
    world = trace(4).world(SMALL, 1)
    used_j = np.full(len(world.jobs), 1.0e6)
    budgets = {one.name: one for one in world.budgets(used_j, "user", share=0.5)}
    # 48 jobs in two days, 12 of each user: 6 a day, half of 6 MJ; a job may use 2 x 200 W x 3,600 s x stretch at most
    assert [name.endswith(AT_LEAST) for name in budgets] == [False] * 4
    assert {one.amount for one in budgets.values()} == {3_000_000_000}
    floor = {one.name: one for one in world.budgets(used_j, "user", share=0.1)}
    assert [name.endswith(AT_LEAST) for name in floor] == [True] * 4
    most = sorted(1_440_000.0 * 1e3 * world.stretch)
    np.testing.assert_allclose(sorted(one.amount for one in floor.values()), most, atol=1.0)
    accounts = world.budgets(used_j, "account", share=1.0)
    assert sorted(user for one in accounts for user in one.users) == ["u0", "u1", "u2", "u3"]
    equal = world.budgets(used_j * np.arange(len(world.jobs)), "account", share=1.0, equal=True)
    assert len({one.amount for one in equal}) == 1


def test_jains_index_and_words() -> None:
    assert jain(np.ones(5)) == pytest.approx(1.0)
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert jain(np.array([1.0, 3.0])) == pytest.approx(0.8)
    assert worded(Estimate(20, -2.0, -3.0, -1.0), better=-1).endswith("gain")
    assert worded(Estimate(20, -2.0, -3.0, -1.0), better=1).endswith("loss")
    assert worded(Estimate(20, -2.0, -5.0, 1.0), better=-1).endswith("tie")
    assert "gain" not in worded(Estimate(19, -2.0, -3.0, -1.0), better=-1)


def test_a_small_run() -> None:
    """Every job of ten hours' worth of budget: with a fifth less, some wait for the next day."""
    names = [named(budget, who) for budget in SMALL.budgets for who in SMALL.reacting]
    samples = sweep(
        lambda case, seed: trial(case.world(SMALL, seed)), {"generated": trace(4)}, names, (1, 2), threads=1
    )
    result = report(SMALL, samples)
    found = {(row["policy"], row["metric"]): row["values"] for row in result.figures["results"]}
    assert found["no budgets, none", "wait_h"] == [0.0, 0.0]
    assert min(found["accounts, none", "wait_h"]) > 1.0
    assert min(found["users, none", "wait_h"]) > 1.0
    assert max(found["accounts, all", "wait_h"]) < min(found["accounts, none", "wait_h"])
    assert max(found["no budgets, all", "job_kwh"]) < min(found["no budgets, none", "job_kwh"])
    assert found["accounts, none", "kept_percent"] == [100.0, 100.0]
    assert all(0.0 < value < 1.0 for value in found["users, half", "fair_speed"])
    claims = result.document()["claims"]
    assert [row["verdict"] for row in claims[:2]] == ["not comparable"] * 2
    # Two draws give no verdict; a change over a wait of 0 is none.
    assert {row["verdict"] for row in claims[2:]} == {"undecided", "not comparable"}
    assert all(len(line) <= 80 for line in result.lines())


@pytest.mark.slow  # compiles the generator
def test_generated_users_are_those_of_their_seed() -> None:
    one, again, other = (GeneratedUsers().world(SMALL, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.stretch, again.stretch)
    assert len(one.jobs) != len(other.jobs) or not np.array_equal(one.jobs.submit_s, other.jobs.submit_s)
    found = BudgetsStudy(replace(SMALL, seeds=1), (), True, 1).run()
    assert {row["setting"] for row in found.figures["results"]} == {"generated"}
