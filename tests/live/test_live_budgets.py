"""Budgets of a live controller: what they bar and let through, and books that outlive the controller."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from tests.live.drive import lab_machine
from tests.live.fakeslurm import FakeJob, FakeSlurm
from tests.live.slurmlab import wait_for
from tests.live.test_job_energy import Accounting, Meters, lab, make, recorded, rounds
from tests.live.test_live_targets import Stated
from wattqueue.errors import InputError
from wattqueue.live.consent_tags import CONSENT, SiteDefaults
from wattqueue.live.controller import Controller
from wattqueue.live.features.budgets import AWAITED_S, LATE_S, LiveBudgets
from wattqueue.live.features.budgets_shown import forecast
from wattqueue.live.features.job_energy import EnergyRecorder
from wattqueue.live.features.learning import FORGET_S
from wattqueue.live.files.energy_records import BUDGETS, EnergyFolder
from wattqueue.live.reports.why import read_why, sentence
from wattqueue.live.shared_nodes import SharedNodes
from wattqueue.model.budget_books import BudgetBooks, JobDemand, Owner
from wattqueue.model.budgets import MJ_PER_KWH, Budget
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import Machine, Partition
from wattqueue.policy.policy import load_policy

MOST_W = 300.0


def file(folder: Path, kwh: float, *, name: str = "all", period: str = "day", more: str = "") -> Path:
    path = folder / "budgets.toml"
    path.write_text(
        f'[[budgets]]\nname = "{name}"\namount = {kwh}\nperiod = "{period}"\nbegin = "1970-01-01"\n'
        f'end = "1970-06-01"\n{more}'
    )
    return path


def of(controller: Controller) -> LiveBudgets:
    return next(one.keeps for one in controller.extensions if isinstance(one.keeps, LiveBudgets))


def start(slurm: FakeSlurm, folder: Path, **more: Any) -> Controller:
    energies = EnergyRecorder(EnergyFolder(folder / "energy"), accounting=more.pop("accounting", None))
    return make(slurm, folder, energies, budgets=folder / "budgets.toml", **more)


def most_kwh(nodes: int, limit_s: float) -> float:
    return nodes * MOST_W * (limit_s + LATE_S) / 3.6e6


def conserved(books: LiveBudgets) -> None:
    """Set aside and used are what is booked, and what is stored is what is known."""
    for book in books.books.books:
        periods = {*book.total, *book.used, *(p for held in book.held.values() for p in held)}
        for period in periods:
            aside = sum(held.get(period, 0) for held in book.held.values())
            assert book.booked(period) == aside + book.used.get(period, 0)
            assert aside >= 0


def test_a_job_over_the_budget_waits_and_says_why_and_others_start(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 1.5 * most_kwh(1, 600.0), more='account = "phys"\n')
    controller = start(slurm, tmp_path)
    first, second = (slurm.submit(1, 300.0, watts=200, limit_s=600.0, partition="p1", account="phys") for _ in "ab")
    other = slurm.submit(1, 300.0, watts=200, limit_s=600.0, partition="p1", account="chem")
    rounds(controller, slurm, 20.0)
    assert (first.state, second.state, other.state) == ("RUNNING", "PENDING", "RUNNING")
    ((name, record),) = read_why(tmp_path / "run", second.name)
    assert sentence(name, record).startswith(
        f"job {name}: kept from starting now: budget all has no room for it before"
    )
    assert of(controller).books.barred[f"{second.name}@{second.submit_s:.0f}"].until_s == 12 * 86_400.0


def test_what_a_job_leaves_lets_the_next_one_start(tmp_path: Path) -> None:
    """The liveness twin: after the end the measured energy replaces what was set aside."""
    slurm = lab()
    file(tmp_path, 1.5 * most_kwh(1, 600.0))
    controller = start(slurm, tmp_path, sources=(Meters(slurm, lambda _: 170.0),))
    first, second = (slurm.submit(1, 100.0, watts=200, limit_s=600.0, partition="p1") for _ in "ab")
    rounds(controller, slurm, 180.0)
    assert first.state == "COMPLETED"
    assert second.state == "RUNNING"
    books = of(controller)
    conserved(books)
    (record,) = recorded(tmp_path)
    (used,) = books.books.books[0].used.values()
    assert used == pytest.approx(record.energy_j * 1e3, abs=2)


def test_a_job_without_a_budget_left_runs_in_spare_hours_and_books_survive(tmp_path: Path) -> None:
    """12 January 1970 was a Monday; what is used beyond the budget is counted apart, also after a restart."""
    slurm = lab(now_s=86_400.0 * 11 + 20 * 3600.0 - 500.0)
    path = file(tmp_path, 1.5 * most_kwh(1, 600.0), period="month", more='over = "spare-hours"\n')
    path.write_text('spare_hours = ["20:00-06:00"]\n' + path.read_text())
    meters = (Meters(slurm, lambda _: 170.0),)
    controller = start(slurm, tmp_path, sources=meters)
    first, second, long = (
        slurm.submit(1, run_s, watts=200, limit_s=limit_s, partition="p1")
        for run_s, limit_s in ((3_000.0, 600.0), (300.0, 600.0), (60.0, 36_000.0))
    )
    rounds(controller, slurm, 400.0, 20.0)
    assert (first.state, second.state) == ("RUNNING", "PENDING")
    ((_, record),) = read_why(tmp_path / "run", second.name)
    assert "budget all has no room for it before 1970-01-12 20:00" in sentence("x", record)
    rounds(controller, slurm, 150.0, 20.0)
    assert second.state == "RUNNING"
    controller = start(slurm, tmp_path, sources=meters)
    rounds(controller, slurm, 4_000.0, 20.0)
    assert second.state == "COMPLETED"
    assert long.state == "PENDING", "ten hours do not fit into the night"
    books = of(start(slurm, tmp_path, sources=meters))
    conserved(books)
    (book,) = books.books.books
    by_job = {one.job: one.energy_j * 1e3 for one in recorded(tmp_path)}
    assert sum(book.beyond.values()) == pytest.approx(by_job[second.name], abs=2)
    assert sum(book.used.values()) == pytest.approx(by_job[first.name], abs=2)
    assert book.idle_share(86_400.0 * 11, slurm.now_s) > 0.0


def test_a_project_is_the_wckey_and_an_unknown_account_is_named(tmp_path: Path) -> None:
    slurm = lab()
    file(
        tmp_path,
        1.5 * most_kwh(1, 600.0),
        more='project = "climate"\n[[budgets]]\nname = "fys"\namount = 1\naccount = "physic"\n',
    )
    energies = EnergyRecorder(EnergyFolder(tmp_path / "energy"), managers=lambda: {"physics": [], "all": []})
    controller = make(slurm, tmp_path, energies, budgets=tmp_path / "budgets.toml")
    jobs = [
        slurm.submit(1, 300.0, watts=200, limit_s=600.0, partition="p1", project=name)
        for name in ("climate", "climate", "x")
    ]
    rounds(controller, slurm, 20.0)
    assert [job.state for job in jobs] == ["RUNNING", "PENDING", "RUNNING"]
    wait_for("its accounts", lambda: bool(energies.accounts))
    assert list(of(controller).lines()) == ["budget fys: Slurm has no account 'physic'; did you mean physics?"]


def test_a_user_whom_the_host_does_not_know_is_named(tmp_path: Path) -> None:
    file(tmp_path, 1.0, more='user = "nobody-of-that-name"\n')
    assert list(of(start(lab(), tmp_path)).lines()) == ["budget all: this host has no user 'nobody-of-that-name'"]


def test_a_period_that_begins_lets_jobs_through(tmp_path: Path) -> None:
    slurm = lab(now_s=86_400.0 * 20 - 300.0)
    file(tmp_path, 1.5 * most_kwh(1, 600.0))
    controller = start(slurm, tmp_path)
    slurm.submit(1, 550.0, watts=200, limit_s=600.0, partition="p1")
    late = slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 60.0)
    assert late.state == "PENDING"
    rounds(controller, slurm, 2_000.0, 20.0)
    assert late.start_s >= 86_400.0 * 20


def test_a_job_that_fits_no_period_says_so(tmp_path: Path) -> None:
    slurm = lab()
    path = file(tmp_path, 0.5 * most_kwh(1, 600.0))
    path.write_text(path.read_text().replace('end = "1970-06-01"', ""))
    controller = start(slurm, tmp_path)
    job = slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 10.0)
    ((name, record),) = read_why(tmp_path / "run", job.name)
    assert "more than any period has" in sentence(name, record)


def test_books_outlive_the_controller(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 2.5 * most_kwh(1, 600.0))
    meters = (Meters(slurm, lambda _: 170.0),)
    controller = start(slurm, tmp_path, sources=meters)
    jobs = [slurm.submit(1, run_s, watts=200, limit_s=600.0, partition="p1") for run_s in (60.0, 500.0, 500.0)]
    rounds(controller, slurm, 150.0)
    assert [job.state for job in jobs] == ["COMPLETED", "RUNNING", "RUNNING"]
    before = of(controller).books.books[0]
    again = of(start(slurm, tmp_path, sources=meters)).books.books[0]
    assert (again.used, again.held, again.total) == (before.used, before.held, before.total)


def test_a_job_that_ended_meanwhile_used_what_the_accounting_says(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 10.0)
    controller = start(slurm, tmp_path, accounting=Accounting(slurm))
    job = slurm.submit(1, 100.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 20.0)
    slurm.step(200.0)
    assert job.state == "COMPLETED"
    controller = start(slurm, tmp_path, accounting=Accounting(slurm))
    rounds(controller, slurm, 200.0)
    book = of(controller).books.books[0]
    assert book.held == {}
    assert sum(book.used.values()) == pytest.approx(150e3 * (job.end_s - job.start_s), rel=1e-9)


@pytest.mark.parametrize("asks", [False, True])
def test_a_job_that_is_too_short_to_be_measured_is_booked_soon(tmp_path: Path, *, asks: bool) -> None:
    """It kept what was set aside for two hours: it began and ended between two looks, and no record of it comes."""
    slurm = lab()
    file(tmp_path, 1.5 * most_kwh(1, 600.0))
    more: dict[str, Any] = {"accounting": Accounting(lab())} if asks else {}
    controller = start(slurm, tmp_path, **more)
    rounds(controller, slurm, FORGET_S + 60.0 if asks else 60.0, 30.0)
    job = slurm.submit(1, 0.5, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 8.0, 1.0)
    assert job.state == "COMPLETED"
    rounds(controller, slurm, AWAITED_S + 30.0, 5.0)
    book = of(controller).books.books[0]
    conserved(of(controller))
    assert book.held == {}
    assert 0.0 < sum(book.used.values()) <= 30.0 * MOST_W * 1e3


@pytest.mark.parametrize("asks", [False, True])
def test_a_job_that_nobody_measured_used_the_most(tmp_path: Path, *, asks: bool) -> None:
    slurm = lab()
    file(tmp_path, 10.0)
    more: dict[str, Any] = {"accounting": Accounting(lab())} if asks else {}
    controller = start(slurm, tmp_path, **more)
    job = slurm.submit(1, 100.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 20.0)
    slurm.step(5_000.0)
    controller = start(slurm, tmp_path, **more)
    rounds(controller, slurm, AWAITED_S + 10.0, 10.0)
    assert bool(of(controller).books.books[0].held) == asks
    rounds(controller, slurm, FORGET_S if asks else 0.0, 60.0)
    book = of(controller).books.books[0]
    assert book.held == {}
    assert sum(book.used.values()) == round(MOST_W * 1e3 * (600.0 + LATE_S))
    assert job.state == "COMPLETED"


def test_a_file_that_cannot_be_used_leaves_the_budgets_before(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 0.5 * most_kwh(1, 600.0))
    controller = start(slurm, tmp_path)
    job = slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 10.0)
    (tmp_path / "budgets.toml").write_text("[[budgets]]\namount = -1\n")
    rounds(controller, slurm, 10.0)
    assert job.state == "PENDING"
    assert any("budgets.toml" in line for line in of(controller).lines())
    file(tmp_path, 5.0 * most_kwh(1, 600.0))
    rounds(controller, slurm, 10.0)
    assert job.state == "RUNNING"
    assert list(of(controller).lines()) == []


def test_a_file_that_cannot_be_used_at_the_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "budgets.toml").write_text("[[budgets]]\namount = -1\n")
    with pytest.raises(InputError, match="name"):
        start(lab(), tmp_path)


def test_nothing_is_released_while_the_books_cannot_be_stored(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 10.0)
    controller = start(slurm, tmp_path)
    rounds(controller, slurm, 4.0)
    broken = [True]
    break_books(controller, lambda: broken[0])
    job = slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 10.0)
    assert job.state == "PENDING"
    broken[0] = False
    rounds(controller, slurm, 10.0)
    assert job.state == "RUNNING"


def break_books(controller: Controller, broken: Any) -> None:
    """Let the database refuse rows of budgets."""

    def refuse(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "live_budgets" in statement and not statement.startswith("SELECT") and broken():
            raise OperationalError(statement, {}, Exception("disk full"))

    event.listen(controller.planner.memory.engine, "before_cursor_execute", refuse)


def test_who_sees_which_budget(tmp_path: Path) -> None:
    slurm = lab()
    file(tmp_path, 10.0, more='account = "phys"\n[[budgets]]\nname = "centre"\namount = 20\n')
    controller = start(slurm, tmp_path)
    slurm.submit(1, 1_000.0, watts=200, limit_s=600.0, partition="p1", account="phys", uid=1001)
    slurm.submit(1, 1_000.0, watts=200, limit_s=600.0, partition="p1", account="chem", uid=1002)
    rounds(controller, slurm, 60.0)
    names = {}
    for uid in (1001, 1002):
        path = tmp_path / "energy/users" / str(uid) / "jobs" / BUDGETS
        names[uid] = [one["name"] for one in json.loads(path.read_text())["budgets"]]
    assert names == {1001: ["all", "centre"], 1002: ["centre"]}
    assert (tmp_path / "energy" / BUDGETS).stat().st_mode & 0o777 == 0o600


def test_a_forecast_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        days = np.round(rng.gamma(20.0, 5e4, 40)).astype(int).tolist()
        found = forecast(dict(enumerate(days[:28])), sum(days[18:28]), 28 * 86_400.0, 38 * 86_400.0)
        assert found is not None
        inside += found[0] <= sum(days[18:38]) <= found[2]
    assert 0.74 <= inside / 400 <= 0.86
    assert forecast({1: 5, 2: 5}, 10, 2 * 86_400.0, 9 * 86_400.0) is None, "two days say nothing"
    assert forecast({}, 0, 2 * 86_400.0, math.inf) is None


class KilledError(BaseException):
    """The controller is killed."""


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31))
def test_nothing_is_lost_or_booked_twice_whatever_fails(seed: int) -> None:
    check_faults(seed)


@pytest.mark.slow
def test_nothing_is_lost_or_booked_twice_at_full_length() -> None:
    for seed in range(1_000):
        check_faults(seed)


def check_faults(seed: int) -> None:
    """Random jobs, kills and a database that fails: no period is exceeded, each job is booked once, all run."""
    import tempfile

    rng = np.random.default_rng((seed, 36))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slurm = lab(now_s=86_400.0 * 20 - float(rng.integers(0, 3_000)))
        file(folder, float(rng.uniform(2.0, 6.0)) * most_kwh(2, 900.0))
        meters = (Meters(slurm, lambda _: 250.0),)
        state = {"kill": 0.0, "broken": 0.0}

        def boundary(_what: str) -> None:
            if rng.random() < state["kill"]:
                raise KilledError

        def begin() -> Controller:
            made = start(slurm, folder, sources=meters, boundary=boundary)
            break_books(made, lambda: rng.random() < state["broken"])
            return made

        controller, jobs = begin(), list[FakeJob]()
        for step in range(80):
            faulty = step < 50
            state |= {"kill": 0.05 * faulty, "broken": 0.2 * faulty}
            if faulty and rng.random() < 0.15:
                limit_s = float(rng.choice([300.0, 900.0]))
                run_s = float(rng.uniform(20.0, limit_s))
                nodes = int(rng.integers(1, 3))
                jobs.append(slurm.submit(nodes, run_s, watts=200 * nodes, limit_s=limit_s, partition="p1"))
            try:
                controller.round()
            except KilledError:
                controller = begin()
            if faulty and rng.random() < 0.05:
                controller = begin()
            conserved(of(controller))
            slurm.step(20.0)
        for _ in range(400):
            controller.round()
            slurm.step(60.0 if any(job.state == "RUNNING" for job in jobs) else 600.0)
            if all(job.state == "COMPLETED" for job in jobs) and not of(controller).held:
                break
        books = of(controller)
        book = books.books.books[0]
        assert all(job.state == "COMPLETED" for job in jobs), (seed, [job.state for job in jobs])
        assert books.held == {}, seed
        assert book.held == {}, seed
        true: dict[int, int] = {}
        for job in jobs:
            for period, amount in book.budget.used(250.0 * job.nodes, job.start_s, job.end_s).items():
                true[period] = true.get(period, 0) + amount
        for period, amount in true.items():
            assert amount <= book.budget.amount, (seed, period)
            assert amount * 0.9 <= book.used[period] <= book.budget.amount, (seed, period, amount, book.used)
        stored = of(begin()).books.books[0]
        assert stored.used == book.used, seed


def test_a_long_queue_costs_little_and_keeps_its_budget() -> None:
    """Of most jobs it is only found whether they fit now; none of them is let through beyond the budget."""
    rng = np.random.default_rng(5)
    one = Budget("b", frozenset(), 40 * MJ_PER_KWH, "kWh", np.asarray(np.arange(100) * 30 * 86_400.0, float))
    books, exact = BudgetBooks([one], 600.0, exact=(20, 100)), BudgetBooks([one], 600.0)
    jobs = {
        str(k): JobDemand("ann", "", 300.0 * float(rng.integers(1, 5)), float(rng.integers(600, 36_000)))
        for k in range(300)
    }
    through = []
    for found in (books, exact):
        found.let_through(0.0, jobs)
        through.append([name for name in jobs if name not in found.barred])
        booked = sum(found.books[0].budget.most(jobs[n].watts, jobs[n].span_s, 0.0, 600.0)[0] for n in through[-1])
        assert booked <= one.amount
    assert len(through[0]) >= len(through[1]), "small jobs behind go by as they would"
    many = {str(k): JobDemand("ann", "", 900.0, 36_000.0 + k) for k in range(10_000)}
    books.let_through(0.0, many)
    assert len(books.barred) > 9_000
    assert all(one.until_s > 0.0 for one in books.barred.values())


class EachJob(BudgetBooks):
    """Looks at each job by itself: what asks for nothing has room everywhere."""

    def _least_of(self, waiting: Mapping[str, JobDemand]) -> dict[Owner, JobDemand]:
        return {(one.user, one.account, one.project): one._replace(watts=0.0) for one in waiting.values()}


def test_jobs_that_are_barred_together_are_those_that_are_barred_one_by_one() -> None:
    """Where there is no room for the least watts and seconds of an owner's jobs, none of them is looked at."""
    rng, edges = np.random.default_rng(8), np.asarray(np.arange(40) * 86_400.0, float)
    budgets = [
        Budget(user or "all", frozenset({user} - {""}), round(kwh * MJ_PER_KWH), "kWh", edges)
        for user, kwh in (("", 12.0), ("ann", 4.0), ("bob", 3.0))
    ]
    both = BudgetBooks(budgets, 600.0, (3, 6)), EachJob(budgets, 600.0, (3, 6))
    waiting, running, now_s, together = dict[str, JobDemand](), dict[str, tuple[JobDemand, float]](), 0.0, 0
    for step in range(100):
        now_s += float(rng.choice([5.0, 600.0, 20_000.0]))
        for k in range(3):
            user, watts = str(rng.choice(["ann", "bob", "eve"])), 100.0 * float(rng.integers(1, 6))
            waiting = waiting | {f"{step}.{k}": JobDemand(user, "", watts, 600.0 * float(rng.integers(1, 40)))}
        changed = [books.let_through(now_s, waiting) for books in both]
        assert changed[0] == changed[1]
        assert both[0].barred == both[1].barred
        together += len(both[0].barred) - len({id(one) for one in both[0].barred.values()})
        for name in [name for name in waiting if name not in both[0].barred][:2]:
            running[name] = waiting[name], now_s
            waiting = {other: job for other, job in waiting.items() if other != name}
            for books in both:
                books.begin(name, *running[name])
        if len(running) > 3:
            name, (job, start_s) = next(iter(running.items()))
            del running[name]
            for books in both:
                books.end(name, job, start_s, min(now_s, start_s + job.span_s), 0.5 * job.watts)
    assert together > 300


