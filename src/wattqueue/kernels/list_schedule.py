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
EVERY = 8
"""Places of a list between two profiles that are saved."""


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


@referenced
class Saved(NamedTuple):
    """What is free before every ``EVERY``-th place of a list: profiles as rows of ``time`` (c, r), ``free`` (c, r, R),
    ``rows`` (c,); ``reached`` (n + 1,) sum before each place; ``start`` of each job; ``places`` (2,) is work space.
    """

    time: Array
    free: Array
    rows: Array
    reached: Array
    start: Array
    places: Array


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


@kernel
def load_profile(saved: Saved, k: int, profile: Profile) -> None:
    """Make a profile equal to the saved one of a number."""
    profile.rows[0] = saved.rows[k]
    for row in range(saved.rows[k]):
        profile.time[row] = saved.time[k, row]
        for i in range(profile.free.shape[1]):
            profile.free[row, i] = saved.free[k, row, i]


@kernel
def save_profile(profile: Profile, saved: Saved, k: int) -> None:
    """Save a profile under a number."""
    saved.rows[k] = profile.rows[0]
    for row in range(profile.rows[0]):
        saved.time[k, row] = profile.time[row]
        for i in range(profile.free.shape[1]):
            saved.free[k, row, i] = profile.free[row, i]


@kernel
def keep_list(jobs: ListJobs, profile: Profile, placed: Placed, saved: Saved, place: int) -> int:
    """Schedule a list that is changed from a place on, and save what later tries begin with; return its sum."""
    first = place // EVERY * EVERY
    load_profile(saved, as_int64(place // EVERY), profile)
    total = as_int64(saved.reached[first])
    for k in range(first, len(placed.order)):
        if k % EVERY == 0:
            save_profile(profile, saved, as_int64(k // EVERY))
        paid = place_job(jobs, profile, placed, as_int64(placed.order[k]))
        if paid >= NEVER:
            return NEVER
        total += paid
        saved.reached[k + 1] = total
        saved.start[placed.order[k]] = placed.start[placed.order[k]]
    return total


@kernel
def try_list(jobs: ListJobs, profile: Profile, placed: Placed, saved: Saved, places: Array, most: float) -> int:
    """Return the sum of a list that differs from the saved one between two ``places``; NEVER where it is given up.

    It is given up if every job that moved starts as before, or if the sum rose by more than ``most`` up to a place.
    """
    first = places[0] // EVERY * EVERY
    load_profile(saved, as_int64(places[0] // EVERY), profile)
    total = as_int64(saved.reached[first])
    moved = False
    for k in range(first, len(placed.order)):
        job = as_int64(placed.order[k])
        paid = place_job(jobs, profile, placed, job)
        if paid >= NEVER:
            return NEVER
        total += paid
        moved = moved or placed.start[job] != saved.start[job]
        behind = total - saved.reached[k + 1]
        if k >= places[1] and (behind > most or (behind == 0 and not moved)):
            return NEVER
    return total


@entry
def anneal(
    jobs: ListJobs, profile: Profile, placed: Placed, saved: Saved, draws: Array, slack: float, best: Array
) -> int:
    """Improve a list by simulated annealing; return the least sum found, whose list is left in ``best`` (n,).

    ``saved`` begins with what is free before the list. A row of ``draws`` (tries, 4) is a try: two places of the list,
    whether they are exchanged (below 0.5), and by how much the sum may rise, in ticks. A try is given up where it is
    ``slack`` ticks above that.
    """
    current = keep_list(jobs, profile, placed, saved, 0)
    least = current
    copy_list(placed.order, best)
    for row in range(len(draws)):
        source = int(draws[row, 0])
        target = int(draws[row, 1])
        swaps = draws[row, 2] < 0.5
        if source == target:
            continue
        saved.places[0] = min(source, target)
        saved.places[1] = max(source, target)
        move_job(placed.order, source, target, swaps)
        found = try_list(jobs, profile, placed, saved, saved.places, draws[row, 3] + slack)
        if found <= current + draws[row, 3]:
            current = keep_list(jobs, profile, placed, saved, as_int64(saved.places[0]))
            if found < least:
                least = found
                copy_list(placed.order, best)
        else:
            move_job(placed.order, target, source, swaps)
    return least


@entry
def soonest_start(jobs: ListJobs, base: Profile, order: Array) -> int:
    """Return the earliest time at which any job of a list could start, none of them placed; NEVER for none."""
    soonest = as_int64(NEVER)
    for job in order:
        for option in range(jobs.first[job], jobs.first[job + 1]):
            start = earliest_start(jobs, base, as_int64(option), as_int64(jobs.release[job]))
            soonest = min(soonest, start)
    return soonest
