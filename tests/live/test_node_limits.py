"""Limits of nodes through their agents, without a broker: messages are handed over late, twice, or never."""

from __future__ import annotations

import math
import queue
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.drive import kept, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import PolicyError
from wattqueue.live.agents import AgentLink, AgentState, Desired
from wattqueue.live.decision import require_live
from wattqueue.live.features.node_limits import NodeLimits, measured_by_agents
from wattqueue.live.limits_guard.messages import Arrived
from wattqueue.live.planner import Rules
from wattqueue.live.world import Layout
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, SetDeviceLimits, SetFrequency
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.policy.device_limits import BELOW_RANGE, OUT_OF_REACH
from wattqueue.policy.policy import load_policy, policy_from_row
from wattqueue.policy.registry import Policy
from wattqueue.policy.view import View

OTHER_W, LOW_W, HIGH_W = 60.0, 60.0, 140.0
FOUND_W = 150.0
"""Limit of a package that nobody limits."""
MOST_W = OTHER_W + 2 * FOUND_W
FAST_HZ, SLOW_HZ = 2.6e9, 1.3e9
NODES = [f"n{i}" for i in range(1, 5)]
MACHINE = Machine("four", (Partition("p1", 4, idle_w=100.0, max_w=MOST_W),))


class Node:
    """A node with an agent of two packages: it carries out what arrives, and draws what its load wants."""

    def __init__(self, name: str) -> None:
        self.name, self.number, self.expires_s = name, 0, math.inf
        self.limits = dict.fromkeys(("package-0", "package-1"), FOUND_W)
        self.demand_w, self.alive, self.stuck = 20.0, True, False
        self.hertz = FAST_HZ

    def take(self, message: Desired, now_s: float) -> None:
        if self.alive and message.number > self.number and message.expires_s > now_s:
            self.number, self.expires_s = message.number, message.expires_s
            if not self.stuck:
                self.limits = {name: message.limits.get(name, FOUND_W) for name in self.limits}
                self.hertz = message.limits.get("policy0", FAST_HZ)

    def expire(self, now_s: float) -> None:
        """Also without an agent: its keeper keeps the lease."""
        if now_s >= self.expires_s:
            self.number, self.expires_s = (0 if self.alive else self.number), math.inf
            self.limits, self.hertz = dict.fromkeys(self.limits, FOUND_W), FAST_HZ

    @property
    def power_w(self) -> float:
        return OTHER_W + sum(min(self.demand_w, limit) for limit in self.limits.values())

    def state(self, now_s: float) -> AgentState:
        low, high = (
            {**dict.fromkeys(self.limits, end), "policy0": hertz} for end, hertz in ((LOW_W, 1e9), (HIGH_W, FAST_HZ))
        )
        power = {name: min(self.demand_w, limit) for name, limit in self.limits.items()}
        return AgentState(
            node=self.name, instance="one", number=self.number, time_s=now_s, metered=tuple(self.limits),
            power_w=power, limits={**self.limits, "policy0": self.hertz}, low=low, high=high, counts={},
        )  # fmt: skip


class Wire:
    """The connection of a link: what is sent goes to the nodes after a delay, some of it twice or never."""

    problem = ""

    def __init__(self, nodes: Mapping[str, Node], random_: random.Random) -> None:
        self.nodes, self.random = nodes, random_
        self.on_the_way: list[tuple[float, Desired]] = []
        self.now_s, self.lost, self.late_s = 0.0, 0.0, 0.0
        self.sent: list[Desired] = []

    def send(self, topic: str, text: bytes, *, retain_s: int = 0) -> None:
        message = Desired.parse(text)
        assert topic == f"desired/{message.node}"
        assert retain_s > 0
        self.sent.append(message)
        for _ in range(self.random.choice((1, 1, 2))):
            if self.random.random() >= self.lost:
                self.on_the_way.append((self.now_s + self.random.uniform(0.0, self.late_s), message))

    def deliver(self, now_s: float) -> None:
        self.now_s = now_s
        due = [one for one in self.on_the_way if one[0] <= now_s]
        self.on_the_way = [one for one in self.on_the_way if one[0] > now_s]
        self.random.shuffle(due)  # out of order
        for _, message in due:
            self.nodes[message.node].take(message, now_s)

    def close(self) -> None:
        """Nothing to close."""


