"""The bill of jobs, or their emission: the least that any schedule costs within a limit of waiting.

Prices hold from step to step. A job pays its watts above idle at the price of each instant; idle watts of all units
over a fixed horizon are the same for every schedule, and stand beside. To start late may be cheaper, so schedules are
lists in which each job has a target that it does not start before.

References: lists in which late jobs move ahead: Joslin and Clements, "Squeaky wheel optimization" (1999),
doi:10.1613/jair.561.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.errors import EngineError, InputError
from wattqueue.formats.tariff import Tariff, require_cover
from wattqueue.model.jobs import Floats
from wattqueue.model.signals import Series
from wattqueue_studies.bound.certificate import Certificate, GoalRates, proven_bill, unit_amount
from wattqueue_studies.bound.check import require_kept
from wattqueue_studies.bound.instance import MILLI, Billing, Instance, Whole
from wattqueue_studies.bound.policy_run import PolicyRun
from wattqueue_studies.bound.problem import Problem
from wattqueue_studies.bound.prove import prove
from wattqueue_studies.bound.schedules import FoundSchedule, Lists

STEPS = 1 << 20
"""Steps in which the watts of the greatest job are counted."""
LATE = 1e3
"""Ticks of cost for a tick by which a job starts too late: so much that no schedule with one is the best."""
MOST_ROUNDS, AHEAD_S = 100, 1_800.0
"""Lists in which late jobs move ahead, at most, and by how much more than they are late."""
MOVED = 0.5
"""Share of tries in which a job that gets another target moves to its place in the list, too."""


@dataclass(frozen=True, slots=True, eq=False)
class TariffLimit:
    """A price or intensity series on a window's clock, and how long jobs may wait.

    Attributes:
        series: Amounts for ``per_j`` joules.
        per_j: Joules that a price is for, whole.
        unit: Its unit, as ``EUR/MWh``.
        limit_s: Longest wait.
        asked_s: The longest wait that was asked for: less, where no schedule was found that keeps it.
    """

    series: Series
    per_j: int
    unit: str
    limit_s: float
    asked_s: float

    def facts(self) -> dict[str, object]:
        """Return what identifies the bill in a proof."""
        return {"tariff": self.unit, "wait_limit_s": self.limit_s, "wait_limit_asked_s": self.asked_s}

    def remarks(self) -> list[str]:
        """Return a sentence where the limit is not the one that was asked for."""
        asked, limit = (f"{each / 3_600:g} h" for each in (self.asked_s, self.limit_s))
        if self.limit_s == self.asked_s:
            return []
        return [f"in no schedule that was found all jobs wait at most {asked}: the bill in {self.unit} is for {limit}"]

    def horizon_s(self, problem: Problem) -> float:
        """Return the last end that any schedule within the limit can have."""
        return float(problem.jobs.release_s.max() + self.limit_s + problem.jobs.run_s.max())

    def paid(self, watts: Floats, start_s: Floats, end_s: Floats) -> Floats:
        """Return what constant watts cost between starts and ends. Shapes (n,)."""
        edges = np.column_stack((start_s, end_s)).ravel()
        return watts * self.series.integrals(edges)[::2] / self.per_j


def billed(instance: Instance, problem: Problem, tariff: TariffLimit) -> Instance:
    """Return the instance with what energy costs, rounded so that no schedule of the problem costs less there.

    Raises: InputError naming a job whose watts are not known.
    """
    jobs, hz = problem.jobs, instance.tick_hz
    unknown = np.flatnonzero(jobs.above_uw < 0)
    if len(unknown):
        raise InputError(
            "its watts are not known", where=f"job {jobs.names[jobs.job[unknown[0]]]}",
            hint="a bill needs the watts of all jobs",
        )  # fmt: skip
    step = max(1, int(jobs.above_uw.max(initial=0)) // STEPS)
    latest = np.ceil((jobs.release_s + tariff.limit_s) * hz).astype(np.int64)
    milli = np.floor(tariff.series.value * MILLI).astype(np.int64)
    least = min(0, int(milli.min()))
    # A price that falls does so a tick early, and one that rises a tick late.
    at = tariff.series.time_s * hz
    falls = np.append(False, np.diff(milli) < 0)
    time = np.maximum(np.where(falls, np.floor(at), np.ceil(at)), 0).astype(np.int64)
    time[0] = 0
    last = np.append(np.diff(time) > 0, True)
    billing = Billing(step, tariff.per_j, jobs.above_uw // step, latest, time[last], milli[last] - least, least)
    return replace(instance, billing=billing)


def even_rate(instance: Instance) -> float:
    """Return ticks for a unit of the bill at which jobs at the mean price cost as much as their run times."""
    billing = instance.billing
    if billing is None:
        raise EngineError("an instance without prices has no bill", where="certificate")
    mean = max(float(np.mean(billing.price)), 1.0)
    return float(instance.least(instance.run).sum()) / max(
        float(instance.least(billing.watts * instance.run).sum()) * mean, 1.0
    )


def limit_of(tariff: Tariff, problem: Problem, begin_s: float, limits_s: tuple[float, float]) -> TariffLimit:
    """Return a series on a window's clock; ``limits_s``: longest wait, and the one that was asked for.

    Raises: InputError for a series that does not cover every schedule within the limit.
    """
    series, source = Series(tariff.series.time_s - begin_s, tariff.series.value), tariff.source
    found = TariffLimit(series, int(source.per_j), source.unit, *limits_s)
    end_s = begin_s + found.horizon_s(problem)
    require_cover(tariff, begin_s, end_s, (f"{begin_s:,.0f} s", f"{end_s:,.0f} s"))
    return found


def kept_limit(
    problem: Problem, found: Sequence[FoundSchedule], tariff: Tariff, limit_s: float, begin_s: float
) -> TariffLimit:
    """Return a series with a limit of waiting; a longer one, in whole hours, where no schedule is found that keeps it.

    Raises: InputError as ``limit_of``.
    """
    low = high = 0
    while in_time(problem, found, limit_s + 3_600.0 * high) is None:
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if in_time(problem, found, limit_s + 3_600.0 * middle) is None else (low, middle)
    return limit_of(tariff, problem, begin_s, (limit_s + 3_600.0 * high, limit_s))


def in_time(problem: Problem, found: Sequence[FoundSchedule], limit_s: float) -> FoundSchedule | None:
    """Return a schedule in which no job waits longer; None where none is found.

    Lists begin in the order of the latest starts; jobs that are late move ahead.
    """
    lists, latest = Lists(problem), latest_starts(problem, limit_s)
    key = latest.astype(np.float64)
    for one in found:
        if (one.start <= latest).all():
            return one
    for _ in range(MOST_ROUNDS):
        listed = lists.schedule(np.argsort(key, kind="stable").astype(np.int64))
        late = np.maximum(listed.start - latest, 0) if listed is not None else np.zeros(1)
        if listed is None or not late.any():
            return listed
        key -= np.where(late > 0, late + AHEAD_S * problem.tick_hz, 0.0)
    return None


def latest_starts(problem: Problem, limit_s: float) -> Whole:
    """Return the last tick at which each job may start. Shape (n,)."""
    return np.floor((problem.jobs.release_s + limit_s) * problem.tick_hz).astype(np.int64)


class BillLists:
    """Schedules of a problem by lists with targets, judged by ends at a weight and the bill at a rate."""

    def __init__(self, problem: Problem, instance: Instance, tariff: TariffLimit, goal: GoalRates) -> None:
        """Prepare the arrays: what an option costs beside its start is estimated at the mean price."""
        self.problem, self.tariff, self.goal = problem, tariff, goal
        self.rate = goal.bill / unit_amount(instance) if goal.bill else 0.0
        jobs = problem.jobs
        self.watts: Floats = jobs.above_uw.astype(np.float64) * 1e-6
        mean = max(float(np.mean(tariff.series.value)) / tariff.per_j, 0.0)
        times = problem.tick_hz * float(goal.times)
        self.lists = Lists(problem, np.ceil(jobs.run_s * (times + self.rate * mean * self.watts)).astype(np.int64))
        self.plain = self.lists.jobs
        self.latest = latest_starts(problem, tariff.limit_s)

    def bill(self, found: FoundSchedule) -> float:
        """Return the amount of a schedule."""
        return float(self.tariff.paid(self.watts[found.option], *found.seconds(self.problem)).sum())

    def cost(self, found: FoundSchedule) -> float:
        """Return what is made small, in ticks; starts that are too late cost very much."""
        ends = found.start + self.plain.run[found.option]
        late = np.maximum(found.start - self.latest, 0).sum()
        return float(ends.sum()) * float(self.goal.times) + self.rate * self.bill(found) + LATE * float(late)

    def scheduled(self, key: Floats | Whole, target: Whole) -> FoundSchedule | None:
        """Return the list by keys, in which no job starts before its target; None where a job never fits."""
        self.lists.jobs = self.plain._replace(release=np.maximum(self.plain.release, target))
        return self.lists.schedule(np.argsort(key, kind="stable").astype(np.int64))

    def candidates(self) -> list[Whole]:
        """Return starts of each job that may be cheapest: its release, the latest, those at which prices change."""
        hz = self.problem.tick_hz
        steps = np.ceil(self.tariff.series.time_s * hz).astype(np.int64)
        found = []
        for j, first in enumerate(self.plain.first[:-1].tolist()):
            low, high = int(self.plain.release[j]), int(self.latest[j])
            near = steps[(steps > low) & (steps < high + self.plain.run[first])]
            starts = np.concatenate((near, near - self.plain.run[first], [low, high]))
            found.append(np.unique(starts[(starts >= low) & (starts <= max(high, low))]))
        return found

    def improved(self, begins: Sequence[Whole], tries: int, rng: np.random.Generator) -> FoundSchedule | None:
        """Return the best schedule that so many changed targets find, begun from the best of some starts."""
        scheduled = [(k, self.scheduled(begin, begin)) for k, begin in enumerate(begins)]
        begun = [(self.cost(one), k, one) for k, one in scheduled if one is not None]
        if not begun:
            return None
        now, k, best = min(begun)
        key, target, least, starts = begins[k].astype(np.float64), begins[k].copy(), now, self.candidates()
        warmth = 0.02 * abs(now) / len(target) * np.geomspace(1.0, 1e-3, max(tries, 1))
        for t in range(tries):
            j = int(rng.integers(len(target)))
            before, target[j] = (key[j], target[j]), starts[j][int(rng.integers(len(starts[j])))]
            key[j] = target[j] if rng.random() < MOVED else key[j]
            found = self.scheduled(key, target)
            cost = np.inf if found is None else self.cost(found)
            if found is None or cost > now - warmth[t] * np.log1p(-rng.random()):
                key[j], target[j] = before
                continue
            now = cost
            if cost < least:
                least, best = cost, found
        return best


@dataclass(frozen=True, slots=True, eq=False)
class BoundedBill:
    """The least bill of a window: three numbers, and what stands beside them.

    Attributes:
        limit: Prices, and the longest wait.
        bound: Least amount of all jobs above idle, proven.
        best: Least amount of a schedule that was found.
        policy: The policy's amount; None where it has no schedule that may be compared.
        undefined: Why it is not compared with the bound; empty where it is.
        idle: Amount of the idle watts of all units up to ``horizon_s``, the same for every schedule.
        horizon_s: The last end that any schedule within the limit can have.
        instance: The instance with its prices.
        certificate: What proves the bound.
    """

    limit: TariffLimit
    bound: float
    best: float
    policy: float | None
    undefined: str
    idle: float
    horizon_s: float
    instance: Instance
    certificate: Certificate

    @property
    def amount(self) -> str:
        """Return what is paid: ``EUR``."""
        return self.limit.unit.partition("/")[0]

    @property
    def ratio(self) -> float | None:
        """Return bound over best known; None where the bill is not positive."""
        return self.bound / self.best if self.best > 0.0 else None

    def as_json(self) -> dict[str, Any]:
        """Return every figure."""
        return {
            "unit": self.limit.unit, "wait_limit_s": self.limit.limit_s, "wait_limit_asked_s": self.limit.asked_s,
            "bound": self.bound, "best_known": self.best, "policy": self.policy, "undefined": self.undefined,
            "ratio": self.ratio, "idle": self.idle, "horizon_s": self.horizon_s,
        }  # fmt: skip

    def with_policy(self, problem: Problem, policy: PolicyRun | None, why: str) -> BoundedBill:
        """Return the bill with that of the policy, or the reason why there is none."""
        if policy is None:
            return replace(self, undefined=why)
        jobs, limit = problem.jobs, self.limit
        watts: Floats = jobs.above_uw[policy.option].astype(np.float64) * 1e-6
        amount = float(limit.paid(watts, policy.start_s, policy.end_s).sum())
        waits = policy.start_s - jobs.release_s
        j = int(np.argmax(waits))
        if waits[j] > limit.limit_s + 1e-3:
            told = f"job {jobs.names[j]} waits {waits[j] / 3_600:.1f} h, more than {limit.limit_s / 3_600:g} h"
            return replace(self, policy=amount, undefined=told)
        return replace(self, policy=amount, best=min(amount, self.best))


def bound_bill(
    problem: Problem,
    instance: Instance,
    limit: TariffLimit,
    found: Sequence[FoundSchedule],
    idle_w: float,
    tries: int,
    rng: np.random.Generator,
) -> BoundedBill:
    """Return the least bill of a problem; ``found`` are schedules to begin with. No policy is compared yet.

    ``tries``: targets that are changed, before prices are looked for and again near the program's solution.

    Raises: InputError naming a job whose watts are not known; EngineError where no schedule keeps the limit.
    """
    whole = billed(instance, problem, limit)
    begin = in_time(problem, found, limit.limit_s)
    if begin is None:
        raise EngineError("no schedule keeps the limit of waiting", where="bill")
    goal = GoalRates(ends=False, bill=even_rate(whole), times=False)
    lists = BillLists(problem, whole, limit, goal)

    def improved(starts: Sequence[Whole], known: Sequence[FoundSchedule]) -> list[FoundSchedule]:
        more = lists.improved([*starts, *(one.start for one in known)], tries, rng)
        return [one for one in (more, *known) if one is not None and (one.start <= lists.latest).all()]

    fit = improved([lists.plain.release], [begin, *found])
    proven = prove(whole, [replace(one, total=round(lists.cost(one))) for one in fit], goal, steps=0)
    fit = improved([np.rint(start).astype(np.int64) for start in (proven.main_start, proven.mean_start)], fit)
    horizon_s = limit.horizon_s(problem)
    idle = float(limit.paid(np.array([idle_w]), np.zeros(1), np.array([horizon_s]))[0])
    for one in fit:
        require_kept(problem, one.option, *one.seconds(problem))
    best = min(map(lists.bill, fit))
    bound = proven_bill(whole, proven.certificate)
    return BoundedBill(limit, bound, best, None, "", idle, horizon_s, whole, proven.certificate)
