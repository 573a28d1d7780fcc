"""One suite over all drivers: equal actions for equal snapshots, round by round.

The drivers are the simulator (its view is kept up to date), a round on a snapshot, and the live controller over the
fake Slurm and over a real one. They are compared in pairs:

- simulator and snapshot: ``tests/policy/test_session.py`` decides each instant of random worlds on both;
- simulator and controller: ``test_the_controller_starts_what_the_simulator_starts`` mirrors each pass as a cluster;
- controller and snapshot: each round over the fake, and over a real Slurm, is decided again by another session on the
  recorded snapshot.

An action may be refused for ``NO_AGENT`` only in the cells of ``NOT_CARRIED_OUT``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.mirror import MACHINE, Mirrored, random_cap, random_jobs
from tests.live.python_policies import POLICIES, LooksAhead
from tests.live.site import TOTAL_W, Site, cap_text
from tests.live.slurmlab import real
from tests.live.test_replay import record
from tests.profiles import sampled
from wattqueue.live.planner import Rules
from wattqueue.live.recordings.replay import replay
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.actions import Action
from wattqueue.parts.contracts import Entries, Prediction, Start
from wattqueue.parts.frequency.highest import Highest
from wattqueue.policy.consent_windows import KEPT_NEAREST
from wattqueue.policy.policy import load_policy
from wattqueue.policy.registry import Policy
from wattqueue.policy.round import NO_AGENT
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, Simulation, simulate
from wattqueue.sim.truth import NodeEvents

NET_W = 200


class Job(NamedTuple):
    nodes: int
    limit_min: int
    partition: str
    seconds: float


class Outcome(NamedTuple):
    """Jobs in the order in which they started (rows), and the most watts above idle that were admitted."""

    order: list[int]
    peak_w: int
    starts: int


# FCFS, first-fit and EASY each start these jobs in an order of their own. On the real Slurm a job
# ends when the test opens its gate, in the simulator's order of ends: no clock takes part.
WORKLOAD = (
    Job(1, 600, "p2", 11.25),
    Job(1, 10, "p1", 13.75),
    Job(1, 10, "p2", 5.0),
    Job(3, 10, "p2", 5.0),
    Job(1, 10, "p2", 8.75),
    Job(2, 600, "p2", 11.25),
)
POOL_W = 800
Driver = Callable[[str], Outcome]


def simulate_it(policy: str) -> Run:
    jobs = Jobs.build(
        [0.0] * len(WORKLOAD),
        [j.nodes for j in WORKLOAD],
        [j.seconds for j in WORKLOAD],
        walltime_s=[60.0 * j.limit_min for j in WORKLOAD],
        partition=[j.partition for j in WORKLOAD],
    )
    return simulate(jobs, lab_machine(), load_policy(policy), cap=Cap.constant(800.0 + POOL_W))


def quiescent(policy: str) -> list[tuple[list[int], list[int]]]:
    """What ends at each moment of the simulation, and what runs after it."""
    schedule = simulate_it(policy).schedule
    times = sorted({*schedule.start_s.tolist(), *schedule.end_s.tolist()})
    rows = range(len(WORKLOAD))
    return [
        (
            [i for i in rows if schedule.end_s[i] == t],
            [i for i in rows if schedule.start_s[i] <= t < schedule.end_s[i]],
        )
        for t in times
    ]


def simulated(policy: str) -> tuple[list[frozenset[int]], Outcome]:
    """The simulator's sets of jobs that start at one instant, in order, and its outcome."""
    run = simulate_it(policy)
    start = run.schedule.start_s
    sets = [frozenset(i for i in range(len(WORKLOAD)) if start[i] == t) for t in sorted(set(start.tolist()))]
    peak = max(float(w) for w in run.power.jobs_w - run.power.busy_idle_w)
    order = sorted(range(len(WORKLOAD)), key=lambda i: (start[i], i))
    return sets, Outcome(order, math.ceil(peak), sum(len(s) for s in sets))


SHARED = SharedNodes((Partition("s", 2, idle_w=50.0, max_w=150.0),))