class Cluster:
    """Four nodes with agents, a link to them, and their limits."""

    def __init__(self, seed: int = 0, *, holds_budget: bool = True) -> None:
        self.nodes = {name: Node(name) for name in NODES}
        self.wire = Wire(self.nodes, random.Random(seed))
        wire: Any = self.wire
        wire.arrived = self
        self.waiting: list[AgentState] = []
        self.link = AgentLink(wire, OTHER_W)
        layout = Layout(MACHINE, tuple(NODES), {"p1": 0})
        self.limits = NodeLimits(self.link, layout, 30.0, 5.0, holds_budget=holds_budget)

    def get_nowait(self) -> Any:
        """The queue of arrived messages, as the link reads it."""
        if not self.waiting:
            raise queue.Empty
        state = self.waiting.pop(0)
        return type("Arrived", (), {"node": state.node, "text": state.text()})

    def step(self, now_s: float) -> None:
        """Let messages arrive, leases run out, and agents state how they are."""
        self.wire.deliver(now_s)
        for node in self.nodes.values():
            node.expire(now_s)
            if node.alive:
                self.waiting.append(node.state(now_s))

    def force_w(self) -> float:
        """What the limits in force let the nodes draw."""
        return sum(min(OTHER_W + sum(node.limits.values()), MOST_W) for node in self.nodes.values())

    def set(self, now_s: float, **watts: float) -> None:
        self.limits.observe(now_s)
        self.limits.decide({NODES.index(name): cap_w for name, cap_w in watts.items()}, {})
        self.limits.send(now_s)


def test_a_limit_is_shared_out_over_the_packages() -> None:
    cluster = Cluster()
    cluster.step(0.0)
    cluster.set(0.0, n1=OTHER_W + 200.0, n2=OTHER_W + 130.0, n3=OTHER_W + 280.0, n4=OTHER_W + 180.0)
    cluster.step(1.0)
    assert [list(node.limits.values()) for node in cluster.nodes.values()] == [
        [100.0, 100.0], [65.0, 65.0], [140.0, 140.0], [90.0, 90.0],
    ]  # fmt: skip
    assert {message.expires_s for message in cluster.wire.sent} == {30.0}


def test_a_raise_waits_until_what_was_lowered_is_in_force() -> None:
    cluster = Cluster()
    cluster.step(0.0)
    even = dict.fromkeys(NODES, 260.0)
    cluster.set(0.0, **even)
    cluster.step(1.0)
    cluster.wire.late_s = 100.0  # n1 is to be lowered, and does not hear of it
    cluster.set(1.0, n1=200.0, n2=320.0)
    assert [m.node for m in cluster.wire.sent[4:]] == ["n1"]
    assert cluster.limits.counts == {"raises that waited for lowered limits": 1}
    assert cluster.limits.possible_w == 4 * 260.0
    cluster.wire.on_the_way = [(2.0, message) for _, message in cluster.wire.on_the_way]
    cluster.wire.late_s = 0.0
    cluster.step(2.0)
    cluster.set(2.0)
    cluster.step(3.0)
    assert sum(cluster.nodes["n2"].limits.values()) == pytest.approx(260.0)


def test_a_silent_agent_counts_at_the_maximum_before_its_limit_expires() -> None:
    cluster = Cluster()
    cluster.step(0.0)
    cluster.set(0.0, **dict.fromkeys(NODES, 260.0))
    cluster.step(1.0)
    cluster.nodes["n3"].alive = False
    seen = cluster.limits.observe(1.0)
    assert seen.cap_w.tolist() == [260.0] * 4
    for second in range(2, 9):
        cluster.step(float(second))
        seen = cluster.limits.observe(float(second))
    assert seen.cap_w.tolist() == [260.0, 260.0, MOST_W, 260.0]
    assert seen.settable.tolist() == [True, True, False, True]
    assert math.isnan(seen.power_w[2])
    assert sum(cluster.nodes["n3"].limits.values()) == 200.0, "the keeper holds the lease"
    assert cluster.limits.problems() == [
        "limit of n3: counts as the maximum, since its agent is silent (no state of the last 5 s)"
    ]
    _, _, reason = seen.with_caps(SetDeviceLimits([0, 2], [200.0, 200.0]))
    assert reason == OUT_OF_REACH
    lifted, new, reason = seen.with_caps(SetDeviceLimits([0, 2], [math.inf, math.inf]))
    assert (reason, new) == ("", {0: 340.0})
    assert lifted.cap_w.tolist() == [340.0, 260.0, MOST_W, 260.0]


