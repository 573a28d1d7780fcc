"""The check of misnamed applications live: counters by perf, metrics of jobs, false claims, and why none is checked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.slurmlab import wait_for
from tests.live.test_applications_live import HIGH, LOW, table
from tests.live.test_node_limits import MOST_W, NODES, Cluster, Node
from wattqueue.formats.ear.files import write_coefficients_csv
from wattqueue.live.agent.config import CountersSection
from wattqueue.live.agent.counters import PerfCounters
from wattqueue.live.agent.messages import AgentState
from wattqueue.live.agent_controls import AppSources, load_live_policy
from wattqueue.live.applications import Applications
from wattqueue.live.config import LimitsSection
from wattqueue.live.job_counters import LINE_BYTES, JobCounters
from wattqueue.live.node_limits import limits_of
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.store.applications import AppRun

ROW = """
[checked]
source = "a test"
estimator = "{estimator}"
controls = [{{ part = "app-check", settle_s = 20.0, period_s = 5.0 }}]
"""
SECTION = CountersSection(memory=("uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/"))


def test_lines_of_perf_are_added_up() -> None:
    counters = PerfCounters(SECTION, 1.0)
    counters.add("# started on a day\n")
    for second in (1, 2):
        assert counters.read() == {} if second == 1 else counters.read()
        for event, value in (("cycles", 2000), ("instructions:u", 1000)):
            counters.add(f"     {second}.0001;{value};;{event};100;100.00;;\n")
        for event in SECTION.memory:
            counters.add(f"     {second}.0001;{10};;{event};100;100.00;;\n")
    assert counters.read() == {"cycles": 4000.0, "instructions": 2000.0, "transactions": 40.0}


def test_an_event_that_is_not_counted_leaves_no_counts() -> None:
    counters = PerfCounters(SECTION, 1.0)
    counters.add("     1.0001;2000;;cycles;100;100.00;;\n")
    counters.add("     1.0001;<not supported>;;instructions;0;100.00;;\n")
    assert (counters.read(), counters.problem) == ({}, "perf does not count instructions on this node")


@pytest.mark.parametrize("ends", [False, True])
def test_a_program_that_counts(tmp_path: Path, ends: bool) -> None:
    """A script in the place of perf, in its format; one that ends leaves its last word."""
    script = tmp_path / "perf"
    lines = "".join(f'echo "{{t}};{v};;{e};1;100.00;;" >&2\n' for e, v in
                    (("cycles", 300), ("instructions", 200), (SECTION.memory[0], 5)))  # fmt: skip
    body = (
        "echo 'no permission' >&2\n"
        if ends
        else f"for t in 1 2; do\n{lines.replace('{t}', '$t.0')}done\nexec sleep 60\n"
    )
    script.write_text(f"#!/bin/bash\n{body}")
    script.chmod(0o755)
    counters = PerfCounters(CountersSection(perf=str(script), memory=SECTION.memory[:1]), 0.1)
    counters.start()
    try:
        if ends:
            wait_for("its end", lambda: "ended: no permission" in counters.problem, 20.0)
            assert counters.read() == {}
        else:
            wait_for("counts", lambda: counters.read().get("cycles") in (300.0, 600.0), 20.0)
    finally:
        counters.close()


def test_perf_of_this_machine() -> None:
    """It counts, or (in a container) the problem names the event or the reason."""
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    counters = PerfCounters(CountersSection(memory=("cache-misses",)), 0.1)
    counters.start()
    try:
        wait_for("counts, or why there are none", lambda: counters.problem != "no counts yet", 20.0)
        assert bool(counters.read()) != bool(counters.problem)
    finally:
        counters.close()


def test_without_perf_there_are_no_counts() -> None:
    counters = PerfCounters(CountersSection(perf="/nonexistent/perf", memory=("a",)), 1.0)
    counters.start()
    assert counters.problem == "/nonexistent/perf cannot be run: No such file or directory"


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
            policy=self.site.into(policy), sources=(link,), applications=self.site,
        )  # fmt: skip
        layout = self.controller.planner.layout
        self.controller.limits = limits_of((link,), layout, policy, LimitsSection(), counters)
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
    (tmp_path / "row.toml").write_text(ROW.format(estimator="naive"))
    name = f"{tmp_path}/row.toml:checked"
    policy, (line,) = load_live_policy(name)
    assert policy.controls == ()
    assert line == "app-check is left out: no profiles of applications are configured ([applications])"
    write_coefficients_csv(tmp_path / "ear.csv", {"p1": table()})
    site = Applications.open(str(tmp_path / "apps.db"), tmp_path / "ear.csv", "estimate")
    _, (line,) = load_live_policy(name, AppSources(site))
    assert line == "app-check is left out: no agents are configured that could read counters ([telemetry.broker])"
