"""Prices that prove a bound, in whole numbers: what anybody can check without the program that found them.

A price of 0 or more for each resource and interval of a grid, and own prices of jobs for being run in an interval. For
any such prices no schedule has a smaller sum than ``value``: each job alone pays at least its cheapest start, and no
schedule uses more than is free in an interval (capacities averaged), nor runs jobs beside each other that do not fit
(own prices, at most the best knapsack). Everything is int64 or Python's integers: nothing is rounded.

Reference: Sousa and Wolsey, "A time indexed formulation of non-preemptive single machine scheduling problems" (1992),
doi:10.1007/BF01585718; Lagrangian bounds: Fisher (1981), doi:10.1287/mnsc.27.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError, InputError
from wattqueue_studies.bound.instance import MILLI, Instance, Whole

Floats = NDArray[np.float64]

MOST_BITS, MOST_SHIFT, BILL_SHIFT = 62, 36, 40
"""Sums stay below 2**62; a tick is at most 2**36 units of cost; rates of bills are counted in 2**-40."""


@dataclass(frozen=True, slots=True, eq=False)
class OwnPrices:
    """Prices of single jobs for being run in an interval, in place of a price of one resource.

    Attributes:
        resource: The resource: the units of a partition, or watts.
        unit: Amounts of it that count as one where sets are chosen that fit: jobs are rounded down, what is free up.
        low: First interval of each job. Shape (n,).
        first: First price of each job, and the number of prices. Shape (n + 1,).
        value: Prices, those of a job for neighbouring intervals. Shape (h,).
    """

    resource: int
    low: Whole
    first: Whole
    value: Whole
    unit: int = 1

    @classmethod
    def none(cls, jobs: int) -> Self:
        """Return no prices."""
        return cls(0, np.zeros(jobs, np.int64), np.zeros(jobs + 1, np.int64), np.zeros(0, np.int64))

    def trimmed(self) -> Self:
        """Return the same without the prices of 0 before and behind all others of a job."""
        job, _ = self.places()
        job, used = job[self.value > 0], np.flatnonzero(self.value)
        begin, end = self.first[:-1].copy(), self.first[:-1].copy()
        begin[job[::-1]], end[job] = used[::-1], used + 1  # of a job's places the last one that is written stays
        kept = np.repeat(begin, np.diff(self.first)), np.repeat(end, np.diff(self.first))
        place = np.arange(len(self.value))
        value = self.value[(place >= kept[0]) & (place < kept[1])]
        return replace(
            self, low=self.low + begin - self.first[:-1], first=np.append(0, np.cumsum(end - begin)), value=value
        )

    def places(self) -> tuple[Whole, Whole]:
        """Return the job and the interval of each price. Shapes (h,)."""
        job = np.repeat(np.arange(len(self.low)), np.diff(self.first))
        return job, self.low[job] + np.arange(len(job)) - self.first[job]


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """What is added up over the jobs, in ticks: the end, or the start, and energy and bill at a rate.

    Attributes:
        ends: Whether the end counts; else the start.
        energy_rate: Units of cost for a millijoule.
        bill_rate: Units of cost for 2**BILL_SHIFT units of the bill.
        times: Whether start and end count at all.
    """

    ends: bool = True
    energy_rate: int = 0
    bill_rate: int = 0
    times: bool = True


@dataclass(frozen=True, slots=True)
class GoalRates:
    """An objective in floating point: ticks for a millijoule, and for a unit of the bill."""

    ends: bool = True
    energy: float = 0.0
    bill: float = 0.0
    times: bool = True

    def whole(self, shift: int) -> Objective:
        """Return the objective in whole units of cost, 2**shift a tick."""
        bill = int(self.bill * 2.0 ** (shift + BILL_SHIFT))
        return Objective(self.ends, int(self.energy * (1 << shift)), bill, self.times)


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """Prices over a grid, and what they prove.

    Attributes:
        shift: A tick is 2**shift units of cost.
        edge: Edges of the intervals in ticks; the first is 0. Shape (K + 1,).
        price: Units of cost for one amount of a resource and tick, 0 or more. Shape (R, K).
        own: Prices of single jobs.
        objective: What is added up.
    """

    shift: int
    edge: Whole
    price: Whole
    own: OwnPrices
    objective: Objective = field(default_factory=Objective)

    def value(self, instance: Instance) -> int:
        """Return the least sum of all schedules that these prices prove, in units of cost.

        Raises: InputError for prices that do not fit the instance, are negative, or too great for 64 bits.
        """
        self._check(instance)
        cheapest = int(sum(int(v) for v in cheapest_costs(self, instance)))
        paid = sum(
            int(price) * area
            for prices, areas in zip(self.price.tolist(), instance.capacity(self.edge), strict=True)
            for price, area in zip(prices, areas, strict=True)
            if price
        )
        return cheapest - paid - knapsack_worth(self, instance)

    def ticks(self, instance: Instance) -> int:
        """Return ``value`` in whole ticks, rounded up: the sum over a schedule of whole ticks is whole, too.

        The cheapest schedule of an instance has whole ticks where all its numbers are whole.
        """
        return -((-self.value(instance)) >> self.shift)

    def _check(self, instance: Instance) -> None:
        """Raise InputError for what no bound can be computed from."""
        shapes = (
            len(self.edge) >= 2 and int(self.edge[0]) == 0 and bool((np.diff(self.edge) > 0).all()),
            self.price.shape == (len(instance.free), len(self.edge) - 1),
            self.own.low.shape == (len(instance),) and self.own.first.shape == (len(instance) + 1,),
            bool((np.diff(self.own.first) >= 0).all()) and int(self.own.first[0]) == 0,
            int(self.own.first[-1]) == len(self.own.value),
            bool((self.own.low >= 0).all() and (self.own.low + np.diff(self.own.first) < len(self.edge)).all()),
            0 <= self.shift <= MOST_SHIFT and 0 <= self.own.resource < len(instance.free) and self.own.unit >= 1,
            instance.billing is not None or not self.objective.bill_rate,
        )
        if not all(shapes):
            raise InputError("its prices do not fit the instance", where="certificate")
        rates = self.objective.energy_rate, self.objective.bill_rate
        if min(self.price.min(initial=0), self.own.value.min(initial=0), *rates, *_bill_signs(instance)) < 0:
            raise InputError("a price is negative", where="certificate")
        if greatest_cost(self, instance) >= 1 << MOST_BITS:
            raise InputError("its prices are too great for 64 bits", where="certificate")


def greatest_cost(certificate: Certificate, instance: Instance) -> int:
    """Return a number that no cost of a job exceeds, in Python's integers."""
    length = np.diff(certificate.edge).tolist()
    paid: int = sum(
        int(instance.amount[:, i].max(initial=0)) * sum(p * d for p, d in zip(row.tolist(), length, strict=True))
        for i, row in enumerate(certificate.price)
    )
    # A job pays its own prices for at most the whole grid; a set of jobs, in one tick, at most those of all jobs.
    own = int(certificate.own.value.max(initial=0)) * max(int(certificate.edge[-1]), len(instance))
    latest = int(max(instance.release.max(initial=0), certificate.edge[-1])) + 2 * int(instance.run.max(initial=0))
    energy = int(instance.energy_mj.max(initial=0)) * certificate.objective.energy_rate
    return paid + own + (latest << certificate.shift) + energy + _greatest_bill(certificate, instance)


