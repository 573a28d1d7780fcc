"""The control that redistributes caps, in simulations: watts move to where jobs run, and the budget holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.kernels import codes
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import cap_sums
from wattqueue.model.signals import Cap
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


def caps_of(jobs: Jobs, *, reset: bool, cap: Cap) -> tuple[list[Floats], Simulation]:
    """Simulate with the control; return the caps as they were at each of its calls."""
    sockets = Sockets()
    control = RaplRedistribution(minimum_w=15.0, maximum_w=MAX_W, reset=reset, measure=sockets)
    policy = load_policy("first-fit", controls=[control])
    sockets.simulation = Simulation(jobs, MACHINE, policy, cap, None, NodeEvents.none())
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
