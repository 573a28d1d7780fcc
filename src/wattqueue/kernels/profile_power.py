"""The machine's power when jobs carry profiles: samples of all running jobs, summed in order of time.

A *step* is a moment at which one job's watts change, and by how much (int64 microwatts, so that sums do not
depend on the order). Steps of a window are counted by bucket (equal slices of time), placed in their buckets,
sorted there, and merged with the rows of the run's own power series, in which those jobs stand with constant
watts. Memory follows the window, time the steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._jit import entry, kernel
from wattqueue.kernels.state import Array

SMALL = 48  # buckets of at most so many steps are sorted by insertion


class Shelf(NamedTuple):
    """Patterns: ``level`` (samples,) float32, ``first`` (P + 1,) int64, ``resume`` (P,) int64."""

    level: Array
    first: Array
    resume: Array


class Runs(NamedTuple):
    """Runs of profiled jobs, (k,): ``pattern`` int32; ``base_w``, ``scale_w`` watts of one unit; ``period_s``
    between samples; ``nodes`` int32; ``constant_uw`` of one unit, what the run's own series holds;
    ``start_s``, ``end_s``."""

    pattern: Array
    base_w: Array
    scale_w: Array
    period_s: Array
    nodes: Array
    constant_uw: Array
    start_s: Array
    end_s: Array


class Window(NamedTuple):
    """Steps after ``begin_s`` up to ``end_s``. ``begin`` (buckets + 2,) int64: bucket b's steps stand in
    ``begin[b]`` .. ``begin[b + 1] - 1`` of ``time`` and ``change``; ``per_s`` buckets a second."""

    begin_s: float
    end_s: float
    per_s: float
    begin: Array
    time: Array
    change: Array


class Merged(NamedTuple):
    """Rows of the sum: ``time``; ``row`` int64 of the run's own series in force; ``off_uw`` int64 to add to it."""

    time: Array
    row: Array
    off_uw: Array


@kernel
def sample_uw(shelf: Shelf, runs: Runs, r: int, place: int) -> int:
    """Microwatts of one unit of run r at a place of its pattern."""
    watts = runs.base_w[r] + runs.scale_w[r] * shelf.level[shelf.first[runs.pattern[r]] + place]
    micro: int = math.floor(watts * codes.MICRO + 0.5)
    return micro


@kernel
def place_of(shelf: Shelf, q: int, k: int) -> int:
    """Place in pattern q of the k-th sample."""
    length = shelf.first[q + 1] - shelf.first[q]
    if k < length:
        return int(k)
    return int(shelf.resume[q] + (k - shelf.resume[q]) % (length - shelf.resume[q]))


@kernel
def samples_at(start_s: float, period_s: float, now_s: float) -> int:
    """The number of the sample in force at ``now_s``: the greatest k with start + k period <= now."""
    k = int((now_s - start_s) / period_s)
    while start_s + (k + 1) * period_s <= now_s:
        k += 1
    while k > 0 and start_s + k * period_s > now_s:
        k -= 1
    return k


@kernel
def bucket_of(window: Window, time: float) -> int:
    """The bucket that holds ``time``."""
    return min(int((time - window.begin_s) * window.per_s), len(window.begin) - 3)


@entry
def count_steps(runs: Runs, window: Window) -> int:
    """Count the steps of each bucket into ``window.begin``, ready to be placed; returns how many there are."""
    for r in range(len(runs.start_s)):
        start, end, period = runs.start_s[r], runs.end_s[r], runs.period_s[r]
        k = 0
        if start <= window.begin_s:
            k = samples_at(start, period, window.begin_s) + 1
        time = start + k * period
        while time < end and time <= window.end_s:
            window.begin[bucket_of(window, time) + 2] += 1
            k += 1
            time = start + k * period
        if end <= window.end_s:
            window.begin[bucket_of(window, end) + 2] += 1
    for b in range(2, len(window.begin)):
        window.begin[b] += window.begin[b - 1]
    return int(window.begin[len(window.begin) - 1])


@kernel
def put_step(window: Window, time: float, change: int) -> None:
    """Into the next free row of its bucket."""
    b = bucket_of(window, time) + 1
    row = window.begin[b]
    window.time[row] = time
    window.change[row] = change
    window.begin[b] = row + 1