def _greatest_bill(certificate: Certificate, instance: Instance) -> int:
    """Return a number that no job's bill exceeds, in units of cost; Python's integers."""
    billing, rate = instance.billing, certificate.objective.bill_rate
    if billing is None or not rate:
        return 0
    most = int(billing.price.max()) - billing.least
    ticks = int(certificate.edge[-1]) + int(instance.run.max(initial=0)) + 1
    return (int(billing.watts.max(initial=0)) + 1) * ((most * rate >> BILL_SHIFT) + 1) * ticks


def _bill_signs(instance: Instance) -> tuple[int, ...]:
    """Return figures of a bill that must not be negative."""
    bill = instance.billing
    return () if bill is None else (int(bill.price.min()), int(bill.watts.min(initial=0)), -bill.least)


def bill_prices(instance: Instance, edge: Whole, rate: int) -> Whole:
    """Return what a step of watts costs a tick in each interval, in units of cost, rounded down. Shape (K,)."""
    if instance.billing is None or not rate:
        return np.zeros(len(edge) - 1, np.int64)
    return np.array([int(price) * rate >> BILL_SHIFT for price in instance.billing.lowest(edge)], np.int64)


def option_costs(instance: Instance, objective: Objective, shift: int) -> Whole:
    """Return what each option costs beside its start and its bill above the least price, in units of cost. (m,).

    Where prices are negative, watts are a step more than rounded down, and a run is as long as it may truly be.
    """
    found = instance.run << shift if objective.ends and objective.times else np.zeros(len(instance.run), np.int64)
    if objective.energy_rate:
        found = found + instance.energy_mj * objective.energy_rate
    if instance.billing is not None and instance.billing.least < 0:
        least = instance.billing.least * objective.bill_rate >> BILL_SHIFT
        found = found + (instance.billing.watts + 1) * instance.longest_run * least
    return found


