"""What Python parts are told of the jobs that ended: the estimator by ``learn``, the others by their job table.

The loop lists completions (``Log.finished``) where a part in Python may ask for them. Mean watts are energy over time,
of one unit; a peak is known only where the trace has one (rule 11 of docs/semantics.md). Nothing is computed before a
part reads it: most controls look at the queue and at running jobs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.known_jobs import Observed
from wattqueue.parts.contracts import Finished, FinishedRuns, Runs


class Completions:
    """The list of completions of a run, read from where it was left the last time."""

    def __init__(self, jobs: Jobs, log: state.Log, loop: state.EventLoopState) -> None:
        """Make the loop list completions."""
        self.log, self.loop, self.nodes, self.peak_w = log, loop, jobs.nodes, jobs.peak_power_w()
        self.read = 0
        loop.reports_completions = 1

    def new(self, held: state.Held | None = None) -> Finished | None:
        """Return the jobs that ended since the last call, in order of their ends; None for none.

        ``held``: what jobs hold, and held before; with it, the answer states where and how they ran.
        """
        count, log = int(self.loop.finished), self.log
        if count == self.read:
            return None
        rows = log.finished[self.read : count].copy()
        self.read = count
        end = log.end[rows]
        mean = (log.energy_j[rows] - log.past_j[rows]) / (end - log.start[rows]) / self.nodes[rows]
        peak = self.peak_w
        top = mean if peak is None else np.where(np.isnan(peak[rows]), mean, np.maximum(peak[rows], mean))
        return Finished(rows, end, mean, top, None if held is None else runs_of(held, log, rows))


def runs_of(held: state.Held, log: state.Log, rows: NDArray[np.int32]) -> Runs:
    """Return units, option and limits of runs that ended: the interval log only grows, so that it still has them."""
    count = held.pieces[rows]
    first = np.cumsum(count, dtype=np.int64) - count
    at = np.repeat(held.first[rows] - first, count) + np.arange(count.sum())
    limit_w = log.limit_uw[rows] / codes.MICRO
    return Runs(first, count, held.low[at], held.high[at], log.end_option[rows], limit_w)


class EndedRuns:
    """The run times of a run's completions, read from where they were left the last time."""

    def __init__(self, kernel: state.KernelView, log: state.Log, loop: state.EventLoopState) -> None:
        """Make the loop list completions."""
        self.log, self.loop, self.factor = log, loop, kernel.held.factor
        self.read = 0
        loop.reports_completions = 1

    def new(self) -> FinishedRuns | None:
        """Return the jobs that ended since the last call, in order of their ends; None for none."""
        count, log = int(self.loop.finished), self.log
        if count == self.read:
            return None
        rows = log.finished[self.read : count].copy()
        self.read = count
        done = (log.end[rows] - log.start[rows]) / self.factor[rows] + log.checkpointed_s[rows]
        return FinishedRuns(rows, log.end[rows], done)


@dataclass(frozen=True, slots=True, eq=False)
class ObservedInRun(Observed):
    """Columns that are brought up to date when a part reads them."""

    update: Callable[[], None]

    def current(self) -> Observed:
        """Fill in the watts of jobs that ended since the last call."""
        self.update()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the columns as they are now: a copy of a part takes no run with it."""
        now = self.current()
        return Observed, (now.start_s, now.end_s, now.mean_power_w, now.max_power_w)


def observed_in(jobs: Jobs, log: state.Log, loop: state.EventLoopState) -> Observed:
    """Return what parts see of a run: starts and ends in the log itself, watts in columns of their own."""
    completions = Completions(jobs, log, loop)
    mean_w, max_w = np.full(len(jobs), np.nan), np.full(len(jobs), np.nan)

    def update() -> None:
        new = completions.new()
        if new is not None:
            mean_w[new.rows], max_w[new.rows] = new.mean_power_w, new.max_power_w

    start_s, end_s, mean, top = (_read_only(column) for column in (log.start, log.end, mean_w, max_w))
    return ObservedInRun(start_s, end_s, mean, top, update)


def _read_only(column: Floats) -> Floats:
    """Return a view of a column that cannot be written to: a part must not change the log of the run."""
    view = column.view()
    view.flags.writeable = False
    return view
