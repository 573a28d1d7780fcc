"""Forecasts of a queue: what they know, rows that are left out, their time, and regret over days."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue_studies.pick.advice import advise, regret
from wattqueue_studies.pick.history import DAY_S, Arrivals, QueueHistory

NONE = Arrivals(np.zeros(0, np.int64), np.zeros(0))


def queue() -> QueueHistory:
    """At 1,000 s job 2 runs on both nodes, 3 (wide, long) and 4 (short) wait; 1 has ended after 100 s."""
    jobs = Jobs.build(
        [0, 10, 20, 30], [1, 2, 2, 2], [100, 5_000, 9_000, 50], walltime_s=[400, 6_000, 9_000, 500],
        user=["a", "b", "c", "a"],
    )  # fmt: skip
    start, end = np.array([0, 200, np.inf, np.inf]), np.array([100, 5_200, np.inf, np.inf])
    return QueueHistory(jobs, plain_machine(2, 0.0, None), Cap.none(), start, end)


def test_a_forecast_knows_limits_and_ended_jobs_only() -> None:
    history = queue()
    known = history.predicted(1_000.0)
    assert known.runtime_s.tolist() == [100, 6_000, 9_000, 100]  # 4 as its user's job 1; the others by their limits
    wait_s = history.forecast(load_policy("fcfs"), 1_000.0, known, history.past(1_000.0), NONE)
    assert wait_s == pytest.approx(((6_200 - 1_000) + (15_200 - 1_000)) / 2, abs=2.0)


def test_jobs_to_come_have_the_waits_of_the_next_day_only() -> None:
    history = queue()
    later = Arrivals(np.array([2]), np.array([DAY_S - 100.0]))
    with_it = history.forecast(load_policy("fcfs"), 1_000.0, history.predicted(1_000.0), history.past(1_000.0), later)
    without = history.forecast(load_policy("fcfs"), 1_000.0, history.predicted(1_000.0), history.past(1_000.0), NONE)
    assert with_it == pytest.approx(without * 2 / 3, abs=1.0)  # nothing runs then: it does not wait


def test_advice_is_the_shortest_and_names_what_is_left_out() -> None:
    found = advise(queue(), 1_000.0, ("fcfs", "easy-sjbf", "pas", "easy+rt-true"), 1)
    assert list(found.wait_s.values()) == sorted(found.wait_s.values())
    assert found.best in {"fcfs", "easy-sjbf"}
    assert {"pas", "easy+rt-true", "conservative"} <= set(found.left_out)
    assert "reads the future" in found.left_out["easy+rt-true"]
    with pytest.raises(InputError, match="no row can be forecast"):
        advise(queue(), 1_000.0, ("easy+rt-true",), 1)


def days(n: int) -> Jobs:
    """Jobs that wait a little each day: a long one first, then short ones."""
    k = np.arange(6 * n)
    submit = k // 6 * DAY_S + k % 6 * 60.0 + 1.0
    return Jobs.build(submit, 1 + k % 2, np.where(k % 6 == 0, 7_200.0, 600.0), user=[f"u{i % 3}" for i in k])


def test_days_in_a_chain_are_the_days_of_one_run_where_nothing_is_left_at_midnight() -> None:
    history = QueueHistory.empty(days(3), plain_machine(2, 0.0, None), Cap.none())
    waits = [history.advance(load_policy("fcfs"), day * DAY_S) for day in range(3)]
    assert waits[0] > 0
    assert waits == pytest.approx([waits[0]] * 3)
    assert np.isfinite(history.end_s).all()


def test_regret_counts_the_days_that_chose_nothing() -> None:
    pytest.importorskip("scipy", reason="intervals need scipy (extra: ml)")
    jobs = days(21)
    found = regret(
        lambda: QueueHistory.empty(jobs, plain_machine(2, 0.0, None), Cap.none()), ("fcfs", "easy"), 14,
        seed=1, gain=0.0,
    )  # fmt: skip
    assert set(found.fixed_s) == {"fcfs", "easy"}
    assert found.fixed_s[found.best] <= found.advised_s + 1e-9
    assert found.beside_best.n == 2
    with pytest.raises(InputError, match="whole days of record"):
        regret(lambda: QueueHistory.empty(jobs, plain_machine(2, 0.0, None), Cap.none()), ("easy",), 35,
               seed=1, gain=0.0)  # fmt: skip


def test_the_verb_advises_from_a_record_with_starts(tmp_path: Path) -> None:
    (tmp_path / "t.swf").write_text(
        "1 0 0 100 2 -1 -1 2 200 -1 1 1 1 1 1 -1 -1 -1\n2 10 90 100 2 -1 -1 2 200 -1 1 1 1 1 1 -1 -1 -1\n"
    )
    done = wattqueue("pick", tmp_path / "t.swf", "--nodes", 2, "--at", 50, "--row", "easy", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["waiting"], found["running"]) == (1, 1)
    assert found["wait_s"]["easy"] == pytest.approx(150.0, abs=2.0)
    late = wattqueue("pick", tmp_path / "t.swf", "--nodes", 2, "--at", 5_000)
    assert "is not in the record" in late.stderr
