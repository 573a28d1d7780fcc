"""The checks of the axis *runtime*: predictions of how long jobs run.

A part is walked over a generated trace as a simulation would call it: ``seconds`` once, then at each instant
``learn_runs`` with that instant's completions before ``seconds_of`` for its submissions (rule 2 of docs/semantics.md).
Each check makes new parts. Leaks are looked for on a walk, where outcomes and requests of the future are exchanged, and
in a run, where all starts up to an instant must be equal in a workload that differs only after it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

import numpy as np

from wattqueue.checks.common import Check, Make, contents, copied, expect_small, fail, no_jobs
from wattqueue.checks.in_a_run import MOST_JOBS, capped, crowded, policy_with, run_in_place
from wattqueue.checks.leak import CUTS, other_futures
from wattqueue.checks.perturb import change_later, lengthen
from wattqueue.checks.samples import among_more_jobs
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Correction, FinishedRuns, OnlineRunTime
from wattqueue.parts.estimator_replay import instants
from wattqueue.parts.oracles import is_oracle, jobs_for
from wattqueue.parts.timeline import Timeline, trace_timeline
from wattqueue.policy.interfaces import stated
from wattqueue.policy.run_times import ask_run_times, begin_run_times
from wattqueue.sim.engine import Run, simulate


def runtime_checks(seed: int = 0) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check, the simplest first; ``seed`` draws the size of a large sample."""
    for name, value in list(globals().items()):
        if name.startswith("check_") and inspect.isfunction(value):
            yield name, value
    yield "check_no_leak_among_more_jobs", among_more_jobs(partial(check_no_leak, cuts=CUTS[1:2]), seed)


def check_attributes(make: Make, _jobs: Jobs, _machine: Machine) -> None:
    """Check that ``asked`` and ``correction`` are set, and that a part which is asked online can learn."""
    part = make()
    asked, correction = stated(part, "asked", None), stated(part, "correction", "")
    if asked not in get_args(Asked):
        fail(part, f"asked is {asked!r}", f"set it to one of {', '.join(get_args(Asked))}")
    if correction is not None and correction not in get_args(Correction):
        fail(part, f"correction is {correction!r}", f"set it to None, or one of {', '.join(get_args(Correction))}")
    if asked != "once" and not isinstance(part, OnlineRunTime):
        fail(part, f"asked is {asked!r}, but it cannot learn", "write seconds_of() and learn_runs()")


