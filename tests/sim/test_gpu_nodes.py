"""GPUs of one job in one node, or whole nodes (rule 23): against the naive twin, and by what must hold in any run."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import nodes_hold_load, take_listed_units
from tests.profiles import examples
from tests.reference.supply import NaiveSupply
from tests.sim.invariants import units_of
from tests.sim.test_against_twin import SEEDS, Scripted, expect_same, random_script
from tests.sim.test_supply import PASSES, random_supply
from tests.sim.test_units_that_differ import Ranks
from tests.sim.workloads import World, random_entries, random_failures, random_world
from wattqueue.errors import PolicyError
from wattqueue.kernels import codes
from wattqueue.kernels.state import SupplyLoad
from wattqueue.model.fragmentation import fragmented_gpus
from wattqueue.model.holding import UNITS, holds_of
from wattqueue.model.jobs import NODES_ASKED, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.gpus import fitting, with_units_for_gpus
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.policy import load_policy
from wattqueue.policy.supply import supply_limits
from wattqueue.sim.engine import Run, simulate
from wattqueue.sim.truth import NodeEvents


def gpu_world(seed: int, *, failures: bool = False, domains: bool = False) -> World:
    """A random world of nodes of GPUs, beside nodes without some now and then; under a random tree with ``domains``."""
    rng, world = np.random.default_rng((seed, 9)), random_world(seed)
    of_node = int(rng.integers(2, 7))
    parts = [
        part if p and rng.random() < 0.25 else replace(
            part, nodes=int(rng.integers(1, 6)), unit="gpu", sockets_per_node=1, cores_per_socket=1,
            gpus_per_node=of_node if rng.random() < 0.7 else int(rng.integers(1, 7)),
        )
        for p, part in enumerate(world.machine.partitions)
    ]  # fmt: skip
    machine, n = replace(world.machine, partitions=tuple(parts)), len(world.jobs)
    gpus = rng.integers(1, of_node + 1, n)
    nodes = np.where(rng.random(n) < 0.3, rng.integers(1, 4, n), 1)
    gpus = np.where((nodes > 1) | (rng.random(n) < 0.15), nodes * of_node, gpus) * (rng.random(n) < 0.95)
    jobs = replace(world.jobs, nodes=nodes.astype(np.int32), extra={"gpus": gpus.astype(np.float64)})
    jobs = with_units_for_gpus(jobs, machine)
    entries, (first, last) = random_entries(rng, jobs, machine)
    keep = fitting(jobs, machine)[entries.job, entries.partition]
    table = replace(entries, job=entries.job[keep], partition=entries.partition[keep], priority=entries.priority[keep])
    watts, until = world.ready.prediction.power_w, float(jobs.submit_s[-1]) + 200
    cap = Cap.none()
    if rng.random() < 0.7:
        top = float((jobs.nodes[:, np.newaxis] * watts).max())
        times = np.concatenate(([-np.inf], np.sort(rng.uniform(0, until, 2))))
        cap = Cap(times, np.round(rng.uniform(0.8, 2.5, 3) * top + machine.idle_w, 3))
    if domains:
        supply = random_supply(seed, machine, float(watts.max()) * 0.9, until)
        machine = replace(machine, supply=supply)
        time = np.union1d(cap.time_s, [t for domain in supply for t in domain.limit_s[1:]])
        cap = Cap(time, np.asarray(cap.at(time), np.float64))
    return replace(
        world, jobs=jobs, machine=machine, cap=cap, code=PASSES[seed % len(PASSES)],
        ready=replace(world.ready, table=table, options=(first[keep], last[keep])),
        events=random_failures(rng, machine, until) if failures else NodeEvents.none(),
    )  # fmt: skip


def expect_twin(world: World, script: Any = None, ledger: Chance | None = None) -> Run:
    more: dict[str, Any] = {"controls": (Scripted(script, 7.0),)} if script else {}
    simulation = world.simulation(**more, **({} if ledger is None else {"ledger": ledger}))
    simulation.go()
    chance = None if ledger is None else ledger.terms
    naive = NaiveSupply(world.machine, by_node=True)
    twin = world.twin(simulation.truth.reject, script=script, period=7.0, supply=naive, chance=chance)
    run = simulation.result()
    expect_same(run, twin)
    return run


@examples(300)
@given(SEEDS)
def test_every_start_and_gpu_is_the_twins(seed: int) -> None:
    """Of every pass, with and without caps; and no job has GPUs of more nodes than hold them."""
    run = expect_twin(gpu_world(seed))
    for job in np.flatnonzero(run.schedule.ran).tolist():
        part = run.machine.partitions[int(run.machine.option_partition[run.schedule.option[job]])]
        nodes = {int(run.machine.node_of_unit[unit]) for unit in units_of(run.schedule, job)}
        assert part.unit != "gpu" or len(nodes) == -(-int(run.jobs.nodes[job]) // part.units_per_node)


@examples(150)
@given(SEEDS)
def test_under_power_domains(seed: int) -> None:
    """A tree of racks and rows above the nodes, some of them nodes themselves."""
    expect_twin(gpu_world(seed, domains=True))


@examples(60)
@given(SEEDS)
def test_with_failing_nodes_and_margins(seed: int) -> None:
    world = gpu_world(seed, failures=True, domains=seed % 2 == 0)
    ledger = Chance(epsilon=0.05, share=1.2, own=0.1, common=0.02)
    expect_twin(world, ledger=ledger if seed % 3 == 0 and world.code != codes.CONSERVATIVE else None)


@examples(30)
@given(SEEDS)
def test_with_actions_of_controls(seed: int) -> None:
    """Nodes that stop, drain and wake, jobs that are requeued, suspended or started by name."""
    world = gpu_world(seed, domains=seed % 3 == 0)
    expect_twin(world, random_script(seed, world, parking=seed % 2 == 0))


@examples(60)
@given(SEEDS)
def test_whole_nodes_and_single_gpus_start_as_counted_ones(seed: int) -> None:
    """Jobs of whole nodes also get the same GPUs; jobs of one GPU others, those of the fullest nodes."""
    whole = seed % 2 == 0
    world = gpu_world(seed, failures=whole and seed % 3 == 0)  # single GPUs that fail have other jobs
    of_node = [part.units_per_node if part.unit == "gpu" and whole else 1 for part in world.machine.partitions]
    step = int(np.lcm.reduce(of_node))
    nodes = world.jobs.nodes * step if whole else np.ones_like(world.jobs.nodes)
    fits = nodes <= max(part.units for part in world.machine.partitions)
    nodes = np.where(fits, nodes, step).astype(np.int32)
    asked: dict[str, Any] = {"gpus": nodes.astype(np.float64), NODES_ASKED: -(-nodes // max(of_node))}
    by_node, counted = (
        replace(world, jobs=replace(world.jobs, nodes=nodes, extra=extra)) for extra in (asked, dict[str, Any]())
    )
    runs = [one.engine() for one in (by_node, with_entries_of(by_node, counted))]
    assert runs[0].schedule.start_s.tolist() == pytest.approx(runs[1].schedule.start_s.tolist(), nan_ok=True, abs=0)
    if whole:
        for job in range(len(nodes)):
            assert units_of(runs[0].schedule, job) == units_of(runs[1].schedule, job)


def with_entries_of(by_node: World, world: World) -> World:
    """The same world with the entries alone that jobs have where they ask for GPUs."""
    table, (first, last) = world.ready.table, world.ready.options
    keep = fitting(by_node.jobs, world.machine)[table.job, table.partition]
    table = replace(table, job=table.job[keep], partition=table.partition[keep], priority=table.priority[keep])
    return replace(world, ready=replace(world.ready, table=table, options=(first[keep], last[keep])))


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_what_fits_over_all_choices_of_nodes(seed: int) -> None:
    """A job within a node, or of whole nodes, fits where any choice of nodes keeps every limit."""
    rng, of_node = np.random.default_rng(seed), int(np.random.default_rng(seed).integers(2, 5))
    part = Partition("p", int(rng.integers(1, 6)), unit="gpu", idle_w=10.0, max_w=400.0, gpus_per_node=of_node)
    machine = Machine("m", (part,))
    machine = replace(machine, supply=random_supply(seed, machine, 300.0, 1.0))
    supply = supply_limits(
        machine, Prediction(np.full((1, 1), 300.0), np.ones((1, 1))), learns=False,
        of_node=np.array([of_node], np.int32),
    )  # fmt: skip
    naive = NaiveSupply(machine)
    busy = [unit for unit in range(machine.units) if rng.random() < 0.3]
    load = [([unit], int(rng.integers(0, 250)) * 1_000_000, 1.0) for unit in busy]
    room, uw = naive.room(-10.0, naive.idle(range(machine.units)), load), int(rng.integers(0, 300)) * 1_000_000
    if min((one.left(None) for one in room.values()), default=0) < 0:
        return  # a limit that fell below what runs: the naive twin has these
    nodes = [range(k * of_node, (k + 1) * of_node) for k in range(part.nodes)]
    free = [[unit for unit in units if unit not in busy] for units in nodes]
    kept = SupplyLoad(*(one.copy() for one in (supply.free, supply.room, supply.drawn, supply.below, supply.most)))
    for (unit,), watts, share in load:
        supply.leaf[0], supply.take[0] = supply.leaf_of[unit], 1
        take_listed_units(supply, 1, watts, share, 1, kept)
    for need in [*range(1, of_node + 1), *range(of_node * 2, machine.units + 1, of_node)]:
        each = min(need, of_node)
        chosen = itertools.combinations([units[:each] for units in free if len(units) >= each], -(-need // of_node))
        taken = [naive.taken(list(itertools.chain(*some)), uw).items() for some in chosen]
        holds = any(all(room[name].left(None, watts) >= 0 for name, watts in one) for one in taken)
        assert bool(nodes_hold_load(supply, 0, need, uw, kept)) == holds, need


@examples(30)
@given(SEEDS)
def test_fragmented_gpus_are_those_of_single_nodes(seed: int) -> None:
    run = gpu_world(seed).engine()
    jobs, schedule, machine = run.jobs, run.schedule, run.machine
    found, ran = fragmented_gpus(jobs, schedule, machine), schedule.ran
    by_node = [part.units_per_node * (part.unit == "gpu") for part in machine.partitions]
    if not ran.any() or max(by_node) < 2:
        assert found is None
        return
    begin, end = float(jobs.submit_s.min()), float(schedule.end_s[ran].max())
    times, total = sorted({begin, *jobs.submit_s, *schedule.start_s[ran], *schedule.end_s[ran]}), 0.0
    for now, later in itertools.pairwise(t for t in times if begin <= t <= end):
        waiting = [j for j in np.flatnonzero(ran).tolist() if jobs.submit_s[j] <= now < schedule.start_s[j]]
        running = [j for j in np.flatnonzero(ran).tolist() if schedule.start_s[j] <= now < schedule.end_s[j]]
        busy = {unit for j in running for unit in units_of(schedule, j)}
        if waiting:
            job = min(waiting, key=lambda j: (jobs.submit_s[j], j))
            p = int(machine.option_partition[schedule.option[job]])
            size = by_node[p]
            for low in range(int(machine.unit_start[p]), int(machine.unit_start[p + 1]), max(size, 1)):
                free = size - len(busy & set(range(low, low + size)))
                if 0 < free < min(int(jobs.nodes[job]), size):
                    total += free * (later - now)
    assert found == (pytest.approx(total / (end - begin)) if end > begin else None)


def test_why_a_job_waited_for_a_node() -> None:
    """Two nodes of four GPUs, three of each in use: two are free, and a job of two waits for nodes, not its turn."""
    machine = Machine("m", (Partition("gpu", 2, unit="gpu", idle_w=50.0, max_w=400.0, gpus_per_node=4),))
    jobs = Jobs.build([0.0, 0.0, 1.0], [1, 1, 1], [9.0, 5.0, 5.0], extra={"gpus": np.array([3.0, 3.0, 2.0])})
    run = simulate(with_units_for_gpus(jobs, machine), machine, load_policy("easy"))
    assert run.schedule.start_s.tolist() == [0.0, 0.0, 5.0]
    held = holds_of(run.jobs, run.schedule, machine, Cap.none(), 2)
    assert [(one.begin_s, one.end_s, one.cause) for one in held] == [(1.0, 5.0, UNITS)]
    assert fragmented_gpus(run.jobs, run.schedule, machine) == pytest.approx(2 * 4.0 / 10.0)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"placement": {"part": "lowest", "racks": 2}}, "a placement that chooses racks"),
        ({"placement": "watt-balanced"}, "a placement that chooses racks"),
        ({}, "a placement that ranks units"),
    ],
)
def test_what_is_not_combined_is_refused_by_name(choice: dict[str, Any], words: str) -> None:
    machine = Machine("m", (Partition("gpu", 4, unit="gpu", idle_w=50.0, max_w=400.0, gpus_per_node=4),))
    jobs = with_units_for_gpus(Jobs.build([0.0], [1], [9.0], extra={"gpus": np.array([2.0])}), machine)
    policy = load_policy("easy", **choice)
    if not choice:
        policy = replace(policy, placement=Ranks(np.arange(16.0)[np.newaxis]))
    with pytest.raises(PolicyError, match=f"GPUs of gpu, which gives them node by node.*{words}"):
        simulate(jobs, machine, policy)
