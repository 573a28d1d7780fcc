"""Prices of the time-indexed linear program, by column generation with HiGHS.

The program has a column for each job, option and start; most are never looked at. A round solves the columns that
there are, prices all others with its duals, and adds the cheapest ones. Each round's prices prove a bound, whatever
the solver did; the best prices found are returned.

Reference: van den Akker, Hurkens, Savelsbergh, "Time-indexed formulations for machine scheduling problems: column
generation" (2000), doi:10.1287/ijoc.12.2.111.11896; smoothed duals: Pessoa et al. (2018), doi:10.1287/ijoc.2017.0784.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wattqueue.errors import InputError
from wattqueue.kernels.cheapest_start import Cheapest, PricedGrid, PricedJobs, cheapest_starts
from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.certificate import GoalRates, OwnPrices
from wattqueue_studies.bound.instance import Instance, Whole

GAP = 1e-4
"""Relative difference of the program's value and the bound at which the search ends."""
MOST_ROUNDS = 200
SMOOTHED = (0.6, 0.3, 0.15, 0.0)
"""Weights of the best prices so far among those that are tried next, one after the other."""
BLOCKS = 4
"""Columns that a job may get in a round: the cheapest start of each quarter of the grid."""


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """Starts of jobs at options, as columns of the program. Shapes (k,)."""

    job: Whole
    option: Whole
    start: Whole


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices in ticks of cost, and the bound that they give in floating point.

    Attributes:
        price: Of one amount of each resource and tick. Shape (R, K).
        bound: Sum over all jobs in ticks.
        cheapest: Least cost of each job at these prices. Shape (n,).
        stopped: Why the search ended: empty where it converged.
        mean_start, main_start: Mean start of each job in the program's solution, and the one with the greatest share,
            in ticks; its release where there is no solution. Shapes (n,).
    """

    price: Floats
    bound: float
    cheapest: Floats
    stopped: str = ""
    mean_start: Floats = field(default_factory=lambda: np.zeros(0))
    main_start: Floats = field(default_factory=lambda: np.zeros(0))


class Pricing:
    """Cheapest starts at prices, by the compiled kernel; arrays are made once."""

    def __init__(self, instance: Instance, edge: Whole, goal: GoalRates, own: OwnPrices | None = None) -> None:
        """Prepare the arrays. ``own``: in which intervals jobs have own prices."""
        own, billing, n = own or OwnPrices.none(len(instance)), instance.billing, len(instance)
        self.area = np.array(instance.capacity(edge), np.float64)
        k, resources = len(edge) - 1, len(instance.free)
        # Energy is one more resource, whose price is the tariff.
        amount, price = np.zeros((len(instance.run), resources + 1)), np.zeros((resources + 1, k))
        amount[:, :-1] = instance.amount
        latest = np.full(n, np.inf)
        cost = np.asarray(instance.run * float(goal.ends and goal.times) + instance.energy_mj * goal.energy, np.float64)
        if billing is not None:
            amount[:, -1], price[-1] = billing.watts, goal.bill * billing.lowest(edge)
            latest = billing.latest.astype(np.float64)
            cost += (billing.watts + 1.0) * instance.longest_run * billing.least * goal.bill
        release, run = instance.release.astype(np.float64), instance.run.astype(np.float64)
        charged = (instance.amount[:, own.resource] > 0).astype(np.int64)
        self.jobs = PricedJobs(instance.first, release, latest, run, amount, cost, own.first, own.low, charged)
        self.grid = PricedGrid(
            edge.astype(np.float64), price, np.zeros(len(own.value)), np.array([float(goal.times)]), np.zeros(k),
            np.zeros(k + 1),
        )  # fmt: skip
        self.edge, self.cost = edge, cost

    def found(self, blocks: int) -> Cheapest:
        """Return room for the cheapest start of each block."""
        n = len(self.jobs.release)
        shape = (n, blocks)
        return Cheapest(np.empty(shape), np.empty(shape), np.empty(shape, np.int64), np.full(n, -np.inf))

    def bound(self, price: Floats, found: Cheapest) -> float:
        """Return the bound at prices (R, K); ``found`` has the starts then. Own prices are not charged here."""
        self.grid.price[:-1] = price
        return cheapest_starts(self.jobs, self.grid, found) - float((price * self.area).sum())

    def payments(self, option: Whole, start: Floats) -> Floats:
        """Return what runs cost at the prices that are set: for the time, the option and what they use. Shapes (k,)."""
        edge, price = self.grid.edge, self.grid.price
        paid = np.concatenate((np.zeros((len(price), 1)), np.cumsum(price * np.diff(edge), axis=1)), axis=1)
        end = start + self.jobs.run[option]
        total: Floats = start * self.grid.time[0] + self.cost[option]
        for i, column in enumerate(paid):
            total += self.jobs.amount[option, i] * (np.interp(end, edge, column) - np.interp(start, edge, column))
        return total


class Master:
    """The linear program of the columns that there are, in HiGHS. Rows: one for each job, then R x K capacities."""

    def __init__(self, instance: Instance, pricing: Pricing) -> None:
        """Make the rows. Raises: InputError without the package highspy."""
        try:
            import highspy
        except ImportError as error:
            raise InputError("bounds need the package highspy", hint="pip install 'wattqueue[bounds]'") from error
        self.instance, self.edge, self.pricing = instance, pricing.edge, pricing
        self.length = np.diff(pricing.edge).astype(np.float64)
        # Each row is a share of the greatest amount that is ever free: figures near 1 for the solver.
        self.unit = np.maximum(instance.free.max(axis=1), 1).astype(np.float64)
        self.tick = max(float(instance.run.mean()), 1.0)
        self.solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("threads", 1)
        n, rows = len(instance), len(pricing.area) * len(self.length)
        upper = (pricing.area / self.length / self.unit[:, None]).ravel()
        empty = np.zeros(0)
        nothing = np.zeros(0, np.int32)
        lower = np.concatenate((np.ones(n), np.full(rows, -highspy.kHighsInf)))
        self.solver.addRows(n + rows, lower, np.append(np.ones(n), upper), 0, nothing, nothing, empty)
        self.ok = highspy.HighsModelStatus.kOptimal
        self.infinity = highspy.kHighsInf
        self.columns: dict[tuple[int, int], int] = {}
        """Job of each column, by option and start."""

    def add(self, starts: Starts) -> int:
        """Add columns that are not there yet; return how many."""
        new, rows, shares = [], [], []
        for job, option, start in zip(starts.job.tolist(), starts.option.tolist(), starts.start.tolist(), strict=True):
            if (option, start) not in self.columns:
                self.columns[option, start] = job
                row, share = self._column(job, option, start)
                rows.append(row)
                shares.append(share)
                new.append((option, start))
        if new:
            k, first = len(new), np.cumsum([0, *map(len, rows)]).astype(np.int32)
            option, start = np.array(new, np.int64).T
            self.pricing.grid.price[:-1] = 0.0  # a column costs what it pays without prices of resources
            cost = self.pricing.payments(option, start.astype(np.float64)) / self.tick
            self.solver.addCols(
                k, cost, np.zeros(k), np.full(k, self.infinity), int(first[-1]), first[:-1],
                np.concatenate(rows).astype(np.int32), np.concatenate(shares),
            )  # fmt: skip
        return len(new)

    def _column(self, job: int, option: int, start: int) -> tuple[Whole, Floats]:
        """Return the rows of a column, and its figures in them."""
        end = start + int(self.instance.run[option])
        low = int(np.searchsorted(self.edge, start, side="right")) - 1
        high = min(int(np.searchsorted(self.edge, end, side="left")), len(self.length))
        used = np.arange(low, max(high, low))
        share = (np.minimum(self.edge[used + 1], end) - np.maximum(self.edge[used], start)) / self.length[used]
        amount = self.instance.amount[option] / self.unit
        resources = np.flatnonzero(amount).tolist()
        rows = [len(self.instance) + i * len(self.length) + used for i in resources]
        return (
            np.concatenate((np.array([job]), *rows)),
            np.concatenate((np.ones(1), *(amount[i] * share for i in resources))),
        )

    def solve(self) -> tuple[float, Floats, Floats] | None:
        """Return the value in ticks, prices (R, K), and the dual of each job (n,); None where the solver failed."""
        self.solver.run()
        if self.solver.getModelStatus() != self.ok:
            return None
        dual = np.array(self.solver.getSolution().row_dual) * self.tick
        n = len(self.instance)
        price = -dual[n:].reshape(len(self.unit), -1) / self.length / self.unit[:, None]
        return self.solver.getObjectiveValue() * self.tick, np.maximum(price, 0.0), dual[:n]

    def starts(self) -> tuple[Floats, Floats]:
        """Return each job's mean start in the last solution, and that with the greatest share. Shapes (n,)."""
        share = np.array(self.solver.getSolution().col_value)
        mean, main = np.zeros(len(self.instance)), self.instance.release.astype(np.float64)
        if not len(share):
            return main, main
        job = np.fromiter(self.columns.values(), np.int64)
        start = np.array([at for _, at in self.columns], np.float64)
        np.add.at(mean, job, share * start)
        order = np.argsort(share, kind="stable")
        main[job[order]] = start[order]  # the greatest share comes last
        return mean, main


