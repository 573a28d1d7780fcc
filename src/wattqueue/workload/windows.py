"""Windows of a long trace by replay rules: a warm queue, a warm history, some days, the same users.

A window begins at an instant of the trace's own replay without a cap. As in replays on a simulator that starts
empty (paper 4 with Batsim), what is in the system at that instant, running or waiting, waits at the begin in
order of submission; what is submitted later keeps its instant; what has ended is known to estimators. Jobs are
whole: one that was running starts again with all of its run time. No clock is shifted.

Reference: Emeras, Workload traces analysis and replay in large scale distributed systems (2013), as cited by
Carastan-Santos et al., Euro-Par 2024, section 6.4 (paper 4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.past import Past
from wattqueue.workload.cycle import DAY_S, HOUR_S


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A piece of a trace from ``begin_s`` on: its ``jobs``, and what had ended before."""

    begin_s: float
    jobs: Jobs
    past: Past


def cut(jobs: Jobs, end_s: Floats, begin_s: float, days: float) -> Window:
    """The window of ``days`` days from ``begin_s``. ``end_s`` (n,): ends in the trace's own replay, NaN for never.

    Raises: InputError for a window that reaches past the trace's last submission, or holds no job.
    """
    last = float(jobs.submit_s.max(initial=-np.inf))
    until = begin_s + days * DAY_S
    if not days > 0 or until > last:
        raise InputError(
            f"a window of {days:g} days from {begin_s:.0f} s ends after the last submission, {last:.0f} s",
            mend="use a longer trace, an earlier begin, or fewer days",
        )
    there = (jobs.submit_s < until) & ~(end_s <= begin_s)
    if not there.any():
        raise InputError(f"no job in the {days:g} days from {begin_s:.0f} s")
    inside = jobs.take(there)
    inside = replace(inside, submit_s=np.maximum(inside.submit_s, begin_s))
    return Window(begin_s, inside, Past.before(jobs, end_s, begin_s))


def nodes_in_system(jobs: Jobs, end_s: Floats, time_s: Floats) -> Floats:
    """Nodes that running and waiting jobs ask for at each instant. Shape as ``time_s``."""

    def until(events: Floats) -> Floats:
        order = np.argsort(events, kind="stable")
        total = np.concatenate(([0], np.cumsum(jobs.nodes[order])))
        found: Floats = total[np.searchsorted(events[order], time_s, side="right")].astype(np.float64)
        return found

    return until(jobs.submit_s) - until(end_s)


def busy_begins(
    rng: np.random.Generator, jobs: Jobs, end_s: Floats, *, count: int, nodes: float, days: float,
    warm_days: float, apart_days: float,
) -> Floats:  # fmt: skip
    """``count`` instants, drawn at random among full hours at which jobs in the system ask for ``nodes`` or more.

    The first is ``warm_days`` after the trace's begin at the earliest, the last ``days`` before its end; two are
    ``apart_days`` apart or more. In order of time. Shape (count,).

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
            mend="use a longer or busier trace, or fewer windows",
        )
    return np.sort(np.array(chosen))