class Counting(BudgetBooks):
    """Counts how often the books are asked for room."""

    asked = 0

    def _asks(self, *given: Any) -> Any:
        self.asked += 1
        return super()._asks(*given)


def test_a_small_job_that_has_room_does_not_have_each_of_the_others_looked_at() -> None:
    """Room for the least of a long queue is found out once, and again where one of its jobs was let through."""
    edges = np.asarray(np.arange(40) * 86_400.0, float)
    books = Counting([Budget("all", frozenset(), 5 * MJ_PER_KWH // 2, "kWh", edges)], 600.0, (3, 6))
    waiting = {f"{k}": JobDemand("ann", "", 1_000.0, 3_600.0 + k % 7) for k in range(2_000)}
    waiting["small"] = JobDemand("ann", "", 1.0, 60.0)
    for _ in range(2):
        books.asked = 0
        books.freed.add(0)
        books.let_through(0.0, waiting)
        assert "small" not in books.barred
        assert len(books.barred) > 1_990
        assert books.asked < 100


def test_amounts_of_any_size_are_stored(tmp_path: Path) -> None:
    slurm = lab()
    path = file(tmp_path, 1e12)
    path.write_text(path.read_text().replace('name = "all"', 'name = "Übung \\"x\\""'))
    controller = start(slurm, tmp_path)
    slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 20.0)
    again = of(start(slurm, tmp_path)).books.books[0]
    assert again.budget.amount == round(1e12 * MJ_PER_KWH)
    assert again.held == of(controller).books.books[0].held != {}


@pytest.mark.parametrize(("unit", "prices"), [("EUR", "price,EUR/MWh"), ("gCO2", "intensity,gCO2/kWh")])
def test_a_budget_of_money_or_carbon_counts_each_hour_at_its_price(tmp_path: Path, unit: str, prices: str) -> None:
    """What may be used counts at the dearest hour of its limit, what was used at those in which it ran."""
    column, price_unit = prices.split(",")
    begin_s = 86_400.0 * 20
    hours = [(begin_s + 3600.0 * k, 100.0 if k % 2 else 50.0) for k in range(-24 * 2, 24 * 14)]
    text = "".join(f"{at_s:.0f},{price}\n" for at_s, price in hours)
    (tmp_path / "prices.csv").write_text(f"time_s,{column}\n{text}")
    slurm = lab(now_s=begin_s + 600.0)
    per_j = 1.0 / (3.6e9 if unit == "EUR" else 3.6e6)
    most = MOST_W * (600.0 + LATE_S) * 50.0 * per_j
    more = f'unit = "{unit}"\nprices = "prices.csv"\nprice_unit = "{price_unit}"\n'
    path = file(tmp_path, 1.5 * most, more=more)
    path.write_text(path.read_text().replace("1970-01-01", "1970-01-20").replace("1970-06-01", "1970-02-01"))
    controller = start(slurm, tmp_path, sources=(Meters(slurm, lambda _: 170.0),))
    first, second = (slurm.submit(1, 120.0, watts=200, limit_s=600.0, partition="p1") for _ in "ab")
    rounds(controller, slurm, 60.0)
    assert (first.state, second.state) == ("RUNNING", "PENDING")
    (book,) = of(controller).books.books
    assert book.booked(1) == math.ceil(most * 1e6)
    rounds(controller, slurm, 400.0)
    assert second.state == "COMPLETED"
    energy_j = sum(one.energy_j for one in recorded(tmp_path))
    assert book.used[1] == pytest.approx(energy_j * 50.0 * per_j * 1e6, abs=3)
    slurm.now_s = begin_s + 3_000.0
    late = slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 60.0)
    assert late.state == "PENDING", "its limit reaches into an hour at twice the price"


MEETINGS: dict[str, dict[str, Any]] = {
    "meters": {},
    "no telemetry": {"sources": ()},
    "a meter that stands still": {"sources": 0.0},
    "a meter that shows ten times the maximum": {"sources": 3_000.0},
    "in-flight": {"policy": "easy", "ledger": "in-flight"},
    "partitions": {"partition": "p1,p2"},
    "a full machine": {"others": 6},
    "an empty machine": {"down": True},
    "requeued": {"requeue": True},
}


@pytest.mark.parametrize("case", MEETINGS)
def test_a_budget_beside_its_neighbours(tmp_path: Path, case: str) -> None:
    """No period has more than its budget, everything is settled, and every job runs in the end."""
    given = MEETINGS[case]
    slurm = lab(now_s=86_400.0 * 20 - 2_000.0, requeue_delay_s=120.0)
    file(tmp_path, 2.2 * most_kwh(2, 900.0), more='account = "phys"\n')
    watts = given.get("sources", 250.0)
    meters = watts if isinstance(watts, tuple) else (Meters(slurm, lambda _: watts or 250.0, still=watts == 0.0),)
    more: dict[str, Any] = {}
    if "policy" in given:
        more["policy"] = load_policy(given["policy"], ledger=given["ledger"])
    controller = start(slurm, tmp_path, sources=meters, **more)
    if given.get("down"):
        slurm.down |= {name for names in slurm.partitions.values() for name in names}
    for _ in range(given.get("others", 0)):
        slurm.submit(1, 1_000.0, watts=200, limit_s=1_200.0, partition="p1", account="chem")
    where = given.get("partition", "p1")
    jobs = [slurm.submit(2, 300.0, watts=400, limit_s=900.0, partition=where, account="phys") for _ in range(5)]
    books = of(controller)
    for step in range(400):
        controller.round()
        conserved(books)
        for book in books.books.books:
            for period, booked in book.total.items():
                assert booked <= book.budget.limit(period), (case, step, period)
        if step == 12:
            slurm.down.clear()
        if step == 8 and given.get("requeue"):
            for job in slurm.running():
                slurm.requeue(job)
        slurm.step(20.0 if step < 150 else 600.0)
        if all(job.state == "COMPLETED" for job in jobs) and not books.held:
            break
    assert [job.state for job in jobs] == ["COMPLETED"] * 5
    assert books.held == {}
    (book,) = books.books.books
    assert sum(book.used.values()) >= 5 * 2 * 100.0 * 1e3 * 300.0 * 0.5


@pytest.mark.parametrize("throttle", [0, 2])
def test_each_task_of_an_array_has_a_booking_of_its_own(tmp_path: Path, throttle: int) -> None:
    """Of 40 tasks the budget has room for three at once; what each leaves lets the next ones start, to the last one."""
    slurm = lab(now_s=86_400.0 * 20)
    file(tmp_path, 3.5 * most_kwh(1, 600.0), period="month")
    controller = start(slurm, tmp_path, sources=(Meters(slurm, lambda _: 120.0),))
    tasks = slurm.submit_array(40, 1, 20.0, watts=200, limit_s=600.0, partition="p1", throttle=throttle)
    rounds(controller, slurm, 8.0)
    books = of(controller)
    most = throttle or 3
    assert [job.name for job in slurm.running()] == [f"{tasks[0].id}_{k}" for k in range(most)]
    assert sorted(books.held) == [f"{job.name}@{job.submit_s:.0f}" for job in tasks[:most]]
    assert len(books.books.barred) == (37 if throttle == 0 else 0), "the others wait for their array"
    again = start(slurm, tmp_path, sources=(Meters(slurm, lambda _: 120.0),))
    for _ in range(120):
        rounds(again, slurm, 20.0, 10.0)
        conserved(of(again))
        (book,) = of(again).books.books
        assert all(booked <= book.budget.amount for booked in book.total.values())
        if all(job.state == "COMPLETED" for job in tasks) and not of(again).held:
            break
    assert {job.state for job in tasks} == {"COMPLETED"}
    assert len(recorded(tmp_path)) == 40
    assert sum(book.used.values()) == pytest.approx(1e3 * sum(one.energy_j for one in recorded(tmp_path)), abs=40)


@pytest.mark.parametrize("over", ["wait", "spare-hours"])
def test_a_job_of_several_components_waits_as_one(tmp_path: Path, over: str) -> None:
    """Slurm alone schedules it, and users got around their budgets by it; one component has room, two have not."""
    slurm = lab(now_s=86_400.0 * 11 + 19 * 3_600.0)
    path = file(tmp_path, 2.5 * most_kwh(1, 600.0), period="month", more=f'account = "phys"\nover = "{over}"\n')
    path.write_text('spare_hours = ["20:00-06:00"]\n' + path.read_text())
    meters = (Meters(slurm, lambda _: 200.0),)
    controller = start(slurm, tmp_path, sources=meters)
    given: dict[str, Any] = {"watts": 200, "limit_s": 600.0, "account": "phys"}
    first = slurm.submit(1, 400.0, partition="p1", **given)
    whole = slurm.submit_whole(["p1", "p2"], 100.0, **given)
    rounds(controller, slurm, 20.0)
    assert [job.state for job in (first, *whole)] == ["RUNNING", "PENDING", "PENDING"]
    assert [job.priority for job in whole] == [0, 0], "it is held"
    for name, record in read_why(tmp_path / "run", whole[0].whole):
        assert "budget all has no room for it before" in sentence(name, record)
    small = slurm.submit(1, 60.0, partition="p1", **(given | {"limit_s": 60.0}))
    rounds(controller, slurm, 20.0)
    assert small.state == "RUNNING", "what is left has room for it"
    other = slurm.submit_whole(["p1", "p2"], 100.0, **(given | {"account": "chem"}))
    rounds(controller, slurm, 200.0)
    assert {job.state for job in other} <= {"RUNNING", "COMPLETED"}, "a job of no budget"
    books = of(controller)
    if over == "wait":
        rounds(controller, slurm, 600.0)
    else:
        slurm.step(3_600.0)
        rounds(controller, slurm, 600.0)
    conserved(books)
    assert {job.state for job in (first, small, *whole)} == {"COMPLETED"}
    assert books.held == {}
    (book,) = books.books.books
    mine = [1e3 * one.energy_j for one in recorded(tmp_path) if one.account == "phys"]
    assert len(mine) == 4
    assert sum(book.used.values()) + sum(book.beyond.values()) == pytest.approx(sum(mine), abs=10)


def test_components_that_slurm_cannot_start_keep_what_is_set_aside_and_are_booked_once(tmp_path: Path) -> None:
    """Its nodes are in use for longer than a start takes; nothing else is booked for it when it was not released."""
    slurm = lab()
    file(tmp_path, 10.0, more='account = "phys"\n')
    controller = start(slurm, tmp_path, sources=(Meters(slurm, lambda _: 200.0),))
    fill = [slurm.submit(1, 9_000.0, watts=200, limit_s=12_000.0, partition="p2", account="chem") for _ in range(4)]
    rounds(controller, slurm, 10.0)
    whole = slurm.submit_whole(["p2", "p2"], 100.0, watts=200, limit_s=600.0, account="phys")
    rounds(controller, slurm, 7_800.0, 60.0)
    books = of(controller)
    (book,) = books.books.books
    assert {job.state for job in fill} == {"RUNNING"}
    assert [job.priority > 0 for job in whole] == [True, True], "released"
    assert len(book.held) == 2
    assert book.used == {}
    for job in whole:  # its user holds it again
        job.priority, job.reason, job.mark = 0, "JobHeldUser", "wattqueue:user-held"
    rounds(controller, slurm, 20.0)
    assert book.held == {}, "it did not start"
    assert sum(book.used.values()) == 0


def test_jobs_on_a_shared_node_are_booked_when_slurm_starts_them_and_settled_by_their_share(tmp_path: Path) -> None:
    """Slurm starts them by itself: they can exceed a budget, and then bar those that the controller starts."""
    slurm = FakeSlurm({"p1": ["n1"], "p2": ["m1"], "s": ["s1"]}, 1600, shared=frozenset({"s"}))
    file(tmp_path, 1.5 * most_kwh(1, 600.0))
    shared, meters = SharedNodes((Partition("s", 1, idle_w=50.0, max_w=150.0),)), Meters(slurm, lambda _: 130.0)
    controller = start(slurm, tmp_path, sources=(meters,), shared_nodes=shared, machine=lab_machine(2))
    large, small = slurm.submit_shared(12, 200.0, "s"), slurm.submit_shared(4, 200.0, "s")
    rounds(controller, slurm, 20.0)
    job = slurm.submit(1, 60.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 20.0)
    books = of(controller)
    conserved(books)
    assert (large.state, small.state, job.state) == ("RUNNING", "RUNNING", "PENDING")
    assert len(books.held) == 2
    rounds(controller, slurm, 400.0)
    assert job.state == "COMPLETED", "they have ended, and used less than they had set aside"
    energy = sum(one.energy_j for one in recorded(tmp_path))
    assert sum(books.books.books[0].used.values()) == pytest.approx(energy * 1e3, abs=5)


def test_parked_jobs_keep_what_is_set_aside_for_them(tmp_path: Path) -> None:
    """A load target parks jobs whose users consent; the budget bars a job meanwhile, and all run in the end."""
    slurm, source = lab(), Stated()
    path = file(tmp_path, 2.2 * most_kwh(2, 300.0))
    meters = (Meters(slurm, lambda _: 250.0),)
    more: dict[str, Any] = {"policy": "dr-parking", "targets": source, "consent": SiteDefaults(), "sources": meters}
    with pytest.raises(InputError, match=r"budget all: .* suspends jobs"):  # a pause has no most
        start(slurm, tmp_path, **more)
    path.write_text(path.read_text() + 'mode = "quantile"\n')
    controller = start(slurm, tmp_path, **more)
    jobs = [slurm.submit(2, 100.0, watts=400, limit_s=300.0, comment=CONSENT, partition="p1") for _ in range(3)]
    rounds(controller, slurm, 20.0)
    assert [job.state for job in jobs] == ["RUNNING", "RUNNING", "PENDING"]
    now_s = slurm.now_s
    source.stated = LoadTargets.of(LoadTarget(now_s, now_s + 100.0, 1_000.0, correlation_id="e", notice_s=np.inf))
    rounds(controller, slurm, 20.0)
    assert any(job.stopped_s >= 0.0 for job in jobs), "parked"
    books = of(controller)
    assert len(books.held) == 2
    assert books.books.books[0].booked(11) <= books.books.books[0].budget.amount, "a limit far ahead is not its own"
    for _ in range(30):
        rounds(controller, slurm, 20.0)
        conserved(books)
    assert sum(books.books.books[0].used.values()) <= books.books.books[0].budget.amount
    assert [job.state for job in jobs] == ["COMPLETED"] * 3
    assert books.held == {}


SLOW_AND_FULL = Machine("lab", lab_machine(8, (2e9, 1e9)).partitions)


@pytest.mark.parametrize("room", [1.5, 2.5])
def test_a_job_at_a_lower_clock_has_its_longer_limit_set_aside_before_it_starts(tmp_path: Path, room: float) -> None:
    """Its limit doubles with its run time: it was let through with the limit of its user, and booked with twice it."""
    slurm = lab()
    file(tmp_path, room * most_kwh(1, 600.0))
    low: dict[str, Any] = {"part": "frequency-window", "lowest_hz": 1e9, "highest_hz": 1e9}
    policy = load_policy("easy", frequency=low)
    meters = (Meters(slurm, lambda _: 300.0),)
    controller = start(slurm, tmp_path, policy=policy, machine=SLOW_AND_FULL, sources=meters)
    job = slurm.submit(1, 1_190.0, watts=50, limit_s=600.0, partition="p1")
    for _ in range(80):
        rounds(controller, slurm, 20.0)
        conserved(of(controller))
        (book,) = of(controller).books.books
        assert all(booked <= book.budget.amount for booked in book.total.values())
    assert job.state == ("COMPLETED" if room > 2.0 else "PENDING"), "liveness where the longer limit fits"
    assert job.limit_s == (1_200.0 if room > 2.0 else 600.0)


@pytest.mark.parametrize("again", [False, True])
def test_periods_that_change_have_running_jobs_set_aside_in_them(tmp_path: Path, again: bool) -> None:
    """A day in place of a month: what a running job may use was on the month's first day, and the day was given out."""
    slurm = lab()
    file(tmp_path, 1.5 * most_kwh(1, 600.0), period="month")
    meters = (Meters(slurm, lambda _: 300.0),)
    controller = start(slurm, tmp_path, sources=meters)
    first = slurm.submit(1, 500.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 20.0)
    assert first.state == "RUNNING"
    file(tmp_path, 1.5 * most_kwh(1, 600.0), period="day")
    if again:
        controller = start(slurm, tmp_path, sources=meters)
    second = slurm.submit(1, 500.0, watts=200, limit_s=600.0, partition="p1")
    rounds(controller, slurm, 60.0)
    conserved(of(controller))
    assert second.state == "PENDING"
    assert {p: a for p, a in of(controller).books.books[0].total.items() if a} == {
        11: round(1e9 * 3.6 * most_kwh(1, 600.0))
    }