def generate_columns(instance: Instance, edge: Whole, first: list[Starts], goal: GoalRates | None = None) -> Prices:
    """Return the best prices that column generation finds; ``first`` are schedules to begin with, at least one.

    A solver that fails or stops early ends the search: the best prices so far are as good a proof.
    """
    pricing = Pricing(instance, edge, goal or GoalRates())
    master, found = Master(instance, pricing), pricing.found(BLOCKS)
    for starts in first:
        master.add(starts)
    price = np.zeros_like(pricing.area)
    best = Prices(price, pricing.bound(price, found), found.value.min(axis=1))
    stopped = f"stopped after {MOST_ROUNDS} rounds"
    for rounds in range(1, MOST_ROUNDS + 1):
        solved = master.solve()
        if solved is None:
            stopped = "the solver failed"
            break
        value, price, dual = solved
        found.limit[:] = dual - 1e-9 * abs(value) / len(dual)
        for weight in SMOOTHED:  # until something enters; at last at the program's own prices
            smooth = weight * best.price + (1.0 - weight) * price
            bound = pricing.bound(smooth, found)
            if bound > best.bound or rounds == 1:
                best = Prices(smooth, bound, found.value.min(axis=1))
            added = master.add(_entering(pricing, found, price, dual))
            if added:
                break
        if value - best.bound <= GAP * abs(value) or not added:
            stopped = ""
            break
    return Prices(best.price, best.bound, best.cheapest, stopped, *master.starts())


