"""A generated workload of Fugaku's size: 24 million jobs on 158,976 nodes, within the memory of its columns.

Sizes, durations, time limits and watts follow the published description of 5,000 jobs of F-DATA. Users,
sessions and the weekly cycle are assumed. Jobs are drawn in chunks, in order of submission, so that nothing
is sorted and no temporary is longer than a chunk. Jobs carry mean and highest watts, no power profile.

What is simpler than in ``marconi``, for the sake of size: habits do not drift, each user has one application, and
scores are mapped by the normal distribution function instead of by their ranks, because ranks would need all jobs at
once. For the same reason quantiles come from tables of 65,536 equal steps: with 24 million draws a search per draw
costs seconds, an indexed read does not. All tables are computed once per process. docs/fugaku-generator.md compares
the outcome with the published figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.jobs import Jobs, Labels
from wattqueue.workload.cycle import DAY_S, WeekCycle
from wattqueue.workload.limits import require, require_span
from wattqueue.workload.marginals import Menu, limited_by, lognormal_mixture, normal_cdf, pick, power_tail

Floats = NDArray[np.float64]

NODES = 158_976
JOBS = 24_000_000  # F-DATA: over 24 million jobs, March 2021 to April 2024
DAYS = 1157.0  # length of that period
NODE_LEAST_W = 39.5  # F-DATA: lowest avgpcon, a job of one node
NODE_MAX_W = 200.0  # assumed; TOP500's 29,899 kW of HPL over all nodes are 188 W each

# F-DATA, 5,000 jobs: duration 1, 123, 2,084, 8,774 s (minimum, quartiles), mean 11,653 s, sd 25,410 s. Between
# the quartiles log-linear; above, a truncated Pareto whose exponent and end the mean and sd fix. The sample's
# longest job, 255,677 s, lies beyond that end.
RUNTIME = power_tail({0.0: 1.0, 0.25: 123.0, 0.50: 2084.0, 0.75: 8774.25}, 167_331.0, exponent=0.39479, atom=0.0)

# F-DATA: nodes allocated 1, 1, 12 (quartiles), most 6,912, mean 37.83, sd 221.5. Multiples of 12 are Fugaku's
# unit of allocation; the menu is assumed, its weights are tilted to the quartiles, mean and sd.
SIZE = Menu.of({
    1: 0.61001, 2: 0.02993, 3: 0.00998, 4: 0.02998, 6: 0.01001, 8: 0.02006, 9: 0.01004, 12: 0.10276, 16: 0.00859,
    24: 0.03462, 27: 0.00434, 32: 0.01307, 36: 0.00875, 48: 0.02652, 64: 0.00896, 72: 0.00451, 96: 0.01844,
    128: 0.00474, 144: 0.0048, 192: 0.01001, 256: 0.00317, 288: 0.00325, 384: 0.00702, 512: 0.00259, 576: 0.00136,
    768: 0.00467, 1152: 0.002, 1536: 0.00246, 2304: 0.00167, 3072: 0.00117, 4608: 0.00034, 6912: 0.00018,
})  # fmt: skip

# F-DATA: elapsed-time limit 60, 3,600, 5,400, 21,600, 518,400 s (minimum, quartiles, maximum), mean 32,013 s,
# sd 59,879 s. Menu assumed, weights tilted as above.
WALLTIME_S = Menu.of({
    60: 0.00237, 300: 0.01186, 600: 0.03568, 900: 0.01192, 1200: 0.01195, 1800: 0.07204, 2400: 0.01206, 3000: 0.01212,
    3600: 0.28, 5400: 0.08, 7200: 0.08835, 10800: 0.05449, 14400: 0.02799, 18000: 0.01916, 21600: 0.03375,
    28800: 0.01184, 36000: 0.01243, 43200: 0.02606, 64800: 0.00742, 86400: 0.1246, 129600: 0.00495, 172800: 0.02208,
    259200: 0.03364, 345600: 0.00174, 432000: 0.00103, 518400: 0.00047,
})  # fmt: skip

# F-DATA: avgpcon (whole job) 90.1, 114.1, 541 W (quartiles), mean 3,391 W over 37.8 nodes = 89.6 W a node; with
# 61 % of jobs on one node, 41 % of those draw at most 90 W and 82 % at most 114 W: lognormal. The upper quartile
# is missed (1,020 W): it asks for 45 W a node of the jobs that use 6 of 12 allocated ones.
MEAN_WATTS = lognormal_mixture(((1.0, 93.0, 0.213),), NODE_LEAST_W, 190.0)
# F-DATA: maxpcon / avgpcon is 1.026 by the medians and 1.068 by the means.
PEAK = lognormal_mixture(((1.0, 0.026, 1.2),), 0.001, 0.6)

USERS = 2000  # assumed, as all below
ACTIVITY_LOG_SD = 1.5
"""Standard deviation of the logarithm of users' activities."""
SESSION_JOBS = 8.0
"""Mean number of jobs of a session; lengths are geometric."""
HABIT = 0.5
"""Share of a score's variance that is the user's; the rest is the session's, or for run time and watts the job's."""
CHUNK = 1 << 20
"""Jobs drawn at a time: temporaries are at most so long."""
_TABLE = 1 << 16
"""Steps of the tables of quantiles."""


