"""Energy budgets of a controller: bar jobs, set aside, settle by what was measured, with books that outlive it.

The books are rows of the controller's database (``ControllerState.books``): what is set aside for each job, by budget
and begin of the period, and what was used of each period. Everything that a round changes is stored in one
transaction, before any job is released: a controller that is killed at any moment finds books in which each job is
either set aside or used, and nothing twice. A job that ended while no controller was at work has its record
(``live.files.energy_records``) or is awaited for ``AWAITED_S``; without one it used the most that it could.

Who asks (``wattqueue budget``) reads a file of each user, as for records of jobs.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pwd import getpwuid
from typing import Any, NamedTuple

import numpy as np

from wattqueue.errors import WattQueueError
from wattqueue.formats.budgets import read_budgets
from wattqueue.live.cluster import Job
from wattqueue.live.extension import Extension, beside
from wattqueue.live.features.budget_room import BudgetRoom, run_name
from wattqueue.live.features.job_energy import EnergyRecorder
from wattqueue.live.files.energy_records import USERS, EnergyFolder, EnergyRecord, read_records
from wattqueue.live.files.stamp import Stamp, stamp_of
from wattqueue.live.planner import RoundState
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.table import Stage
from wattqueue.live.world import Layout
from wattqueue.model.budget_books import LONGEST_S, BudgetBooks, JobDemand
from wattqueue.model.budgets import Amounts, Book, Budget

AHEAD_S, AGAIN_S = 600.0, 60.0
"""How long after a job was let through it may start, and how often that is decided again where nothing happened."""
EXACT = 20
"""Of so many jobs that wait for the same budgets it is found when they fit."""
LATE_S = 180.0
"""Slurm ends a job so long after its limit at most: it looks every 30 s, and gives KillWait."""
AWAITED_S = 7_200.0
"""So long a job that is gone is awaited in the records."""
SHOWN_S = 30.0
DAY_S = 86_400.0
DAYS = 28
"""Days of which a forecast is made."""
BARRED = "budget "
"""Begin of the reason of a job that a budget bars."""


class SetAside(NamedTuple):
    """A job for which something is set aside."""

    uid: int
    demand: JobDemand
    start_s: float
    """Its start; minus the time of its release while nobody has seen it run."""


@dataclass
class LiveBudgets:
    """The budgets of a file, and their books in the controller's state.

    Raises: InputError for a file that cannot be used at the start; later the budgets before stay in force.
    """

    path: Path
    memory: ControllerState
    folder: EnergyFolder
    awaits: bool = False
    """Whether the accounting may still measure what a record calls modelled."""
    problem: str = ""
    held: dict[str, SetAside] = field(default_factory=dict)
    _ended: dict[str, EnergyRecord] = field(default_factory=dict)
    """Final records of jobs that are not settled yet."""
    _gone_s: dict[str, float] = field(default_factory=dict)
    """Since when held jobs are neither running nor waiting."""
    days: dict[str, dict[int, int]] = field(default_factory=dict)
    """What jobs that ended on each day (since the epoch) used of each budget."""
    _stamp: Stamp = ()
    _decided: tuple[Any, ...] = ()
    _decided_s: float = -math.inf
    _next_s: float = math.inf
    """When the first barred job may be let through."""
    _recovered: bool = False
    _users: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the file, and the books."""
        self._stamp = stamp_of(self.path)
        self._open(read_budgets(self.path, live=True))

    # -- books as rows ------------------------------------------------------------------------------
    def _open(self, budgets: tuple[Budget, ...]) -> None:
        """Take budgets, with what is booked on those of their names."""
        self.books, self.held, self.days = BudgetBooks(budgets, AHEAD_S, EXACT), {}, {}
        of: dict[str, list[Book]] = {}
        for book in self.books.books:
            of.setdefault(book.budget.name, []).append(book)
        for name, state in self.memory.books.items():
            kind, *key = json.loads(name)
            values = json.loads(state)
            if kind == "job":
                uid, user, account, watts, span_s, start_s, amounts = values
                self.held[key[0]] = SetAside(uid, JobDemand(user, account, watts, span_s), start_s)
                for one, its in amounts.items():
                    for book in of.get(one, ()):
                        book.hold(key[0], _by_period(book.budget, its))
            elif kind == "used":
                for book in of.get(key[0], ()):
                    if _owns(book.budget, key[1]):
                        book.settle("", {book.budget.period(key[1]): values})
            elif kind == "days":
                self.days[key[0]] = {int(day): amount for day, amount in values.items()}
            elif kind == "shares":
                self.books.shares[key[0]] = values

    def _note(self, name: str) -> None:
        """Put what is set aside for a job into its row."""
        amounts: dict[str, dict[str, int]] = {}
        for book in self.books.books:
            if held := book.held.get(name):
                amounts.setdefault(book.budget.name, {}).update(_by_begin(book.budget, held))
        one = self.held.get(name)
        row = None if one is None else json.dumps([one.uid, *one.demand, one.start_s, amounts])
        self.memory.book({json.dumps(["job", name]): row})

    def _note_used(self, user: str) -> None:
        """Put what is used into its rows."""
        rows: dict[str, str | None] = {}
        for book in self.books.books:
            for begin, amount in _by_begin(book.budget, book.used).items():
                rows[json.dumps(["used", book.budget.name, float(begin)])] = str(amount)
        rows |= {json.dumps(["days", name]): json.dumps(days) for name, days in self.days.items()}
        quantiles = any(book.budget.mode == "quantile" for book in self.books.books)
        for key in {user, ""} if quantiles else ():
            rows[json.dumps(["shares", key])] = json.dumps(self.books.shares.get(key, []))
        self.memory.book(rows)

    # -- a round ------------------------------------------------------------------------------------
    def look(self, now: RoundState) -> None:
        """Book starts and ends, and bar the jobs for which budgets have no room."""
        self._reread()
        present = {_name(row) for row in now.jobs.rows((*now.running, *now.under_way))}
        for row in now.jobs.rows(now.running):
            self._begin(now, row)
        self._settle(now, present)
        waiting = self._waiting(now)
        state = (tuple(waiting), self._stamp)
        due = not 0.0 <= now.now_s - self._decided_s < AGAIN_S
        due |= self._next_s <= now.now_s
        self.books.freed |= due  # a job that waited before others may have been cancelled
        if due or self.books.freed or state != self._decided:
            self.books.let_through(now.now_s, {name: one for name, (_, one) in waiting.items()})
            self._decided, self._decided_s = state, now.now_s
            self._next_s = min((one.until_s for one in self.books.barred.values()), default=math.inf)
        for name, one in self.books.barred.items():
            if name in waiting and one.until_s > now.now_s:
                now.jobs.bar(waiting[name][0], reason(one.until_s, one.by))
        now.waiting = now.jobs.waiting()

    def _reread(self) -> None:
        """Read the file again where it has changed; one that cannot be used leaves the budgets before."""
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            budgets = read_budgets(self.path, live=True)
        except WattQueueError as error:
            self.problem = f"budgets: {error}"
            return
        self.problem = ""
        self._open(budgets)

    def _begin(self, now: RoundState, row: Job) -> None:
        """Set aside what a job may use that runs, once, and again where its start or limit is another."""
        name = _name(row)
        known = self.held.get(name)
        demand = self._demand(now, row)
        if known is not None:  # who it belongs to is known from its submission
            demand = known.demand._replace(span_s=demand.span_s)
        lacks = [book for book, _ in self.books.of(demand) if name not in book.held]
        if known is None and not lacks:
            return
        if known is None or known.start_s != row.start_s or known.demand != demand or lacks:
            self.held[name] = SetAside(row.uid, demand, row.start_s)
            self.books.begin(name, demand, row.start_s)
            self._note(name)

    def starts(self, now: RoundState) -> None:
        """Set aside what the jobs may use that this round releases."""
        for placed in now.placed if now.planner.rules.mode == "control" else ():
            slot = now.jobs.slot[placed.key]
            row = now.jobs.row[slot]
            demand = self._demand(now, row)
            if self.books.of(demand):
                demand = demand._replace(span_s=max(demand.span_s, placed.limit_s + LATE_S))
                self.held[_name(row)] = SetAside(row.uid, demand, -now.now_s)
                self.books.begin(_name(row), demand, now.now_s, now.now_s + AHEAD_S)
                self._note(_name(row))

    def _settle(self, now: RoundState, present: set[str]) -> None:
        """Book what jobs used that are gone: by their records, or the most after so long without one."""
        gone = [name for name in self.held if name not in present]
        self._gone_s = {name: self._gone_s.get(name, now.now_s) for name in gone}
        recorded = self._recorded(gone) if gone and not self._recovered else {}
        self._recovered = True
        waits = {_name(row) for row in now.jobs.rows(now.jobs.queue.tolist())}
        for name in gone:
            one, record = self.held[name], self._ended.pop(name, None) or recorded.get(name)
            if record is not None:
                run_s = max(record.end_s - record.start_s, 1.0)
                self._end(name, record.start_s, record.start_s + run_s, record.energy_j / run_s)
            elif one.start_s < 0.0 and name in waits:  # it did not start
                self._drop(name)
            elif now.now_s - self._gone_s[name] >= AWAITED_S:  # it ran since its release at most
                start_s = abs(one.start_s)
                end_s = min(start_s + min(one.demand.span_s, LONGEST_S), self._gone_s[name])
                self._end(name, start_s, max(end_s, start_s), one.demand.watts)

    def _recorded(self, gone: list[str]) -> dict[str, EnergyRecord]:
        """Return the records of jobs that ended before this controller began."""
        uids = {self.held[name].uid for name in gone}
        found = read_records([self.folder.folder / USERS / str(uid) for uid in uids])
        return {run_name(one.job, one.submit_s): one for one in found if not (self.awaits and one.label == "modelled")}

    def _end(self, name: str, start_s: float, end_s: float, watts: float) -> None:
        one = self.held.pop(name)
        before = [dict(book.used) for book in self.books.books]
        self.books.end(name, one.demand, start_s, end_s, watts)
        for book, used in zip(self.books.books, before, strict=True):
            more = sum(book.used.values()) - sum(used.values())
            days = self.days.setdefault(book.budget.name, {})
            if more:
                days[int(end_s // DAY_S)] = days.get(int(end_s // DAY_S), 0) + more
            for day in [day for day in days if day < end_s // DAY_S - DAYS]:
                del days[day]
        self._note(name)
        self._note_used(one.demand.user)

    def _drop(self, name: str) -> None:
        self.held.pop(name)
        self.books.drop(name)
        self._note(name)

    def final(self, record: EnergyRecord) -> None:
        """Take the record of a run; the next round books it."""
        name = run_name(record.job, record.submit_s)
        if name in self.held:
            self._ended[name] = record

    def _waiting(self, now: RoundState) -> dict[str, tuple[int, JobDemand]]:
        """Return slot and demand of the jobs that may start and that a budget concerns, by submission."""
        jobs = now.jobs
        slots = [slot for slot in jobs.queue.tolist() if jobs.stage[slot] == Stage.HELD]
        found = {}
        for slot in sorted(slots, key=lambda slot: (float(jobs.first_s[slot]), slot)):
            demand = self._demand(now, jobs.row[slot])
            if any(budget.concerns(demand.user, demand.account) for budget in self.books.budgets):
                found[_name(jobs.row[slot])] = slot, demand
        return found

    def _demand(self, now: RoundState, row: Job) -> JobDemand:
        """Return what a job may use at most."""
        watts = _most_node_w(now.planner.layout, row) * max(row.nodes, row.most_nodes if row.pending else 0)
        return JobDemand(*self.owner(now, row), watts, row.walltime_s + LATE_S)

    def owner(self, now: RoundState, row: Job) -> tuple[str, str]:
        """Return user and account of a job, the account empty where it is not known."""
        details = now.snapshot.details.get(row.key)
        return self._user(row.uid), "" if details is None else details.account

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            try:
                self._users[uid] = getpwuid(uid).pw_name
            except (KeyError, OverflowError):
                self._users[uid] = str(uid)
        return self._users[uid]

    def lines(self) -> Iterator[str]:
        """Yield what a person should know."""
        if self.problem:
            yield self.problem


@dataclass
class BudgetsShown:
    """Writes what users see of budgets, in files that each alone can read."""

    of: LiveBudgets
    folder: EnergyFolder
    _at_s: float = -math.inf
    _mine: dict[int, set[int]] = field(default_factory=dict)
    """Budgets of each user, as numbers, and the budgets that are meant."""
    _budgets: Sequence[Budget] = ()
    _told: dict[int | None, list[dict[str, Any]]] = field(default_factory=dict)

    def show(self, now: RoundState) -> None:
        """Store the books, and write what users see. Raises: OutputError, OSError where that fails."""
        self.of.memory.store_books()
        if 0.0 <= now.now_s - self._at_s < SHOWN_S:
            return
        self._at_s, budgets = now.now_s, self.of.books.budgets
        if budgets is not self._budgets:
            self._mine, self._budgets = {}, budgets
        shown = [self._shown(book, now.now_s) for book in self.of.books.books]
        self._put(None, now.now_s, shown)
        owners = {(one.uid, one.demand.user, one.demand.account) for one in self.of.held.values()}
        owners |= {(row.uid, *self.of.owner(now, row)) for row in now.jobs.rows(now.jobs.queue.tolist())}
        for uid, user, account in owners:
            mine = self._mine.setdefault(uid, set())
            mine |= {k for k, budget in enumerate(budgets) if budget.concerns(user, account)}
        for uid, mine in self._mine.items():
            self._put(uid, now.now_s, [shown[k] for k in sorted(mine)])

    def _put(self, uid: int | None, now_s: float, budgets: list[dict[str, Any]]) -> None:
        """Write what a user sees, the controller's account where there is no user, if it is another than before."""
        if self._told.get(uid) != budgets and (budgets or uid in self._told):
            self._told[uid] = budgets
            self.folder.put_budgets(uid, json.dumps({"time_s": round(now_s), "budgets": budgets}) + "\n")

    def _shown(self, book: Book, now_s: float) -> dict[str, Any]:
        """Return the state of a budget in the period at a time, in its smallest unit."""
        budget, period = book.budget, book.budget.period(now_s)
        limit, renewal_s = budget.limit(period), budget.renewal_s(now_s)
        return {
            "name": budget.name, "unit": budget.unit, "mode": budget.mode, "account": budget.account,
            "users": sorted(budget.users), "amount": None if math.isinf(limit) else limit,
            "used": book.used.get(period, 0), "held": book.booked(period) - book.used.get(period, 0),
            "renewal_s": None if math.isinf(renewal_s) else renewal_s,
            "barred": sum(one.by == budget.name for one in self.of.books.barred.values()),
            "forecast": forecast(self.of.days.get(budget.name, {}), book.used.get(period, 0), now_s, renewal_s),
        }  # fmt: skip


def forecast(days: Mapping[int, int], used: int, now_s: float, end_s: float) -> tuple[int, int, int] | None:
    """Return (low, middle, high) of what is used at the end of a period: the middle 80 %, days taken as independent.

    Of the daily amounts of the last ``DAYS`` whole days; None before there are three of them.
    """
    today = int(now_s // DAY_S)
    first = max(min(days, default=today), today - DAYS)
    known = np.array([days.get(day, 0) for day in range(first, today)], np.float64)
    left = (end_s - now_s) / DAY_S
    if len(known) < 3 or not math.isfinite(left):
        return None
    more, error = known.mean() * left, 1.2816 * known.std(ddof=1) * math.sqrt(left + left**2 / len(known))
    low, middle, high = (round(used + max(0.0, more + sign * error)) for sign in (-1.0, 0.0, 1.0))
    return low, middle, high


def reason(until_s: float, by: str) -> str:
    """Return why a budget bars a job."""
    if math.isinf(until_s):
        return f"{BARRED}{by}: the job may use more than any period has"
    return f"{BARRED}{by} has no room for it before {time.strftime('%Y-%m-%d %H:%M', time.localtime(until_s))}"


def _most_node_w(layout: Layout, row: Job) -> float:
    parts = layout.allowed(row.partition)
    return max((float(layout.machine.partitions[p].max_w or math.inf) for p in parts), default=0.0)


def _name(row: Job) -> str:
    return run_name(row.key.name, row.key.submit_s)


def _by_begin(budget: Budget, amounts: Amounts) -> dict[str, int]:
    """Return amounts by the begin of their periods: a file that is changed may number periods otherwise."""
    edges = budget.edge_s.tolist()
    return {str(edges[period]): amount for period, amount in amounts.items() if 0 <= period < len(edges) - 1}


def _by_period(budget: Budget, amounts: Mapping[str, int]) -> Amounts:
    found: Amounts = {}
    for begin, amount in amounts.items():
        if _owns(budget, float(begin)):
            period = budget.period(float(begin))
            found[period] = found.get(period, 0) + amount
    return found


def _owns(budget: Budget, begin_s: float) -> bool:
    """Whether an amount is booked on this part of a budget, which may have several, one after the other."""
    return bool(budget.edge_s[0] <= begin_s < budget.edge_s[-1])


def budgets_extension(budgets: LiveBudgets, energies: EnergyRecorder) -> Extension:
    """Return the stages that keep budgets."""
    energies.final, budgets.awaits = budgets.final, energies.accounting is not None
    shown, room = BudgetsShown(budgets, energies.folder), BudgetRoom(budgets, energies.folder)

    def report(now: RoundState) -> None:
        shown.show(now)
        room.write(now)

    show = beside("the budgets", report)
    return Extension({"learned": budgets.look, "planned": budgets.starts, "report": show}, budgets.lines, keeps=budgets)
