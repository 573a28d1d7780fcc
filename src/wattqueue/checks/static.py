"""The checks of the axes that are called once before a run: order, frequency, placement.

Each check is a function ``check_NAME(axis, make, jobs, machine)``; ``static_checks`` binds the axis. An axis has one
method, whose result is brought into a tuple of arrays by ``call_order``, ``call_frequency`` or ``call_placement``,
which raise where shapes or ranges are wrong. All checks compare such tuples.

**Leaks.** A static part sees the whole workload at once, and its result for a job takes effect when that job is
submitted. The outcomes of jobs are not in its table; everything about jobs submitted later is, and must not be used.
``check_no_leak`` changes them and compares *decisions*: which entries exist and in which order they stand, which
options they may take, in which order units are taken. Values may change (a priority that is scaled by the largest
request of the trace), as long as no decision does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.checks.common import (
    Check,
    Make,
    by_unit,
    contents,
    copied,
    expect_small,
    fail,
    no_jobs,
    sample_prediction,
)
from wattqueue.checks.in_a_run import run_in_place
from wattqueue.checks.perturb import change_later
from wattqueue.checks.samples import among_more_jobs
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, Signals
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.oracles import is_oracle, jobs_for
from wattqueue.policy.registry import part_class

Result = tuple[Any, ...]
"""What a part's method returned, as arrays."""
Call = Callable[[Any, Jobs, Machine, Prediction], Result]
"""Call a part's method and check its result for shape and range."""
APPS = 3
"""Applications that a placement is called with."""
SIGNALS = Signals(Cap(np.array([0.0, 43_200.0]), np.array([np.inf, 1e6])))
"""What a frequency part is handed: a cap that is announced for the second half of a day."""
CUTS = (0.15, 0.35, 0.55, 0.75, 0.95)
"""Quantiles of the submissions at which the future begins."""


def static_checks(axis: str, seed: int = 0) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check of ``order``, ``frequency`` or ``placement``.

    ``seed`` draws the size of a large sample.
    """
    call = {"order": call_order, "frequency": call_frequency, "placement": call_placement}[axis]
    for step in (check_shapes, check_pure, check_deterministic, check_picklable, check_empty, check_bounded_memory):
        yield step.__name__, _bound(step, call)
    yield "check_no_leak", _leak_check(axis, call)
    yield "check_no_leak_among_more_jobs", among_more_jobs(_leak_check(axis, call), seed)
    yield "check_a_run", _run_check(axis)


def _bound(step: Callable[[Call, Make, Jobs, Machine], None], call: Call) -> Check:
    """Return a check with its axis's method bound."""

    def check(make: Make, jobs: Jobs, machine: Machine) -> None:
        step(call, make, jobs, machine)

    check.__doc__ = step.__doc__
    return check


def _leak_check(axis: str, call: Call) -> Check:
    """Return the leak check of an axis."""

    def check(make: Make, jobs: Jobs, machine: Machine) -> None:
        """Check that no decision depends on the future, unless the part declares ``knows_future = True``."""
        check_no_leak(axis, call, make, jobs, machine)

    return check


def _run_check(axis: str) -> Check:
    """Return the check that a simulation can carry out what a part decides."""

    def check(make: Make, jobs: Jobs, machine: Machine) -> None:
        """Check that a simulation with the part in its place accepts it and ends."""
        run_in_place(axis, make(), jobs, machine)

    return check


