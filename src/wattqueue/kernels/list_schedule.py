"""Serial schedules: each job of a list starts at the earliest time at which everything that it needs is free.

Times are whole ticks, amounts whole numbers of each of R resources (nodes of partitions, watts). A job has one or more
options (partition and clock), in one block of rows. Reference: Kolisch, "Serial and parallel resource-constrained
project scheduling methods revisited" (1996), doi:10.1016/0377-2217(95)00357-6.
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.state import Array

NEVER = 1 << 61
"""Start of a job that fits at no time."""


@referenced
class ListJobs(NamedTuple):
    """``first`` (n + 1,) first option of each job; ``release`` (n,) earliest start; ``run`` (m,) ticks of each option;
    ``amount`` (m, R) what it needs; ``pay`` (m,) ticks that an option costs beside its start.
    """

    first: Array
    release: Array
    run: Array
    amount: Array
    pay: Array


@referenced
class Profile(NamedTuple):
    """What is free over time: row k of ``free`` (c, R) from ``time[k]`` to ``time[k + 1]``, the last one for ever.

    ``rows`` (1,) of the c rows are in use. A list of n jobs adds at most 2 n rows.
    """

    time: Array
    free: Array
    rows: Array


@referenced
class Placed(NamedTuple):
    """``order`` (n,) the list; ``start`` (n,) and ``option`` (n,) of each job, by job."""

    order: Array
    start: Array
    option: Array


@kernel
def row_at(profile: Profile, time: int) -> int:
    """Return the row in force at a time that is not before the first row."""
    low = as_int64(0)
    high = as_int64(profile.rows[0])
    while high - low > 1:
        middle = (low + high) >> 1
        if profile.time[middle] <= time:
            low = middle
        else:
            high = middle
    return low


@kernel
def row_fits(jobs: ListJobs, profile: Profile, option: int, row: int) -> bool:
    """Return whether a row has what an option needs."""
    fits = True
    for i in range(profile.free.shape[1]):
        fits = fits and profile.free[row, i] >= jobs.amount[option, i]
    return fits


@kernel
def earliest_start(jobs: ListJobs, profile: Profile, option: int, release: int) -> int:
    """Return the earliest start of an option that is not before ``release``; NEVER for none."""
    start = as_int64(release)
    row = row_at(profile, start)
    rows = as_int64(profile.rows[0])
    while row < rows and (profile.time[row] < start + jobs.run[option] or profile.time[row] <= start):
        if not row_fits(jobs, profile, option, row):
            if row + 1 == rows:
                return NEVER
            start = as_int64(profile.time[row + 1])
        row += 1
    return start


@kernel
def split_row(profile: Profile, time: int) -> int:
    """Make a row begin at a time, and return it."""
    row = row_at(profile, time)
    if profile.time[row] == time:
        return row
    for k in range(profile.rows[0], row + 1, -1):
        profile.time[k] = profile.time[k - 1]
        for i in range(profile.free.shape[1]):
            profile.free[k, i] = profile.free[k - 1, i]
    profile.time[row + 1] = time
    for i in range(profile.free.shape[1]):
        profile.free[row + 1, i] = profile.free[row, i]
    profile.rows[0] += 1
    return row + 1


@kernel
def occupy(jobs: ListJobs, profile: Profile, option: int, start: int) -> None:
    """Take what an option needs from its start to its end."""
    first = split_row(profile, start)
    last = split_row(profile, start + jobs.run[option])
    for row in range(first, last):
        for i in range(profile.free.shape[1]):
            profile.free[row, i] -= jobs.amount[option, i]


@kernel
def place_job(jobs: ListJobs, profile: Profile, placed: Placed, job: int) -> int:
    """Start a job at the option whose start and pay are least in sum; return that sum, NEVER for none."""
    best = as_int64(NEVER)
    for option in range(jobs.first[job], jobs.first[job + 1]):
        start = earliest_start(jobs, profile, as_int64(option), as_int64(jobs.release[job]))
        if start < NEVER and start + jobs.pay[option] < best:
            best = start + as_int64(jobs.pay[option])
            placed.start[job] = start
            placed.option[job] = option
    if best < NEVER:
        occupy(jobs, profile, as_int64(placed.option[job]), as_int64(placed.start[job]))
    return best


@kernel
def copy_profile(base: Profile, profile: Profile) -> None:
    """Make a profile equal to another."""
    profile.rows[0] = base.rows[0]
    for row in range(base.rows[0]):
        profile.time[row] = base.time[row]
        for i in range(base.free.shape[1]):
            profile.free[row, i] = base.free[row, i]


@entry
def list_schedule(jobs: ListJobs, base: Profile, profile: Profile, placed: Placed) -> int:
    """Place the jobs of a list, one after the other; return the sum of starts and pays, NEVER where one never fits.

    ``base`` is what is free before, ``profile`` becomes what is free after it.
    """
    copy_profile(base, profile)
    total = as_int64(0)
    for job in placed.order:
        paid = place_job(jobs, profile, placed, as_int64(job))
        if paid >= NEVER:
            return NEVER
        total += paid
    return total


@kernel
def move_job(order: Array, source: int, target: int, swaps: bool) -> None:
    """Exchange two places of a list, or move one job to another place."""
    job = order[source]
    if swaps:
        order[source] = order[target]
    else:
        step = 1 if target > source else -1
        for k in range(source, target, step):
            order[k] = order[k + step]
    order[target] = job


@kernel
def copy_list(order: Array, copy: Array) -> None:
    """Copy a list."""
    for k in range(len(order)):
        copy[k] = order[k]


@entry
def anneal(jobs: ListJobs, base: Profile, profile: Profile, placed: Placed, draws: Array, best: Array) -> int:
    """Improve a list by simulated annealing; return the least sum found, whose list is left in ``best`` (n,).

    A row of ``draws`` (tries, 4) is a try: two places of the list as shares of its length, whether they are exchanged
    (below 0.5), and by how much the sum may rise, in ticks.
    """
    n = len(placed.order)
    current = list_schedule(jobs, base, profile, placed)
    least = current
    copy_list(placed.order, best)
    for row in range(len(draws)):
        source = int(draws[row, 0] * n)
        target = int(draws[row, 1] * n)
        swaps = draws[row, 2] < 0.5
        move_job(placed.order, source, target, swaps)
        found = list_schedule(jobs, base, profile, placed)
        if found <= current + draws[row, 3]:
            current = found
            if found < least:
                least = found
                copy_list(placed.order, best)
        else:
            move_job(placed.order, target, source, swaps)
    return least
