"""Entries of an event from two schedules, consent and withdrawals; and the statement that a user gets."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_grid.incentives.test_indexes import WITH, WITHOUT
from wattqueue.errors import InputError
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue_grid.incentives.indexes import BASIS
from wattqueue_grid.incentives.participation import consenting, read_withdrawals
from wattqueue_grid.incentives.rewards import RewardModel, RewardTerm
from wattqueue_grid.incentives.settle import (
    ScheduledJobs,
    consent_in_order,
    entries_of,
    event_of,
    in_order_of,
    withdrawals,
)
from wattqueue_grid.incentives.user_statement import document, sentences
from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of

MODEL = RewardModel(
    "Discount", "EUR", Decimal("0.50"), Decimal(1),
    (RewardTerm("added_wait", "linear", ((Decimal(0), Decimal("0.36")),)),), "f" * 64,
)  # fmt: skip
TARGETS = LoadTargets.of(LoadTarget(300.0, 800.0, 1_000.0, correlation_id="event-1"))
JOBS = Jobs.build(
    [0.0, 0.0, 0.0], [2, 1, 4], [1_000.0, 500.0, 500.0], user=["ada", "bob", "ada"],
    consent=Consent.build(3, allowed=[1, 1, 0]),
)  # fmt: skip


def test_entries_are_of_consenting_jobs_to_which_something_happened() -> None:
    found = entries_of(ScheduledJobs(JOBS, WITH), WITHOUT, TARGETS, MODEL)
    # 600 node-seconds at 0.36 per node-hour are 0.06; the fee of 2,000 node-seconds at 0.50 is 0.277778
    assert [(e.job_id, e.user_name, e.reward, e.fee) for e in found] == [
        ("1", "ada", 60_000, 277_778), ("2", "bob", 0, 69_444),
    ]  # fmt: skip
    event = event_of(TARGETS, MODEL, 1e9, None)
    assert (event.event_id, event.begin_s, event.end_s, event.basis) == ("event-1", 10**9 + 300, 10**9 + 800, BASIS)


def test_a_withdrawal_ends_what_counts_of_a_users_jobs(tmp_path: Path) -> None:
    path = tmp_path / "withdrawn.csv"
    path.write_text("time_s,user,job_id\n350,ada,\n1000,,1\n", encoding="utf-8")
    late = withdrawals(JOBS, read_withdrawals(path), str(path))
    np.testing.assert_array_equal(late, [350.0, np.inf, 350.0])
    found = entries_of(ScheduledJobs(JOBS, WITH), WITHOUT, TARGETS, MODEL, late)
    assert found[0].added_wait == 500
    assert found[0].reward == 50_000


@pytest.mark.parametrize(
    "body", ["time_s,user\n1,ada\n", "time_s,user,job_id\nnow,ada,\n", "time_s,user,job_id\n1,ada,1\n",
             "time_s,user,job_id\n1,,\n", "time_s,user,job_id\n1,ada\n"],
)  # fmt: skip
def test_a_withdrawal_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, body: str) -> None:
    path = tmp_path / "withdrawn.csv"
    path.write_text(body, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_withdrawals(path)
    assert str(error.value.where).startswith(f"{path}:")


def test_a_withdrawal_of_nobody_is_refused() -> None:
    for row in ((1.0, "eve", ""), (1.0, "", "99")):
        with pytest.raises(InputError) as error:
            withdrawals(JOBS, [row], "file")
        assert error.value.where == "file: row 1"


def test_schedules_and_consent_are_matched_by_job_id() -> None:
    order = np.array([2, 0, 1])
    other = JOBS.take(order)
    shuffled = ScheduledJobs(other, in_order_of(other, ScheduledJobs(JOBS, WITHOUT), "x"))
    back = in_order_of(JOBS, shuffled, "run")
    np.testing.assert_array_equal(back.start_s, WITHOUT.start_s)
    plain = replace(JOBS, consent=None)
    assert consenting(consent_in_order(plain, other, "x")).tolist() == [True, True, False]
    assert not consenting(plain).any()
    few = JOBS.take(np.array([0]))
    with pytest.raises(InputError) as error:
        in_order_of(JOBS, ScheduledJobs(few, WITHOUT), "run")
    assert error.value.where == "run"
    with pytest.raises(InputError):
        consent_in_order(plain, few, "jobs.csv")


def test_a_user_reads_what_happened_and_what_it_brought() -> None:
    entries = entries_of(ScheduledJobs(JOBS, WITH), WITHOUT, TARGETS, MODEL)
    event = event_of(TARGETS, MODEL, 1_679_443_200.0, None)
    lines = [(event, entries[0])]
    calendar = SiteCalendar(zone_of("Europe/Berlin", "--time-zone"))
    said = "\n".join(document("ada", lines, calendar).lines(200))
    assert "1 of your jobs was affected by 1 event" in said
    assert "waited 10 min and ran 8 min 20 s longer" in said
    assert "You get 0.06 EUR back: instead of 0.28 EUR you pay 0.22 EUR" in said
    assert "difference to a simulation" in said
    page = document("ada <b>", lines, calendar).html()
    assert "ada &lt;b&gt;" in page
    assert "difference to a simulation" in page
    assert page == document("ada <b>", lines, calendar).html()
    assert sentences([]) == ["None of your jobs was affected by an event, so there is no reward."]
