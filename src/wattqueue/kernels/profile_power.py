"""The machine's power when jobs carry power profiles: samples of all running jobs, summed in order of time.

The engine counts each job with its mean watts. Afterwards ``sim/profiles.py`` replaces these constants by the samples
of the jobs' profiles, with the kernels of this module:

- A *step* is a moment at which the watts of one job change, and by how much (int64 microwatts, so that sums do not
  depend on the order).
- ``sum_steps`` goes through the steps of all runs in order of time, merges them with the rows of the run's own series,
  in which those jobs stand with constant watts, and sums them up. It keeps the next step of each running job alone,
  and sorts nothing: samples of one period come round in the order in which they came before, so the next step of a
  job mostly belongs at the end of a queue. Steps that do not are kept in a heap.
- ``sum_on_grid`` does the same for runs that all start and end at multiples of one period: their steps fall on the same
  moments, so that each run is added to one array, without any order of events.

Callers work window by window, so that memory stays bounded; sums over windows are sums over the whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wattqueue.kernels import codes
from wattqueue.kernels._numba import Scalars, entry, kernel, referenced
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.state import Array, Heap

NEAR = 16
"""Places from the end of the queue within which a step is inserted; a step that belongs further ahead is heaped."""


class StepRing(Scalars):
    """The ring of steps to come: the place of its first one, and how many there are."""

    first: int
    queued: int


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
class NextSteps(NamedTuple):
    """The next step of each run, and where the run stands. Columns of shape (k,), for k runs in order of start.

    ``sample``, ``place`` int64: number of the next sample, and its place in the pattern; ``now_uw`` int64: what one
    unit draws. Steps wait in ``time``, ``run`` (int64, a ring of a power of two rows, in order of time) or ``heap``.
    """

    sample: Array
    place: Array
    now_uw: Array
    time: Array
    run: Array
    heap: Heap
    now: StepRing


@referenced
class Merged(NamedTuple):
    """Rows of the sum.

    ``time``; ``row`` int64 of the run's own series in force; ``off_uw`` int64 microwatts to add to its jobs' watts.
    """

    time: Array
    row: Array
    off_uw: Array


@referenced
class OwnRows(NamedTuple):
    """The run's own rows in a window; the first one counts as its begin."""

    cell: Array
    """int64 multiple of the period at which each stands."""
    time_s: Array
    first: int
    """Number of the first one in the run's series."""


@kernel
def sample_uw(patterns: PatternTable, runs: RunTable, r: int, place: int) -> int:
    """Return the microwatts of one unit of run r at a place of its pattern, rounded half up."""
    watts = runs.base_w[r] + runs.scale_w[r] * patterns.level[patterns.first[runs.pattern[r]] + place]
    micro: int = math.floor(watts * codes.MICRO + 0.5)
    return micro


@kernel
def place_of(first: Array, resume: Array, q: int, k: int) -> int:
    """Return the place in pattern q of the k-th sample: patterns repeat from ``resume`` on (``PatternTable``)."""
    length = first[q + 1] - first[q]
    if k < length:
        return int(k)
    return int(resume[q] + (k - resume[q]) % (length - resume[q]))


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
def put_step(due: NextSteps, time: float, r: int) -> None:
    """Insert a step near the end of the queue, or else into the heap."""
    wrap = len(due.time) - 1
    first, length = due.now.first, due.now.queued
    at, least = length, max(0, length - NEAR)
    while at > least and due.time[(first + at - 1) & wrap] > time:
        at -= 1
    if at > 0 and due.time[(first + at - 1) & wrap] > time:
        heap_push(due.heap, time, r)
        return
    for i in range(length, at, -1):
        due.time[(first + i) & wrap] = due.time[(first + i - 1) & wrap]
        due.run[(first + i) & wrap] = due.run[(first + i - 1) & wrap]
    due.time[(first + at) & wrap] = time
    due.run[(first + at) & wrap] = r
    due.now.queued = length + 1


@kernel
def put_next_step(runs: RunTable, due: NextSteps, r: int, until_s: float) -> None:
    """Insert the next step of run r, a sample or its end, unless it is later than ``until_s``."""
    time = min(runs.start_s[r] + due.sample[r] * runs.period_s[r], runs.end_s[r])
    if time <= until_s:
        put_step(due, time, r)


@kernel
def take_step(patterns: PatternTable, runs: RunTable, due: NextSteps, r: int, time: float, until_s: float) -> int:
    """Return by how many microwatts the step of run r changes the sum, and insert the run's next one.

    At its end a run returns to the constant.
    """
    units, before = int(runs.nodes[r]), int(due.now_uw[r])
    if time >= runs.end_s[r]:
        return units * (int(runs.constant_uw[r]) - before)
    now = sample_uw(patterns, runs, r, due.place[r])
    q = runs.pattern[r]
    last = patterns.first[q + 1] - patterns.first[q] - 1
    due.now_uw[r] = now
    due.place[r] = due.place[r] + 1 if due.place[r] < last else patterns.resume[q]
    due.sample[r] += 1
    put_next_step(runs, due, r, until_s)
    return units * (now - before)


