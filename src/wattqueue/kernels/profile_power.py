"""The machine's power when jobs carry power profiles: samples of all running jobs, summed in order of time.

The engine counts each job with its mean watts. Afterwards ``sim/profiles.py`` replaces these constants by the samples
of the jobs' profiles, with the kernels of this module:

1. A *step* is a moment at which the watts of one job change, and by how much (int64 microwatts, so that sums do not
   depend on the order). ``count_steps`` counts the steps of a window by bucket (equal slices of time).
2. ``place_steps`` writes each step into its bucket. This is a counting sort: one pass to count, one to place.
3. ``sort_steps`` sorts within each bucket; buckets hold a few steps, so insertion sort is enough for nearly all.
4. ``merge_steps`` merges the steps with the rows of the run's own series, in which those jobs stand with constant
   watts, and sums them up.

Memory follows the window, time the number of steps. A week of a big machine has millions, so callers work window by
window; sums over windows are sums over the whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._numba import by_reference, entry, kernel, referenced
from wattqueue.kernels.state import Array

SMALL = 48  # buckets of at most so many steps are sorted by insertion


@referenced
class PatternTable(NamedTuple):
    """Patterns: samples of power that many jobs share.

    ``level`` (samples,) float32 of all patterns; ``first`` (patterns + 1,) int64 where each begins; ``resume``
    (patterns,) int64: a job that outlasts its pattern repeats it from this sample on.
    """

    level: Array
    first: Array
    resume: Array


@referenced
class RunTable(NamedTuple):
    """Runs of profiled jobs, columns of shape (k,).

    ``pattern`` int32; ``base_w``, ``scale_w``: watts of one unit are base + scale x level; ``period_s`` between
    samples, stretched with the job's speed; ``nodes`` int32; ``constant_uw`` int64 of one unit, what the run's own
    series holds; ``start_s``, ``end_s``.
    """

    pattern: Array
    base_w: Array
    scale_w: Array
    period_s: Array
    nodes: Array
    constant_uw: Array
    start_s: Array
    end_s: Array


@referenced
class StepWindow(NamedTuple):
    """Steps after ``begin_s`` up to ``end_s``, by bucket.

    ``begin`` (buckets + 2,) int64: bucket b's steps stand in ``begin[b]`` .. ``begin[b + 1] - 1`` of ``time`` and
    ``change``; ``per_s`` buckets a second. While steps are placed, ``begin[b + 1]`` is the next free row of bucket b;
    it ends as the begin of bucket b + 1, which is why there is one element more than buckets and their end.
    """

    begin_s: float
    end_s: float
    per_s: float
    begin: Array
    time: Array
    change: Array


@referenced
class Merged(NamedTuple):
    """Rows of the sum.

    ``time``; ``row`` int64 of the run's own series in force; ``off_uw`` int64 microwatts to add to its jobs' watts.
    """

    time: Array
    row: Array
    off_uw: Array


@kernel
def sample_uw(patterns: PatternTable, runs: RunTable, r: int, place: int) -> int:
    """Return the microwatts of one unit of run r at a place of its pattern, rounded half up."""
    watts = runs.base_w[r] + runs.scale_w[r] * patterns.level[patterns.first[runs.pattern[r]] + place]
    micro: int = math.floor(watts * codes.MICRO + 0.5)
    return micro


@kernel
def place_of(patterns: PatternTable, q: int, k: int) -> int:
    """Return the place in pattern q of the k-th sample: patterns repeat from ``resume`` on."""
    length = patterns.first[q + 1] - patterns.first[q]
    if k < length:
        return int(k)
    return int(patterns.resume[q] + (k - patterns.resume[q]) % (length - patterns.resume[q]))


@kernel
def samples_at(start_s: float, period_s: float, now_s: float) -> int:
    """Return the number of the sample in force at ``now_s``: the greatest k with start + k period <= now.

    The quotient is corrected by comparison, because every other kernel computes sample times as start + k period, and
    the two roundings may differ.
    """
    k = int((now_s - start_s) / period_s)
    while start_s + (k + 1) * period_s <= now_s:
        k += 1
    while k > 0 and start_s + k * period_s > now_s:
        k -= 1
    return k


@kernel
def bucket_of(window: StepWindow, time: float) -> int:
    """Return the bucket that holds ``time``; the window's end belongs to the last one."""
    return min(int((time - window.begin_s) * window.per_s), len(window.begin) - 3)


