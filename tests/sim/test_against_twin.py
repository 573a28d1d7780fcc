"""The engine against its naive twin: every start, end and unit, on random worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.reference.simulator import Simulator, integral_j
from tests.sim.invariants import check_invariants, units_of
from tests.sim.workloads import NAMES, World, bounded_world, random_world, shortest_world
from wattqueue.kernels import codes
from wattqueue.model.consent import Consent
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import (
    Action,
    DelayStart,
    DrainNode,
    Requeue,
    Resume,
    SetDeviceLimits,
    SetFrequency,
    StopNode,
    Suspend,
    WakeNode,
)
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run

SEEDS = st.integers(0, 2**32 - 1)


class Scripted:
    """A control that does what a script says, tick by tick."""

    events: frozenset[str] = frozenset()
    delays = True

    def __init__(self, script: Any, period_s: float) -> None:
        self.script, self.period_s, self.ticks = script, period_s, 0

    @property
    def holds_starts(self) -> bool:
        """Whether nothing starts beside running jobs, by the script's ``holds``."""
        return bool(self.ticks and getattr(self.script, "holds", lambda _: False)(self.ticks - 1))

    def act(self, view: View) -> Sequence[Action]:
        self.ticks += 1
        actions: Sequence[Action] = self.script(self.ticks - 1)
        return actions


def expect_same(run: Run, twin: Simulator) -> None:
    np.testing.assert_array_equal(run.schedule.state, twin.state)
    assert {job: int(run.schedule.reason[job]) for job in twin.never} == twin.never
    margin = run.schedule.margin_w if run.schedule.margin_w is not None else np.full(len(run.jobs), np.nan)
    found = {job: round(margin[job] * 1e6) for job in np.flatnonzero(~np.isnan(margin)).tolist()}
    assert found == twin.margin_uw
    ran = run.schedule.ran
    np.testing.assert_array_equal(run.schedule.start_s[ran], np.array(twin.start)[ran])
    np.testing.assert_array_equal(run.schedule.end_s[ran], np.array(twin.end)[ran])
    for job in np.flatnonzero(ran):
        assert units_of(run.schedule, int(job)) == twin.units[job]
    # A job that stays suspended is billed up to the end of the run, where nothing moves any more: that end has no rule.
    over = ~np.isin(np.arange(len(run.jobs)), [r.job for r in twin.running])
    np.testing.assert_allclose(run.schedule.energy_j[over], np.array(twin.energy)[over], rtol=1e-9, atol=1e-6)
    if ran.any():
        power = run.power
        ours = np.sum(np.diff(power.time_s) * power.machine_w[:-1])
        within = [step for step in twin.steps if jobs_time(run)[0] <= step[0] <= jobs_time(run)[1]]
        theirs = integral_j(within, 1) + integral_j(within, 2)
        assert ours == pytest.approx(theirs, rel=1e-9)


def jobs_time(run: Run) -> tuple[float, float]:
    return float(run.jobs.submit_s.min()), float(np.nanmax(run.schedule.end_s))


def run_both(world: World, script: Any = None) -> tuple[Run, Simulator]:
    """Run the engine and its twin, with a control that does what a script says every 7 s, where there is one."""
    more = {"controls": (Scripted(script, 7.0),)} if script else {}
    simulation = world.simulation(**more)
    simulation.go()
    run = simulation.result()
    twin = world.twin(simulation.truth.reject, script=script, period=7.0)
    return run, twin


def expect_twins(world: World, script: Any = None) -> None:
    """Run both; starts, ends and units are equal, and the invariants of any run hold."""
    run, twin = run_both(world, script)
    expect_same(run, twin)
    check_invariants(run)


@given(SEEDS)
def test_every_start_is_the_twins(seed: int) -> None:
    expect_twins(random_world(seed))


@given(SEEDS)
def test_with_the_pass_of_cwm(seed: int) -> None:
    expect_twins(bounded_world(seed, failures=seed % 3 == 0))


@given(SEEDS)
def test_shortest_first_behind_the_reservations(seed: int) -> None:
    world = shortest_world(seed, failures=seed % 3 == 0)
    expect_twins(world, script_if_odd(seed, world))


@given(SEEDS)
def test_with_the_pass_of_cwm_and_random_actions(seed: int) -> None:
    world = bounded_world(seed)
    run, twin = run_both(world, random_script(seed, world))
    expect_same(run, twin)


