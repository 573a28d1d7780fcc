"""Decide by budgets which jobs may start, and book what running and ended jobs hold and used; simulated and live.

What a job may use at most is set aside before it starts, on every period in which it may run: its time limit at the
stated maximum of its units, or of a budget in mode ``quantile`` that quantile of the shares that ended jobs used of
theirs. After its end what was measured replaces it. A job for which nothing is left is barred until the first period
that has room for it, and keeps no other from starting; what it will need then is kept for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wattqueue.model.budgets import Amounts, Book, Budget

MOST_PERIODS = 400
"""Periods that are looked at for a start."""
LEARNED = 200
"""Ended jobs of a user of which a quantile is taken, and jobs of others before the user has as many as ``OWN``."""
OWN = 20
LONGEST_S = 366 * 86_400.0
"""A job without a limit that runs sets so much aside; one that waits does not start."""


class JobDemand(NamedTuple):
    """Who a job belongs to, the most watts of its units together, and the most seconds that it runs."""

    user: str
    account: str
    watts: float
    span_s: float


class Barred(NamedTuple):
    """Until when a job is barred (inf: no period has room for it), and by which budget."""

    until_s: float
    by: str


@dataclass
class BudgetBooks:
    """The books of some budgets. Jobs have names of the caller's."""

    budgets: Sequence[Budget]
    ahead_s: float
    """How long after a job was let through it may start."""
    exact: float = math.inf
    """Of so many barred jobs of the same budgets it is found when they fit, and that is kept for them; the others are
    barred until the next period, and who asks must ask again then."""
    barred: dict[str, Barred] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    """What ended jobs used of their maximum, by user; of all under the empty name."""
    _kept: dict[str, list[Amounts]] = field(default_factory=dict)
    """What is kept for barred jobs."""
    freed: bool = False
    """Whether a job has left something since jobs were let through last."""

    def __post_init__(self) -> None:
        """Begin a book for each budget."""
        self.books = [Book(one) for one in self.budgets]

    def of(self, job: JobDemand) -> list[tuple[Book, float]]:
        """Return the books of a job, with the share of its maximum that each sets aside."""
        concerned = (book for book in self.books if book.budget.concerns(job.user, job.account))
        return [(book, self._share(book.budget, job.user)) for book in concerned]

    def begin(self, name: str, job: JobDemand, first_s: float, last_s: float | None = None) -> None:
        """Set aside what a job may use that starts at ``first_s``, or until ``last_s``."""
        span_s = min(job.span_s, LONGEST_S)
        for book, share in self.of(job):
            book.hold(name, book.budget.most(job.watts * share, span_s, first_s, last_s or first_s))

    def end(self, name: str, job: JobDemand, start_s: float, end_s: float, drawn_w: float) -> None:
        """Book what a job used in place of what was set aside for it."""
        for book in self.books:
            if name in book.held or book.budget.concerns(job.user, job.account):
                self.freed = True
                book.settle(name, book.budget.used(drawn_w, start_s, end_s))
        if 0.0 < job.watts * job.span_s < math.inf:
            for key in {job.user, ""}:
                kept = self.shares.setdefault(key, [])
                kept.append(drawn_w * (end_s - start_s) / (job.watts * job.span_s))
                del kept[:-LEARNED]

    def drop(self, name: str) -> None:
        """Forget what was set aside for a job that did not start."""
        for book in self.books:
            if name in book.held:
                self.freed = True
                book.settle(name, {})

    def let_through(self, now_s: float, waiting: Mapping[str, JobDemand]) -> dict[str, float]:
        """Let jobs through in their order as far as budgets reach, and bar the others.

        Returns the times until which jobs are barred that were barred until another time before; now for none.
        """
        others: list[Amounts] = [{} for _ in self.books]
        barred: dict[tuple[tuple[str, float], ...], tuple[int, JobDemand]] = {}
        """How many jobs were barred by their budgets and shares, and the least of them."""
        changed: dict[str, float] = {}
        before, self.barred = self.barred, {}
        for name, job in waiting.items():
            books = self.of(job)
            if not books:
                continue
            kept = before.get(name)
            if kept is not None and kept.until_s > now_s and (not self.freed or kept.until_s == math.inf):
                found, amounts = kept, self._kept[name]  # nothing was freed, or it is too large for any period
            else:
                key = tuple((book.budget.name, share) for book, share in books)
                count, least = barred.get(key, (0, job))
                if count < self.exact:
                    found, amounts = self._earliest(now_s, job, books, others)
                else:
                    found, amounts = self._now(now_s, job, books, others, least)
                if found.until_s > now_s:
                    barred[key] = count + 1, min(job, least, key=lambda one: one.watts * one.span_s)
            for (book, _), more in zip(books, amounts, strict=True):
                sums = others[self.books.index(book)]
                for period, amount in more.items():
                    sums[period] = sums.get(period, 0) + amount
            if found.until_s > now_s:
                self.barred[name], self._kept[name] = found, amounts
            if found.until_s != max(before[name].until_s if name in before else now_s, now_s):
                changed[name] = found.until_s
        self.freed, self._kept = False, {name: self._kept[name] for name in self.barred}
        return changed

    def _now(
        self,
        now_s: float,
        job: JobDemand,
        books: list[tuple[Book, float]],
        others: list[Amounts],
        least: JobDemand,
    ) -> tuple[Barred, list[Amounts]]:
        """Return whether a job fits now, and what it books then; ``least`` is one that does not.

        A job that asks for no less of the same does not fit either: what is left only falls.
        """
        renewal_s = min(book.budget.renewal_s(now_s) for book, _ in books)
        if job.watts < least.watts or job.span_s < least.span_s:
            latest_s = now_s + self.ahead_s
            amounts = [book.budget.most(job.watts * share, job.span_s, now_s, latest_s) for book, share in books]
            pairs = zip(books, amounts, strict=True)
            if all(book.fits(more, others[self.books.index(book)]) for (book, _), more in pairs):
                return Barred(now_s, ""), amounts
        return Barred(renewal_s, books[0][0].budget.name), [{} for _ in books]

    def _earliest(
        self, now_s: float, job: JobDemand, books: list[tuple[Book, float]], others: list[Amounts]
    ) -> tuple[Barred, list[Amounts]]:
        """Return when the budgets have room for a job and which one had none before, and what it books.

        Infinite where it fits into no period.
        """
        at_s, by = now_s, ""
        for _ in range(MOST_PERIODS if math.isfinite(job.span_s) else 0):
            latest_s = at_s + self.ahead_s
            amounts = [book.budget.most(job.watts * share, job.span_s, at_s, latest_s) for book, share in books]
            short = [
                book
                for (book, _), more in zip(books, amounts, strict=True)
                if not book.fits(more, others[self.books.index(book)])
            ]
            if not short:
                return Barred(at_s, by), amounts
            by = by or short[0].budget.name
            at_s = min(book.budget.renewal_s(at_s) for book in short)
            if at_s == math.inf:
                break
        return Barred(math.inf, by or books[0][0].budget.name), [{} for _ in books]

    def _share(self, budget: Budget, user: str) -> float:
        """Return the quantile of what ended jobs used; all of the maximum before any has ended."""
        if budget.mode == "maximum":
            return 1.0
        own = self.shares.get(user, [])
        known = own if len(own) >= OWN else self.shares.get("", [])
        return float(np.quantile(known, budget.quantile, method="higher")) if len(known) >= OWN else 1.0
