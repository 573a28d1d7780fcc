"""Starts that ask for nodes by name, with the watts of these very nodes, on the fake cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.errors import PolicyError
from wattqueue.live.cluster import ChangeJob
from wattqueue.live.controller import Controller
from wattqueue.live.decision import require_live
from wattqueue.live.placement import NAMED
from wattqueue.live.planner import Rules
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.model.unit_table import UnitTable
from wattqueue.parts.estimator.unit_watts import UnitWatts
from wattqueue.parts.placement.benchmark import Benchmark
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy

NODES = {"p1": ["n1", "n2", "n3", "n4"], "p2": ["m1", "m2", "m3", "m4"]}
NAMES = (*NODES["p1"], *NODES["p2"])
WATTS = np.array([[230.4, 210.3, 250.2, 190.1, 240.0, 240.0, 240.0, 240.0], [150.0] * 7 + [180.0]])
"""Watts of the applications cg and ft on each node; 100 W of them are idle watts."""
TABLE = UnitTable.of_watts(["cg", "ft"], [str(k) for k in range(8)], WATTS)
RULES = Rules(mode="control", write_priority=False, start_timeout_s=10.0)


def policy() -> Policy:
    """Least predicted watts on the very nodes."""
    return load_policy("easy", estimator=UnitWatts(table=TABLE), placement="least-watts")


def cluster() -> FakeSlurm:
    return FakeSlurm({name: list(nodes) for name, nodes in NODES.items()}, 1600)


def controller_of(slurm: FakeSlurm, folder: Path, cap_w: float = 2400.0, **more: Any) -> Controller:
    more = {"policy": policy(), "rules": RULES, **more}
    return make_controller(slurm, folder, lambda: slurm.now_s, cap=Cap.constant(cap_w), machine=lab_machine(8), **more)


def submit(slurm: FakeSlurm, nodes: int = 1, app: str = "cg", partition: str = "p1", **more: Any) -> FakeJob:
    return slurm.submit(nodes, more.pop("seconds", 30.0), watts=200 * nodes, app=app, partition=partition, **more)


def run(controller: Controller, slurm: FakeSlurm, rounds: int = 1) -> None:
    for _ in range(rounds):
        controller.round()
        slurm.step()


def net_w(app: str, nodes: tuple[str, ...]) -> float:
    """Watts that a job may draw on these nodes, above idle."""
    row = TABLE.apps.index(app)
    return float(sum(WATTS[row, NAMES.index(name)] - 100.0 for name in nodes))


def test_the_nodes_of_least_watts_are_asked_for_in_one_update(tmp_path: Path) -> None:
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    one, two = submit(slurm, 1), submit(slurm, 2)
    run(controller, slurm)
    assert one.held_nodes == one.requested == ("n4",)
    assert set(two.held_nodes) == set(two.requested) == {"n1", "n2"}
    changes = [w for w in slurm.writes if isinstance(w, ChangeJob) and w.target == one.name]
    assert len(changes) == 1
    assert changes[0].fields.nodes == ("n4",)
    assert changes[0].fields.node_count in (None, (1, 1))
    assert changes[0].fields.watts == one.licences["watts"]
    for job in (one, two):
        drawn = net_w("cg", job.held_nodes)
        assert drawn <= job.licences["watts"] <= drawn + 3.0


def test_no_job_runs_on_fewer_watts_than_it_can_draw_and_the_cap_holds(tmp_path: Path) -> None:
    """Random jobs under a cap: each licence covers the nodes that its job got."""
    rng, slurm = np.random.default_rng(3), cluster()
    controller = controller_of(slurm, tmp_path, cap_w=800.0 + 400.0)
    jobs: list[FakeJob] = []
    for _ in range(120):
        if len(jobs) < 40:
            jobs.append(
                submit(
                    slurm, int(rng.integers(1, 4)), str(rng.choice(["cg", "ft", "new"])), str(rng.choice(["p1", "p2"])),
                    seconds=float(rng.integers(3, 9)),
                )
            )  # fmt: skip
        run(controller, slurm)
        for job in slurm.running():
            drawn = 200.0 * len(job.held_nodes) if job.app == "new" else net_w(job.app, job.held_nodes)
            assert job.licences["watts"] >= drawn - 1e-6, job
        assert slurm.drawn_w <= 400
    assert sum(job.state == "COMPLETED" for job in jobs) > 25
    assert not controller.troubles


def test_an_application_that_was_never_profiled_counts_the_maximum(tmp_path: Path) -> None:
    slurm = cluster()
    job = submit(slurm, 2, "new")
    controller = controller_of(slurm, tmp_path)
    report = controller.round()
    assert report is not None
    assert any(text.startswith("1 waiting jobs have an application without") for text in report.problems)
    slurm.step()
    assert job.licences["watts"] == 400
    assert job.state == "RUNNING"
    report = controller.round()
    assert report is not None
    assert report.problems == []


def test_a_table_that_lacks_a_node_is_refused_at_the_start() -> None:
    table = UnitTable.of_watts(["cg"], [str(k) for k in range(7)], np.full((1, 7), 150.0))
    with pytest.raises(PolicyError, match="unit 7 of 8 is missing"):
        require_live(load_policy("easy", estimator=UnitWatts(table=table)), lab_machine(8))


def test_an_application_measured_on_some_nodes_only_counts_the_maximum(tmp_path: Path) -> None:
    watts = WATTS.copy()
    watts[0, 3] = np.nan
    slurm, table = cluster(), UnitTable.of_watts(["cg", "ft"], [str(k) for k in range(8)], watts)
    half = load_policy("easy", estimator=UnitWatts(table=table), placement="least-watts")
    controller = controller_of(slurm, tmp_path, policy=half)
    job = submit(slurm, 1, "cg")
    run(controller, slurm)
    assert job.licences["watts"] == 200
    assert any("a unit has no factor" in text for text in controller.troubles)


def test_what_a_user_asked_for_stays_and_counts_the_worst_nodes(tmp_path: Path) -> None:
    slurm = cluster()
    job = submit(slurm, 1, requested=("n2",))
    run(controller_of(slurm, tmp_path), slurm)
    assert job.requested == job.held_nodes == ("n2",)
    assert job.licences["watts"] == 151


def test_a_node_drained_after_the_look_is_a_refusal_and_another_one_is_chosen(tmp_path: Path) -> None:
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    job = submit(slurm, 1)
    controller.round()
    slurm.down.add("n4")  # between the look and the start
    run(controller, slurm, 13)
    assert job.state == "PENDING"
    assert job.priority == 0, "it is held again"
    assert job.requested == (), "and asks for no node"
    assert job.licences["watts"] == 200, "any node may be its own, whoever releases it"
    refused = next(iter(controller.planner.memory.refused.values()))
    assert refused.times == 1
    run(controller, slurm, 35)
    assert job.held_nodes == ("n2",), "the best of those that are left, after the back-off"
    assert job.licences["watts"] == 111


def test_a_job_that_excludes_the_chosen_node_never_runs_on_too_few_watts(tmp_path: Path) -> None:
    """The controller does not see what a user excludes; Slurm holds such a job itself, and releases it at a change."""
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    job = submit(slurm, 1, excluded=("n4", "n2"), seconds=400.0)
    for _ in range(200):
        run(controller, slurm)
        if job.state == "RUNNING":
            assert job.licences["watts"] >= net_w("cg", job.held_nodes)
    assert job.starts == 1
    assert job.requested == ()
    assert job.licences["watts"] == 151, "after two failures: the cluster chooses, at the watts of the worst node"


def test_a_job_that_was_started_by_others_gets_the_watts_of_its_nodes(tmp_path: Path) -> None:
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    job = submit(slurm, 1)
    controller.round()
    job.requested, job.licences["watts"] = ("n3",), 20
    for key in list(controller.planner.memory.placed):
        controller.planner.memory.unplace([key])
    slurm.step()
    assert job.held_nodes == ("n3",)
    run(controller, slurm)
    assert job.licences["watts"] == 151


def test_a_job_of_others_on_every_node_gets_the_watts_of_its_nodes(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": list(NAMES)}, 1600)
    machine = Machine("lab", (replace(lab_machine(8).partitions[0], nodes=8),))
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0), machine=machine, policy=policy(), rules=RULES
    )
    job = submit(slurm, 8)
    controller.round()
    job.licences["watts"] = 20
    controller.planner.memory.unplace(list(controller.planner.memory.placed))
    slurm.step()
    assert len(job.held_nodes) == 8
    run(controller, slurm)
    drawn = net_w("cg", job.held_nodes)
    assert drawn <= job.licences["watts"] <= drawn + 8.0


def test_a_job_that_is_taken_back_or_requeued_asks_for_no_node(tmp_path: Path) -> None:
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    job = submit(slurm, 1)
    run(controller, slurm)
    key = controller.last.snapshot.jobs[0].key if controller.last else None
    assert key is not None
    assert controller.planner.memory.marked(key, NAMED)
    slurm.requeue_and_hold(job)
    blocker = submit(slurm, 4)
    blocker.priority, blocker.reason = slurm.last_priority, "None"  # an administrator's start takes all of p1
    slurm.schedule()
    run(controller, slurm, 3)
    assert job.state == "PENDING"
    assert job.requested == ()


def test_ranks_without_watts_by_node_name_the_nodes_too(tmp_path: Path) -> None:
    slurm = cluster()
    ranked = load_policy("easy", placement=Benchmark(table=TABLE, app="cg"))
    job = submit(slurm, 1, "ft")
    run(controller_of(slurm, tmp_path, policy=ranked), slurm)
    assert job.held_nodes == job.requested == ("n4",)
    assert job.licences["watts"] == 200


@pytest.mark.parametrize(("naming", "named"), [("always", True), ("auto", False), ("never", False)])
def test_nodes_that_are_alike_are_named_where_the_site_asks_for_it(tmp_path: Path, naming: Any, named: bool) -> None:
    slurm = cluster()
    job = submit(slurm, 1)
    rules = RULES.__class__(**{**vars(RULES), "place_nodes": naming})
    run(controller_of(slurm, tmp_path, policy="easy", rules=rules), slurm)
    assert job.state == "RUNNING"
    assert bool(job.requested) == named


def test_a_policy_that_tells_nodes_apart_is_refused_where_no_node_may_be_named() -> None:
    assert require_live(policy(), lab_machine(8)) is not None
    for refused in (policy(), load_policy("easy", placement=Benchmark(table=TABLE, app="cg"))):
        with pytest.raises(PolicyError, match="place_nodes"):
            require_live(refused, lab_machine(8), names_nodes=False)


def test_a_job_on_other_nodes_than_it_was_counted_for_gets_their_watts(tmp_path: Path) -> None:
    """An operator changed its nodes between the release and the start."""
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    job = submit(slurm, 1)
    controller.round()
    assert job.requested == ("n4",)
    job.requested = ("n3",)
    slurm.step()
    assert job.held_nodes == ("n3",)
    run(controller, slurm)
    assert job.licences["watts"] == 151


def test_without_telemetry_nodes_are_alike_at_their_maximum(tmp_path: Path) -> None:
    slurm = cluster()
    controller = controller_of(slurm, tmp_path)
    submit(slurm, 1)
    snapshot = slurm.observe()
    plan = controller.planner.plan(snapshot, {}, telemetry_ok=False)
    assert plan.view.prediction.unit_factor is None
    assert float(plan.view.prediction.power_w[0, 0]) == 300.0
    again = controller.planner.plan(snapshot, {}, telemetry_ok=True)
    assert again.view.prediction.unit_factor is not None


def test_a_recording_of_such_rounds_is_decided_again(tmp_path: Path) -> None:
    from wattqueue.live.recordings.replay import replay

    slurm = cluster()
    controller = controller_of(slurm, tmp_path, cap_w=1300.0, record=True)
    for k in range(30):
        if k % 3 == 0:
            app, partition = ("cg", "ft", "new")[k % 4 % 3], ("p1", "p2")[k % 2]
            submit(slurm, 1 + k % 2, app, partition, seconds=5.0, most_nodes=1 + k % 4)
        run(controller, slurm)
    lines = list(replay(tmp_path / "views.jsonl", policy()))
    assert len(lines) > 10
    assert [number for number, recorded, now in lines if recorded != now] == []
