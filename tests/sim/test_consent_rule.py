"""Consent is a rule (rule 20 of docs/semantics.md): what a load target takes from a job needs its user, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.sim.invariants import check_invariants
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.parts.actions import Action, Requeue, SetDeviceLimits, SetFrequency, StartJob, Suspend
from wattqueue.parts.contracts import Start
from wattqueue.policy.actions import NO_CONSENT
from wattqueue.policy.consented import KEEPS_NOTHING
from wattqueue.policy.policy import load_policy
from wattqueue.policy.target_limits import LIFTED
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

MACHINE = Machine(
    "clocks", (Partition("one", 4, frequencies_hz=(2e9, 1.5e9, 1e9), idle_w=20.0, max_w=100.0, dvfs_alpha=1.0),)
)
"""80 W idle. A node adds 80, 60 or 40 W, and a job takes 1, 1 1/3 or 2 times as long."""
SQUARE = replace(MACHINE, partitions=(replace(MACHINE.partitions[0], dvfs_alpha=2.0),))
"""Watts above idle fall faster than the speed: 80, 45 or 20 W."""
WINDOW = {"part": "frequency-window", "lowest_hz": 1e9}
NO_CONSENT = f"refused: {NO_CONSENT}"
EFFICIENT = {"part": "least-distance-or-lower", "t_weight": 100.0}


def jobs_of(*rows: tuple[float, int, float], **consent: Any) -> Jobs:
    """Jobs of (submit, nodes, run time)."""
    submit, nodes, run_s = (list(column) for column in zip(*rows, strict=True))
    return Jobs.build(submit, nodes, run_s, consent=Consent.build(len(rows), **consent) if consent else None)


def run(jobs: Jobs, policy: Any, *targets: LoadTarget, cap_w: float | Cap = np.inf, machine: Machine = MACHINE) -> Run:
    cap = Cap.constant(cap_w) if isinstance(cap_w, float) else cap_w
    done = simulate(jobs, machine, policy, cap=cap, targets=LoadTargets.of(*targets))
    check_invariants(done)
    return done


class At:
    """A control that acts at stated times."""

    period_s = 0.0
    events = frozenset({"signal", "arrival"})

    def __init__(self, actions: dict[float, Sequence[Action]]) -> None:
        self.actions = actions

    def act(self, view: View) -> Sequence[Action]:
        return self.actions.get(view.now_s, ())


@pytest.mark.parametrize("frequency", [WINDOW, EFFICIENT])
def test_a_control_slows_nobody_without_consent_whatever_the_frequency_part(frequency: Any) -> None:
    target = LoadTarget(1_000.0, 3_000.0, 240.0)
    policy = load_policy("easy", frequency=frequency, controls=["slow-consenting"])
    for allowed, end_s in ((0.0, 4_000.0), (1.0, 5_000.0)):
        done = run(jobs_of((0, 4, 4_000.0), allowed=[allowed]), policy, target, machine=SQUARE)
        assert done.schedule.end_s.tolist() == [end_s]


@pytest.mark.parametrize("backfill", ["none", "first-fit", "easy", "easy-sjbf", "conservative", "easy-ahead"])
@pytest.mark.parametrize("frequency", [WINDOW, EFFICIENT])
def test_a_job_without_consent_starts_at_full_speed_or_waits(frequency: Any, backfill: str) -> None:
    # 160 W from 0 to 300 s: 80 W for jobs, which a job of two nodes takes at half speed only.
    policy = load_policy("easy", frequency=frequency, backfill=backfill)
    target = LoadTarget(0.0, 300.0, 160.0)
    done = run(jobs_of((0, 2, 100.0), (10, 1, 50.0), allowed=[0, 0]), policy, target, machine=SQUARE)
    assert done.schedule.option.tolist() == [0, 0]
    assert done.schedule.start_s[0] == 300.0
    policy = load_policy("easy", frequency=WINDOW, backfill=backfill)
    done = run(jobs_of((0, 2, 100.0), allowed=[1]), policy, target)
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([2], [0.0])
    limited = jobs_of((0, 2, 100.0), allowed=[1], greatest_slowdown=[1.9])
    assert run(limited, policy, target).schedule.start_s.tolist() == [300.0]
    late = jobs_of((0, 2, 100.0), allowed=[1], latest_end_s=[199.0])
    assert run(late, policy, target).schedule.start_s.tolist() == [300.0]


@pytest.mark.parametrize("backfill", ["first-fit", "easy", "conservative"])
def test_the_cap_alone_may_slow_a_start(backfill: str) -> None:
    # The cap alone leaves 120 W: two nodes at 60 W each. The target is 10 W below it, or does not bind.
    policy = load_policy("easy", frequency=WINDOW, backfill=backfill)
    jobs = jobs_of((0, 2, 100.0), allowed=[0])
    assert run(jobs, policy, LoadTarget(0.0, 300.0, 200.0), cap_w=200.0).schedule.option.tolist() == [1]
    done = run(jobs, policy, LoadTarget(0.0, 300.0, 190.0), cap_w=200.0)
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([1], [300.0])


def test_the_rise_after_a_target_slows_nobody_either() -> None:
    policy = load_policy("easy", frequency=WINDOW)
    target = LoadTarget(0.0, 100.0, 160.0, ramp_w_per_s=1.0)
    done = run(jobs_of((0, 2, 100.0), allowed=[0]), policy, target, cap_w=400.0)
    assert done.schedule.option.tolist() == [0]
    assert done.schedule.start_s[0] >= 180.0  # 240 W are allowed again 80 s after its end


def test_a_pass_that_looks_ahead_slows_nobody_for_a_target_to_come() -> None:
    # Known at 0, from 50 s on 160 W: a job of two nodes fits below it at half speed alone.
    target = LoadTarget(50.0, 300.0, 160.0, notice_s=np.inf)
    for backfill in ("easy-ahead", "announced-caps"):
        policy = load_policy("easy", frequency=WINDOW, backfill=backfill)
        done = run(jobs_of((1, 2, 100.0), allowed=[0]), policy, target)
        assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([0], [300.0])
        # easy-ahead counts a consenting job at the option to which it may be slowed when the target begins.
        option = 0 if backfill == "easy-ahead" else 2
        assert run(jobs_of((1, 2, 100.0), allowed=[1]), policy, target).schedule.option.tolist() == [option]


class Slowest:
    """A pass that starts everything at the last option of its window, whatever the view offers."""

    def schedule(self, view: View) -> Sequence[Start]:
        return [Start(int(entry), int(view.kernel.entries.last[entry])) for entry in view.queue]


def test_a_start_by_a_pass_in_python_is_refused_with_the_reason() -> None:
    policy = load_policy("easy", frequency=WINDOW, backfill=Slowest())
    done = run(jobs_of((1, 2, 100.0), allowed=[0]), policy, LoadTarget(50.0, 300.0, 160.0, notice_s=np.inf))
    assert (done.schedule.option.tolist(), done.schedule.start_s.tolist()) == ([2], [300.0])
    assert done.notes[NO_CONSENT] > 0


ACTIONS = [
    ("slow", SetFrequency("1", 2)),
    ("limit", SetDeviceLimits((0,), (60.0,))),
    ("suspend", Suspend("1")),
    ("requeue", Requeue("1")),
]


@pytest.mark.parametrize(("name", "action"), ACTIONS)
@pytest.mark.parametrize("at_s", [20.0, 50.0])
def test_actions_for_a_target_need_consent(name: str, action: Action, at_s: float) -> None:
    """While a target is in force, and while one is announced: what a control has in mind does not matter."""
    policy = load_policy("easy", frequency=WINDOW, controls=[At({at_s: [action]})])
    target = LoadTarget(50.0, 80.0, 100.0, notice_s=30.0)
    done = run(jobs_of((0, 1, 100.0), allowed=[0]), policy, target)
    assert done.schedule.end_s.tolist() == [100.0]
    assert done.notes[NO_CONSENT] == 1
    more = {"checkpoint_s": [10.0]} if name == "requeue" else {}
    done = run(jobs_of((0, 1, 100.0), allowed=[1], **more), policy, target)
    assert NO_CONSENT not in done.notes


@pytest.mark.parametrize(("name", "action"), ACTIONS)
def test_actions_for_the_cap_need_none(name: str, action: Action) -> None:
    policy = load_policy("easy", frequency=WINDOW, controls=[At({50.0: [action]})])
    # The cap falls below what runs: 130 W of 160 W, beside a target that is lower still.
    cap = Cap(np.array([-np.inf, 50.0]), np.array([400.0, 130.0]))
    done = run(jobs_of((0, 1, 100.0), allowed=[0]), policy, LoadTarget(50.0, 80.0, 120.0), cap_w=cap)
    assert NO_CONSENT not in done.notes
    assert NO_CONSENT not in run(jobs_of((0, 1, 100.0), (50, 1, 1.0), allowed=[0, 0]), policy).notes


def test_the_cap_excuses_no_more_than_it_needs() -> None:
    # Two jobs, 240 W. The cap alone needs 40 W less, the target 120 W less: one job is slowed, not both.
    control = At({50.0: [SetFrequency("1", 2), SetFrequency("2", 2)]})
    policy = load_policy("easy", frequency=WINDOW, controls=[control])
    cap = Cap(np.array([-np.inf, 50.0]), np.array([400.0, 200.0]))
    done = run(jobs_of((0, 1, 100.0), (0, 1, 100.0), allowed=[0, 0]), policy, LoadTarget(50.0, 80.0, 120.0), cap_w=cap)
    assert done.schedule.end_s.tolist() == [150.0, 100.0]
    assert done.notes[NO_CONSENT] == 1


def test_limits_of_a_consent_bound_every_action() -> None:
    target = LoadTarget(50.0, 80.0, 100.0)
    within = {"greatest_slowdown": [1.5], "allowed": [1]}
    for action, refused in ((SetFrequency("1", 2), 1), (SetFrequency("1", 1), 0), (Suspend("1"), 0)):
        policy = load_policy("easy", frequency=WINDOW, controls=[At({50.0: [action]})])
        assert run(jobs_of((0, 1, 100.0), **within), policy, target).notes.get(NO_CONSENT, 0) == refused
    policy = load_policy("easy", frequency=WINDOW, controls=[At({50.0: [Suspend("1")]})])
    late = jobs_of((0, 1, 100.0), allowed=[1], latest_end_s=[129.0])
    assert run(late, policy, target).notes[NO_CONSENT] == 1


def test_a_start_by_a_control_before_a_target_needs_consent_to_be_slow() -> None:
    jobs = jobs_of((1, 1, 100.0), allowed=[0])
    control = At({1.0: [StartJob("1", 0, (), 2)]})
    policy = load_policy("easy", frequency=WINDOW, controls=[control])
    done = run(jobs, policy, LoadTarget(50.0, 80.0, 100.0, notice_s=np.inf))
    assert (done.schedule.option.tolist(), done.notes[NO_CONSENT]) == ([0], 1)


def test_work_is_kept_by_checkpoints_alone() -> None:
    control = At({35.0: [Requeue("1", 30.0)]})
    policy = load_policy("easy", controls=[control])
    beside = (35, 1, 1.0)
    done = run(jobs_of((0, 1, 100.0), beside, allowed=[1, 0]), policy)
    assert done.notes == {f"refused: {KEEPS_NOTHING}": 1}
    done = run(jobs_of((0, 1, 100.0), beside, checkpoint_s=[20.0, np.nan]), policy)
    assert done.checkpointed_s.tolist() == [20.0, 0.0], "the last checkpoint is at 20 s"


class SlowInTargets:
    """A frequency part with the lowest frequency for all jobs that are submitted once a target is known."""

    def window(self, jobs: Any, entries: Any, prediction: Any, machine: Machine, signals: Any) -> Any:
        first = np.asarray(machine.option_start[entries.partition], np.int32)
        option = first + 2 * bool(len(signals.targets))
        return option, option


def test_a_frequency_part_slows_nobody_for_targets_without_consent() -> None:
    policy = load_policy("easy", frequency=SlowInTargets())
    jobs = jobs_of((0, 1, 100.0), (0, 1, 100.0), allowed=[0, 1])
    assert run(jobs, policy, LoadTarget(50.0, 80.0, 400.0)).schedule.option.tolist() == [0, 2]


TARGET = LoadTarget(50.0, 400.0, 400.0)


def limited(watts: float, at_s: float = 50.0, device: int = 0) -> Any:
    return load_policy("easy", controls=[At({at_s: [SetDeviceLimits((device,), (watts,))]})])


@pytest.mark.parametrize("allowed", [0.0, 1.0])
def test_a_limit_for_a_target_is_lifted_for_a_job_without_consent_that_starts_there(allowed: float) -> None:
    """At 60 W a device runs at half speed. The second job starts on it at 150 s, when the first has ended."""
    jobs = jobs_of((0, 1, 50.0 + 50.0), (0, 3, 500.0), (60, 1, 100.0), allowed=[1, 1, allowed])
    done = run(jobs, limited(60.0), TARGET)
    assert done.schedule.start_s[2] == done.schedule.end_s[0] == 150.0
    assert done.schedule.end_s[2] == (250.0 if allowed == 0.0 else 350.0)
    assert done.notes.get(LIFTED, 0) == (1 if allowed == 0.0 else 0)


def test_a_limit_on_an_idle_device_and_one_that_outlives_its_target_are_lifted_too() -> None:
    idle = run(jobs_of((100, 1, 100.0), allowed=[0]), limited(60.0), TARGET)
    assert idle.schedule.end_s.tolist() == [200.0]
    later = run(jobs_of((0, 1, 40.0), (500, 1, 100.0), allowed=[0, 0]), limited(60.0), TARGET)
    assert later.schedule.end_s[1] == 600.0


def test_limits_that_the_cap_asks_for_stay() -> None:
    """Set without a target, or while the cap alone is not kept; and a lift goes no further than to what held before."""
    early = run(jobs_of((0, 1, 10.0), (100, 1, 100.0), allowed=[0, 0]), limited(60.0, 0.0), TARGET)
    assert early.schedule.end_s[1] == 300.0
    actions: dict[float, Sequence[Action]] = {
        at_s: [SetDeviceLimits((0,), (watts,))] for at_s, watts in ((0.0, 80.0), (50.0, 60.0))
    }
    both = load_policy("easy", controls=[At(actions)])
    done = run(jobs_of((0, 1, 10.0), (100, 1, 90.0), allowed=[0, 0]), both, TARGET)
    assert done.schedule.end_s[1] == pytest.approx(100.0 + 90.0 / 0.75), "80 W: three quarters of the speed"


def test_a_greatest_slowdown_holds_for_starts_under_a_limit() -> None:
    jobs = jobs_of((100, 1, 100.0), allowed=[1], greatest_slowdown=[1.9])
    assert run(jobs, limited(60.0), TARGET).schedule.end_s.tolist() == [200.0]
    jobs = jobs_of((100, 1, 100.0), allowed=[1], greatest_slowdown=[2.1])
    assert run(jobs, limited(60.0), TARGET).schedule.end_s.tolist() == [300.0]


CORES = Machine(
    "cores", (Partition("one", 1, sockets_per_node=1, cores_per_socket=4, unit="core", idle_w=5.0, max_w=25.0,
                        frequencies_hz=(2e9,), dvfs_alpha=1.0),),
)  # fmt: skip
"""Four cores of 20 W above idle share a socket, which is the device."""


@pytest.mark.parametrize(("cap_w", "ends"), [(np.inf, (125.0, 100.0)), (80.0, (125.0, 100.0)), (76.0, (250.0, 200.0))])
def test_who_shares_the_device_goes_faster_as_far_as_the_cap_alone_has_room(
    cap_w: float, ends: tuple[float, float]
) -> None:
    """Two cores under 40 W run at half speed from 0 s on; a third is started at 50 s by a job without consent.

    With the limit lifted they draw 80 W, above the target of 70 W. A cap of 76 W has no room for that.
    """
    jobs = jobs_of((0, 2, 100.0), (50, 1, 50.0), allowed=[1, 0])
    done = run(jobs, limited(40.0, 0.0), LoadTarget(0.0, 400.0, 70.0), cap_w=cap_w, machine=CORES)
    assert done.schedule.end_s.tolist() == pytest.approx(list(ends))
