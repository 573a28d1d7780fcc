"""Parts that take a table of watts by application and unit: what they predict, how they rank, what they refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wattqueue.errors import InputError, PolicyError
from wattqueue.formats.unit_factors import write_unit_factors
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.estimator.oracle_unit_watts import OracleUnitWatts
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.oracles import is_oracle
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.parts.placement.least_watts import LeastWatts
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import published_rows
from wattqueue.sim.engine import NO_FACTORS, simulate

MACHINE = Machine("three", (Partition("p", 3, max_w=115.0),), "jobs")
TABLE = UnitTable.of_watts(
    ["cholesky", "ferret"], ["socket10", "socket2", "socket1", "socket0"],
    np.array([[9.0, 60.0, 90.0, 75.0], [9.0, 50.0, 40.0, 60.0]]),
)  # fmt: skip
JOBS = replace(
    Jobs.build([0.0, 0.0, 1.0, 2.0], [1, 1, 2, 1], [10.0, 10.0, 10.0, 10.0]),
    app=Labels(np.array([1, 0, 1, -1], np.int32), ("cholesky", "ferret", "vips")),
)
KNOWN = KnownJobs.of(JOBS)


def test_watts_of_units_are_the_tables_by_number() -> None:
    found = UnitWatts(table=TABLE).predict(KNOWN, MACHINE)
    assert found.unit_factor is not None
    watts = found.watts(np.arange(3, dtype=np.int32), 0)
    by_job = watts[:, np.newaxis] * found.unit_factor[JOBS.app.codes[:3]]
    np.testing.assert_allclose(by_job[0], [60.0, 40.0, 50.0])
    np.testing.assert_allclose(by_job[1], [75.0, 90.0, 60.0])
    assert np.isnan(found.unit_factor[2]).all()
    assert found.watts(np.array([3], np.int32), 0).tolist() == [115.0]


def test_a_profile_socket_counts_for_all() -> None:
    found = UnitWatts(table=TABLE, profile_unit=2).predict(KNOWN, MACHINE)
    assert found.unit_factor is not None  # only so that the job without an application is counted
    np.testing.assert_array_equal(found.unit_factor[:2], 1.0)
    assert UnitWatts(table=TABLE, profile_unit=2).predict(KNOWN.take(np.arange(3)), MACHINE).unit_factor is None
    np.testing.assert_allclose(found.watts(np.arange(4, dtype=np.int32), 0), [50.0, 60.0, 50.0, 115.0])
    with pytest.raises(PolicyError, match="profile_unit"):
        UnitWatts(table=TABLE, profile_unit=3).predict(KNOWN, MACHINE)


@pytest.mark.parametrize("profile_unit", [-1, 2])
def test_an_application_that_the_table_lacks_is_the_engines_case_alone(profile_unit: int) -> None:
    """One rule for it (rule 12), whatever the table's other rows are: the stated maximum, the lowest units, counted."""
    estimator = UnitWatts(table=TABLE, profile_unit=profile_unit)
    jobs = JOBS.take(np.array([0, 2]))
    jobs = replace(jobs, app=Labels(np.array([2, 1], np.int32), JOBS.app.names))
    run = simulate(jobs, MACHINE, load_policy("slurm-vtp", estimator=estimator), cap=Cap.constant(1e3))
    assert run.schedule.predicted_w[0] == 115.0
    assert run.schedule.unit_low[run.schedule.unit_start[0]] == 0
    assert run.notes[NO_FACTORS] == 1


def test_ranks() -> None:
    prediction = UnitWatts(table=TABLE).predict(KNOWN, MACHINE)
    own = LeastWatts().rank(3, MACHINE, prediction)
    assert own is not None
    assert np.argsort(own[:2], axis=1).tolist() == [[2, 0, 1], [1, 2, 0]]
    one = Benchmark(table=TABLE).rank(3, MACHINE, prediction)
    assert one is not None
    assert np.argsort(one, axis=1).tolist() == [[2, 0, 1]] * 3
    assert LeastWatts().rank(3, MACHINE, Prediction(np.ones((1, 1)), np.ones((1, 1)))) is None
    with pytest.raises(PolicyError, match="no benchmark 'sparseLU'"):
        Benchmark(table=TABLE, app="sparseLU").rank(3, MACHINE, prediction)


