"""Starts that a control delays, with the consent of users (rule 20 of docs/semantics.md), and prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.invariants import check_invariants
from wattqueue.errors import PolicyError
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition, plain_machine
from wattqueue.model.signals import Series
from wattqueue.parts.actions import Action, DelayStart
from wattqueue.parts.controls.delay_consenting import DelayConsenting
from wattqueue.policy.actions import NO_DELAY_CONSENT, NO_DELAYS, WRONG_STATE
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

MACHINE = plain_machine(4, 0.0, 100.0)
PRICES = Series(np.array([0.0, 3_600.0, 7_200.0]), np.array([100.0, 50.0, 80.0]))
PASSES = ["none", "first-fit", "easy", "easy-sjbf", "conservative", "cwm"]


def jobs_of(*rows: tuple[float, int, float], allowed: Any = 1.0, latest: Any = np.inf, **more: Any) -> Jobs:
    """Jobs of (submit, nodes, run time), whose users consent up to a latest end."""
    submit, nodes, run_s = (np.array(column) for column in zip(*rows, strict=True))
    ends = np.where(np.isfinite(np.broadcast_to(latest, len(rows))), latest, np.nan)
    consent = Consent.build(len(rows), allowed=np.broadcast_to(allowed, len(rows)).astype(float), latest_end_s=ends)
    return Jobs.build(submit, nodes, run_s, consent=consent, **more)


def run(jobs: Jobs, *controls: Any, backfill: Any = "easy", machine: Machine = MACHINE) -> Run:
    done = simulate(jobs, machine, replace(load_policy("easy", backfill=backfill), controls=controls))
    check_invariants(done)
    return done


class At:
    """A control that delays at stated times."""

    period_s = 0.0
    events = frozenset({"arrival"})
    delays = True

    def __init__(self, actions: dict[float, Sequence[Action]]) -> None:
        self.actions, self.refused = actions, list[str]()

    def act(self, view: View) -> Sequence[Action]:
        self.refused += [refusal.reason for refusal in view.refusals]
        return self.actions.get(view.now_s, ())


@pytest.mark.parametrize("backfill", PASSES)
def test_a_delayed_job_stands_back_and_then_has_its_place_again(backfill: str) -> None:
    # The first waits until 50 s; the second starts at once; at 50 s the first comes before the third, which is as wide.
    jobs = jobs_of((0, 4, 10), (0, 1, 50), (45, 4, 10), latest=1_000.0)
    options = {"part": backfill, **({"pass_interval_s": 0.0} if backfill == "cwm" else {})}
    done = run(jobs, At({0.0: [DelayStart("1", 50.0)]}), backfill=options)
    assert done.schedule.start_s.tolist() == [50.0, 0.0, 60.0]


def test_a_run_does_not_end_before_a_delayed_job_has_run() -> None:
    done = run(jobs_of((0, 1, 10), latest=1e6), At({0.0: [DelayStart("1", 5e5)]}))
    assert done.schedule.start_s.tolist() == [5e5]


def test_a_delay_until_a_time_that_is_over_changes_nothing() -> None:
    jobs = jobs_of((0, 4, 100), (5, 1, 10), (50, 1, 10), latest=1_000.0)
    done = run(jobs, At({50.0: [DelayStart("2", 20.0)]}))
    assert done.schedule.start_s.tolist() == [0.0, 100.0, 100.0]


def test_a_delay_needs_consent_a_latest_end_and_a_control_that_states_it() -> None:
    later = [DelayStart("1", 991.0), DelayStart("2", 50.0), DelayStart("3", 50.0), DelayStart("9", 50.0)]
    jobs = jobs_of((0, 1, 10), (0, 1, 10), (0, 1, 10), (5, 1, 10), allowed=[1, 0, 1, 1], latest=[1e3, 1e3, np.inf, 1e3])
    control = At({0.0: later, 5.0: [DelayStart("1", 20.0), DelayStart("4", 990.0)]})
    done = run(jobs, control)
    # 991 s and 10 s of walltime are after the latest end; the others do not consent, or state no end, or are no job.
    assert done.schedule.start_s.tolist() == [0.0, 0.0, 0.0, 990.0]
    assert control.refused == [NO_DELAY_CONSENT] * 3 + [WRONG_STATE]
    silent = At({0.0: [DelayStart("1", 20.0)]})
    silent.delays = False
    assert run(jobs, silent).notes[f"refused: {NO_DELAYS}"] == 1


def test_a_start_by_a_pass_in_python_waits_too() -> None:
    jobs = jobs_of((0, 4, 10), (0, 1, 10), latest=1e3)
    done = run(jobs, At({0.0: [DelayStart("1", 50.0)]}), backfill="announced-caps")
    assert done.schedule.start_s.tolist() == [50.0, 0.0]


@pytest.mark.parametrize(
    ("latest", "start"),
    [
        (7_200.0, 3_600.0),  # the first second of the cheap hour
        (4_000.0, 3_400.0),  # the latest start: 200 s at 100, 400 s at 50
        (3_600.0, 0.0),  # it would have to end before the cheap hour
        (np.inf, 0.0),  # no latest end, no delay
    ],
)
def test_a_job_starts_at_the_cheapest_time_to_which_its_user_consents(latest: float, start: float) -> None:
    done = run(jobs_of((0, 1, 600), latest=latest), DelayConsenting(prices=PRICES))
    assert done.schedule.start_s.tolist() == [start]


def test_a_job_of_two_hours_starts_where_its_mean_is_least() -> None:
    # From 3,600 s: an hour at 50 and one at 80; now: one at 100 and one at 50. A saving of 14 % is too little for 20 %.
    jobs = jobs_of((0, 1, 7_200), latest=1e6)
    assert run(jobs, DelayConsenting(prices=PRICES)).schedule.start_s.tolist() == [3_600.0]
    assert run(jobs, DelayConsenting(prices=PRICES, saving=0.2)).schedule.start_s.tolist() == [0.0]


def test_a_slower_frequency_needs_more_time_before_the_latest_end() -> None:
    machine = Machine("slow", (Partition("one", 4, frequencies_hz=(2e9, 1e9), max_w=100.0),))
    policy = load_policy("easy", frequency={"part": "frequency-window", "lowest_hz": 1e9, "highest_hz": 1e9})
    control = DelayConsenting(prices=PRICES)
    jobs = jobs_of((0, 1, 600), latest=4_700.0)  # 1,200 s at half speed: it may start up to 3,500 s
    done = simulate(jobs, machine, replace(policy, controls=(control,)))
    assert (done.schedule.start_s.tolist(), done.schedule.end_s.tolist()) == ([3_500.0], [4_700.0])


def test_each_job_is_decided_about_once() -> None:
    """The second is due at 3,600 s and finds no node: it waits there, and is not sent to another cheap hour."""
    prices = Series(np.array([0.0, 3_600.0, 7_200.0, 90_000.0]), np.array([100.0, 50.0, 80.0, 10.0]))
    jobs = jobs_of((0, 4, 9_000), (0, 4, 600), (10_000, 1, 5), allowed=[0, 1, 0], latest=[np.inf, 80_000.0, np.inf])
    assert run(jobs, DelayConsenting(prices=prices)).schedule.start_s.tolist() == [0.0, 9_000.0, 10_000.0]


@given(st.integers(0, 2**32 - 1))
def test_by_the_definition(seed: int) -> None:
    """With nodes enough each job starts at the cheapest second of a fine grid, or as cheap, and none too late."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    length = np.round(rng.uniform(60, 900, n))
    submit = np.round(np.sort(rng.uniform(0, 4_000, n)))
    latest = np.where(rng.random(n) < 0.8, submit + length * 2 + np.round(rng.uniform(0, 9_000, n)), np.nan)
    consent = Consent.build(n, allowed=rng.integers(0, 2, n).astype(float), latest_end_s=latest)
    jobs = Jobs.build(submit, np.ones(n, int), length, walltime_s=length * 2, consent=consent)
    times = np.unique(np.round(rng.uniform(0, 12_000, int(rng.integers(1, 9)))))
    prices = Series(times, np.round(rng.uniform(-20, 100, len(times)), 1))
    done = simulate(
        jobs, plain_machine(n), replace(load_policy("easy"), controls=(DelayConsenting(prices=prices, saving=0.0),))
    )
    for k in range(n):
        start = float(done.schedule.start_s[k])
        if not consent.given[k] or np.isnan(latest[k]):
            assert start == submit[k]
            continue
        assert start + 2 * length[k] <= latest[k] + 1e-6 or start == submit[k]
        grid = np.arange(submit[k], latest[k] - 2 * length[k] + 1)  # whole seconds: all times here are whole

        cost = partial(cost_by_seconds, prices, 2 * length[k])
        least = min(map(cost, grid), default=cost(submit[k]))
        assert cost(start) == pytest.approx(least, abs=1e-6)


def cost_by_seconds(prices: Series, length_s: float, at: float) -> float:
    """The price of each second of a run, one by one."""
    inside = np.arange(at, at + length_s)
    row = np.maximum(np.searchsorted(prices.time_s, inside, side="right") - 1, 0)
    return float(prices.value[row].sum())


def test_without_prices_the_row_is_refused_and_with_a_file_it_reads_them(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="delay-consenting has no effect: no price is known"):
        simulate(jobs_of((0, 1, 10)), MACHINE, load_policy("easy", controls=["delay-consenting"]))
    (tmp_path / "p.csv").write_text("time_s,price\n0,100\n3600,50\n7200,80\n")
    control = {"part": "delay-consenting", "prices": str(tmp_path / "p.csv")}
    done = simulate(jobs_of((0, 1, 600), latest=7_200.0), MACHINE, load_policy("easy", controls=[control]))
    assert done.schedule.start_s.tolist() == [3_600.0]
    with pytest.raises(PolicyError, match="saving"):
        load_policy("easy", controls=[{**control, "saving": -0.1}])
