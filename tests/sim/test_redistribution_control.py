"""The control that redistributes caps, in simulations: watts move to where jobs run, and the budget holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from wattqueue.kernels import codes
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import cap_sums
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.parts.actions import Action
from wattqueue.parts.controls.rapl_lending import RaplLending
from wattqueue.parts.controls.rapl_redistribution import RaplRedistribution
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Simulation
from wattqueue.sim.truth import NodeEvents

IDLE_W, MAX_W, BUDGET_W = 10.0, 100.0, 240.0
MACHINE = Machine(
    "four", (Partition("one", 2, unit="socket", sockets_per_node=2, idle_w=IDLE_W, max_w=MAX_W),), cap_scope="jobs"
)
"""Four sockets: an even share of the budget is 60 W."""


class Sockets:
    """Readings of the simulated sockets: a job draws all that its caps allow. Keeps the caps of every step."""

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self.seen: list[Floats] = []
        self.believed: RaplRedistribution | None = None
        """The control whose limits are compared with those in force."""

    def __call__(self, view: View) -> Floats:
        assert self.simulation is not None
        cap: Floats = self.simulation.truth.devices.cap_uw / codes.MICRO
        self.seen.append(cap)
        if self.believed is not None:
            np.testing.assert_allclose(self.believed.limits_w, cap, rtol=1e-12)
        power = np.full(view.machine.devices, IDLE_W)
        for job in view.running:
            power[view.machine.device_of_unit[view.job_units(int(job))]] = MAX_W
        drawn: Floats = np.minimum(power, cap)
        return drawn


def caps_of(jobs: Jobs, *, reset: bool, cap: Cap, machine: Machine = MACHINE) -> tuple[list[Floats], Simulation]:
    """Simulate with the control; return the caps as they were at each of its calls."""
    sockets = Sockets()
    control = RaplRedistribution(minimum_w=15.0, maximum_w=MAX_W, reset=reset, measure=sockets)
    policy = load_policy("first-fit", controls=[control])
    sockets.simulation = Simulation(jobs, machine, policy, cap, None, NodeEvents.none())
    sockets.simulation.go()
    return sockets.seen, sockets.simulation


def test_watts_of_idle_sockets_go_to_those_that_run_a_job() -> None:
    jobs = Jobs.build([0.0], [2], [400.0], walltime_s=[400.0])
    seen, simulation = caps_of(jobs, reset=True, cap=Cap.constant(BUDGET_W))
    assert all(caps.sum() <= BUDGET_W + 1e-6 for caps in seen)
    # The idle sockets have fallen to their least cap, the others draw what they can.
    np.testing.assert_allclose(seen[-1], [100.0, 100.0, 15.0, 15.0], atol=1e-5)
    # Slowed down at first only: with 60 W throughout, watts above idle would be 5/9 of those wanted.
    even = 400.0 * (1 / (5 / 9) ** 0.5)
    assert 400.0 < float(simulation.result().schedule.end_s[0]) < 0.9 * even


def test_a_start_resets_the_caps_of_its_sockets() -> None:
    """The second job's socket has decayed to 15 W: with the reset it gets 60 W at once, else 21 W at first."""
    jobs = Jobs.build([0.0, 200.0], [1, 1], [400.0, 100.0], walltime_s=[400.0, 100.0])
    for reset, first_w in ((True, 60.0), (False, 21.0)):
        seen, _ = caps_of(jobs, reset=reset, cap=Cap.constant(BUDGET_W))
        own = np.array([caps[1] for caps in seen])
        fell = int(np.argmax(own < 15.001))
        rose = own[fell:][own[fell:] > 15.001]
        assert abs(rose[0] - first_w) < 1e-3
        assert all(caps.sum() <= BUDGET_W + 1e-6 for caps in seen)


def test_a_budget_that_comes_down_holds_within_a_step() -> None:
    jobs = Jobs.build([0.0], [2], [400.0], walltime_s=[400.0])
    cap = Cap(np.array([0.0, 100.0]), np.array([BUDGET_W, 150.0]))
    seen, simulation = caps_of(jobs, reset=True, cap=cap)
    power = simulation.result().power
    assert min(caps.sum() for caps in seen) <= 150.0 + 1e-6
    late = power.jobs_w[power.time_s >= 100.0 + 4.0]
    assert len(late)
    assert late.max() <= 150.0 + 1e-6


class KeepFree:
    """A ledger that keeps 60 W free."""

    def margin_w(self, view: View) -> float:
        """Return watts to keep free."""
        return 60.0


def test_a_refused_raise_leaves_the_limits_that_were_in_force() -> None:
    """The ledger has room for 180 W: raises beyond that are refused, and what they asked for is in the reserve."""
    jobs = Jobs.build([0.0, 0.0], [1, 1], [400.0, 400.0], walltime_s=[400.0, 400.0])
    sockets = Sockets()
    control = RaplRedistribution(minimum_w=15.0, maximum_w=MAX_W, reset=False, measure=sockets)
    policy = load_policy("first-fit", ledger=KeepFree(), controls=[control])
    sockets.simulation = Simulation(jobs, MACHINE, policy, Cap.constant(BUDGET_W), None, NodeEvents.none())
    sockets.believed = control
    sockets.simulation.go()
    assert sum(sockets.simulation.session.refused.values()) > 0
    assert len(sockets.seen) > 10


