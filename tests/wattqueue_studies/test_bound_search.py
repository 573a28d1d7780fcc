"""The search for bounds and schedules, on tiny worlds whose optimum is known."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from tests.wattqueue_studies.bound_worlds import draw_problem, ticks_of
from wattqueue.errors import InputError
from wattqueue_studies.bound import columns, schedules
from wattqueue_studies.bound import prove as prove_module
from wattqueue_studies.bound.certificate import GoalRates
from wattqueue_studies.bound.check import replay
from wattqueue_studies.bound.columns import Starts, generate_columns
from wattqueue_studies.bound.problem import Problem, instance_of, refuse_impossible
from wattqueue_studies.bound.prove import prove
from wattqueue_studies.bound.schedules import Lists, found_schedules

WORLDS = int(os.environ.get("WATTQUEUE_WORLDS", "10000"))
"""Tiny worlds of the slow test."""

pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")


@pytest.fixture(autouse=True)
def coarse_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every grid is a proof; fine ones take seconds with kernels as plain Python."""
    monkeypatch.setattr(prove_module, "FEW_INTERVALS", 16)


def assert_bounded(problem: Problem, seed: int, steps: int = 150) -> float:
    """Proven <= optimum <= best known, for ends and for starts; return the first ratio."""
    found = found_schedules(problem, [], 40, seed)
    best = found[0]
    start_s = best.start / problem.tick_hz
    assert replay(problem, best.option, start_s, start_s + problem.jobs.run_s[best.option]).broken == ""
    instance, optimum = instance_of(problem), ticks_of(problem).optimum()
    assert optimum is not None
    proven = prove(instance, found, steps=steps).certificate.ticks(instance)
    assert proven <= optimum <= best.total
    starts = prove(instance, found, GoalRates(ends=False), steps=0).certificate.ticks(instance)
    assert starts <= (ticks_of(problem, pays_ends=False).optimum() or 0)
    return proven / optimum


def test_what_is_proven_is_below_the_optimum_and_near_it() -> None:
    ratios = [assert_bounded(draw_problem(np.random.default_rng(seed)), seed) for seed in range(12)]
    assert np.mean(ratios) > 0.9
    assert 1.0 in ratios


@pytest.mark.slow
def test_what_is_proven_is_below_the_optimum_in_many_worlds() -> None:
    for seed in range(WORLDS):
        rng = np.random.default_rng(10_000 + seed)
        assert_bounded(draw_problem(rng, jobs=int(rng.integers(2, 6))), seed, steps=60)


def test_no_job_starts_before_what_runs_already_leaves_it_room() -> None:
    """Tick by tick: the first at which an option fits for its whole run beside running jobs, under the cap."""
    later = 0
    for seed in range(40):
        problem = draw_problem(np.random.default_rng(seed))
        world, instance = ticks_of(problem), instance_of(problem)
        for job, options in enumerate(world.options):
            starts = [
                t
                for run, needs, _ in options
                for t in range(world.release[job], 30)
                if all(n <= f for u in range(t, t + run) for n, f in zip(needs, world.at(u), strict=True))
            ]
            assert instance.release[job] == min(starts)
            later += instance.release[job] > instance.release_up[job]
    assert later > 10


def values_on(problem: Problem, edges: list[int]) -> float:
    """The program's value on a grid."""
    instance = instance_of(problem)
    found = found_schedules(problem, [], 0, 1)
    begin = [Starts(np.arange(len(instance)), one.option, one.start) for one in found]
    return generate_columns(instance, np.array(edges, np.int64), begin).bound


def test_a_finer_nested_grid_is_never_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "GAP", 1e-9)
    for seed in range(8):
        problem = draw_problem(np.random.default_rng(seed))
        coarse, fine = [0, 8, 24], [0, 4, 8, 12, 24]
        finest = list(range(25))
        values = [values_on(problem, edges) for edges in (coarse, fine, finest)]
        assert values[0] <= values[1] + 1e-6 <= values[2] + 2e-6


@pytest.mark.parametrize("capped", [False, True])
def test_own_prices_are_at_least_as_good_as_the_program(capped: bool) -> None:
    better = 0
    for seed in range(4):
        problem = draw_problem(np.random.default_rng(seed), jobs=6, capped=capped)
        found = found_schedules(problem, [], 0, 1)
        instance = instance_of(problem)
        plain, own = (prove(instance, found, steps=steps).certificate.ticks(instance) for steps in (0, 200))
        assert own >= plain
        better += own > plain
    assert better > 0


def test_a_solver_that_stops_early_leaves_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = draw_problem(np.random.default_rng(2), jobs=6)
    found = found_schedules(problem, [], 0, 1)
    instance = instance_of(problem)
    whole = prove(instance, found, steps=0)
    assert whole.remark == ""
    monkeypatch.setattr(columns, "MOST_ROUNDS", 1)
    early = prove(instance, found, steps=0)
    assert early.remark
    monkeypatch.setattr(columns.Master, "solve", lambda _self: None)
    failed = prove(instance, found, steps=0)
    assert "failed" in failed.remark
    values = [each.certificate.ticks(instance) for each in (failed, early, whole)]
    assert 0 < values[0] <= values[1] <= values[2]