def call_order(part: Any, jobs: Jobs, machine: Machine, prediction: Prediction) -> Result:
    """Call ``entries`` and return job, partition and priority of each entry.

    Raises: PolicyError for rows or partitions that do not exist, a pair that occurs twice, or NaN priorities.
    """
    found = part.entries(jobs_for(part, jobs), prediction, machine)
    job, partition, priority = (np.asarray(c) for c in (found.job, found.partition, found.priority))
    if not job.shape == partition.shape == priority.shape or job.ndim != 1:
        fail(part, f"columns of shapes {job.shape}, {partition.shape}, {priority.shape}", "give one row per entry")
    if job.dtype.kind != "i" or partition.dtype.kind != "i" or np.isnan(priority).any():
        fail(part, "a job or partition is not a whole number, or a priority is NaN", "give int32, int32, float64")
    if ((job < 0) | (job >= len(jobs))).any():
        fail(part, f"jobs outside 0..{len(jobs) - 1}", "job holds rows of the job table")
    if ((partition < 0) | (partition >= len(machine.partitions))).any():
        fail(part, f"partitions outside 0..{len(machine.partitions) - 1}", "count the machine's partitions from 0")
    if len(np.unique(job.astype(np.int64) * len(machine.partitions) + partition)) != len(job):
        fail(part, "two entries of one job in one partition", "an entry is a pair of job and partition")
    return job, partition, priority


def call_frequency(part: Any, jobs: Jobs, machine: Machine, prediction: Prediction) -> Result:
    """Call ``window`` with the entries of FCFS and return their jobs, first and last options.

    Raises: PolicyError for a window that is no ordered pair of options of its entry's partition.
    """
    entries: Entries = part_class("order", "fcfs")().entries(KnownJobs.of(jobs), prediction, machine)
    first, last = (
        np.asarray(side) for side in part.window(jobs_for(part, jobs), entries, prediction, machine, SIGNALS)
    )
    if first.shape != entries.job.shape or last.shape != entries.job.shape:
        fail(
            part, f"windows {first.shape} and {last.shape} for {len(entries.job)} entries", "give one of each per entry"
        )
    if first.dtype.kind != "i" or last.dtype.kind != "i":
        fail(part, f"options of types {first.dtype} and {last.dtype}", "give whole numbers: options of the machine")
    low, high = machine.option_start[entries.partition], machine.option_start[entries.partition + 1]
    if not ((low <= first) & (first <= last) & (last < high)).all():
        fail(part, "a window leaves its entry's partition, or ends before it begins", "first <= last, highest first")
    return entries.job, first, last


def call_placement(part: Any, _jobs: Jobs, machine: Machine, prediction: Prediction) -> Result:
    """Call ``rank`` and return a rank for each application and unit, or nothing for None (units by number).

    Raises: PolicyError for another shape, or NaN.
    """
    rank = part.rank(APPS, machine, by_unit(prediction, APPS, machine))
    if rank is None:
        return ()
    if rank.shape != (APPS, machine.units) or np.isnan(rank).any():
        fail(part, f"ranks of shape {rank.shape}, or NaN", f"give ({APPS}, {machine.units}) numbers, low first")
    return (rank,)