@dataclass(frozen=True, eq=False)
class _Habits:
    """Habits of each user, as scores. Shapes (users,).

    Scores are weighted by activity so that they are normal over the *jobs*, not over the users: otherwise the few
    most active users would shift the distribution of the whole trace.
    """

    activity: Floats
    """Share of the sessions; sums to 1."""
    size: Floats
    """Score of the number of nodes."""
    walltime: Floats
    """Score of the time limit."""
    runtime: Floats
    """Score of the natural duration."""
    watts: Floats
    """Score of the mean watts of a node."""


def generate(
    rng: np.random.Generator, *, jobs: int = JOBS, load: float | None = None, nodes: int = NODES, users: int = USERS
) -> Jobs:
    """Generate a workload of ``jobs`` jobs for ``nodes`` nodes. Second 0 is a Monday, 00:00.

    Without ``load`` jobs are submitted at F-DATA's rate, 20,744 a day; with it, submissions come faster or slower until
    node-seconds of work / (``nodes`` x length of the trace) is ``load``. Equal states of ``rng`` give equal tables.

    Raises: InputError for an option out of its range (``workload/limits.py``), or a load so low that the trace would
    be longer than times can represent.
    """
    check(jobs=jobs, load=load, nodes=nodes, users=users)
    habits = _habits(rng, users)
    columns = _Columns(jobs, nodes)
    work = 0.0
    for begin in range(0, jobs, CHUNK):
        work += columns.fill(rng, habits, begin, min(begin + CHUNK, jobs))
    span_s = jobs * DAYS * DAY_S / JOBS if load is None else work / (load * nodes)
    columns.submit(rng, require_span(span_s, "fugaku"))
    return columns.table(users)


def check(*, jobs: int = JOBS, load: float | None = None, nodes: int = NODES, users: int = USERS) -> None:
    """Check the options of ``generate`` without generating. Raises: InputError."""
    require(jobs=jobs, load=load, nodes=nodes, users=users)


class _Columns:
    """The table under construction: filled chunk by chunk, submit times last.

    Submit times are last because a load determines the length of the trace only once all work is drawn.
    """

    def __init__(self, jobs: int, nodes: int) -> None:
        self.submit_s = np.empty(jobs, np.float64)
        self.nodes = np.empty(jobs, np.int32)
        self.walltime_s = np.empty(jobs, np.float64)
        self.runtime_s = np.empty(jobs, np.float64)
        self.user = np.empty(jobs, np.int32)
        self.mean_power_w = np.empty(jobs, np.float64)
        self.max_power_w = np.empty(jobs, np.float64)
        self._size = SIZE.at_most(nodes)

    def fill(self, rng: np.random.Generator, habits: _Habits, begin: int, end: int) -> float:
        """Draw the jobs begin .. end - 1 and return their node-seconds.

        Size and time limit are drawn per session, duration and watts per job. A duration is drawn given that it fits
        the job's limit: its probability is scaled by that of the limit.
        """
        length = _sessions(rng, end - begin)
        user = pick(rng, habits.activity, len(length))

        def of_session(habit: Floats) -> Floats:
            """Scores of the sessions: half the user's, half their own."""
            return _mixed(habit[user], rng.standard_normal(len(user)))

        def of_job(habit: Floats) -> Floats:
            """Scores of the jobs: half the user's, half their own."""
            return _mixed(np.repeat(habit[user], length), rng.standard_normal(end - begin))

        size = np.repeat(self._size.value(normal_cdf(of_session(habits.size))), length)
        limit = np.repeat(WALLTIME_S.index(normal_cdf(of_session(habits.walltime))), length)
        chance = _probability(of_job(habits.runtime)) * _limits()[limit]
        runtime = np.clip(np.rint(_looked_up(_durations(), chance)), 1.0, WALLTIME_S.x[limit])
        mean = _looked_up(_watts(), _probability(of_job(habits.watts)))
        rows = slice(begin, end)
        self.nodes[rows], self.walltime_s[rows], self.runtime_s[rows] = size, WALLTIME_S.x[limit], runtime
        self.user[rows], self.mean_power_w[rows] = np.repeat(user, length), mean
        self.max_power_w[rows] = np.minimum(mean * (1.0 + _looked_up(_peaks(), rng.random(end - begin))), NODE_MAX_W)
        return float(size @ runtime)

    def submit(self, rng: np.random.Generator, span_s: float) -> None:
        """Fill in submissions in ascending order along the weekly cycle; whole seconds."""
        cycle, n = WeekCycle.of(), len(self.submit_s)
        for begin in range(0, n, CHUNK):
            rows = np.arange(begin, min(begin + CHUNK, n), dtype=np.float64)
            self.submit_s[begin : begin + len(rows)] = np.floor(
                cycle.time_s((rows + rng.random(len(rows))) / n, span_s)
            )

    def table(self, users: int) -> Jobs:
        """Return the finished job table; each user has one application. Columns are not copied."""
        names = tuple(f"u{k:0{len(str(users))}d}" for k in range(1, users + 1))
        user = Labels(self.user, names)
        n = len(self.user)
        return Jobs(
            np.arange(1, n + 1, dtype=np.int64), self.submit_s, self.nodes, self.walltime_s, self.runtime_s,
            user, Labels(self.user, tuple(f"{name}a" for name in names)), Labels.missing(n),
            self.mean_power_w, self.max_power_w, origin="generated",
        )  # fmt: skip