def test_an_agent_that_does_not_set_what_it_is_asked_for_counts_at_the_maximum() -> None:
    cluster = Cluster()
    cluster.nodes["n2"].stuck = True
    for second in range(3):
        cluster.step(float(second))
        cluster.set(float(second), **({} if second else dict.fromkeys(NODES, 260.0)))
    assert cluster.limits.observe(2.0).cap_w.tolist() == [260.0, MOST_W, 260.0, 260.0]
    assert cluster.limits.problems() == [
        "limit of n2: counts as the maximum, since its agent reads back a higher limit than it was asked for"
    ]
    assert cluster.limits.keep_waiting(4 * 260.0)
    assert not cluster.limits.keep_waiting(3 * 260.0 + MOST_W)


def test_an_agent_that_answers_and_carries_nothing_out_counts_at_the_maximum() -> None:
    cluster = Cluster()
    cluster.wire.lost = 1.0
    for second in range(8):
        cluster.step(float(second))
        cluster.set(float(second), **({} if second else dict.fromkeys(NODES, 260.0)))
    assert cluster.limits.observe(8.0).cap_w.tolist() == [MOST_W] * 4
    assert len(cluster.limits.problems()) == 1


def test_a_node_whose_agent_may_not_limit_a_part_cannot_be_limited() -> None:
    cluster = Cluster()
    state = cluster.nodes["n1"].state(0.0)
    cluster.link.states["n1"] = state.model_copy(update={"low": {"package-0": LOW_W}})
    seen = cluster.limits.observe(0.0)
    assert seen.cap_w[0] == MOST_W
    assert cluster.limits.nodes["n1"].why == "its agent may not limit package-1"


def test_limits_out_of_range_are_refused_as_a_whole() -> None:
    cluster = Cluster()
    cluster.step(0.0)
    seen = cluster.limits.observe(0.0)
    for caps, reason in (
        ([200.0, 170.0], BELOW_RANGE),
        ([200.0, math.nan], "no such option"),
        ([200.0, -1.0], "no such option"),
    ):
        same, new, found = seen.with_caps(SetDeviceLimits([0, 1], caps))
        assert (same, new, found) == (seen, {}, reason)
    assert seen.with_caps(SetDeviceLimits([4], [200.0]))[2] == "no such option"
    with pytest.raises(TypeError):
        seen.with_caps(SetDeviceLimits([0, 1], [200.0]))


@given(st.integers(0, 2**31))
def test_limits_in_force_never_sum_to_more_than_what_was_decided(seed: int) -> None:
    """Whatever is late, lost, doubled or in another order, and whoever dies: from the first confirmation on.

    An agent that dies counts at its maximum once it is silent, and its limit holds until then.
    """
    draw = random.Random(seed)
    cluster = Cluster(seed)
    cluster.wire.late_s, cluster.wire.lost = draw.choice((0.0, 1.5, 4.0)), draw.choice((0.0, 0.3))
    budget_w, settled = 1040.0, False
    for second in range(60):
        now_s = float(second)
        if draw.random() < 0.1:
            node = cluster.nodes[draw.choice(NODES)]
            node.alive = not node.alive
        cluster.step(now_s)
        seen = cluster.limits.observe(now_s)
        fixed_w = float(seen.cap_w[~seen.settable].sum())
        free = [k for k in range(4) if seen.settable[k]]
        room_w = budget_w - fixed_w - sum(seen.low_w[free])
        asked = {}
        if room_w >= 0 and free and (second % 4 == 0 or seen.cap_w.sum() > budget_w):
            parts = [draw.random() for _ in free]
            asked = {k: float(seen.low_w[k]) + room_w * part / sum(parts) for k, part in zip(free, parts, strict=True)}
            _, asked, reason = seen.with_caps(SetDeviceLimits(list(asked), list(asked.values())))
            assert reason == ""
        cluster.limits.decide(asked, {})
        cluster.limits.send(now_s)
        assert cluster.force_w() <= cluster.limits.possible_w + 1e-6
        feasible = fixed_w + sum(seen.low_w[free]) <= budget_w
        settled = feasible and (settled or not cluster.limits.keep_waiting(budget_w))
        if settled:
            assert cluster.force_w() <= budget_w + 1e-6


