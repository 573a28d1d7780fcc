"""Corrections behind a base: what is predicted, what the base learns, in the compiled loop and through Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.history import corrected_w
from tests.reference.simulator import mean_factor
from tests.sim.test_against_twin import Scripted, expect_same, random_script
from tests.sim.test_units_that_differ import NAMES, SEEDS, Ranks, drawn_factors, with_applications
from tests.sim.workloads import World, random_world
from wattqueue.kernels.unit_watts import mean_factors
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.schedule import Reason
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Asked, Finished, Floats, Ints, Prediction
from wattqueue.parts.corrections.margin import Margin
from wattqueue.parts.corrections.unit_factors import UnitFactors
from wattqueue.parts.estimator.app_mean import AppMean
from wattqueue.parts.estimator.history_max import HistoryMax
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator.last_job import LastJob
from wattqueue.policy.corrected import Corrected
from wattqueue.policy.oracles import oracles_of
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import BASE_COUNTED, Run, Simulation, simulate
from wattqueue.sim.truth import NodeEvents


def table_of(factor: Floats, apps: Sequence[str] = NAMES) -> UnitTable:
    """The table of watts with these factors."""
    return UnitTable.of_watts(apps, [str(unit) for unit in range(factor.shape[1])], 100.0 * factor)


def mean_one(rng: np.random.Generator, machine: Machine) -> Floats:
    """Factors of three applications, of mean 1 on each partition."""
    factor = drawn_factors(rng, machine.units)
    for first, end in zip(machine.unit_start[:-1], machine.unit_start[1:], strict=True):
        factor[:, first:end] /= factor[:, first:end].mean(axis=1, keepdims=True)
    return factor


@dataclass
class Recorder:
    """A base that predicts one figure, and keeps what it is taught: watts by job."""

    told: dict[int, tuple[float, float]] = field(default_factory=dict)
    runs: list[Any] = field(default_factory=list)
    rows: list[Ints] = field(default_factory=list)
    asked: Asked = "at_submit"
    machine_figures: bool = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        self.told.clear()
        self.options = len(machine.option_partition)
        return Prediction(np.full((1, self.options), 100.0), np.ones((1, self.options)), np.zeros(len(jobs), np.int32))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), self.options), 100.0)

    def learn(self, finished: Finished) -> None:
        self.runs.append(finished.runs)
        self.rows.append(finished.rows)
        for row, mean, top in zip(finished.rows, finished.mean_power_w, finished.max_power_w, strict=True):
            self.told[int(row)] = float(mean), float(top)


@given(SEEDS)
def test_a_base_learns_what_it_would_on_equal_units(seed: int) -> None:
    """Whatever the placement: factors of mean 1 are the truth, and the base learns watts without those of the units."""
    rng = np.random.default_rng((seed, 5))
    world = with_applications(random_world(seed), rng)
    late = np.where(np.arange(len(world.jobs)) == len(world.jobs) - 1, 1e7, world.jobs.submit_s)
    jobs = replace(world.jobs, submit_s=late)  # so that all others are learned
    factor = mean_one(rng, world.machine)
    truth = replace(world.actual, unit_factor=factor)
    rank = rng.integers(0, 4, factor.shape).astype(float)
    told = []
    cases: list[tuple[Prediction, list[Any], Any]] = [
        (world.actual, [], None),
        (truth, [UnitFactors(table=table_of(factor)), Margin(factor=1.3)], rank),
    ]
    for actual, corrections, order in cases:
        base = Recorder()
        estimator: Any = Corrected(base, corrections) if corrections else base
        policy = load_policy("easy", estimator=estimator, placement=Ranks(order))
        run = simulate(jobs, world.machine, policy, actual=actual)
        assert len(base.told) >= run.schedule.ran.sum() - 1
        told.append(base.told)
    assert told[0].keys() == told[1].keys()
    for row, watts in told[0].items():
        assert told[1][row] == pytest.approx(watts, rel=1e-6, abs=1e-5)  # watts of units are rounded to 1 uW


class InPython(HistoryMean):
    """The same base, without its kernel in the loop."""


BASES = {
    "history-mean": (HistoryMean, InPython),
    "app-mean": (AppMean, type("AppInPython", (AppMean,), {})),
    "history-max": (HistoryMax, type("MaxInPython", (HistoryMax,), {})),
    "last-job": (LastJob, type("LastInPython", (LastJob,), {})),
}


@given(SEEDS, st.sampled_from(sorted(BASES)))
def test_the_loop_predicts_what_python_does(seed: int, name: str) -> None:
    """To the last bit, with units that differ, margins, a cap, and failures."""
    rng = np.random.default_rng((seed, 6))
    world = with_applications(random_world(seed, failures=seed % 3 == 0), rng)
    machine = replace(
        world.machine, partitions=tuple(replace(p, max_w=p.max_w or 500.0) for p in world.machine.partitions)
    )
    factor = drawn_factors(rng, machine.units)
    kept = list(range(len(NAMES))) if rng.random() < 0.7 else [0, 2]
    table = table_of(factor[kept], [NAMES[k] for k in kept])
    actual = replace(world.actual, unit_factor=drawn_factors(rng, machine.units))
    margin = float(np.round(rng.uniform(0.8, 1.3), 3) + 0.0005)  # never 1, which is refused
    runs: list[Run] = []
    for base in BASES[name]:
        corrections: list[Any] = [UnitFactors(table=table), Margin(factor=margin)]
        policy = load_policy("easy", estimator=Corrected(base(), corrections[: 1 + seed % 2]))
        simulation = Simulation(world.jobs, machine, policy, world.cap, actual, world.events)
        assert simulation.session.predicts_in_loop == (not runs)
        simulation.go()
        runs.append(simulation.result())
    for column in ("start_s", "end_s", "energy_j", "predicted_w"):
        np.testing.assert_array_equal(getattr(runs[0].schedule, column), getattr(runs[1].schedule, column))


@given(SEEDS)
def test_corrected_watts_are_at_most_those_of_the_worst_unit_at_its_maximum(seed: int) -> None:
    """Each job after what its user's one before drew, more than the maximum at times."""
    rng = np.random.default_rng((seed, 7))
    n, units, most = 12, 5, 200.0
    factor, margin = drawn_factors(rng, units), float(rng.choice([0.7, 1.05, 1.2]))
    factor /= factor.mean(axis=1, keepdims=True)
    watts = np.round(rng.uniform(60.0, 260.0, n), 3)
    jobs = Jobs.build(np.arange(n) * 100.0, np.ones(n), np.full(n, 10.0), user=["u"] * n, mean_power_w=watts)
    jobs = replace(jobs, app=Labels(rng.integers(-1, len(NAMES), n).astype(np.int32), NAMES))
    corrections = [{"part": "unit-factors", "table": table_of(factor)}, {"part": "margin", "factor": margin}]
    policy = load_policy("easy", estimator=["last-job", *corrections])
    machine = Machine("plain", (Partition("p", units, max_w=most),), "jobs")
    simulation = Simulation(jobs, machine, policy, Cap.none(), None, NodeEvents.none())
    simulation.go()
    assert simulation.session.predicts_in_loop
    learned = most
    for job in range(n):
        row = np.ones(units) if jobs.app.codes[job] < 0 else factor[jobs.app.codes[job]]
        expected = corrected_w(learned, most, margin, row.tolist())
        assert simulation.view.predicted.power_uw[job, 0] == pytest.approx(expected * 1e6, abs=2.0)
        learned = watts[job] / row[0]  # the lowest unit is free


