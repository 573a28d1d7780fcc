"""The bill of jobs, or their emission: the least that any schedule costs within a limit of waiting.

Prices hold from step to step. A job pays its watts above idle at the price of each instant; idle watts of all units
over a fixed horizon are the same for every schedule, and stand beside. To start late may be cheaper, so schedules are
lists in which each job has a target that it does not start before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wattqueue.errors import EngineError, InputError
from wattqueue.model.jobs import Floats
from wattqueue.model.signals import Series
from wattqueue_studies.bound.certificate import BILL_SHIFT, Certificate, GoalRates, proven_bill, unit_amount
from wattqueue_studies.bound.check import replay
from wattqueue_studies.bound.instance import MILLI, Billing, Instance, Whole
from wattqueue_studies.bound.problem import Problem
from wattqueue_studies.bound.prove import prove
from wattqueue_studies.bound.schedules import FoundSchedule, Lists
from wattqueue_studies.bound.store import BILL

STEPS = 1 << 20
"""Steps in which the watts of the greatest job are counted."""
LATE = 1e3
"""Ticks of cost for a tick by which a job starts too late: so much that no schedule with one is the best."""
RATES = 0.1, 10.0
"""Least and greatest rate of the front: shares of that at which the bill of jobs costs as much as their run times."""


@dataclass(frozen=True, slots=True, eq=False)
class TariffLimit:
    """A price or intensity series on a window's clock, and how long jobs may wait.

    Attributes:
        series: Amounts for ``per_j`` joules.
        per_j: Joules that a price is for, whole.
        unit: Its unit, as ``EUR/MWh``.
        limit_s: Longest wait.
    """

    series: Series
    per_j: int
    unit: str
    limit_s: float

    def horizon_s(self, problem: Problem) -> float:
        """Return the last end that any schedule within the limit can have."""
        return float(problem.jobs.release_s.max() + self.limit_s + problem.jobs.run_s.max())

    def paid(self, watts: Floats, start_s: Floats, end_s: Floats) -> Floats:
        """Return what constant watts cost between starts and ends. Shapes (n,)."""
        time = self.series.time_s
        reached = np.append(0.0, np.cumsum(self.series.value[:-1] * np.diff(time)))

        def until(at_s: Floats) -> Floats:
            row = np.maximum(np.searchsorted(time, at_s, side="right") - 1, 0)
            found: Floats = reached[row] + self.series.value[row] * (at_s - time[row])
            return found

        return watts * (until(end_s) - until(start_s)) / self.per_j


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


class BillLists:
    """Schedules of a problem by lists with targets, judged by ends at a weight and the bill at a rate."""

    def __init__(self, problem: Problem, instance: Instance, tariff: TariffLimit, goal: GoalRates) -> None:
        """Prepare the arrays: what an option costs beside its start is estimated at the mean price."""
        rate = goal.bill / unit_amount(instance) if goal.bill else 0.0
        self.problem, self.tariff, self.goal, self.rate = problem, tariff, goal, rate
        jobs = problem.jobs
        self.watts: Floats = jobs.above_uw.astype(np.float64) * 1e-6
        mean = float(np.mean(tariff.series.value)) / tariff.per_j
        pay = np.ceil(
            jobs.run_s * problem.tick_hz * float(goal.times) + rate * np.maximum(mean, 0.0) * self.watts * jobs.run_s
        )
        self.lists = Lists(problem, pay.astype(np.int64))
        self.plain = self.lists.jobs
        self.latest = np.floor((jobs.release_s + tariff.limit_s) * problem.tick_hz).astype(np.int64)

    def bill(self, found: FoundSchedule) -> float:
        """Return the amount of a schedule."""
        start_s: Floats = np.asarray(found.start / self.problem.tick_hz, np.float64)
        end_s: Floats = start_s + self.problem.jobs.run_s[found.option]
        return float(self.tariff.paid(self.watts[found.option], start_s, end_s).sum())

    def cost(self, found: FoundSchedule) -> float:
        """Return what is made small, in ticks; starts that are too late cost very much."""
        ends = found.start + self.plain.run[found.option]
        late = np.maximum(found.start - self.latest, 0).sum()
        return float(ends.sum()) * float(self.goal.times) + self.rate * self.bill(found) + LATE * float(late)

    def scheduled(self, target: Whole) -> FoundSchedule | None:
        """Return the list by targets, in which no job starts before its own; None where a job never fits."""
        self.lists.jobs = self.plain._replace(release=np.maximum(self.plain.release, target))
        return self.lists.schedule(np.argsort(target, kind="stable").astype(np.int64))

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

    def improved(self, targets: Sequence[Whole], tries: int, rng: np.random.Generator) -> FoundSchedule | None:
        """Return the best schedule that so many changed targets find, begun from the best of some."""
        begun = [(self.cost(one), k, one) for k, one in enumerate(map(self.scheduled, targets)) if one is not None]
        if not begun:
            return None
        now, k, best = min(begun)
        target, least, starts = np.array(targets[k]), now, self.candidates()
        warmth = 0.02 * abs(now) / len(target) * np.geomspace(1.0, 1e-3, max(tries, 1))
        for t in range(tries):
            j = int(rng.integers(len(target)))
            before, target[j] = target[j], starts[j][int(rng.integers(len(starts[j])))]
            found = self.scheduled(target)
            cost = np.inf if found is None else self.cost(found)
            if found is None or cost > now - warmth[t] * np.log1p(-rng.random()):
                target[j] = before
                continue
            now = cost
            if cost < least:
                least, best = cost, found
        return best

    def kept(self, found: FoundSchedule) -> bool:
        """Return whether no job waits too long. Raises: EngineError if a replay finds another rule broken."""
        start_s = found.start / self.problem.tick_hz
        checked = replay(self.problem, found.option, start_s, start_s + self.problem.jobs.run_s[found.option])
        if checked.broken or checked.above_cap:
            raise EngineError(
                checked.broken or "a schedule that was found exceeds the cap", where="best schedule known"
            )
        return bool((found.start <= self.latest).all())


@dataclass(frozen=True, slots=True, eq=False)
class BoundedBill:
    """The least bill of a window: three numbers, and what stands beside them.

    Attributes:
        unit: Unit of the prices.
        limit_s: Longest wait.
        bound: Least amount of all jobs above idle, proven.
        best: Least amount of a schedule that was found; None where none kept the limit of waiting.
        policy: The policy's amount; None where it may not be compared.
        undefined: Why not; empty where it may.
        idle: Amount of the idle watts of all units up to ``horizon_s``, the same for every schedule.
        horizon_s: The last end that any schedule within the limit can have.
        instance: The instance with its prices.
        certificates: What proves the bound, and the points of the front.
        front: Mean turnaround and bill together, by the rate.
    """

    unit: str
    limit_s: float
    bound: float
    best: float | None
    policy: float | None
    undefined: str
    idle: float
    horizon_s: float
    instance: Instance
    certificates: Mapping[str, Certificate]
    front: list[dict[str, float | None]]

    @property
    def amount(self) -> str:
        """Return what is paid: ``EUR``."""
        return self.unit.partition("/")[0]

    @property
    def ratio(self) -> float | None:
        """Return bound over best known; None where there is none, or the bill is not positive."""
        return self.bound / self.best if self.best is not None and self.best > 0.0 else None

    def as_json(self) -> dict[str, Any]:
        """Return every figure."""
        return {
            "unit": self.unit, "wait_limit_s": self.limit_s, "bound": self.bound, "best_known": self.best,
            "policy": self.policy, "undefined": self.undefined, "ratio": self.ratio, "idle": self.idle,
            "horizon_s": self.horizon_s, **({"front": self.front} if self.front else {}),
        }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class BillSearch:
    """How much is searched for a bill: changed targets, rates of the front, and a seed."""

    tries: int
    front: int
    seed: int


def bound_bill(
    problem: Problem,
    instance: Instance,
    tariff: TariffLimit,
    found: Sequence[FoundSchedule],
    idle_w: float,
    search: BillSearch,
) -> BoundedBill:
    """Return the least bill of a problem; ``found`` are schedules to begin with. No policy is compared yet.

    Raises: InputError naming a job whose watts are not known.
    """  # fmt: skip
    whole = billed(instance, problem, tariff)
    even, rng = even_rate(whole), np.random.default_rng(search.seed)
    certificate, known = _proven(
        problem, whole, tariff, GoalRates(ends=False, bill=even, times=False), found, search, rng
    )
    lists = BillLists(problem, whole, tariff, GoalRates(bill=even))
    bills = [lists.bill(one) for one in known if lists.kept(one)]
    front, certificates = [], {BILL: certificate}
    for k, rate in enumerate(even * np.geomspace(*RATES, search.front) if search.front else ()):
        goal = GoalRates(bill=float(rate))
        certificates[f"front_{k}"], near = _proven(problem, whole, tariff, goal, found, search, rng)
        front.append(
            _front_row(whole, certificates[f"front_{k}"], BillLists(problem, whole, tariff, goal), [*near, *known])
        )
    horizon_s = tariff.horizon_s(problem)
    idle = float(tariff.paid(np.array([idle_w]), np.zeros(1), np.array([horizon_s]))[0])
    return BoundedBill(
        tariff.unit, tariff.limit_s, proven_bill(whole, certificate), min(bills, default=None), None, "", idle,
        horizon_s, whole, certificates, front,
    )  # fmt: skip


def _proven(
    problem: Problem,
    instance: Instance,
    tariff: TariffLimit,
    goal: GoalRates,
    found: Sequence[FoundSchedule],
    search: BillSearch,
    rng: np.random.Generator,
) -> tuple[Certificate, list[FoundSchedule]]:
    """Return what proves an objective, and schedules that were found for it."""  # fmt: skip
    lists = BillLists(problem, instance, tariff, goal)
    targets = [lists.plain.release, *(one.start for one in found)]
    first = lists.improved(targets, search.tries, rng)
    known = [*found, *([] if first is None else [first])]
    fit = [replace(one, total=round(lists.cost(one))) for one in known if (one.start <= lists.latest).all()]
    if not fit:  # any prices prove a bound: at none, each job alone pays its cheapest start
        fit = [replace(known[-1], start=np.minimum(known[-1].start, lists.latest))]
    proven = prove(instance, fit, goal, steps=0)
    near = [np.rint(start).astype(np.int64) for start in (proven.main_start, proven.mean_start)]
    again = lists.improved([*near, *(one.start for one in fit)], search.tries, rng)
    return proven.certificate, [*known, *([] if again is None else [again])]


def _front_row(
    instance: Instance, certificate: Certificate, lists: BillLists, found: Sequence[FoundSchedule]
) -> dict[str, float | None]:
    """Return a point of the front: mean turnaround in seconds, and the mean bill of a job at the rate."""
    n, hz = len(instance), instance.tick_hz
    rate = certificate.objective.bill_rate / 2.0 ** (BILL_SHIFT + certificate.shift) / unit_amount(instance) / hz
    ticks = certificate.value(instance) / 2.0**certificate.shift - int(instance.release_up.sum())
    released_s = float(lists.problem.jobs.release_s.sum())
    known = [
        (one.start.sum() / hz + lists.problem.jobs.run_s[one.option].sum() - released_s + rate * lists.bill(one)) / n
        for one in found
        if (one.start <= lists.latest).all()
    ]
    return {"s_per_amount": rate, "bound_s": ticks / hz / n, "best_known_s": min(map(float, known), default=None)}
