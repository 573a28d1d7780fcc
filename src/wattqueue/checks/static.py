"""The checks of the axes that are asked once before a run: order, frequency, placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wattqueue.checks.common import Check, Make, contents, copied, expect_small, fail, nobody, sample_prediction
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.order.fcfs import Fcfs

Answer = tuple[Any, ...]
Ask = Callable[[Any, Jobs, Machine, Prediction], Answer]
"""An axis's one question, with its answer checked for shape and range."""
APPS = 3


def static_checks(axis: str) -> Iterator[tuple[str, Check]]:
    """Name and function of every check of ``order``, ``frequency`` or ``placement``."""
    ask = {"order": ask_order, "frequency": ask_frequency, "placement": ask_placement}[axis]
    for step in (check_shapes, check_pure, check_deterministic, check_picklable, check_empty, check_bounded_memory):
        yield step.__name__, _bound(step, ask)


def _bound(step: Callable[[Ask, Make, Jobs, Machine], None], ask: Ask) -> Check:
    def check(make: Make, jobs: Jobs, machine: Machine) -> None:
        step(ask, make, jobs, machine)

    check.__doc__ = step.__doc__
    return check


def ask_order(part: Any, jobs: Jobs, machine: Machine, prediction: Prediction) -> Answer:
    """Entries: rows and partitions that exist, each pair once; priorities that are numbers."""
    found = part.entries(jobs, prediction, machine)
    job, partition, priority = (np.asarray(c) for c in (found.job, found.partition, found.priority))
    if not job.shape == partition.shape == priority.shape or job.ndim != 1:
        fail(part, f"columns of shapes {job.shape}, {partition.shape}, {priority.shape}", "give one row an entry")
    if job.dtype.kind != "i" or partition.dtype.kind != "i" or np.isnan(priority).any():
        fail(part, "a job or partition is no whole number, or a priority is NaN", "job int32, partition int32, float64")
    if ((job < 0) | (job >= len(jobs))).any():
        fail(part, f"jobs outside 0..{len(jobs) - 1}", "job holds rows of the job table")
    if ((partition < 0) | (partition >= len(machine.partitions))).any():
        fail(part, f"partitions outside 0..{len(machine.partitions) - 1}", "count the machine's partitions from 0")
    if len(np.unique(job.astype(np.int64) * len(machine.partitions) + partition)) != len(job):
        fail(part, "two entries of one job in one partition", "an entry is a pair of job and partition")
    return job, partition, priority


def ask_frequency(part: Any, jobs: Jobs, machine: Machine, prediction: Prediction) -> Answer:
    """Windows: an ordered pair of options of the entry's own partition."""
    entries: Entries = Fcfs().entries(jobs, prediction, machine)
    first, last = (np.asarray(side) for side in part.window(entries, prediction, machine))
    if first.shape != entries.job.shape or last.shape != entries.job.shape:
        fail(
            part, f"windows {first.shape} and {last.shape} for {len(entries.job)} entries", "give one of each an entry"
        )
    if first.dtype.kind != "i" or last.dtype.kind != "i":
        fail(part, f"options of types {first.dtype} and {last.dtype}", "give whole numbers: options of the machine")
    low, high = machine.option_start[entries.partition], machine.option_start[entries.partition + 1]
    if not ((low <= first) & (first <= last) & (last < high)).all():
        fail(part, "a window leaves its entry's partition, or ends before it begins", "first <= last, highest first")
    return first, last


def ask_placement(part: Any, _jobs: Jobs, machine: Machine, prediction: Prediction) -> Answer:
    """A rank for each application and unit, or None."""
    rank = part.rank(APPS, machine, prediction)
    if rank is None:
        return ()
    if rank.shape != (APPS, machine.units) or np.isnan(rank).any():
        fail(part, f"ranks of shape {rank.shape}, or NaN", f"give ({APPS}, {machine.units}) numbers, low first")
    return (rank,)


def check_shapes(ask: Ask, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Right shapes, and figures within their range; for a row a job, and for rows that jobs share."""
    prediction = sample_prediction(jobs, machine)
    ask(make(), jobs, machine, prediction)
    shared = np.arange(len(jobs), dtype=np.int32) % 5
    ask(make(), jobs, machine, Prediction(prediction.power_w[:5], prediction.time_factor[:5], shared))


def check_pure(ask: Ask, make: Make, jobs: Jobs, machine: Machine) -> None:
    """The job table and the prediction stay as they were."""
    part, prediction = make(), sample_prediction(jobs, machine)
    before = contents(jobs), contents((prediction.power_w, prediction.time_factor))
    ask(part, jobs, machine, prediction)
    if (contents(jobs), contents((prediction.power_w, prediction.time_factor))) != before:
        fail(part, "changed what it was given", "copy a column before you write to it")


def check_deterministic(ask: Ask, make: Make, jobs: Jobs, machine: Machine) -> None:
    """Two new parts, and one that is asked twice, answer alike."""
    part, prediction = make(), sample_prediction(jobs, machine)
    first = ask(part, jobs, machine, prediction)
    for other in (part, make()):
        _expect_same(part, first, ask(other, jobs, machine, prediction), "does not answer alike twice")


def check_picklable(ask: Ask, make: Make, jobs: Jobs, machine: Machine) -> None:
    """A copy through pickle answers as the original."""
    part, prediction = make(), sample_prediction(jobs, machine)
    first = ask(part, jobs, machine, prediction)
    _expect_same(part, first, ask(copied(part), jobs, machine, prediction), "a pickled copy answers differently")


def check_empty(ask: Ask, make: Make, jobs: Jobs, machine: Machine) -> None:
    """No jobs at all."""
    part, none = make(), nobody(jobs)
    ask(part, none, machine, sample_prediction(none, machine))


def check_bounded_memory(ask: Ask, make: Make, jobs: Jobs, machine: Machine) -> None:
    """The state stays within some bytes a job, however often it is asked."""
    part, prediction = make(), sample_prediction(jobs, machine)
    for _ in range(5):
        ask(part, jobs, machine, prediction)
    expect_small(part, len(jobs))


def _expect_same(part: object, first: Answer, second: Answer, what: str) -> None:
    if len(first) != len(second) or not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)):
        fail(part, what, "seed what you draw, and keep no state outside the object")