@entry
def place_steps(shelf: Shelf, runs: Runs, window: Window) -> int:
    """Place each step in its bucket; returns what profiles add to the constants at the window's begin."""
    at_begin = 0
    for r in range(len(runs.start_s)):
        start, end, period = runs.start_s[r], runs.end_s[r], runs.period_s[r]
        q = runs.pattern[r]
        last = shelf.first[q + 1] - shelf.first[q] - 1
        units = int(runs.nodes[r])
        before = int(runs.constant_uw[r])
        k = 0
        if start <= window.begin_s:
            k = samples_at(start, period, window.begin_s)
            now = sample_uw(shelf, runs, r, place_of(shelf, q, k))
            at_begin += units * (now - before)
            before = now
            k += 1
        place = place_of(shelf, q, k)
        time = start + k * period
        while time < end and time <= window.end_s:
            now = sample_uw(shelf, runs, r, place)
            put_step(window, time, units * (now - before))
            before = now
            k += 1
            time = start + k * period
            place = place + 1 if place < last else shelf.resume[q]
        if end <= window.end_s:
            put_step(window, end, units * (int(runs.constant_uw[r]) - before))
    return at_begin


@entry
def run_energies(shelf: Shelf, runs: Runs, energy_j: Array) -> None:
    """The energy of each run, all its units, into ``energy_j`` (k,)."""
    for r in range(len(runs.start_s)):
        start, end, period = runs.start_s[r], runs.end_s[r], runs.period_s[r]
        q = runs.pattern[r]
        last = shelf.first[q + 1] - shelf.first[q] - 1
        place, k = 0, 0
        begin, total = start, 0.0
        while begin < end:
            k += 1
            until = min(end, start + k * period)
            total += (until - begin) * sample_uw(shelf, runs, r, place)
            begin = until
            place = place + 1 if place < last else shelf.resume[q]
        energy_j[r] = runs.nodes[r] * total / codes.MICRO


@kernel
def swap_steps(window: Window, i: int, k: int) -> None:
    """Exchange two rows."""
    time = window.time[i]
    change = window.change[i]
    window.time[i] = window.time[k]
    window.change[i] = window.change[k]
    window.time[k] = time
    window.change[k] = change


@kernel
def insertion_sort(window: Window, low: int, high: int) -> None:
    """Sort rows low .. high - 1 by time."""
    for i in range(low + 1, high):
        time = window.time[i]
        change = window.change[i]
        k = i - 1
        while k >= low and window.time[k] > time:
            window.time[k + 1] = window.time[k]
            window.change[k + 1] = window.change[k]
            k -= 1
        window.time[k + 1] = time
        window.change[k + 1] = change


@kernel
def sift_down(window: Window, low: int, length: int, i: int) -> None:
    """Restore the heap below row i of the ``length`` rows from ``low``; latest on top."""
    while True:
        child = 2 * i + 1
        if child >= length:
            return
        if child + 1 < length and window.time[low + child + 1] > window.time[low + child]:
            child += 1
        if window.time[low + child] <= window.time[low + i]:
            return
        swap_steps(window, low + i, low + child)
        i = child


@kernel
def heap_sort(window: Window, low: int, high: int) -> None:
    """Sort rows low .. high - 1 by time, in place."""
    length = high - low
    for i in range(length // 2 - 1, -1, -1):
        sift_down(window, low, length, i)
    for end in range(length - 1, 0, -1):
        swap_steps(window, low, low + end)
        sift_down(window, low, end, 0)


@entry
def sort_steps(window: Window) -> None:
    """Sort each bucket by time; steps of one time in any order, for they are summed."""
    for b in range(len(window.begin) - 2):
        low, high = window.begin[b], window.begin[b + 1]
        if high - low <= SMALL:
            insertion_sort(window, low, high)
        else:
            heap_sort(window, low, high)


@entry
def merge_steps(window: Window, own_time: Array, own_row: int, at_begin: int, out: Merged) -> int:
    """Merge the sorted steps with the rows of the run's own series; returns the rows written.

    ``own_row`` is the row in force at the window's begin. The first row written stands at the begin.
    """
    off = at_begin
    out.time[0], out.row[0], out.off_uw[0] = window.begin_s, own_row, off
    rows = 1
    i, steps = 0, len(window.time)
    own = own_row + 1
    while i < steps or (own < len(own_time) and own_time[own] <= window.end_s):
        has_own = own < len(own_time) and own_time[own] <= window.end_s
        time = own_time[own] if has_own else window.time[i]
        if i < steps and window.time[i] < time:
            time = window.time[i]
        while i < steps and window.time[i] == time:
            off += window.change[i]
            i += 1
        moved = has_own and own_time[own] == time
        if moved:
            own += 1
        if moved or off != out.off_uw[rows - 1]:
            out.time[rows], out.row[rows], out.off_uw[rows] = time, own - 1, off
            rows += 1
    return rows
