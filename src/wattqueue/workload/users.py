"""Users with habits: who submits when, in which session, with which application; and how habits drift.

Everything that a user does is a *score*, normal with variance 1, made of five parts: the user's habit, the
application's, its drift over time (a stationary Ornstein-Uhlenbeck process of each application), the
session's, and the job's own. Generators map the ranks of scores on the quantiles of real traces, so that
the whole follows the trace and each user keeps a part of it.

Flow: ``population`` draws users and their applications; ``sessions`` draws who submits how many jobs of which
application at which part of the trace; ``HabitDraws.draw`` gives the scores of all jobs for one quantity (size,
walltime, run time, watts), with ``Shares`` saying how its variance splits. Arrays are per session until the end, then
repeated per job: a session is a run of jobs of one user with one application.
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
"""Standard deviation of the logarithm of users' activities."""
LEAST_ACTIVITY = 0.05
"""Share of the sessions that is spread evenly, so that every user occurs in a long trace."""
SESSION_JOBS = 5.0
"""Mean number of jobs of a session; lengths are geometric."""
GAP_MEDIAN_S = 700.0
GAP_LOG_SD = 1.7
GAP_MOST_S = 6 * 3600.0
"""Gaps between submissions of a session are log-normal, cut at six hours."""
# Assumed, no source: how many applications a user has, and how long users stay.
MORE_APPS = 2.0
"""Mean number of applications beyond the first (Poisson)."""
MOST_APPS = 8
STAY_MEDIAN_D = 150.0
STAY_LOG_SD = 0.8
"""Users stay for a log-normal number of days."""
DRIFT_D = 45.0
"""Time constant of drift: a habit's correlation with itself falls to 1/e."""


@dataclass(frozen=True)
class Shares:
    """How the variance of a score splits by origin; the shares sum to 1."""

    user: float
    """Between users: constant for all jobs of a user."""
    app: float
    """Between the applications of a user."""
    drift: float
    """Slow change of an application over weeks."""
    session: float
    """Between sessions of one application."""
    job: float
    """Between jobs of one session."""


@dataclass(frozen=True, eq=False)
class Population:
    """Users and their applications; applications are numbered over all users, those of a user adjacently."""

    activity: Floats
    """Share of the sessions of each user; sums to 1. Shape (users,)."""
    first_app: Index
    """First application of each user, and the number of applications. Shape (users + 1,)."""
    app_user: Index
    """User of each application. Shape (apps,)."""
    app_weight: Floats
    """Relative frequency of each application among those of its user. Shape (apps,)."""
    joined: Floats
    """Share of the trace's submissions at which each user begins. Shape (users,)."""
    stay: Floats
    """Share of the trace's submissions for which each user stays. Shape (users,)."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """Groups of submissions by one user with one application. Shapes (s,)."""

    user: Index
    """The user."""
    app: Index
    """The application, numbered over all users."""
    share: Floats
    """Share of the trace's submissions that came before the session."""
    day: Floats
    """When that is, in days, on the trace's natural clock (before a load stretches it); drift depends on it."""
    jobs: Index
    """Number of jobs that it submits."""


def population(rng: np.random.Generator, users: int, days: float) -> Population:
    """Draw users for a trace of ``days`` days.

    Activities are log-normal with a small even share. A user has one application or more (Poisson), with weights that
    fall as rank^-1.5. Users join at a random point of the trace and stay for a log-normal number of days.
    """
    activity = np.exp(ACTIVITY_LOG_SD * rng.standard_normal(users))
    activity = LEAST_ACTIVITY / users + (1.0 - LEAST_ACTIVITY) * activity / activity.sum()
    apps = 1 + np.minimum(rng.poisson(MORE_APPS, users), MOST_APPS - 1)
    first = np.concatenate(([0], np.cumsum(apps))).astype(np.int64)
    owner = np.repeat(np.arange(users, dtype=np.int64), apps)
    weight = 1.0 / (1.0 + np.arange(first[-1]) - first[owner]) ** 1.5
    stay = np.minimum(1.0, STAY_MEDIAN_D * np.exp(STAY_LOG_SD * rng.standard_normal(users)) / days)
    return Population(activity, first, owner, weight, rng.random(users), stay)


