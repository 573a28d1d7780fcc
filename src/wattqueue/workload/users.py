"""Users with habits: who submits when, in which session, with which application; and how habits drift.

Everything that a user does is a *score*, normal with variance 1, made of five parts: the user's habit, the
application's, its drift over time (a stationary Ornstein-Uhlenbeck process of each application), the
session's, and the job's own. Generators map the ranks of scores on the quantiles of real traces, so that
the whole follows the trace and each user keeps his part of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.workload.cycle import DAY_S, WeekCycle
from wattqueue.workload.marginals import pick

Floats = NDArray[np.float64]
Index = NDArray[np.int64]

# Calibrated on 30 hours of real Marconi100 jobs (1,994 jobs of 185 users; gridpilot's extract, CC-BY-4.0):
# the busiest user 5 %, the ten busiest 36 % of the jobs; half of the users 4 jobs or fewer; gaps between a
# user's submissions 192 s, 668 s and 2,248 s (quartiles).
ACTIVITY_LOG_SD = 1.45
LEAST_ACTIVITY = 0.05
"""Share of the sessions that is spread evenly, so that nobody stays out of a long trace."""
SESSION_JOBS = 5.0
GAP_MEDIAN_S = 700.0
GAP_LOG_SD = 1.7
GAP_MOST_S = 6 * 3600.0
# Assumed, no source: how many applications a user has, and how long users stay.
MORE_APPS = 2.0
MOST_APPS = 8
STAY_MEDIAN_D = 150.0
STAY_LOG_SD = 0.8
DRIFT_D = 45.0
"""Time constant of drift: a habit's correlation with itself falls to 1/e."""


@dataclass(frozen=True)
class Shares:
    """Variance of a score by origin; they sum to 1."""

    user: float
    app: float
    drift: float
    session: float
    job: float


@dataclass(frozen=True, eq=False)
class Population:
    """Users and their applications. Applications are numbered over all users.

    Shapes: ``activity`` (users,); ``first_app`` (users + 1,); ``app_user``, ``app_weight`` (apps,);
    ``joined``, ``stay`` (users,): share of the trace where a user begins, and how much of it he stays.
    """

    activity: Floats
    first_app: Index
    app_user: Index
    app_weight: Floats
    joined: Floats
    stay: Floats


@dataclass(frozen=True, eq=False)
class Sessions:
    """Spells of submissions by one user with one application. Shapes (s,).

    ``share``: how much of the trace's submissions came before; ``day``: when that is on the natural clock;
    ``jobs``: how many it submits.
    """

    user: Index
    app: Index
    share: Floats
    day: Floats
    jobs: Index


def population(rng: np.random.Generator, users: int, days: float) -> Population:
    """Draw users for a trace of so many days."""
    activity = np.exp(ACTIVITY_LOG_SD * rng.standard_normal(users))
    activity = LEAST_ACTIVITY / users + (1.0 - LEAST_ACTIVITY) * activity / activity.sum()
    apps = 1 + np.minimum(rng.poisson(MORE_APPS, users), MOST_APPS - 1)
    first = np.concatenate(([0], np.cumsum(apps))).astype(np.int64)
    owner = np.repeat(np.arange(users, dtype=np.int64), apps)
    weight = 1.0 / (1.0 + np.arange(first[-1]) - first[owner]) ** 1.5
    stay = np.minimum(1.0, STAY_MEDIAN_D * np.exp(STAY_LOG_SD * rng.standard_normal(users)) / days)
    return Population(activity, first, owner, weight, rng.random(users), stay)


def sessions(rng: np.random.Generator, people: Population, jobs: int, days: float, cycle: WeekCycle) -> Sessions:
    """Draw sessions until they hold exactly ``jobs`` jobs, in an order that says nothing of their time."""
    count = int(jobs / SESSION_JOBS * 1.2) + 100
    length = rng.geometric(1.0 / SESSION_JOBS, count)
    total = np.cumsum(length)
    while total[-1] < jobs:  # never in practice
        length = np.concatenate((length, rng.geometric(1.0 / SESSION_JOBS, count)))
        total = np.cumsum(length)
    last = int(np.searchsorted(total, jobs))
    length = length[: last + 1].astype(np.int64)
    length[-1] -= total[last] - jobs
    user = pick(rng, people.activity, len(length))
    app = _choose_app(rng, people, user)
    share = (people.joined[user] + people.stay[user] * rng.random(len(length))) % 1.0
    return Sessions(user, app, share, cycle.time_s(share, days * DAY_S) / DAY_S, length)


