"""What can be promised to the grid: from when, how long, how many watts, with which confidence, at which cost to users.

The past days of a workload stand for tomorrow. For each candidate (hour of the begin, length, limit) the site is
simulated with a load target on every ``spacing``-th day, ``spacing`` times with other days, so that each day has its
event in one of these runs and events do not meet. On a day the site could have promised

    min over intervals of (watts without targets - watts with the target)

for the whole length: less would have been delivered in some interval had it promised more.

Of n such days, a promise that holds with a share p of days is a low quantile. It is not estimated but bounded: the k-th
lowest of n independent values is at or below the true (1 - p) quantile with a probability of at least ``confidence``
where P(Binomial(n, 1 - p) >= k) >= confidence (order statistics; Wilks 1941, Annals of Mathematical Statistics 12).
Too few days give no promise. Days are taken as independent, which those of one week are not quite; the result says how
many there were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, exp, lgamma, log, log1p

import numpy as np

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.sim.engine import Progress, Run
from wattqueue_grid.incentives.indexes import indexes
from wattqueue_grid.incentives.participation import with_participation
from wattqueue_grid.incentives.rewards import RewardModel
from wattqueue_grid.incentives.settle import ScheduledJobs, entries_of
from wattqueue_grid.incentives.site_runs import SimulatedSite, mean_watts, same_work

DAY_S = 86_400.0
MOST_DAYS = 3_660
"""Ten years of days."""
SMALL = 1_000
"""Draws up to which binomial coefficients are floats."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An offer to examine."""

    begin_s: float
    """Seconds after midnight at which delivery begins."""
    length_s: float
    limit_w: float
    """Limit of the load target, in watts of the cap's scope."""


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """How offers are examined."""

    reliability: float = 0.9
    """Share of days on which the promise is to hold."""
    confidence: float = 0.9
    """Probability with which the share of days is at least ``reliability``."""
    lead_s: float = 3_600.0
    """The load target begins so long before delivery, since running jobs are not stopped."""
    notice_s: float = 86_400.0
    """How long before its begin the policy knows of a target: tomorrow's is known today."""
    interval_s: int = 900
    spacing: int = 3
    """Days from one event of a run to the next."""
    warm_up_days: int = 1
    """First days of the workload that are left out: the machine fills."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a candidate allows to promise."""

    candidate: Candidate
    promise_w: float | None
    """None where no promise can be made with these days."""
    median_w: float
    """What half of the days would have delivered."""
    days: int
    added_wait_node_s: float
    """Of an event, over all jobs; mean."""
    added_run_node_s: float
    reward: int
    """Rewards of an event in micro-units, mean; 0 without a reward model."""
    why: str = ""
    """Why nothing can be promised: with the targets other jobs ran than without. Other figures are then 0."""

    @property
    def reward_per_kw(self) -> int | None:
        """Return the rewards of an event for each kW of the promise, in micro-units; None without a promise."""
        return None if not self.promise_w else round(Fraction(self.reward * 1_000) / Fraction(self.promise_w))


def offers(
    site: SimulatedSite,
    candidates: Sequence[Candidate],
    terms: OfferTerms,
    model: RewardModel | None = None,
    *,
    midnight_s: float = 0.0,
    tell: Progress | None = None,
) -> list[Offer]:
    """Return what each candidate allows to promise.

    Args:
        site: Workload, machine, policy; the workload's days stand for tomorrow.
        candidates: Offers to examine.
        terms: Reliability, confidence and how events are placed.
        model: Reward model for the cost to the centre, and for which jobs take part; None for none.
        midnight_s: A midnight of the site on the clock of the workload.
        tell: Called with (runs done, runs in all).

    Raises:
        InputError: A delivery that is not one or more whole intervals, a workload with fewer than two days after the
            warm-up, or more than ``MOST_DAYS``.
    """
    for candidate in candidates:
        if candidate.length_s < terms.interval_s or candidate.length_s % terms.interval_s:
            raise InputError(
                f"a delivery of {candidate.length_s:g} s",
                where="offer",
                hint=f"deliveries are metered in whole intervals of {terms.interval_s} s: --for 1h",
            )
    begin = float(site.jobs.submit_s.min(initial=0.0))
    last = float(site.jobs.submit_s.max(initial=0.0))
    first = int(np.ceil((begin - midnight_s) / DAY_S)) + terms.warm_up_days
    days = np.arange(first, int(np.floor((last - midnight_s) / DAY_S)))
    if len(days) < 2:
        raise InputError(
            f"{max(len(days), 0)} whole days after {terms.warm_up_days} to fill the machine",
            where="workload",
            hint="give more days; each stands for one tomorrow",
        )
    if len(days) > MOST_DAYS:
        raise InputError(
            f"{len(days):,} days from the first to the last submission, and each is simulated",
            where="workload",
            hint=f"at most {MOST_DAYS:,}: is a time of submission wrong? Or cut the trace",
        )
    runs = 1 + len(candidates) * min(terms.spacing, len(days))
    site = replace(site, jobs=with_participation(site.jobs, model)).telling(tell, runs)
    plain = site.run()
    midnights = np.asarray(midnight_s + DAY_S * days, np.float64)
    return [_offer(site, plain, candidate, terms, model, midnights) for candidate in candidates]