@dataclass
class AsTold(Recorder):
    """A base that predicts what a world is to be predicted."""

    prediction: Any = None

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        super().predict(jobs, machine)
        found: Prediction = self.prediction
        return found

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        found: Prediction = self.prediction
        return found.power_w[found.rows(rows)]


@given(SEEDS)
def test_what_ended_is_told_with_units_option_and_limit(seed: int) -> None:
    """As the twin knows them, with failures, other frequencies and limits under way."""
    world = random_world(seed, failures=seed % 2 == 0)
    script = random_script(seed, world)
    base = AsTold(prediction=world.ready.prediction)
    policy = replace(world.policy(controls=(Scripted(script, 7.0),)), estimator=base)
    simulation = Simulation(world.jobs, world.machine, policy, world.cap, world.actual, world.events)
    simulation.go()
    twin = world.twin(simulation.truth.reject, script=script, period=7.0)
    for runs, rows in zip(base.runs, base.rows, strict=True):
        for k, row in enumerate(rows.tolist()):
            own = slice(runs.first[k], runs.first[k] + runs.count[k])
            pieces = zip(runs.low[own].tolist(), runs.high[own].tolist(), strict=True)
            units = [unit for low, high in pieces for unit in range(low, high + 1)]
            assert (units, int(runs.option[k])) == twin.taught[row][:2]
            assert runs.limit_w[k] * 1e6 == pytest.approx(twin.taught[row][2])
            table = np.random.default_rng(seed).uniform(0.5, 2.0, (1, world.machine.units))
            mean = np.empty(1)
            zero = np.zeros(1, np.int32)
            mean_factors(table, zero, runs.first[k : k + 1], runs.count[k : k + 1], runs.low, runs.high, mean)
            assert mean[0] == mean_factor(table[0], units)