def policy_of(**options: Any) -> Policy:
    return load_policy("easy", controls=[RaplRedistribution(measure=measured_by_agents, **options)])


class Live:
    """A controller over a fake Slurm and four nodes with agents."""

    def __init__(
        self, folder: Path, policy: Policy, budget_w: float, machine: Machine = MACHINE, **settings: Any
    ) -> None:
        self.folder, self.policy, self.machine, self.budget_w = folder, policy, machine, budget_w
        self.settings = settings
        self.cluster = Cluster()
        self.slurm = FakeSlurm({"p1": NODES}, 4000)
        self.cluster.wire.now_s = self.slurm.now_s
        self.sums: list[float] = []
        self.start()

    def start(self) -> None:
        """Start a controller on what the one before it stored."""
        link: Any = self.cluster.link
        self.controller = make_controller(
            self.slurm, self.folder, lambda: self.slurm.now_s, cap=Cap.constant(self.budget_w), machine=self.machine,
            policy=self.policy, sources=(link,), record=True, **self.settings,
        )  # fmt: skip
        self.cluster.limits = kept(self.controller, NodeLimits) or self.cluster.limits

    def rounds(self, count: int, *, check: bool = True) -> None:
        for _ in range(count):
            self.cluster.step(self.slurm.now_s)
            assert self.controller.round() is not None
            busy = {name for job in self.slurm.jobs.values() if job.state == "RUNNING" for name in job.held_nodes}
            for name, node in self.cluster.nodes.items():
                node.demand_w = 150.0 if name in busy else 20.0
            self.slurm.step(1.0)
            self.sums.append(sum(node.power_w for node in self.cluster.nodes.values()))
            if check:
                assert self.controller.last is not None
                assert self.sums[-1] <= self.controller.last.plan.cap_w + 1e-6


def test_nothing_starts_before_the_limits_that_hold_the_budget_are_in_force(tmp_path: Path) -> None:
    """Four nodes that would draw 360 W each under a cap that admits four jobs at what is predicted of idle nodes."""
    live = Live(tmp_path, policy_of(), 4 * MOST_W)
    jobs = [live.slurm.submit(1, 60.0, watts=260) for _ in range(4)]
    live.cluster.nodes["n4"].alive = False
    live.controller.planner.cap = Cap.constant(3 * 200.0 + MOST_W)
    live.rounds(1)
    assert all(job.state == "PENDING" for job in jobs)
    assert live.controller.last is not None
    assert any("nothing starts" in text for text in live.controller.last.problems)
    live.rounds(6)
    assert any(job.state == "RUNNING" for job in jobs)
    assert max(live.sums) <= 3 * 200.0 + MOST_W
    assert any("limit of n4" in text for text in live.controller.last.problems)


def test_watts_follow_the_load_and_the_budget_holds(tmp_path: Path) -> None:
    """One busy node gets what three idle ones leave; an agent that dies takes its maximum with it."""
    live = Live(tmp_path, policy_of(), 1100.0)
    job = live.slurm.submit(1, 300.0, watts=260)
    live.rounds(40)
    busy = live.cluster.nodes[job.held_nodes[0]]
    assert sum(busy.limits.values()) == pytest.approx(280.0, abs=1.0)
    assert live.controller.last is not None
    assert live.controller.last.plan.limit_figures["limited_nodes"] == 4
    idle = next(node for node in live.cluster.nodes.values() if node is not busy)
    idle.alive = False
    idle.demand_w = 150.0
    live.rounds(45)
    figures = live.controller.last.plan.limit_figures
    assert figures["nodes_at_maximum"] == 1
    assert figures["possible_w"] <= 1100.0 + 1e-3
    idle.alive, idle.number = True, 0
    live.rounds(20)
    assert live.controller.last.plan.limit_figures["limited_nodes"] == 4


def measured(folder: Path) -> Live:
    """Four jobs that draw 120 W above idle, under a cap for two at the maximum; licences follow what is measured."""
    policy = load_policy("easy", ledger="measured", controls=[RaplRedistribution(measure=measured_by_agents)])
    rules = Rules("control", write_priority=False, track_running=True, warm_up_s=3.0, margin=0.0)
    live = Live(folder, policy, 1100.0, rules=rules)
    for _ in range(4):
        live.slurm.submit(1, 600.0, watts=260)
    for second in range(60):
        live.cluster.step(live.slurm.now_s)
        assert live.controller.round() is not None
        busy = {name for job in live.slurm.running() for name in job.held_nodes}
        for name, node in live.cluster.nodes.items():
            # a reading that stays the same is none
            node.demand_w = (80.0 if name in busy else 20.0) + 0.7 * (second % 5)
        live.slurm.step(1.0)
        assert live.cluster.force_w() <= 1100.0 + 1e-6 or second < 5
    return live


