"""Suspend or requeue running jobs whose users consent while a load target is exceeded; they go on after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.parts.actions import Action, Requeue, Resume, Suspend

if TYPE_CHECKING:
    from wattqueue.policy.view import View

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


class ParkConsenting:
    """At each signal, bring the ledger below the limit by parking as few consenting jobs as possible.

    A job that states how often it writes a checkpoint (``checkpoint_s``) is requeued and keeps its work up to the last
    one: its units are free for others, and it has its old place in the queue. Any other is suspended. Both are chosen
    alike.

    A suspended job is expected to wait for the end of the target, all of them equally long, so the added turnaround is
    least where the fewest jobs are suspended: those that free the most watts, the last of them the smallest that
    suffices. That is exact for one target whose end every suspended job waits for. Where all together do not suffice,
    all are suspended.

    A job is left alone where the pause, and the work to be done again, would pass its ``latest_end_s``, or its run time
    the ``greatest_slowdown``, both by its time limit.

    Without a target in force, suspended jobs continue as far as the limit has watts, before anything else starts: first
    those whose users have withdrawn their consent, then those with the earliest ``latest_end_s``. During a target only
    the former do, and all of them if no job waits.

    Reference: WattQueue's own; paper 5 (section 4.1) leaves the choice of the jobs to later work.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("targets", "consent")
    period_s: float = 0.0
    events: frozenset[str] = frozenset({"signal", "completion", "consent", "parked"})
    parks: bool = True
    """It suspends jobs, and continues whatever is suspended: there is one such control in a policy."""

    def act(self, view: View) -> Sequence[Action]:
        """Return jobs to suspend or to continue."""
        if view.target_w < np.inf and view.available_w < 0:
            return self._park(view, -view.available_w)
        return self._continue(view)

    def _park(self, view: View, excess_w: float) -> list[Action]:
        """Return the jobs that free so many watts when they are suspended or requeued, or all that may be."""
        rows = view.active
        rows = rows[view.may_park(rows)]
        kept = view.kept_work_s(rows)
        requeues = ~np.isnan(kept)
        freed = view.net_watts_of(rows, view.job_options(rows)) - np.where(requeues, 0.0, _idle_w(view, rows))
        good = np.flatnonzero(freed > 0)
        names = view.job_ids(rows.tolist())
        chosen = good[fewest(freed[good], excess_w)]
        return [Requeue(names[k], float(kept[k])) if requeues[k] else Suspend(names[k]) for k in chosen]

    def _continue(self, view: View) -> list[Action]:
        """Return the suspended jobs that may go on now."""
        rows = view.suspended
        if not len(rows):
            return []
        consent = view.jobs.consent
        given = np.zeros(len(rows), np.bool_) if consent is None else consent.given[rows]
        if view.target_w < np.inf and len(view.queue):
            rows, given = rows[~given], given[~given]
        latest = np.full(len(rows), np.inf)
        if consent is not None:
            stated = consent.latest_end_s[rows]
            latest = np.where(np.isnan(stated), np.inf, stated)
        needed = view.net_watts_of(rows, view.job_options(rows)) - _idle_w(view, rows)
        found: list[Action] = []
        room_w = view.available_w
        for k in np.lexsort((rows, latest, given)):
            if needed[k] <= room_w:
                room_w -= needed[k]
                found.append(Resume(view.job_id(int(rows[k]))))
        return found


def fewest(freed: Floats, excess_w: float) -> NDArray[np.int64]:
    """Return the fewest elements whose sum reaches ``excess_w``, the last one as small as it may be; all if none do."""
    order = np.argsort(-freed, kind="stable")
    total = np.cumsum(freed[order])
    count = int(np.searchsorted(total, excess_w - 1e-6))
    if count >= len(order):
        return order
    missing = excess_w - (total[count - 1] if count else 0.0)
    enough = order[count:][freed[order[count:]] >= missing - 1e-6]
    return np.concatenate((order[:count], enough[-1:]))


def _idle_w(view: View, rows: Rows) -> Floats:
    """Return the watts that the ledger counts for jobs while they are suspended. Shape (k,)."""
    if view.machine.cap_scope != "jobs":
        return np.zeros(len(rows))
    idle = np.array([part.idle_w for part in view.machine.partitions])
    watts: Floats = idle[view.machine.option_partition[view.job_options(rows)]] * view.jobs.nodes[rows]
    return watts