@pytest.mark.parametrize("estimator", ["maximum", "history-mean", "last-job"])
def test_a_placement_without_factors_is_refused_and_not_ignored(estimator: str) -> None:
    policy = load_policy("easy", estimator=estimator, placement="least-watts")
    with pytest.raises(PolicyError, match="placement least-watts has nothing to rank units by") as caught:
        simulate(JOBS, MACHINE, policy)
    assert caught.value.hint is not None
    assert "unit-factors" in caught.value.hint
    by_number = simulate(JOBS, MACHINE, load_policy("easy", estimator=estimator))
    assert by_number.schedule.ran.all()


@pytest.mark.parametrize(
    ("units", "what"),
    [(["0", "2"], "unit 1 of 3 is missing"), (["a", "b"], "no number"), (["0", "socket0"], "no number of its own")],
)
def test_a_table_of_other_units_is_refused(units: list[str], what: str) -> None:
    table = UnitTable.of_watts(["cholesky"], units, np.ones((1, 2)))
    with pytest.raises(PolicyError, match=what):
        UnitWatts(table=table).predict(KNOWN, MACHINE)


def test_a_pair_that_was_not_measured_is_refused() -> None:
    table = UnitTable.of_watts(["ferret"], ["0", "1", "2"], np.array([[50.0, np.nan, 60.0]]))
    policy = load_policy("slurm-vtp", estimator=UnitWatts(table=table))
    with pytest.raises(PolicyError) as caught:
        simulate(JOBS, MACHINE, policy)
    assert caught.value.where == "application ferret, unit 1"


def test_only_the_oracle_is_one() -> None:
    assert is_oracle(OracleUnitWatts(table=TABLE))
    assert not is_oracle(UnitWatts(table=TABLE))


@pytest.mark.parametrize("name", [name for name, row in published_rows().items() if "paper 2" in row["source"].lower()])
def test_rows_of_paper_2_with_a_table_from_a_file(name: str, tmp_path: Path) -> None:
    write_unit_factors(tmp_path / "watts.csv", TABLE)
    row = published_rows()[name]
    more: dict[str, Any] = {}
    for axis in ("estimator", "placement"):
        given = row[axis] if isinstance(row[axis], dict) else {"part": row[axis]}
        if given["part"] in ("unit-watts", "oracle-unit-watts", "benchmark"):
            more[axis] = {**given, "table": str(tmp_path / "watts.csv")}
    actual = replace(UnitWatts(table=TABLE).predict(KNOWN, MACHINE), unit_factor=np.tile([1.2, 0.8, 1.0], (3, 1)))
    run = simulate(JOBS, MACHINE, load_policy(name, **more), cap=Cap.constant(230.0), actual=actual)
    assert run.schedule.ran.all()
    assert run.notes.get(NO_FACTORS, 0) == (0 if name == "slurm-extended" else 1)
    if name == "slurm-peva":
        with pytest.raises(PolicyError, match="placement benchmark has nothing to rank units by"):
            simulate(JOBS, MACHINE, load_policy(name), cap=Cap.constant(230.0), actual=actual)
        return
    without = simulate(JOBS, MACHINE, load_policy(name), cap=Cap.constant(230.0), actual=actual)
    assert np.unique(without.schedule.predicted_w / JOBS.nodes).tolist() == [115.0]
    assert without.notes.get(NO_FACTORS, 0) == (0 if name == "slurm-extended" else 4)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv"):
        load_policy("slurm-vtp", estimator={"part": "unit-watts", "table": str(tmp_path / "none.csv")})