@entry
def count_steps(runs: RunTable, window: StepWindow) -> int:
    """Count the steps of each bucket into ``window.begin``, ready to be placed; return how many there are."""
    runs, window = by_reference(runs), by_reference(window)
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
def put_step(window: StepWindow, time: float, change: int) -> None:
    """Write a step to the next free row of its bucket."""
    b = bucket_of(window, time) + 1
    row = window.begin[b]
    window.time[row] = time
    window.change[row] = change
    window.begin[b] = row + 1


@entry
def place_steps(patterns: PatternTable, runs: RunTable, window: StepWindow) -> int:
    """Place each step in its bucket; return what profiles add to the constants at the window's begin, in microwatts.

    A run's steps: each sample after the begin of the window, and its end, where it returns to the constant.
    """
    patterns, runs, window = by_reference(patterns), by_reference(runs), by_reference(window)
    at_begin = 0
    for r in range(len(runs.start_s)):
        start, end, period = runs.start_s[r], runs.end_s[r], runs.period_s[r]
        q = runs.pattern[r]
        last = patterns.first[q + 1] - patterns.first[q] - 1
        units = int(runs.nodes[r])
        before = int(runs.constant_uw[r])
        k = 0
        if start <= window.begin_s:
            k = samples_at(start, period, window.begin_s)
            now = sample_uw(patterns, runs, r, place_of(patterns, q, k))
            at_begin += units * (now - before)
            before = now
            k += 1
        place = place_of(patterns, q, k)
        time = start + k * period
        while time < end and time <= window.end_s:
            now = sample_uw(patterns, runs, r, place)
            put_step(window, time, units * (now - before))
            before = now
            k += 1
            time = start + k * period
            place = place + 1 if place < last else patterns.resume[q]
        if end <= window.end_s:
            put_step(window, end, units * (int(runs.constant_uw[r]) - before))
    return at_begin


@entry
def run_energies(patterns: PatternTable, runs: RunTable, energy_j: Array) -> None:
    """Write the energy of each run, all its units, to ``energy_j`` (k,). Exact for the rounded samples."""
    patterns, runs = by_reference(patterns), by_reference(runs)
    for r in range(len(runs.start_s)):
        start, end, period = runs.start_s[r], runs.end_s[r], runs.period_s[r]
        q = runs.pattern[r]
        last = patterns.first[q + 1] - patterns.first[q] - 1
        place, k = 0, 0
        begin, total = start, 0.0
        while begin < end:
            k += 1
            until = min(end, start + k * period)
            total += (until - begin) * sample_uw(patterns, runs, r, place)
            begin = until
            place = place + 1 if place < last else patterns.resume[q]
        energy_j[r] = runs.nodes[r] * total / codes.MICRO


@kernel
def swap_steps(window: StepWindow, i: int, k: int) -> None:
    """Exchange two rows."""
    time = window.time[i]
    change = window.change[i]
    window.time[i] = window.time[k]
    window.change[i] = window.change[k]
    window.time[k] = time
    window.change[k] = change


@kernel
def insertion_sort(window: StepWindow, low: int, high: int) -> None:
    """Sort rows ``low`` .. ``high - 1`` by time. O(n^2), the fastest for few rows."""
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
def sift_down(window: StepWindow, low: int, length: int, i: int) -> None:
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
def heap_sort(window: StepWindow, low: int, high: int) -> None:
    """Sort rows ``low`` .. ``high - 1`` by time, in place.

    O(n log n), for a bucket into which many steps of one time fall.
    """
    length = high - low
    for i in range(length // 2 - 1, -1, -1):
        sift_down(window, low, length, i)
    for end in range(length - 1, 0, -1):
        swap_steps(window, low, low + end)
        sift_down(window, low, end, 0)


@entry
def sort_steps(window: StepWindow) -> None:
    """Sort each bucket by time. Steps of one time may stand in any order, because they are summed."""
    window = by_reference(window)
    for b in range(len(window.begin) - 2):
        low, high = window.begin[b], window.begin[b + 1]
        if high - low <= SMALL:
            insertion_sort(window, low, high)
        else:
            heap_sort(window, low, high)


@entry
def merge_steps(window: StepWindow, out: Merged, own_time: Array, own_row: int, at_begin: int) -> int:
    """Merge the sorted steps with the rows of the run's own series; return the number of rows written.

    ``own_row`` is the row in force at the window's begin, ``at_begin`` the result of ``place_steps``. The first row
    written stands at the begin; a row is written where the sum or the own series changes. ``out`` needs room for a row
    each step and own row.
    """
    window, out = by_reference(window), by_reference(out)
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