def with_shared() -> FakeSlurm:
    """The fake with two shared nodes beside the lab's."""
    parts = {"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)], "s": ["s1", "s2"]}
    return FakeSlurm(parts, TOTAL_W, shared=frozenset({"s"}))


def on_the_fake(policy: str, folder: Path, *, shared: bool = False) -> Outcome:
    """With ``shared`` beside two nodes of 150 W that jobs share, under a cap that covers them, too."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, TOTAL_W)
    cap_w, nodes = 800.0 + POOL_W, SharedNodes()
    if shared:
        slurm, cap_w, nodes = with_shared(), cap_w + 300.0, SHARED
        for _ in range(11):
            slurm.submit_shared(1, 20.0, "s")
    controller = make_controller(
        slurm, folder, lambda: slurm.now_s, cap=Cap.constant(cap_w), policy=policy, shared_nodes=nodes
    )
    jobs = [
        slurm.submit(j.nodes, j.seconds, watts=NET_W * j.nodes, limit_s=60.0 * j.limit_min, partition=j.partition)
        for j in WORKLOAD
    ]
    for _ in range(120):
        controller.round()
        slurm.step(0.5)
    assert all(job.state == "COMPLETED" for job in jobs)
    order = sorted(range(len(jobs)), key=lambda i: (jobs[i].start_s, i))
    return Outcome(order, slurm.peak_w, sum(job.starts for job in jobs))


def on_the_real(policy: str, site: Site) -> Outcome:
    """All jobs wait before the controller comes, so that its first round sees them all, as the simulator does.

    Between two events the test waits until all that the simulator starts runs, and compares what runs.
    """
    site.keep_beating()
    ids = [site.gated(f"-N{j.nodes}", "-t", str(j.limit_min), "-p", j.partition) for j in WORKLOAD]
    site.start(site.configure(cap_text(POOL_W), policy=policy))
    peak = 0
    for ends, runs in quiescent(policy):
        site.open_gate(*(ids[i] for i in ends))
        wanted = sorted((ids[i] for i in runs), key=int)
        site.wait_running(wanted)
        peak = max(peak, site.used_w()[0])
        assert site.running() == wanted
    site.stop()
    released = [row["target"] for row in site.check_audit() if row["event"] == "intend" and row["kind"] == "release"]
    return Outcome([ids.index(name) for name in released], peak, sum(site.lab.launches(ids).values()))


def check(sets: Sequence[frozenset[int]], got: Outcome, policy: str) -> None:
    """The sets that the simulator admits at one instant, one after the other, and never more watts."""
    assert got.starts == len(WORKLOAD), "every job ran, and ran once"
    assert got.peak_w <= POOL_W
    place = 0
    for one in sets:
        assert frozenset(got.order[place : place + len(one)]) == one, f"{policy}: {got.order}, expected {sets}"
        place += len(one)


@pytest.mark.parametrize("policy", ["fcfs", "first-fit", "easy", "conservative"])
def test_the_simulator_and_the_fake_slurm_agree(policy: str, tmp_path: Path) -> None:
    sets, own = simulated(policy)
    check(sets, own, policy)
    check(sets, on_the_fake(policy, tmp_path), policy)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_shared_nodes_change_no_decision_about_the_others(policy: str, tmp_path: Path) -> None:
    sets, _ = simulated(policy)
    check(sets, on_the_fake(policy, tmp_path, shared=True), policy)


@real
@pytest.mark.parametrize(
    "policy", ["easy", pytest.param("fcfs", marks=pytest.mark.slow), pytest.param("first-fit", marks=pytest.mark.slow)]
)
def test_the_simulator_and_a_real_slurm_agree(policy: str, site: Site) -> None:
    sets, _ = simulated(policy)
    check(sets, on_the_real(policy, site), policy)


# -- features times drivers --------------------------------------------------------------------------

FEATURES = [*POLICIES, "moving cap"]
NOT_CARRIED_OUT = {
    ("controls", "fake"): "SetFrequency and SetDeviceLimits need an agent on the nodes",
    ("controls", "real"): "SetFrequency and SetDeviceLimits need an agent on the nodes",
    ("all", "fake"): "as controls",
    ("all", "real"): "as controls",
}
"""Cells in which actions are refused because the driver cannot carry them out, with the reason."""
MOVING = ("moving cap", "looking ahead")
"""Features under a cap that moves, and whose later values are announced."""
MIRRORED = [name for name in FEATURES if name not in ("controls", "learning estimator", "all")]
"""Features whose parts keep nothing that the two worlds tell them differently: what a control frees counts later live
(rule 2), and an estimator learns from what was measured, which a simulation does not do."""


def with_control(control: Any) -> Policy:
    return replace(load_policy("easy"), controls=(control,))


def policy_of(feature: str) -> Policy:
    return POLICIES.get(feature, POLICIES["plain"])()


@pytest.mark.parametrize("feature", sampled(MIRRORED, {*MIRRORED[::3], *MOVING}))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_the_controller_starts_what_the_simulator_starts(
    tmp_path_factory: pytest.TempPathFactory, feature: str, seed: int
) -> None:
    """The same jobs, at the same frequencies, on the same nodes, in the same order, at every pass."""
    jobs, cap = random_jobs(seed), random_cap(seed, moving=feature in MOVING)
    simulation = Simulation(jobs, MACHINE, policy_of(feature), cap, None, NodeEvents.none())
    both = Mirrored(simulation.policy, policy_of(feature), jobs, cap, tmp_path_factory.mktemp("live"))
    both.plans_in_loop = simulation.session.plans_in_loop
    simulation.session = both
    simulation._set_stops()
    simulation.go()
    assert [(at, own) for at, own, _ in both.decided] == [(at, live) for at, _, live in both.decided]
    assert sum(len(own) for _, own, _ in both.decided) >= 1


def check_recording(path: Path, feature: str, driver: str) -> None:
    """Every round is decided again alike by a session of its own, and nothing is refused outside the listed cells."""
    decisions = list(replay(path, policy_of(feature)))
    assert [number for number, recorded, again in decisions if recorded != again] == []
    found = [json.loads(recorded) for _, recorded, _ in decisions]
    assert sum(len(one["starts"]) for one in found) > 0
    lacking = {action[0] for one in found for action, reason in one["refusals"] if reason == NO_AGENT}
    assert lacking <= {"SetFrequency", "SetDeviceLimits"}
    assert not lacking or (feature, driver) in NOT_CARRIED_OUT


@pytest.mark.parametrize("feature", FEATURES)
def test_a_round_over_the_fake_is_decided_alike_on_its_snapshot(feature: str, tmp_path: Path) -> None:
    start_s = 1_000_000.0
    moving = Cap(np.array([-np.inf, start_s + 10.0, start_s + 20.0]), np.array([1400.0, 1000.0, 1700.0]))
    cap = moving if feature in MOVING else Cap.constant(1700.0)
    check_recording(record(tmp_path, policy_of(feature), rounds=40, cap=cap), feature, "fake")


def caps_beside_shared_nodes(feature: str, tmp_path: Path) -> set[float]:
    """The caps of rounds that are decided alike on their snapshots, while shared nodes are drained and come back."""
    slurm = with_shared()
    start_s = slurm.now_s
    cap = Cap(np.array([-np.inf, start_s + 10.0, start_s + 20.0]), np.array([1700.0, 1300.0, 2000.0]))
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=cap, policy=policy_of(feature), record=True, shared_nodes=SHARED,
        rules=Rules("control", write_priority=False, power_nodes=True, start_timeout_s=10.0),
        machine=lab_machine(8, (2e9, 1e9)),
    )  # fmt: skip
    for k in range(40):
        slurm.drained = {"s1": "the site's own"} if 5 <= k < 25 else {}
        if k % 3 == 0:
            slurm.submit(1 + k % 2, 3.0 + k % 4, watts=NET_W * (1 + k % 2), partition="p1,p2")
        assert controller.round() is not None
        slurm.step()
    check_recording(tmp_path / "views.jsonl", feature, "fake")
    views = [json.loads(line) for line in (tmp_path / "views.jsonl").read_text().splitlines()]
    return {one["view"]["cap_w"] for one in views if "view" in one}


@pytest.mark.parametrize("feature", ["plain", "looking ahead", "controls", "margin", "run times"])
def test_a_round_beside_shared_nodes_is_decided_alike_on_its_snapshot(feature: str, tmp_path: Path) -> None:
    """What the cap leaves for the others moves without the cap."""
    assert len(caps_beside_shared_nodes(feature, tmp_path)) > 3


@real
@pytest.mark.parametrize(
    "feature", ["all", *(pytest.param(name, marks=pytest.mark.slow) for name in FEATURES if name != "all")]
)
def test_a_round_over_a_real_slurm_is_decided_alike_on_its_snapshot(feature: str, site: Site, tmp_path: Path) -> None:
    """Administrator's right: here as root, so that nodes can be powered."""
    commands = site.lab.commands
    now_s = time.time()
    moving = Cap(np.array([-np.inf, now_s + 3.0, now_s + 6.0]), np.array([1400.0, 1000.0, 1700.0]))
    cap = moving if feature in MOVING else Cap.constant(1700.0)
    rules = Rules("control", write_priority=False, power_nodes=True, start_timeout_s=10.0)
    site.keep_beating()
    controller = make_controller(
        SlurmCluster(commands), tmp_path, time.time, cap=cap, rules=rules, policy=policy_of(feature), record=True,
        machine=lab_machine(8, (2e9, 1e9)),
    )  # fmt: skip
    for k in range(24):
        if k % 3 == 0:
            site.lab.submit(f"-N{1 + k % 2}", "-t", "10", "-p", "p1,p2", seconds=1.0 + k % 4)
        assert controller.round() is not None
        time.sleep(0.2)
    check_recording(tmp_path / "views.jsonl", feature, "real")
    for node in ("n7", "n8"):  # a control may have left them off
        site.lab.run(["scontrol", "update", f"NodeName={node}", "State=POWER_UP"], check=False)
    site.lab.wait_idle()


class Watcher:
    """A control without a period: keeps the cap and the units that are down at each call."""

    period_s = 0.0

    def __init__(self, *events: str) -> None:
        self.events, self.seen = frozenset(events), list[tuple[float, tuple[int, ...]]]()

    def act(self, view: View) -> Sequence[Action]:
        self.seen.append((view.cap_w, tuple(view.units_down.tolist())))
        return []


EVENTS = {
    ("signal",): [(1700.0, ()), (1400.0, ()), (1600.0, (7,))],
    ("node",): [(1700.0, ()), (1400.0, (7,)), (1600.0, ())],
    ("signal", "node"): [(1700.0, ()), (1400.0, ()), (1400.0, (7,)), (1600.0, (7,)), (1600.0, ())],
    ("arrival",): [(1700.0, ())],
    ("completion",): [(1600.0, ())],
}
"""What a control is shown at each call. The cap moves at 10 s and 30 s, the last node is down from 20 s to 40 s, one
job arrives at 0 s and ends at 50 s. The cap and the units of the beginning are new to a control, in both worlds."""


@pytest.mark.parametrize("events", EVENTS, ids="-".join)
def test_controls_that_wait_for_events_are_called_alike(events: tuple[str, ...], tmp_path: Path) -> None:
    cap = Cap(np.array([-np.inf, 10.0, 30.0]), np.array([1700.0, 1400.0, 1600.0]))
    simulated, live = Watcher(*events), Watcher(*events)
    fails = NodeEvents(np.array([20.0, 40.0]), np.full(2, 7, np.int32), np.array([False, True]))
    simulate(Jobs.build([0.0], [1], [50.0]), lab_machine(), with_control(simulated), cap=cap, events=fails)
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, TOTAL_W)
    begin_s = slurm.now_s
    moved = Cap(cap.time_s + begin_s, cap.cap_w)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=moved, policy=with_control(live))
    slurm.submit(1, 50.0, watts=NET_W)
    for second in range(60):
        slurm.down = {"m4"} if 20 <= second < 40 else set()
        assert controller.round() is not None
        slurm.step()
    assert simulated.seen == EVENTS[events]
    assert live.seen == EVENTS[events]


