"""Let no job start that its budget of energy, money or carbon has no room for: it waits until the period ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.model.budgets import Amounts, Book, Budget
from wattqueue.parts.actions import Action, DelayStart

if TYPE_CHECKING:
    from wattqueue.policy.view import View

DAY_S = 86_400.0
MOST_PERIODS = 400
"""Periods that are looked at for a start."""
LEARNED = 200
"""Ended jobs of a user of which a quantile is taken, and jobs of others before the user has as many as ``OWN``."""
OWN = 20


class EnergyBudgets:
    """Set aside what each job may use at most, and bar those for which that is not left.

    The most is its time limit at the stated maximum of its units, or in mode ``quantile`` that quantile of the shares
    that ended jobs used of theirs. It is booked when the job is let through, in order of submission, on every period
    in which the job may run, wherever it then starts until this control looks again. After its end what was measured
    replaces it. A job for which nothing is left is barred until the first period that has room for it, and does not
    keep others from starting; what it will need then is kept for it.

    Args:
        budgets: A TOML file of budgets (``formats.budgets``).

    Reference: WattQueue's own.
    """

    reads: ClassVar[tuple[str, ...]] = ("budgets",)
    acts_on: ClassVar[tuple[str, ...]] = ("budgets",)
    delays: bool = True
    forgets: ClassVar[bool] = True
    """Its books are in memory alone: no live controller takes it."""
    period_s: float = DAY_S
    events: frozenset[str] = frozenset({"arrival", "completion"})

    def __init__(self, *, budgets: tuple[Budget, ...] | None = None) -> None:
        self.budgets = budgets or ()
        self.begin()

    def begin(self) -> None:
        """Forget the jobs of a run before."""
        self.books = [Book(one) for one in self.budgets]
        self.barred: dict[str, tuple[float, str]] = {}
        """Until when jobs are barred, and by which budget."""
        self._kept: dict[str, list[Amounts]] = {}
        """What is kept for barred jobs."""
        self._freed = False
        """Whether a job has left something since the last call."""
        self._known: dict[str, tuple[str, float, float]] = {}
        """User, most watts and most seconds of jobs that waited or ran at the last call."""
        self._running: dict[str, float] = {}
        """Starts of running jobs."""
        self._shares: dict[str, list[float]] = {}
        """What ended jobs used of their maximum, by user; of all under the empty name."""

    def act(self, view: View) -> Sequence[Action]:
        """Return what bars jobs that wait, and what lets them through again."""
        if not self.books:
            return []
        waiting = self._waiting(view)
        running = {view.job_id(row): row for row in view.running.tolist()}
        for name, row in (waiting | running).items():
            if name not in self._known:
                self._known[name] = self._user(view, row), *self._most(view, row)
        self._settle(view, waiting, running)
        for name, row in running.items():
            self._begin(view, name, row)
        return self._bar(view, waiting)

    def _waiting(self, view: View) -> dict[str, int]:
        """Return the jobs that wait, barred ones too, which stand in no queue: in the order of their submission."""
        rows = {view.entry_job(entry) for entry in view.queue.tolist()}
        for name in self.barred:
            row = view.job_row(name)
            if row >= 0 and np.isnan(view.jobs.observed.end_s[row]) and view.job_option(row) < 0:
                rows.add(row)
        order = sorted(rows, key=lambda row: (float(view.jobs.submit_s[row]), row))
        return {view.job_id(row): row for row in order}

    # -- running and ended jobs -------------------------------------------------------------------
    def _begin(self, view: View, name: str, row: int) -> None:
        """Book a job that has started from its start on."""
        start_s, (user, watts, span_s) = float(view.jobs.observed.start_s[row]), self._known[name]
        if self._running.get(name) != start_s:
            self._running[name] = start_s
            for book, share in self._of(user):
                book.hold(name, book.budget.most(watts * share, span_s, start_s, start_s))

    def _settle(self, view: View, waiting: dict[str, int], running: dict[str, int]) -> None:
        """Book what jobs used that run no more: as measured, or at most where they are to run again.

        A job that began since the last call may have ended already.
        """
        seen = view.jobs.observed
        for name in list(self._known):
            row, start_s = view.job_row(name), self._running.get(name)
            if name in running and start_s in (None, float(seen.start_s[row])):
                continue
            if start_s is None and name in waiting:
                continue
            user, watts, span_s = self._known[name]
            end_s = float(seen.end_s[row]) if row >= 0 else np.nan
            drawn_w = float(seen.mean_power_w[row]) * float(view.jobs.nodes[row]) if row >= 0 else np.nan
            begun_s = float(seen.start_s[row]) if start_s is None and row >= 0 else start_s
            self._running.pop(name, None)
            if name not in waiting and name not in running:
                del self._known[name]
            if begun_s is None or np.isnan(begun_s):  # it was cancelled
                continue
            if np.isnan(end_s) or np.isnan(drawn_w):  # requeued, or nothing measured it
                drawn_w, end_s = watts, min(view.now_s, begun_s + span_s) if np.isnan(end_s) else end_s
            for book, _ in self._of(user):
                self._freed = True
                book.settle(name, book.budget.used(drawn_w, begun_s, end_s))
            if watts * span_s > 0:
                for key in {user, ""}:
                    kept = self._shares.setdefault(key, [])
                    kept.append(drawn_w * (end_s - begun_s) / (watts * span_s))
                    del kept[:-LEARNED]

    # -- waiting jobs -----------------------------------------------------------------------------
    def _bar(self, view: View, waiting: dict[str, int]) -> list[Action]:
        """Let jobs through in order of submission as far as budgets reach, and bar the others."""
        others: list[Amounts] = [{} for _ in self.books]
        found: list[Action] = []
        before, self.barred = self.barred, {}
        for name in waiting:
            user, watts, span_s = self._known[name]
            books = self._of(user)
            if not books:
                continue
            kept = before.get(name)
            if kept is not None and kept[0] > view.now_s and (not self._freed or kept[0] == np.inf):
                until_s, by, amounts = *kept, self._kept[name]  # nothing was freed, or it is too large for any period
            else:
                until_s, by, amounts = self._earliest(view.now_s, watts, span_s, books, others)
            for (book, _), more in zip(books, amounts, strict=True):
                sums = others[self.books.index(book)]
                for period, amount in more.items():
                    sums[period] = sums.get(period, 0) + amount
            if until_s > view.now_s:
                self.barred[name], self._kept[name] = (until_s, by), amounts
            if until_s != max(before.get(name, (view.now_s, ""))[0], view.now_s):
                found.append(DelayStart(name, until_s, by_site=True))
        self._freed, self._kept = False, {name: self._kept[name] for name in self.barred}
        return found

    def _earliest(
        self, now_s: float, watts: float, span_s: float, books: list[tuple[Book, float]], others: list[Amounts]
    ) -> tuple[float, str, list[Amounts]]:
        """Return when the budgets have room for a job, which one had none before, and what it books.

        Infinite where it fits into no period.
        """
        at_s, by = now_s, ""
        for _ in range(MOST_PERIODS):
            amounts = [book.budget.most(watts * share, span_s, at_s, at_s + self.period_s) for book, share in books]
            short = [
                book
                for (book, _), more in zip(books, amounts, strict=True)
                if not book.fits(more, others[self.books.index(book)])
            ]
            if not short:
                return at_s, by, amounts
            by = by or short[0].budget.name
            at_s = min(book.budget.renewal_s(at_s) for book in short)
            if at_s == np.inf:
                break
        return np.inf, by, [{} for _ in books]

    def _of(self, user: str) -> list[tuple[Book, float]]:
        """Return the books of a user's jobs, with the share of their maximum that each sets aside."""
        return [(book, self._share(book.budget, user)) for book in self.books if book.budget.concerns(user)]

    def _share(self, budget: Budget, user: str) -> float:
        """Return the quantile of what ended jobs used; all of the maximum before any has ended."""
        if budget.mode == "maximum":
            return 1.0
        own = self._shares.get(user, [])
        known = own if len(own) >= OWN else self._shares.get("", [])
        return float(np.quantile(known, budget.quantile, method="higher")) if len(known) >= OWN else 1.0

    def _user(self, view: View, row: int) -> str:
        code = int(view.jobs.user.codes[row])
        return view.jobs.user.names[code] if code >= 0 else ""

    def _most(self, view: View, row: int) -> tuple[float, float]:
        """Return the most watts of a job's units together, and the most seconds that it runs."""
        machine, entry = view.machine, view.kernel.entries
        entries = [int(e) for e in entry.of_job[row] if e >= 0]
        watts = max(float(machine.partitions[view.entry_partition(e)].max_w or np.inf) for e in entries)
        last = np.array([int(entry.last[e]) for e in entries])
        factor = float(view.time_factors_of(np.full(len(last), row, np.int32), last).max())
        return watts * float(view.jobs.nodes[row]), float(view.jobs.walltime_s[row]) * max(1.0, factor)
