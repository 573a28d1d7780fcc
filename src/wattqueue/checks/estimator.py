"""The checks of the axis *estimator*: predictions of what jobs draw.

A generated trace is replayed (``parts/estimator_replay.py``): an estimator is called as in a simulation, ``predict``
once, then at each instant ``learn`` with that instant's completions before ``predict_rows`` for its submissions (rule 2
of docs/semantics.md). Each check makes new estimators, so a fault found by one does not hide another.
``check_estimator``
runs all; the functions named ``check_...`` are found by name, in the order of this file, and may be run one by one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import get_args

import numpy as np

from wattqueue.checks.common import bounded, contents, copied, fail, no_jobs, pickled
from wattqueue.checks.in_a_run import run_in_place
from wattqueue.checks.leak import CUTS, find_leak
from wattqueue.checks.samples import among_more_jobs, sample_jobs, sample_machine
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Asked, Estimator, Finished, OnlineEstimator, Prediction
from wattqueue.parts.estimator_replay import ReplayedPredictions, replay_estimator, step
from wattqueue.parts.oracles import is_oracle, jobs_for
from wattqueue.parts.timeline import trace_timeline
from wattqueue.policy.interfaces import stated

Make = Callable[[], Estimator]
"""Makes a new estimator; a class without required arguments is one."""
Check = Callable[[Make, Jobs, Machine], None]
"""One check: raises PolicyError where the estimators that are made break a rule."""

MOST_BYTES = 32_000_000
MOST_BYTES_A_JOB = 2_000
"""An estimator's pickled state may take the first plus the second for each job: models of regressions are large."""
LEAST_SHARE = 0.5
"""Predictions whose sum is below this share of what was measured are of no use to a cap."""
CUT_AMONG_MORE = (0.6,)
"""Quantile of the submissions at which the future begins in a large sample."""
TOO_HIGH = 2.0
"""Predictions above this multiple of the machine's maximum per unit are those of whole jobs, by mistake."""


def check_estimator(make: Make, jobs: Jobs | None = None, machine: Machine | None = None) -> None:
    """Run every check on the estimators that ``make()`` gives; each check makes new ones.

    ``jobs`` and ``machine`` replace the generated samples where an estimator needs other data.

    Raises: PolicyError of the first check that fails.

    Example: ``check_estimator(MyEstimator)`` in a test of your own.
    """
    for _, check in estimator_checks():
        bounded(check)(make, jobs or sample_jobs(), machine or sample_machine())


def estimator_checks(seed: int = 0) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check, the simplest first, for pytest's parametrize.

    ``seed`` draws the size of a large sample.
    """
    for name, value in list(globals().items()):
        if name.startswith("check_") and name != "check_estimator" and inspect.isfunction(value):
            yield name, value
    yield "check_no_leak_among_more_jobs", among_more_jobs(partial(check_no_leak, cuts=CUT_AMONG_MORE), seed)


def check_attributes(make: Make, _jobs: Jobs, _machine: Machine) -> None:
    """Check that ``asked`` and ``machine_figures`` are set, and that an online estimator can learn.

    ``asked`` decides when the engine calls the estimator; ``machine_figures`` whether its watts may reject a job for
    ever (rule 4 of docs/semantics.md), so neither has a default.
    """
    part = make()
    asked = stated(part, "asked", None)
    if asked not in get_args(Asked):
        fail(part, f"asked is {asked!r}", f"set it to one of {', '.join(get_args(Asked))}")
    if not isinstance(stated(part, "machine_figures", None), bool):
        fail(part, "machine_figures is not set", "set it to True only where watts are the machine's own maxima")
    if asked != "once" and not isinstance(part, OnlineEstimator):
        fail(part, f"asked is {asked!r}, but it cannot learn", "write predict_rows() and learn()")


def check_shapes_and_units(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check watts of **one** unit by option, relative run times above 0, and rows within the table.

    The most frequent mistake is watts of a whole job: predictions above ``TOO_HIGH`` times the machine's maximum are
    refused, before and after learning. NaN (unknown) and infinity (not offered) are allowed.
    """
    part = make()
    got = part.predict(jobs_for(part, jobs), machine)
    options = len(machine.option_partition)
    _require_table(part, got, len(jobs), options)
    highest = max(p.max_w or np.inf for p in machine.partitions)
    offered = got.power_w[np.isfinite(got.power_w)]
    if (offered < 0).any() or (offered > TOO_HIGH * highest).any():
        fail(part, f"watts from {offered.min():g} to {offered.max():g}", "give watts of one unit, idle share included")
    for q, watts in got.quantiles.items():
        if not 0.0 < q < 1.0 or watts.shape != got.power_w.shape:
            fail(part, f"quantile {q} has shape {watts.shape}", f"give {got.power_w.shape}, 0 < q < 1")
    answers = replay_estimator(part, jobs, machine, trace_timeline(jobs)).power_w
    if (answers[np.isfinite(answers)] > TOO_HIGH * highest).any():
        fail(part, f"learned to predict {np.nanmax(answers):g} W", "give watts of one unit, idle share included")


