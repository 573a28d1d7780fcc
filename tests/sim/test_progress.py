"""Rule 19: on an idle machine a job starts whose maximum fits, whatever the ledger keeps free (cases by hand)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.sim.test_semantics import jobs_of
from wattqueue.kernels import codes
from wattqueue.model.consent import Consent
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import CapScope, Machine, Partition
from wattqueue.model.schedule import Reason, State
from wattqueue.model.signals import Cap
from wattqueue.parts.contracts import Start
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

NEVER = float("nan")
CWM = {"part": "cwm", "pass_interval_s": 0.0}
RISES = Cap(np.array([-np.inf, 50.0]), np.array([350.0, 400.0]))
# The margin of a single job is nine times its watts: no job of 100 W fits below 400 W.
HUGE = {"part": "chance", "deviations": 9.0, "own": 1.0, "common": 0.0}


def run_of(rows: list[tuple[float, int, float]], *, cap: Cap | float = 350.0, nodes: int = 4, idle_w: float = 0.0,
           max_w: float | None = 100.0, scope: CapScope = "machine", targets: LoadTargets | None = None,
           row: str = "easy+pc-mean", watts: float = 100.0, **parts: Any) -> Run:  # fmt: skip
    """A run of (submit, nodes, run time), each node of them predicted at ``watts``."""
    machine = Machine("m", (Partition("p", nodes, idle_w=idle_w, max_w=max_w),), scope)
    policy = load_policy(row, **({"estimator": "oracle-mean", "ledger": HUGE} | parts))
    jobs = jobs_of(rows, mean_power_w=np.full(len(rows), watts))
    return simulate(jobs, machine, policy, cap=Cap.constant(cap) if isinstance(cap, float) else cap, targets=targets)


def starts(rows: list[tuple[float, int, float]], **more: Any) -> list[float]:
    return [float(s) for s in run_of(rows, **more).schedule.start_s]


def test_one_job_at_a_time_where_the_margin_lets_none_start() -> None:
    rows = [(0.0, 1, 10.0), (1.0, 1, 10.0), (1.0, 3, 10.0)]
    assert starts(rows) == [0.0, 10.0, 20.0]


@pytest.mark.parametrize("predicted_w", [150.0, 300.0])
def test_a_prediction_above_the_stated_maximum_keeps_no_job_from_starting(predicted_w: float) -> None:
    """No unit draws more than its maximum, whatever an estimator says: three units fit below 350 W, four do not."""
    rows = [(0.0, 3, 10.0), (1.0, 1, 10.0), (2.0, 4, 10.0)]
    assert starts(rows, watts=predicted_w) == [0.0, 10.0, pytest.approx(NEVER, nan_ok=True)]


@pytest.mark.parametrize("backfill", ["none", CWM, "easy", "easy-sjbf", "first-fit"])
def test_only_the_head_where_nothing_may_overtake_it(backfill: Any) -> None:
    # 4 x 100 W do not fit below 350 W, only below the later cap.
    rows = [(0.0, 4, 10.0), (1.0, 1, 10.0)]
    expected = 60.0 if backfill in ("none", CWM) else 1.0
    assert starts(rows, backfill=backfill, cap=RISES) == [50.0, expected]


def test_entries_behind_the_queue_depth_do_not_count() -> None:
    rows = [(0.0, 4, 10.0), (0.0, 4, 10.0), (0.0, 1, 10.0)]
    two, three = ({"part": "easy", "queue_depth": depth} for depth in (2, 3))
    assert starts(rows, backfill=two, cap=RISES) == [50.0, 60.0, 70.0]
    assert starts(rows, backfill=three, cap=RISES) == [50.0, 60.0, 0.0]


@pytest.mark.parametrize(("scope", "fits"), [("machine", 250.0), ("dynamic", 50.0), ("jobs", 100.0)])
def test_the_maximum_counts_beside_the_idle_watts_that_the_cap_covers(scope: CapScope, fits: float) -> None:
    # Four nodes of 50 W idle and 100 W at most; the prediction is 60 W.
    def start(cap: float) -> float:
        return starts(
            [(0.0, 1, 10.0)], cap=cap, idle_w=50.0, scope=scope, watts=60.0, ledger=HUGE | {"deviations": 40.0}
        )[0]

    assert start(fits) == 0.0
    assert np.isnan(start(fits - 0.001))


def test_the_prediction_stands_where_no_maximum_is_stated() -> None:
    assert starts([(0.0, 3, 10.0), (0.0, 1, 10.0)], max_w=None) == [0.0, 10.0]
    np.testing.assert_array_equal(starts([(0.0, 4, 10.0)], max_w=None), [NEVER])


def test_a_job_starts_once_the_cap_lets_its_maximum_in() -> None:
    cap = Cap(np.array([-np.inf, 20.0]), np.array([90.0, 100.0]))
    assert starts([(0.0, 1, 10.0)], cap=cap) == [20.0]


def test_an_announced_target_counts_where_the_pass_looks_ahead() -> None:
    targets = LoadTargets.of(LoadTarget(50.0, 80.0, 150.0, notice_s=50.0))
    rows = [(0.0, 3, 100.0), (0.0, 3, 40.0)]
    margin = {"targets": targets, "ledger": KeepsFree(340.0)}
    # The first would reach into the target with 300 W; the second has ended by then.
    assert starts(rows, backfill="easy-ahead", **margin) == [80.0, 0.0]
    assert starts(rows, backfill="easy", **margin) == [0.0, 100.0]


class KeepsFree(Predicted):
    """A ledger of a site that keeps watts free, computed in Python."""

    def __init__(self, watts: float) -> None:
        self.watts = watts

    def margin_w(self, view: View) -> float:
        return self.watts


@pytest.mark.parametrize("backfill", ["easy", "conservative", "first-fit", "none"])
def test_a_margin_of_a_part_is_no_reason_to_wait(backfill: str) -> None:
    rows = [(0.0, 1, 10.0), (1.0, 1, 10.0)]
    assert starts(rows, backfill=backfill, ledger=KeepsFree(300.0)) == [0.0, 10.0]


def test_a_margin_of_a_part_keeps_jobs_apart_that_fit_beside_each_other_without_it() -> None:
    """The cap holds three jobs of 100 W beside a margin of up to 100 W."""
    rows = [(0.0, 1, 10.0)] * 4
    for margin_w, started in ((0.0, [0.0] * 4), (100.0, [0.0] * 3 + [10.0]), (100.5, [0.0, 0.0, 10.0, 10.0])):
        assert starts(rows, cap=400.0, ledger=KeepsFree(margin_w)) == started


def test_a_margin_of_a_part_counts_from_the_pass_at_which_it_is_asked() -> None:
    """100 W for each job that runs before the pass: two of them, and as many watts of margin, are the whole cap."""

    class KeepsAsMuch(Predicted):
        def margin_w(self, view: View) -> float:
            return 100.0 * len(view.running)

    rows = [(second, 1, 10.0) for second in (0.0, 1.0, 2.0, 3.0)]
    assert starts(rows, cap=400.0, ledger=KeepsAsMuch()) == [0.0, 1.0, 10.0, 10.0]


def test_nothing_else_starts_while_the_ledger_is_above_the_cap() -> None:
    # Jobs without watts fit any budget of 0 or more; beside the first one it is negative.
    rows = [(0.0, 1, 10.0), (1.0, 1, 10.0), (1.0, 1, 10.0)]
    run = run_of(rows)
    assert run.power.jobs_w.max() == 100.0
    assert list(run.schedule.start_s) == [0.0, 10.0, 20.0]


def test_passes_that_wait_for_their_interval_are_passes() -> None:
    backfill = {"part": "easy", "pass_interval_s": 7.0}
    assert starts([(0.0, 1, 10.0), (1.0, 1, 10.0)], backfill=backfill) == [0.0, 14.0]


class NamesTheLast:
    """A pass in Python that starts the last entry of the queue."""

    code = codes.CUSTOM

    def schedule(self, view: View) -> Sequence[Start]:
        queue = view.queue.tolist()
        return [Start(queue[-1], view.entry_options(queue[-1])[0])] if queue else []


class StartsNothing(NamesTheLast):
    """A pass in Python that waits for ever."""

    def schedule(self, view: View) -> Sequence[Start]:
        return []


def test_a_pass_in_python_decides_itself_and_is_admitted_at_the_maximum() -> None:
    rows = [(0.0, 1, 10.0), (0.0, 1, 10.0), (0.0, 4, 10.0)]
    ledger = KeepsFree(300.0)
    assert starts(rows[:2], backfill=NamesTheLast(), ledger=ledger) == [10.0, 0.0]
    assert starts(rows, backfill=NamesTheLast(), ledger=ledger, cap=RISES) == [70.0, 60.0, 50.0]
    np.testing.assert_array_equal(starts(rows, backfill=StartsNothing(), ledger=ledger), [NEVER] * 3)


def test_each_start_is_within_the_cap() -> None:
    rng = np.random.default_rng(1)
    rows = [(float(k), int(rng.integers(1, 4)), float(rng.integers(1, 30))) for k in range(40)]
    run = run_of(rows)
    assert run.schedule.ran.all()
    assert run.power.jobs_w.max() <= 350.0


def reasons(rows: list[tuple[float, int, float]], **more: Any) -> list[Reason]:
    return [Reason(int(why)) for why in run_of(rows, **more).schedule.reason]


@pytest.mark.parametrize("backfill", ["none", CWM, "easy", "easy-sjbf", "first-fit"])
def test_a_job_that_no_limit_to_come_lets_start_does_not_hold_the_head(backfill: Any) -> None:
    # Two nodes: 400 W at most, and 200 W predicted with a margin of 1,800 W, below 350 W.
    rows = [(0.0, 2, 10.0), (1.0, 1, 10.0), (2.0, 1, 10.0)]
    run = run_of(rows, backfill=backfill, max_w=200.0)
    np.testing.assert_array_equal(run.schedule.start_s, [NEVER, 1.0, 11.0])
    assert run.schedule.reason.tolist() == [Reason.LEDGER, 0, 0]
    assert run.schedule.margin_w is not None
    np.testing.assert_array_equal(run.schedule.margin_w, [1800.0, NEVER, NEVER])
    assert State(run.schedule.state[0]) == State.NOT_STARTED


def test_the_reason_is_that_of_the_highest_limit_to_come() -> None:
    rows = [(0.0, 2, 10.0)]
    assert reasons(rows, max_w=200.0) == [Reason.LEDGER]
    assert reasons(rows, max_w=200.0, cap=150.0) == [Reason.NEVER_FITS]
    later = Cap(np.array([-np.inf, 50.0, 60.0]), np.array([350.0, 800.0, 350.0]))
    assert starts(rows, max_w=200.0, cap=later) == [50.0]
    # After the highest cap it is too late.
    assert reasons([(70.0, 2, 10.0)], max_w=200.0, cap=later) == [Reason.LEDGER]


def test_an_adaptive_margin_may_come_down() -> None:
    ledger = {"part": "adaptive", "begin": 9.0, "own": 1.0, "common": 0.0, "window_days": 1.0}
    assert reasons([(0.0, 2, 10.0)], max_w=200.0, ledger=ledger) != [Reason.LEDGER]


def test_other_nodes_may_stop() -> None:
    # Below 350 W the idle watts of four nodes (320 W) leave too little, those of one node do not.
    more = {"idle_w": 80.0, "max_w": 300.0, "watts": 150.0, "ledger": {**HUGE, "own": 0.01}}
    assert reasons([(0.0, 1, 10.0)], **more) == [Reason.NEVER_FITS]
    assert reasons([(0.0, 1, 10.0)], controls=["idle-off"], **more) != [Reason.NEVER_FITS]


CLOCKS = Machine("clocks", (Partition("p", 4, frequencies_hz=(2e9, 1e9), idle_w=20.0, max_w=100.0, dvfs_alpha=1.0),))
"""Idle: 80 W. A busy node adds 80 W, slowed 40 W, and a slowed job takes twice as long."""


def run_by_target(allowed: float, *targets: LoadTarget, **backfill: Any) -> Run:
    """Below 300 W: a job of four nodes, which fits slowed (160 W of 220 W), not at full speed; behind it one of one."""
    consent = Consent.build(2, allowed=[allowed, 0.0])
    jobs = jobs_of([(0.0, 4, 10.0), (1.0, 1, 10.0)], mean_power_w=[100.0, 100.0], consent=consent)
    policy = load_policy(
        "dr-fcfs+frequency=target-at-start", estimator="oracle-mean", backfill={"part": "none", **backfill}
    )
    return simulate(jobs, CLOCKS, policy, cap=Cap.constant(300.0), targets=LoadTargets.of(*targets))


@pytest.mark.parametrize("backfill", [{}, {"part": "first-fit", "queue_depth": 1}])
def test_the_window_of_a_job_that_is_not_slowed_for_a_target_is_its_first_option(backfill: Any) -> None:
    target = LoadTarget(50.0, 80.0, 250.0)
    assert run_by_target(1.0, target, **backfill).schedule.start_s.tolist() == [50.0, 70.0]
    bound = run_by_target(0.0, target, **backfill)
    np.testing.assert_array_equal(bound.schedule.start_s, [NEVER, 1.0])
    assert bound.schedule.reason.tolist() == [Reason.NEVER_FITS, 0]


@pytest.mark.parametrize("targets", [(), (LoadTarget(50.0, 80.0, 230.0),), (LoadTarget(-20.0, -10.0, 250.0),)])
@pytest.mark.parametrize("backfill", [{}, {"part": "first-fit", "queue_depth": 1}])
def test_a_lower_option_counts_only_where_a_target_to_come_has_room_for_it(backfill: Any, targets: Any) -> None:
    # Slowed the job needs 160 W, and is slowed during a target alone: none, one that leaves 150 W, one that is over.
    run = run_by_target(1.0, *targets, **backfill)
    np.testing.assert_array_equal(run.schedule.start_s, [NEVER, 1.0])
    assert run.schedule.reason.tolist() == [Reason.NEVER_FITS, 0]
