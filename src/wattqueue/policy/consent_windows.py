"""Windows of options as far as users consent to what is done for load targets (rule 20 of docs/semantics.md).

``consented_windows``: the window of a job that does not consent is the one that the frequency part gives where no
target is known. ``reach_of``: how far the compiled pass may go in a window (``kernels/consent.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import state
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Floats, Frequency, Ints, Prediction
from wattqueue.policy.interfaces import method_of

KEPT_NEAREST = "jobs that kept the nearest frequency, because their window or the policy's parts left none"
"""Note of a run, and of a round: for how many that is so."""
SLACK = 1e-9
"""Relative slack of comparisons of run times: rounding."""


class Window(NamedTuple):
    """The options at which each entry may start, numbered from the highest frequency down. Shapes (m,)."""

    first: NDArray[Any]
    last: NDArray[Any]
    """The last one, with those for use in load targets."""
    plain: NDArray[Any] | None = None
    """The last one outside of load targets; None: ``last``."""

    def take(self, kept: NDArray[Any]) -> Window:
        """Return the windows of some entries."""
        return Window(self.first[kept], self.last[kept], None if self.plain is None else self.plain[kept])

    def with_more(self, first: NDArray[Any], last: NDArray[Any]) -> Window:
        """Return these windows with those of further entries behind them, none of which has options for targets."""
        plain = None if self.plain is None else np.concatenate((self.plain, last))
        return Window(np.concatenate((self.first, first)), np.concatenate((self.last, last)), plain)


def consented_windows(
    part: Frequency, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
) -> Window:
    """Return the windows of a frequency part, as far as users consent to what it does for load targets. Shapes (m,).

    A job whose user does not consent to the first option of its window (flag, ``greatest_slowdown``, and
    ``latest_end_s`` if it started at its submission) has the window that the part gives without targets. Options that
    the part adds for use in targets (``in_targets``) end where the consent does.
    """
    first, last = (np.asarray(side) for side in part.window(jobs, entries, prediction, machine, signals))
    if len(signals.targets):
        plain = part.window(jobs, entries, prediction, machine, Signals(signals.cap))
        plain_first, plain_last = (np.asarray(side) for side in plain)
        moved = (first != plain_first) | (last != plain_last)
        if moved.any():
            moved &= ~_agreed(jobs, entries, prediction, machine, first)
            first, last = np.where(moved, plain_first, first), np.where(moved, plain_last, last)
    in_targets = method_of(part, "in_targets")
    if in_targets is None:
        return Window(first, last)
    lowest = np.maximum(last, in_targets(entries, machine))
    return Window(first, np.maximum(last, reach(jobs, machine, prediction, entries.job, first, lowest)), last)


def jobs_without_options(
    part: Frequency, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
) -> int:
    """Return for how many jobs a frequency part has no option somewhere, so that they keep the nearest one.

    Raises: PolicyError where it is all jobs, everywhere: then the row or its columns are wrong.
    """
    asked = method_of(part, "without_options")
    if asked is None or not len(entries.job):
        return 0
    empty = np.asarray(asked(jobs, entries, prediction, machine, signals), np.bool_)
    if empty.all():
        raise PolicyError(
            "frequency: no job has an option that all of its parts and its window allow",
            where=machine.name,
            hint="compare the row, and the columns frequency_min_hz, frequency_max_hz and capped_windows, with the "
            "machine's clocks and the cap",
        )
    return len(np.unique(entries.job[empty]))


def _agreed(
    jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, option: NDArray[np.integer]
) -> NDArray[np.bool_]:
    """Return which jobs consent to a start at an option each, whenever it comes. Shape (m,)."""
    consent, job = jobs.consent, entries.job
    if consent is None:
        return np.zeros(len(job), np.bool_)
    factor = prediction.factors(job, option)
    stretch = factor / prediction.factors(job, machine.option_start[entries.partition])
    end_s = jobs.submit_s[job] + jobs.walltime_s[job] * factor
    within = stretch <= most_stretch(jobs, job) * (1 + SLACK)
    return np.asarray(consent.given[job] & within & (end_s <= latest_end_s(jobs)[job]), np.bool_)


def most_stretch(jobs: KnownJobs, rows: Ints) -> Floats:
    """Return the greatest run time, as a multiple of that at full speed, to which users consent; 1 without. (k,)."""
    consent = jobs.consent
    if consent is None:
        return np.ones(len(rows))
    most = np.where(np.isnan(consent.greatest_slowdown[rows]), np.inf, consent.greatest_slowdown[rows])
    return np.where(consent.given[rows], most, 1.0)


def latest_end_s(jobs: KnownJobs) -> Floats:
    """Return by when each job must end if it is slowed or suspended for a target; inf for no limit. Shape (n,)."""
    if jobs.consent is None:
        return np.full(len(jobs), np.inf)
    return np.where(np.isnan(jobs.consent.latest_end_s), np.inf, jobs.consent.latest_end_s)


def reach(
    jobs: KnownJobs,
    machine: Machine,
    prediction: Prediction,
    job: Ints,
    first: NDArray[np.integer],
    last: NDArray[np.integer],
) -> NDArray[np.integer]:
    """Return the last option of each window to which the consent reaches; its first where there is none. Shape (m,).

    It ends before an option that the estimator does not offer (watts of inf).
    """
    consent = jobs.consent
    if consent is None or not consent.given.any():
        return first
    most = most_stretch(jobs, job) * (1 + SLACK)
    full = prediction.factors(job, machine.option_start[machine.option_partition[first]])
    found, on = first.copy(), consent.given[job]
    for step in range(1, int((last - first).max(initial=0)) + 1):
        option = np.minimum(first + step, last)
        on = on & (first + step <= last) & (prediction.factors(job, option) / full <= most)
        on &= ~np.isinf(prediction.watts(job, option))
        found = np.where(on, option, found)
    return found


def reach_of(jobs: KnownJobs, machine: Machine, prediction: Prediction, queue: state.EntryTable) -> state.ConsentReach:
    """Return how far entries may be slowed for a target, as kernels take it; no column is copied where none may."""
    found = reach(jobs, machine, prediction, queue.job, queue.first, queue.last)
    latest = np.zeros(0)
    if jobs.consent is not None and not np.isnan(jobs.consent.latest_end_s).all():
        latest = latest_end_s(jobs)
    last = queue.first if found is queue.first else np.ascontiguousarray(found, np.int16)
    return state.ConsentReach(last, latest)
