"""Replay a schedule, and say what it breaks: what runs is added up at each start, from the problem's own figures.

It shares nothing with the search: neither profiles nor ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattqueue.errors import EngineError
from wattqueue.model.jobs import Floats
from wattqueue_studies.bound.instance import Whole
from wattqueue_studies.bound.problem import Problem

TOLERANCE_S = 1e-3
"""Most seconds by which a run may differ from its option: times are rounded to microseconds, and added up."""


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleCheck:
    """What a replay found.

    Attributes:
        broken: The first rule that the schedule breaks, with its job; empty for none.
        above_cap: Whether the cap was exceeded after a start that it admitted: it fell while jobs ran.
    """

    broken: str
    above_cap: bool = False


def replay(problem: Problem, option: Whole, start_s: Floats, end_s: Floats) -> ScheduleCheck:
    """Replay jobs that each run once. ``option`` (n,) rows of the options; starts and ends (n,) from 0 on."""
    jobs = problem.jobs
    own = (option >= jobs.first[:-1]) & (option < jobs.first[1:])
    for fine, what in (
        (own, "runs at an option of another job"),
        (np.isfinite(start_s) & np.isfinite(end_s), "does not run"),
        (start_s >= jobs.release_s - TOLERANCE_S, "starts before its release"),
    ):
        if not fine.all():
            return ScheduleCheck(f"job {jobs.names[int(np.argmin(fine))]} {what}")
    odd = np.abs(end_s - start_s - jobs.run_s[option]) > TOLERANCE_S
    if odd.any():
        j = int(np.argmax(odd))
        return ScheduleCheck(
            f"job {jobs.names[j]} takes {end_s[j] - start_s[j]:.6g} s, and at one clock {jobs.run_s[option[j]]:.6g} s"
        )
    return _replay_use(problem, option, start_s, end_s)


def require_kept(problem: Problem, option: Whole, start_s: Floats, end_s: Floats) -> None:
    """Require that a schedule that was found keeps every rule and the cap. Raises: EngineError."""
    checked = replay(problem, option, start_s, end_s)
    if checked.broken or checked.above_cap:
        raise EngineError(checked.broken or "it exceeds the cap", where="best schedule known")


def _replay_use(problem: Problem, option: Whole, start_s: Floats, end_s: Floats) -> ScheduleCheck:
    """Add up units and watts at each event: ends first, then changes of the cap, then starts."""
    jobs, n, busy = problem.jobs, len(start_s), len(problem.busy_until_s)
    part = np.concatenate((jobs.partition[option], problem.busy_partition))
    units = np.concatenate((jobs.nodes[option], problem.busy_units))
    watts = np.concatenate((jobs.net_uw[option], problem.busy_uw))
    ends = np.concatenate((end_s, problem.busy_until_s))
    later = problem.cap_s > 0
    caps = problem.cap_s[later]
    time = np.concatenate((ends, caps, start_s))
    kind = np.repeat([0, 1, 2], [n + busy, len(caps), n])
    free = problem.units.copy()
    np.subtract.at(free, problem.busy_partition, problem.busy_units)
    used_uw, own_uw, above = int(problem.busy_uw.sum()), 0, False
    cap_uw = int(problem.cap_uw[max(int(np.searchsorted(problem.cap_s, 0.0, side="right")) - 1, 0)])
    limits = problem.cap_uw[later].tolist()
    # Whole microseconds, as in rule 1: an end and a start at one instant may differ in the last digit of a sum.
    for k in np.lexsort((kind, np.rint(time * 1e6))).tolist():
        if kind[k] == 0:
            free[part[k]] += units[k]
            used_uw -= int(watts[k])
            own_uw -= int(watts[k]) if k < n else 0
        elif kind[k] == 1:
            cap_uw = limits[k - n - busy]
        else:
            j = k - n - busy - len(caps)
            free[part[j]] -= units[j]
            used_uw += int(watts[j])
            own_uw += int(watts[j])
            if free[part[j]] < 0 or used_uw > cap_uw:
                what = "units" if free[part[j]] < 0 else "watts"
                return ScheduleCheck(f"job {jobs.names[j]} starts without enough {what} at {start_s[j]:.6g} s")
        above = above or (own_uw > 0 and used_uw > cap_uw)
    return ScheduleCheck("", above)
