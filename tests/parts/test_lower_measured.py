"""The control that acts by measured power: what it takes, from whom, and that it gives it back (SEMANTICS rule 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.invariants import check_invariants
from wattqueue.errors import InputError, PolicyError
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.signals import Cap
from wattqueue.parts import Asked, Prediction
from wattqueue.parts.actions import Action, Requeue, Resume, SetDeviceLimits, Suspend
from wattqueue.parts.controls.lower_measured import LowerMeasured
from wattqueue.policy.actions import NO_CONSENT
from wattqueue.policy.consented import NOT_OPTED_IN
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, Simulation
from wattqueue.sim.truth import NodeEvents, actual_power

NODES = 4
MACHINE = Machine(
    "sensed", (Partition("one", NODES, frequencies_hz=(2e9,), idle_w=20.0, max_w=100.0, dvfs_alpha=1.0),),
    sensor=PowerSensor(1.0, 1.0),
)  # fmt: skip
"""80 W idle; a busy node draws 80 W more."""
CAP_W = 240.0
"""160 W for jobs: two at what they draw, four at what is predicted."""


class Half:
    """Predicts 40 W above idle for every job: half of what each draws."""

    asked: Asked = "once"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        options = len(machine.option_partition)
        return Prediction(np.full((1, options), 60.0), np.ones((1, options)), np.zeros(len(jobs), np.int32))


class Noted(LowerMeasured):
    """The control, with what it asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked_for: list[tuple[float, Action]] = []

    def act(self, view: View) -> Sequence[Action]:
        found = super().act(view)
        self.asked_for += [(view.now_s, action) for action in found]
        return found

    def of(self, *kinds: type) -> list[Any]:
        return [action for _, action in self.asked_for if isinstance(action, kinds)]


def jobs_of(*rows: tuple[float, int, float], **consent: Any) -> Jobs:
    """Jobs of (submit, nodes, run time), each of which draws all that its nodes can."""
    submit, nodes, run_s = (list(column) for column in zip(*rows, strict=True))
    n = len(rows)
    return Jobs.build(
        submit, nodes, run_s, mean_power_w=np.full(n, 100.0), max_power_w=np.full(n, 100.0),
        consent=Consent.build(n, **consent) if consent else None,
    )  # fmt: skip


def run(
    jobs: Jobs, *controls: Any, cap: float | Cap = CAP_W, machine: Machine = MACHINE, targets: Any = (), **row: Any
) -> Run:
    row = {"estimator": Half(), **row}
    policy = load_policy("easy", controls=list(controls), **row)
    cap = Cap.constant(cap) if isinstance(cap, float) else cap
    simulation = Simulation(
        jobs, machine, policy, cap, actual_power(jobs, machine), NodeEvents.none(), targets=LoadTargets.of(*targets)
    )
    simulation.go()
    done = simulation.result()
    check_invariants(done)
    return done


def above_s(done: Run, cap_w: float = CAP_W) -> float:
    """Seconds for which power was above a cap."""
    seconds = np.diff(done.power.time_s)
    return float(seconds[done.power.machine_w[:-1] > cap_w + 1e-6].sum())


FOUR = [(0.0, 1, 100.0)] * 4


def test_limits_bring_power_below_the_cap_and_are_lifted_when_there_is_room() -> None:
    plain = run(jobs_of(*FOUR))
    assert above_s(plain) == 100.0
    control = Noted(period_s=5.0)
    done = run(jobs_of(*FOUR[:3], (0.0, 1, 20.0)), control)
    assert above_s(done) <= 5.0, "power is seen at the first call behind the start"
    assert done.schedule.ran.all()
    limits = control.of(SetDeviceLimits)
    assert min(limits[0].caps_w) < 100.0
    raised = [max(action.caps_w) for action in limits[1:]]
    assert raised[-1] > raised[0], "the fourth job ended, and its watts went to the others"
    assert done.schedule.end_s.max() < 100.0 / 0.4
    last = np.full(NODES, np.inf)
    short = run(jobs_of((0.0, 3, 50.0), (0.0, 1, 400.0)), control := Noted(period_s=5.0))
    for action in control.of(SetDeviceLimits):
        last[action.devices] = action.caps_w
    assert short.schedule.end_s[1] < 500.0
    assert np.isinf(last).all(), "one job alone fits: nothing is limited any more"


