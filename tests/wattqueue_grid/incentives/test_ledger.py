"""The ledger of incentives on SQLite, a real PostgreSQL and a real MariaDB: sums, repetition, kill -9 midway."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from wattqueue.errors import InputError
from wattqueue_grid.incentives.ledger import IncentiveLedger, RewardEntry, SettledEvent, UserTotal


@pytest.fixture
def ledger(url: str) -> Iterator[IncentiveLedger]:
    found = IncentiveLedger.open(url)
    yield found
    found.engine.dispose()


def event(name: str = "event-1", currency: str = "EUR") -> SettledEvent:
    return SettledEvent(name, 1_000, 2_000, "model", "0" * 64, currency, "counterfactual")


def entry(job: str, user: str, reward: int = 1, fee: int = 10) -> RewardEntry:
    return RewardEntry(job, user, 60, 30, 5, 7, fee, reward)


def test_an_event_is_settled_once_and_summed_by_user(ledger: IncentiveLedger) -> None:
    rows = [entry("1", "ada", 3), entry("2", "bob", 4), entry("3", "ada", 5)]
    assert ledger.settle(event(), rows)
    assert ledger.settle(event("event-2", "CHF"), [entry("1", "ada", 2)])
    assert ledger.totals() == [
        UserTotal("ada", "CHF", 1, 10, 2), UserTotal("ada", "EUR", 2, 20, 8), UserTotal("bob", "EUR", 1, 10, 4),
    ]  # fmt: skip
    assert [(e.event_id, e.jobs, e.reward) for e in ledger.events()] == [("event-1", 3, 12), ("event-2", 1, 2)]
    assert [(e.event_id, r.job_id) for e, r in ledger.entries("ada")] == [
        ("event-1", "1"), ("event-1", "3"), ("event-2", "1"),
    ]  # fmt: skip
    assert len(ledger.entries()) == 4


def test_settling_again_changes_nothing_and_settling_otherwise_is_refused(ledger: IncentiveLedger) -> None:
    rows = [entry("1", "ada"), entry("2", "bob")]
    assert ledger.settle(event(), rows)
    assert not ledger.settle(event(), reversed(rows))
    with pytest.raises(InputError) as error:
        ledger.settle(event(), [entry("1", "ada", 2), entry("2", "bob")])
    assert error.value.where == "event event-1"
    assert [total.reward for total in ledger.totals()] == [1, 1]


@pytest.mark.parametrize(
    "rows", [[entry("1", "ada"), entry("1", "bob")], [entry("1", "ada", -1)], [entry("1", "ada", 11, 10)]]
)
def test_entries_that_no_settlement_can_have_are_refused(tmp_path: Path, rows: list[RewardEntry]) -> None:
    ledger = IncentiveLedger.open(tmp_path / "ledger.db")
    with pytest.raises(InputError):
        ledger.settle(event(), rows)
    assert ledger.events() == []
    ledger.engine.dispose()


def test_amounts_beyond_32_bits_are_kept(ledger: IncentiveLedger) -> None:
    large = 5_000_000_000_000
    ledger.settle(event(), [entry("1", "ada", large, large), entry("2", "ada", large, large)])
    assert ledger.totals() == [UserTotal("ada", "EUR", 2, 2 * large, 2 * large)]


def test_names_that_differ_by_case_or_a_trailing_space_are_two(ledger: IncentiveLedger) -> None:
    """As users of a Linux system are; a server that compares texts without regard to these would add them up."""
    rows = [
        entry("1", "ada"),
        entry("2", "Ada"),
        entry("a", "ada "),
        entry("A", "\N{LATIN SMALL LETTER A WITH ACUTE}da"),
    ]
    assert ledger.settle(event(), rows)
    assert ledger.settle(event("Event-1"), rows)
    assert sorted((total.user_name, total.jobs) for total in ledger.totals()) == sorted((r.user_name, 2) for r in rows)
    assert [r.job_id for _, r in ledger.entries("ada")] == ["1", "1"]


def test_two_that_settle_one_event_at_once_settle_it_once(url: str) -> None:
    IncentiveLedger.open(url).engine.dispose()
    done: list[bool] = []

    def settle() -> None:
        mine = IncentiveLedger.open(url)
        done.append(mine.settle(event(), [entry(str(i), "ada") for i in range(2_500)]))
        mine.engine.dispose()

    threads = [threading.Thread(target=settle) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, True]
    ledger = IncentiveLedger.open(url)
    assert [total.jobs for total in ledger.totals()] == [2_500]
    ledger.engine.dispose()


KILLED = """
import sys, time
from sqlalchemy import event as hooks
from wattqueue_grid.incentives.ledger import IncentiveLedger, RewardEntry, SettledEvent

ledger = IncentiveLedger.open(sys.argv[1])
seen = []

@hooks.listens_for(ledger.engine, "after_cursor_execute")
def after(connection, cursor, statement, *rest):
    seen.append(statement)
    if sum("incentive_entry" in s and s.startswith("INSERT") for s in seen) == 2:
        print("midway", flush=True)
        time.sleep(60)

rows = [RewardEntry(str(i), "ada", 1, 1, 1, 1, 10, 1) for i in range(2_500)]
ledger.settle(SettledEvent("event-1", 1_000, 2_000, "model", "0" * 64, "EUR", "counterfactual"), rows)
"""


def test_a_process_killed_midway_leaves_nothing_and_the_repetition_settles_all(url: str) -> None:
    IncentiveLedger.open(url).engine.dispose()
    process = subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "midway"  # 2,000 of 2,500 entries are inserted
    process.send_signal(signal.SIGKILL)
    process.wait(180)
    process.stdout.close()
    ledger = IncentiveLedger.open(url)
    assert ledger.events() == []
    assert ledger.entries() == []
    rows = [RewardEntry(str(i), "ada", 1, 1, 1, 1, 10, 1) for i in range(2_500)]
    deadline = time.monotonic() + 180
    while True:  # a server notices a lost client after a moment, and until then the row is locked
        try:
            assert ledger.settle(event(), rows)
            break
        except SQLAlchemyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    assert [(total.jobs, total.reward) for total in ledger.totals()] == [(2_500, 2_500)]
    ledger.engine.dispose()