# Cases worked out by hand. Two units of 80 and 120 W for "cg", of 100 W for "ft"; a unit draws 200 W at most.
TWO = Machine("two", (Partition("p", 2, max_w=200.0),), "jobs")
CG = table_of(np.array([[0.8, 1.2]]), ["cg"])
TRUTH = Prediction(np.full((1, 1), 100.0), np.ones((1, 1)), unit_factor=np.array([[0.8, 1.2], [1.0, 1.0]]))


def two_jobs(first: str = "cg", then: str = "cg", nodes: int = 2) -> Jobs:
    """A job of one unit, and one of its user's that is submitted once it has ended."""
    jobs = Jobs.build([0.0, 100.0], [1, nodes], [10.0, 10.0], app=np.array([first, then]), user=np.array(["u", "u"]))
    codes_of = np.array([("cg", "ft").index(name) for name in (first, then)], np.int32)
    return replace(jobs, app=Labels(codes_of, ("cg", "ft")))


def started(estimator: Any, cap_w: float, jobs: Jobs) -> bool:
    """Whether the second job starts under a cap, which comes after the first one has ended."""
    cap = Cap(np.array([0.0, 50.0]), np.array([1e4, cap_w]))
    run = simulate(jobs, TWO, load_policy("easy", estimator=estimator), cap=cap, actual=TRUTH)
    assert run.schedule.start_s[0] == 0.0
    return bool(run.schedule.start_s[1] == 100.0)


@pytest.mark.parametrize(
    ("estimator", "least_w"),
    [
        (["history-mean"], 2 * 80.0),  # what the first job drew, on the unit that draws less
        (["history-mean", {"part": "unit-factors", "table": CG}], 80.0 + 120.0),
        (["history-mean", {"part": "unit-factors", "table": CG}, {"part": "margin", "factor": 1.05}], 210.0),
        (["app-mean", {"part": "margin", "factor": 1.05}, {"part": "unit-factors", "table": CG}], 210.0),
        (["oracle-mean", {"part": "margin", "factor": 1.5}], 300.0),
        ([{"part": "unit-watts", "table": CG}, {"part": "margin", "factor": 1.01}], 202.0),
    ],
    ids=str,
)
def test_the_least_cap_under_which_the_second_job_starts(estimator: Any, least_w: float) -> None:
    jobs = replace(two_jobs(), mean_power_w=np.full(2, 100.0))
    assert started(estimator, least_w, jobs)
    assert not started(estimator, least_w - 0.001, jobs)


def test_an_application_without_factors_keeps_the_prediction_of_the_base() -> None:
    """On every unit: 100 W each that the user's job of "ft" drew, not the maximum of 200 W."""
    estimator = ["history-mean", {"part": "unit-factors", "table": CG}]
    jobs = two_jobs("ft", "ft")
    assert started(estimator, 200.0, jobs)
    assert not started(estimator, 199.9, jobs)
    run = simulate(jobs, TWO, load_policy("easy", estimator=estimator), actual=TRUTH)
    assert run.notes[BASE_COUNTED] == 2


@pytest.mark.parametrize(
    ("corrections", "reason"),
    [
        ([], Reason.TOO_MUCH_POWER),
        ([{"part": "margin", "factor": 1.1}], Reason.TOO_MUCH_POWER),
        ([{"part": "margin", "factor": 0.9}], Reason.NEVER_FITS),
        ([{"part": "unit-factors", "table": CG}], Reason.NEVER_FITS),
        ([{"part": "unit-factors", "table": table_of(np.ones((1, 2)), ["cg"])}], Reason.TOO_MUCH_POWER),
    ],
    ids=str,
)
def test_a_base_rejects_only_where_no_correction_lowers(corrections: list[Any], reason: Reason) -> None:
    policy = load_policy("easy", estimator=["maximum", *corrections])
    run = simulate(two_jobs(), TWO, policy, cap=Cap.constant(300.0), actual=TRUTH)
    assert run.schedule.reason[1] == reason


