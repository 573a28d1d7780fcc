"""Decide by budgets which jobs may start, and book what running and ended jobs hold and used; simulated and live.

What a job may use at most is set aside before it starts, on every period in which it may run: its time limit at the
stated maximum of its units, or of a budget in mode ``quantile`` that quantile of the shares that ended jobs used of
theirs. After its end what was measured replaces it. A job for which nothing is left is barred until the first period
that has room for it, or until spare hours that are long enough where its budget lets jobs run in them; it keeps no
other from starting, and what it will need then is kept for it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wattqueue.model.budgets import Amounts, Book, Budget, add_to

MOST_PERIODS = 400
"""Periods that are looked at for a start, fewer where not of all jobs it is found when they fit."""
FEWER = 30
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
    project: str = ""


class Barred(NamedTuple):
    """Until when a job is barred (inf: no period has room for it), and by which budget."""

    until_s: float
    by: str


class Settled(NamedTuple):
    """What a job used by period that was booked, and whether in spare hours beyond the budget."""

    book: Book
    amounts: Amounts
    spare: bool


Owner = tuple[str, str, str]
"""User, account and project."""
Asked = list[Amounts | None]
"""What a job books on each budget of its group; None on one beyond which it runs in spare hours."""
NOTHING: Asked = []


@dataclass
class _Refused:
    """Jobs that were refused: one that asks for no less of the same is refused, too, since what is left only falls."""

    spans: list[float] = field(default_factory=list)
    """In rising order, those of ``watts`` in falling order."""
    watts: list[float] = field(default_factory=list)

    def covers(self, job: JobDemand) -> bool:
        """Whether a job asks for no less than a refused one."""
        k = bisect_right(self.spans, job.span_s)
        return k > 0 and self.watts[k - 1] <= job.watts

    def add(self, job: JobDemand) -> None:
        """Add a job that is not covered."""
        k = bisect_left(self.spans, job.span_s)
        end = k
        while end < len(self.watts) and self.watts[end] >= job.watts:
            end += 1
        self.spans[k:end], self.watts[k:end] = [job.span_s], [job.watts]


@dataclass
class _Group:
    """Jobs of one user, account and project in a pass: their budgets, and which of them were refused."""

    books: list[tuple[int, Book, float]]
    """Number and book of each budget, with the share of a job's maximum that is set aside."""
    freed: bool
    last_s: float
    """When the first of its budgets ends."""
    learns: bool
    """Whether what fits changes with what jobs of other budgets use, too."""
    barred: float = 0
    later: Barred | None = None
    """What bars those of which it is only found whether they fit now."""
    closed: bool = False
    """Whether none of them fits now: there is no room for the least watts and seconds of all."""
    looked: bool = False
    """Whether that has been found out since one of them was let through last."""
    refused: _Refused = field(default_factory=_Refused)

    never: dict[str, _Refused] = field(default_factory=dict)
    """Jobs for which no period has room, by the budget."""

    def holds(self, kept: Barred, end_s: float) -> bool:
        """Whether a job is barred as before: nothing was freed, or it is too large for all periods but the last."""
        if math.isfinite(kept.until_s):
            return not self.freed
        return not self.learns and end_s < self.last_s


