"""The measured ledger (rule 15 of docs/semantics.md): cases worked out by hand, and random worlds against the twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.meter import Meter
from tests.sim.test_against_twin import Scripted, expect_same, random_script
from tests.sim.workloads import World, random_world
from wattqueue.errors import PolicyError
from wattqueue.kernels.sensors import STEP_SAMPLE, STEP_SENSOR
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, SetFrequency
from wattqueue.parts.ledger.measured import Measured
from wattqueue.policy.capabilities import GREEDY
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, Simulation, simulate

EACH_10_S = PowerSensor(sample_s=10.0, poll_s=10.0)


class Probe:
    """A control that writes down what is free below the cap, and does what a script says at a time."""

    events: frozenset[str] = frozenset()

    def __init__(self, period_s: float, actions: dict[float, Action] | None = None) -> None:
        self.period_s, self.actions = period_s, actions or {}
        self.available_w: dict[float, float] = {}
        self.sensor_w: dict[float, list[float]] = {}
        self.refused: list[str] = []

    def act(self, view: View) -> Sequence[Action]:
        self.available_w[view.now_s] = view.available_w
        self.sensor_w[view.now_s] = view.sensor_w.tolist()
        self.refused += [refusal.reason for refusal in view.refusals]
        return [self.actions[view.now_s]] if view.now_s in self.actions else []


def machine(nodes: int = 3, sensor: PowerSensor | None = EACH_10_S, **more: Any) -> Machine:
    """Nodes of 50 W idle and 200 W at most."""
    return Machine("measured", (Partition("p", nodes, idle_w=50.0, max_w=200.0, **more),), sensor=sensor)


def jobs_of(*rows: tuple[float, int, float], true_w: float = 120.0, wall_s: float | None = None) -> Jobs:
    """Jobs of (submit, units, run time) that draw ``true_w`` a unit."""
    submit, units, run = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    wall = run if wall_s is None else np.full(len(run), wall_s)
    return Jobs.build(submit, units.astype(int), run, walltime_s=wall, mean_power_w=np.full(len(run), true_w))


def run(jobs: Jobs, on: Machine, cap_w: float, probe: Probe | None = None, **ledger: Any) -> Run:
    """EASY with the measured ledger; predictions are the maximum."""
    policy = load_policy("easy", ledger=Measured(**ledger), controls=[] if probe is None else [probe])
    return simulate(jobs, on, policy, cap=Cap.constant(cap_w))


def test_a_job_that_draws_less_makes_room_once_a_sample_has_seen_it() -> None:
    # Idle 150 W. Predicted, a job adds 150 W: 150 + 150 + 150 > 400, so the second waits. The sample at 10 s is the
    # mean over the whole run of the first so far, 120 W: 150 + 70 + 150 <= 400.
    probe = Probe(5.0)
    found = run(jobs_of((0, 1, 100), (0, 1, 100)), machine(), 400.0, probe)
    assert found.schedule.start_s.tolist() == [0.0, 10.0]
    # 0: nothing runs. 5: one predicted. 10: one measured. 15: another predicted beside it. 20: both measured.
    assert [probe.available_w[t] for t in (0.0, 5.0, 10.0, 15.0, 20.0)] == [250.0, 100.0, 180.0, 30.0, 110.0]


def test_a_sample_that_began_before_a_job_says_nothing_of_it() -> None:
    # Started at 3 s: the sample of 0 to 10 s is no mean of its run; that of 10 to 20 s is.
    probe = Probe(10.0)
    found = run(jobs_of((3, 1, 100), (3, 1, 100)), machine(), 400.0, probe)
    assert found.schedule.start_s.tolist() == [3.0, 20.0]
    assert probe.sensor_w[13.0][0] == pytest.approx(50.0 * 0.3 + 120.0 * 0.7)


def test_a_reservation_expects_an_end_to_free_the_measured_share() -> None:
    # 700 W are 500 W above idle. At 12 s job 0 counts 140 W on two nodes; job 1 lacks a node until it ends at 100 s.
    # 500 - 450 = 50 W are left over there. Job 2 (150 W) fits now, outlives that, and waits. If an end freed what was
    # predicted (300 W), 210 W would be left over, and job 2 would start at once.
    probe = Probe(1.0)
    found = run(jobs_of((0, 2, 100), (11, 3, 50), (12, 1, 1000)), machine(4), 700.0, probe)
    assert found.schedule.start_s.tolist() == [0.0, 100.0, 110.0]
    assert probe.available_w[12.0] == pytest.approx(500.0 - 140.0)


def test_a_job_that_ended_counts_idle_at_once() -> None:
    probe = Probe(1.0)
    run(jobs_of((0, 1, 15), (0, 1, 100)), machine(), 1000.0, probe)
    assert probe.available_w[14.0] == pytest.approx(850.0 - 2 * 70.0)
    assert probe.available_w[15.0] == pytest.approx(850.0 - 70.0)


def test_cores_share_the_sample_of_their_socket() -> None:
    # Two cores of 50 W idle share a sensor. One job on one of them draws 120 W: the sample is 170 W, 85 W each. The job
    # counts 35 W above idle, and so does the idle core beside it: 70 W in all, which is what is drawn.
    cores = machine(1, replace(EACH_10_S, covers="socket"), unit="core", cores_per_socket=2)
    probe = Probe(1.0)
    run(jobs_of((0, 1, 100), (25, 1, 100)), cores, 1000.0, probe)
    assert probe.available_w[12.0] == pytest.approx(900.0 - 70.0)
    # The second job starts on the idle core: it counts 150 W by prediction, and its share no more.
    assert probe.available_w[26.0] == pytest.approx(900.0 - 35.0 - 150.0)
    assert probe.available_w[41.0] == pytest.approx(900.0 - 140.0)


def test_busy_units_take_what_idle_ones_do_not_draw() -> None:
    cores = machine(1, replace(EACH_10_S, covers="socket"), unit="core", cores_per_socket=2)
    probe = Probe(1.0)
    run(jobs_of((0, 1, 100), (25, 1, 100)), cores, 1000.0, probe, share="busy")
    assert probe.available_w[12.0] == pytest.approx(900.0 - 70.0)
    assert probe.available_w[26.0] == pytest.approx(900.0 - 70.0 - 150.0)


def test_sensors_that_are_read_at_submissions_show_nothing_in_between() -> None:
    # Read at 25 s: the mean of 10 to 20 s.
    probe = Probe(1.0)
    run(jobs_of((0, 1, 100), (25, 1, 100)), machine(), 400.0, probe, read="submission")
    assert (probe.available_w[24.0], probe.available_w[25.0]) == (100.0, 180.0)


@pytest.mark.parametrize(("ages", "expected"), [(False, 380.0), (True, 300.0)])
def test_a_sample_ages_where_the_ledger_says_so(ages: bool, expected: float) -> None:
    # Read at 25 s; at 46 s nothing has been read for 20 s. Job 0 then counts its maximum, which is also its prediction.
    probe = Probe(1.0)
    jobs = jobs_of((0, 1, 100), (0, 1, 46), (25, 3, 100))
    run(jobs, machine(), 600.0, probe, read="submission", ages=ages, stale_s=20.0)
    assert probe.available_w[47.0] == pytest.approx(expected)


def test_where_every_reading_is_lost_predictions_count() -> None:
    jobs, lost = jobs_of((0, 1, 100), (0, 1, 100)), machine(sensor=replace(EACH_10_S, loss=1.0))
    assert run(jobs, lost, 400.0).schedule.start_s.tolist() == [0.0, 100.0]


def test_a_higher_frequency_counts_its_prediction_until_a_sample_has_seen_it() -> None:
    clocks = machine(1, frequencies_hz=(2e9, 1e9))
    jobs = jobs_of((0, 1, 100), true_w=110.0)
    actions: dict[float, Action] = {12.0: SetFrequency("1", 1), 32.0: SetFrequency("1", 0)}
    probe = Probe(1.0, actions)
    run(jobs, clocks, 1000.0, probe)
    # Lowered, it counts the last sample; the next ones lie between, then show 50 + 60 / 4 W. Raised: the maximum.
    assert probe.available_w[13.0] == pytest.approx(950.0 - 60.0)
    assert probe.available_w[31.0] == pytest.approx(950.0 - 15.0)
    assert probe.available_w[33.0] == pytest.approx(950.0 - 150.0)
    assert probe.available_w[51.0] == pytest.approx(950.0 - 60.0)


def test_readings_are_means_of_the_samples_within_the_averaging_time() -> None:
    # Samples of 4 s, polled each 2 s, averaged over 10 s. At 21 s: the poll at 20 s, samples of 8 to 20 s.
    sensor = PowerSensor(sample_s=4.0, poll_s=2.0, average_s=10.0)
    probe = Probe(1.0)
    run(jobs_of((0, 1, 10), (21, 1, 10)), machine(1, sensor), 1000.0, probe, read="submission")
    assert probe.sensor_w[21.0] == [pytest.approx((2 * 120.0 + 10 * 50.0) / 12.0, abs=1e-6)]


def test_the_sample_of_a_machine_that_was_idle_for_long_is_exact() -> None:
    probe = Probe(1.0)
    run(jobs_of((0, 1, 10), (100_003, 1, 10)), machine(1), 1000.0, probe)
    assert probe.sensor_w[100_010.0] == [pytest.approx((3 * 50.0 + 7 * 120.0) / 10.0, abs=1e-5)]


def test_less_than_idle_counts_as_idle_within_the_tolerance_and_else_as_missing() -> None:
    jobs = jobs_of((0, 1, 100), true_w=45.0)
    within, beyond = Probe(1.0), Probe(1.0)
    run(jobs, machine(), 1000.0, within)
    run(jobs, machine(), 1000.0, beyond, idle_tolerance=0.05)
    assert within.available_w[12.0] == 850.0
    assert beyond.available_w[12.0] == 850.0 - 150.0


@pytest.mark.parametrize(("true_w", "missing"), [(40.5, False), (39.5, True)])
def test_the_tolerance_is_a_fifth_by_default(true_w: float, missing: bool) -> None:
    probe = Probe(1.0)
    run(jobs_of((0, 1, 100), true_w=true_w), machine(), 1000.0, probe)
    assert probe.available_w[12.0] == (700.0 if missing else 850.0)


def test_a_measured_ledger_is_refused_where_nothing_measures() -> None:
    with pytest.raises(PolicyError, match="nothing measures") as caught:
        run(jobs_of((0, 1, 100)), machine(sensor=None), 400.0)
    assert caught.value.where == "easy"
    on = machine()
    with pytest.raises(PolicyError, match="max_w"):
        run(jobs_of((0, 1, 100)), replace(on, partitions=(replace(on.partitions[0], max_w=None),)), 400.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"read": "often"},
        {"share": "all"},
        {"stale_s": 0.0},
        {"stale_s": np.nan},
        {"idle_tolerance": 2.0},
        {"deviations": -1.0},
        {"deviations": np.inf},
        {"own": np.nan},
    ],
)
def test_choices_of_the_ledger_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as caught:
        Measured(**wrong)
    assert str(caught.value.where) == f"measured: {next(iter(wrong))}"


def test_a_margin_follows_from_what_is_measured() -> None:
    # At 10 s the first job counts 70 W above idle: with another of 150 W (predicted) the sum of squares is 4,900 +
    # 22,500 W^2, so that 2 deviations of sqrt(0.01 x 27,400) = 16.55 W stay free beside 150 + 70 + 150 W: 403.1 W.
    jobs = jobs_of((0, 1, 100), (0, 1, 100))
    starts = [run(jobs, machine(), cap, deviations=2.0, own=0.01).schedule.start_s[1] for cap in (403.2, 403.0)]
    assert starts == [10.0, 100.0]
    assert run(jobs, machine(), 403.0, own=0.01).schedule.start_s[1] == 10.0


def test_a_margin_needs_a_pass_that_tries_starts_one_by_one() -> None:
    with pytest.raises(PolicyError, match="one by one"):
        load_policy("easy", backfill="conservative", ledger=Measured(deviations=1.0))


def measured_world(seed: int) -> tuple[World, Measured, Meter]:
    """A random world, with sensors and a ledger drawn from the seed; some sensors are noisy and lose readings."""
    rng = np.random.default_rng((seed, 9))
    world = random_world(seed, failures=seed % 3 == 0)
    sensor = PowerSensor(
        float(rng.choice([4.0, 1.12, 7.0, 30.0])),
        float(rng.choice([4.0, 3.0, 7.0, 30.0])),
        average_s=float(rng.choice([0.0, 5.0, 20.0])),
        noise=float(rng.choice([0.0, 0.1])),
        loss=float(rng.choice([0.0, 0.3])),
        covers=rng.choice(np.array(["node", "socket", "unit"])).item(),
    )
    ledger = Measured(
        read=rng.choice(np.array(["period", "submission"])).item(),
        share=rng.choice(np.array(["even", "busy"])).item(),
        ages=bool(rng.integers(2)),
        stale_s=float(rng.choice([5.0, 50.0])),
        deviations=float(rng.choice([0.0, 1.0, 3.0])) if world.code in GREEDY else 0.0,
    )
    return replace(world, machine=replace(world.machine, sensor=sensor)), ledger, Meter(sensor, ledger)


def twin_meter(meter: Meter, simulation: Simulation) -> Meter:
    """The meter of the twin with the noise and the losses of a run."""
    uniform, normal = simulation.truth.sensors.uniform, simulation.truth.sensors.normal

    def lost(s: int, k: int) -> bool:
        return bool(uniform[(s * STEP_SENSOR + k * STEP_SAMPLE) % len(uniform)] < meter.sensor.loss)

    def noise(s: int, k: int) -> float:
        return meter.sensor.noise * float(normal[(s * STEP_SENSOR + k * STEP_SAMPLE) % len(normal)])

    meter.lost = lost if len(uniform) else None
    meter.noise = noise if len(normal) else None
    return meter


@pytest.mark.compiled
@given(st.integers(0, 2**32 - 1))
def test_every_start_is_the_twins(seed: int) -> None:
    world, ledger, meter = measured_world(seed)
    simulation = world.simulation(ledger=ledger)
    simulation.go()
    expect_same(
        simulation.result(),
        world.twin(simulation.truth.reject, meter=twin_meter(meter, simulation), chance=ledger.terms),
    )


@pytest.mark.compiled
@given(st.integers(0, 2**32 - 1))
def test_every_start_is_the_twins_with_random_actions(seed: int) -> None:
    world, ledger, meter = measured_world(seed)
    script = random_script(seed, world, parking=seed % 2 == 0)
    simulation = world.simulation(ledger=ledger, controls=(Scripted(script, 7.0),))
    simulation.go()
    twin = world.twin(
        simulation.truth.reject, script=script, period=7.0, meter=twin_meter(meter, simulation), chance=ledger.terms
    )  # fmt: skip
    expect_same(simulation.result(), twin)


class AtStarts(Scripted):
    """A control that is woken by starts."""

    events = frozenset({"start"})


@pytest.mark.compiled
@given(st.integers(0, 2**32 - 1))
def test_with_a_control_that_starts_wake(seed: int) -> None:
    world = random_world(seed, failures=seed % 2 == 0)
    script = random_script(seed, world)
    simulation = world.simulation(controls=(AtStarts(script, 7.0),))
    simulation.go()
    twin = world.twin(simulation.truth.reject, script=script, period=7.0, wakes=frozenset({"start"}))
    expect_same(simulation.result(), twin)
