"""A base and corrections in a live controller: what jobs of the past teach, what is stored, what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine
from tests.live.test_placement import NAMES, cluster, controller_of, run, submit
from wattqueue.errors import PolicyError
from wattqueue.live.cluster import JobKey
from wattqueue.live.decision import Decider, require_live
from wattqueue.live.features.learning import MeasuredJobs
from wattqueue.live.predictor import Predictor, runs_of
from wattqueue.live.requests import JobRequest, MeasuredJob, ObservedJob
from wattqueue.live.state.database import open_state
from wattqueue.live.world import Layout
from wattqueue.model.unit_table import UnitTable
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

WATTS = np.array([[160.0, 240.0, 200.0, 200.0, 100.0, 300.0, 200.0, 200.0]])
SECONDS = np.array([[3.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0]])
TABLE = UnitTable.of_watts(["cg"], [str(k) for k in range(8)], WATTS)
TIMED = UnitTable(TABLE.apps, TABLE.units, TABLE.base_w, TABLE.factor, time_factor=SECONDS)


def policy(base: str = "history-mean", *more: Any, table: UnitTable = TABLE, **parts: Any) -> Policy:
    return load_policy("easy", estimator=[base, {"part": "unit-factors", "table": table}, *more], **parts)


def layout() -> Layout:
    return Layout.of(lab_machine(8), [*cluster().observe().nodes], {})


def measured(name: str, watts: float, *nodes: str, app: str = "cg") -> MeasuredJob:
    request = JobRequest(JobKey(name, 10.0), "u1", app, "p1", max(len(nodes), 1), 600.0)
    return MeasuredJob(request, 20.0, 100.0 + float(name), watts, watts, 300.0, "p1", np.nan, nodes)


def predicted(chosen: Policy, jobs: list[MeasuredJob], app: str = "cg") -> tuple[float, Predictor]:
    """The watts of a node of factor 1 of a new job, after what jobs of the past taught."""
    predictor = Predictor(Decider(chosen, layout(), power_nodes=False, timeout_s=1.0).session, layout())
    predictor.learn(jobs)
    mine = JobRequest(JobKey("9", 500.0), "u1", app, "p1", 1, 600.0)
    predictor.predict([mine], 600.0)
    found = predictor.of(mine.key)
    assert found is not None
    return float(found[0][0]), predictor


def test_watts_are_learned_without_those_of_the_nodes() -> None:
    """180 W on a node of factor 1.2 are 150 W on one of factor 1; 160 W on both of a pair are 160 W."""
    assert predicted(policy(), [measured("1", 180.0, "n2")])[0] == pytest.approx(150.0)
    assert predicted(policy(), [measured("1", 160.0, "n1", "n2")])[0] == pytest.approx(160.0)
    assert predicted(policy("history-mean", {"part": "margin", "factor": 1.1}), [measured("1", 180.0, "n2")])[
        0
    ] == pytest.approx(165.0)


@pytest.mark.parametrize("nodes", [(), ("gone",), ("n2", "gone")])
def test_watts_on_nodes_that_are_not_known_are_learned_as_they_are(nodes: tuple[str, ...]) -> None:
    assert predicted(policy(), [measured("1", 180.0, *nodes)])[0] == pytest.approx(180.0)


def test_an_application_without_factors_keeps_the_prediction() -> None:
    watts, predictor = predicted(policy(), [measured("1", 180.0, "n2", app="ft")], app="ft")
    assert watts == pytest.approx(180.0)
    assert predictor.unit_factors == {}
    assert predictor.has_node_factors


def test_where_a_job_ran_is_kept_over_a_restart(tmp_path: Path) -> None:
    store = MeasuredJobs(open_state(tmp_path / "l.db"))
    one = measured("1", 180.0, "n2", "n3")._replace(frequency_hz=2e9)
    assert store.keep([one]) == [one]
    assert MeasuredJobs(open_state(tmp_path / "l.db")).recall() == [one]
    ran = ObservedJob(one.request, 300.0, "p1", 2e9, ("n1", "n4"))
    store.began([ran])
    assert MeasuredJobs(open_state(tmp_path / "l.db")).running() == [ran]


def test_units_and_options_of_measured_jobs() -> None:
    found = runs_of([measured("1", 1.0, "n2", "m1"), measured("2", 1.0)._replace(hardware="lost")], layout())
    assert found.count.tolist() == [2, 0]
    assert found.low.tolist() == found.high.tolist() == [1, 4]
    assert found.option.tolist() == [0, -1]
    assert np.isnan(found.limit_w).all()


@pytest.mark.parametrize(
    ("chosen", "node"),
    [
        (policy("maximum", placement="least-watts"), "n1"),
        (policy(placement="least-watts"), "n1"),
        (policy(placement={"part": "least-watts", "by": "time"}, table=TIMED), "n3"),
    ],
    ids=["base that is asked once", "history", "by time"],
)
def test_starts_ask_for_the_nodes_that_the_factors_rank_first(tmp_path: Path, chosen: Policy, node: str) -> None:
    slurm = cluster()
    controller = controller_of(slurm, tmp_path, policy=chosen)
    job = submit(slurm, 1)
    run(controller, slurm, 2)
    assert job.held_nodes == job.requested == (node,)
    most, idle = 300.0, 100.0
    factor = WATTS[0, NAMES.index(node)] / 240.0  # the worst node of p1 draws its maximum
    assert job.licences["watts"] == pytest.approx(most * factor - idle, abs=1.0)


def test_a_rank_by_time_needs_times() -> None:
    with pytest.raises(PolicyError) as caught:
        require_live(policy(placement={"part": "least-watts", "by": "time"}), lab_machine(8))
    assert "time_s" in str(caught.value.hint)
    require_live(policy(placement={"part": "least-watts", "by": "time"}, table=TIMED), lab_machine(8))
    with pytest.raises(PolicyError):
        require_live(policy(), lab_machine(8), names_nodes=False)
