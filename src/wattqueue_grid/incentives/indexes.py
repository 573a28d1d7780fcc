"""The indexes of paper 5 for each job: a schedule with load targets against its counterfactual without them.

The counterfactual is a simulation of the same jobs without the targets, under the same policy and cap. Also for jobs
that really ran, the wait that demand response added cannot be measured, only simulated; every statement says so.

Only jobs whose users consent have indexes. An index is never negative: a job that gained by the event pays nothing.
Where consent was withdrawn at an instant t, what had been added until t counts and nothing later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats
from wattqueue.model.schedule import Schedule
from wattqueue_grid.incentives.rewards import JobQuantities

BASIS = "counterfactual: added wait and run time are differences to a simulation without the event"
"""How the indexes were obtained, as statements and the ledger say it."""


@dataclass(frozen=True, slots=True, eq=False)
class JobIndexes:
    """Indexes of n jobs in whole base units. Shapes (n,)."""

    added_wait: NDArray[np.int64]
    """Node-seconds that a job waited longer."""
    added_run: NDArray[np.int64]
    """Node-seconds that it ran longer."""
    power_freed: NDArray[np.int64]
    """Watts, mean over the event."""
    energy_freed: NDArray[np.int64]
    """Joules within the event."""
    usage: NDArray[np.int64]
    """Node-seconds of the run without the event."""

    def of_job(self, row: int) -> JobQuantities:
        """Return the quantities of one job."""
        columns = (self.added_wait, self.added_run, self.power_freed, self.energy_freed, self.usage)
        return JobQuantities(*(int(column[row]) for column in columns))


def indexes(
    nodes: NDArray[np.int32],
    consenting: NDArray[np.bool_],
    with_event: Schedule,
    without: Schedule,
    windows_s: Sequence[tuple[float, float]],
    withdrawn_s: Floats | None = None,
) -> JobIndexes:
    """Return the indexes of the jobs for one event, or for several that are settled together.

    Args:
        nodes: Units of each job. Shape (n,).
        consenting: Which jobs may be slowed down or held back. Shape (n,).
        with_event: Schedule with the load targets.
        without: Schedule of the same jobs without them.
        windows_s: Begin and end of each target on the clock of the schedules; they do not overlap.
        withdrawn_s: When each job's consent was withdrawn, inf for never; None for none at all. Shape (n,).

    Jobs that did not run in one of the schedules have no index.
    """
    until = np.full(len(nodes), np.inf) if withdrawn_s is None else withdrawn_s
    ran = with_event.ran & without.ran & consenting
    start, end, plain_start, plain_end = (
        np.where(ran, column, 0.0) for column in (with_event.start_s, with_event.end_s, without.start_s, without.end_s)
    )
    wait = np.clip(np.minimum(start, until) - plain_start, 0.0, None)
    # At full speed the job would have ended so long after its start; what lies behind is added.
    run = np.clip(np.minimum(end, until) - (start + (plain_end - plain_start)), 0.0, None)
    freed, length = np.zeros(len(nodes)), sum(last - begin for begin, last in windows_s)
    for begin, last in windows_s:
        stop = np.clip(until, begin, last)
        freed += _energy_j(without, begin, stop, ran) - _energy_j(with_event, begin, stop, ran)
    freed = np.clip(freed, 0.0, None)
    usage = np.where(without.ran, nodes * np.where(without.ran, without.end_s - without.start_s, 0.0), 0.0)
    whole = [np.rint(np.where(ran, nodes * seconds, 0.0)).astype(np.int64) for seconds in (wait, run)]
    joules = np.rint(freed).astype(np.int64)
    watts = np.rint(freed / max(length, 1e-9)).astype(np.int64)
    return JobIndexes(whole[0], whole[1], watts, joules, np.rint(usage).astype(np.int64))


def _energy_j(schedule: Schedule, begin_s: float, stop_s: Floats, ran: NDArray[np.bool_]) -> Floats:
    """Return the energy of each job between an instant and another, at the job's mean power. Shape (n,)."""
    start, end = np.where(ran, schedule.start_s, 0.0), np.where(ran, schedule.end_s, 0.0)
    inside = np.clip(np.minimum(end, stop_s) - np.maximum(start, begin_s), 0.0, None)
    length = np.where(end > start, end - start, 1.0)
    return np.asarray(np.where(ran, np.nan_to_num(schedule.energy_j) * inside / length, 0.0), np.float64)