@kernel
def begin_runs(
    patterns: PatternTable, runs: RunTable, due: NextSteps, begin_s: float, until_s: float
) -> tuple[int, int]:
    """Insert the next steps of the runs that have begun at ``begin_s``.

    Returns their number, and what their profiles add to their constants then, in microwatts.
    """
    begun, off = 0, 0
    for r in range(len(runs.start_s)):
        due.sample[r], due.place[r], due.now_uw[r] = 0, 0, runs.constant_uw[r]
        if runs.start_s[r] <= begin_s:
            begun += 1
            k, q = samples_at(runs.start_s[r], runs.period_s[r], begin_s), runs.pattern[r]
            due.now_uw[r] = sample_uw(patterns, runs, r, place_of(patterns.first, patterns.resume, q, k))
            due.sample[r], due.place[r] = k + 1, place_of(patterns.first, patterns.resume, q, k + 1)
            off += int(runs.nodes[r]) * (int(due.now_uw[r]) - int(runs.constant_uw[r]))
            put_next_step(runs, due, r, until_s)
    return begun, off


@entry
def run_energies(patterns: PatternTable, runs: RunTable, energy_j: Array) -> None:
    """Write the energy of each run, all its units, to ``energy_j`` (k,). Exact for the rounded samples."""
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
def sum_steps(
    patterns: PatternTable, runs: RunTable, due: NextSteps, out: Merged, own_time: Array, own_row: int, begin_s: float,
    until_s: float,
) -> int:  # fmt: skip
    """Write the rows of the sum from ``begin_s`` to ``until_s``; return their number.

    ``runs`` are those that overlap this window, in order of start; ``own_row`` is the row of the run's own series in
    force at its begin. The first row written stands at the begin; a row is written where the sum or the own series
    changes. A run's steps: each sample after the begin of the window, and its end. ``out`` needs room for a row each
    step and own row.
    """
    wrap = len(due.time) - 1
    begun, off = begin_runs(patterns, runs, due, begin_s, until_s)
    out.time[0], out.row[0], out.off_uw[0] = begin_s, own_row, off
    rows, own = 1, own_row + 1
    while True:
        time = math.inf
        if own < len(own_time) and own_time[own] <= until_s:
            time = own_time[own]
        if begun < len(runs.start_s):
            time = min(time, runs.start_s[begun])
        if due.now.queued > 0:
            time = min(time, due.time[due.now.first])
        if due.heap.filled[0] > 0:
            time = min(time, due.heap.time[0])
        if time == math.inf:
            return rows
        while begun < len(runs.start_s) and runs.start_s[begun] == time:
            off += take_step(patterns, runs, due, begun, time, until_s)
            begun += 1
        while due.heap.filled[0] > 0 and due.heap.time[0] == time:
            r = int(due.heap.item[0])
            heap_remove(due.heap, r)
            off += take_step(patterns, runs, due, r, time, until_s)
        while due.now.queued > 0 and due.time[due.now.first] == time:
            r = int(due.run[due.now.first])
            due.now.first = (due.now.first + 1) & wrap
            due.now.queued -= 1
            off += take_step(patterns, runs, due, r, time, until_s)
        moved = own < len(own_time) and own_time[own] == time
        if moved:
            own += 1
        if moved or off != out.off_uw[rows - 1]:
            out.time[rows], out.row[rows], out.off_uw[rows] = time, own - 1, off
            rows += 1


@kernel
def add_stretch(total: Array, level: Array, base_w: float, scale_w: float, units: int, constant: int) -> None:
    """Add to ``total`` what ``units`` units draw above their constant at levels of a pattern. Shapes (k,).

    Slices, because the compiler vectorises a loop whose indices cannot be negative: a sixth of the time. Rounded as by
    ``sample_uw``.
    """
    for i in range(len(level)):
        micro = math.floor((base_w + scale_w * level[i]) * codes.MICRO + 0.5)
        total[i] += units * (micro - constant)


@kernel
def add_run(patterns: PatternTable, runs: RunTable, r: int, first: int, last: int, total: Array, at: int) -> None:
    """Add what run r draws above its constant, from its sample ``first`` to the one before ``last``, from ``at`` on."""
    q = runs.pattern[r]
    begin, length = patterns.first[q], patterns.first[q + 1] - patterns.first[q]
    units, constant = int(runs.nodes[r]), int(runs.constant_uw[r])
    k = first
    while k < last:
        place = place_of(patterns.first, patterns.resume, q, k)
        count = min(last - k, length - place)
        level = patterns.level[begin + place : begin + place + count]
        add_stretch(total[at : at + count], level, runs.base_w[r], runs.scale_w[r], units, constant)
        at += count
        k += count


@entry
def sum_on_grid(
    patterns: PatternTable, runs: RunTable, out: Merged, window: OwnRows, cells: Array, total: Array, period_s: float
) -> int:
    """Write the rows of the sum for runs whose steps all fall on multiples of ``period_s``; return their number.

    The rows are those of ``sum_steps``. ``cells`` (k, 2) int64: the multiples at which each run starts and ends;
    ``total`` (c,) int64 of zeros, for the multiples of the window, the first of which is ``window.cell[0]``. ``out``
    needs room for c rows.
    """
    origin, count = int(window.cell[0]), len(total)
    for r in range(len(cells)):
        start = int(cells[r, 0])
        first, last = max(start, origin), min(int(cells[r, 1]), origin + count)
        add_run(patterns, runs, r, first - start, last - start, total, first - origin)
    rows, own = 0, 0
    for c in range(count):
        time, moved = (origin + c) * period_s, False
        while own < len(window.cell) and window.cell[own] == origin + c:
            time, moved = window.time_s[own], True
            own += 1
        if moved or total[c] != out.off_uw[rows - 1]:
            out.time[rows], out.row[rows], out.off_uw[rows] = time, window.first + own - 1, total[c]
            rows += 1
    return rows
