"""Which parts are oracles, and the job table that each part therefore gets.

An oracle reads what no scheduler can know. It shows what perfect knowledge would be worth, and declares
``knows_future = True``. Everything that asks whether a part is one asks here.
"""

from __future__ import annotations

from wattqueue.model.jobs import Jobs
from wattqueue.model.known_jobs import KnownJobs, Observed


def is_oracle(part: object) -> bool:
    """Return whether a part declares that it uses the future."""
    return getattr(part, "knows_future", False) is True


def jobs_for(part: object, jobs: Jobs, observed: Observed | None = None) -> KnownJobs:
    """Return the table that a part of a policy is given of a workload, with ``truth`` where it is an oracle.

    ``observed`` has what the driver has seen of the jobs; by default nothing.
    """
    return KnownJobs.of(jobs, observed, reader=type(part).__name__, oracle=is_oracle(part))