def test_a_control_that_was_woken_before_the_first_submission_is_not_called_for_it() -> None:
    watcher = Watcher("signal")
    cap = Cap(np.array([0.0, 10.0]), np.array([1700.0, 1400.0]))
    simulate(Jobs.build([20.0], [1], [5.0]), lab_machine(), with_control(watcher), cap=cap)
    assert watcher.seen == [(1400.0, ())]


class WaitsForTheCap:
    """Starts a job only if the caps announced for its walltime leave its watts."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, list[float], list[float]]] = []

    def schedule(self, view: View) -> Sequence[Start]:
        at_s, caps_w = view.announced_caps
        self.seen.append((view.cap_w, (at_s - view.now_s).tolist(), caps_w.tolist()))
        return LooksAhead().schedule(view)


def test_a_pass_looks_ahead_at_announced_caps_alike(tmp_path: Path) -> None:
    """A cap of room for one node comes at 60 s: a job of two minutes waits, a short one starts.

    In both worlds the pass sees when each later cap comes into force, and how many watts it has.
    """
    cap = Cap(np.array([-np.inf, 60.0, 90.0]), np.array([1700.0, 1000.0, 1600.0]))
    simulated, live = WaitsForTheCap(), WaitsForTheCap()
    jobs = Jobs.build([0.0, 0.0], [2, 1], [100.0, 20.0], walltime_s=[120.0, 60.0], partition=["p1", "p1"])
    policy = replace(load_policy("easy"), backfill=simulated)
    run = simulate(jobs, lab_machine(), policy, cap=cap)
    assert run.schedule.start_s.tolist() == [90.0, 0.0]
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, TOTAL_W)
    begin_s = slurm.now_s
    controller = make_controller(
        slurm,
        tmp_path,
        lambda: slurm.now_s,
        cap=Cap(cap.time_s + begin_s, cap.cap_w),
        policy=replace(policy, backfill=live),
    )
    there = [
        slurm.submit(n, s, watts=NET_W * n, limit_s=m, partition="p1")
        for n, s, m in ((2, 100.0, 120.0), (1, 20.0, 60.0))
    ]
    for _ in range(100):
        assert controller.round() is not None
        slurm.step()
    assert [job.start_s - begin_s for job in there] == pytest.approx([90.0, 0.0], abs=2.0)
    ahead = [([60.0, 90.0], [1000.0, 1600.0]), ([40.0, 70.0], [1000.0, 1600.0]), ([], [])]
    assert [(at, watts) for _, at, watts in simulated.seen if len(at) != 1] == ahead
    assert {tuple(watts) for _, _, watts in live.seen} == {(1000.0, 1600.0), (1600.0,), ()}
    assert live.seen[0] == (1700.0, [60.0, 90.0], [1000.0, 1600.0])


class Window:
    """A frequency part that keeps what it was handed."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[float], list[float]]] = []

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Any, Any]:
        assert isinstance(jobs, KnownJobs)
        self.seen.append((jobs.walltime_s[entries.job].tolist(), signals.cap.cap_w.tolist()))
        return Highest().window(jobs, entries, prediction, machine, signals)