def test_licences_follow_what_is_measured_where_limits_keep_the_cap(tmp_path: Path) -> None:
    """The whole pool is open: what a lower licence leaves is not drawn by its job, whatever the bound has room for."""
    live = measured(tmp_path)
    assert len(live.slurm.running()) == 4
    assert live.slurm.used_w < 2 * 260


def test_a_recorded_round_with_limits_is_decided_again(tmp_path: Path) -> None:
    from wattqueue.live.recordings.replay import replay

    live = Live(tmp_path, policy_of(), 1100.0)
    live.slurm.submit(1, 30.0, watts=260)
    live.rounds(20)
    rows = list(replay(tmp_path / "views.jsonl", policy_of()))
    assert len(rows) == 20
    assert all(recorded == now for _, recorded, now in rows)
    assert any("SetDeviceLimits" in recorded for _, recorded, _ in rows)


def test_a_control_that_needs_agents_is_refused_where_none_are_configured() -> None:
    with pytest.raises(PolicyError, match="no agents are configured"):
        require_live(policy_of(), MACHINE, agents=False)
    assert require_live(policy_of(), MACHINE).controls


def test_without_agents_limits_are_refused_and_reported(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": NODES}, 4000)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1100.0), machine=MACHINE,
        policy=load_policy("easy", controls=["rapl-at-counted"]),
    )  # fmt: skip
    report = controller.round()
    assert report is not None
    assert Counter(r.reason for r in report.plan.refusals) == {"no agent on the nodes carries it out": 1}
    assert any("SetDeviceLimits refused" in text for text in report.problems)


class Turn:
    """Has all running jobs go on at an option, once for each call that names one."""

    period_s, events = 1.0, frozenset[str]()

    def __init__(self) -> None:
        self.option: int | None = None

    def act(self, view: View) -> Sequence[Action]:
        option, self.option = self.option, None
        return [] if option is None else [SetFrequency(job, option) for job in view.job_ids(view.running)]


def turning(folder: Path, budget_w: float) -> tuple[Live, Turn]:
    """A controller whose jobs can be slowed down to half the frequency: twice the time, a quarter of the watts."""
    turn = Turn()
    part = Partition("p1", 4, frequencies_hz=(FAST_HZ, SLOW_HZ), idle_w=100.0, max_w=MOST_W)
    machine = Machine("four", (part,))
    return Live(folder, load_policy("easy", controls=[turn]), budget_w, machine), turn


def test_a_running_job_is_slowed_down_and_its_limit_stretches(tmp_path: Path) -> None:
    live, turn = turning(tmp_path, 4 * MOST_W)
    job = live.slurm.submit(1, 400.0, watts=260, limit_s=600.0)
    live.rounds(3, check=False)
    node = live.cluster.nodes[job.held_nodes[0]]
    assert (job.state, node.hertz) == ("RUNNING", FAST_HZ)
    turn.option = 1
    live.rounds(3, check=False)
    assert node.hertz == SLOW_HZ
    assert {other.hertz for other in live.cluster.nodes.values() if other is not node} == {FAST_HZ}
    assert [one.option for one in live.controller.planner.memory.placed.values()] == [1]
    assert job.limit_s == 1200.0, "what is left of 600 s takes twice as long, in whole minutes"
    live.start()  # a controller that is restarted goes on with it
    live.rounds(40, check=False)
    assert node.hertz == SLOW_HZ, "renewed, or it would have expired"
    turn.option = 0
    live.rounds(3, check=False)
    assert node.hertz == FAST_HZ