def test_an_oracle_among_them_is_named() -> None:
    policy = load_policy("easy", estimator=["oracle-mean", {"part": "margin", "factor": 1.1}])
    assert oracles_of(policy) == "oracle-mean"
    assert oracles_of(load_policy("easy", estimator=["history-mean", {"part": "margin", "factor": 1.1}])) == ""


def test_quantiles_are_corrected() -> None:
    """Those that a base states before the run, and those that it is asked for at a submission."""

    class Quantiles(Recorder):
        def predict_quantiles(self, rows: Ints, now_s: float) -> dict[float, Floats]:
            return {0.9: np.full((len(rows), 1), 120.0)}

    estimator = Corrected(Quantiles(), (Margin(factor=1.5),))
    estimator.predict(KnownJobs.of(two_jobs()), TWO)
    assert estimator.predict_quantiles(np.array([1], np.int32), 0.0)[0.9].tolist() == [[180.0]]
    assert Corrected(Recorder(), (Margin(),)).predict_quantiles(np.array([1], np.int32), 0.0) == {}


def naive_prediction(world: World, told: Prediction, factor: Floats, known: set[int], margin: float) -> Prediction:
    """What a base's prediction becomes, job by job, option by option: a row for each job."""
    machine, jobs = world.machine, world.jobs
    start = machine.unit_start.tolist()
    watts = np.zeros((len(jobs), len(machine.option_partition)))
    rows = np.ones((len(NAMES), machine.units))
    for app in known:
        for first, end in pairwise(start):
            mean = sum(factor[app, first:end].tolist()) / (end - first)
            rows[app, first:end] = [each / mean for each in factor[app, first:end]]
    for job in range(len(jobs)):
        app = int(jobs.app.codes[job])
        own = rows[app] if app >= 0 else np.ones(machine.units)
        for option, p in enumerate(machine.option_partition.tolist()):
            part = machine.partitions[p]
            base = float(told.watts(np.array([job], np.int32), option)[0])
            full = base
            if part.max_w is not None:
                idle = min(part.idle_w, part.max_w)
                full = idle + (part.max_w - idle) * float(machine.option_dynamic_factor[option])
            bounded = corrected_w(base, full, margin, own[start[p] : start[p + 1]].tolist())
            watts[job, option] = base * margin if part.max_w is None else bounded
    every = np.arange(len(jobs), dtype=np.int32)
    for app in {0, 1, 2} - known:
        rows[app] = np.nan
    return Prediction(watts, told.take(every).time_factor, unit_factor=rows)


@given(SEEDS)
def test_a_corrected_prediction_starts_jobs_as_the_twin_does(seed: int) -> None:
    """Behind a base that is asked once, with applications that the table lacks, ranks, a cap and failures."""
    rng = np.random.default_rng((seed, 8))
    world = with_applications(random_world(seed, failures=seed % 2 == 0), rng)
    factor, margin = drawn_factors(rng, world.machine.units), float(rng.choice([0.7, 1.1]))
    known = {0, 1, 2} if rng.random() < 0.6 else {0, 2}
    table = table_of(factor[sorted(known)], [NAMES[k] for k in sorted(known)])
    rank = rng.integers(0, 3, factor.shape).astype(float)
    corrections: list[Any] = [UnitFactors(table=table), Margin(factor=margin)]
    told = world.ready.prediction
    estimator: Any = Corrected(world.ready, corrections)  # type: ignore[arg-type]  # says that it is asked once
    policy = replace(world.policy(placement=Ranks(rank)), estimator=estimator)
    simulation = Simulation(world.jobs, world.machine, policy, world.cap, world.actual, world.events)
    simulation.go()
    expected = naive_prediction(world, told, factor, known, margin)
    own = replace(world, ready=replace(world.ready, prediction=expected))
    expect_same(simulation.result(), own.twin(simulation.truth.reject, unit_rank=rank, keeps_base=True))
