"""Look for good schedules: lists in several orders, improved by simulated annealing and by blocks.

What is found is the best schedule known, never called optimal. ``check`` replays it in another way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattqueue.errors import InputError
from wattqueue.kernels.list_schedule import (
    CLASSES,
    EVERY,
    FIRST,
    FREE,
    NEVER,
    NEXT,
    ListJobs,
    Placed,
    Profile,
    Saved,
    anneal,
    list_schedule,
    soonest_start,
)
from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.instance import Whole
from wattqueue_studies.bound.problem import Problem, instance_of

FEW_JOBS, BLOCK, BEHIND = 20, 150, 60
"""Jobs of a block: three quarters of all, between two limits; and those behind it that are scheduled with it."""
FEWEST_TRIES = 40
"""Tries for each job of a block in the first sweep."""
NEAR_SHARE = 0.8
"""Share of tries whose places are near each other."""
WARM, SLACK = 1.0, 5.0
"""Rise of the sum that is accepted at first, and the rise within a list at which a try is given up; in mean runs."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundSchedule:
    """Starts in ticks and options (rows of ``JobChoices``) of n jobs, and the sum of what they cost in ticks."""

    start: Whole
    option: Whole
    total: int

    def seconds(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return starts and ends. Shapes (n,)."""
        start_s: Floats = np.asarray(self.start / problem.tick_hz, np.float64)
        return start_s, start_s + problem.jobs.run_s[self.option]

    def order(self) -> Whole:
        """Return the jobs by start: a list that gives this schedule, or a better one. Shape (n,)."""
        return np.argsort(self.start, kind="stable").astype(np.int64)


def profile_of(time: Whole, free: Whole, rows: int) -> Profile:
    """Return a profile with room for rows: what is free (r, R) from each time (r,) on."""
    table = np.zeros((rows, FREE + free.shape[1]), np.int64)
    table[: len(time), 0], table[: len(time), FREE:] = time, free
    table[: len(time), NEXT] = np.append(FIRST + np.arange(1, len(time)) * table.shape[1], -1)
    falls = time[1:][(np.diff(free, axis=0) < 0).any(axis=1)]
    last = falls.max(initial=time[0])
    head = np.append(last, np.full(CLASSES, FIRST))
    return Profile(np.concatenate((head, table.ravel())), np.array([FIRST + len(time) * table.shape[1], 0]))


def option_classes(run: Whole, needs: Whole) -> tuple[Whole, Whole, Whole]:
    """Return the class of each option (m,), and the least need and run of each class (CLASSES,).

    Classes are quarters by need, and in each of them quarters by run time.
    """
    parts = math.isqrt(CLASSES)
    kind, least, short = (np.zeros(size, np.int64) for size in (len(run), CLASSES, CLASSES))
    for k, rows in enumerate(np.array_split(np.lexsort((run, needs)), parts)):
        for i, some in enumerate(np.array_split(rows[np.argsort(run[rows], kind="stable")], parts)):
            if len(some):
                one = k * parts + i
                kind[some], least[one], short[one] = one, needs[some].min(), run[some].min()
    return kind, least, short


class Lists:
    """Serial schedules of a problem; arrays of the kernels are made once."""

    def __init__(self, problem: Problem, pay: Whole | None = None) -> None:
        """Prepare the arrays. ``pay`` (m,): what each option costs beside its start, in ticks; its run time if None."""
        narrow = instance_of(problem, wide=False)
        run = narrow.run
        # The resource of which jobs take the greatest share.
        scarce = int(np.argmax((run @ narrow.amount) / np.maximum(narrow.free.max(axis=1), 1)))
        classes = option_classes(run, narrow.amount[:, scarce])
        pay = run if pay is None else pay
        self.jobs = ListJobs(narrow.first, narrow.release, run, narrow.amount, pay, *classes, np.array([scarce]))
        self.base = profile_of(narrow.time, narrow.free.T, len(narrow.time) + 2 * len(narrow) + 1)

    def schedule(self, order: Whole) -> FoundSchedule | None:
        """Return the schedule of a list of all jobs; None where one of them never fits."""
        profile, placed = self._work(order)
        total = list_schedule(self.jobs, self.base, profile, placed)
        return None if total >= NEVER else FoundSchedule(placed.start, placed.option, int(total))

    def _work(self, order: Whole) -> tuple[Profile, Placed]:
        """Return work space for a list."""
        n = len(self.jobs.release)
        profile = Profile(self.base.table.copy(), self.base.used.copy())
        return profile, Placed(np.array(order, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64))

    def orders(self) -> list[Whole]:
        """Return lists to begin with: by release, run time, and area of each resource, least and greatest first."""
        jobs = self.jobs
        option = jobs.first[:-1]
        areas = [jobs.run[option] * column[option] for column in jobs.amount.T]
        keys = [jobs.release, jobs.run[option], *areas, *(-area for area in areas)]
        return [np.argsort(key, kind="stable").astype(np.int64) for key in keys]

    def improved(self, begin: FoundSchedule, tries: int, rng: np.random.Generator) -> FoundSchedule:
        """Return the best schedule that so many tries find, begun from a schedule.

        Lists are improved block by block, in sweeps from begin to end, each with twice the tries of the one before.
        """
        n, best = len(begin.start), begin
        tries = min(tries, math.factorial(min(n, 20)))  # so many lists there are
        size = min(BLOCK, max(FEW_JOBS, 3 * n // 4))
        sweeps = max(1, int(np.log2(tries / (2 * n * FEWEST_TRIES) + 1)))
        each = tries / (2 * n * (2**sweeps - 1))
        for sweep in range(sweeps):
            for low in range(-int(rng.integers(size // 2)), n, size // 2):
                places = max(low, 0), min(low + size, n)
                best = self._better(best, places, int(each * 2**sweep * (places[1] - places[0])), rng)
        return best

    def _better(
        self, begin: FoundSchedule, places: tuple[int, int], tries: int, rng: np.random.Generator
    ) -> FoundSchedule:
        """Improve a schedule by tries at some places of its list: what stands before them is fixed."""
        order, (low, high) = begin.order(), places
        draws, slack = self.draws(tries, rng, high - low), SLACK * float(self.jobs.run.mean())
        _, best = self.annealed(order, (low, high + BEHIND), draws, slack)
        found = self.schedule(np.concatenate((order[:low], best, order[low + len(best) :])))
        return found if found is not None and found.total < begin.total else begin

    def annealed(self, order: Whole, places: tuple[int, int], draws: Floats, slack: float) -> tuple[int, Whole]:
        """Anneal the jobs at some places of a list, beside those before them.

        Returns their least sum of starts and pays that the tries find, and the jobs in that order. Shape (k,).
        """
        low, high = places
        part = order[low:high].copy()
        before, placed = self._work(order[:low])
        list_schedule(self.jobs, self.base, before, placed)
        soonest = soonest_start(self.jobs, before, part)
        rows = before.table[FIRST : before.used[0]].reshape(-1, FREE + self.jobs.amount.shape[1])
        rows = rows[np.argsort(rows[:, 0])]
        rows = rows[max(int(np.searchsorted(rows[:, 0], soonest, side="right")) - 1, 0) :]
        jobs = self.jobs._replace(release=np.maximum(self.jobs.release, soonest))
        k, n, best = len(part), len(order), part.copy()
        profile, kept = profile_of(rows[:, 0], rows[:, FREE:], len(rows) + 2 * k + 1), k // EVERY + 1
        saved = Saved(
            np.tile(profile.table, (kept, 1)), np.full(kept, profile.used[0]),
            np.zeros(k + 1, np.int64), np.zeros(n, np.int64), np.zeros(2, np.int64),
        )  # fmt: skip
        placed = Placed(part, np.zeros(n, np.int64), np.zeros(n, np.int64))
        return int(anneal(jobs, profile, placed, saved, draws, slack, best)), best

    def draws(self, tries: int, rng: np.random.Generator, length: int) -> Floats:
        """Return tries: two places, mostly near each other, a share, rises that become smaller. Shape (tries, 4)."""
        draws = rng.random((tries, 4))
        far = rng.choice((0.1, 0.3, 1.0), tries) * max(0.1, 3.0 / length)
        near = draws[:, 0] + rng.standard_normal(tries) * far
        draws[:, 1] = np.clip(np.where(draws[:, 1] < NEAR_SHARE, near, rng.random(tries)), 0.0, 1.0 - 1e-12)
        draws[:, :2] = np.floor(draws[:, :2] * length)
        scale = WARM * float(self.jobs.run.mean()) * np.geomspace(1.0, 0.003, tries)
        draws[:, 3] = -np.log1p(-draws[:, 3]) * scale
        return draws


def found_schedules(problem: Problem, begins: list[Whole], tries: int, seed: int) -> list[FoundSchedule]:
    """Return schedules, the best one first; ``begins`` are further lists to begin with.

    Raises: InputError where no list can be scheduled, naming a job that alone never fits.
    """
    lists = Lists(problem)
    found = [s for s in map(lists.schedule, [*begins, *lists.orders()]) if s is not None]
    if not found:
        bad = [j for j in range(len(problem.jobs)) if soonest_start(lists.jobs, lists.base, np.array([j])) >= NEVER]
        where = f"job {problem.jobs.names[bad[0]]}" if bad else "jobs"
        raise InputError("no time is long enough for what it needs", where=where, hint="raise the cap, or leave it out")
    found.sort(key=lambda one: one.total)
    better = [lists.improved(found[0], tries, np.random.default_rng(seed))] if tries else []
    return [*better, *found]


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
