"""An estimator is asked, taught and checked by the session, live as in the simulator, whatever it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import ACCEPTS_ALL, MOST_W, lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_controller import Meter
from wattqueue.errors import PolicyError
from wattqueue.live.controller import Controller
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.replay import replay
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Asked, Finished, Prediction
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import simulate

NODES = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}
MACHINE = lab_machine(8, (2e9, 1e9))
OPTIONS = len(MACHINE.option_partition)
ROOMY = Cap.constant(800.0 + 1600.0)
Answer = Callable[[int], Any]


class Static:
    """Predicts before the run what a function of the number of jobs says."""

    asked: Asked = "once"
    machine_figures = False

    def __init__(self, watts: Answer, time: Answer = lambda n: np.ones((n, OPTIONS))) -> None:
        self.watts, self.time = watts, time

    def predict(self, jobs: Any, machine: Machine) -> Prediction:
        return Prediction(self.watts(len(jobs)), self.time(len(jobs)))


class Online(Static):
    """The same at each submission; keeps in which order it was taught and asked."""

    asked: Asked = "at_submit"

    def __init__(self, watts: Answer) -> None:
        super().__init__(lambda n: np.full((n, OPTIONS), 200.0))
        self.answer = watts
        self.heard: list[tuple[str, int]] = []

    def predict(self, jobs: Any, machine: Machine) -> Prediction:
        self.heard.append(("predict", len(jobs)))
        return super().predict(jobs, machine)

    def predict_rows(self, rows: Any, now_s: float) -> Any:
        self.heard.append(("predict_rows", len(rows)))
        return self.answer(len(rows))

    def learn(self, finished: Finished) -> None:
        self.heard.append(("learn", len(finished.rows)))


def full(value: float) -> Answer:
    return lambda n: np.full((n, OPTIONS), value)


def raising(n: int) -> Any:
    if n:
        raise KeyError("no such user")
    return np.zeros((0, OPTIONS))


def narrow(n: int) -> Any:
    """Too few columns as soon as there is a job."""
    return np.full((n, OPTIONS - (n > 0)), 150.0)


WRONG_STATIC = {
    "negative": Static(full(-1.0)),
    "too many watts": Static(full(1e9)),
    "too few columns": Static(narrow),
    "no table": Static(lambda n: np.full(n, 150.0) if n else np.zeros((0, OPTIONS))),
    "time factor of 0": Static(full(150.0), lambda n: np.zeros((n, OPTIONS))),
    "time factor that is not known": Static(full(150.0), full(np.nan)),
    "raises": Static(raising),
}
WRONG_ONLINE = {
    "unknown": Online(full(np.nan)),
    "negative": Online(full(-1.0)),
    "endless": Online(full(np.inf)),
    "too few columns": Online(lambda n: np.full((n, 1), 150.0)),
    "too many rows": Online(lambda n: np.full((n + 1, OPTIONS), 150.0)),
    "ragged": Online(lambda _: [[150.0], [150.0, 160.0]]),
    "words": Online(lambda n: [["many"] * OPTIONS] * n),
    "nothing": Online(lambda _: None),
    "raises": Online(raising),
}
WRONG = {
    f"{kind}: {name}": part
    for kind, of in (("once", WRONG_STATIC), ("at_submit", WRONG_ONLINE))
    for name, part in of.items()
}


def policy_with(estimator: Any) -> Policy:
    return replace(load_policy("easy"), estimator=estimator)


def live_with(estimator: Any, folder: Path, **more: Any) -> tuple[FakeSlurm, Controller]:
    slurm = FakeSlurm(NODES, 1600)
    controller = make_controller(
        slurm, folder, lambda: slurm.now_s, cap=ROOMY, machine=MACHINE, policy=policy_with(estimator), **more
    )
    return slurm, controller


def rounds(slurm: FakeSlurm, controller: Controller, count: int) -> None:
    for _ in range(count):
        assert controller.round() is not None
        slurm.step()


@pytest.mark.parametrize("name", WRONG)
def test_what_the_simulator_refuses_counts_live_at_the_maximum(tmp_path: Path, name: str) -> None:
    jobs = Jobs.build([0.0, 5.0], [1, 2], [10.0, 10.0])
    with pytest.raises(KeyError if name.endswith("raises") else PolicyError):
        simulate(jobs, MACHINE, policy_with(WRONG[name]))
    slurm, controller = live_with(WRONG[name], tmp_path, record=True)
    first = slurm.submit(1, 5.0, watts=50, limit_s=600.0)
    rounds(slurm, controller, 3)
    second = slurm.submit(2, 5.0, watts=50, limit_s=600.0)
    rounds(slurm, controller, 3)
    assert (first.licences["watts"], second.licences["watts"]) == (200, 400)  # 300 W less 100 W idle, a node
    assert [text for text in controller.troubles if type(WRONG[name]).__name__ in text]
    assert controller.last is not None
    assert [text for text in controller.last.problems if "maximum" in text]
    rounds(slurm, controller, 9)
    assert (first.state, second.state, first.starts, second.starts) == ("COMPLETED", "COMPLETED", 1, 1)
    assert all(then == now for _, then, now in replay(tmp_path / "views.jsonl", policy_with(WRONG[name])))


def test_a_shape_that_is_wrong_for_no_job_is_refused_before_the_first_round(tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        live_with(Static(lambda n: np.full((n, 1), 150.0)), tmp_path)


def test_an_unknown_figure_of_one_job_leaves_the_others_their_own(tmp_path: Path) -> None:
    def one_unknown(n: int) -> Any:
        watts = np.full((n, OPTIONS), 150.0)
        watts[:1, 1] = np.nan
        return watts

    slurm, controller = live_with(Static(one_unknown), tmp_path)
    jobs = [slurm.submit(1, 5.0, watts=50, limit_s=600.0) for _ in range(3)]
    rounds(slurm, controller, 3)
    assert [job.licences["watts"] for job in jobs] == [200, 50, 50]


def test_options_that_are_never_offered_are_no_fault(tmp_path: Path) -> None:
    def slow_only(n: int) -> Any:
        watts = np.full((n, OPTIONS), 150.0)
        watts[:, 0] = np.inf
        return watts

    slurm, controller = live_with(Static(slow_only), tmp_path)
    job = slurm.submit(1, 5.0, watts=50, limit_s=600.0, partition="p1,p2")
    rounds(slurm, controller, 3)
    assert controller.troubles == {}
    assert job.partition == "p2"


def test_an_estimator_is_taught_before_it_is_asked_in_both_worlds(tmp_path: Path) -> None:
    """A job ends at the instant, and in the round, in which another one is submitted."""
    simulated = Online(full(150.0))
    simulate(Jobs.build([0.0, 10.0], [1, 1], [10.0, 10.0]), MACHINE, policy_with(simulated))
    assert simulated.heard == [("predict", 2), ("predict_rows", 1), ("learn", 1), ("predict_rows", 1)]
    part = Online(full(150.0))
    tracked = Rules(mode="control", write_priority=False, track_running=True, overshoot=ACCEPTS_ALL, warm_up_s=1.0)
    slurm = FakeSlurm(NODES, 1600)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=ROOMY, machine=MACHINE, policy=policy_with(part), rules=tracked,
        sources=(Meter(slurm),),
    )  # fmt: skip
    first = slurm.submit(1, 10.0, watts=200)
    while first.state != "COMPLETED":
        rounds(slurm, controller, 1)
    slurm.submit(1, 10.0, watts=200)
    rounds(slurm, controller, 1)
    # each round has a table of its own: the job that ended is its first row
    assert part.heard == [("predict", 1), ("predict_rows", 1), ("predict", 2), ("learn", 1), ("predict_rows", 1)]


def test_an_estimator_that_is_asked_once_is_not_taught_although_it_could_be(tmp_path: Path) -> None:
    class Both(Online):
        asked: Asked = "once"

    part = Both(full(150.0))
    slurm, controller = live_with(part, tmp_path)
    slurm.submit(1, 5.0, watts=200)
    rounds(slurm, controller, 2)
    assert {kind for kind, _ in part.heard} == {"predict"}
    assert MOST_W == 300.0
