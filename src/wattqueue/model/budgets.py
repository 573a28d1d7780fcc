"""Budgets of energy, money or carbon by users and period, and what is booked on them, in whole numbers.

Energy is counted in millijoules, any other amount in millionths of its unit. What is booked on a period of a budget is
what running jobs have set aside and what ended jobs used; both are sums of whole numbers, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.signals import Series

Mode = Literal["maximum", "quantile"]
MJ_PER_KWH = 3_600_000_000
MICRO = 1_000_000
Amounts = dict[int, int]
"""Whole amounts by the number of the period."""


@dataclass(frozen=True, eq=False)
class Budget:
    """An amount that some users may use in each period."""

    name: str
    users: frozenset[str]
    """Empty: all users together."""
    amount: int
    """Of one period: millijoules, or millionths of the unit."""
    unit: str
    """``kWh``, or what the series counts."""
    edge_s: NDArray[np.float64]
    """Begins of the periods, the last one an end. Shape (p + 1,)."""
    series: Series | None = None
    """Amount of a joule by time; None: the budget is of energy."""
    mode: Mode = "maximum"
    quantile: float = 1.0
    """Of what jobs used of their maximum, where ``mode`` says so."""
    account: str = ""
    """An account of the resource manager in place of users."""
    qos: str = ""
    """A QOS of the resource manager that limits its jobs while no controller is at work."""

    def concerns(self, user: str, account: str = "") -> bool:
        """Whether jobs of a user, submitted to an account, are booked."""
        return account == self.account if self.account else not self.users or user in self.users

    def period(self, time_s: float) -> int:
        """Return the number of the period at a time; periods before the first and after the last have no limit."""
        return int(np.searchsorted(self.edge_s, time_s, "right")) - 1

    def renewal_s(self, time_s: float) -> float:
        """Return when the period at a time ends; inf after the last one."""
        following = self.period(time_s) + 1
        return float(self.edge_s[following]) if following < len(self.edge_s) else np.inf

    def limit(self, period: int) -> float:
        """Return what may be booked on a period."""
        return self.amount if 0 <= period < len(self.edge_s) - 1 else np.inf

    def shares(self, begin_s: float, end_s: float) -> list[tuple[int, float, float]]:
        """Return (period, begin, end) of each part of a span, in their order."""
        found, at_s, period = [], begin_s, self.period(begin_s)
        while at_s < end_s:
            until_s = min(end_s, float(self.edge_s[period + 1]) if period + 1 < len(self.edge_s) else np.inf)
            found.append((period, at_s, until_s))
            at_s, period = until_s, period + 1
        return found

    def used(self, watts: float, begin_s: float, end_s: float) -> Amounts:
        """Return what steady watts use of each period."""
        found: Amounts = {}
        for period, first_s, last_s in self.shares(begin_s, end_s):
            joules = watts * (last_s - first_s)
            if self.series is None:
                found[period] = round(joules * 1e3)
            else:
                found[period] = round(watts * self.series.integral(first_s, last_s) * MICRO)
        return found

    def most(self, watts: float, span_s: float, begin_s: float, latest_s: float) -> Amounts:
        """Return the most that a job uses of each period that starts within two times and takes ``span_s`` at most."""
        found: Amounts = {}
        for period, first_s, last_s in self.shares(begin_s, latest_s + span_s):
            joules = watts * min(span_s, last_s - first_s)
            price = MICRO * max(0.0, self.series.maximum(first_s, last_s)) if self.series is not None else 1e3
            found[period] = int(np.ceil(joules * price))
        return found


@dataclass
class Book:
    """What is booked on one budget."""

    budget: Budget
    used: Amounts = field(default_factory=dict)
    held: dict[str, Amounts] = field(default_factory=dict)
    """What is set aside, by job."""
    total: Amounts = field(default_factory=dict)
    """What is set aside and used together."""

    def booked(self, period: int) -> int:
        """Return what is set aside for a period and used of it."""
        return self.total.get(period, 0)

    def hold(self, job: str, amounts: Amounts) -> None:
        """Set amounts aside for a job, in place of those that it had."""
        self._add(self.held.get(job, {}), -1)
        self.held[job] = amounts
        self._add(amounts, 1)

    def settle(self, job: str, amounts: Mapping[int, int]) -> None:
        """Book what a job used in place of what was set aside for it."""
        self._add(self.held.pop(job, {}), -1)
        self._add(amounts, 1)
        for period, amount in amounts.items():
            self.used[period] = self.used.get(period, 0) + amount

    def _add(self, amounts: Mapping[int, int], sign: int) -> None:
        for period, amount in amounts.items():
            self.total[period] = self.total.get(period, 0) + sign * amount

    def fits(self, amounts: Amounts, others: Mapping[int, int]) -> bool:
        """Whether amounts fit beside what is booked and what others are to get."""
        return all(
            self.booked(period) + others.get(period, 0) + amount <= self.budget.limit(period)
            for period, amount in amounts.items()
            if amount > 0
        )


def overlapping(spans: Iterable[tuple[float, float]]) -> bool:
    """Whether two of some spans have an instant in common."""
    rows = sorted(spans)
    return any(later[0] < earlier[1] for earlier, later in pairwise(rows))