def rank_of_promise(n: int, reliability: float, confidence: float) -> int:
    """Return k such that the k-th lowest of n values can be promised; 0 where n is too small.

    The greatest k with P(Binomial(n, 1 - reliability) >= k) >= confidence.
    """
    fails = 1.0 - reliability
    at_least, k = 1.0, 0
    while k < n:
        at_least -= _share(n, k, fails)
        if at_least < confidence:
            return k
        k += 1
    return n


def _share(n: int, k: int, p: float) -> float:
    """Return P(Binomial(n, p) = k)."""
    if n <= SMALL or p in (0.0, 1.0):
        return comb(n, k) * p**k * (1.0 - p) ** (n - k)
    ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(ways + k * log(p) + (n - k) * log1p(-p))


def best_offers(found: Sequence[Offer]) -> list[Offer]:
    """Return for each begin and length the offer with the greatest promise, the gentler limit where they are equal."""
    kept: dict[tuple[float, float], Offer] = {}
    for offer in sorted(found, key=lambda o: -o.candidate.limit_w):
        key = (offer.candidate.begin_s, offer.candidate.length_s)
        if key not in kept or (offer.promise_w or -1.0) > (kept[key].promise_w or -1.0):
            kept[key] = offer
    return [kept[key] for key in sorted(kept)]


def _offer(
    site: SimulatedSite, plain: Run, candidate: Candidate, terms: OfferTerms, model: RewardModel | None, days: Floats
) -> Offer:
    """Return what one candidate allows to promise."""
    reached = np.full(len(days), np.nan)
    wait = longer = reward = 0
    for shift in range(terms.spacing):
        rows = np.arange(shift, len(days), terms.spacing)
        if not len(rows):
            continue
        targets = _targets(days[rows] + candidate.begin_s, candidate, terms)
        run = site.run(targets)
        through = same_work(run, plain)
        if not through.open:
            return Offer(candidate, None, 0.0, len(days), 0.0, 0.0, 0, through.why)
        for row in rows:
            reached[row] = _deliverable_w(plain, run, days[row] + candidate.begin_s, candidate.length_s, terms)
        windows = list(zip(targets.start_s.tolist(), targets.end_s.tolist(), strict=True))
        everyone = np.ones(len(site.jobs), bool)
        found = indexes(site.jobs.nodes, everyone, run.schedule, plain.schedule, windows)
        wait, longer = wait + int(found.added_wait.sum()), longer + int(found.added_run.sum())
        if model is not None:
            ran = ScheduledJobs(site.jobs, run.schedule)
            reward += sum(entry.reward for entry in entries_of(ran, plain.schedule, targets, model))
    n = len(days)
    rank = rank_of_promise(n, terms.reliability, terms.confidence)
    promise = max(float(np.sort(reached)[rank - 1]), 0.0) if rank else None
    return Offer(candidate, promise, float(np.median(reached)), n, wait / n, longer / n, round(reward / n))


def _targets(begin_s: Floats, candidate: Candidate, terms: OfferTerms) -> LoadTargets:
    """Return a load target for each begin of delivery; it starts the lead before."""
    return LoadTargets.of(
        *(
            LoadTarget(float(b) - terms.lead_s, float(b) + candidate.length_s, candidate.limit_w,
                       notice_s=terms.notice_s, correlation_id=f"day-{k + 1}")
            for k, b in enumerate(begin_s)
        )
    )  # fmt: skip


def _deliverable_w(plain: Run, run: Run, begin_s: float, length_s: float, terms: OfferTerms) -> float:
    """Return the least reduction over the intervals of a delivery, in watts; negative where power rose."""
    count = round(length_s / terms.interval_s)
    edges = np.array([begin_s + k * terms.interval_s for k in range(count + 1)], np.float64)
    return float((mean_watts(plain, edges) - mean_watts(run, edges)).min())