def test_a_job_goes_faster_only_when_there_is_room_and_its_licence_is_raised(tmp_path: Path) -> None:
    """Two slow jobs of 65 W above idle, and a fast one of 260 W: of 520 W, nothing is left for a second fast one."""
    live, turn = turning(tmp_path, 400.0 + 2 * 260.0)
    jobs = [live.slurm.submit(1, 400.0, watts=260) for _ in range(2)]
    live.rounds(3, check=False)
    assert [job.state for job in jobs] == ["RUNNING", "RUNNING"]
    turn.option = 1
    live.rounds(3, check=False)
    memory = live.controller.planner.memory
    memory.place([placed._replace(watts=65) for placed in memory.placed.values()])
    for job in jobs:
        job.licences["watts"] = 65  # as if they had started so: what they freed may be given to others
    third = live.slurm.submit(1, 400.0, watts=260)
    live.rounds(3, check=False)
    assert third.state == "RUNNING"
    turn.option = 0
    live.rounds(1, check=False)
    assert live.controller.last is not None
    reasons = Counter(r.reason for r in live.controller.last.plan.refusals)
    assert reasons == {"not enough power below the cap": 2}
    assert [live.cluster.nodes[job.held_nodes[0]].hertz for job in jobs] == [SLOW_HZ, SLOW_HZ]
    live.controller.planner.cap = Cap.constant(400.0 + 3 * 260.0)
    turn.option = 0
    live.rounds(1, check=False)
    assert [job.licences["watts"] for job in jobs] == [260, 260]
    assert [live.cluster.nodes[job.held_nodes[0]].hertz for job in jobs] == [SLOW_HZ, SLOW_HZ], "watts first"
    live.rounds(2, check=False)
    assert [live.cluster.nodes[job.held_nodes[0]].hertz for job in jobs] == [FAST_HZ, FAST_HZ]


GPU_FOUND_W = 400.0