def _habits(rng: np.random.Generator, users: int) -> _Habits:
    """Draw the users' activities and the scores of their habits."""
    activity = np.exp(ACTIVITY_LOG_SD * rng.standard_normal(users))
    activity /= activity.sum()

    def scores() -> Floats:
        """Scores that are normal over the jobs: users in random order, each at the middle of its share of them."""
        order = rng.permutation(users)
        share = activity[order]
        grid = np.linspace(-5.0, 5.0, 10_001)
        out = np.empty(users)
        out[order] = np.interp(np.cumsum(share) - share / 2.0, normal_cdf(grid), grid)
        return out

    return _Habits(activity, scores(), scores(), scores(), scores())


def _sessions(rng: np.random.Generator, jobs: int) -> NDArray[np.int64]:
    """Draw lengths of sessions that hold exactly ``jobs`` jobs; the last ends with its chunk. Shape (s,)."""
    length = rng.geometric(1.0 / SESSION_JOBS, int(jobs / SESSION_JOBS * 1.2) + 200)
    total = np.minimum(np.cumsum(length), jobs)
    total[-1] = jobs
    length = np.diff(total, prepend=0)
    return length[length > 0].astype(np.int64)


def _mixed(habit: Floats, rest: Floats) -> Floats:
    """Return a score of variance 1 from the habit's part and the rest, both of variance 1. Shape as they have."""
    score: Floats = np.sqrt(HABIT) * habit + np.sqrt(1.0 - HABIT) * rest
    return score


def _probability(score: Floats) -> Floats:
    """Return normal scores as probabilities, from a table that is fine enough for a million draws. Shape as given."""
    at = np.clip((score + 5.0) * (_TABLE / 10.0), 0, _TABLE - 1).astype(np.int32)
    return _normal()[at]


def _looked_up(table: Floats, p: Floats) -> Floats:
    """Return quantiles from a table over equal steps of ``p``. Shape as ``p``."""
    return table[np.minimum(p * _TABLE, _TABLE - 1).astype(np.int32)]


def _steps() -> Floats:
    """Return the middles of the tables' steps of probability. Shape (65536,)."""
    return (np.arange(_TABLE, dtype=np.float64) + 0.5) / _TABLE


@cache
def _normal() -> Floats:
    """Return the normal distribution function over scores from -5 to 5. Shape (65536,)."""
    return normal_cdf(10.0 * _steps() - 5.0)


@cache
def _durations() -> Floats:
    """Return quantiles of the natural durations, in seconds. Shape (65536,)."""
    return limited_by(RUNTIME, WALLTIME_S, 0.0).value(_steps())


@cache
def _limits() -> Floats:
    """Return the probability that a natural duration fits each limit of the menu. Shape (k,)."""
    return limited_by(RUNTIME, WALLTIME_S, 0.0).cdf(WALLTIME_S.x)


@cache
def _watts() -> Floats:
    """Return quantiles of the mean watts of a node. Shape (65536,)."""
    return MEAN_WATTS.value(_steps())


@cache
def _peaks() -> Floats:
    """Return quantiles of (highest watts / mean watts - 1). Shape (65536,)."""
    return PEAK.value(_steps())