@given(SEEDS)
def test_with_failing_nodes(seed: int) -> None:
    run, twin = run_both(random_world(seed, failures=True))
    expect_same(run, twin)


@given(SEEDS)
def test_with_random_actions(seed: int) -> None:
    world = with_consent(seed, random_world(seed, failures=seed % 2 == 0))
    expect_twins(world, random_script(seed, world))


@pytest.mark.compiled  # many ticks: as plain Python each world takes some seconds
@examples(20)
@given(SEEDS)
def test_with_phases_under_limits(seed: int) -> None:
    """True watts walk through random profiles, while limits come and go on sockets that jobs share."""
    rng = np.random.default_rng(seed)
    world = random_world(seed, failures=seed % 3 == 0)
    samples = [rng.uniform(0.0, 300.0, int(rng.integers(0, 12))) for _ in range(len(world.jobs))]
    samples[0] = np.array([250.0, 50.0])
    jobs = replace(world.jobs, profiles=PowerProfiles.from_samples(samples, period_s=float(rng.choice([7.0, 20.0]))))
    world = replace(world, jobs=jobs, phases_s=float(rng.choice([10.0, 12.5, 40.0])))
    expect_twins(world, random_script(seed, world))


@given(SEEDS)
@example(8006039)  # a job that nothing resumes
def test_with_jobs_that_are_suspended_and_nodes_that_drain(seed: int) -> None:
    world = random_world(seed, failures=seed % 2 == 0)
    expect_twins(world, random_script(seed, world, parking=True))


@given(SEEDS)
@example(1289212)  # a delay until a time that is over
def test_with_starts_that_are_delayed(seed: int) -> None:
    """Of every pass: delayed jobs stand back, as far as their users consent, among other random actions."""
    world = with_consent(seed, random_world(seed, failures=seed % 3 == 0))
    consent, n = world.jobs.consent, len(world.jobs)
    assert consent is not None
    latest = np.where(np.arange(n) % 3 == 0, np.nan, world.jobs.submit_s + 3.0 * world.jobs.walltime_s + 200.0)
    jobs = replace(world.jobs, consent=replace(consent, latest_end_s=latest))
    world = replace(world, jobs=jobs, code=codes.SHORTEST if seed % 5 == 0 else world.code)
    plain = random_script(seed, world)

    def script(tick: int) -> Sequence[Action]:
        rng = np.random.default_rng((seed, tick, 7))
        late = [
            DelayStart(str(int(rng.integers(n)) + 1), float(rng.integers(0, 900))) for _ in range(int(rng.integers(3)))
        ]
        return [*late, *(plain(tick) if seed % 2 else ())] if tick < 60 else plain(tick)

    expect_twins(world, script)


@given(SEEDS)
def test_with_a_control_that_holds_starts(seed: int) -> None:
    """For some ticks nothing starts beside running jobs; where nothing runs, something does."""
    world = random_world(seed, failures=seed % 3 == 0)
    script = random_script(seed, world, parking=seed % 2 == 0)
    script.holds = lambda tick: tick <= 60 and bool(np.random.default_rng((seed, tick, 1)).random() < 0.5)
    expect_twins(world, script)


@given(SEEDS)
@example(2174420)  # a job whose window without its consent fits under no cap: it holds no head of the queue
def test_with_windows_by_load_target(seed: int) -> None:
    """During a target jobs start at the last option of their window, at other times at the first."""
    world = targeted_world(seed)
    world = replace(world, ready=replace(world.ready, by_target=True))
    expect_twins(world, script_if_odd(seed, world))


@given(SEEDS)
def test_with_options_for_use_in_targets_behind_the_window(seed: int) -> None:
    """Of every pass: in targets further options, as far as users consent, by choice always the last of them."""
    world = targeted_world(seed, ramps=seed % 2 == 0)
    rng = np.random.default_rng((seed, 3))
    first, last = world.ready.options
    ready = replace(world.ready, by_target=seed % 4 == 1, plain=rng.integers(first, last + 1).astype(np.int32))
    ahead = seed % 3 if world.code != codes.CONSERVATIVE else 0
    code = codes.SHORTEST if seed % 7 == 0 else world.code
    if ready.by_target and code == codes.CONSERVATIVE:
        code = codes.EASY
    world = replace(world, ready=ready, looks_ahead=ahead, code=code)
    expect_twins(world, random_script(seed, world, parking=seed % 2 == 0) if seed % 5 else None)


