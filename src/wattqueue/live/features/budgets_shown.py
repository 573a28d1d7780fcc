"""What users see of energy budgets: files that each user alone can read (``wattqueue budget``), with a forecast."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.live.features.budget_rows import StoredBooks
from wattqueue.live.files.energy_records import EnergyFolder
from wattqueue.live.planner import RoundState
from wattqueue.model.budget_books import JobDemand
from wattqueue.model.budgets import Book, Budget

SHOWN_S = 30.0
DAY_S = 86_400.0
DAYS = 28
"""Days of which a forecast is made."""


@dataclass
class BudgetsShown:
    """Writes what users see of budgets, in files that each alone can read."""

    of: StoredBooks
    waiting: Callable[[], Iterable[tuple[int, JobDemand]]]
    """Returns user id and demand of the jobs that wait."""
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
        barred = Counter(one.by for one in self.of.books.barred.values())
        shown = [self._shown(book, now.now_s, barred[book.budget.name]) for book in self.of.books.books]
        self._put(None, now.now_s, shown)
        owners = {(one.uid, one.demand) for one in self.of.held.values()}
        owners |= set(self.waiting())
        for uid, demand in owners:
            numbers = self.of.books.numbers(demand.user, demand.account, demand.project)
            self._mine.setdefault(uid, set()).update(numbers)
        for uid, mine in self._mine.items():
            self._put(uid, now.now_s, [shown[k] for k in sorted(mine)])

    def _put(self, uid: int | None, now_s: float, budgets: list[dict[str, Any]]) -> None:
        """Write what a user sees, the controller's account where there is no user, if it is another than before."""
        if self._told.get(uid) != budgets and (budgets or uid in self._told):
            self._told[uid] = budgets
            self.folder.put_budgets(uid, json.dumps({"time_s": round(now_s), "budgets": budgets}) + "\n")

    def _shown(self, book: Book, now_s: float, barred: int) -> dict[str, Any]:
        """Return the state of a budget in the period at a time, in its smallest unit."""
        budget, period = book.budget, book.budget.period(now_s)
        limit, renewal_s = budget.limit(period), budget.renewal_s(now_s)
        return {
            "name": budget.name, "unit": budget.unit, "mode": budget.mode, "account": budget.account,
            "users": sorted(budget.users), "amount": None if math.isinf(limit) else limit,
            "used": book.used.get(period, 0), "held": book.booked(period) - book.used.get(period, 0),
            "renewal_s": None if math.isinf(renewal_s) else renewal_s,
            "barred": barred, "project": budget.project, "beyond": book.beyond.get(period, 0),
            "idle": book.idle_share(self.of.since_s.get(budget.name, now_s), now_s), "kept": book.kept_periods(now_s),
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
