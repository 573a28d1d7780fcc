"""The checks of the axis *estimator*: what will a job draw?"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import get_args

import numpy as np

from wattqueue.checks.common import copied, fail, pickled
from wattqueue.checks.leak import find_leak
from wattqueue.checks.samples import sample_jobs, sample_machine
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Estimator, Finished, OnlineEstimator, Prediction
from wattqueue.parts.timeline import trace_timeline
from wattqueue.parts.walk import Walked, step, walk

Make = Callable[[], Estimator]
Check = Callable[[Make, Jobs, Machine], None]

MOST_BYTES = 32_000_000
MOST_BYTES_A_JOB = 2_000


def check_estimator(make: Make, jobs: Jobs | None = None, machine: Machine | None = None) -> None:
    """Run every check on the estimators that ``make()`` gives; each check asks for new ones.

    ``jobs`` and ``machine`` replace the generated samples where an estimator needs figures of its own.

    Raises: PolicyError saying what was wrong, of the first check that fails.
    """
    for _, check in estimator_checks():
        check(make, jobs or sample_jobs(), machine or sample_machine())


def estimator_checks() -> Iterator[tuple[str, Check]]:
    """Name and function of every check, the plainest first, for pytest's parametrize."""
    for name, value in list(globals().items()):
        if name.startswith("check_") and name != "check_estimator" and inspect.isfunction(value):
            yield name, value


def check_attributes(make: Make, _jobs: Jobs, _machine: Machine) -> None:
    """``asked`` and ``machine_figures`` are set, and an online estimator can learn."""
    part = make()
    asked = getattr(part, "asked", None)
    if asked not in get_args(Asked):
        fail(part, f"asked is {asked!r}", f"set it to one of {', '.join(get_args(Asked))}")
    if not isinstance(getattr(part, "machine_figures", None), bool):
        fail(part, "machine_figures is not set", "set it to True only where watts are the machine's own maxima")
    if asked != "once" and not isinstance(part, OnlineEstimator):
        fail(part, f"is asked {asked}, but cannot learn", "write predict_rows() and learn()")


