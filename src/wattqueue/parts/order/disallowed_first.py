"""First come, first served, with jobs of users who do not consent ahead by a stated time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from wattqueue.errors import PolicyError
from wattqueue.model.bounds import DURATION_S
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction
from wattqueue.parts.order.fcfs import Fcfs


class DisallowedFirst(Fcfs):
    """Order by the flag: a disallowed job stands where it would if it had been submitted ``ahead_s`` earlier.

    So it overtakes allowed jobs that were submitted up to so long before it, and no others: an allowed job is
    overtaken by jobs of at most ``ahead_s`` after it, and never starves.

    Args:
        ahead_s: Seconds by which disallowed jobs are ahead.

    Raises: PolicyError for ``ahead_s`` that is no duration.
    Reference: WattQueue's own; paper 5 (section 6) names an order by the allowed flag as future work.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("consent",)

    def __init__(self, *, ahead_s: float = 21_600.0) -> None:
        DURATION_S.require(ahead_s, "ahead_s", where="disallowed-first", kind=PolicyError)
        self.ahead_s = ahead_s

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return an entry for every partition that a job may use."""
        found = super().entries(jobs, prediction, machine)
        bound = np.ones(len(jobs), np.bool_) if jobs.consent is None else ~jobs.consent.given
        rank_s = jobs.submit_s - self.ahead_s * bound
        return Entries(found.job, found.partition, -rank_s[found.job])