def _choose_app(rng: np.random.Generator, people: Population, user: Index) -> Index:
    """An application of each user, his first one most often. Shape as ``user``."""
    total = np.concatenate(([0.0], np.cumsum(people.app_weight)))
    low, high = total[people.first_app[user]], total[people.first_app[user + 1]]
    at = np.searchsorted(total, low + rng.random(len(user)) * (high - low), side="right") - 1
    app: Index = np.clip(at, people.first_app[user], people.first_app[user + 1] - 1).astype(np.int64)
    return app


def offsets_s(rng: np.random.Generator, jobs: Index) -> Floats:
    """Seconds from a session's start to each of its jobs, whole. Shape (sum of jobs,)."""
    gap = np.exp(GAP_LOG_SD * rng.standard_normal(int(jobs.sum()))) * GAP_MEDIAN_S
    total = np.cumsum(np.minimum(gap, GAP_MOST_S))
    first = np.cumsum(jobs) - jobs
    offset: Floats = np.floor(total - np.repeat(total[first], jobs))
    return offset


class Scores:
    """Draws the scores of all jobs for one habit after the other.

    ``drift`` and ``spread`` scale the standard deviations of drift, and of session and job.
    """

    def __init__(
        self, rng: np.random.Generator, people: Population, spells: Sessions, *, drift: float, spread: float
    ) -> None:
        self._rng, self._people, self._spells = rng, people, spells
        self._drift, self._spread = drift, spread
        self._order = np.lexsort((spells.day, spells.app))

    def draw(self, shares: Shares) -> Floats:
        """Scores of the jobs, session by session. Shape (jobs,)."""
        rng, people, spells = self._rng, self._people, self._spells
        user = np.sqrt(shares.user) * rng.standard_normal(len(people.activity))
        app = np.sqrt(shares.app) * rng.standard_normal(len(people.app_user))
        spell = user[spells.user] + app[spells.app] + self._drift * np.sqrt(shares.drift) * self._drifting()
        spell += self._spread * np.sqrt(shares.session) * rng.standard_normal(len(spells.user))
        own = self._spread * np.sqrt(shares.job) * rng.standard_normal(int(spells.jobs.sum()))
        score: Floats = np.repeat(spell, spells.jobs) + own
        return score

    def _drifting(self) -> Floats:
        """An Ornstein-Uhlenbeck process of variance 1 for each application, at its sessions' times. Shape (s,).

        With e(t) = exp(t / tau) it is x(t) = W(e(t)^2) / e(t), W a Brownian motion, so that a sum over
        sessions in order replaces the recursion; times count from each application's first session.
        """
        app = self._spells.app[self._order]
        day = self._spells.day[self._order]
        begins = np.concatenate(([True], app[1:] != app[:-1]))
        group = np.cumsum(begins) - 1
        age = np.minimum((day - day[begins][group]) / DRIFT_D, 300.0)  # exp(600) is within float64
        clock = np.exp(2.0 * age)
        step = np.sqrt(np.where(begins, 1.0, np.diff(clock, prepend=0.0))) * self._rng.standard_normal(len(app))
        return self._unsort(_group_sums(step, begins) / np.sqrt(clock))

    def _unsort(self, ordered: Floats) -> Floats:
        out = np.empty_like(ordered)
        out[self._order] = ordered
        return out


def _group_sums(step: Floats, begins: NDArray[np.bool_]) -> Floats:
    """Running sums within groups, without the rounding that one sum over all groups would carry along."""
    out = np.empty_like(step)
    first = np.flatnonzero(begins)
    for a, b in zip(first.tolist(), [*first[1:].tolist(), len(step)], strict=True):
        np.cumsum(step[a:b], out=out[a:b])
    return out
