"""Passes that look ahead to announced caps and load targets (rule 13 of docs/semantics.md), by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.sim.invariants import check_invariants
from tests.sim.test_load_target_passes import CLOCKS, MACHINE, jobs_of
from wattqueue.errors import PolicyError
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, plain_machine
from wattqueue.model.signals import Cap
from wattqueue.model.steps import Steps
from wattqueue.parts.contracts import Prediction
from wattqueue.parts.ledger.chance import Chance
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import Run, simulate

FALLS = Cap(np.array([0.0, 100.0, 300.0]), np.array([400.0, 240.0, 400.0]))
"""Four busy nodes, from 100 to 300 s two."""
ONE_SIGMA = 0.158655254
"""Probability of more than a standard deviation above the mean."""


def ahead(backfill: str, **options: Any) -> Any:
    return load_policy("easy", backfill={"part": backfill, "ahead": "limits", **options})


def run(jobs: Jobs, policy: Any, *targets: LoadTarget, cap: Cap = FALLS, machine: Machine = MACHINE) -> Run:
    done = simulate(jobs, machine, policy, cap=cap, targets=LoadTargets.of(*targets))
    check_invariants(done)
    return done


@pytest.mark.parametrize("backfill", ["first-fit", "easy", "easy-sjbf", "conservative"])
def test_a_job_that_reaches_into_an_announced_cap_starts_only_if_it_fits_below_it(backfill: str) -> None:
    jobs = jobs_of((0, 1, 1000), (50, 2, 100), (50, 1, 100), (50, 1, 50), (50, 1, 60))
    # The second would make three busy nodes at 100 s; the third fits; the fourth has ended; the fifth ends at 110 s.
    assert run(jobs, ahead(backfill)).schedule.start_s.tolist() == [0.0, 300.0, 50.0, 50.0, 150.0]
    assert run(jobs, load_policy("easy")).schedule.start_s.tolist()[1] == 50.0


def test_in_queue_order_a_job_that_is_held_back_ends_the_pass() -> None:
    jobs = jobs_of((0, 1, 1000), (50, 2, 100), (50, 1, 20))
    assert run(jobs, ahead("none")).schedule.start_s.tolist() == [0.0, 300.0, 300.0]


def test_each_of_several_announced_limits_counts() -> None:
    """The next target alone leaves room for a job that the one after it has none for."""
    jobs, targets = (
        jobs_of((0, 3, 400)),
        (LoadTarget(50.0, 80.0, 330.0, notice_s=99.0), LoadTarget(200.0, 300.0, 180.0, notice_s=999.0)),
    )
    none = Cap.constant(400.0)
    assert run(jobs, ahead("easy"), *targets, cap=none).schedule.start_s.tolist() == [300.0]
    nearest = load_policy("easy", backfill={"part": "easy", "ahead": "target"})
    assert run(jobs, nearest, *targets, cap=none).schedule.start_s.tolist() == [0.0]


def test_a_target_is_seen_from_its_notice_on() -> None:
    target = LoadTarget(100.0, 300.0, 240.0, notice_s=60.0)
    for backfill in ("easy", "conservative"):
        done = run(jobs_of((30, 3, 200), (41, 1, 10)), ahead(backfill), target, cap=Cap.constant(400.0))
        assert done.schedule.start_s.tolist() == [30.0, 41.0], "not announced yet at 30 s"
        done = run(jobs_of((50, 3, 200), (51, 1, 10)), ahead(backfill), target, cap=Cap.constant(400.0))
        assert done.schedule.start_s.tolist() == [300.0, 51.0]


def test_a_conservative_plan_follows_a_cap_that_rises_too() -> None:
    """The first job waits for the cap of 300 s; the second, of one node, may run until then, and no longer."""
    cap = Cap(np.array([0.0, 300.0]), np.array([240.0, 400.0]))
    jobs = jobs_of((0, 3, 100), (0, 1, 300), (0, 1, 500))
    assert run(jobs, ahead("conservative"), cap=cap).schedule.start_s.tolist() == [300.0, 0.0, 0.0]
    four = jobs_of((0, 4, 100), (0, 1, 300), (0, 1, 301))
    assert run(four, ahead("conservative"), cap=cap).schedule.start_s.tolist() == [300.0, 0.0, 400.0]
    assert run(four, load_policy("conservative"), cap=cap).schedule.start_s.tolist() == [301.0, 0.0, 0.0], (
        "no plan for it"
    )


@pytest.mark.parametrize("backfill", ["first-fit", "easy", "easy-sjbf", "conservative"])
def test_power_is_below_each_limit_from_its_begin_on(backfill: str) -> None:
    jobs = jobs_of(*((7.0 * k, 1 + k % 3, 65.0) for k in range(40)))
    done = run(jobs, ahead(backfill), LoadTarget(400.0, 500.0, 160.0, notice_s=100.0))
    watts = Steps(done.power.time_s, done.power.machine_w)
    assert watts.maximum(100.0, 300.0) <= 240.0
    assert watts.maximum(400.0, 500.0) <= 160.0


def test_a_margin_is_that_of_the_jobs_that_run_then() -> None:
    """Two jobs of 100 W, of which each is wrong by 50 %: sqrt(0.25 (100^2 + 100^2)) = 70.7 W beside them."""
    machine = replace(plain_machine(2, 0.0, 100.0), cap_scope="jobs")
    jobs = Jobs.build([0.0, 10.0], [1, 1], [200.0, 200.0])
    for limit, start in ((271.0, 10.0), (270.0, 200.0)):
        cap = Cap(np.array([0.0, 100.0]), np.array([500.0, limit]))
        policy = replace(ahead("easy"), ledger=Chance(epsilon=ONE_SIGMA, own=0.25, common=0.0))
        assert run(jobs, policy, cap=cap, machine=machine).schedule.start_s.tolist() == [0.0, start]


class ByUnit:
    """An estimator of one application whose units draw 50, 150 and 100 W."""

    asked = "once"
    machine_figures = False

    def predict(self, jobs: KnownJobs, machine: Machine) -> Prediction:
        factor = np.array([[0.5, 1.5, 1.0]])
        return Prediction(np.full((1, 1), 100.0), np.ones((1, 1)), np.zeros(len(jobs), np.int32), unit_factor=factor)


def test_jobs_count_on_their_very_units() -> None:
    """A job on the best unit and one on the last draw 150 W: 200 W if units were equal."""
    machine = replace(plain_machine(3, 0.0, 200.0), cap_scope="jobs")
    jobs = Jobs.build([0.0, 1.0, 20.0], [1, 1, 1], [900.0, 50.0, 300.0], app=np.array(["cg", "cg", "cg"]))
    for limit, start in ((150.0, 20.0), (149.0, 51.0)):
        cap = Cap(np.array([0.0, 100.0, 500.0]), np.array([400.0, limit, 400.0]))
        done = run(jobs, replace(ahead("easy"), estimator=ByUnit()), cap=cap, machine=machine)
        # Below 150 W the third waits for the first unit that suffices: none until the cap has risen again.
        assert done.schedule.start_s.tolist()[2] == (start if limit == 150.0 else 500.0)


def test_consenting_jobs_count_slowed_within_a_target_and_not_under_a_cap() -> None:
    policy = load_policy("dr-easy", backfill={"part": "easy", "ahead": "limits", "slowed": True})
    jobs = jobs_of((0, 2, 150), (0, 2, 150), allowed=[1, 1])
    target = LoadTarget(100.0, 300.0, 240.0, notice_s=100.0)
    done = run(jobs, policy, target, cap=Cap.constant(400.0), machine=CLOCKS)
    assert done.schedule.start_s.tolist() == [0.0, 0.0]
    assert run(jobs, policy, machine=CLOCKS).schedule.start_s.tolist() == [0.0, 150.0]


@pytest.mark.parametrize(
    ("backfill", "words"),
    [
        ({"part": "easy", "ahead": "caps"}, "is 'caps'"),
        ({"part": "easy", "slowed": 1}, "is not true or false"),
        ({"part": "conservative", "ahead": "target"}, "follows all announced limits"),
        ({"part": "conservative", "ahead": "limits", "slowed": True}, "counts jobs as they run"),
    ],
)
def test_what_no_pass_does_is_refused(backfill: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        load_policy("easy", backfill=backfill)
