"""Windows of a long trace by replay rules: a warm queue, a warm history, some days, the same users.

A window begins at an instant of the trace's own replay without a cap. As in replays on a simulator that starts
empty (paper 4 with Batsim), jobs in the system at that instant, running or waiting, wait at the beginning in
order of submission; jobs submitted later keep their times; ended jobs are the past that estimators learn from. Jobs
are whole: one that was running starts again with all of its run time. No clock is shifted.

Consequence: a window begins with more queued work than the machine had queued at that instant, by the work of the
jobs that were running. Comparisons between policies on the same window are unaffected; absolute waits are not.

Reference: Emeras, Workload traces analysis and replay in large scale distributed systems (2013), as cited by
Carastan-Santos et al., Euro-Par 2024, section 6.4 (paper 4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import Past
from wattqueue.workload.cycle import DAY_S, HOUR_S


@dataclass(frozen=True, slots=True, eq=False)
class TraceWindow:
    """A piece of a trace that begins with a queue and a history."""

    begin_s: float
    """First instant of the window, seconds on the trace's clock."""
    jobs: Jobs
    """Jobs in the system at ``begin_s`` (submitted then) and those submitted until the window ends."""
    past: Past
    """Jobs of the trace that had ended by ``begin_s``, with their ends."""


def cut(jobs: Jobs, end_s: Floats, begin_s: float, days: float) -> TraceWindow:
    """Cut the window of ``days`` days from ``begin_s``. ``end_s`` (n,): ends in the trace's own replay, NaN for never.

    A job that never ran in the replay (NaN) counts as waiting: ``end_s <= begin_s`` is false for NaN.

    Raises: InputError for a window that reaches past the trace's last submission, or holds no job.
    """
    last = float(jobs.submit_s.max(initial=-np.inf))
    until = begin_s + days * DAY_S
    if not days > 0 or until > last:
        raise InputError(
            f"a window of {days:g} days from {begin_s:.0f} s ends after the last submission, {last:.0f} s",
            hint="use a longer trace, an earlier begin, or fewer days",
        )
    there = (jobs.submit_s < until) & ~(end_s <= begin_s)
    if not there.any():
        raise InputError(f"no job in the {days:g} days from {begin_s:.0f} s")
    inside = jobs.take(there)
    inside = replace(inside, submit_s=np.maximum(inside.submit_s, begin_s))
    return TraceWindow(begin_s, inside, Past.before(jobs, end_s, begin_s))


def nodes_in_system(jobs: Jobs, end_s: Floats, time_s: Floats) -> Floats:
    """Return the nodes that running and waiting jobs request at each instant. Shape as ``time_s``.

    Submitted until then minus ended until then, both from sorted cumulative sums: O((n + k) log n).
    """

    def until(events: Floats) -> Floats:
        """Nodes of the jobs whose event (submission or end) lies at or before each instant."""
        order = np.argsort(events, kind="stable")
        total = np.concatenate(([0], np.cumsum(jobs.nodes[order])))
        found: Floats = total[np.searchsorted(events[order], time_s, side="right")].astype(np.float64)
        return found

    return until(jobs.submit_s) - until(end_s)


def busy_begins(
    rng: np.random.Generator, jobs: Jobs, end_s: Floats, *, count: int, nodes: float, days: float,
    warm_days: float, apart_days: float,
) -> Floats:  # fmt: skip
    """Draw ``count`` instants among full hours at which jobs in the system request ``nodes`` or more.

    Args:
        rng: Source of random draws.
        jobs: The trace.
        end_s: Ends in the trace's own replay. Shape (n,).
        count: Number of instants.
        nodes: Nodes that must be requested.
        days: Length of the window that begins at each instant.
        warm_days: Least distance from the first submission.
        apart_days: Least distance of two instants.

    The first is at least ``warm_days`` after the trace's first submission, the last at least ``days`` before its last
    one; two are ``apart_days`` apart or more. In order of time. Shape (count,). Busy hours are taken in random order
    and kept if they are far enough from those kept before; this may end with fewer than fit in the best packing.

    Raises: InputError where the trace has too few such instants.
    """
    first = float(jobs.submit_s.min(initial=np.inf)) + warm_days * DAY_S
    last = float(jobs.submit_s.max(initial=-np.inf)) - days * DAY_S
    hours = np.arange(np.ceil(first / HOUR_S), np.floor(last / HOUR_S) + 1) * HOUR_S if first <= last else np.zeros(0)
    busy = hours[nodes_in_system(jobs, end_s, hours) >= nodes]
    chosen: list[float] = []
    for begin in rng.permutation(busy).tolist():
        if len(chosen) == count:
            break
        if all(abs(begin - other) >= apart_days * DAY_S for other in chosen):
            chosen.append(begin)
    if len(chosen) < count:
        raise InputError(
            f"{len(chosen)} of {count} windows: too few busy hours that are {apart_days:g} days apart",
            hint="use a longer or busier trace, or fewer windows",
        )
    return np.sort(np.array(chosen))
