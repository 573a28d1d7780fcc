"""Budgets of energy, money or carbon by users and period, and what is booked on them, in whole numbers.

Energy is counted in millijoules, any other amount in millionths of its unit. What is booked on a period of a budget is
what running jobs have set aside and what ended jobs used; both are sums of whole numbers, so that nothing is lost.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.signals import Series
from wattqueue.model.spare_hours import SpareHours

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
    project: str = ""
    """A project of the resource manager in place of users: in Slurm the wckey of a job."""
    spare: SpareHours | None = None
    """Hours in which jobs run for which it has no room; None: they wait."""

    @cached_property
    def edges(self) -> list[float]:
        """The begins as plain numbers, which are searched often."""
        return list(map(float, self.edge_s))

    @property
    def whole(self) -> int:
        """Of what amounts count, as many as one unit has."""
        return MJ_PER_KWH if self.series is None else MICRO

    def concerns(self, user: str, account: str = "", project: str = "") -> bool:
        """Whether jobs of a user, submitted to an account and for a project, are booked."""
        if self.account or self.project:
            return account == self.account if self.account else project == self.project
        return not self.users or user in self.users

    def period(self, time_s: float) -> int:
        """Return the number of the period at a time; periods before the first and after the last have no limit."""
        return bisect_right(self.edges, time_s) - 1

    def renewal_s(self, time_s: float) -> float:
        """Return when the period at a time ends; inf after the last one."""
        following = self.period(time_s) + 1
        return self.edges[following] if following < len(self.edges) else math.inf

    def limit(self, period: int) -> float:
        """Return what may be booked on a period."""
        return self.amount if 0 <= period < len(self.edges) - 1 else math.inf

    def shares(self, begin_s: float, end_s: float) -> list[tuple[int, float, float]]:
        """Return (period, begin, end) of each part of a span, in their order."""
        found, at_s, period = [], begin_s, self.period(begin_s)
        while at_s < end_s:
            until_s = min(end_s, self.edges[period + 1]) if period + 1 < len(self.edges) else end_s
            found.append((period, at_s, until_s))
            at_s, period = until_s, period + 1
        return found

    def in_spare_hours(self, begin_s: float, end_s: float) -> bool:
        """Whether what starts and ends within two times runs in spare hours alone."""
        return self.spare is not None and self.spare.span(begin_s, end_s - begin_s)[0] <= begin_s

    def next_chance_s(self, time_s: float, span_s: float) -> float:
        """Return when a job may start that takes so long, and for which there is no room at a time."""
        renewal_s = self.renewal_s(time_s)
        return renewal_s if self.spare is None else min(renewal_s, self.spare.span(time_s, span_s)[0])

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
            found[period] = math.ceil(joules * price)
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
    spare: set[str] = field(default_factory=set)
    """Jobs that run in spare hours: nothing is set aside for them, and what they use is not of the budget."""
    beyond: Amounts = field(default_factory=dict)
    """What they used."""
    idle: Amounts = field(default_factory=dict)
    """What ended jobs had set aside and did not use, times the seconds that they had it."""

    def booked(self, period: int) -> int:
        """Return what is set aside for a period and used of it."""
        return self.total.get(period, 0)

    def hold(self, job: str, amounts: Amounts, *, spare: bool = False) -> None:
        """Set amounts aside for a job, in place of those that it had; ``spare``: it runs in spare hours."""
        if spare:
            self.spare.add(job)
            amounts = {}
        add_to(self.total, self.held.get(job, {}), -1)
        self.held[job] = amounts
        add_to(self.total, amounts)

    def settle(self, job: str, amounts: Mapping[int, int], had_s: float = 0.0) -> None:
        """Book what a job used in place of what was set aside for it, which it had for so many seconds."""
        held = self.held.pop(job, {})
        add_to(self.total, held, -1)
        add_to(self.idle, {p: round(max(0, more - amounts.get(p, 0)) * had_s) for p, more in held.items() if had_s})
        if job in self.spare:
            self.spare.discard(job)
            add_to(self.beyond, amounts)
        else:
            add_to(self.total, amounts)
            add_to(self.used, amounts)

    def kept_periods(self, time_s: float) -> tuple[int, int]:
        """Return how many periods were kept of those that something was used of and that are over at a time."""
        over = [period for period, used in self.used.items() if used > 0 and 0 <= period < self.budget.period(time_s)]
        return sum(self.used[period] <= self.budget.limit(period) for period in over), len(over)

    def idle_share(self, begin_s: float, end_s: float) -> float:
        """Return the part of the budget that was set aside and never used: its mean over the time of some periods."""
        periods = range(
            max(0, self.budget.period(begin_s)), min(self.budget.period(end_s), len(self.budget.edge_s) - 2) + 1
        )
        idle = sum(self.idle.get(period, 0) for period in periods)
        edge_s = self.budget.edge_s
        seconds = (
            min(end_s, float(edge_s[periods[-1] + 1])) - max(begin_s, float(edge_s[periods[0]])) if periods else 0.0
        )
        return idle / (self.budget.amount * seconds) if self.budget.amount and seconds > 0.0 else 0.0

    def fits(self, amounts: Amounts, others: Mapping[int, int]) -> bool:
        """Whether amounts fit beside what is booked and what others are to get."""
        for period, amount in amounts.items():
            if amount > 0 and self.booked(period) + others.get(period, 0) + amount > self.budget.limit(period):
                return False
        return True


def add_to(sums: Amounts, amounts: Mapping[int, int], sign: int = 1) -> None:
    """Add amounts to sums by period."""
    for period, amount in amounts.items():
        sums[period] = sums.get(period, 0) + sign * amount


def overlapping(spans: Iterable[tuple[float, float]]) -> bool:
    """Whether two of some spans have an instant in common."""
    rows = sorted(spans)
    return any(later[0] < earlier[1] for earlier, later in pairwise(rows))