def cheapest_costs(certificate: Certificate, instance: Instance) -> Whole:
    """Return the least cost of each job over all its options and starts, in units of cost. Shape (n,).

    A cost is linear between the starts at which the job's start or its end is at an edge, so one of these is cheapest,
    or the release, or the latest start; after the last edge it never falls.
    """
    cost = option_costs(instance, certificate.objective, certificate.shift)
    job, own = instance.job, certificate.own
    least = np.empty(len(cost), np.int64)
    length = np.diff(certificate.edge)
    billing, every = instance.billing, certificate.price
    amount = instance.amount
    if billing is not None:  # energy is one more resource, whose price is the tariff
        every = np.vstack((every, bill_prices(instance, certificate.edge, certificate.objective.bill_rate)))
        amount = np.column_stack((amount, billing.watts))
    for row, j in enumerate(job.tolist()):
        slope = amount[row] @ every
        prices = own.value[own.first[j] : own.first[j + 1]]
        if instance.amount[row, own.resource]:
            slope[own.low[j] : own.low[j] + len(prices)] += prices
        reached = np.append(0, np.cumsum(slope * length))
        begin = int(instance.release[j]), None if billing is None else int(billing.latest[j])
        least[row] = _least_cost(certificate, slope, reached, begin, int(instance.run[row]))
    return instance.least(least + cost)


def _least_cost(certificate: Certificate, slope: Whole, reached: Whole, begin: tuple[int, int | None], run: int) -> int:
    """Return the least sum of start and payments; ``slope`` (K,) a tick, ``reached`` (K + 1,) up to each edge.

    ``begin``: the release, and the latest start, None for any.
    """
    edge, shift, (release, latest) = certificate.edge, certificate.shift, begin
    timed = int(certificate.objective.times)

    def paid(time: Whole) -> Whole:
        row = np.searchsorted(edge, time, side="right") - 1
        inside = np.minimum(row, len(slope) - 1)
        found: Whole = np.where(row < len(slope), reached[inside] + slope[inside] * (time - edge[inside]), reached[-1])
        return found

    def cost(start: Whole) -> Whole:
        found: Whole = timed * (start << shift) + paid(start + run) - paid(start)
        return found

    first = cost(np.array([release], np.int64))
    # Payments are never negative: a start that costs as much by itself is no cheaper, nor one after the last edge.
    until = int(first[0]) >> shift if timed else int(edge[-1])
    until = until if latest is None else min(until, latest)
    starts = np.concatenate((edge[(edge > release) & (edge <= until)], edge[edge <= until + run] - run, [until]))
    starts = starts[(starts > release) & (starts <= until)]
    return int(min(first[0], cost(starts).min(initial=first[0])))


