"""The public suite on every estimator found, and on estimators with one fault each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from wattqueue.checks.estimator import Check, check_estimator, estimator_checks
from wattqueue.checks.leak import find_leak
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.errors import PolicyError
from wattqueue.formats.machine.file import load_machine
from wattqueue.model.eamc_table1 import APPS
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Estimator, Finished, Floats, Ints, Prediction
from wattqueue.parts.estimator.history_mean import HistoryMean
from wattqueue.parts.estimator.maximum import Maximum
from wattqueue.parts.estimator.oracle_mean import OracleMean
from wattqueue.parts.timeline import Timeline
from wattqueue.policy.registry import part_class, part_names

FITTED = {"linear", "linear-svr", "sgd", "random-forest", "gradient-quantiles"}
SMALLER: dict[str, dict[str, Any]] = {"random-forest": {"trees": 3, "tree_rows": 100}}
JOBS, MACHINE = sample_jobs(), sample_machine()
FEW = sample_jobs(170)


def maker(name: str) -> Callable[[], Estimator]:
    if name in FITTED:
        pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'wattqueue[ml]'")
    return lambda: cast("Estimator", part_class("estimator", name)(**SMALLER.get(name, {})))


def sample_for(name: str) -> tuple[Jobs, Machine]:
    """Jobs and machine on which a part makes sense: EAR's needs hardware and applications of its profiles."""
    if name == "ear":
        names = (*APPS, "never seen before")
        app = Labels((np.arange(len(JOBS)) % len(names)).astype(np.int32), names)
        machine = load_machine("eamc-p1p2")  # which states no maximum, what an unknown application counts as
        parts = tuple(replace(p, max_w=1_000.0) for p in machine.partitions)
        return replace(JOBS, app=app), replace(machine, partitions=parts)
    return (FEW if name in FITTED else JOBS), MACHINE


LONG = "check_no_leak_among_more_jobs"


@pytest.mark.parametrize(
    ("check_name", "check"),
    [each for each in estimator_checks() if each[0] != LONG],
    ids=lambda v: v if isinstance(v, str) else "",
)
@pytest.mark.parametrize(
    "name",
    # Trained by scikit-learn alike: one of them says with kernels as plain Python what all would say.
    [pytest.param(n, marks=pytest.mark.compiled if n in FITTED - {"linear"} else ()) for n in part_names("estimator")],
)
def test_every_estimator_passes_every_check(name: str, check_name: str, check: Check) -> None:
    check(maker(name), *sample_for(name))


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name",
    # Training among thousands of jobs takes half a minute, and one of these says what all would say.
    [pytest.param(n, marks=pytest.mark.slow if n in FITTED - {"linear"} else ()) for n in part_names("estimator")],
)
def test_every_estimator_passes_among_more_jobs(name: str) -> None:
    dict(estimator_checks())[LONG](maker(name), *sample_for(name))


def test_the_suite_holds_at_least_the_promised_checks() -> None:
    names = {name for name, _ in estimator_checks()}
    promised = {"pure", "deterministic", "picklable", "shapes_and_units", "empty", "bounded_memory", "no_leak"}
    assert {f"check_{p}" for p in promised} <= names


class Answering:
    """An estimator that learns and answers 500 W; faults are planted in subclasses."""

    asked: Asked = "at_submit"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        self.jobs, self.options = jobs, len(machine.option_partition)
        shape = (1, self.options)
        return Prediction(np.full(shape, 500.0), np.ones(shape), np.zeros(len(jobs), np.int32))

    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), self.options), 500.0)

    def learn(self, finished: Finished) -> None:
        pass


def test_a_sound_estimator_of_ones_own_passes() -> None:
    check_estimator(Answering)


class WholeTraceMean(Answering):
    """Static, and leaks: the mean of a user's jobs over the whole trace."""

    asked: Asked = "once"

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        code, watts = jobs.user.codes + 1, np.nan_to_num(jobs.mean_power_w)  # type: ignore[attr-defined]
        mean = np.bincount(code, watts) / np.maximum(np.bincount(code), 1)
        power = np.repeat(mean[code][:, np.newaxis], len(machine.option_partition), axis=1)
        return Prediction(power, np.ones_like(power))


