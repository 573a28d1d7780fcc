"""Figures of a run whose jobs have phases: from the exact sum, however it is cut; the series kept has its energy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles import examples
from tests.sim.test_profiles import workload
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.metrics import CapFigures, CapSums, cap_figures, cap_sums, energies, span
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.runs.perform import load, perform
from wattqueue.runs.task import Task
from wattqueue.sim import profiles
from wattqueue.sim.engine import simulate
from wattqueue.sim.profiles import has_phases, power_windows, with_phases, with_profiles


def test_a_phase_above_the_cap_by_hand() -> None:
    """One node, 100 W for 20 s and 300 W for 20 s, round and round for 80 s: the mean of 200 W keeps a cap of
    250 W, the phases are 50 W above it for 40 s."""
    profiles = PowerProfiles(
        np.zeros(1, np.int32),
        np.zeros(1),
        np.ones(1),
        np.array([100.0, 300.0], np.float32),
        np.array([0, 2]),
        np.zeros(1, np.int64),
    )
    jobs = Jobs.build([0.0], [1], [80.0], mean_power_w=[200.0], max_power_w=[300.0], profiles=profiles)
    machine = Machine("one", (Partition("p", 1, idle_w=10.0, max_w=400.0),), cap_scope="jobs")
    run = simulate(jobs, machine, load_policy("easy+estimator=oracle-mean"), cap=Cap.constant(250.0))
    assert cap_figures(run.power, machine, run.cap, 0.0, 80.0) == CapFigures(0.8, 0.0, 0.0, 0.0)
    found, kept = with_phases(run)
    assert kept[:4] == pytest.approx((0.8, 50.0, 40.0, 2000.0))
    assert found.power.time_s.tolist() == [0.0, 20.0, 40.0, 60.0, 80.0]
    assert found.power.jobs_w.tolist() == [100.0, 300.0, 100.0, 300.0, 0.0]
    coarse, same = with_phases(run, period_s=40.0)
    assert same == pytest.approx(kept)
    assert coarse.power.jobs_w.tolist() == [200.0, 200.0, 0.0]


@examples(25)
@given(st.integers(0, 2**40), st.integers(1, 80), st.floats(0.3, 1.2))
def test_figures_are_those_of_the_exact_series_however_it_is_cut(seed: int, steps: int, share: float) -> None:
    jobs, machine = workload(np.random.default_rng(seed), 20), plain_machine(8, 20.0)
    free = simulate(jobs, machine, load_policy("easy"))
    limit = share * float(with_profiles(free).power.machine_w.max())
    cap = Cap(np.array([-np.inf, 150.0, 400.0]), np.array([np.inf, limit, limit * 1.3]))
    run = simulate(jobs, machine, load_policy("easy", estimator="oracle-mean"), cap=cap)
    begin, end = span(jobs, run.schedule)
    exact = with_profiles(run)
    want = cap_figures(exact.power, machine, cap, begin, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiles, "power_windows", lambda found, own: power_windows(found, own, steps=steps))
        found, kept = with_phases(run)
    assert kept[:4] == (pytest.approx(want[:4]) if want.cap_over_s is not None else want[:4])
    a, b = energies(found.power, machine, begin, end), energies(exact.power, machine, begin, end)
    assert a == pytest.approx(b, rel=1e-9, abs=1e-3)
    np.testing.assert_array_equal(found.schedule.energy_j, exact.schedule.energy_j)
    assert (np.diff(found.power.time_s) > 0).all()
    assert set(run.power.time_s) <= set(found.power.time_s)


def test_sums_of_pieces_are_those_of_the_whole() -> None:
    one, other = CapSums(1.0, 2.0, 5.0, 3.0, 4.0, 10.0), CapSums(1.0, 2.0, 7.0, 0.0, 0.0, 5.0)
    assert one.plus(other) == CapSums(2.0, 4.0, 7.0, 3.0, 4.0, 15.0)
    assert one.plus(other).figures()[:4] == (0.5, 7.0, 3.0, 4.0)
    assert CapSums().figures() == CapFigures()


def test_without_a_cap_there_is_nothing_to_sum() -> None:
    jobs, machine = workload(np.random.default_rng(1), 5), plain_machine(20, 20.0)
    run = simulate(jobs, machine, load_policy("easy"))
    assert cap_sums(run.power, machine, run.cap, 0.0, 1e3) == CapSums()
    assert with_phases(run)[1] == CapFigures()


@pytest.mark.compiled
def test_a_task_takes_its_figures_from_the_sum() -> None:
    task = Task("marconi:days=1,load=0.6", machine="marconi100", estimator="oracle-mean", cap="300000W", seed=3)
    outcome = perform(load(task))
    run, figures = outcome.run, outcome.metrics
    assert has_phases(run)
    exact = with_profiles(simulate(run.jobs, run.machine, outcome.inputs.policy, cap=run.cap))
    want = cap_figures(exact.power, run.machine, run.cap, *span(run.jobs, run.schedule))
    assert figures["cap_overshoot_w"] == want.cap_overshoot_w
    assert figures["cap_over_j"] == pytest.approx(want.cap_over_j)
    assert figures["power_utilization"] == pytest.approx(want.power_utilization)
    assert figures["job_energy_j"] == pytest.approx(float(exact.schedule.energy_j.sum()), rel=1e-9)
    assert len(run.power.time_s) < len(exact.power.time_s) / 5


def test_jobs_without_profiles_have_no_phases() -> None:
    jobs = Jobs.build([0.0], [1], [10.0], mean_power_w=[5.0])
    assert not has_phases(simulate(jobs, plain_machine(1), load_policy("easy")))


@pytest.mark.compiled
def test_a_task_lets_a_run_follow_profiles() -> None:
    """Sampled as often as the profiles are, both ways draw the same; the run itself then knows it."""
    task = Task("marconi:days=0.05,load=0.6", machine="marconi100", estimator="oracle-mean", seed=3)
    after, within = (perform(load(each)) for each in (task, replace(task, phases_s=20.0)))
    assert within.run.phases_s == 20.0
    assert len(within.run.power.time_s) > len(after.inputs.jobs)
    assert within.metrics["job_energy_j"] == pytest.approx(after.metrics["job_energy_j"], rel=0.02)
    assert within.inputs.task.values()["phases_s"] == 20.0
    jobs = within.inputs.jobs
    with pytest.raises(InputError) as refused:
        simulate(replace(jobs, profiles=None), within.inputs.machine, within.inputs.policy, phases_s=20.0)
    assert "phases_s" in refused.value.what
