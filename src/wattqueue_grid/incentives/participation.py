"""Which jobs take part: those that consent, and ask no more for an added hour than the reward model gives.

A user may state a price for an hour that demand response adds to a job's turnaround (``price_per_added_hour``). It is
compared, before any event, with what the reward model gives for the first added hour of a job of so many nodes:
whether an event makes the job wait or run longer is not known then, so the lower of the two counts, and what the model
gives for freed power or energy does not. The limit of a reward by the fee is left out, since the fee is known at the
end. Without a reward model the reward is 0: a job that asks anything does not take part.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.csv_records import NUMBER, first_comments, records
from wattqueue.formats.source import shown
from wattqueue.model.bounds import TIME_S
from wattqueue.model.jobs import Jobs
from wattqueue_grid.incentives.rewards import RewardModel
from wattqueue_grid.money import decimal_of, micro

Flags = NDArray[np.bool_]


def consenting(jobs: Jobs) -> Flags:
    """Return which jobs may be slowed down or held back; none where nothing is stated. Shape (n,)."""
    return np.zeros(len(jobs), bool) if jobs.consent is None else jobs.consent.given


def too_dear(jobs: Jobs, model: RewardModel | None) -> Flags:
    """Return which jobs ask more for an added hour than the model gives, whether they consent or not. Shape (n,)."""
    dear = np.zeros(len(jobs), bool)
    if jobs.consent is None:
        return dear
    prices = jobs.consent.price_per_added_hour
    given: dict[int, int] = {}
    for row in np.flatnonzero(prices > 0):
        nodes = int(jobs.nodes[row])
        if nodes not in given:
            given[nodes] = 0 if model is None else model.first_hour(nodes)
        dear[row] = micro(decimal_of(float(prices[row]), "price_per_added_hour")) > given[nodes]
    return dear


def taking_part(jobs: Jobs, model: RewardModel | None) -> Flags:
    """Return which jobs consent at what the model gives. Shape (n,)."""
    return consenting(jobs) & ~too_dear(jobs, model)


def with_participation(jobs: Jobs, model: RewardModel | None) -> Jobs:
    """Return the jobs with consent left to those that take part."""
    if jobs.consent is None:
        return jobs
    allowed = np.where(too_dear(jobs, model), 0.0, jobs.consent.allowed)
    return replace(jobs, consent=replace(jobs.consent, allowed=allowed))


def sentences(jobs: Jobs, model: RewardModel | None) -> list[str]:
    """Return who consents and does not take part, as one sentence; none where nobody asks too much."""
    given = consenting(jobs)
    dear = int((given & too_dear(jobs, model)).sum())
    if not dear:
        return []
    offered = "is given, since there is no reward model" if model is None else f"{model.name} gives"
    who = f"{dear} of {int(given.sum())} jobs with consent"
    return [f"{who} ask more for an added hour than {offered}: they do not take part and get no reward."]


COLUMNS = ["time_s", "user", "job_id"]


def read_withdrawals(path: Path) -> list[tuple[float, str, str]]:
    """Return (time, user, job) of each row of a CSV: when consent was withdrawn, for which user or which job.

    ::

        time_s,user,job_id
        37800,ada,
        39000,,4711

    Times are on the clock of the jobs. Each row has a user or a job.

    Raises: InputError naming file and line.
    """
    rows = records(path, first_comments(path))
    line, names = next(rows, (1, []))
    if [name.strip() for name in names] != COLUMNS:
        raise InputError(f"columns {shown(','.join(names))}", where=f"{path}:{line}", hint="write time_s,user,job_id")
    found = []
    for line, fields in rows:
        where = f"{path}:{line}"
        if len(fields) != len(COLUMNS):
            raise InputError(f"{len(fields)} fields, {len(COLUMNS)} columns", where=where, hint="correct the line")
        time, user, job = (field.strip() for field in fields)
        if not NUMBER.fullmatch(time):
            raise InputError(f"time_s is {shown(time)}, not a number", where=where, hint="seconds on the jobs' clock")
        if bool(user) == bool(job):
            raise InputError("needs a user or a job", where=where, hint="leave the other field empty")
        found.append((TIME_S.require(float(time), "time_s", where=where), user, job))
    return found
