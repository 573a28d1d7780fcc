"""The books of energy budgets as rows of the controller's database (``ControllerState.books``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wattqueue.live.state.memory import ControllerState
from wattqueue.model.budget_books import BudgetBooks, JobDemand, Settled
from wattqueue.model.budgets import Amounts, Book, Budget, add_to

AHEAD_S = 600.0
"""How long after a job was let through it may start."""
EXACT = 20, 50
"""Of so many jobs of one user, account and project, and of so many in all, it is found when they fit."""
SUMS = ("used", "beyond", "idle")
"""Sums of a book by period."""


class SetAside(NamedTuple):
    """A job for which something is set aside."""

    uid: int
    demand: JobDemand
    start_s: float
    """Its start; minus the time of its release while nobody has seen it run."""


@dataclass
class StoredBooks:
    """Books, and what is known beside them; every change is noted in a row, and stored with the others of a round."""

    memory: ControllerState
    books: BudgetBooks = field(default_factory=lambda: BudgetBooks((), AHEAD_S, EXACT))
    held: dict[str, SetAside] = field(default_factory=dict)
    days: dict[str, dict[int, int]] = field(default_factory=dict)
    """What jobs that ended on each day (since the epoch) used of each budget."""
    since_s: dict[str, float] = field(default_factory=dict)
    """Since when the book of each budget is kept."""

    def open(self, budgets: Sequence[Budget]) -> None:
        """Take budgets, with what is booked on those of their names."""
        self.books, self.held, self.days = BudgetBooks(budgets, AHEAD_S, EXACT), {}, {}
        of: dict[str, list[Book]] = {}
        for book in self.books.books:
            of.setdefault(book.budget.name, []).append(book)
        for name, state in self.memory.books.items():
            kind, *key = json.loads(name)
            values = json.loads(state)
            if kind == "job":
                uid, user, account, watts, span_s, start_s, amounts, *more = values
                project, spare = more or ("", [])
                self.held[key[0]] = SetAside(uid, JobDemand(user, account, watts, span_s, project), start_s)
                for one, its in amounts.items():
                    for book in of.get(one, ()):
                        book.hold(key[0], _by_period(book.budget, its))
                for book in [book for one in spare for book in of.get(one, ())]:
                    book.hold(key[0], {}, spare=True)
            elif kind in SUMS:
                for book in of.get(key[0], ()):
                    if _owns(book.budget, key[1]):
                        amounts = {book.budget.period(key[1]): values}
                        for sums in (getattr(book, kind), *((book.total,) if kind == "used" else ())):
                            add_to(sums, amounts)
            elif kind == "days":
                self.days[key[0]] = {int(day): amount for day, amount in values.items()}
            elif kind == "shares":
                self.books.shares[key[0]] = values
            elif kind == "since":
                self.since_s[key[0]] = values

    def note(self, name: str) -> None:
        """Put what is set aside for a job into its row."""
        amounts: dict[str, dict[str, int]] = {}
        for book in self.books.books:
            if held := book.held.get(name):
                amounts.setdefault(book.budget.name, {}).update(_by_begin(book.budget, held))
        one = self.held.get(name)
        row: str | None = None
        if one is not None:
            user, account, watts, span_s, project = one.demand
            spare = [book.budget.name for book in self.books.books if name in book.spare]
            row = json.dumps([one.uid, user, account, watts, span_s, one.start_s, amounts, project, spare])
        self.memory.book({json.dumps(["job", name]): row})

    def note_used(self, user: str, booked: Sequence[Settled]) -> None:
        """Put what is used into its rows, of the books and periods on which something was booked."""
        rows: dict[str, str | None] = {}
        for book, amounts, _ in booked:
            name = book.budget.name
            for kind in SUMS:
                mine = getattr(book, kind)
                for begin, amount in _by_begin(book.budget, {p: mine[p] for p in amounts if p in mine}).items():
                    rows[json.dumps([kind, name, float(begin)])] = str(amount)
            rows[json.dumps(["days", name])] = json.dumps(self.days.get(name, {}))
        quantiles = any(book.budget.mode == "quantile" for book in self.books.books)
        for key in {user, ""} if quantiles else ():
            rows[json.dumps(["shares", key])] = json.dumps(self.books.shares.get(key, []))
        self.memory.book(rows)

    def begin(self, now_s: float) -> None:
        """Note since when the books of budgets are kept that are new."""
        for name in {budget.name for budget in self.books.budgets} - self.since_s.keys():
            self.since_s[name] = now_s
            self.memory.book({json.dumps(["since", name]): str(now_s)})


def _by_begin(budget: Budget, amounts: Amounts) -> dict[str, int]:
    """Return amounts by the begin of their periods: a file that is changed may number periods otherwise."""
    edge_s = budget.edge_s
    return {str(float(edge_s[p])): amount for p, amount in amounts.items() if 0 <= p < len(edge_s) - 1}


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
