"""One pass, many drivers: a view built from a snapshot starts what the incremental one starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.sim.test_against_twin import Scripted, random_script, targeted_world
from tests.sim.test_supply import under_supply
from tests.sim.workloads import World, random_world
from wattqueue.kernels import codes
from wattqueue.model.consent import Consent
from wattqueue.parts.contracts import Start
from wattqueue.policy.build import PassSettings
from wattqueue.policy.capabilities import resolve
from wattqueue.policy.decide import decide, snapshot_of
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation

SEEDS = st.integers(0, 2**32 - 1)


@dataclass
class BySnapshot:
    """A custom pass that takes a snapshot and has it decided anew, as a live controller does."""

    settings: PassSettings
    pass_interval_s: float
    passes: int = 0

    def schedule(self, view: View) -> Sequence[Start]:
        self.passes += 1
        snapshot, _ = snapshot_of(view, self.settings)
        entries = view.kernel.entries.of_job
        return [Start(int(entries[view.job_row(a.job), a.partition]), a.option) for a in decide(snapshot)]


def by_snapshot(world: World, **more: Any) -> Simulation:
    settings = resolve(world.policy()).pass_settings(world.machine.cap_scope)
    custom = BySnapshot(settings, world.interval_s)
    policy = replace(world.policy(**more), backfill=custom)
    simulation = Simulation(
        world.jobs, world.machine, policy, world.cap, world.actual, world.events, targets=world.targets
    )
    simulation.go()
    rejected = simulation.log.state == codes.REJECTED
    # no pass is asked while a power domain is above its limit
    assert custom.passes > 0 or rejected.all() or world.machine.supply, (
        "whatever is not rejected at its submission waits for a pass"
    )
    return simulation


@given(SEEDS)
def test_snapshots_start_the_same_jobs(seed: int) -> None:
    world = random_world(seed, failures=seed % 3 == 0)
    compiled, ours = world.engine(), by_snapshot(world).result()
    np.testing.assert_array_equal(compiled.schedule.state, ours.schedule.state)
    np.testing.assert_array_equal(compiled.schedule.start_s, ours.schedule.start_s)
    np.testing.assert_array_equal(compiled.schedule.option, ours.schedule.option)
    assert not ours.notes


@pytest.mark.compiled
@examples(25)
@given(SEEDS)
def test_snapshots_count_what_runs_in_power_domains(seed: int) -> None:
    world = under_supply(seed, random_world(seed))
    compiled, ours = world.engine(), by_snapshot(world).result()
    np.testing.assert_array_equal(compiled.schedule.state, ours.schedule.state)
    np.testing.assert_array_equal(compiled.schedule.start_s, ours.schedule.start_s)


def expect_same_by_snapshots(world: World, script: Any) -> None:
    ours = by_snapshot(world, controls=(Scripted(script, 7.0),)).result()
    compiled = world.engine(controls=(Scripted(script, 7.0),))
    np.testing.assert_array_equal(compiled.schedule.state, ours.schedule.state)
    np.testing.assert_array_equal(compiled.schedule.start_s, ours.schedule.start_s)
    np.testing.assert_array_equal(compiled.schedule.option, ours.schedule.option)


@pytest.mark.compiled
@given(SEEDS)
def test_snapshots_know_the_work_that_requeues_kept(seed: int) -> None:
    world = random_world(seed, failures=seed % 3 == 0)
    consent = Consent.build(len(world.jobs), checkpoint_s=np.full(len(world.jobs), 2.0))
    world = replace(world, jobs=replace(world.jobs, consent=consent))
    expect_same_by_snapshots(world, random_script(seed, world, parking=seed % 2 == 0))


@pytest.mark.compiled
@given(SEEDS)
def test_snapshots_look_ahead_to_load_targets(seed: int) -> None:
    """Running jobs count at the last option of their windows when the target begins: a snapshot states these."""
    world = targeted_world(seed)
    how = codes.AHEAD_SLOWED if seed % 2 else codes.AHEAD_AS_RUN
    world = replace(world, looks_ahead=how, ready=replace(world.ready, by_target=seed % 4 == 1))
    expect_same_by_snapshots(world, random_script(seed, world))


def test_a_snapshot_names_units() -> None:
    world = random_world(7)
    actions = []

    class Looking(BySnapshot):
        def schedule(self, view: View) -> Sequence[Start]:
            snapshot, _ = snapshot_of(view, self.settings)
            actions.extend(decide(snapshot))
            return super().schedule(view)

    custom = Looking(PassSettings(world.code, world.depth, world.machine.cap_scope), world.interval_s)
    policy = replace(world.policy(), backfill=custom)
    Simulation(world.jobs, world.machine, policy, world.cap, world.actual, world.events).go()
    assert actions
    for action in actions:
        assert len(set(action.nodes)) == len(action.nodes) >= 1
        assert all(0 <= unit < world.machine.units for unit in action.nodes)
