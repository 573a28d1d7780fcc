"""Own prices of jobs for being run in an interval: a bound that knows which jobs fit side by side.

The linear program shares out nodes as if jobs could be cut to size. Here each job has a price of its own in each
interval, and what is charged is the best set that fits there (a knapsack). At prices of nodes times the job's nodes
the bound is at least that of the program; a subgradient ascent improves it from there.

Reference: Barahona and Anbil, "The volume algorithm: producing primal solutions with a subgradient method" (2000),
doi:10.1007/s101070050002.
"""

from __future__ import annotations

import numpy as np

from wattqueue.kernels.knapsack import Knapsacks, best_sets
from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.certificate import GoalRates, OwnPrices, knapsack_sizes
from wattqueue_studies.bound.columns import Prices, Pricing
from wattqueue_studies.bound.instance import Instance, Whole

REACH = 2.0
"""Own prices of a job end where it costs so many times what it costs in the linear program, counted from its release:
later starts cost more by themselves."""
FIRST_STEP, LAST_STEP = 4e-3, 1e-7
"""Rise that is aimed at, as a share of the bound: at first, and where the ascent ends."""
MISSES = 20
"""Steps without a rise after which a smaller one is aimed at."""
LEAST_SHARE, MOST_SHARE = 0.002, 0.02
"""Share of the newest subgradient in the running average."""
LEAST_PAID = 0.01
"""Least share of all payments that a partition's units have for own prices to be worth their time."""
MOST_UNITS = 2_048
"""Most columns of a knapsack's table; of more units, or watts, several count as one."""
FEW_JOBS, FEW_STEPS = 100, 3_000
"""Most jobs for own prices where several units count as one, and most steps: tables are wide there."""


class Ascent:
    """The bound at own prices, and its subgradient.

    ``own`` (h,): the prices in ticks of cost, none where they are not worth their time; ``place``: what they are of;
    ``price`` (R, K): those of the other resources.
    """

    def __init__(self, instance: Instance, edge: Whole, prices: Prices, goal: GoalRates) -> None:
        """Begin with the linear program's prices of the partition that is paid most."""
        area = np.array(instance.capacity(edge), np.float64)
        paid = (prices.price * area).sum(axis=1)
        self.resource = int(np.argmax(paid))
        self.price = prices.price.copy()
        self.own = np.zeros(0)
        self.unit = -(-int(instance.free[self.resource].max()) // MOST_UNITS)
        few = self.unit <= 1 or len(instance) <= FEW_JOBS
        if not few or paid[self.resource] <= LEAST_PAID * paid.sum():
            return
        low, first = _ranges(instance, edge, prices)
        self.place = OwnPrices(self.resource, low, first, np.zeros(int(first[-1]), np.int64), self.unit)
        self.pricing = Pricing(instance, edge, goal, self.place)
        self.found = self.pricing.found(1)
        self.job, interval = self.place.places()
        room, needs = knapsack_sizes(instance, edge, self.resource, self.unit)
        amount = instance.least(instance.amount[:, self.resource])[self.job]
        self.own = amount * self.price[self.resource][interval]
        self.price[self.resource] = 0.0
        self.length = np.diff(edge).astype(np.float64)
        self.weight = self.length[interval]
        self.begin, self.end = edge[interval].astype(np.float64), edge[interval + 1].astype(np.float64)
        self.sacks = _knapsacks(room, interval, needs[self.job])

    def bound(self, own: Floats) -> tuple[float, Floats]:
        """Return the bound at own prices (h,), and by how much of its interval each is used beyond the best sets."""
        self.pricing.grid.own[:] = own
        self.sacks.worth[:] = own
        total = self.pricing.bound(self.price, self.found) - best_sets(self.sacks, self.length)
        start = self.found.start[:, 0]
        end = start + self.pricing.jobs.run[self.found.option[:, 0]]
        used = np.minimum(self.end, end[self.job]) - np.maximum(self.begin, start[self.job])
        slope: Floats = np.maximum(used, 0.0) / self.weight - self.sacks.chosen
        return total, slope

    def climb(self, most_steps: int) -> Floats:
        """Return the best own prices found in so many steps; fewer where several units count as one. Shape (h,).

        Each step begins at the best prices, along a running average of the subgradients: the volume algorithm.
        """
        most_steps = most_steps if self.unit == 1 else min(most_steps, FEW_STEPS)
        best, misses = self.own, 0
        value, direction = self.bound(best)
        rise = FIRST_STEP * abs(value)
        for _ in range(most_steps):
            size = self._product(direction, direction)
            if size == 0.0 or rise < LAST_STEP * abs(value):
                break
            own = np.maximum(best + rise / size * direction, 0.0)
            found, slope = self.bound(own)
            if found > value:
                value, best, misses = found, own, 0
                rise *= 1.1 if self._product(slope, direction) > 0.0 else 1.0
            else:
                misses += 1
                rise *= 1.0 if misses % MISSES else 0.66
            apart = direction - slope
            shortest = self._product(direction, apart) / max(self._product(apart, apart), 1e-300)
            direction = direction - float(np.clip(shortest, LEAST_SHARE, MOST_SHARE)) * apart
        return best

    def _product(self, one: Floats, other: Floats) -> float:
        """Return the inner product of two directions, in which a price counts by the length of its interval."""
        # No np.dot: BLAS shares long ones out to threads, whose waiting takes many times what the sum does.
        return float((one * self.weight * other).sum())


def _ranges(instance: Instance, edge: Whole, prices: Prices) -> tuple[Whole, Whole]:
    """Return the first interval of each job's own prices (n,), and the first place of each job (n + 1,)."""
    most = len(edge) - 1
    low = np.minimum(np.searchsorted(edge, instance.release, side="right") - 1, most - 1)
    until = instance.release + REACH * (prices.cheapest - instance.release)
    high = np.clip(np.searchsorted(edge, until, side="left"), low, most)
    return low.astype(np.int64), np.append(0, np.cumsum(high - low)).astype(np.int64)


def _knapsacks(room: Whole, interval: Whole, needs: Whole) -> Knapsacks:
    """Return the knapsack of each interval. Shapes (K,), then (h,)."""
    item = np.argsort(interval, kind="stable").astype(np.int64)
    first = np.searchsorted(interval[item], np.arange(len(room) + 1)).astype(np.int64)
    table = np.zeros((int(np.diff(first).max(initial=0)) + 1, int(room.max()) + 1))
    h = len(interval)
    return Knapsacks(first, item, np.zeros(h), needs, np.ascontiguousarray(room), np.zeros(h, np.int8), table)