class OwnWatts(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.repeat(np.nan_to_num(self.jobs.mean_power_w[rows])[:, np.newaxis], self.options, axis=1)  # type: ignore[attr-defined]


class OwnRuntime(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.repeat(500.0 + self.jobs.runtime_s[rows, np.newaxis] / 1e5, self.options, axis=1)  # type: ignore[attr-defined]


class OwnEnergy(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.repeat(self.jobs.extra["energy_j"][rows, np.newaxis], self.options, axis=1)


class WidestJobToCome(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), self.options), 500.0 + float(self.jobs.nodes.max()))


class LengthOfTheTrace(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full((len(rows), self.options), 500.0 + len(self.jobs) / 1e3)


class WidthOfTheNextJob(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        after = np.minimum(rows + 1, len(self.jobs) - 1)
        return np.repeat(500.0 + self.jobs.nodes[after, np.newaxis], self.options, axis=1).astype(np.float64)


class ReplaysWithTheEnd(HistoryMean):
    """A compiled replay of our own kind is given the whole trace."""

    def replay_watts(self, jobs: Jobs, line: Timeline, watts: Floats) -> Floats:
        return np.nan_to_num(super().replay_watts(jobs, line, watts)) + jobs.runtime_s


class OwnStart(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        wait = self.jobs.start_s[rows] - now_s  # type: ignore[attr-defined]
        return np.repeat(500.0 + wait[:, np.newaxis] / 1e5, self.options, axis=1)


@pytest.mark.parametrize("leaking", [WholeTraceMean, OwnWatts, OwnRuntime, OwnStart, OwnEnergy])
def test_reading_an_outcome_is_an_error(leaking: type[Answering]) -> None:
    jobs = sample_jobs()
    jobs.extra["energy_j"] = np.arange(float(len(jobs)))
    with pytest.raises(PolicyError) as caught:
        check_estimator(leaking, jobs, MACHINE)
    assert caught.value.where == leaking.__name__
    assert "knows_future" in (caught.value.hint or "")


@pytest.mark.parametrize("leaking", [WidestJobToCome, LengthOfTheTrace, WidthOfTheNextJob, ReplaysWithTheEnd])
def test_a_planted_leak_is_found(leaking: Callable[[], Estimator]) -> None:
    jobs = sample_jobs()
    found = find_leak(leaking, jobs, MACHINE)
    assert found is not None
    assert "row " in found
    with pytest.raises(PolicyError) as caught:
        dict(estimator_checks())["check_no_leak"](leaking, jobs, MACHINE)
    assert found in caught.value.what


def test_the_bounds_leak_and_say_so_while_history_does_not() -> None:
    assert find_leak(OracleMean, JOBS, MACHINE) is not None
    assert OracleMean().knows_future
    assert find_leak(HistoryMean, JOBS, MACHINE) is None
    assert find_leak(Maximum, JOBS, MACHINE) is None


def test_a_trace_without_jobs_leaks_nothing() -> None:
    assert find_leak(HistoryMean, JOBS.take(np.zeros(0, np.int64)), MACHINE) is None


class NeverAsked(Answering):
    asked = "sometimes"  # type: ignore[assignment]


class CannotLearn:
    asked: Asked = "at_submit"
    machine_figures = False
    predict = Answering.predict


class WholeJob(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.repeat(500.0 * self.jobs.nodes[rows, np.newaxis], self.options, axis=1)


class OneColumn(Answering):
    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        return Prediction(np.full((len(jobs), 1), 500.0), np.ones((len(jobs), 1)))


class FlatRows(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.full(len(rows), 500.0)


class WritesToTheTable(Answering):
    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        jobs.walltime_s[:1] += 1.0
        return super().predict(jobs, machine)


class RollsDice(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return np.random.default_rng().uniform(400.0, 600.0, (len(rows), self.options))


class GlobalDice(Answering):
    def predict_rows(self, rows: Ints, now_s: float) -> Floats:
        return super().predict_rows(rows, now_s) + np.random.random()  # noqa: NPY002 - the fault


class NeverForgets(Answering):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def learn(self, finished: Finished) -> None:
        self.seen += finished.end_s.tolist() * 20


class CannotBePickled(Answering):
    def __init__(self) -> None:
        self.rule = lambda watts: watts


FAULTS: list[tuple[type[Any], str]] = [
    (NeverAsked, "check_attributes"),
    (CannotLearn, "check_attributes"),
    (WholeJob, "check_shapes_and_units"),
    (OneColumn, "check_shapes_and_units"),
    (FlatRows, "check_shapes_and_units"),
    (WritesToTheTable, "check_pure"),
    (RollsDice, "check_deterministic"),
    (GlobalDice, "check_deterministic"),
    (NeverForgets, "check_bounded_memory"),
    (CannotBePickled, "check_picklable"),
]


@pytest.mark.parametrize(("faulty", "named"), FAULTS)
def test_a_fault_is_found_by_its_check(faulty: type[Any], named: str) -> None:
    with pytest.raises(PolicyError) as caught:
        dict(estimator_checks())[named](faulty, sample_jobs(), MACHINE)
    assert caught.value.where == faulty.__name__
    assert caught.value.hint
    with pytest.raises(PolicyError):
        check_estimator(faulty)
