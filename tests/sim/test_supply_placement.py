"""Placement under power domains: against the naive twin, and by what levelled watts and a bound on racks must hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.reference.supply import NaiveSupply
from tests.sim.invariants import units_of
from tests.sim.test_against_twin import SEEDS, expect_same
from tests.sim.test_supply import supplied_world
from tests.sim.test_units_that_differ import NAMES, Ranks, drawn_factors, with_applications
from tests.sim.workloads import World
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain
from wattqueue.model.supply_binding import can_bind
from wattqueue.parts.placement.lowest import Lowest
from wattqueue.parts.placement.watt_balanced import WattBalanced
from wattqueue.policy.policy import load_policy
from wattqueue.policy.supply import greatest_unit_w
from wattqueue.sim.engine import Run, simulate


def binding(world: World) -> frozenset[str]:
    """Names of the domains in the pass."""
    keep = can_bind(world.machine, greatest_unit_w(world.machine, world.ready.prediction, learns=False))
    domains = world.machine.supply_tree.domains
    return frozenset(domain.name for domain, kept in zip(domains, keep, strict=True) if kept)


def expect_twin(world: World, placement: Lowest | WattBalanced) -> Run:
    simulation = world.simulation(placement=placement)
    simulation.go()
    run = simulation.result()
    kept = binding(world)
    naive = NaiveSupply(world.machine, bool(kept) and isinstance(placement, WattBalanced), placement.racks, kept)
    expect_same(run, world.twin(simulation.truth.reject, supply=naive))
    return run


@examples(150)
@given(SEEDS)
def test_levelled_watts_are_the_twins(seed: int) -> None:
    expect_twin(supplied_world(seed, failures=seed % 3 == 0), WattBalanced())


@examples(150)
@given(SEEDS, st.integers(1, 4), st.booleans())
def test_a_bound_on_racks_is_the_twins(seed: int, racks: int, levels: bool) -> None:
    expect_twin(supplied_world(seed), WattBalanced(racks=racks) if levels else Lowest(racks=racks))


@examples(100)
@given(SEEDS)
def test_ranked_units_are_the_twins(seed: int) -> None:
    """Units by (rank, number), without those that some domain has no room for."""
    rng = np.random.default_rng((seed, 5))
    world = with_applications(supplied_world(seed, failures=seed % 3 == 0), rng)
    rank = drawn_factors(rng, world.machine.units)
    simulation = world.simulation(placement=Ranks(rank))
    simulation.go()
    naive = NaiveSupply(world.machine)
    expect_same(simulation.result(), world.twin(simulation.truth.reject, supply=naive, unit_rank=rank))
    assert len(NAMES) == len(rank)


RACKS, SIZE = 8, 12


def racked(limits_w: list[float]) -> Machine:
    """A machine of some racks of twelve nodes, watts above idle."""
    supply = tuple(
        SupplyDomain(name=f"r{k}", nodes=f"p[{SIZE * k + 1}-{SIZE * k + SIZE}]", limit_w=watts)
        for k, watts in enumerate(limits_w)
    )
    part = Partition("p", SIZE * len(limits_w), idle_w=0.0, max_w=200.0)
    return Machine("racks", (part,), "dynamic", supply=supply)


def placed(machine: Machine, nodes: list[int], watts: list[float], placement: str, **more: int) -> Run:
    """All jobs submitted at once and as long as each other, so that each finds those before it running."""
    n = len(nodes)
    jobs = Jobs.build(np.zeros(n), np.array(nodes), np.full(n, 100.0), mean_power_w=np.array(watts),
                      max_power_w=np.array(watts))  # fmt: skip
    row = {"part": placement, **more}
    return simulate(jobs, machine, load_policy("easy", estimator="oracle-mean", placement=row))


def racks_of(run: Run, job: int) -> list[int]:
    """Units of a job in each rack."""
    racks = np.array(units_of(run.schedule, job)) // SIZE
    return [int(n) for n in np.bincount(racks, minlength=run.machine.units // SIZE)]


@examples(60)
@given(SEEDS, st.integers(1, RACKS))
def test_no_more_racks_than_the_bound_where_so_many_hold_the_job(seed: int, racks: int) -> None:
    """Racks without domains above them: a job has more only if no such number of racks holds it."""
    rng = np.random.default_rng(seed)
    limits = [float(w) for w in rng.integers(400, 2400, RACKS)]
    nodes = [int(n) for n in rng.integers(1, 30, 12)]
    watts = [float(w) for w in rng.integers(20, 200, 12)]
    run = placed(racked(limits), nodes, watts, "watt-balanced", racks=racks)
    free, room = np.full(RACKS, SIZE), np.array(limits)
    for job in range(len(nodes)):
        if not np.isfinite(run.schedule.start_s[job]) or run.schedule.start_s[job] > 0:
            continue
        got = np.array(racks_of(run, job))
        fit = np.minimum(free, np.floor(room / watts[job] + 1e-9))
        fewest = int(np.searchsorted(np.cumsum(-np.sort(-fit)), nodes[job])) + 1
        assert np.count_nonzero(got) <= max(racks, fewest)
        free, room = free - got, room - got * watts[job]


@examples(60)
@given(SEEDS)
def test_a_hot_job_leaves_racks_as_level_as_a_unit_allows(seed: int) -> None:
    """No unit of it, moved to another rack, brings watts a free unit closer together."""
    rng = np.random.default_rng(seed)
    limits = np.array([float(w) for w in rng.integers(600, 1800, RACKS)])
    nodes, watts = int(rng.integers(1, SIZE * RACKS // 3)), 160.0
    run = placed(racked(limits.tolist()), [nodes], [watts], "watt-balanced")
    if not run.schedule.ran[0]:
        return
    got = np.array(racks_of(run, 0))
    ratio = limits / SIZE
    free = SIZE - got
    after = np.where(free > 0, (limits - watts * got) / np.maximum(free, 1), np.nan)
    used = np.flatnonzero(got)
    step = watts / (SIZE - got[used].max())  # what one more unit changes at most
    unused = np.flatnonzero(got == 0)
    if len(unused):
        assert np.nanmin(after[used], initial=np.inf) >= ratio[unused].max() - 2 * step
    assert np.nanmax(after[used]) - np.nanmin(after[used]) <= 2 * step or len(used) == 1


def test_hot_and_cold_jobs_meet_in_one_rack() -> None:
    """By hand: two racks of 12 nodes and 1,200 W. Hot jobs of 6 x 150 W spread 3 and 3; the lowest take all 6 of one.

    Then 12 nodes of 50 W fit beside in either case, but lowest leaves rack 0 with 300 W for 6 nodes, rack 1 with
    1,200 W for 12: a second hot job gets only 2 and 4 there, a third finds less.
    """
    machine = racked([1200.0, 1200.0])
    assert racks_of(placed(machine, [6], [150.0], "watt-balanced"), 0) == [3, 3]
    assert racks_of(placed(machine, [6], [150.0], "lowest"), 0) == [6, 0]
    assert racks_of(placed(machine, [6, 6], [150.0, 50.0], "watt-balanced"), 1) == [3, 3]
    assert racks_of(placed(machine, [6], [150.0], "watt-balanced", racks=1), 0) == [6, 0]


def test_a_tree_that_never_binds_is_placed_as_none() -> None:
    machine = racked([2400.0, 2400.0])
    run = placed(machine, [6, 6], [150.0, 50.0], "watt-balanced")
    bare = placed(replace(machine, supply=()), [6, 6], [150.0, 50.0], "watt-balanced")
    for job in range(2):
        assert units_of(run.schedule, job) == units_of(bare.schedule, job) == list(range(6 * job, 6 * job + 6))


@pytest.mark.parametrize("racks", [-1, 1.5, "2"])
def test_a_bound_that_is_no_number_of_racks(racks: object) -> None:
    with pytest.raises(PolicyError, match="racks"):
        load_policy("easy", placement={"part": "watt-balanced", "racks": racks})