def check_seconds(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check shapes and figures of every answer: seconds above 0, or NaN."""
    planned_on_a_walk(make(), jobs, machine, trace_timeline(jobs))


def check_pure(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that the job table stays as it was."""
    before = contents(jobs)
    planned_on_a_walk(make(), jobs, machine, trace_timeline(jobs))
    if contents(jobs) != before:
        fail(make(), "changed the job table", "copy a column before writing to it")


def check_deterministic(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that two new parts, and one that starts again, predict the same."""
    part, line = make(), trace_timeline(jobs)
    first = planned_on_a_walk(part, jobs, machine, line)
    for other, what in (
        (make(), "two new parts return different results"),
        (part, "seconds() does not reset the state"),
    ):
        if not np.array_equal(first, planned_on_a_walk(other, jobs, machine, line)):
            fail(part, what, "seed random draws, and keep no state outside the object")


def check_picklable(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a pickled copy, taken after a walk, answers as the original: campaigns send parts to processes."""
    part, line = make(), trace_timeline(jobs)
    first = planned_on_a_walk(part, jobs, machine, line)
    copy: Any = copied(part)
    if part.asked != "once" and len(jobs):
        rows, now = np.arange(min(len(jobs), 20), dtype=np.int32), float(line.end_s.max()) + 1.0
        if not np.array_equal(part.seconds_of(rows, now), copy.seconds_of(rows, now), equal_nan=True):
            fail(part, "a pickled copy returns other results", "keep all state in attributes that can be pickled")
    if not np.array_equal(first, planned_on_a_walk(copy, jobs, machine, line)):
        fail(part, "a pickled copy differs", "keep all state in attributes that can be pickled")


def check_empty(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that no jobs, no submissions and no completions are accepted."""
    part, none = make(), no_jobs(jobs)
    planned_on_a_walk(part, none, machine, trace_timeline(none))
    if part.asked != "once":
        part.seconds(jobs_for(part, jobs), machine)
        part.learn_runs(FinishedRuns(np.zeros(0, np.int32), np.zeros(0), np.zeros(0)))
        ask_run_times(part, None, np.zeros(0, np.int32), 0.0)


def check_bounded_memory(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that the state stays small, and does not grow from run to run."""
    part = make()
    for _ in range(2):
        planned_on_a_walk(part, jobs, machine, trace_timeline(jobs))
    expect_small(part, len(jobs))


def check_no_leak(make: Make, jobs: Jobs, machine: Machine, *, cuts: tuple[float, ...] = CUTS) -> None:
    """Check that nothing is used before it has happened: walk the trace again with another future from a cut on."""
    part, rng, line = make(), np.random.default_rng(0), trace_timeline(jobs)
    if is_oracle(part):
        return
    before = planned_on_a_walk(part, jobs, machine, line)
    for what, other, past, rows in other_futures(jobs, line, rng, cuts):
        after = planned_on_a_walk(make(), other, machine, trace_timeline(other))
        same = np.isclose(before[past], after[rows], rtol=1e-9)
        if not same.all():
            fail(
                part,
                f"the planned time of row {past[np.argmin(same)] + 1} depends on {what}",
                "use only what learn_runs() was given; an oracle declares knows_future = True",
            )


def check_no_leak_in_a_run(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that all starts up to an instant are equal in a run whose workload differs only after it."""
    part, rng = make(), np.random.default_rng(7)
    if is_oracle(part) or len(jobs) == 0:
        return
    few = crowded(jobs.take(np.arange(min(MOST_JOBS, len(jobs)))), machine)
    first = _run(part, few, machine)
    for cut in CUTS:
        now = float(np.quantile(few.submit_s, cut, method="lower"))
        unended = ~(first.schedule.end_s <= now)
        other = change_later(lengthen(few, unended, rng), few.submit_s > now, rng)
        second = _run(make(), other, machine)
        one, two = (run.schedule.start_s for run in (first, second))
        if not np.array_equal(np.where(one < now, one, np.inf), np.where(two < now, two, np.inf)):
            fail(
                part,
                f"a start before {now:g} s depends on what happens after it",
                "use only what learn_runs() was given; an oracle declares knows_future = True",
            )


def check_a_run(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a simulation with the part accepts it and ends."""
    run_in_place("runtime", make(), jobs, machine)


def planned_on_a_walk(part: Any, jobs: Jobs, machine: Machine, line: Timeline) -> Floats:
    """Return the planned time of each job at its submission, from only the jobs that had ended by then. Shape (n,).

    Raises: PolicyError for an answer that cannot be used.
    """
    known = jobs_for(part, jobs)
    first = begin_run_times(part, known, machine)
    planned = known.walltime_s.copy() if first is None else first
    if part.asked == "once":
        return planned
    run_s = np.minimum(jobs.runtime_s, jobs.walltime_s)
    taught = 0
    for rows, now in instants(jobs, line):
        until = taught + int(np.searchsorted(line.end_s[line.by_end[taught:]], now, side="right"))
        done = line.by_end[taught:until].astype(np.int32)
        seconds = ask_run_times(part, FinishedRuns(done, line.end_s[done], run_s[done]), rows, now)
        planned[rows] = np.fmin(np.maximum(seconds, 1.0), known.walltime_s[rows])
        taught = until
    return planned


def _run(part: Any, jobs: Jobs, machine: Machine) -> Run:
    """Return a run with the part under a cap that makes jobs wait."""
    return simulate(jobs, machine, policy_with("runtime", part), cap=capped(machine))