def _require_table(part: Estimator, got: Prediction, n: int, options: int) -> None:
    """Check types, shapes and ranges of a prediction of ``n`` jobs. Raises: PolicyError."""
    power, time = got.power_w, got.time_factor
    if power.dtype != np.float64 or time.dtype != np.float64:
        fail(part, f"gave {power.dtype} watts and {time.dtype} times", "give float64")
    if power.ndim != 2 or power.shape[1] != options or time.shape != power.shape:
        fail(part, f"gave watts {power.shape} and times {time.shape}", f"give (C, {options}) both")
    if got.row is None and len(power) != n:
        fail(part, f"gave {len(power)} rows for {n} jobs and no row numbers", "give one row per job, or `row`")
    if got.row is not None and (got.row.shape != (n,) or ((got.row < 0) | (got.row >= len(power))).any()):
        fail(part, f"row numbers outside 0..{len(power) - 1}, or not one per job", "give row (n,) int32")
    if not (np.isfinite(time) & (time > 0)).all():
        fail(part, "a relative run time is not above 0 and finite", "1 is the trace's own run time")


def check_pure(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that the job table stays as it was: all parts of a run share it, and runs of a campaign map it."""
    part = make()
    before = contents(jobs)
    replay_estimator(part, jobs, machine, trace_timeline(jobs))
    if part.asked != "once":
        step(part, jobs, machine, trace_timeline(jobs))
    if contents(jobs) != before:
        fail(part, "changed the job table", "copy a column before writing to it")


def check_deterministic(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that two new estimators, and one that starts again, predict the same.

    The second part finds state that ``predict`` does not reset, which would leak from one run into the next.
    """
    part = make()
    first = _answers(part, jobs, machine)
    _require_equal(part, first, _answers(make(), jobs, machine), "two new estimators return different results")
    _require_equal(part, first, _answers(part, jobs, machine), "predict() does not reset the state")


def check_one_go_equals_steps(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a compiled walk in one go and a walk instant by instant give equal predictions.

    Estimators of WattQueue's own kind replay a trace in one compiled loop; the simulator calls them instant by instant.
    """
    part = make()
    if part.asked != "once":
        line = trace_timeline(jobs)
        together, steps = replay_estimator(part, jobs, machine, line), step(make(), jobs, machine, line)
        _require_equal(part, together, steps, "a walk in one go and one job by job differ")


def check_picklable(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a pickled copy predicts as the original: campaigns send parts to other processes."""
    part = make()
    _answers(part, jobs, machine)
    copy = copied(part)
    if part.asked == "once":
        _require_equal(part, _answers(part, jobs, machine), _answers(copy, jobs, machine), "a pickled copy differs")
        return
    rows, now = np.arange(min(len(jobs), 20), dtype=np.int32), float(jobs.submit_s.max(initial=0.0)) + 1e7
    mine, its = part.predict_rows(rows, now), copy.predict_rows(rows, now)  # type: ignore[attr-defined]
    if not np.array_equal(mine, its, equal_nan=True):
        fail(part, "a pickled copy returns other results", "keep all state in attributes that can be pickled")


def check_empty(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that no jobs, no submissions and no completions are accepted."""
    part, none = make(), no_jobs(jobs)
    got = part.predict(jobs_for(part, none), machine)
    _require_table(part, got, 0, len(machine.option_partition))
    if isinstance(part, OnlineEstimator) and part.asked != "once":
        part.predict(jobs_for(part, jobs), machine)
        part.learn(Finished(np.zeros(0, np.int32), np.zeros(0), np.zeros(0), np.zeros(0)))
        answer = np.asarray(part.predict_rows(np.zeros(0, np.int32), 0.0))
        if answer.shape != (0, len(machine.option_partition)):
            fail(part, f"gave {answer.shape} for no jobs", f"give (0, {len(machine.option_partition)})")


def check_bounded_memory(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that the state stays within some bytes per job, and does not grow from run to run.

    Measured as pickled bytes after one and after three walks. Live operation runs for months with one estimator.
    """
    part = make()
    sizes = []
    for _ in range(3):
        _answers(part, jobs, machine)
        sizes.append(len(pickled(part)))
    allowed = MOST_BYTES + MOST_BYTES_A_JOB * len(jobs)
    if sizes[0] > allowed:
        fail(part, f"its state takes {sizes[0]:,} bytes", f"keep it below {allowed:,}")
    if sizes[2] > 1.2 * sizes[0] + 4_096:
        fail(
            part,
            f"its state grows from run to run: {sizes[0]:,} to {sizes[2]:,} bytes",
            "let predict() reset the state",
        )


def check_no_leak(make: Make, jobs: Jobs, machine: Machine, *, cuts: tuple[float, ...] = CUTS) -> None:
    """Check that nothing is used before it has happened, unless the estimator declares ``knows_future = True``."""
    part = make()
    if not is_oracle(part):
        found = find_leak(make, jobs, machine, cuts=cuts)
        if found:
            fail(part, found, "use only what learn() was given; an oracle declares knows_future = True")


def check_watts(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that predictions are no less than what units draw when idle, and not far below what the jobs drew.

    A cap that is kept by such predictions is exceeded. Jobs without a prediction or a measurement say nothing.
    """
    part = make()
    predicted = _answers(part, jobs, machine).power_w
    idle_w = min(p.idle_w for p in machine.partitions)
    answered = np.isfinite(predicted)
    if (predicted[answered] < idle_w).sum() > answered.sum() / 2:
        fail(part, f"predicts {np.median(predicted[answered]):g} W, less than an idle unit draws", "include idle watts")
    if jobs.mean_power_w is not None:
        both = answered & (np.nan_to_num(jobs.mean_power_w) >= idle_w)
        share = predicted[both].sum() / max(jobs.mean_power_w[both].sum(), 1.0)
        if both.any() and share < LEAST_SHARE:
            fail(part, f"predicts {100 * share:.0f} % of what the jobs drew", "give watts of one unit, idle included")


def check_a_run(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that a simulation with the estimator accepts it and ends."""
    run_in_place("estimator", make(), jobs, machine)


def _answers(part: Estimator, jobs: Jobs, machine: Machine) -> ReplayedPredictions:
    """Walk the trace, an online estimator instant by instant."""
    line = trace_timeline(jobs)
    return replay_estimator(part, jobs, machine, line) if part.asked == "once" else step(part, jobs, machine, line)


def _require_equal(part: Estimator, first: ReplayedPredictions, second: ReplayedPredictions, what: str) -> None:
    """Check that two walks predict the same, to 1e-9. Raises: PolicyError with ``what``."""
    pairs = [(first.power_w, second.power_w), *((w, second.quantiles[q]) for q, w in first.quantiles.items())]
    if not all(np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True) for a, b in pairs):
        fail(part, what, "seed random draws, and keep no state outside the object")