class Recorder:
    """Notes the limits in force after each step of the control before it."""

    period_s = 4.0
    events = frozenset({"signal"})

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self.seen: list[tuple[float, float]] = []

    def act(self, view: View) -> list[Action]:
        """Note the time and the sum of the limits."""
        assert self.simulation is not None
        self.seen.append((view.now_s, float(self.simulation.truth.devices.cap_uw.sum()) / codes.MICRO))
        return []


BUDGETS = st.lists(st.tuples(st.floats(1.0, 40.0), st.floats(70.0, 400.0)), min_size=1, max_size=4)


@settings(max_examples=15)
@given(first_w=st.floats(240.0, 400.0), later=BUDGETS, lending=st.booleans())
def test_the_sum_of_caps_is_under_a_moved_budget_within_one_step(
    first_w: float, later: list[tuple[float, float]], lending: bool
) -> None:
    """Within a period of 4 s; where the control is woken by signals, in the very instant."""
    sockets, recorder = Sockets(), Recorder()
    control = (RaplLending if lending else RaplRedistribution)(minimum_w=15.0, maximum_w=MAX_W, measure=sockets)
    times = np.concatenate(([0.0], np.cumsum([wait for wait, _ in later])))
    cap = Cap(times, np.array([first_w, *(watts for _, watts in later)]))
    jobs = Jobs.build([0.0, 5.0], [1, 2], [80.0, 60.0], walltime_s=[80.0, 60.0])
    policy = load_policy("first-fit", controls=[control, recorder])
    simulation = Simulation(jobs, MACHINE, policy, cap, None, NodeEvents.none())
    sockets.simulation = recorder.simulation = simulation
    simulation.go()
    for now, total in recorder.seen:
        since = int(np.searchsorted(times, now, side="right")) - 1
        stepped = lending or any(times[since] <= at <= now and at % 4.0 == 0.0 for at, _ in recorder.seen)
        if stepped:
            assert total <= cap.cap_w[since] + 1e-5
    run = simulation.result()
    lowered = int((np.diff(cap.cap_w) < 0).sum())
    over_s = cap_sums(run.power, MACHINE, cap, 0.0, float(np.nanmax(run.schedule.end_s))).over_s
    assert over_s <= (0.0 if lending else 4.0 * lowered) + 1e-6


RACK_W = {"r1": 150.0, "r2": 130.0}
RACKS = replace(
    MACHINE,
    supply=tuple(SupplyDomain(name=f"r{k}", nodes=f"one[{k}]", limit_w=RACK_W[f"r{k}"]) for k in (1, 2)),
)
"""Two racks of two sockets: an even share is 60 W of the budget, 75 and 65 W of a rack."""


def rack_sums(caps_w: Floats) -> tuple[float, float]:
    """The sums of the caps below each rack."""
    return float(caps_w[:2].sum()), float(caps_w[2:].sum())


@examples(10)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3), st.integers(20, 80)), min_size=1, max_size=6))
def test_under_power_domains_no_racks_caps_sum_to_more_than_its_limit(rows: list[tuple[int, int, int]]) -> None:
    """At any call, and where the control reads sensors, which a loop without domains compiles."""
    columns = np.array(sorted(rows), float).T
    jobs = Jobs.build(columns[0], columns[1].astype(int), columns[2], walltime_s=columns[2])
    seen, _ = caps_of(jobs, reset=True, cap=Cap.constant(BUDGET_W), machine=RACKS)
    policy = load_policy("first-fit", controls=[RaplRedistribution(minimum_w=15.0, maximum_w=MAX_W)])
    metered = replace(RACKS, sensor=PowerSensor(sample_s=1.0, poll_s=2.0, noise=0.05))
    simulation = Simulation(jobs, metered, policy, Cap.constant(BUDGET_W), None, NodeEvents.none())
    simulation.go()
    for caps in (*seen, simulation.truth.devices.cap_uw / codes.MICRO):
        if caps.max() < np.inf:  # before the first call there are none
            assert rack_sums(caps)[0] <= 150.0 + 1e-6
            assert rack_sums(caps)[1] <= 130.0 + 1e-6
            assert caps.sum() <= BUDGET_W + 1e-6


def test_under_power_domains_a_racks_watts_are_used_up_to_its_limit() -> None:
    """The job has rack 1 alone, and 100 W a socket, until the limit of its rack falls: then 75 W each."""
    falls = SupplyDomain(name="r1", nodes="one[1]", limit_s=(0.0, 100.0), limits_w=(210.0, 150.0))
    machine = replace(RACKS, supply=(falls, RACKS.supply[1]))
    jobs = Jobs.build([0.0], [2], [400.0], walltime_s=[400.0])
    seen, simulation = caps_of(jobs, reset=True, cap=Cap.constant(BUDGET_W), machine=machine)
    assert max(caps[0] for caps in seen if caps[0] < np.inf) > 99.9
    np.testing.assert_allclose(seen[-1], [75.0, 75.0, 15.0, 15.0], atol=1e-5)
    power = simulation.result().power
    late = power.jobs_w[power.time_s >= 100.0 + 4.0]
    assert late.max() <= 150.0 + 1e-6


def test_under_domains_that_never_bind_caps_are_those_without() -> None:
    jobs = Jobs.build([0.0, 30.0, 90.0], [2, 1, 3], [100.0, 200.0, 150.0], walltime_s=[100.0, 200.0, 150.0])
    slack = replace(RACKS, supply=tuple(replace(one, limit_w=200.0) for one in RACKS.supply))
    bare, under = (caps_of(jobs, reset=True, cap=Cap.constant(BUDGET_W), machine=one)[0] for one in (MACHINE, slack))
    assert [caps.tolist() for caps in bare] == [caps.tolist() for caps in under]