def check_shapes(call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check shapes and ranges, with one row of the prediction per job, and with rows that jobs share."""
    prediction = sample_prediction(jobs, machine)
    call(make(), jobs, machine, prediction)
    shared = np.arange(len(jobs), dtype=np.int32) % 5
    call(make(), jobs, machine, Prediction(prediction.power_w[:5], prediction.time_factor[:5], shared))


def check_pure(call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that the job table and the prediction stay as they were."""
    part, prediction = make(), sample_prediction(jobs, machine)
    before = contents(jobs), contents((prediction.power_w, prediction.time_factor))
    call(part, jobs, machine, prediction)
    if (contents(jobs), contents((prediction.power_w, prediction.time_factor))) != before:
        fail(part, "changed its arguments", "copy a column before writing to it")


def check_deterministic(call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that two new parts, and one that is called twice, return the same."""
    part, prediction = make(), sample_prediction(jobs, machine)
    first = call(part, jobs, machine, prediction)
    for other in (part, make()):
        _expect_same(part, first, call(other, jobs, machine, prediction), "returns different results for equal input")


def check_picklable(call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a pickled copy returns the same as the original."""
    part, prediction = make(), sample_prediction(jobs, machine)
    first = call(part, jobs, machine, prediction)
    _expect_same(part, first, call(copied(part), jobs, machine, prediction), "a pickled copy answers differently")


def check_empty(call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a workload without jobs is accepted."""
    part, none = make(), no_jobs(jobs)
    call(part, none, machine, sample_prediction(none, machine))


def check_bounded_memory(call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that the state stays within some bytes per job, however often the part is called."""
    part, prediction = make(), sample_prediction(jobs, machine)
    for _ in range(5):
        call(part, jobs, machine, prediction)
    expect_small(part, len(jobs))


def check_no_leak(axis: str, call: Call, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that decisions do not depend on jobs submitted later.

    Parts that declare ``knows_future = True`` are oracles and pass.
    """
    part = make()
    if is_oracle(part) or len(jobs) == 0:
        return
    base = World(jobs, sample_prediction(jobs, machine), np.arange(len(jobs)))
    for what, known, other in other_worlds(base):
        before = decisions(axis, call(make(), base.jobs, machine, base.prediction), base.rows, known)
        after = decisions(axis, call(make(), other.jobs, machine, other.prediction), other.rows, known)
        if len(before) != len(after) or not all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)):
            fail(part, f"its decisions depend on the future: on {what}", FUTURE_HINT)


FUTURE_HINT = "use requests and predictions; an oracle declares knows_future = True"
"""Hint of every leak."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A workload as a static part is given it."""

    jobs: Jobs
    """The job table."""
    prediction: Prediction
    """Its prediction, one row per job."""
    rows: NDArray[np.int64]
    """Row of each job in the unchanged table. Shape (n,)."""


def other_worlds(base: World) -> Iterator[tuple[str, NDArray[np.bool_], World]]:
    """Yield perturbed worlds: what was changed, which jobs' decisions must stay (n,), and the world.

    At several cuts, later jobs change in everything (their rows of the prediction too), or are missing altogether: a
    part must not even count them. The workload is generated and small, so several cuts make up for what a single one
    would miss by chance.
    """
    rng = np.random.default_rng(5)
    n = len(base.jobs)
    for cut in CUTS:
        now = float(np.quantile(base.jobs.submit_s, cut, method="lower"))
        known = base.jobs.submit_s <= now
        what = f"jobs that are submitted later (cut at {now:g} s)"
        power = np.where(known, 1.0, rng.uniform(0.5, 2.0, n))[:, np.newaxis] * base.prediction.power_w
        prediction = Prediction(power, base.prediction.time_factor)
        yield what, known, World(change_later(base.jobs, ~known, rng), prediction, base.rows)
        past = np.flatnonzero(known)
        cut_off = Prediction(base.prediction.power_w[past], base.prediction.time_factor[past])
        yield what, known, World(base.jobs.take(past), cut_off, past)


def decisions(axis: str, result: Result, rows: NDArray[np.int64], known: NDArray[np.bool_]) -> Result:
    """Return what a result decides about the known jobs, in a form that can be compared between worlds.

    Orders and placements decide by order, not by value: priorities and ranks become dense ranks (equal values equal).
    """
    if axis == "placement":
        return tuple(_dense(row) for rank in result for row in rank)
    job = rows[result[0]]
    keep = known[job]
    if axis == "frequency":
        return job[keep], result[1][keep], result[2][keep]
    job, partition, priority = job[keep], result[1][keep], result[2][keep]
    place = np.lexsort((partition, job))
    return job[place], partition[place], _dense(priority)[place]


def _dense(values: NDArray[Any]) -> NDArray[Any]:
    """Return the dense rank of each value: 0 for the smallest, equal for equal values. Shape as given."""
    return np.unique(values, return_inverse=True)[1].reshape(values.shape)


def _expect_same(part: object, first: Result, second: Result, what: str) -> None:
    """Raise PolicyError with ``what`` where two results differ."""
    if len(first) != len(second) or not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)):
        fail(part, what, "seed random draws, and keep no state outside the object")
