"""Wait-aware EAMC: part_eff together with the same measure of energy and predicted turnaround.

EAMC compares run times, so a long queue on the best partition does not make the second best more attractive. Here the
wait on each partition is estimated at submission and enters the comparison.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Floats, Prediction
from wattqueue.parts.efficiency import check, choose, part_eff, positions
from wattqueue.parts.order._entries import allowed, by_job, entries_of


class WaitAware:
    """Priority is minus the sum of two positions: by part_eff, and by energy and predicted turnaround.

    At a job's submission the wait on a partition is the requested work ahead of it over the partition's
    nodes: each earlier job is counted where this measure favours it, and drains with time. ``alone``
    leaves out the first position. ``accuracy`` is the share of requested time that jobs are expected to
    use; 1 assumes nothing.

    Beyond paper 1, whose priorities (section 4.2.1) only approximate waits.
    Raises: PolicyError for a weight or an accuracy that is not positive.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("partitions",)

    def __init__(self, *, t_weight: float = 1.0, accuracy: float = 1.0, alone: bool = False) -> None:
        check(t_weight, "text")
        if not 0 < accuracy <= 1:
            raise PolicyError(f"is {accuracy}", where="wait_aware: accuracy", hint="use a share above 0 and at most 1")
        self.t_weight, self.accuracy, self.alone = t_weight, accuracy, alone

    def entries(self, jobs: KnownJobs, prediction: Prediction, machine: Machine) -> Entries:
        """Return the entries, one per allowed partition. Shapes (m,)."""
        n = len(jobs)
        good = allowed(jobs, prediction, machine)
        best = choose(prediction, machine, "distance", self.t_weight)
        energy = np.where(good, by_job(best.energy, prediction, n), np.inf)
        time = by_job(best.time, prediction, n) * (jobs.walltime_s * self.accuracy)[:, np.newaxis]
        place = positions(self.with_waits(jobs, energy, np.where(good, time, np.inf), machine))
        if not self.alone:
            place += by_job(positions(part_eff(best, self.t_weight)), prediction, n)
        return entries_of(-place.astype(np.float64), good)

    def with_waits(self, jobs: KnownJobs, energy: Floats, time: Floats, machine: Machine) -> Floats:
        """Return the squared distance (eq. 4) of each job on each partition with turnaround for run time.

        ``energy`` relative joules, ``time`` expected seconds; both, and the result, inf where the job may not run.
        Shapes (n, P).
        """
        units = np.array([p.units for p in machine.partitions], np.float64)
        least = np.min(energy, 1, keepdims=True, initial=np.inf)
        with np.errstate(invalid="ignore"):
            relative = (energy / least) ** 2
            drain = time * jobs.nodes[:, np.newaxis] / units
        return _fluid(jobs.submit_s, np.where(np.isfinite(energy), relative, np.inf), time, drain, self.t_weight)


def _fluid(submit_s: Floats, energy2: Floats, time: Floats, drain: Floats, t_weight: float) -> NDArray[np.float64]:
    """Return each job's cost on each partition behind one fluid queue per partition. Shapes (n,), (n, P) -> (n, P).

    A partition is modelled as one server that works on requested node-seconds at full width: ``until[p]`` is the time
    at which it has done what lies ahead, ``drain`` how long it takes for one job. Each job is added to the queue of
    its cheapest partition before the next one is looked at, in order of submission.
    """
    partitions = range(energy2.shape[1])
    # Plain lists: the loop is sequential, and numpy scalars would cost ten times as much.
    now, joules, seconds, work = submit_s.tolist(), energy2.tolist(), time.tolist(), drain.tolist()
    cost = [[np.inf] * len(partitions) for _ in now]
    until = [-np.inf] * len(partitions)
    for j in np.argsort(submit_s, kind="stable").tolist():
        turnaround = [max(until[p] - now[j], 0.0) + seconds[j][p] for p in partitions]
        least = min(turnaround)
        if least == np.inf:
            continue
        cost[j] = [joules[j][p] + t_weight * (turnaround[p] / least) ** 2 for p in partitions]
        taken = cost[j].index(min(cost[j]))
        until[taken] = max(until[taken], now[j]) + work[j][taken]
    return np.array(cost, np.float64).reshape(len(now), len(partitions))
