"""Parameters of a chance ledger, from residuals of the past: power drawn against power predicted.

At full hours of a trace's own replay the dynamic watts y of each running job are set beside those x that were
predicted at its submission. ``share`` is sum y / sum x. With y = share x (1 + e), the errors e of all jobs give
own + common = E[x^2 e^2] / E[x^2]; those of the machine, whose sum has the variance own s2 + common (sum x)^2,
separate the two: what averages out over jobs (phases, a job's own error) from what does not (errors that the many
jobs of one user share).

Only hours before a window calibrate its ledger (``Hours.before``): a policy must not use the future.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.codec import take
from wattqueue.model.jobs import Floats, Jobs
from wattqueue.model.ranges import ranges
from wattqueue.parts.history import HistoryBase
from wattqueue.parts.timeline import Timeline, job_watts

DAY_S, HOUR_S = 86_400.0, 3_600.0
LOOK_BACK_DAYS = 30.0
"""Days before a window that calibrate its ledger."""
FEWEST_HOURS = 48
"""Below, the estimates of two variances mean nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Hours:
    """Sums over running jobs at full hours, in watts net of idle. Shapes (h,)."""

    time_s: Floats
    """The hours, seconds on the trace's clock."""
    x: Floats
    """Predicted watts."""
    y: Floats
    """Drawn watts."""
    xx: Floats
    """Squares of predicted watts."""
    yy: Floats
    """Squares of drawn watts."""
    xy: Floats
    """Products of both."""

    def before(self, now_s: float, days: float = LOOK_BACK_DAYS) -> Hours:
        """Return the hours of the last ``days`` days up to ``now_s`` at which a job ran."""
        keep = (self.time_s <= now_s) & (self.time_s > now_s - days * DAY_S) & (self.x > 0)
        return take(self, keep)


@dataclass(frozen=True, slots=True)
class Spread:
    """Parameters of a chance ledger (``parts/ledger/chance.py``)."""

    share: float
    """Drawn over predicted watts."""
    own: float
    """Relative variance of a job that is independent of other jobs."""
    common: float
    """Relative variance that all jobs share."""


def predictions_of(part: HistoryBase, jobs: Jobs, end_s: Floats, max_w: float) -> Floats:
    """Return watts of one unit predicted at each submission of a replay from jobs that had ended. Shape (n,)."""
    line = Timeline(end_s, np.argsort(jobs.submit_s, kind="stable"), np.argsort(end_s, kind="stable"))
    watts = part.replay_watts(jobs, line, job_watts(jobs, part.target))
    return np.where(np.isnan(watts), max_w, watts)


def hours_of(jobs: Jobs, start_s: Floats, end_s: Floats, predicted_w: Floats, idle_w: float) -> Hours:
    """Return predicted and drawn watts at every full hour of a replay, summed over running jobs.

    Args:
        jobs: The trace, with power profiles.
        start_s: Starts in the replay. Shape (n,).
        end_s: Ends in the replay. Shape (n,).
        predicted_w: Predicted watts of one unit. Shape (n,).
        idle_w: Idle watts of one unit, which dynamic power leaves out.

    One entry per (job, hour) is made and summed by hour: memory grows with the total run time in hours.

    Raises: InputError for jobs without power profiles.
    """
    if jobs.profiles is None:
        raise InputError("calibration needs jobs with power profiles", where="profiles")
    first = np.ceil(start_s / HOUR_S).astype(np.int64)
    count = np.maximum(np.ceil(end_s / HOUR_S).astype(np.int64) - first, 0)
    job = np.repeat(np.arange(len(jobs)), count)
    hour = ranges(first, count)
    nodes = jobs.nodes[job].astype(np.float64)
    y = nodes * (jobs.profiles.power_at(job, hour * HOUR_S - start_s[job]) - idle_w)
    x = nodes * (predicted_w[job] - idle_w)
    base = int(hour.min()) if len(hour) else 0
    sums = [np.asarray(np.bincount(hour - base, v), np.float64) for v in (x, y, x * x, y * y, x * y)]
    return Hours((base + np.arange(len(sums[0]), dtype=np.float64)) * HOUR_S, *sums)


def spread_of(hours: Hours) -> Spread:
    """Estimate share and variances from residuals; a variance whose estimate is below 0 is 0.

    Raises: InputError for fewer than ``FEWEST_HOURS`` hours.
    """
    if len(hours.time_s) < FEWEST_HOURS:
        raise InputError(
            f"{len(hours.time_s)} hours of a past are too few", where="hours", hint=f"{FEWEST_HOURS} at least"
        )
    share = float(hours.y.sum() / hours.x.sum())
    a_job = float((hours.yy / share**2 - 2.0 * hours.xy / share + hours.xx).sum() / hours.xx.sum())
    machine = float((((hours.y / share - hours.x) / hours.x) ** 2).mean())
    few = float((hours.xx / hours.x**2).mean())  # 1 / the number of equal jobs that would vary as much
    own = min(max((a_job - machine) / (1.0 - few), 0.0), machine / few) if few < 1.0 else a_job
    return Spread(share, own, max(machine - own * few, 0.0))


def z_of(hours: Hours, spread: Spread, epsilon: float) -> float:
    """Return z: the machine's power stayed below mean + z standard deviations at all but ``epsilon`` of the hours.

    At least the quantile of the normal distribution; the greatest observed value if the hours are too few for so small
    an ``epsilon``.
    """
    sd = np.sqrt(spread.own * hours.xx + spread.common * hours.x**2)
    error = np.sort((hours.y / spread.share - hours.x) / sd)
    rank = int(np.ceil((1.0 - epsilon) * (len(error) + 1))) - 1  # n + 1, as in conformal prediction
    return max(NormalDist().inv_cdf(1.0 - epsilon), float(error[min(rank, len(error) - 1)]))
