"""A control starts nothing past what the row's pass promises (rule 8)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.parts.actions import Action, StartJob
from wattqueue.parts.backfill.easy import Easy
from wattqueue.policy.overtaking import OVERTAKES
from wattqueue.policy.policy import load_policy
from wattqueue.policy.view import View
from wattqueue.sim.engine import Run, simulate

MACHINE = plain_machine(4, 10.0, 100.0)
# The first runs until 100 s, the second waits for all nodes; of the last two one ends before 100 s, one does not.
JOBS = Jobs.build([0.0, 1.0, 2.0, 2.0], [3, 4, 1, 1], [100.0, 10.0, 500.0, 50.0])


class StartsOne:
    """Starts one job by name at the first arrival after which it waits."""

    period_s = 0.0
    events: frozenset[str] = frozenset({"arrival"})

    def __init__(self, job: str, at_s: float = 2.0) -> None:
        self.job, self.at_s = job, at_s

    def act(self, view: View) -> Sequence[Action]:
        return [StartJob(self.job, 0, (), 0)] if view.now_s == self.at_s else []


def run(row: str, job: str) -> Run:
    return simulate(JOBS, MACHINE, load_policy(row, controls=[StartsOne(job)]))


@pytest.mark.parametrize("row", ["easy", "easy-sjbf", "conservative"])
def test_a_start_that_delays_a_reservation_is_refused(row: str) -> None:
    done = run(row, "3")
    assert done.notes == {f"refused: {OVERTAKES}": 1}
    assert done.schedule.start_s.tolist() == [0.0, 100.0, 110.0, 2.0]


@pytest.mark.parametrize("row", ["easy", "easy-sjbf", "conservative"])
def test_a_start_that_the_pass_would_make_is_carried_out(row: str) -> None:
    done = run(row, "4")
    assert done.notes == {}
    assert done.schedule.start_s.tolist() == [0.0, 100.0, 110.0, 2.0]


def test_a_row_without_reservations_promises_nothing() -> None:
    done = run("first-fit", "3")
    assert done.notes == {}
    assert done.schedule.start_s[2] == 2.0


def test_what_is_wrong_otherwise_has_its_own_reason() -> None:
    assert run("easy", "2").notes == {"refused: no free unit": 1}
    assert run("easy", "1").notes == {"refused: wrong state": 1}


def test_beside_a_pass_that_tries_one_entry_a_start_may_go_that_delays_nothing() -> None:
    for job, notes in (("4", {}), ("3", {f"refused: {OVERTAKES}": 1})):
        policy = load_policy("easy", backfill=Easy(queue_depth=1), controls=[StartsOne(job)])
        done = simulate(JOBS, MACHINE, policy)
        assert done.notes == notes
        assert bool(done.schedule.start_s[int(job) - 1] == 2.0) == (not notes)
