"""Attribute the additional waiting under a cap to users, partitions and hours of submission.

The unit is node-hours: nodes of a job times the hours that it waits longer than without a cap. A job that waits less
counts negative, so the sum over a group is its net loss. Only runs of the same work are compared (``Curve.gates``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Floats, Jobs, Labels
from wattqueue.whatif.run import HOUR_S

NOBODY = "(unknown)"
"""Name of the group of jobs without a user or partition."""
WORST = 3
"""Number of worst hours that are reported."""


@dataclass(frozen=True, slots=True, eq=False)
class Extra:
    """Difference of each job's schedule under a cap against the run without one. Shapes (n,).

    Attributes:
        wait_s: Additional wait; negative where the job starts earlier; NaN where it ran in one of the two runs only.
        run_s: Additional run time (lower frequencies); NaN as above.
        never_ran: Whether the job ran without the cap and never ran under it.
    """

    wait_s: Floats
    run_s: Floats
    never_ran: NDArray[np.bool_]

    @classmethod
    def of(cls, plain: tuple[Floats, Floats], capped: tuple[Floats, Floats]) -> Extra:
        """Compute the differences from (starts, ends) without the cap and (starts, ends) with it. Shapes (n,)."""
        wait = capped[0] - plain[0]
        run = (capped[1] - capped[0]) - (plain[1] - plain[0])
        return cls(wait, run, np.isfinite(plain[0]) & ~np.isfinite(capped[0]))


@dataclass(frozen=True, slots=True, eq=False)
class DelayedUsers:
    """Sums by user or partition, those with most additional waiting first. Shapes (g,).

    Attributes:
        kind: ``user`` or ``partition``.
        name: Names of the groups.
        jobs: Jobs that run with and without the cap.
        wait_node_h: Nodes times additional wait, summed, in node-hours.
        wait_share: Share of all positive sums: what part of the loss falls on this group.
        work_share: Share of the node-hours run without a cap.
        wait_mean_s: Mean additional wait of a job.
        run_node_h: Additional node-hours of run time.
    """

    kind: str
    name: tuple[str, ...]
    jobs: NDArray[np.int64]
    wait_node_h: Floats
    wait_share: Floats
    work_share: Floats
    wait_mean_s: Floats
    run_node_h: Floats


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of submissions and what the cap costs the jobs submitted in it.

    An hour is ranked by ``wait_node_h``, which weights jobs by their nodes. The plain means do not: one wide job that
    waits longer can outweigh many narrow ones that wait less, so the mean over all jobs may fall in a bad hour.
    Sentences about the jobs that wait longer use the ``delayed_`` means.

    Attributes:
        begin_s: Begin of the hour on the trace's clock.
        jobs: Jobs submitted in it that run with and without the cap.
        delayed: How many of them wait longer.
        wait_node_h: Additional node-hours of wait, summed over ``jobs``; those that wait less count negative.
        wait_mean_s: Mean additional wait over ``jobs``.
        delayed_plain_wait_mean_s: Mean wait without the cap over the ``delayed`` jobs.
        delayed_wait_mean_s: Mean wait under the cap over the ``delayed`` jobs; always longer.
    """

    begin_s: float
    jobs: int
    delayed: int
    wait_node_h: float
    wait_mean_s: float
    delayed_plain_wait_mean_s: float
    delayed_wait_mean_s: float


def delayed_users(kind: str, group: Labels, jobs: Jobs, extra: Extra, ran_s: Floats) -> DelayedUsers:
    """Sum the differences over the jobs of each name.

    Args:
        kind: What the names are, ``user`` or ``partition``.
        group: Name of each job.
        jobs: The workload.
        extra: Differences of each job.
        ran_s: Run time of each job without a cap; NaN where it never ran. Shape (n,).
    """
    names = (*group.names, NOBODY)
    code = np.where(group.codes < 0, len(group.names), group.codes)
    both = np.isfinite(extra.wait_s)
    size = len(names)

    def total(weight: Floats) -> Floats:
        return np.asarray(np.bincount(code[both], weight[both], size), np.float64)

    jobs_ran = np.bincount(code[both], minlength=size)
    wait = total(jobs.nodes * extra.wait_s) / HOUR_S
    work = np.bincount(code, np.where(np.isfinite(ran_s), jobs.nodes * ran_s, 0.0), size)
    # Stable, so that names with equal waiting keep their alphabetical order in every run.
    order = np.argsort(-wait, kind="stable")
    order = order[jobs_ran[order] > 0]
    # Shares are of the positive sums only: groups that gain would otherwise push the others above 100 %.
    all_wait = float(np.maximum(wait, 0.0).sum())
    return DelayedUsers(
        kind,
        tuple(names[k] for k in order),
        jobs_ran[order].astype(np.int64),
        wait[order],
        wait[order] / all_wait if all_wait > 0 else np.zeros(len(order)),
        work[order] / max(float(work.sum()), 1e-300),
        total(extra.wait_s)[order] / np.maximum(jobs_ran[order], 1),
        total(jobs.nodes * extra.run_s)[order] / HOUR_S,
    )


def hour_of(submit_s: Floats, zero_s: float = 0.0) -> tuple[Floats, NDArray[np.int64]]:
    """Return the begins of the hours in which jobs were submitted, and each job's index among them.

    Shapes (h,), (n,).
    """
    begins, place = np.unique(np.floor((submit_s - zero_s) / HOUR_S), return_inverse=True)
    return zero_s + begins * HOUR_S, place.astype(np.int64)


def cost_of_hours(jobs: Jobs, extra: Extra, zero_s: float = 0.0) -> tuple[Floats, Floats]:
    """Return the begin of each hour with submissions, and the additional node-hours of wait of its jobs.

    Shapes (h,).
    """
    begins, place = hour_of(jobs.submit_s, zero_s)
    held = np.where(np.isfinite(extra.wait_s), jobs.nodes * extra.wait_s, 0.0)
    return begins, np.bincount(place, held, len(begins)) / HOUR_S


def worst_hours(jobs: Jobs, extra: Extra, plain_start_s: Floats, zero_s: float = 0.0) -> tuple[Hour, ...]:
    """Return the hours of submission whose jobs lose most node-hours to the cap, at most WORST, the worst first.

    Hours whose jobs lose nothing on balance are left out. ``plain_start_s`` are the starts without the cap.
    """
    begins, cost = cost_of_hours(jobs, extra, zero_s)
    place = hour_of(jobs.submit_s, zero_s)[1]
    found = []
    for row in np.argsort(-cost, kind="stable")[:WORST]:
        if cost[row] <= 0:
            break
        here = (place == row) & np.isfinite(extra.wait_s)
        later = here & (extra.wait_s > 0)  # not empty: the hour's sum is positive
        plain_wait = plain_start_s - jobs.submit_s
        found.append(
            Hour(
                float(begins[row]),
                int(here.sum()),
                int(later.sum()),
                float(cost[row]),
                float(extra.wait_s[here].mean()),
                float(plain_wait[later].mean()),
                float((plain_wait + extra.wait_s)[later].mean()),
            )
        )
    return tuple(found)