def _entering(pricing: Pricing, found: Cheapest, price: Floats, dual: Floats) -> Starts:
    """Return starts, cheap at the smoothed prices, that would improve the program at its own ``price``."""
    job, block = np.nonzero(np.isfinite(found.value))
    option, start = found.option[job, block], found.start[job, block]
    pricing.grid.price[:-1] = price
    reduced = pricing.payments(option, start) - dual[job]
    enter = reduced < -1e-7 * max(1.0, float(np.abs(dual).mean()))
    return Starts(job[enter], option[enter], start[enter].astype(np.int64))


def grid_of(instance: Instance, starts: Whole, ends: Whole, intervals: int) -> Whole:
    """Return the edges of a grid: half at quantiles of starts, ends and releases, half evenly up to the last end.

    Steps of what is free are edges, too, where they are few. Shape (K + 1,).
    """
    last = max(int(ends.max()), int(instance.release.max()) + 1, 1)
    events = np.sort(np.concatenate((starts, ends, instance.release)))
    half = max(1, intervals // 2)
    quantiles = events[np.linspace(0, len(events) - 1, half).astype(np.int64)]
    even = np.linspace(0, last, half + 1).astype(np.int64)
    steps = instance.time[instance.time < last]
    parts = [np.array([0, last]), quantiles, even, steps if len(steps) <= intervals else steps[:0]]
    if instance.billing is not None:  # prices hold for whole intervals
        last = max(last, int(instance.billing.latest.max() + instance.run.max()))
        parts += [instance.billing.time[instance.billing.time < last], np.array([last])]
    edge = np.unique(np.concatenate(parts))
    return edge[(edge >= 0) & (edge <= last)].astype(np.int64)
