"""Look for good schedules: lists in several orders, improved by simulated annealing and by blocks.

What is found is the best schedule known, never called optimal. ``check`` replays it in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.kernels.list_schedule import NEVER, ListJobs, Placed, Profile, anneal, list_schedule
from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.instance import Whole
from wattqueue_studies.bound.problem import Problem

WHOLE_LIST = 200
"""Most jobs whose list is improved as a whole; longer ones block by block."""
BLOCK = 100
"""Jobs of a block."""
BLOCK_TRIES = 4_000
"""Tries of a block."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundSchedule:
    """Starts in ticks and options (rows of ``JobChoices``) of n jobs, and the sum of what they cost in ticks."""

    start: Whole
    option: Whole
    total: int

    def order(self) -> Whole:
        """Return the jobs by start: a list that gives this schedule, or a better one. Shape (n,)."""
        return np.argsort(self.start, kind="stable").astype(np.int64)


class Lists:
    """Serial schedules of a problem; arrays of the kernels are made once."""

    def __init__(self, problem: Problem, pay: Whole | None = None) -> None:
        """Prepare the arrays. ``pay`` (m,): what each option costs beside its start, in ticks; its run time if None."""
        jobs, hz = problem.jobs, problem.tick_hz
        time, free = problem.steps(wide=False)
        parts = len(problem.units)
        amount = np.zeros((len(jobs.run_s), parts + problem.capped), np.int64)
        amount[np.arange(len(jobs.run_s)), jobs.partition] = jobs.nodes
        if problem.capped:
            amount[:, parts] = jobs.net_uw
        run = np.ceil(jobs.run_s * hz).astype(np.int64)
        release = np.ceil(jobs.release_s * hz).astype(np.int64)
        self.jobs = ListJobs(jobs.first.astype(np.int64), release, run, amount, run if pay is None else pay)
        self.base = self._profile(len(time), 2 * len(jobs) + 1)
        self.base.time[: len(time)], self.base.free[: len(time)] = time, free[: amount.shape[1]].T
        self.base.rows[0] = len(time)

    def _profile(self, rows: int, more: int) -> Profile:
        """Return a profile with room for more rows."""
        resources = self.jobs.amount.shape[1]
        return Profile(
            np.zeros(rows + more, np.int64), np.zeros((rows + more, resources), np.int64), np.zeros(1, np.int64)
        )

    def schedule(self, order: Whole) -> FoundSchedule | None:
        """Return the schedule of a list of all jobs; None where one of them never fits."""
        profile, placed = self._work(order)
        total = list_schedule(self.jobs, self.base, profile, placed)
        return None if total >= NEVER else FoundSchedule(placed.start, placed.option, int(total))

    def _work(self, order: Whole) -> tuple[Profile, Placed]:
        """Return work space for a list."""
        n = len(self.jobs.release)
        profile = self._profile(len(self.base.time), 0)
        return profile, Placed(np.array(order, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))

    def orders(self) -> list[Whole]:
        """Return lists to begin with: by release, run time, and area of each resource, least and greatest first."""
        jobs = self.jobs
        option = jobs.first[:-1]
        areas = [jobs.run[option] * column[option] for column in jobs.amount.T]
        keys = [jobs.release, jobs.run[option], *areas, *(-area for area in areas)]
        return [np.argsort(key, kind="stable").astype(np.int64) for key in keys]

    def improved(self, begin: FoundSchedule, tries: int, rng: np.random.Generator) -> FoundSchedule:
        """Return the best schedule that so many tries find, begun from a schedule."""
        whole = len(begin.start) <= WHOLE_LIST
        return self._annealed(begin, tries, rng) if whole else self._by_blocks(begin, tries, rng)

    def _annealed(self, begin: FoundSchedule, tries: int, rng: np.random.Generator) -> FoundSchedule:
        """Improve a list as a whole."""
        profile, placed = self._work(begin.order())
        best = placed.order.copy()
        anneal(self.jobs, self.base, profile, placed, self._draws(tries, rng, len(best)), best)
        found = self.schedule(best)
        return found if found is not None and found.total < begin.total else begin

    def _draws(self, tries: int, rng: np.random.Generator, length: int) -> Floats:
        """Return the random numbers of tries: places near each other, rises that become smaller. Shape (tries, 4)."""
        draws = rng.random((tries, 4))
        near = draws[:, 0] + rng.standard_normal(tries) * np.maximum(0.1, 3.0 / length)
        draws[:, 1] = np.clip(np.where(draws[:, 1] < 0.5, near, rng.random(tries)), 0.0, 1.0 - 1e-12)
        scale = 0.1 * float(self.jobs.run.mean()) * np.geomspace(1.0, 0.003, tries)
        draws[:, 3] = -np.log1p(-draws[:, 3]) * scale
        return draws

    def _by_blocks(self, begin: FoundSchedule, tries: int, rng: np.random.Generator) -> FoundSchedule:
        """Improve blocks of neighbours, those before them fixed; a block is kept if the whole list improves."""
        best, n = begin, len(begin.start)
        for _ in range(max(1, tries // BLOCK_TRIES)):
            order = best.order()
            size = int(rng.integers(BLOCK // 2, BLOCK + BLOCK // 2))
            low = int(rng.integers(0, max(1, n - size // 2)))
            block = self._block(order, low, min(low + size, n), BLOCK_TRIES, rng)
            found = self.schedule(np.concatenate((order[:low], block, order[low + len(block) :])))
            if found is not None and found.total < best.total:
                best = found
        return best

    def _block(self, order: Whole, low: int, high: int, tries: int, rng: np.random.Generator) -> Whole:
        """Return the jobs of a block in a better order."""
        profile, placed = self._work(order[:low])
        list_schedule(self.jobs, self.base, profile, placed)
        base, (work, block) = profile, self._work(order[low:high])
        best = block.order.copy()
        anneal(self.jobs, base, work, block, self._draws(tries, rng, high - low), best)
        return best


def best_schedule(
    problem: Problem, begins: list[Whole], tries: int, seed: int
) -> tuple[FoundSchedule, list[FoundSchedule]]:
    """Return the best schedule known, and all that were found on the way; ``begins`` are further lists to begin with.

    Raises: InputError where no list can be scheduled: a job never fits.
    """
    lists = Lists(problem)
    found = [s for s in map(lists.schedule, [*begins, *lists.orders()]) if s is not None]
    rng = np.random.default_rng(seed)
    found.sort(key=lambda one: one.total)
    if tries:
        halves = found[:2] if len(problem.jobs) <= WHOLE_LIST else found[:1]
        found += [lists.improved(one, tries // len(halves), rng) for one in halves]
    return min(found, key=lambda one: one.total), found


def near_program(problem: Problem, mean_start: Floats, tries: int, seed: int) -> list[FoundSchedule]:
    """Return schedules begun from the order of the jobs' mean starts in the linear program. Shape (n,).

    Reference: Phillips, Stein, Wein, "Minimizing average completion time in the presence of release dates" (1998),
    doi:10.1007/BF01581726.
    """
    lists = Lists(problem)
    first = lists.schedule(np.argsort(mean_start, kind="stable").astype(np.int64))
    if first is None:
        return []
    return [first, lists.improved(first, tries, np.random.default_rng(seed))] if tries else [first]