@given(SEEDS)
def test_no_job_is_slowed_for_a_target_beyond_the_consent_of_its_user(seed: int) -> None:
    """Starts and actions of every kind, of every pass, under targets."""
    world = targeted_world(seed, ramps=True)
    world = replace(world, ramped=seed % 3 == 0, code=codes.SHORTEST if seed % 7 == 0 else world.code)
    expect_twins(world, random_script(seed, world, parking=seed % 2 == 0) if seed % 5 else None)


@given(SEEDS)
@example(22549)  # the same, under a queue depth
def test_looking_ahead_to_the_next_target(seed: int) -> None:
    """Jobs that would still run when an announced target begins fit below it, as they run or slowed."""
    world = targeted_world(seed)
    how = codes.AHEAD_SLOWED if seed % 2 else codes.AHEAD_AS_RUN
    world = replace(world, looks_ahead=how, ready=replace(world.ready, by_target=seed % 4 == 1))
    parking = seed % 3 == 0
    expect_twins(world, random_script(seed, world, parking=parking) if seed % 5 < 3 else None)


@given(SEEDS)
def test_shortest_first_looking_ahead_to_the_next_target(seed: int) -> None:
    """Where a target holds an entry back, its partition is tried on in queue order up to the reservation."""
    how = codes.AHEAD_SLOWED if seed % 2 else codes.AHEAD_AS_RUN
    world = replace(targeted_world(seed), code=codes.SHORTEST, looks_ahead=how, depth=seed % 7)
    expect_twins(world, script_if_odd(seed, world))


@examples(12)  # the twin takes two seconds for each
@given(SEEDS)
def test_looking_ahead_to_all_announced_limits(seed: int) -> None:
    """Caps and targets of every pass; a conservative plan follows them."""
    world = targeted_world(seed, ramps=seed % 2 == 0)
    world = replace(world, code=(codes.CONSERVATIVE, codes.EASY, codes.SHORTEST, world.code)[seed % 4], all_limits=True)
    slowed = seed % 3 == 0 and world.code != codes.CONSERVATIVE
    world = replace(
        world, cap=moving_cap(seed, world), depth=seed % 6 if seed % 5 == 0 else 0,
        looks_ahead=codes.AHEAD_SLOWED if slowed else codes.AHEAD_AS_RUN,
        targets=None if seed % 6 == 1 else world.targets,
    )  # fmt: skip
    expect_twins(world, random_script(seed, world, parking=seed % 2 == 0) if seed % 5 < 3 else None)