def check_shapes_and_units(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Watts of **one** unit by option, relative run times above 0, rows within the table."""
    part = make()
    got = part.predict(jobs, machine)
    options = len(machine.option_partition)
    _require_table(part, got, len(jobs), options)
    highest = max(p.max_w or np.inf for p in machine.partitions)
    offered = got.power_w[np.isfinite(got.power_w)]
    if (offered < 0).any() or (offered > 2.0 * highest).any():
        fail(part, f"watts from {offered.min():g} to {offered.max():g}", "give watts of one unit, idle share included")
    for q, watts in got.quantiles.items():
        if not 0.0 < q < 1.0 or watts.shape != got.power_w.shape:
            fail(part, f"quantile {q} has shape {watts.shape}", f"give {got.power_w.shape}, 0 < q < 1")
    answers = walk(part, jobs, machine, trace_timeline(jobs)).power_w
    if (answers[np.isfinite(answers)] > 2.0 * highest).any():
        fail(part, f"learned to predict {np.nanmax(answers):g} W", "give watts of one unit, idle share included")


def _require_table(part: Estimator, got: Prediction, n: int, options: int) -> None:
    power, time = got.power_w, got.time_factor
    if power.dtype != np.float64 or time.dtype != np.float64:
        fail(part, f"gave {power.dtype} watts and {time.dtype} times", "give float64")
    if power.ndim != 2 or power.shape[1] != options or time.shape != power.shape:
        fail(part, f"gave watts {power.shape} and times {time.shape}", f"give (C, {options}) both")
    if got.row is None and len(power) != n:
        fail(part, f"gave {len(power)} rows for {n} jobs and no row numbers", "give a row a job, or `row`")
    if got.row is not None and (got.row.shape != (n,) or ((got.row < 0) | (got.row >= len(power))).any()):
        fail(part, f"row numbers outside 0..{len(power) - 1}, or not one a job", "give row (n,) int32")
    if not (np.isfinite(time) & (time > 0)).all():
        fail(part, "a relative run time is not above 0 and finite", "1 is the trace's own run time")


def check_pure(make: Make, jobs: Jobs, machine: Machine) -> None:
    """The job table stays as it was."""
    part = make()
    before = pickle.dumps(_columns(jobs))
    walk(part, jobs, machine, trace_timeline(jobs))
    if part.asked != "once":
        step(part, jobs, machine, trace_timeline(jobs))
    if pickle.dumps(_columns(jobs)) != before:
        fail(part, "changed the job table", "copy a column before you write to it")


def check_deterministic(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Two new estimators, and one that starts afresh, answer alike."""
    part = make()
    first = _answers(part, jobs, machine)
    _require_equal(part, first, _answers(make(), jobs, machine), "two new estimators answer differently")
    _require_equal(part, first, _answers(part, jobs, machine), "predict() does not start afresh")


def check_one_go_equals_steps(make: Make, jobs: Jobs, machine: Machine) -> None:
    """An estimator that can walk a trace in one go answers as when it is asked job by job."""
    part = make()
    if part.asked != "once":
        line = trace_timeline(jobs)
        together, steps = walk(part, jobs, machine, line), step(make(), jobs, machine, line)
        _require_equal(part, together, steps, "a walk in one go and one job by job differ")


def check_picklable(make: Make, jobs: Jobs, machine: Machine) -> None:
    """A copy through pickle answers as the original: a run can go on in another process."""
    part = make()
    _answers(part, jobs, machine)
    copy = copied(part)
    if part.asked == "once":
        _require_equal(part, _answers(part, jobs, machine), _answers(copy, jobs, machine), "a pickled copy differs")
        return
    rows, now = np.arange(min(len(jobs), 20), dtype=np.int32), float(jobs.submit_s.max(initial=0.0)) + 1e7
    mine, its = part.predict_rows(rows, now), copy.predict_rows(rows, now)  # type: ignore[attr-defined]
    if not np.array_equal(mine, its, equal_nan=True):
        fail(part, "a pickled copy answers differently", "keep all state in attributes that can be pickled")


def check_empty(make: Make, jobs: Jobs, machine: Machine) -> None:
    """No jobs at all, nobody arriving, nothing finished."""
    part, nobody = make(), jobs.take(np.zeros(0, np.int64))
    got = part.predict(nobody, machine)
    _require_table(part, got, 0, len(machine.option_partition))
    if isinstance(part, OnlineEstimator) and part.asked != "once":
        part.predict(jobs, machine)
        part.learn(Finished(np.zeros(0, np.int32), np.zeros(0), np.zeros(0), np.zeros(0)))
        answer = np.asarray(part.predict_rows(np.zeros(0, np.int32), 0.0))
        if answer.shape != (0, len(machine.option_partition)):
            fail(part, f"gave {answer.shape} for no jobs", f"give (0, {len(machine.option_partition)})")


def check_bounded_memory(make: Make, jobs: Jobs, machine: Machine) -> None:
    """The state stays within some bytes a job, and does not grow from run to run."""
    part = make()
    sizes = []
    for _ in range(3):
        _answers(part, jobs, machine)
        sizes.append(len(pickled(part)))
    allowed = MOST_BYTES + MOST_BYTES_A_JOB * len(jobs)
    if sizes[0] > allowed:
        fail(part, f"its state takes {sizes[0]:,} bytes", f"keep it below {allowed:,}")
    if sizes[2] > 1.2 * sizes[0] + 4_096:
        fail(part, f"its state grows from run to run: {sizes[0]:,} to {sizes[2]:,} bytes", "let predict() start afresh")


def check_no_leak(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Nothing is known before it has happened, unless the estimator says so (``knows_future = True``)."""
    part = make()
    if not getattr(part, "knows_future", False):
        found = find_leak(make, jobs, machine)
        if found:
            fail(part, found, "use only what learn() was given; a bound that may know sets knows_future = True")


def _answers(part: Estimator, jobs: Jobs, machine: Machine) -> Walked:
    line = trace_timeline(jobs)
    return walk(part, jobs, machine, line) if part.asked == "once" else step(part, jobs, machine, line)


def _require_equal(part: Estimator, first: Walked, second: Walked, what: str) -> None:
    pairs = [(first.power_w, second.power_w), *((w, second.quantiles[q]) for q, w in first.quantiles.items())]
    if not all(np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True) for a, b in pairs):
        fail(part, what, "seed what you draw, and keep no state outside the object")


def _columns(jobs: Jobs) -> list[object]:
    found: list[object] = []
    for f in fields(jobs):
        value = getattr(jobs, f.name)
        found.append((value.codes, value.names) if isinstance(value, Labels) else value)
    return found
