"""The check of misnamed applications live: metrics of jobs, false claims, and why none is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_applications_live import HIGH, LOW, table
from tests.live.test_node_limits import MOST_W, NODES, Cluster, Node
from wattqueue.formats.ear.files import write_coefficients_csv
from wattqueue.live.agents import AgentState
from wattqueue.live.assemble import assemble
from wattqueue.live.config import load_config
from wattqueue.live.features.agent_controls import AppSources, load_live_policy
from wattqueue.live.features.applications import Applications
from wattqueue.live.features.job_counters import LINE_BYTES, JobCounters
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.store.applications import AppRun

ROW = """
[checked]
source = "a test"
estimator = "{estimator}"
controls = [{{ part = "app-check", warm_up_s = 20.0, period_s = 5.0 }}]
"""


class CountingNode(Node):
    """A node whose agent counts: ``cpi`` and ``tpi`` of what runs there, at 2e9 cycles a second."""

    cpi, tpi, counting = 0.5, 20.0, True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.counted = dict.fromkeys(("cycles", "instructions", "transactions"), 0.0)

    def state(self, now_s: float) -> AgentState:
        instructions = 2e9 / self.cpi
        more = (2e9, instructions, self.tpi * instructions / LINE_BYTES)
        self.counted = {name: value + step for (name, value), step in zip(self.counted.items(), more, strict=True)}
        state = super().state(now_s)
        if not self.counting:
            return state.model_copy(update={"problems": ("counters: perf does not count cycles on this node",)})
        return state.model_copy(update={"counters": self.counted})


class Checked:
    """A controller whose policy checks applications, over a fake Slurm and four nodes that count."""

    def __init__(self, folder: Path) -> None:
        write_coefficients_csv(folder / "ear.csv", {"p1": table()})
        self.site = Applications.open(str(folder / "apps.db"), folder / "ear.csv", "estimate")
        self.site.database.learn([AppRun("lu", "p1", HIGH, 100.0, 260.0, 0.5, 20.0)])
        self.site.database.learn([AppRun("ep", "p1", HIGH, 100.0, 300.0, 0.9, 0.1)])
        (folder / "row.toml").write_text(ROW.format(estimator="ear"))
        counters = JobCounters()
        policy, left_out = load_live_policy(f"{folder}/row.toml:checked", AppSources(self.site, counters))
        assert left_out == []
        self.cluster = Cluster()
        self.cluster.nodes = {name: CountingNode(name) for name in NODES}
        self.cluster.wire.nodes = self.cluster.nodes
        self.slurm = FakeSlurm({"p1": NODES}, 4000)
        link: Any = self.cluster.link
        machine = Machine("four", (Partition("p1", 4, frequencies_hz=(HIGH, LOW), idle_w=100.0, max_w=MOST_W),))
        self.controller = make_controller(
            self.slurm, folder, lambda: self.slurm.now_s, cap=Cap.none(), machine=machine,
            policy=self.site.into(policy), sources=(link,), applications=self.site, counters=counters,
        )  # fmt: skip
        self.cluster.wire.now_s = self.slurm.now_s

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.cluster.step(self.slurm.now_s)
            assert self.controller.round() is not None
            self.slurm.step(1.0)

    def node(self, job: Any) -> CountingNode:
        node = self.cluster.nodes[job.held_nodes[0]]
        assert isinstance(node, CountingNode)
        return node


BROKER = """
[telemetry.broker]
host = "localhost"
user = "controller"
password_file = "password"
"""


@pytest.mark.parametrize("broker", ["", BROKER], ids=["no agents", "agents"])
def test_a_site_without_agents_is_told_that_no_application_is_checked(broker: str, tmp_path: Path) -> None:
    write_coefficients_csv(tmp_path / "ear.csv", {"p1": table()})
    (tmp_path / "row.toml").write_text(ROW.format(estimator="ear"))
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    part = f'name = "p1"\nnodes = {len(NODES)}\nfrequencies_hz = [{HIGH}, {LOW}]\nidle_w = 100.0\nmax_w = {MOST_W}\n'
    (tmp_path / "machine.toml").write_text(f'name = "four"\n[[partitions]]\n{part}')
    applications = f'[applications]\ndatabase = "{tmp_path}/apps.db"\ncoefficients = "ear.csv"\n'
    (tmp_path / "live.toml").write_text(
        f'machine = "machine.toml"\ncap = "none"\npolicy = "row.toml:checked"\n{applications}{broker}'
    )
    controller = assemble(load_config(tmp_path / "live.toml"), FakeSlurm({"p1": NODES}, 4000), lambda: 1e6)
    controller.telemetry.close()
    controller.run_dir.release()
    found = [text for text in controller.standing if "app-check" in text]
    assert found == ([] if broker else [
        "app-check is left out: no agents are configured that could read counters ([telemetry.broker])"
    ])  # fmt: skip


def test_a_misnamed_job_is_found_recorded_and_its_frequency_corrected(tmp_path: Path) -> None:
    """Two jobs name lu; one shows the metrics of ep, at which twice the speed is worth its watts or is not."""
    here = Checked(tmp_path)
    honest, other = (here.slurm.submit(1, 300.0, watts=260, app="lu", uid=1000 + k) for k in range(2))
    here.rounds(3)
    for node in here.cluster.nodes.values():
        node.demand_w = 100.0  # 260 W, as lu draws
    here.node(other).cpi, here.node(other).tpi, here.node(other).demand_w = 0.9, 0.1, 120.0
    here.rounds(45)
    found = here.site.database.misfits("u1001")
    assert [(one.job_id, one.claimed, one.found) for one in found] == [(other.name, "lu", "ep")]
    assert here.site.database.misfits("u1000") == []
    assert honest.state == other.state == "RUNNING"
    placed = {key.name: one.option for key, one in here.controller.planner.memory.placed.items()}
    hertz = (HIGH, LOW)[placed[other.name]]
    assert here.node(other).hertz in (hertz, 2.6e9)


def test_nodes_without_counters_are_said(tmp_path: Path) -> None:
    here = Checked(tmp_path)
    for node in here.cluster.nodes.values():
        assert isinstance(node, CountingNode)
        node.counting = False
    here.slurm.submit(1, 300.0, watts=260, app="lu")
    here.rounds(40)
    assert here.controller.last is not None
    text = "app-check measures no job on 4 of 4 nodes: n1: counters: perf does not count cycles on this node"
    assert text in here.controller.last.problems
    assert here.site.database.misfits("u1000") == []


def test_a_policy_whose_check_has_nothing_to_work_with_goes_on_without_it(tmp_path: Path) -> None:
    (tmp_path / "row.toml").write_text(ROW.format(estimator="ear"))
    name = f"{tmp_path}/row.toml:checked"
    policy, (line,) = load_live_policy(name)
    assert policy.controls == ()
    assert line == "app-check is left out: no profiles of applications are configured ([applications])"
    write_coefficients_csv(tmp_path / "ear.csv", {"p1": table()})
    site = Applications.open(str(tmp_path / "apps.db"), tmp_path / "ear.csv", "estimate")
    _, (line,) = load_live_policy(name, AppSources(site))
    assert line == "app-check is left out: no agents are configured that could read counters ([telemetry.broker])"
