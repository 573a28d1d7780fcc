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
CLASSES = 16
"""Classes of options."""
FIRST, NEXT, FREE = 1 + CLASSES, 1, 2
"""Where the first row of a profile stands; where in a row the next one is named, and where what is free begins."""
EVERY = 8
"""Places of a list between two profiles that are saved."""


@referenced
class ListJobs(NamedTuple):
    """``first`` (n + 1,) first option of each job; ``release`` (n,) earliest start; ``run`` (m,) ticks of each option;
    ``amount`` (m, R) what it needs; ``pay`` (m,) ticks that an option costs beside its start; ``kind`` (m,) its class,
    whose options all need ``least`` (CLASSES,) or more of the resource ``scarce`` (1,), for ``short`` (CLASSES,) ticks
    or more.
    """

    first: Array
    release: Array
    run: Array
    amount: Array
    pay: Array
    kind: Array
    least: Array
    short: Array
    scarce: Array


@referenced
class Profile(NamedTuple):
    """What is free over time, as a linked list of rows in ``table`` (c,).

    A row is R + 2 numbers: when it begins, where the next one stands (-1: none, it holds for ever), and what is free of
    each resource. The first row stands at FIRST; before it, the time from which on what is free never falls, and for
    each class the row before which none of its options can start. ``used`` (2,): numbers in use, and the row in force
    at the last start that was found. A list of n jobs adds at most 2 n rows.
    """

    table: Array
    used: Array


@referenced
class Placed(NamedTuple):
    """``order`` (n,) the list; ``start`` (n,) and ``option`` (n,) of each job, by job."""

    order: Array
    start: Array
    option: Array


@referenced
class Saved(NamedTuple):
    """What is free before every ``EVERY``-th place of a list: profiles as ``table`` (c, r) and numbers in ``used``
    (c,); ``reached`` (n + 1,) sum before each place; ``start`` of each job; ``places`` (2,) is work space.
    """

    table: Array
    used: Array
    reached: Array
    start: Array
    places: Array


@kernel
def row_fits(jobs: ListJobs, profile: Profile, option: int, row: int) -> bool:
    """Return whether a row has what an option needs."""
    fits = True
    for i in range(jobs.amount.shape[1]):
        fits = fits and profile.table[row + FREE + i] >= jobs.amount[option, i]
    return fits


@kernel
def first_row(jobs: ListJobs, profile: Profile, kind: int) -> int:
    """Return the row before which no option of a class can start: while a list is placed it only moves later."""
    table, free = profile.table, FREE + jobs.scarce[0]
    row = as_int64(table[1 + kind])
    at = row
    while at >= 0 and table[at] < table[row] + jobs.short[kind]:
        fits = table[at + free] >= jobs.least[kind]
        if fits and table[at] >= table[0]:
            break
        at = as_int64(table[at + NEXT])
        if not fits and at >= 0:
            row = at
    table[1 + kind] = row
    return row


@kernel
def earliest_start(jobs: ListJobs, profile: Profile, option: int, release: int) -> int:
    """Return the earliest start of an option that is not before ``release``; NEVER for none."""
    table = profile.table
    row = first_row(jobs, profile, as_int64(jobs.kind[option]))
    start = max(as_int64(release), as_int64(table[row]))
    while table[row + NEXT] >= 0 and table[table[row + NEXT]] <= start:
        row = as_int64(table[row + NEXT])
    first = row
    while row >= 0 and (table[row] < start + jobs.run[option] or table[row] <= start):
        fits = row_fits(jobs, profile, option, row)
        if fits and table[row] >= table[0]:
            break  # what fits here fits in all later rows
        row = as_int64(table[row + NEXT])
        if not fits:
            if row < 0:
                return NEVER
            start = as_int64(table[row])
            first = row
    profile.used[1] = first
    return start


@kernel
def split_row(profile: Profile, row: int, time: int, width: int) -> int:
    """Make a row begin at a time at which ``row`` is in force, and return it; ``width`` numbers are a row."""
    if profile.table[row] == time:
        return row
    new = as_int64(profile.used[0])
    for i in range(NEXT, width):
        profile.table[new + i] = profile.table[row + i]
    profile.table[new] = time
    profile.table[row + NEXT] = new
    profile.used[0] += width
    return new


@kernel
def occupy(jobs: ListJobs, profile: Profile, option: int, start: int, row: int) -> None:
    """Take what an option needs from its start to its end; ``row`` is in force at its start."""
    table, width = profile.table, jobs.amount.shape[1] + FREE
    end = start + jobs.run[option]
    table[0] = max(table[0], start)
    row = split_row(profile, row, start, width)
    while row >= 0 and table[row] < end:
        after = table[row + NEXT]
        if after < 0 or table[after] > end:
            split_row(profile, row, end, width)
        for i in range(FREE, width):
            table[row + i] -= jobs.amount[option, i - FREE]
        row = as_int64(table[row + NEXT])


@kernel
def place_job(jobs: ListJobs, profile: Profile, placed: Placed, job: int) -> int:
    """Start a job at the option whose start and pay are least in sum; return that sum, NEVER for none."""
    best = as_int64(NEVER)
    row = as_int64(0)
    for option in range(jobs.first[job], jobs.first[job + 1]):
        start = earliest_start(jobs, profile, as_int64(option), as_int64(jobs.release[job]))
        if start < NEVER and start + jobs.pay[option] < best:
            best = start + as_int64(jobs.pay[option])
            row = as_int64(profile.used[1])
            placed.start[job] = start
            placed.option[job] = option
    if best < NEVER:
        occupy(jobs, profile, as_int64(placed.option[job]), as_int64(placed.start[job]), row)
    return best


@entry
def list_schedule(jobs: ListJobs, base: Profile, profile: Profile, placed: Placed) -> int:
    """Place the jobs of a list, one after the other; return the sum of starts and pays, NEVER where one never fits.

    ``base`` is what is free before, ``profile`` becomes what is free after it.
    """
    copy_numbers(base.table, base.used[0], profile.table)
    profile.used[0] = base.used[0]
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
def copy_numbers(source: Array, count: int, target: Array) -> None:
    """Copy the first ``count`` numbers."""
    for k in range(count):
        target[k] = source[k]


@kernel
def load_profile(saved: Saved, place: int, profile: Profile) -> int:
    """Make a profile equal to the last one that was saved up to a place; return the place of that one."""
    k = as_int64(place // EVERY)
    profile.used[0] = saved.used[k]
    copy_numbers(saved.table[k], saved.used[k], profile.table)
    return k * EVERY


@kernel
def keep_list(jobs: ListJobs, profile: Profile, placed: Placed, saved: Saved, place: int) -> int:
    """Schedule a list that is changed from a place on, and save what later tries begin with; return its sum."""
    first = load_profile(saved, place, profile)
    total = as_int64(saved.reached[first])
    for k in range(first, len(placed.order)):
        if k % EVERY == 0:
            saved.used[k // EVERY] = profile.used[0]
            copy_numbers(profile.table, profile.used[0], saved.table[k // EVERY])
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
    first = load_profile(saved, as_int64(places[0]), profile)
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
    copy_numbers(placed.order, len(best), best)
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
                copy_numbers(placed.order, len(best), best)
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
