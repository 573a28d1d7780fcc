"""The exact pass under power domains: against the naive twin, over all subsets, and by what must hold in any run."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import most_under_supply, take_listed_units
from tests.profiles import examples
from tests.reference.meter import Meter
from tests.reference.site_meter import NaiveSiteMeter
from tests.reference.supply import NaiveSupply
from tests.sim.invariants import units_of
from tests.sim.test_against_twin import (
    SEEDS,
    Scripted,
    expect_same,
    moving_cap,
    random_script,
    targeted_world,
    with_consent,
)
from tests.sim.test_in_flight_ledger import in_flight_world
from tests.sim.test_measured_ledger import measured_world, twin_meter
from tests.sim.workloads import Ready, World, random_world
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.kernels import codes
from wattqueue.kernels.state import SupplyLoad
from wattqueue.kernels.supply_load import MARGIN
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.schedule import Reason, State
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.model.supply_binding import can_bind
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.ledger.adaptive import Adaptive
from wattqueue.parts.ledger.chance import Chance
from wattqueue.parts.ledger.in_flight import InFlight
from wattqueue.parts.ledger.measured import Measured
from wattqueue.policy.capabilities import GREEDY
from wattqueue.policy.policy import load_policy
from wattqueue.policy.supply import greatest_unit_w, supply_limits
from wattqueue.sim.engine import Run, simulate

PASSES = (
    codes.NO_BACKFILL, codes.FIRST_FIT, codes.EASY, codes.EASY, codes.EASY, codes.LAST_END, codes.SHORTEST,
    codes.CONSERVATIVE, codes.CONSERVATIVE,
)  # fmt: skip


def random_supply(seed: int, machine: Machine, most_w: float, until_s: float) -> tuple[SupplyDomain, ...]:
    """A tree of racks (runs of nodes, of several partitions now and then) below rows and feeds, mostly tight."""
    rng = np.random.default_rng((seed, 34))
    nodes = [f"{part.name}[{k}]" for part in machine.partitions for k in range(1, part.nodes + 1)]
    if rng.random() < 0.2:
        rng.shuffle(nodes)
    racks = int(rng.integers(1, min(6, len(nodes)) + 1))
    cuts = [0, *sorted(rng.choice(np.arange(1, len(nodes)), racks - 1, replace=False).tolist()), len(nodes)]
    rows, feeds = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    row_eff, feed_eff, rack_eff = (float(rng.choice([1.0, 0.97, 0.9])) for _ in range(3))
    found = []
    for k in range(racks):
        parent = f"row{rng.integers(rows)}" if rows else f"feed{rng.integers(feeds)}" if feeds else ""
        found.append(SupplyDomain(name=f"rack{k}", parent=parent, nodes=",".join(nodes[cuts[k] : cuts[k + 1]]),
                                  efficiency=rack_eff))  # fmt: skip
    used = {domain.parent for domain in found}
    for k in range(rows):
        if f"row{k}" in used:
            parent = f"feed{rng.integers(feeds)}" if feeds else ""
            found.append(
                SupplyDomain(name=f"row{k}", parent=parent, efficiency=row_eff, base_w=float(rng.integers(20)))
            )
            used.add(parent)
    found += [SupplyDomain(name=f"feed{k}", efficiency=feed_eff) for k in range(feeds) if f"feed{k}" in used]
    tree = replace(machine, supply=tuple(found)).supply_tree
    idle = [part.idle_w if machine.cap_scope == "machine" else 0.0 for part in machine.partitions]
    least = dict(zip((one.name for one in tree.domains), tree.input_uw(idle) / 1e6, strict=True))
    full = dict(zip((one.name for one in tree.domains), tree.input_uw([most_w] * len(idle)) / 1e6, strict=True))
    limited = []
    for domain in found:
        low = least[domain.name] + 0.01
        high = max(full[domain.name], low + 1.0)
        kind = rng.random()
        if kind < 0.6:
            watts = float(np.round(low + rng.uniform(0.1, 1.1) * (high - low), 2))
            domain = replace(domain, limit_w=watts)
        elif kind < 0.85:
            times = (-5.0, *sorted({float(np.floor(t)) for t in rng.uniform(0, until_s, int(rng.integers(1, 4)))}))
            watts_at = tuple(float(np.round(low + rng.uniform(0.0, 1.1) * (high - low), 2)) for _ in times)
            domain = replace(domain, limit_s=times, limits_w=watts_at)
        limited.append(domain)
    return tuple(limited)


def supplied_world(seed: int, *, failures: bool = False) -> World:
    """A random world under a random tree, of every pass that tests domains."""
    return under_supply(seed, random_world(seed, failures=failures))


def under_supply(seed: int, world: World) -> World:
    """The same world under a random tree, with a pass that tests domains, and narrower jobs."""
    prediction = world.ready.prediction.power_w
    supply = random_supply(seed, world.machine, float(prediction.max()) * 0.9, float(world.jobs.submit_s[-1]) + 200)
    machine = replace(world.machine, supply=supply)
    times = [t for domain in supply for t in domain.limit_s[1:]]
    time = np.union1d(world.cap.time_s, times)
    cap = Cap(time, np.asarray(world.cap.at(time), np.float64))
    world = replace(world, machine=machine, cap=cap, code=PASSES[seed % len(PASSES)])
    # Three jobs of four have half the units: wide ones alone would see little of a tree.
    nodes = world.jobs.nodes.copy()
    nodes[seed % 4 :: 2] = np.maximum(nodes[seed % 4 :: 2] // 3, 1)
    return replace(world, jobs=replace(world.jobs, nodes=nodes))


def expect_twin(
    world: World, script: Any = None, ledger: Chance | InFlight | Measured | None = None, meter: Meter | None = None
) -> Run:
    more: dict[str, Any] = {"controls": (Scripted(script, 7.0),)} if script else {}
    simulation = world.simulation(**more, **({} if ledger is None else {"ledger": ledger}))
    simulation.go()
    run, naive = simulation.result(), NaiveSupply(world.machine)
    chance = None if ledger is None else ledger.terms
    meter = None if meter is None else twin_meter(meter, simulation)
    twin = world.twin(simulation.truth.reject, script=script, period=7.0, supply=naive, chance=chance, meter=meter)
    expect_same(run, twin)
    return run


@examples(200)
@given(SEEDS)
def test_every_start_and_unit_is_the_twins(seed: int) -> None:
    expect_twin(supplied_world(seed))


@examples(60)
@given(SEEDS)
def test_candidates_that_a_search_leaves_out_would_delay_the_reservation(seed: int) -> None:
    """Many jobs that wait while racks bind: most outlive the shadow time, and are left out by what racks have left."""
    rng, n = np.random.default_rng((seed, 8)), 40
    racks, size = (int(k) for k in rng.integers(2, 7, 2))
    part = Partition("p", racks * size, idle_w=float(rng.choice([0.0, 20.0])), max_w=200.0)
    limits = rng.uniform(0.3, 0.8, racks) if seed % 2 else np.full(racks, rng.uniform(0.3, 0.8))
    supply = tuple(
        SupplyDomain(name=f"r{k}", nodes=f"p[{k * size + 1}-{k * size + size}]", limit_w=round(200.0 * size * share, 3))
        for k, share in enumerate(limits.tolist())
    )
    machine, runtime = Machine("m", (part,), supply=supply), np.round(rng.exponential(60.0, n) + 5.0)
    jobs = Jobs.build(
        np.sort(np.round(rng.uniform(0, 30.0, n))), rng.integers(1, max(2, racks * size // 2), n), runtime,
        walltime_s=np.round(runtime * rng.uniform(1, 4, n)),
    )  # fmt: skip
    watts = Prediction(np.round(part.idle_w + rng.uniform(5.0, 150.0, (n, 1)), 1), np.ones((1, 1)))
    every, zero = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ready = Ready(watts, Entries(every, zero, np.zeros(n)), (zero, zero))
    world = replace(
        random_world(seed), jobs=jobs, machine=machine, ready=ready, actual=watts, cap=Cap.none(), depth=0,
        code=codes.SHORTEST if seed % 3 == 0 else codes.EASY,
    )  # fmt: skip
    expect_twin(world)


@examples(60)
@given(SEEDS)
def test_with_failing_nodes(seed: int) -> None:
    expect_twin(supplied_world(seed, failures=True))


@examples(100)
@given(SEEDS)
def test_with_load_targets(seed: int) -> None:
    """Load targets limit the machine beside its domains, of options for use in targets and by consent, too."""
    world = under_supply(seed, targeted_world(seed))
    expect_twin(
        replace(world, ready=replace(world.ready, by_target=seed % 4 == 1 and world.code != codes.CONSERVATIVE))
    )


@examples(60)
@given(SEEDS)
def test_looking_ahead_to_lower_limits_of_domains(seed: int) -> None:
    """Caps, targets and falling limits of domains, of every pass; a conservative plan follows those of the machine."""
    world = targeted_world(seed, ramps=seed % 2 == 0)
    world = replace(world, cap=moving_cap(seed, world), targets=None if seed % 3 == 1 else world.targets)
    world = falling(seed, under_supply(seed, world))
    world = replace(world, code=(codes.CONSERVATIVE, codes.EASY, codes.SHORTEST, world.code)[seed % 4], all_limits=True)
    slowed = seed % 3 == 0 and world.code != codes.CONSERVATIVE
    world = replace(
        world, depth=seed % 6 if seed % 5 == 0 else 0,
        looks_ahead=codes.AHEAD_SLOWED if slowed else codes.AHEAD_AS_RUN,
    )  # fmt: skip
    margin = seed % 7 < 2 and world.code != codes.CONSERVATIVE
    ledger = Chance(epsilon=0.05, share=1.0 + seed % 3 * 0.2, own=0.1, common=0.02) if margin else None
    expect_twin(world, random_script(seed, world, parking=seed % 2 == 0) if seed % 5 < 2 else None, ledger)


def falling(seed: int, world: World) -> World:
    """The same world in which every limit of a domain falls several times while jobs run."""
    rng, supply = np.random.default_rng((seed, 6)), []
    for one in world.machine.supply:
        low = one.least_limit_w
        if low < np.inf and rng.random() < 0.8:
            times = (-5.0, *sorted({float(np.floor(t)) for t in rng.uniform(0, 300, int(rng.integers(1, 6)))}))
            watts = tuple(float(np.round(low * rng.uniform(1.0, 1.8), 2)) for _ in times)
            known = tuple(t - float(rng.integers(0, 60)) for t in times) if rng.random() < 0.5 else ()
            one = replace(one, limit_w=None, limit_s=times, limits_w=watts, known_s=known)
        supply.append(one)
    machine = replace(world.machine, supply=tuple(supply))
    nothing = Prediction(np.zeros((1, len(machine.option_partition))), np.ones((1, len(machine.option_partition))))
    stated = can_bind(machine, greatest_unit_w(machine, nothing, learns=True))
    bound = {one.name for one, binds in zip(machine.supply_tree.domains, stated, strict=True) if binds}
    supply = [one if one.name in bound else constant_domain(one) for one in supply]  # others are refused (rule 22)
    times_s = [t for one in supply for t in one.limit_s[1:]]
    time = np.union1d(world.cap.time_s, times_s)
    cap = Cap(time, np.asarray(world.cap.at(time), np.float64))
    return replace(world, machine=replace(machine, supply=tuple(supply)), cap=cap)


@examples(100)
@given(SEEDS)
def test_conservative_plans_test_domains_where_a_place_is_now(seed: int) -> None:
    expect_twin(replace(supplied_world(seed, failures=seed % 3 == 0), code=codes.CONSERVATIVE))


@examples(150)
@given(SEEDS)
def test_device_limits_and_other_actions_on_running_jobs_and_nodes(seed: int) -> None:
    """What slows, suspends, requeues, stops or wakes changes every domain on the path, or is refused there."""
    world = with_consent(seed, supplied_world(seed, failures=seed % 2 == 0))
    expect_twin(world, random_script(seed, world, parking=seed % 3 == 0))


@examples(150)
@given(SEEDS, st.floats(0.5, 2.0), st.floats(0.0, 0.5), st.floats(0.0, 0.1))
def test_each_domain_keeps_the_margin_of_its_own_jobs(seed: int, share: float, own: float, common: float) -> None:
    world = supplied_world(seed, failures=seed % 4 == 0)
    if world.code == codes.CONSERVATIVE:
        world = replace(world, code=codes.EASY)
    ledger = Chance(epsilon=0.05, share=share, own=own, common=common)
    script = random_script(seed, world, parking=seed % 2 == 0) if seed % 3 == 0 else None
    expect_twin(world, script, ledger=ledger)


@pytest.mark.compiled
@given(SEEDS)
def test_predictions_that_readings_correct(seed: int) -> None:
    """The in-flight ledger, its margin by domain, among random actions."""
    world, ledger, meter = in_flight_world(seed)
    world = under_supply(seed, world)
    if ledger.deviations and world.code == codes.CONSERVATIVE:
        world = replace(world, code=codes.EASY)
    script = random_script(seed, world, parking=seed % 2 == 0) if seed % 3 else None
    expect_twin(world, script, ledger, meter)


@pytest.mark.compiled
@given(SEEDS)
def test_domains_count_each_unit_by_its_sensor(seed: int) -> None:
    """The measured ledger by unit, its margin by domain, among random actions; sensors are noisy and lose readings."""
    world, ledger, meter = measured_world(seed)
    world = under_supply(seed, world)
    if seed % 4:  # in truth units draw very different watts, and most readings come soon
        rng = np.random.default_rng((seed, 12))
        jobs = replace(world.jobs, app=Labels(np.zeros(len(world.jobs), np.int32), ("cg",)))
        factor = rng.uniform(0.2, 1.4, (1, world.machine.units))
        world = replace(
            world, jobs=jobs, actual=replace(world.actual, unit_factor=factor), cap=replace_watts(world.cap)
        )
    if ledger.deviations and world.code not in GREEDY:
        world = replace(world, code=codes.EASY)
    script = random_script(seed, world, parking=seed % 2 == 0) if seed % 3 else None
    expect_twin(world, script, ledger, meter)


@examples(10)
@given(SEEDS)
def test_a_margin_that_the_meter_of_the_machine_moves(seed: int) -> None:
    """The adaptive ledger: its share and its standard deviations hold in every domain."""
    rng = np.random.default_rng((seed, 2))
    world = supplied_world(seed, failures=seed % 3 == 0)
    if world.code == codes.CONSERVATIVE:
        world = replace(world, code=codes.EASY)
    ledger = Adaptive(
        epsilon=0.05, window_days=0.002, aim=0.5, gain=float(rng.uniform(0.0, 10.0)),
        begin=float(rng.uniform(0.0, 3.0)), forget_s=30.0, own=0.05, common=0.01, meter_s=10.0, late=1,
    )  # fmt: skip
    simulation = world.simulation(ledger=ledger)
    site = NaiveSiteMeter(ledger, simulation.parts.meter.normal.tolist())
    simulation.go()
    more = {"chance": ledger.terms, "site": site, "supply": NaiveSupply(world.machine)}
    expect_same(simulation.result(), world.twin(simulation.truth.reject, **more))


def constant(world: World) -> World:
    """The same world with limits that never move, without a cap, and with true predictions."""
    supply = tuple(constant_domain(one) for one in world.machine.supply)
    return replace(
        world,
        machine=replace(world.machine, supply=supply),
        cap=Cap.none(),
        actual=world.ready.prediction,
        interval_s=0.0,
    )


@examples(100)
@given(SEEDS)
def test_no_domain_is_above_its_limit_and_every_job_that_fits_ends(seed: int) -> None:
    """Safety and its liveness twin: limits that never move."""
    world = constant(supplied_world(seed))
    run = expect_twin(world)
    left = ~run.schedule.ran
    assert set(run.schedule.reason[left].tolist()) <= {Reason.SUPPLY, Reason.TOO_WIDE}
    expect_below_limits(run, world)


@examples(60)
@given(SEEDS)
def test_looking_ahead_no_falling_limit_is_ever_exceeded_and_what_fits_at_last_ends(seed: int) -> None:
    """Safety and its liveness twin: limits that fall, announced from the beginning, and true predictions."""
    world = falling(seed, supplied_world(seed))
    supply = tuple(replace(one, known_s=()) for one in world.machine.supply)
    code = (codes.EASY, codes.SHORTEST, codes.FIRST_FIT, codes.CONSERVATIVE)[seed % 4]
    world = replace(
        world, machine=replace(world.machine, supply=supply), cap=replace_watts(world.cap), code=code, depth=0,
        actual=world.ready.prediction, interval_s=0.0, all_limits=True, looks_ahead=codes.AHEAD_AS_RUN,
    )  # fmt: skip
    run = expect_twin(world)
    falls = [t for one in supply for t in one.limit_s]
    expect_below_limits(run, world, *falls)
    schedule, naive, everything = run.schedule, NaiveSupply(world.machine), range(world.machine.units)
    at_last = naive.room(max([0.0, *falls]), naive.idle(everything), [])
    for job in np.flatnonzero(~schedule.ran) if len(world.machine.partitions) == 1 else ():
        prediction, idle = world.ready.prediction, world.machine.partitions[0].idle_w
        most = float(prediction.power_w[prediction.rows(np.array([job]))].max())
        each = round(max(most - (0.0 if world.machine.cap_scope == "jobs" else idle), 0.0) * 1e6)
        fits = naive.choose(everything, int(world.jobs.nodes[job]), each, at_last) is not None
        assert not fits or schedule.state[job] == State.REJECTED


def expect_below_limits(run: Run, world: World, *times_s: float) -> None:
    """No domain is above its limit at any start, and at some other times."""
    schedule, naive, everything = run.schedule, NaiveSupply(world.machine), range(world.machine.units)
    for now in [*schedule.start_s[schedule.ran].tolist(), *times_s]:
        running = np.flatnonzero(schedule.ran & (schedule.start_s <= now) & (schedule.end_s > now))
        load = [(units_of(schedule, int(job)), unit_net_uw(run, int(job), world), 1.0) for job in running]
        room = naive.room(float(now), naive.idle(everything), load)
        assert min(one.left(None) for one in room.values()) >= 0


def replace_watts(cap: Cap) -> Cap:
    """The same times, without a limit."""
    return Cap(cap.time_s, np.full(len(cap.time_s), np.inf))


def constant_domain(one: SupplyDomain) -> SupplyDomain:
    """The domain with its first limit for ever."""
    return replace(one, limit_w=one.limits_w[0], limit_s=(), limits_w=(), known_s=()) if one.limit_s else one


def unit_net_uw(run: Run, job: int, world: World) -> int:
    """What the ledger counts for a unit of a job."""
    option = int(run.schedule.option[job])
    idle = world.machine.partitions[int(world.machine.option_partition[option])].idle_w
    watts = float(world.ready.prediction.watts(np.array([job]), option)[0])
    return max(round(watts * 1e6) - (0 if world.machine.cap_scope == "jobs" else round(idle * 1e6)), 0)


@examples(100)
@given(SEEDS)
def test_a_tree_that_never_binds_costs_nothing(seed: int) -> None:
    """Limits at the greatest watts of all units: not in the pass, the same starts and the same units."""
    world = supplied_world(seed)
    tree = world.machine.supply_tree
    most = float(world.ready.prediction.power_w.max())
    parts = [max(most, 400.0, 70.0)] * len(world.machine.partitions)
    full = dict(zip((one.name for one in tree.domains), tree.input_uw(parts), strict=True))
    slack = tuple(replace(one, limit_w=full[one.name] / 1e6, limit_s=(), limits_w=()) for one in world.machine.supply)
    bare = replace(world, machine=replace(world.machine, supply=()))
    simulation = replace(world, machine=replace(world.machine, supply=slack)).simulation()
    assert not len(simulation.view.supply.parent)
    simulation.go()
    run, plain = simulation.result(), bare.engine()
    np.testing.assert_array_equal(run.schedule.start_s, plain.schedule.start_s)
    for job in range(len(world.jobs)):
        assert units_of(run.schedule, job) == units_of(plain.schedule, job)


@examples(100)
@given(SEEDS)
def test_a_chain_of_single_domains_is_one_cap(seed: int) -> None:
    """The limit of a contract over the whole machine, the last of three in a row, is the cap of the same watts."""
    rng = np.random.default_rng((seed, 1))
    world = supplied_world(seed)
    if world.code == codes.CONSERVATIVE:  # domains are tested where a place is now, the cap at every place
        world = replace(world, code=codes.EASY)
    parts = tuple(replace(part, max_w=700.0) for part in world.machine.partitions)
    machine = replace(world.machine, partitions=parts, supply=())
    full = sum(part.units * 300.0 for part in parts) + machine.scope_idle_w()
    watts = float(np.round(machine.scope_idle_w() + 1.0 + rng.uniform(0.1, 1.0) * full, 2))
    chain = (
        SupplyDomain(name="a", nodes=",".join(part.name for part in parts), parent="b"),
        SupplyDomain(name="b", parent="c"), SupplyDomain(name="c", limit_w=watts),
    )  # fmt: skip
    under = replace(world, machine=replace(machine, supply=chain), cap=Cap.none(), actual=world.ready.prediction)
    capped = replace(under, machine=machine, cap=Cap.constant(watts))
    run, plain = expect_twin(under), capped.engine()
    np.testing.assert_array_equal(run.schedule.start_s, plain.schedule.start_s)
    for job in range(len(world.jobs)):
        assert units_of(run.schedule, job) == units_of(plain.schedule, job)


@examples(60)
@given(SEEDS)
def test_no_promised_start_is_late_with_true_run_times(seed: int) -> None:
    """One partition, EASY: the head of the queue starts at its shadow time or earlier, in every domain."""
    worlds = (supplied_world(seed + k) for k in itertools.count())
    plain = (one for one in worlds if len(one.machine.partitions) == 1 and not one.ready.table.priority.any())
    world = constant(next(plain))
    jobs = world.jobs
    jobs = replace(jobs, runtime_s=jobs.walltime_s.copy())
    runtime = load_policy("easy", runtime="true-runtime").runtime
    run = replace(world, jobs=jobs, code=codes.EASY, depth=0, runtime=runtime).engine()
    assert run.promised_s is not None
    late = run.schedule.start_s - run.promised_s
    assert np.nanmax(late, initial=-np.inf) <= 1e-6  # ends at another clock are rounded (rule 1)


@examples(150)
@given(st.integers(0, 2**32 - 1))
def test_most_units_that_fit_over_all_subsets(seed: int) -> None:
    """The rank from the bottom up is the largest of all sets of free units that no limit forbids."""
    rng = np.random.default_rng(seed)
    machine = Machine("m", (Partition("p", int(rng.integers(2, 9)), idle_w=10.0, max_w=400.0),))
    machine = replace(machine, supply=random_supply(seed, machine, 300.0, 1.0))
    supply = supply_limits(machine, Prediction(np.full((1, 1), 300.0), np.ones((1, 1))), learns=False)
    naive, units = NaiveSupply(machine), range(machine.units)
    busy = [unit for unit in units if rng.random() < 0.3]
    load = [([unit], int(rng.integers(0, 250)) * 1_000_000, 1.0) for unit in busy]
    room = naive.room(-10.0, naive.idle(units), load)
    free, uw = [unit for unit in units if unit not in busy], int(rng.integers(0, 300)) * 1_000_000
    terms = None if seed % 2 else (float(rng.choice([0.8, 1.0, 1.3])), float(rng.choice([0.05, 0.5])), 0.02)
    best = max(
        len(chosen)
        for k in range(len(free) + 1)
        for chosen in itertools.combinations(free, k)
        if not chosen or all(room[name].left(terms, watts) >= 0 for name, watts in naive.taken(chosen, uw).items())
    )
    if not len(supply.parent):
        assert terms or best == len(free)
        return
    if min(one.left(None) for one in room.values()) < 0:
        return  # a limit that fell below what runs: the naive twin has these
    kept = SupplyLoad(supply.free.copy(), supply.room.copy(), supply.drawn.copy(), supply.below, supply.most)
    if terms:
        supply.marks[MARGIN], supply.terms[:] = 1, terms
    for (unit,), watts, share in load:
        supply.leaf[0], supply.take[0] = supply.leaf_of[unit], 1
        take_listed_units(supply, 1, watts, share, 1, kept)
    assert most_under_supply(supply, 0, uw, kept) == best


@pytest.mark.compiled
@pytest.mark.parametrize("limit_w", [2000.0, 1500.0])
def test_a_real_trace_under_racks(data_dir: Path, limit_w: float) -> None:
    """KTH-SP2 in ten racks of ten nodes: the same starts and nodes where 2 kW never bind; later starts under 1.5 kW."""
    jobs = read_swf(data_dir / "swf" / "KTH-SP2.swf.gz").jobs
    watts = np.random.default_rng(7).uniform(60.0, 200.0, len(jobs)).round()
    watts[jobs.nodes > 60] = 150.0  # hotter ones would never fit
    jobs = replace(jobs, mean_power_w=watts, max_power_w=watts)
    racks = tuple(
        SupplyDomain(name=f"r{k}", nodes=f"p[{10 * k + 1}-{10 * k + 10}]", limit_w=limit_w) for k in range(10)
    )
    bare = Machine("kth", (Partition("p", 100, idle_w=50.0, max_w=200.0),))
    policy = load_policy("easy", estimator="oracle-mean")
    plain, run = (simulate(jobs, replace(bare, supply=tree), policy) for tree in ((), racks))
    assert run.schedule.ran.all()
    equal = np.array_equal(run.schedule.start_s, plain.schedule.start_s)
    assert equal == (limit_w == 2000.0)
    if equal:
        assert np.array_equal(run.schedule.unit_low, plain.schedule.unit_low)
        assert np.array_equal(run.schedule.unit_high, plain.schedule.unit_high)
    else:
        assert run.schedule.start_s.mean() > plain.schedule.start_s.mean()
        assert greatest_rack_w(run, 10) <= limit_w + 1e-6


def greatest_rack_w(run: Run, size: int) -> float:
    """The most that any ten neighbouring nodes draw together at any time, idle ones included."""
    schedule, watts = run.schedule, run.jobs.mean_power_w
    assert watts is not None
    first = np.repeat(schedule.unit_start, schedule.unit_count)
    row = (
        first
        + np.arange(len(first))
        - np.repeat(np.cumsum(schedule.unit_count) - schedule.unit_count, schedule.unit_count)
    )
    job = np.repeat(np.arange(len(run.jobs)), schedule.unit_count)
    low, high = schedule.unit_low[row], schedule.unit_high[row]
    found = 0.0
    for rack in range(run.machine.units // size):
        units = np.clip(np.minimum(high, rack * size + size - 1) - np.maximum(low, rack * size) + 1, 0, None)
        above = units * (watts[job] - 50.0)
        time = np.concatenate((schedule.end_s[job], schedule.start_s[job]))  # at one time ends come first
        order = np.argsort(time, kind="stable")
        found = max(found, size * 50.0 + float(np.cumsum(np.concatenate((-above, above))[order]).max()))
    return found
