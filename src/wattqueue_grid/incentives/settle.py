"""Rewards of an event: a schedule with load targets, its counterfactual, consent and a reward model to entries.

The two schedules are matched by job id. Without a counterfactual of its own, the record's jobs are simulated without
the targets, under the record's policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.schedule import Schedule
from wattqueue.model.signals import Cap
from wattqueue.policy.registry import Policy
from wattqueue.sim.engine import simulate
from wattqueue_grid.incentives.indexes import BASIS, indexes
from wattqueue_grid.incentives.ledger import RewardEntry, SettledEvent
from wattqueue_grid.incentives.participation import taking_part
from wattqueue_grid.incentives.rewards import RewardModel

NOBODY = "(unknown)"
"""User of jobs without one, as in ``whatif.delayed_users``."""


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledJobs:
    """Jobs and when they ran."""

    jobs: Jobs
    schedule: Schedule


def without_targets(jobs: Jobs, machine: Machine, policy: Policy, cap: Cap) -> ScheduledJobs:
    """Simulate the counterfactual: the same jobs without load targets."""
    return ScheduledJobs(jobs, simulate(jobs, machine, policy, cap=cap).schedule)


def in_order_of(jobs: Jobs, other: ScheduledJobs, where: str) -> Schedule:
    """Return another schedule's rows in the order of these jobs.

    Raises: InputError for a job that the other one lacks.
    """
    place = {str(name): row for row, name in enumerate(other.jobs.job_id)}
    missing = next((str(name) for name in jobs.job_id if str(name) not in place), None)
    if missing is not None:
        raise InputError(f"has no job {missing}", where=where, hint="both runs must be of one workload")
    return other.schedule.take(np.array([place[str(name)] for name in jobs.job_id], np.int64))


def consent_in_order(jobs: Jobs, stated: Jobs | None, where: str) -> Jobs:
    """Return these jobs with the consent that another table of the same jobs states.

    Raises: InputError for a job that the other table lacks.
    """
    if stated is None or stated.consent is None:
        return jobs
    place = {str(name): row for row, name in enumerate(stated.job_id)}
    missing = next((str(name) for name in jobs.job_id if str(name) not in place), None)
    if missing is not None:
        raise InputError(f"has no job {missing}", where=where, hint="give the workload of the run")
    rows = np.array([place[str(name)] for name in jobs.job_id], np.int64)
    return replace(jobs, consent=stated.consent.take(rows))


def entries_of(
    ran: ScheduledJobs,
    without: Schedule,
    targets: LoadTargets,
    model: RewardModel,
    withdrawn_s: Floats | None = None,
) -> list[RewardEntry]:
    """Return what each job that takes part gets; one to which nothing was added and that freed nothing has no entry."""
    windows = list(zip(targets.start_s.tolist(), targets.end_s.tolist(), strict=True))
    found = indexes(ran.jobs.nodes, taking_part(ran.jobs, model), ran.schedule, without, windows, withdrawn_s)
    touched = (found.added_wait > 0) | (found.added_run > 0) | (found.energy_freed > 0)
    users = ran.jobs.user.values()
    entries = []
    for row in np.flatnonzero(touched):
        job = found.of_job(int(row))
        entries.append(
            RewardEntry(
                str(ran.jobs.job_id[row]), str(users[row]) or NOBODY, job.added_wait, job.added_run, job.power_freed,
                job.energy_freed, model.fee(job), model.reward(job),
            )
        )  # fmt: skip
    return sorted(entries)


def event_of(targets: LoadTargets, model: RewardModel, epoch_s: float, name: str | None) -> SettledEvent:
    """Return the event that is settled: all targets together, under a given name or their ids joined by ``+``."""
    ids = [text or f"target-{k + 1}" for k, text in enumerate(targets.correlation_id)]
    begin, end = round(float(targets.start_s[0]) + epoch_s), round(float(targets.end_s[-1]) + epoch_s)
    return SettledEvent(name or "+".join(ids), begin, end, model.name, model.sha256, model.currency, BASIS)


def withdrawals(jobs: Jobs, rows: Sequence[tuple[float, str, str]], where: str) -> Floats:
    """Return when each job's consent was withdrawn, inf for never. Shape (n,).

    Args:
        jobs: The jobs.
        rows: (time, user, job) of each withdrawal; one of user and job is empty. The earliest one counts.
        where: The file, for errors.

    Raises:
        InputError: A user or job that there is not.
    """
    found = np.full(len(jobs), np.inf)
    users, ids = jobs.user.values(), np.array([str(name) for name in jobs.job_id], object)
    for k, (time_s, user, job) in enumerate(rows):
        hit = ids == job if job else users == user
        if not hit.any():
            raise InputError(
                f"no {'job ' + job if job else 'user ' + user}", where=f"{where}: row {k + 1}",
                hint="ids and names are those of the run",
            )  # fmt: skip
        found[hit] = np.minimum(found[hit], time_s)
    return found