def test_a_frequency_part_is_handed_the_jobs_and_the_signals_alike(tmp_path: Path) -> None:
    """Live again for each queue, and for each cap that is announced."""
    cap = Cap(np.array([0.0, 60.0]), np.array([850.0, 900.0]))  # too low for any start
    simulated, live = Window(), Window()
    jobs = Jobs.build([0.0], [1], [100.0], walltime_s=[120.0], partition=["p1"])
    policy = replace(load_policy("easy"), frequency=simulated)
    simulate(jobs, lab_machine(), policy, cap=cap)
    assert simulated.seen == [([120.0], [850.0, 900.0])]
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, TOTAL_W)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=cap, policy=replace(policy, frequency=live))
    slurm.submit(1, 100.0, watts=NET_W, limit_s=120.0, partition="p1")
    for _ in range(3):
        controller.round()
    controller.planner.cap = Cap.constant(870.0)
    for _ in range(3):
        controller.round()
    assert live.seen == [([120.0], [850.0, 900.0]), ([120.0], [870.0])]


class EmptyFor(Window):
    """A frequency part that has no option of jobs with some walltime."""

    def __init__(self, walltime_s: float) -> None:
        super().__init__()
        self.walltime_s = walltime_s

    def without_options(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> Any:
        return jobs.walltime_s[entries.job] == self.walltime_s


@pytest.mark.parametrize(
    ("limits_s", "text"), [((120.0, 240.0), f"1 waiting {KEPT_NEAREST}"), ((120.0,), "no job has")]
)
def test_jobs_without_an_option_are_counted_and_start(tmp_path: Path, limits_s: tuple[float, ...], text: str) -> None:
    """Where it is all jobs, too: a controller goes on, and says what is wrong."""
    policy = replace(load_policy("easy"), frequency=EmptyFor(120.0))
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, TOTAL_W)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(1600.0), policy=policy)
    jobs = [slurm.submit(1, 100.0, watts=NET_W, limit_s=limit_s, partition="p1") for limit_s in limits_s]
    for _ in range(4):
        controller.round()
        slurm.step()
    assert {job.state for job in jobs} == {"RUNNING"}
    assert any(text in trouble for trouble in controller.troubles)


def test_the_policies_differ_on_this_workload() -> None:
    orders = {policy: tuple(simulated(policy)[0]) for policy in ("fcfs", "first-fit", "easy")}
    assert len(set(orders.values())) == 3