@dataclass
class BudgetBooks:
    """The books of some budgets. Jobs have names of the caller's."""

    budgets: Sequence[Budget]
    ahead_s: float
    """How long after a job was let through it may start."""
    exact: tuple[float, float] = math.inf, math.inf
    """Of so many barred jobs of a group, and of so many in all, it is found when they fit, and that is kept for them;
    the others are barred until the next period, and who asks must ask again then."""
    barred: dict[str, Barred] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    """What ended jobs used of their maximum, by user; of all under the empty name."""
    freed: set[int] = field(default_factory=set)
    """Numbers of the budgets of which a job has left something since jobs were let through last."""
    _asked: dict[str, Asked] = field(default_factory=dict)
    """What is kept for barred jobs, and for those that were let through."""
    owners: dict[Owner, list[int]] = field(default_factory=dict)
    """Numbers of the budgets of each user, account and project."""
    _least: tuple[Mapping[str, JobDemand], dict[Owner, JobDemand]] = field(default_factory=lambda: ({}, {}))
    """Jobs that waited at the last call, with the least watts and seconds of those of each owner."""

    def __post_init__(self) -> None:
        """Begin a book for each budget."""
        self.books = [Book(one) for one in self.budgets]

    def numbers(self, user: str, account: str, project: str) -> list[int]:
        """Return the numbers of the budgets on which jobs of a user, an account and a project are booked."""
        owner = user, account, project
        if owner not in self.owners:
            self.owners[owner] = [k for k, one in enumerate(self.budgets) if one.concerns(*owner)]
        return self.owners[owner]

    def of(self, job: JobDemand) -> list[tuple[int, Book, float]]:
        """Return the books of a job with their numbers, and the share of its maximum that each sets aside."""
        found = ((k, self.books[k]) for k in self.numbers(job.user, job.account, job.project))
        return [(k, book, self._share(book.budget, job.user)) for k, book in found]

    def begin(self, name: str, job: JobDemand, first_s: float, last_s: float | None = None, of: str = "") -> None:
        """Set aside what a job may use that starts at ``first_s``, or until ``last_s``; ``of``: as part of that one."""
        span_s = min(job.span_s, LONGEST_S)
        asked = self._asked.get(of, NOTHING) if of else self._asked.pop(name, NOTHING)
        for place, (_, book, share) in enumerate(self.of(job)):
            spare = name in book.spare or (len(asked) > place and asked[place] is None)
            book.hold(name, book.budget.most(job.watts * share, span_s, first_s, last_s or first_s), spare=spare)

    def end(self, name: str, job: JobDemand, start_s: float, end_s: float, drawn_w: float) -> list[Settled]:
        """Book what a job used in place of what was set aside for it."""
        mine, found = self.numbers(job.user, job.account, job.project), []
        for k, book in enumerate(self.books):
            if name in book.held or k in mine:
                self.freed.add(k)
                amounts = dict.fromkeys(book.held.get(name, {}), 0) | book.budget.used(drawn_w, start_s, end_s)
                found.append(Settled(book, amounts, name in book.spare))
                book.settle(name, amounts, end_s - start_s)
        if 0.0 < job.watts * job.span_s < math.inf:
            for key in {job.user, ""}:
                kept = self.shares.setdefault(key, [])
                kept.append(drawn_w * (end_s - start_s) / (job.watts * job.span_s))
                del kept[:-LEARNED]
        return found

    def drop(self, name: str) -> None:
        """Forget what was set aside for a job that did not start."""
        for k, book in enumerate(self.books):
            if name in book.held:
                self.freed.add(k)
                book.settle(name, {})

    def cancel(self, name: str, job: JobDemand) -> None:
        """Free what was kept for a job that waits no more, and was not released."""
        if self._asked.pop(name, NOTHING):
            self.freed.update(self.numbers(job.user, job.account, job.project))

    def let_through(self, now_s: float, waiting: Mapping[str, JobDemand]) -> dict[str, float]:
        """Let jobs through in their order as far as budgets reach, and bar the others.

        ``waiting`` is another mapping where other jobs wait. Returns the times until which jobs are barred that were
        barred until another time before; now for none.
        """
        others: list[Amounts] = [{} for _ in self.books]
        groups: dict[Owner, _Group] = {}
        before, asked_before, exact_left = self.barred, self._asked, self.exact[1]
        self.barred, self._asked, changed = {}, {}, {}
        for name, job in waiting.items():
            owner = job.user, job.account, job.project
            group = groups.get(owner)
            if group is None:
                group = groups[owner] = self._group(job)
            if not group.books:
                continue
            kept, asked = before.get(name), NOTHING
            if group.closed and group.later is not None and (kept is None or kept.until_s < math.inf):
                found = group.later
            elif kept is not None and kept.until_s > now_s and group.holds(kept, now_s + self.ahead_s + job.span_s):
                found = kept
                asked = asked_before.get(name, NOTHING)
                exact_left, group.barred = exact_left - bool(asked), group.barred + bool(asked)
            elif group.barred >= self.exact[0] or exact_left <= 0:
                found, asked = self._now(now_s, job, group, others)
                if found is group.later and group.freed and not group.looked:
                    least = self._least_of(waiting)[owner]
                    group.looked, group.closed = True, bool(self._asks(now_s, least, group, others)[1])
                    found = group.later = kept if kept == found and kept is not None else found
            else:
                found, asked = self._earliest(now_s, job, group, others)
                if now_s < found.until_s < math.inf:
                    group.barred, exact_left = group.barred + 1, exact_left - 1
            if asked:
                self._asked[name], group.looked = asked, False
                for (k, _, _), more in zip(group.books, asked, strict=True):
                    add_to(others[k], more or {})
            if found.until_s > now_s:
                self.barred[name] = found
            if found is not kept and found.until_s != (now_s if kept is None else max(kept.until_s, now_s)):
                changed[name] = found.until_s
        self.freed.clear()
        return changed

    def _group(self, job: JobDemand) -> _Group:
        """Return the jobs of an owner at the begin of a pass."""
        books = self.of(job)
        return _Group(
            books,
            any(k in self.freed for k, _, _ in books),
            min((book.budget.edges[-1] for _, book, _ in books), default=math.inf),
            any(book.budget.mode == "quantile" for _, book, _ in books),
        )

    def _least_of(self, waiting: Mapping[str, JobDemand]) -> dict[Owner, JobDemand]:
        """Return the least watts and seconds of the jobs of each owner."""
        if self._least[0] is not waiting:
            least: dict[Owner, JobDemand] = {}
            for job in waiting.values():
                owner = job.user, job.account, job.project
                one = least.setdefault(owner, job)
                if job.watts < one.watts or job.span_s < one.span_s:
                    least[owner] = one._replace(watts=min(job.watts, one.watts), span_s=min(job.span_s, one.span_s))
            self._least = waiting, least
        return self._least[1]

    def _now(self, now_s: float, job: JobDemand, group: _Group, others: list[Amounts]) -> tuple[Barred, Asked]:
        """Return whether a job fits now, and what it books then."""
        if group.later is None or not group.refused.covers(job):
            asked, short = self._asks(now_s, job, group, others)
            if not short:
                return Barred(now_s, ""), asked
            group.refused.add(job)
            group.later = group.later or Barred(
                min(book.budget.next_chance_s(now_s, self.ahead_s) for _, book, _ in group.books), short[0].budget.name
            )
        return group.later, NOTHING

    def _earliest(self, now_s: float, job: JobDemand, group: _Group, others: list[Amounts]) -> tuple[Barred, Asked]:
        """Return when the budgets have room for a job and which one had none before, and what it books.

        Infinite where it fits into no period.
        """
        by = next((name for name, refused in group.never.items() if refused.covers(job)), "")
        if by or not math.isfinite(job.span_s):
            return Barred(math.inf, by or group.books[0][1].budget.name), NOTHING
        at_s = now_s
        for _ in range(MOST_PERIODS if math.isinf(self.exact[1]) else FEWER):
            asked, short = self._asks(at_s, job, group, others)
            if not short:
                return Barred(at_s, by), asked
            by = by or short[0].budget.name
            at_s = max(book.budget.next_chance_s(at_s, self.ahead_s + job.span_s) for book in short)
        if not self._asks(at_s, job, group, None)[1]:  # the queue before it is so long
            group.barred = max(group.barred, self.exact[0]) if self.exact[0] < math.inf else group.barred
            return Barred(at_s, by), NOTHING
        group.never.setdefault(by, _Refused()).add(job)
        return Barred(math.inf, by), NOTHING

    def _asks(
        self, at_s: float, job: JobDemand, group: _Group, others: list[Amounts] | None
    ) -> tuple[Asked, list[Book]]:
        """Return what a job books that may start at a time, and which books have no room; no ``others``: if empty."""
        asked, short, latest_s = list[Amounts | None](), list[Book](), at_s + self.ahead_s
        for k, book, share in group.books:
            more = book.budget.most(job.watts * share, job.span_s, at_s, latest_s)
            if others is None:
                fits = all(amount <= book.budget.limit(period) for period, amount in more.items())
            else:
                fits = book.fits(more, others[k])
            spare = not fits and book.budget.in_spare_hours(at_s, latest_s + job.span_s)
            asked.append(None if spare else more)
            if not fits and not spare:
                short.append(book)
        return asked, short

    def _share(self, budget: Budget, user: str) -> float:
        """Return the quantile of what ended jobs used; all of the maximum before any has ended."""
        if budget.mode == "maximum":
            return 1.0
        own = self.shares.get(user, [])
        known = own if len(own) >= OWN else self.shares.get("", [])
        return float(np.quantile(known, budget.quantile, method="higher")) if len(known) >= OWN else 1.0
