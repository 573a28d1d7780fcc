"""The gate through which runs are compared: equal work opens it, anything else closes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.model.comparability import (
    OPEN,
    OTHER_JOBS,
    OTHER_TRUTH,
    PER_WORK,
    WorkDone,
    change,
    change_percent,
    common_jobs,
    factor,
    gate,
    gate_of_draws,
    gate_of_groups,
)
from wattqueue.model.jobs import Jobs
from wattqueue.model.schedule import REASONS, REJECTED, Reason, Schedule, State, never_ran_text


def jobs_of(n: int, submit_s: float = 0.0) -> Jobs:
    return Jobs.build(submit_s + np.arange(n, dtype=float), [1] * n, [10.0] * n)


def schedule_of(reasons: list[Reason]) -> Schedule:
    """A schedule in which jobs with a reason never ran and the others ran at once."""
    why = np.array(reasons, np.int8)
    ran, n = why == Reason.NONE, len(reasons)
    state = np.where(ran, State.COMPLETED, np.where(np.isin(why, REJECTED), State.REJECTED, State.NOT_STARTED))
    start = np.where(ran, np.arange(n, dtype=float), np.nan)
    return Schedule(
        state.astype(np.int8), why, start, start + 10.0, np.zeros(n, np.int16), np.zeros(n), np.zeros(n),
        np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32),
    )  # fmt: skip


def work_of(reasons: list[Reason]) -> WorkDone:
    return WorkDone.of(jobs_of(len(reasons)), schedule_of(reasons))


def test_a_run_that_left_jobs_is_comparable_with_none_not_even_with_itself() -> None:
    left = work_of([Reason.NONE, Reason.QUEUED])
    assert not gate(left, left).open
    found = gate(work_of([Reason.NONE] * 2), left, ("easy", "adapt"))
    assert not found.open
    assert found.why == "adapt: 1 of 2 jobs never ran (still queued at the end)"


def test_runs_of_different_physics_are_compared_in_nothing() -> None:
    """Not even per unit of work, and whichever way runs are grouped."""
    plain = work_of([Reason.NONE] * 2)
    true, other = (replace(plain, truth=text) for text in ("a", "b"))
    assert gate(true, true) == OPEN
    assert gate_of_groups({0: true, 1: other}, {0: true, 1: other}) == OPEN
    assert gate_of_draws([true, other], [other, true]) == OPEN
    for base in (plain, other):
        for found in (
            gate(base, true),
            gate_of_groups({0: plain, 1: base}, {0: plain, 1: true}),
            gate_of_draws([base, base], [base, true]),
        ):
            assert found.sentence == f"Not comparable: {OTHER_TRUTH}."
            assert not any(found.allows(metric) for metric in ("wait_s_mean", *PER_WORK))


def test_jobs_that_both_runs_rejected_are_no_work_of_either() -> None:
    both = work_of([Reason.NONE, Reason.TOO_WIDE])
    assert gate(both, both).open
    assert not gate(both, work_of([Reason.NONE, Reason.NONE])).open
    assert not gate(work_of([Reason.NONE, Reason.TOO_WIDE]), work_of([Reason.TOO_WIDE, Reason.NONE])).open


def test_runs_of_other_jobs_are_not_compared() -> None:
    a, b = (WorkDone.of(jobs_of(2, submit), schedule_of([Reason.NONE] * 2)) for submit in (0.0, 7.0))
    assert gate(a, b).why == OTHER_JOBS


def test_what_a_closed_gate_lets_through_is_divided_by_the_work() -> None:
    closed = gate(work_of([Reason.NONE] * 2), work_of([Reason.NONE, Reason.QUEUED]))
    for name in ("wait_s_mean", "makespan_s", "machine_energy_j", "jobs_never_ran", "cap_over_s"):
        assert change(name, 10.0, 5.0, closed) is None
        assert change_percent(name, 10.0, 5.0, closed) is None
        assert factor(name, 10.0, 5.0, closed) is None
        assert change_percent(name, 10.0, 5.0, OPEN) == -50.0
    for name in PER_WORK:
        assert change_percent(name, 10.0, 5.0, closed) == -50.0


def test_groups_are_compared_run_by_run() -> None:
    whole, left = work_of([Reason.NONE] * 2), work_of([Reason.NONE, Reason.SUSPENDED])
    assert gate_of_groups({1: whole, 2: whole}, {1: whole, 2: whole}).open
    assert not gate_of_groups({1: whole, 2: whole}, {1: whole, 2: left}).open
    assert not gate_of_groups({1: whole}, {2: whole}).open


def test_common_jobs_are_those_that_ran_in_both() -> None:
    class Ran:
        def __init__(self, reasons: list[Reason], later_s: float) -> None:
            self.jobs, found = jobs_of(len(reasons)), schedule_of(reasons)
            self.start_s, self.end_s = found.start_s + later_s, found.end_s + later_s

    found = common_jobs(Ran([Reason.NONE] * 3, 5.0), Ran([Reason.QUEUED, Reason.NONE, Reason.NONE], 2.0))
    assert found is not None
    assert (found.jobs, found.base_wait_s, found.other_wait_s) == (2, 5.0, 2.0)
    assert common_jobs(Ran([Reason.QUEUED], 0.0), Ran([Reason.NONE], 0.0)) is None


@given(st.lists(st.sampled_from(list(Reason)), min_size=1, max_size=6))
def test_the_columns_of_a_row_give_the_work_again(reasons: list[Reason]) -> None:
    work = work_of(reasons)
    row = {"jobs": work.jobs, "jobs_never_ran": work.never_ran, **work.row()}
    assert WorkDone.of_row(row) == work
    assert work.whole == all(why is Reason.NONE or why in REJECTED for why in reasons)
    assert bool(work.text) == any(reasons)


@pytest.mark.parametrize("why", [r for r in Reason if r])
def test_every_reason_has_words_of_its_own(why: Reason) -> None:
    assert REASONS[why]
    assert list(REASONS.values()).count(REASONS[why]) == 1
    assert never_ran_text(28_481, 22_016, f"{REASONS[why]}: 22,016") == (
        f"22,016 of 28,481 jobs never ran ({REASONS[why]})"
    )