def knapsack_worth(certificate: Certificate, instance: Instance) -> int:
    """Return the most that own prices are worth in any schedule: in each interval that of the best set that fits.

    The set may not take more than is ever free in the interval. The table has a row for each interval; its columns are
    numbers of units.
    """
    own = certificate.own
    if not len(own.value):
        return 0
    room, needs = knapsack_sizes(instance, certificate.edge, own.resource, own.unit)
    job, interval = own.places()
    order = np.argsort(interval, kind="stable")
    rank = np.arange(len(order)) - np.searchsorted(interval[order], interval[order])
    table = np.zeros((len(room), int(room.max()) + 1), np.int64)
    for k in range(int(rank.max()) + 1):
        rows = order[rank == k]  # at most one job of each interval
        _add_items(table, interval[rows], needs[job[rows]], own.value[rows])
    worth = table[np.arange(len(room)), room]
    return sum(int(w) * int(d) for w, d in zip(worth, np.diff(certificate.edge), strict=True) if w)


def knapsack_sizes(instance: Instance, edge: Whole, resource: int, unit: int) -> tuple[Whole, Whole]:
    """Return what fits in each interval, rounded up, and what each job needs at least, rounded down. (K,) and (n,)."""
    amount, elsewhere = instance.amount[:, resource], np.iinfo(np.int64).max
    needs = instance.least(np.where(amount > 0, amount // unit, elsewhere))
    needs[needs == elsewhere] = 0  # none of its options is there: it may be in every set
    return -(-instance.greatest(resource, edge) // unit), needs


def _add_items(table: Whole, interval: Whole, nodes: Whole, worth: Whole) -> None:
    """Let one more item into the knapsack of each interval. Shapes (K, W + 1), then (k,)."""
    width = np.arange(table.shape[1])
    place = width - nodes[:, None]
    old = table[interval]
    with_item = np.take_along_axis(old, np.maximum(place, 0), axis=1) + worth[:, None]
    table[interval] = np.where(place >= 0, np.maximum(old, with_item), old)


def unit_amount(instance: Instance) -> float:
    """Return the amount (EUR, gCO2) of a unit of the bill. Raises: EngineError for an instance without a bill."""
    if instance.billing is None:
        raise EngineError("an instance without prices has no bill", where="certificate")
    return instance.billing.step_uw * 1e-6 / instance.tick_hz / MILLI / instance.billing.per_j


def proven_bill(instance: Instance, certificate: Certificate) -> float:
    """Return the proven least amount of all jobs together."""
    return certificate.value(instance) * 2.0**BILL_SHIFT / certificate.objective.bill_rate * unit_amount(instance)


def certify(
    instance: Instance, goal: GoalRates, edge: Whole, price: Floats, own: OwnPrices, value: Floats
) -> Certificate:
    """Return the certificate of prices in ticks of floating point, as fine as 64 bits allow; negative ones become 0.

    ``price`` (R, K), and ``value`` (h,) of the places of ``own``.
    """
    most = max(float(price.max(initial=0.0)), float(value.max(initial=0.0)))
    for shift in range(min(MOST_SHIFT, MOST_BITS - 1 - int(np.ceil(np.log2(most + 1.0)))), 0, -1):
        whole = np.rint(np.maximum(price, 0.0) * (1 << shift)).astype(np.int64)
        fine = replace(own, value=np.floor(value * (1 << shift)).astype(np.int64)).trimmed()
        found = Certificate(shift, edge, whole, fine, goal.whole(shift))
        if greatest_cost(found, instance) < 1 << MOST_BITS:
            return found
    return Certificate(0, edge, np.zeros(price.shape, np.int64), OwnPrices.none(len(instance)), goal.whole(0))