@given(SEEDS, st.floats(0.0, 0.5), st.floats(0.0, 0.1))
def test_looking_ahead_with_a_chance_ledger(seed: int, own: float, common: float) -> None:
    """A start keeps the margin of what runs when a limit begins."""
    world = replace(targeted_world(seed), all_limits=seed % 2 == 0, looks_ahead=1 + seed % 3 // 2)
    world = replace(world, cap=moving_cap(seed, world), code=codes.SHORTEST if seed % 5 == 0 else world.code)
    ledger = Chance(epsilon=0.05, share=1.0 + seed % 3 * 0.2, own=own, common=common)
    simulation = world.simulation(ledger=ledger)
    simulation.go()
    expect_same(simulation.result(), world.twin(simulation.truth.reject, chance=ledger.terms))


def moving_cap(seed: int, world: World) -> Cap:
    """A cap that changes some times while the jobs run."""
    rng = np.random.default_rng((seed, 5))
    most = float((world.jobs.nodes[:, np.newaxis] * world.ready.prediction.power_w).max()) + world.machine.idle_w
    times = np.unique(np.concatenate(([0.0], np.floor(rng.uniform(0.0, 400.0, int(rng.integers(1, 6)))))))
    none = 0.2 if all(part.max_w is not None for part in world.machine.partitions) else 0.0
    watts = np.where(rng.random(len(times)) < none, np.inf, np.round(rng.uniform(0.5, 1.6, len(times)) * most, 3))
    return Cap(times, watts)


@given(SEEDS)
def test_rising_at_the_ramp_of_a_target(seed: int) -> None:
    """After a target the ledger rises by so many watts a second since its last rise."""
    world = targeted_world(seed, ramps=True)
    world = replace(world, ramped=True, looks_ahead=seed % 3 if world.code != codes.CONSERVATIVE else 0)
    expect_twins(world, script_if_odd(seed, world))


def targeted_world(seed: int, *, ramps: bool = False) -> World:
    """A random world with load targets, some of them announced."""
    rng = np.random.default_rng(seed)
    world = random_world(seed, failures=seed % 3 == 0)
    if world.code == codes.CONSERVATIVE and not ramps:
        world = replace(world, code=codes.EASY)
    end, targets = 0.0, []
    for _ in range(int(rng.integers(1, 5))):
        start = end + float(rng.integers(0, 60))
        end = start + float(rng.integers(1, 90))
        watts = world.machine.scope_idle_w() + float(rng.integers(0, 900))
        rate = float(rng.choice([0.5, 3.0, 20.0, np.inf])) if ramps else np.inf
        targets.append(LoadTarget(start, end, watts, notice_s=float(rng.integers(0, 40)), ramp_w_per_s=rate))
    if ramps and seed % 4 == 1:  # the stated maximum stands for the cap
        world = replace(world, cap=Cap.none())
    elif ramps and seed % 4 == 2 and np.isfinite(world.cap.cap_w).all():  # the cap stands for the maximum
        bare = tuple(replace(part, max_w=None) for part in world.machine.partitions)
        world = replace(world, machine=replace(world.machine, partitions=bare))
    return replace(with_consent(seed, world), targets=LoadTargets.of(*targets))


def with_consent(seed: int, world: World) -> World:
    """The same world, in which some users consent, within limits, and some jobs write checkpoints."""
    rng, n = np.random.default_rng((seed, 18)), len(world.jobs)
    late = world.jobs.submit_s + world.jobs.walltime_s * rng.uniform(1.0, 6.0, n)

    def some(values: Any, share: float) -> Any:
        return np.where(rng.random(n) < share, values, np.nan)

    consent = Consent.build(
        n,
        allowed=some(rng.integers(0, 2, n).astype(float), 0.9),
        greatest_slowdown=some(rng.uniform(1.0, 4.0, n), 0.4),
        latest_end_s=some(late, 0.3 if seed % 2 else 0.0),
        checkpoint_s=some(rng.choice([5.0, 20.0], n), 0.5),
    )
    return replace(world, jobs=replace(world.jobs, consent=consent))


def random_script(seed: int, world: World, *, parking: bool = False) -> Any:
    """Actions of each tick: a pure function of seed and tick, so that both worlds get the same."""
    options, n, units = len(world.machine.option_partition), len(world.jobs), world.machine.units

    def script(tick: int) -> Sequence[Action]:
        if parking and 60 < tick <= 63:
            return [Resume(str(job + 1)) for job in range(n)]
        if tick > 60:
            return [WakeNode(u) for u in range(units)] if tick % 20 == 0 else []
        rng = np.random.default_rng((seed, tick))
        return [one(rng) for _ in range(int(rng.integers(0, 4)))]

    def one(rng: np.random.Generator) -> Action:
        kind = int(rng.integers(9 if parking else 6))
        if kind == 6:
            return Suspend(str(int(rng.integers(n)) + 1))
        if kind == 7:
            return Resume(str(int(rng.integers(n)) + 1))
        if kind == 8:
            return DrainNode(int(rng.integers(units)))
        if kind <= 1:
            return SetFrequency(str(int(rng.integers(n)) + 1), int(rng.integers(options)))
        if kind == 2:
            devices = rng.choice(world.machine.devices, size=int(rng.integers(1, world.machine.devices + 1)))
            size = np.diff(world.machine.device_start)[devices]
            return SetDeviceLimits(devices, size * rng.choice([np.inf, 20.0, 90.0, 200.0], len(devices)))
        if kind == 3:
            return StopNode(int(rng.integers(units)))
        if kind == 4:
            return WakeNode(int(rng.integers(units)))
        kept = float(rng.choice([0.0, 0.0, 20.0, np.inf]))
        return Requeue(str(int(rng.integers(n)) + 1), kept)

    return script


def script_if_odd(seed: int, world: World) -> Any:
    """A script for every other seed."""
    return random_script(seed, world) if seed % 2 else None


@given(SEEDS, st.floats(0.5, 2.0), st.floats(0.0, 0.5), st.floats(0.0, 0.1))
def test_with_a_chance_ledger(seed: int, share: float, own: float, common: float) -> None:
    world = random_world(seed)
    if NAMES[world.code] == "conservative":
        world = replace(world, code=codes.EASY)
    ledger = Chance(epsilon=0.05, share=share, own=own, common=common)
    simulation = world.simulation(ledger=ledger)
    simulation.go()
    expect_same(simulation.result(), world.twin(simulation.truth.reject, chance=ledger.terms))
