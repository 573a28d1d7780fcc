"""A pass that begins at the arrivals starts what a pass over the whole queue would start, at every instant."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.invariants import units_of
from tests.sim.test_against_twin import expect_same, targeted_world
from tests.sim.workloads import Ready, World
from wattqueue.kernels import codes
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.truth import NodeEvents

PASSES = (codes.EASY, codes.SHORTEST, codes.CONSERVATIVE, codes.FIRST_FIT, codes.NO_BACKFILL)


def world_of_partitions(seed: int, *, failures: bool = False) -> World:
    """Jobs that may run in each of two or three partitions that share watts; first come, first served.

    Ranks that arrivals only append to are what an incremental pass needs; so there are no priorities here.
    """
    rng = np.random.default_rng(seed)
    nodes = rng.integers(2, 8, int(rng.integers(2, 4)))
    parts = [
        Partition(f"p{p}", int(k), idle_w=float(rng.integers(0, 30)), max_w=float(rng.integers(40, 200)))
        for p, k in enumerate(nodes)
    ]
    machine = Machine("partitions", tuple(parts), "jobs" if rng.random() < 0.6 else "machine")
    n = int(rng.integers(4, 30))
    submit = np.sort(np.floor(rng.exponential(6.0, n).cumsum()))
    wall = np.ceil(rng.exponential(60.0, n) / 5.0) * 5.0
    runtime = np.where(rng.random(n) < 0.5, wall, np.ceil(wall * rng.uniform(0.2, 1.0, n)))
    jobs = Jobs.build(submit, rng.integers(1, int(nodes.max()) + 1, n), runtime, walltime_s=wall)
    pairs = [(j, p) for j in range(n) for p in range(len(parts)) if jobs.nodes[j] <= nodes[p]]
    job, partition = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    watts = np.tile(np.array([p.max_w for p in parts]), (n, 1))
    if rng.random() < 0.5:
        watts = np.round(watts * rng.uniform(0.3, 1.0, (n, 1)), 3)
    prediction = Prediction(watts, np.ones_like(watts))
    table = Entries(job, partition, np.zeros(len(job)))
    # Now and then too little for the widest job, which waits for nodes then; mostly for some jobs at a time.
    cap = float(np.sum(nodes * [p.max_w for p in parts]) * rng.uniform(0.4, 1.0))
    events = NodeEvents.none()
    if failures:
        unit, time = int(rng.integers(machine.units)), float(rng.integers(0, int(submit[-1]) + 2))
        events = NodeEvents(np.array([time, time + 30.0]), np.array([unit, unit], np.int32), np.array([False, True]))
    ready = Ready(prediction, table, (partition, partition))
    return World(
        jobs, machine, ready, prediction, Cap.constant(cap), code=int(rng.choice(PASSES)), depth=0, interval_s=0.0,
        events=events,
    )  # fmt: skip


def both_ways(world: World) -> tuple[Run, Run]:
    """Run with passes that begin at the arrivals where they may, and with whole passes only."""
    runs = []
    for whole in (False, True):
        simulation = world.simulation()
        if whole:
            simulation.view.now.fcfs_ranks = 0
        simulation.go()
        runs.append(simulation.result())
    return runs[0], runs[1]


def expect_whole(world: World) -> None:
    incremental, whole = both_ways(world)
    np.testing.assert_array_equal(incremental.schedule.state, whole.schedule.state)
    np.testing.assert_array_equal(incremental.schedule.start_s, whole.schedule.start_s)
    for job in np.flatnonzero(whole.schedule.ran):
        assert units_of(incremental.schedule, int(job)) == units_of(whole.schedule, int(job))


def test_a_start_moves_the_shadow_time_of_an_entry_that_another_reservation_holds_back() -> None:
    """The start at 49 ends before the shadow time that the third job was promised at 39; the last job sees it."""
    parts = Partition("a", 6, idle_w=0.0, max_w=139.0), Partition("b", 4, idle_w=0.0, max_w=78.0)
    rows = np.array([(29, 4, 40, 40), (29, 5, 120, 120), (39, 3, 140, 140), (49, 1, 15, 15), (58, 1, 40, 35)], float)
    jobs = Jobs.build(rows[:, 0], rows[:, 1].astype(int), rows[:, 3], walltime_s=rows[:, 2])
    run = simulate(jobs, Machine("two", parts, "jobs"), load_policy("easy"), cap=Cap.constant(872.874))
    assert units_of(run.schedule, 4) == [6]


def test_a_start_moves_the_shadow_time_of_an_entry_that_waits_for_its_first_option() -> None:
    """The second job would fit at its lowest frequency, and waits for the highest one: no target is in force.

    The start at 14 is planned to end at 21, before the 59 s that the second job was promised at 6. The last job
    outlives 21 s and takes watts that are needed then; it waits.
    """
    part = Partition("p", 6, frequencies_hz=(3.0e9, 1.8e9), idle_w=40.0, max_w=200.0, dvfs_beta=0.6)
    rows = np.array([(1, 1, 58, 25), (6, 3, 29, 26), (14, 1, 7, 5), (17, 1, 129, 59)], float)
    consent = Consent.build(4, allowed=np.array([1.0, 1.0, 1.0, 0.0]))
    jobs = Jobs.build(rows[:, 0], rows[:, 1].astype(int), rows[:, 3], walltime_s=rows[:, 2], consent=consent)
    policy, targets = load_policy("easy", frequency="target-at-start"), LoadTargets.of(LoadTarget(500.0, 600.0, 400.0))
    run = simulate(jobs, Machine("one", (part,), "jobs"), policy, cap=Cap.constant(648.0), targets=targets)
    assert run.schedule.start_s[3] == 19.0


@given(st.integers(0, 2**32 - 1))
def test_a_pass_of_arrivals_equals_a_whole_one(seed: int) -> None:
    expect_whole(world_of_partitions(seed, failures=seed % 4 == 0))


@given(st.integers(0, 2**32 - 1))
def test_several_partitions_and_a_cap_are_the_twins(seed: int) -> None:
    world = world_of_partitions(seed, failures=seed % 4 == 0)
    simulation = world.simulation()
    simulation.go()
    expect_same(simulation.result(), world.twin(simulation.truth.reject))


@pytest.mark.compiled
@given(st.integers(0, 2**32 - 1))
def test_a_pass_of_arrivals_equals_a_whole_one_with_windows_by_load_target(seed: int) -> None:
    """Outside of targets a reserved entry that would fit at its last option waits for the first one."""
    world = targeted_world(seed)
    table = replace(world.ready.table, priority=np.zeros(len(world.ready.table.job)))
    parts = Machine("first", world.machine.partitions[:1], world.machine.cap_scope) if seed % 2 else world.machine
    if seed % 2:
        first = table.partition == 0
        table = Entries(table.job[first], table.partition[first], table.priority[first])
    options = (parts.option_start[table.partition], parts.option_start[table.partition + 1] - 1)
    columns = slice(0, len(parts.option_partition))
    predicted, actual = (
        Prediction(each.power_w[:, columns], each.time_factor[:, columns])
        for each in (world.ready.prediction, world.actual)
    )
    ready = replace(world.ready, prediction=predicted, table=table, options=options, by_target=True)
    world = replace(world, machine=parts, ready=ready, actual=actual, code=codes.EASY, events=NodeEvents.none())
    expect_whole(world)


@pytest.mark.slow
@pytest.mark.compiled
def test_passes_of_arrivals_on_many_worlds() -> None:
    """As many worlds as ``WATTQUEUE_WORLDS`` says, 100,000 by default."""
    worlds = int(os.environ.get("WATTQUEUE_WORLDS", "100000"))
    for seed in range(worlds):
        world = world_of_partitions(seed, failures=seed % 4 == 0)
        expect_whole(replace(world, code=codes.EASY) if seed % 2 else world)
