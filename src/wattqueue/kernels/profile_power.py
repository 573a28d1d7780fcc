"""The machine's power when jobs carry power profiles: samples of all running jobs, summed in order of time.

The engine counts each job with its mean watts. Afterwards ``sim/profiles.py`` replaces these constants by the samples
of the jobs' profiles, with the kernels of this module:

1. A *step* is a moment at which the watts of one job change, and by how much (int64 microwatts, so that sums do not
   depend on the order). ``count_steps`` counts the steps of a window, ``place_steps`` writes them, run by run.
2. numpy sorts them by time.
3. ``merge_steps`` merges the steps with the rows of the run's own series, in which those jobs stand with constant
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
    """Steps after ``begin_s`` up to ``end_s``: ``time`` in seconds, ``change`` in int64 microwatts. Shapes (steps,)."""

    begin_s: float
    end_s: float
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


@entry
def count_steps(runs: RunTable, window: StepWindow) -> int:
    """Return how many steps the window has."""
    runs, window = by_reference(runs), by_reference(window)
    steps = 0
    for r in range(len(runs.start_s)):
        start, end, period = runs.start_s[r], runs.end_s[r], runs.period_s[r]
        k = 0
        if start <= window.begin_s:
            k = samples_at(start, period, window.begin_s) + 1
        time = start + k * period
        while time < end and time <= window.end_s:
            steps += 1
            k += 1
            time = start + k * period
        if end <= window.end_s:
            steps += 1
    return steps


@entry
def place_steps(patterns: PatternTable, runs: RunTable, window: StepWindow) -> int:
    """Write the steps, run by run; return what profiles add to the constants at the window's begin, in microwatts.

    A run's steps: each sample after the begin of the window, and its end, where it returns to the constant.
    """
    patterns, runs, window = by_reference(patterns), by_reference(runs), by_reference(window)
    at_begin, row = 0, 0
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
            window.time[row], window.change[row] = time, units * (now - before)
            row += 1
            before = now
            k += 1
            time = start + k * period
            place = place + 1 if place < last else patterns.resume[q]
        if end <= window.end_s:
            window.time[row], window.change[row] = end, units * (int(runs.constant_uw[r]) - before)
            row += 1
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