def sessions(rng: np.random.Generator, people: Population, jobs: int, days: float, cycle: WeekCycle) -> Sessions:
    """Draw sessions until they hold exactly ``jobs`` jobs; their order is independent of their times.

    Because of that, the first k jobs of the result are a fair sample: ``marconi`` cuts a surplus off the end. A
    user's sessions lie in an interval of the trace that wraps around its end.
    """
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
    """Draw an application of each user; the first one of a user is the most frequent. Shape as ``user``.

    One search in the cumulative weights of all applications, limited to the interval of the user.
    """
    total = np.concatenate(([0.0], np.cumsum(people.app_weight)))
    low, high = total[people.first_app[user]], total[people.first_app[user + 1]]
    at = np.searchsorted(total, low + rng.random(len(user)) * (high - low), side="right") - 1
    app: Index = np.clip(at, people.first_app[user], people.first_app[user + 1] - 1).astype(np.int64)
    return app


def offsets_s(rng: np.random.Generator, jobs: Index) -> Floats:
    """Return whole seconds from a session's start to each of its jobs. Shape (sum of jobs,)."""
    gap = np.exp(GAP_LOG_SD * rng.standard_normal(int(jobs.sum()))) * GAP_MEDIAN_S
    total = np.cumsum(np.minimum(gap, GAP_MOST_S))
    first = np.cumsum(jobs) - jobs
    offset: Floats = np.floor(total - np.repeat(total[first], jobs))
    return offset


class HabitDraws:
    """Draws the scores of all jobs for one quantity after the other.

    ``drift`` and ``spread`` scale the standard deviations of drift, and of session and job; with values other than 1
    a score's variance is not 1, which the mapping by ranks absorbs: marginals stay, correlations change. Draws depend
    on the order of the calls, since all take from one generator.
    """

    def __init__(
        self, rng: np.random.Generator, people: Population, spells: Sessions, *, drift: float, spread: float
    ) -> None:
        self._rng, self._people, self._spells = rng, people, spells
        self._drift, self._spread = drift, spread
        self._order = np.lexsort((spells.day, spells.app))

    def draw(self, shares: Shares) -> Floats:
        """Return scores of the jobs, session by session. Shape (jobs,)."""
        rng, people, spells = self._rng, self._people, self._spells
        user = np.sqrt(shares.user) * rng.standard_normal(len(people.activity))
        app = np.sqrt(shares.app) * rng.standard_normal(len(people.app_user))
        spell = user[spells.user] + app[spells.app] + self._drift * np.sqrt(shares.drift) * self._drifting()
        spell += self._spread * np.sqrt(shares.session) * rng.standard_normal(len(spells.user))
        own = self._spread * np.sqrt(shares.job) * rng.standard_normal(int(spells.jobs.sum()))
        score: Floats = np.repeat(spell, spells.jobs) + own
        return score

    def _drifting(self) -> Floats:
        """Draw an Ornstein-Uhlenbeck process of variance 1 per application, at its sessions' times. Shape (s,).

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
        """Bring values from the order (application, time) back to the order of the sessions. Shape (s,)."""
        out = np.empty_like(ordered)
        out[self._order] = ordered
        return out


def _group_sums(step: Floats, begins: NDArray[np.bool_]) -> Floats:
    """Return running sums within groups; ``begins`` marks the first of each. Shape (s,).

    A loop over groups, not one sum minus its value at each group's start: late terms of a group grow like exp(600),
    and their rounding would destroy the groups that follow.
    """
    out = np.empty_like(step)
    first = np.flatnonzero(begins)
    for a, b in zip(first.tolist(), [*first[1:].tolist(), len(step)], strict=True):
        np.cumsum(step[a:b], out=out[a:b])
    return out
