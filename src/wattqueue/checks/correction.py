"""The checks of corrections: what they make of predictions and of measurements, by themselves and behind a base.

Behind ``history-mean``, which learns, a correction makes an estimator, and passes every check of one
(``checks.estimator``). One that may predict less than it is given has to state it (rule 4 of docs/semantics.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from wattqueue.checks.common import Check, Make, contents, fail, sample_prediction
from wattqueue.checks.estimator import estimator_checks
from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Finished, PowerCorrection, Runs
from wattqueue.parts.oracles import jobs_for
from wattqueue.policy.corrected import Corrected
from wattqueue.policy.interfaces import stated
from wattqueue.policy.registry import part_class

BASE = "history-mean"
"""The estimator behind which a correction is checked."""


def correction_checks(seed: int = 0) -> Iterator[tuple[str, Check]]:
    """Yield name and function of every check, those of the correction by itself first."""
    for alone in (check_apply, check_invert, check_lowers):
        yield alone.__name__, alone
    for name, check in estimator_checks(seed):
        yield f"{name}_behind_a_base", _behind_a_base(check)


def _behind_a_base(check: Check) -> Check:
    """Return a check of estimators, of a base with the correction behind it."""

    def run(make: Make, jobs: Jobs, machine: Machine) -> None:
        check(lambda: Corrected(part_class("estimator", BASE)(), (make(),)), jobs, machine)

    run.__doc__ = check.__doc__
    return run


def check_apply(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that watts and quantiles keep shapes, stay 0 or more, and run times stay; arguments are not written to."""
    part, known = _made(make, jobs)
    before = sample_prediction(jobs, machine)
    before = replace(before, quantiles={0.9: before.power_w * 1.1})
    found, again = (_unwritten(part, part.apply, before, known, machine) for _ in range(2))
    for table, given in ((found.power_w, before.power_w), (found.quantiles.get(0.9), before.quantiles[0.9])):
        if table is None or np.shape(table) != given.shape or not (np.nan_to_num(table) >= 0).all():
            fail(part, "apply() gave watts or quantiles of another shape, or below 0", f"give {given.shape}")
    if not np.array_equal(found.time_factor, before.time_factor):
        fail(part, "apply() changed run times", "correct watts, quantiles and unit factors alone")
    factor = found.unit_factor
    if factor is not None and factor.shape != (len(known.app.names), machine.units):
        fail(part, f"apply() gave factors of units {factor.shape}", "give one for each application and unit")
    if not np.array_equal(found.power_w, again.power_w, equal_nan=True):
        fail(part, "apply() gave other watts when it was called again", "keep nothing that changes from call to call")


def check_invert(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that jobs, ends and gaps stay, that watts stay above 0, and that runs may be unknown."""
    part, known = _made(make, jobs)
    part.apply(sample_prediction(jobs, machine), known, machine)
    k = min(len(jobs), 20)
    rows, ends = np.arange(k, dtype=np.int32), np.arange(k, dtype=np.float64)
    watts = np.where(rows % 5 == 0, np.nan, 100.0 + rows)
    at = (rows % machine.units).astype(np.int32)
    runs = Runs(rows.astype(np.int64), np.ones(k, np.int32), at, at, np.zeros(k, np.int16), np.full(k, np.inf))
    for ran in (None, runs):
        finished = Finished(rows, ends, watts, watts * 1.2, ran)
        found = _unwritten(part, part.invert, finished, known, machine)
        if not (np.array_equal(found.rows, rows) and np.array_equal(found.end_s, ends)):
            fail(part, "invert() changed jobs or their ends", "change watts alone")
        for mine, given in ((found.mean_power_w, finished.mean_power_w), (found.max_power_w, finished.max_power_w)):
            if np.shape(mine) != (k,) or not np.array_equal(mine > 0, given > 0):
                fail(part, "invert() changed a gap, or gave watts that are not above 0", f"give shape ({k},), NaN kept")


def check_lowers(make: Make, jobs: Jobs, machine: Machine) -> None:
    """Check that one that predicts less than it is given, on some unit, states ``lowers``: rule 4 relies on it."""
    part, known = _made(make, jobs)
    before = sample_prediction(jobs, machine)
    found = part.apply(before, known, machine)
    least = 1.0 if found.unit_factor is None else np.nanmin(found.unit_factor, initial=1.0)
    if (found.power_w * least < before.power_w).any() and not stated(part, "lowers", False):
        fail(part, "predicts less than it is given, and does not say so", "set lowers = True")


def _made(make: Make, jobs: Jobs) -> tuple[PowerCorrection, KnownJobs]:
    """Return a new correction, and the table of jobs that it is given."""
    part: Any = make()
    return part, jobs_for(part, jobs)


def _unwritten(part: object, call: Callable[..., Any], given: Any, jobs: KnownJobs, machine: Machine) -> Any:
    """Return what a method answers. Raises: PolicyError where it changed what it was given."""
    before = contents(given)
    found = call(given, jobs, machine)
    if contents(given) != before:
        fail(part, f"{call.__name__}() wrote to what it was given", "return a new value: dataclasses.replace")
    return found