def test_only_jobs_that_opted_in_are_parked_and_they_go_on_before_anything_starts() -> None:
    control = Noted(order=["park"], period_s=5.0)
    jobs = jobs_of(*FOUR, (1.0, 1, 10.0), allowed=[1, 0, 1, 0, 0])
    done = run(jobs, control)
    assert done.schedule.parked_s is not None
    assert (done.schedule.parked_s > 0).tolist() == [True, False, True, False, False]
    assert done.schedule.ran.all()
    assert above_s(done) <= 10.0
    resumed = [at_s for at_s, action in control.asked_for if isinstance(action, Resume)]
    assert resumed[:2] == [100.0, 100.0]
    assert done.schedule.start_s[4] >= 100.0, "nothing starts while a parked job waits"


def test_without_consent_nobody_is_parked() -> None:
    control = Noted(order=["park", "requeue"])
    done = run(jobs_of(*FOUR, checkpoint_s=[10.0] * 4), control)
    assert not control.asked_for
    assert done.schedule.end_s.tolist() == [100.0] * 4


class ParkAll:
    """Parks whom it likes, by measured power as it says."""

    period_s, events, acts_by_power, reads_sensors = 5.0, frozenset[str](), True, True

    def act(self, view: View) -> Sequence[Action]:
        rows = np.setdiff1d(view.running, view.suspended)
        return [Suspend(job) if k else Requeue(job) for k, job in enumerate(view.job_ids(rows.tolist()))]


def test_the_session_holds_the_opt_in_whatever_the_control_does() -> None:
    done = run(jobs_of(*FOUR, allowed=[0, 0, 0, 0]), ParkAll())
    assert done.notes[f"refused: {NOT_OPTED_IN}"] > 0
    assert done.schedule.end_s.tolist() == [100.0] * 4


def test_a_requeued_job_keeps_its_checkpoints_and_gets_on() -> None:
    control = Noted(order=["requeue"], period_s=5.0)
    done = run(jobs_of(*FOUR, allowed=[1] * 4, checkpoint_s=[10.0] * 4), control)
    requeues = control.of(Requeue)
    assert requeues
    assert min(action.checkpointed_s for action in requeues) >= 10.0, "only with new work behind a checkpoint"
    assert done.schedule.ran.all()
    assert (done.checkpointed_s > 0).any()


def test_the_last_job_runs_although_it_is_above_the_cap_alone() -> None:
    jobs = jobs_of((0.0, 4, 100.0), (0.0, 4, 50.0), allowed=[1, 1], checkpoint_s=[10.0, 10.0])
    control = Noted(order=["park", "requeue"], period_s=5.0)
    done = run(jobs, control)
    assert not control.of(Suspend, Requeue)
    assert done.schedule.end_s.tolist() == [100.0, 150.0]


def test_nothing_starts_beside_running_jobs_while_power_is_above() -> None:
    # By predictions another job of one node fits at 10 s; two nodes draw 80 W more than is predicted.
    rows = [(0.0, 2, 100.0), (10.0, 1, 20.0), (10.0, 1, 20.0)]
    cap = Cap(np.array([-np.inf, 5.0]), np.array([400.0, 200.0]))
    assert run(jobs_of(*rows), cap=cap).schedule.start_s.tolist() == [0.0, 10.0, 30.0]
    held = run(jobs_of(*rows), Noted(order=["park"], period_s=5.0), cap=cap)
    assert held.schedule.start_s[1:].min() == 100.0
    assert held.schedule.ran.all()


def test_a_cap_that_falls_and_rises_is_followed_at_once() -> None:
    cap = Cap(np.array([-np.inf, 20.0, 60.0]), np.array([400.0, 240.0, 400.0]))
    control = Noted(period_s=1e6)
    done = run(jobs_of(*FOUR), control, cap=cap)
    assert [at_s for at_s, _ in control.asked_for][:2] == [20.0, 60.0]
    seconds = np.diff(done.power.time_s)
    inside = (done.power.time_s[:-1] >= 20.0) & (done.power.time_s[:-1] < 60.0)
    assert (done.power.machine_w[:-1][inside] <= 240.0 + 1e-6).all()
    assert seconds[inside].sum() == pytest.approx(40.0)
    # 40 s at just below half speed
    assert done.schedule.end_s.max() == pytest.approx(100.0 + 40.0 * (1.0 - 0.49), abs=0.5)


