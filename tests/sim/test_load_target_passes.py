"""Looking ahead to a load target, and rising after one (rule 13 of docs/semantics.md), by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.sim.invariants import check_invariants
from wattqueue.errors import MachineError, PolicyError
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.parts.backfill.easy_ahead import EasyAhead
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate

MACHINE = Machine("small", (Partition("one", 4, idle_w=20.0, max_w=100.0),))
"""Idle: 80 W; a busy node adds 80 W."""
CLOCKS = Machine("clocks", (Partition("one", 4, frequencies_hz=(2e9, 1e9), idle_w=20.0, max_w=100.0, dvfs_alpha=1.0),))
"""Slowed, a node adds 40 W, and a job takes twice as long."""


def jobs_of(*rows: tuple[float, int, float], allowed: Sequence[float] | None = None) -> Jobs:
    """Jobs of (submit, nodes, run time)."""
    submit, nodes, run = (list(column) for column in zip(*rows, strict=True))
    consent = None if allowed is None else Consent.build(len(rows), allowed=allowed)
    return Jobs.build(submit, nodes, run, consent=consent)


def starts(jobs: Jobs, policy: Any, *targets: LoadTarget, **more: Any) -> list[float]:
    found: list[float] = run(jobs, policy, *targets, **more).schedule.start_s.tolist()
    return found


def run(jobs: Jobs, policy: Any, *targets: LoadTarget, machine: Machine = MACHINE, cap_w: float = 400.0) -> Run:
    done = simulate(jobs, machine, policy, cap=Cap.constant(cap_w), targets=LoadTargets.of(*targets))
    check_invariants(done)
    return done


AHEAD = load_policy("easy", backfill="easy-ahead")


def test_a_job_that_reaches_into_an_announced_target_starts_only_if_it_fits_below_it() -> None:
    # 240 W from 100 s on, known at 40 s: two nodes may be busy then.
    target = LoadTarget(100.0, 300.0, 240.0, notice_s=60.0)
    jobs = jobs_of((0, 1, 1000), (50, 2, 100), (50, 1, 100), (50, 1, 50), (50, 1, 60))
    # The second would make three; the third fits; the fourth ends at 100 s, the fifth at 110 s: after the target.
    assert starts(jobs, AHEAD, target) == [0.0, 300.0, 50.0, 50.0, 150.0]
    # Not announced, each starts where there is a node.
    assert starts(jobs, AHEAD, LoadTarget(100.0, 300.0, 240.0)) == [0.0, 50.0, 50.0, 150.0, 200.0]


def test_power_is_below_an_announced_target_from_its_begin_on() -> None:
    target, jobs = LoadTarget(100.0, 300.0, 240.0, notice_s=100.0), jobs_of(*((7.0 * k, 1, 65.0) for k in range(40)))
    for policy, over in ((AHEAD, False), (load_policy("easy"), True)):
        done = run(jobs, policy, target)
        watts = Steps(done.power.time_s, done.power.machine_w)
        assert (watts.maximum(100.0, 300.0) > 240.0) == over


def test_an_entry_that_a_target_holds_back_reserves_nothing() -> None:
    target = LoadTarget(100.0, 300.0, 160.0, notice_s=100.0)
    # The first would run into the target on four nodes; the second has ended before it, and is not delayed for it.
    assert starts(jobs_of((0, 4, 150), (0, 4, 90)), AHEAD, target) == [300.0, 0.0]


def test_what_consenting_jobs_can_be_slowed_to_counts_at_the_begin() -> None:
    # 240 W: two nodes at full speed, or four slowed.
    target = LoadTarget(100.0, 300.0, 240.0, notice_s=100.0)
    jobs = jobs_of((0, 2, 150), (0, 2, 150), allowed=[1, 1])
    slowed = load_policy("dr-easy", backfill="easy-ahead")
    done = run(jobs, slowed, target, machine=CLOCKS)
    assert done.schedule.start_s.tolist() == [0.0, 0.0]
    assert done.power.machine_w[(done.power.time_s >= 100.0) & (done.power.time_s < 200.0)].max() <= 240.0
    as_run = load_policy("dr-easy", backfill=EasyAhead(slowed=False))
    assert starts(jobs, as_run, target, machine=CLOCKS) == [0.0, 150.0]
    # A disallowed job cannot be slowed, whatever the control does.
    bound = jobs_of((0, 2, 150), (0, 2, 150), allowed=[0, 0])
    assert starts(bound, slowed, target, machine=CLOCKS) == [0.0, 150.0]


def test_what_runs_already_counts_at_the_begin_as_it_can_be_slowed() -> None:
    # The same, but one arrives while the other runs: its pass counts the running job by what the target leaves it.
    target = LoadTarget(100.0, 300.0, 240.0, notice_s=100.0)
    jobs = jobs_of((0, 2, 150), (1, 2, 150), allowed=[1, 1])
    slowed, as_run = (load_policy("dr-easy", backfill=EasyAhead(slowed=slowed)) for slowed in (True, False))
    assert starts(jobs, slowed, target, machine=CLOCKS) == [0.0, 1.0]
    assert starts(jobs, as_run, target, machine=CLOCKS) == [0.0, 150.0]


def test_the_ledger_rises_at_the_ramp_since_its_last_rise() -> None:
    # Nothing runs during the target: 80 W at its end, 8 W a second from there on, so a node each 10 s. A step is 100 W
    # high, the maximum of a node, so 12.5 s long; the limit itself is 400 W at 140 s, an event.
    target = LoadTarget(0.0, 100.0, 80.0, ramp_w_per_s=8.0)
    jobs = jobs_of(*((50.0, 1, 500.0) for _ in range(4)))
    ramped = load_policy("easy", ledger="ramped")
    assert starts(jobs, ramped, target) == [112.5, 125.0, 137.5, 152.5]
    done = run(jobs, ramped, target)
    time = done.power.time_s
    assert (done.power.machine_w <= 80.0 + 8.0 * np.maximum(time - 100.0, 0.0) + 1e-6).all()
    # Seconds without a rise are kept, seconds before one are not: at 113 s 80 W are there, at 120 s 56 W. The limit is
    # raised at events (the target's own limit is one, at 125 s), and 12.5 s after the last.
    assert starts(jobs_of((113, 1, 500), (120, 1, 500)), ramped, target) == [113.0, 125.0]


def test_what_ends_may_be_started_again_and_the_ramp_is_over_at_the_cap() -> None:
    target = LoadTarget(0.0, 100.0, 160.0, ramp_w_per_s=4.0)
    # One node is busy to 105 s; its watts are there again at once, a second node's after 20 s:
    # the limit is raised each 25 s, before a node of 100 W is there.
    ramped = load_policy("easy", ledger="ramped")
    assert starts(jobs_of((0, 1, 105), (50, 1, 500), (50, 1, 500)), ramped, target) == [0.0, 105.0, 125.0]
    # 60 s after the target 400 W are allowed: four nodes start together.
    assert starts(jobs_of((0, 1, 105), (170, 4, 50)), ramped, target) == [0.0, 170.0]


def test_without_a_ramp_nothing_limits_the_rise() -> None:
    ramped, jobs = load_policy("easy", ledger="ramped"), jobs_of(*((50.0, 1, 500.0) for _ in range(4)))
    assert starts(jobs, ramped, LoadTarget(0.0, 100.0, 80.0)) == [100.0] * 4
    assert starts(jobs, ramped, LoadTarget(0.0, 100.0, 80.0), cap_w=np.inf) == [100.0] * 4


@pytest.mark.parametrize("ledger", ["predicted", "ramped"])
def test_without_a_cap_power_rises_to_the_stated_maximum(ledger: str) -> None:
    # 80 W idle, 400 W at most: steps of 100 W each 12.5 s, as under a cap of 400 W.
    target, policy = LoadTarget(0.0, 100.0, 80.0, ramp_w_per_s=8.0), load_policy("easy", ledger=ledger)
    jobs = jobs_of(*((50.0, 1, 500.0) for _ in range(4)))
    for cap_w in (np.inf, 400.0, 1e6):
        found = starts(jobs, policy, target, cap_w=cap_w)
        assert found == [112.5, 125.0, 137.5, 152.5 if ledger == "ramped" else 140.0]
    # Submitted after the limit's own rise, at 300 s: the ledger alone still rises from what runs, nothing.
    later = jobs_of(*((300.0, 1, 500.0) for _ in range(4)))
    assert starts(later, policy, target, cap_w=np.inf) == [300.0] * 4


def test_the_ledger_is_raised_each_minute_at_least() -> None:
    # 40 nodes of 80 W above 20 W idle; 0.5 W/s: a node each 160 s, and the limit is raised at 60 s, 120 s, 180 s.
    machine = Machine("wide", (Partition("one", 40, idle_w=20.0, max_w=100.0),))
    target = LoadTarget(0.0, 100.0, 800.0, ramp_w_per_s=0.5)
    ramped, jobs = load_policy("easy", ledger="ramped"), jobs_of((50.0, 1, 5_000.0), (50.0, 1, 5_000.0))
    assert starts(jobs, ramped, target, machine=machine, cap_w=np.inf) == [280.0, 460.0]


def test_a_ramp_without_cap_and_maximum_is_an_error() -> None:
    machine = Machine("bare", (Partition("one", 4, idle_w=20.0),))
    with pytest.raises(MachineError) as caught:
        run(jobs_of((0, 1, 10)), load_policy("easy"), LoadTarget(0.0, 9.0, 90.0, ramp_w_per_s=1.0), machine=machine,
            cap_w=np.inf)  # fmt: skip
    assert caught.value.where == "load target 1"


def test_choices_that_nothing_carries_out_are_refused() -> None:
    with pytest.raises(PolicyError, match="slowed"):
        load_policy("easy", backfill={"part": "easy-ahead", "slowed": 2})