def test_long_lists_improve_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FEW_JOBS", 5), ("BLOCK", 6), ("BEHIND", 4), ("FEWEST_TRIES", 3)):
        monkeypatch.setattr(schedules, name, value)
    rng = np.random.default_rng(5)
    problem = draw_problem(rng, jobs=20, capped=False)
    lists = Lists(problem)
    begin = lists.schedule(np.arange(len(problem.jobs)))
    assert begin is not None
    found = lists.improved(begin, 200, rng)
    assert found.total < begin.total
    start_s = found.start / problem.tick_hz
    assert replay(problem, found.option, start_s, start_s + problem.jobs.run_s[found.option]).broken == ""


def test_the_replay_finds_each_rule_that_is_broken() -> None:
    problem = draw_problem(np.random.default_rng(4), jobs=4, capped=True)
    best = found_schedules(problem, [], 0, 1)[0]
    start_s, option = best.start.astype(float), best.option
    end_s = start_s + problem.jobs.run_s[option]
    assert replay(problem, option, start_s, end_s).broken == ""
    nobody, early = np.full(4, np.nan), start_s - 50.0
    zero = np.zeros(4)
    for changed, what in (
        ((np.roll(option, 1), start_s, end_s), "another job"),
        ((option, nobody, nobody), "does not run"),
        ((option, early, early + problem.jobs.run_s[option]), "release"),
        ((option, start_s, end_s + 1.0), "at one clock"),
    ):
        assert what in replay(problem, *changed).broken
    crowd = replace(problem, jobs=replace(problem.jobs, release_s=zero), units=problem.jobs.nodes[: len(problem.units)])
    assert "without enough" in replay(crowd, option, zero, problem.jobs.run_s[option]).broken


def test_a_cap_that_falls_while_a_job_runs_is_seen() -> None:
    """Two jobs of 10 W from 0 to 4 under 20 W that fall to 15 W at 2: admitted, and above the cap."""
    problem = two_jobs()
    zero, four = np.zeros(2), np.full(2, 4.0)
    replayed = replay(problem, np.arange(2), zero, four)
    assert (replayed.broken, replayed.above_cap) == ("", True)
    assert replay(problem, np.arange(2), np.array([0.0, 4.0]), np.array([4.0, 8.0])).above_cap is False
    strict, wide = instance_of(problem), instance_of(problem.for_admission())
    found = found_schedules(problem, [], 0, 1)
    assert prove(strict, found).certificate.ticks(strict) > 8
    assert prove(wide, found).certificate.ticks(wide) == 8


def two_jobs() -> Problem:
    problem = draw_problem(np.random.default_rng(0), jobs=2, capped=True)
    two = np.arange(2)
    jobs = replace(
        problem.jobs, release_s=np.zeros(2), first=np.arange(3), option=two, partition=0 * two, nodes=0 * two + 1,
        run_s=np.full(2, 4.0), net_uw=np.full(2, 10_000_000), energy_j=np.zeros(2),
    )  # fmt: skip
    nothing = np.zeros(0, np.int64)
    return Problem(
        jobs, np.array([4]), np.array([-np.inf, 2.0]), np.array([20_000_000, 15_000_000]), np.zeros(0), nothing,
        nothing, nothing,
    )  # fmt: skip


def test_a_cap_below_what_runs_leaves_nothing_until_it_ends() -> None:
    """A job of 30 W runs until 5 under 20 W; two of 10 W fit beside each other from then on."""
    problem = two_jobs()
    zero = np.zeros(1, np.int64)
    crowded = replace(
        problem, cap_s=np.array([-np.inf]), cap_uw=np.array([20_000_000]), busy_until_s=np.array([5.0]),
        busy_partition=zero, busy_units=zero + 1, busy_uw=zero + 30_000_000,
    )  # fmt: skip
    found = found_schedules(crowded, [], 0, 1)
    best = found[0]
    assert best.start.tolist() == [5, 5]
    instance = instance_of(crowded)
    assert prove(instance, found).certificate.ticks(instance) == best.total == 18


def test_a_job_that_never_fits_is_named() -> None:
    problem = two_jobs()
    with pytest.raises(InputError) as caught:
        refuse_impossible(replace(problem, cap_uw=np.full(2, 5_000_000)))
    assert caught.value.where == "job j0"


def test_a_job_that_fits_for_too_short_a_time_is_named() -> None:
    """The cap is enough for a job of 10 W until 3, and too low for ever after."""
    problem = two_jobs()
    low = replace(problem, cap_s=np.array([-np.inf, 3.0]), cap_uw=np.array([10_000_000, 5_000_000]))
    refuse_impossible(low)
    with pytest.raises(InputError) as caught:
        found_schedules(low, [], 10, 1)
    assert caught.value.where == "job j0"
    both = replace(low, cap_s=np.array([-np.inf, 5.0]))  # long enough for one of the two
    with pytest.raises(InputError) as caught:
        found_schedules(both, [], 10, 1)
    assert caught.value.where == "jobs"