class GpuNode(Node):
    """A node whose agent also limits a GPU, within 100 and 400 W."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gpu_w, self.gpu_stuck = GPU_FOUND_W, False

    def take(self, message: Desired, now_s: float) -> None:
        before = self.number
        super().take(message, now_s)
        if self.number != before and not self.gpu_stuck:
            self.gpu_w = message.limits.get("gpu-GPU-1", GPU_FOUND_W)

    def expire(self, now_s: float) -> None:
        if now_s >= self.expires_s:
            self.gpu_w = GPU_FOUND_W
        super().expire(now_s)

    def state(self, now_s: float) -> AgentState:
        own = super().state(now_s)
        low, high = ({**bounds, "gpu-GPU-1": end} for bounds, end in ((own.low, 100.0), (own.high, GPU_FOUND_W)))
        limits = {**own.limits, "gpu-GPU-1": self.gpu_w}
        return own.model_copy(update={"limits": limits, "low": low, "high": high})


def of_gpus(folder: Path, budget_w: float, floor_w: float = 0.0) -> tuple[Live, dict[str, GpuNode]]:
    """A controller of nodes with a GPU of 400 W at most, whose jobs may start at 400 and at 200 W."""
    part = Partition(
        "p1", 4, idle_w=100.0, max_w=600.0, gpus_per_node=1, gpu_idle_w=30.0, gpu_max_w=400.0,
        gpu_caps_w=(400.0, 200.0), gpu_floor_w=floor_w,
    )  # fmt: skip
    row = {"estimator": "maximum", "backfill": "easy", "frequency": "frequency-window"}
    live = Live(folder, policy_from_row("gpus", row), budget_w, Machine("four", (part,)))
    nodes = {name: GpuNode(name) for name in NODES}
    live.cluster.nodes = live.cluster.wire.nodes = {**nodes}
    return live, nodes


@pytest.mark.parametrize(("floor_w", "expected_w"), [(0.0, 200.0), (250.0, 250.0)])
def test_the_gpu_limit_of_a_start_reaches_the_agent(tmp_path: Path, floor_w: float, expected_w: float) -> None:
    """400 W idle and 850 W: two jobs of 500 W above idle do not fit, the second starts limited."""
    live, nodes = of_gpus(tmp_path, 400.0 + 850.0, floor_w)
    jobs = [live.slurm.submit(1, 400.0, watts=500) for _ in range(2)]
    live.rounds(4, check=False)
    assert [job.state for job in jobs] == ["RUNNING", "RUNNING"]
    assert [job.licences["watts"] for job in jobs] == [500, 300 + max(0, expected_w - 200)]
    limits = [nodes[job.held_nodes[0]].gpu_w for job in jobs]
    assert limits == [GPU_FOUND_W, expected_w]
    live.start()
    live.rounds(40, check=False)
    assert nodes[jobs[1].held_nodes[0]].gpu_w == expected_w, "renewed, also after a restart"


def test_a_gpu_limit_that_is_not_read_back_is_told(tmp_path: Path) -> None:
    live, nodes = of_gpus(tmp_path, 400.0 + 850.0)
    for node in nodes.values():
        node.gpu_stuck = True
    [live.slurm.submit(1, 400.0, watts=500) for _ in range(2)]
    live.rounds(6, check=False)
    assert live.controller.last is not None
    told = [text for text in live.controller.last.problems if text.startswith("GPU limit of")]
    assert len(told) == 1
    assert "reads back a higher GPU limit" in told[0]


def test_a_frequency_that_no_agent_sets_is_refused(tmp_path: Path) -> None:
    live, turn = turning(tmp_path, 4 * MOST_W)
    job = live.slurm.submit(1, 400.0, watts=260)
    live.rounds(3, check=False)
    live.cluster.nodes[job.held_nodes[0]].alive = False
    live.rounds(7, check=False)
    turn.option = 1
    live.rounds(1, check=False)
    assert live.controller.last is not None
    assert [r.reason for r in live.controller.last.plan.refusals] == [OUT_OF_REACH]


@pytest.mark.parametrize(
    "change",
    [
        ('"package-0":20.0', '"package-0":-20.0'),
        ('"package-0":20.0', '"package-0":NaN'),
        ('"package-0":20.0', '"package-0":1e999'),
        ('"package-0":20.0', '"package-0":null'),
        ('"node":"n1"', '"node":"n2"'),
        ('"version":1', '"version":2'),
    ],
)
def test_a_state_that_cannot_be_trusted_is_counted_and_changes_nothing(change: tuple[str, str]) -> None:
    """Two packages of 300 and -200 W would be 100 W in all; a node may speak for itself alone."""
    cluster = Cluster()
    cluster.step(0.0)
    cluster.link.receive(10.0)
    before = dict(cluster.link.states)
    text = cluster.nodes["n1"].state(1.0).text().decode()
    assert change[0] in text
    forged = text.replace(*change).encode()
    wire: Any = cluster.wire
    wire.arrived = OneMessage("n1", forged)
    cluster.link.receive(10.0)
    assert cluster.link.states == before
    assert sum(cluster.link.counts.values()) == 1
    assert cluster.limits.figures()["refused_or_corrected"] == 1


def test_a_state_from_the_future_makes_no_later_one_old() -> None:
    """A node whose clock was an hour ahead, and was set: for an hour it would look fresh, and what it says old."""
    cluster = Cluster()
    cluster.step(0.0)
    cluster.link.receive(0.0)
    wire: Any = cluster.wire
    for at_s in (3600.0, 1.0):
        wire.arrived = OneMessage("n1", cluster.nodes["n1"].state(at_s).text())
        cluster.link.receive(1.0)
    assert cluster.link.states["n1"].time_s == 1.0
    (problem,) = cluster.link.counts
    assert "n1" in problem


def test_two_agents_that_speak_for_one_node_are_counted() -> None:
    cluster = Cluster()
    for second, instance in enumerate(("one", "two", "one", "two")):
        state = cluster.nodes["n1"].state(float(second)).model_copy(update={"instance": instance})
        wire: Any = cluster.wire
        wire.arrived = OneMessage("n1", state.text())
        cluster.link.receive(10.0)
    assert cluster.link.counts == {"two agents on one node": 2}


def test_a_reading_that_stands_still_is_no_reading_of_now() -> None:
    """An agent that states the same time again and again is silent: its node counts at its maximum."""
    cluster = Cluster()
    cluster.step(0.0)
    cluster.limits.observe(0.0)
    frozen = cluster.nodes["n1"].state(0.0)
    for second in range(1, 9):
        cluster.step(float(second))
        cluster.waiting = [frozen if one.node == "n1" else one for one in cluster.waiting]
        seen = cluster.limits.observe(float(second))
    assert (seen.cap_w[0], math.isnan(seen.power_w[0])) == (MOST_W, True)
    assert cluster.link.counts == {"message older than the one before": 8}


class OneMessage:
    """A queue of one message, as a connection keeps what arrived."""

    def __init__(self, node: str, text: bytes) -> None:
        self.left: list[Arrived] = [Arrived(node, text)]

    def get_nowait(self) -> Arrived:
        if not self.left:
            raise queue.Empty
        return self.left.pop()