def test_an_empty_and_a_full_machine() -> None:
    low = Cap(np.array([-np.inf, 10.0, 500.0]), np.array([400.0, 60.0, 400.0]))
    control = Noted(period_s=5.0)
    done = run(jobs_of((0.0, 4, 8.0), (20.0, 1, 50.0)), control, cap=low)
    assert done.schedule.start_s.tolist() == [0.0, 500.0]
    full = run(jobs_of((0.0, 4, 100.0)), Noted(period_s=5.0), cap=400.0)
    assert full.schedule.end_s.tolist() == [100.0]


def test_a_meter_that_is_lost_takes_nothing_from_anybody() -> None:
    lost = replace(MACHINE, sensor=PowerSensor(1.0, 1.0, loss=0.999999))
    control = Noted(period_s=5.0)
    jobs = jobs_of(*FOUR, allowed=[1] * 4)
    assert run(jobs, control, machine=lost).schedule.end_s.tolist() == [100.0] * 4
    assert not control.asked_for


def test_without_a_sensor_the_policy_is_refused() -> None:
    with pytest.raises(PolicyError, match="nothing measures"):
        run(jobs_of(*FOUR), LowerMeasured(), machine=replace(MACHINE, sensor=None))


@pytest.mark.parametrize("options", [{"order": []}, {"order": ["sleep"]}, {"order": ["park", "park"]}, {"room": 1.0}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        LowerMeasured(**options)
    assert refused.value.where == "lower-measured"


def test_two_controls_that_park_are_refused() -> None:
    with pytest.raises(PolicyError, match="both suspend jobs"):
        run(jobs_of(*FOUR), LowerMeasured(), "park-consenting")
    run(jobs_of(*FOUR), LowerMeasured(order=["limits"]), "park-consenting")


def test_the_cap_alone_needs_no_consent_beside_a_load_target() -> None:
    """The ledger is within cap and target, measured power above both: what is limited is limited for the cap."""
    control = Noted(order=["limits"], period_s=5.0)
    done = run(jobs_of(*FOUR, allowed=[0] * 4), control, targets=[LoadTarget(0.0, 400.0, 240.0)])
    assert f"refused: {NO_CONSENT}" not in done.notes
    assert above_s(done) <= 5.0
    # Above the target alone it does nothing: that is for controls that ask for consent.
    control = Noted(order=["limits"], period_s=5.0)
    run(jobs_of(*FOUR, allowed=[0] * 4), control, cap=400.0, targets=[LoadTarget(0.0, 400.0, 240.0)])
    assert not control.asked_for


@given(st.integers(0, 2**32 - 1))
def test_work_gets_done_whatever_is_lowered(seed: int) -> None:
    """Random jobs, caps, sensors and orders of the steps: every job ends, and who did not opt in is never stopped."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    submit = np.sort(rng.integers(0, 60, n)).astype(float)
    allowed = rng.integers(0, 2, n)
    rows = list(zip(submit, rng.integers(1, 5, n).tolist(), rng.integers(1, 80, n).astype(float), strict=True))
    jobs = jobs_of(*rows, allowed=allowed, checkpoint_s=np.where(rng.random(n) < 0.5, 7.0, np.nan))
    times = np.concatenate(([-np.inf], np.sort(rng.choice(np.arange(1, 200), 3, replace=False)))).astype(float)
    cap = Cap(times, np.append(rng.integers(150, 420, 3).astype(float), 400.0))
    steps = [step for step in rng.permutation(["limits", "park", "requeue"]).tolist() if rng.random() < 0.7]
    sensor = PowerSensor(2.0, 2.0, noise=float(rng.choice([0.0, 0.05])), loss=float(rng.choice([0.0, 0.3])))
    control = Noted(order=steps or ["limits"], period_s=float(rng.choice([3.0, 11.0])))
    ledger = str(rng.choice(["predicted", "measured", "chance"]))
    backfill = str(rng.choice(["easy", "first-fit", "none"] + ["conservative"] * (ledger == "predicted")))
    done = run(jobs, control, cap=cap, machine=replace(MACHINE, sensor=sensor), ledger=ledger, backfill=backfill)
    assert done.schedule.ran.all()
    named = {action.job for action in control.of(Suspend, Requeue)}
    assert named <= {str(jobs.job_id[row]) for row in np.flatnonzero(allowed)}
