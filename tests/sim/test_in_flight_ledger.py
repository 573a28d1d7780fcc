"""The in-flight ledger (rule 15 of docs/semantics.md): cases worked out by hand, and random worlds against the twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.in_flight import InFlightMeter
from tests.sim.test_against_twin import Scripted, expect_same, random_script
from tests.sim.test_measured_ledger import EACH_10_S, Probe, jobs_of, machine, measured_world, twin_meter
from tests.sim.workloads import World
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetFrequency
from wattqueue.parts.ledger.in_flight import InFlight
from wattqueue.policy.capabilities import GREEDY
from wattqueue.policy.policy import load_policy
from wattqueue.policy.sensors import JobEvidence
from wattqueue.sim.engine import Run, simulate


def run(jobs: Jobs, on: Machine, cap_w: float, probe: Probe | None = None, **ledger: Any) -> Run:
    """EASY with the in-flight ledger, ten seconds of measurement as good as the prediction, which is the maximum."""
    part = InFlight(**{"even_s": 10.0, "deviations": 0.0, **ledger})
    policy = load_policy("easy", ledger=part, controls=[] if probe is None else [probe])
    return simulate(jobs, on, policy, cap=Cap.constant(cap_w))


def free(probe: Probe, *times: float) -> list[float]:
    return [round(probe.available_w[t], 6) for t in times]


def test_the_prediction_moves_to_what_is_measured_reading_by_reading() -> None:
    # Predicted at 200 W, draws 120 W. Readings at 10, 20 and 30 s: weights 1/2, 2/3 and 3/4 of the 80 W between them.
    probe = Probe(5.0)
    run(jobs_of((0, 1, 100)), machine(), 1000.0, probe)
    assert free(probe, 5.0, 10.0, 15.0) == [850.0 - 150.0, 850.0 - 110.0, 850.0 - 110.0]
    assert free(probe, 20.0, 30.0) == [round(850.0 - 150.0 + 80.0 * 2 / 3, 6), 850.0 - 90.0]


def test_the_margin_narrows_to_the_phases_as_a_job_is_measured() -> None:
    # As predicted, so that only the margin moves: 1 deviation of sqrt(0.03 w + 0.01) of 150 W, 30 W, then 23.7 W.
    probe = Probe(5.0)
    known = {"deviations": 1.0, "error": 0.03, "phase": 0.01}
    run(jobs_of((0, 1, 100), true_w=200.0), machine(), 1000.0, probe, **known)
    margins = [850.0 - 150.0 - probe.available_w[t] for t in (5.0, 10.0, 30.0, 90.0)]
    left = [1.0, 1 / 2, 1 / 4, 1 / 10]
    assert margins == pytest.approx([150.0 * (0.03 * w + 0.01) ** 0.5 for w in left], abs=0.01)


def test_without_an_error_to_remove_the_margin_stays() -> None:
    probe = Probe(5.0)
    run(jobs_of((0, 1, 100), true_w=200.0), machine(), 1000.0, probe, deviations=1.0, error=0.0, phase=0.04)
    assert free(probe, 5.0, 90.0) == [850.0 - 180.0] * 2


def test_jobs_start_where_a_prediction_proved_too_high() -> None:
    # 400 W: 150 idle + 150 + 150 do not fit. At 30 s the first counts 90 W: 150 + 90 + 150 do.
    found = run(jobs_of((0, 1, 100), (0, 1, 100)), machine(), 400.0)
    assert found.schedule.start_s.tolist() == [0.0, 20.0]
    assert run(jobs_of((0, 1, 100), (0, 1, 100)), machine(), 395.0).schedule.start_s.tolist() == [0.0, 30.0]


def test_what_was_measured_before_a_job_is_not_of_it() -> None:
    # From 3 s on: the sample of 10 to 20 s is the first of its run alone, and stands for 17 s.
    probe = Probe(10.0)
    run(jobs_of((3, 1, 100)), machine(), 1000.0, probe)
    assert free(probe, 13.0) == [700.0]
    assert free(probe, 23.0) == [round(700.0 + 80.0 * 17.0 / 27.0, 6)]


def test_a_lost_reading_adds_nothing_and_the_next_one_stands_for_its_time() -> None:
    every = Probe(10.0)
    run(jobs_of((0, 1, 100)), machine(sensor=replace(EACH_10_S, loss=1.0)), 1000.0, every)
    assert set(free(every, 10.0, 50.0, 90.0)) == {700.0}


def test_the_ratio_holds_at_another_frequency() -> None:
    # Predicted 150 W above idle and 50 W idle; draws 160 W of 200. At half the clock the prediction is 87.5 W.
    clocks = machine(1, frequencies_hz=(2e9, 1e9))
    actions: dict[float, Action] = {12.0: SetFrequency("1", 1)}
    probe = Probe(1.0, actions)
    run(jobs_of((0, 1, 100), true_w=160.0), clocks, 1000.0, probe)
    assert free(probe, 11.0) == [950.0 - 130.0]
    assert free(probe, 13.0) == [round(950.0 - 87.5 * 0.9 + 50.0, 6)]


def test_a_requeued_job_begins_with_its_prediction() -> None:
    probe = Probe(1.0, {12.0: Requeue("1")})
    run(jobs_of((0, 1, 100)), machine(), 1000.0, probe)
    assert free(probe, 11.0, 13.0) == [740.0, 700.0]


def test_live_and_simulated_corrections_are_the_same() -> None:
    probe = Probe(10.0)
    run(jobs_of((0, 1, 100)), machine(), 1000.0, probe)
    evidence = JobEvidence(InFlight(even_s=10.0))
    assert (evidence.corrected_w(200.0), evidence.variance_left) == (200.0, 1.0)
    for taken_s in (10.0, 20.0, 20.0, 30.0):
        evidence.add(120.0, 200.0, taken_s, 0.0)
    assert evidence.measured_s == 30.0
    assert 850.0 - (evidence.corrected_w(200.0) - 50.0) == pytest.approx(probe.available_w[30.0])


def test_where_nothing_was_predicted_the_measured_mean_stands_in() -> None:
    evidence = JobEvidence(InFlight(even_s=10.0))
    evidence.add(120.0, 0.0, 30.0, 0.0)
    assert evidence.corrected_w(0.0) == pytest.approx(90.0)


@pytest.mark.parametrize(
    "wrong",
    [{"even_s": 0.0}, {"error": -1.0}, {"phase": np.nan}, {"deviations": np.inf}],
)
def test_choices_of_the_ledger_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as caught:
        InFlight(**wrong)
    assert str(caught.value.where) == f"in-flight: {next(iter(wrong))}"


def test_it_is_refused_where_nothing_measures_and_where_a_plan_would_need_its_margin() -> None:
    with pytest.raises(PolicyError, match="nothing measures"):
        run(jobs_of((0, 1, 100)), machine(sensor=None), 400.0)
    with pytest.raises(PolicyError, match="one by one"):
        load_policy("easy", backfill="conservative", ledger=InFlight())


def in_flight_world(seed: int) -> tuple[World, InFlight, InFlightMeter]:
    """A random world with sensors, as of the measured ledger."""
    rng = np.random.default_rng((seed, 10))
    world, measured, _ = measured_world(seed)
    ledger = InFlight(
        deviations=float(rng.choice([0.0, 1.0, 3.0])) if world.code in GREEDY else 0.0,
        error=float(rng.choice([0.0, 0.05])),
        phase=float(rng.choice([0.0, 0.02])),
        even_s=float(rng.choice([1.0, 30.0, 300.0])),
        read=measured.read,
        share=measured.share,
    )
    assert world.machine.sensor is not None
    return world, ledger, InFlightMeter(world.machine.sensor, ledger)


@pytest.mark.compiled
@given(st.integers(0, 2**32 - 1))
def test_every_start_is_the_twins(seed: int) -> None:
    world, ledger, meter = in_flight_world(seed)
    simulation = world.simulation(ledger=ledger)
    simulation.go()
    twin_meter(meter, simulation)
    expect_same(simulation.result(), world.twin(simulation.truth.reject, meter=meter, chance=ledger.terms))


@pytest.mark.compiled
@given(st.integers(0, 2**32 - 1))
def test_every_start_is_the_twins_with_random_actions(seed: int) -> None:
    world, ledger, meter = in_flight_world(seed)
    script = random_script(seed, world, parking=seed % 2 == 0)
    simulation = world.simulation(ledger=ledger, controls=(Scripted(script, 7.0),))
    simulation.go()
    twin_meter(meter, simulation)
    twin = world.twin(simulation.truth.reject, script=script, period=7.0, meter=meter, chance=ledger.terms)
    expect_same(simulation.result(), twin)
