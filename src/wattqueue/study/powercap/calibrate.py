"""What a chance ledger needs to know, from residuals of the past: power drawn against what was predicted.

At full hours of a trace's own replay the dynamic watts y of each running job are set beside those x that were
predicted at its submission. ``share`` is sum y / sum x. With y = share x (1 + e), the errors e of all jobs give
own + common = E[x^2 e^2] / E[x^2]; those of the machine, whose sum has the variance own s2 + common (sum x)^2,
tell the two apart: what averages out over jobs (phases, a job's own error) from what does not (users whose
many jobs are wrong together).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import NormalDist

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.parts.estimator._history import HistoryBase
from wattqueue.parts.timeline import Timeline, job_watts
from wattqueue.workload.cycle import DAY_S, HOUR_S

LOOK_BACK_DAYS = 30.0
FEWEST_HOURS = 48


@dataclass(frozen=True, slots=True, eq=False)
class Hours:
    """Sums over running jobs at full hours, in watts net of idle. Shapes (h,): x predicted, y drawn, squares, xy."""

    time_s: Floats
    x: Floats
    y: Floats
    xx: Floats
    yy: Floats
    xy: Floats

    def before(self, now_s: float, days: float = LOOK_BACK_DAYS) -> Hours:
        """The hours of the last ``days`` days up to ``now_s`` at which something ran."""
        keep = (self.time_s <= now_s) & (self.time_s > now_s - days * DAY_S) & (self.x > 0)
        return Hours(*(getattr(self, f.name)[keep] for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Spread:
    """``share``, ``own`` and ``common`` of a chance ledger."""

    share: float
    own: float
    common: float


def predictions_of(part: HistoryBase, jobs: Jobs, end_s: Floats, max_w: float) -> Floats:
    """Watts of one unit predicted at each submission of a replay, with only what had ended in it. Shape (n,)."""
    line = Timeline(end_s, np.argsort(jobs.submit_s, kind="stable"), np.argsort(end_s, kind="stable"))
    watts = part.replay_watts(jobs, line, job_watts(jobs, part.target))
    return np.where(np.isnan(watts), max_w, watts)


def hours_of(jobs: Jobs, start_s: Floats, end_s: Floats, predicted_w: Floats, idle_w: float) -> Hours:
    """Predicted and drawn watts at every full hour of a replay. Shapes (n,): ``predicted_w`` of one unit.

    Raises: InputError for jobs without power profiles.
    """
    if jobs.profiles is None:
        raise InputError("calibration needs jobs with power profiles")
    first = np.ceil(start_s / HOUR_S).astype(np.int64)
    count = np.maximum(np.ceil(end_s / HOUR_S).astype(np.int64) - first, 0)
    job = np.repeat(np.arange(len(jobs)), count)
    hour = first[job] + np.arange(len(job)) - np.repeat(np.cumsum(count) - count, count)
    nodes = jobs.nodes[job].astype(np.float64)
    y = nodes * (jobs.profiles.power_at(job, hour * HOUR_S - start_s[job]) - idle_w)
    x = nodes * (predicted_w[job] - idle_w)
    base = int(hour.min()) if len(hour) else 0
    sums = [np.asarray(np.bincount(hour - base, v), np.float64) for v in (x, y, x * x, y * y, x * y)]
    return Hours((base + np.arange(len(sums[0]), dtype=np.float64)) * HOUR_S, *sums)


def spread_of(hours: Hours) -> Spread:
    """Share and variances from residuals; a variance that would come out below 0 is 0.

    Raises: InputError with too few hours to say anything.
    """
    if len(hours.time_s) < FEWEST_HOURS:
        raise InputError(f"{len(hours.time_s)} hours of a past are too few", mend=f"{FEWEST_HOURS} at least")
    share = float(hours.y.sum() / hours.x.sum())
    a_job = float((hours.yy / share**2 - 2.0 * hours.xy / share + hours.xx).sum() / hours.xx.sum())
    machine = float((((hours.y / share - hours.x) / hours.x) ** 2).mean())
    few = float((hours.xx / hours.x**2).mean())  # 1 / the number of equal jobs that would vary as much
    own = min(max((a_job - machine) / (1.0 - few), 0.0), machine / few) if few < 1.0 else a_job
    return Spread(share, own, max(machine - own * few, 0.0))


def deviations_of(hours: Hours, spread: Spread, epsilon: float) -> float:
    """How many standard deviations the machine's power stayed below at all but ``epsilon`` of the hours.

    At least the normal's, and the greatest seen where the hours are too few for so small an ``epsilon``.
    """
    sd = np.sqrt(spread.own * hours.xx + spread.common * hours.x**2)
    error = np.sort((hours.y / spread.share - hours.x) / sd)
    place = int(np.ceil((1.0 - epsilon) * (len(error) + 1))) - 1  # as conformal prediction counts
    return max(NormalDist().inv_cdf(1.0 - epsilon), float(error[min(place, len(error) - 1)]))
