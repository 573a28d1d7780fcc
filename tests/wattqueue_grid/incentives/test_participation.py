"""A job's price for an added hour against what the reward model gives, by hand; in settlement, offer and design."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from tests.wattqueue_grid.incentives.test_design_and_offer import INPUTS, SITE, TARGETS, days_of_work, linear
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue_grid.incentives.acceptance import with_consent_of
from wattqueue_grid.incentives.design import design
from wattqueue_grid.incentives.design_report import sentences as of_design
from wattqueue_grid.incentives.offer import Candidate, OfferTerms, offers
from wattqueue_grid.incentives.participation import sentences, taking_part, too_dear, with_participation
from wattqueue_grid.incentives.rewards import RewardModel, RewardTerm
from wattqueue_grid.incentives.settle import ScheduledJobs, entries_of

HOUR = 3_600.0
WAIT, RUN = (
    linear("added_wait", "0.05"),
    RewardTerm("added_run", "capped", ((Decimal(0), Decimal("0.40")),), Decimal(3)),
)
BOTH = RewardModel("Both", "EUR", Decimal(1), Decimal(1), (WAIT, RUN, linear("energy_freed", "9")))


def priced(nodes: list[int], allowed: list[float], prices: list[float]) -> Jobs:
    n = len(nodes)
    return Jobs.build(
        np.zeros(n), nodes, [HOUR] * n, consent=Consent.build(n, allowed=allowed, price_per_added_hour=prices)
    )


@pytest.mark.parametrize(
    ("terms", "nodes", "micro"),
    [
        ((WAIT, RUN), 10, 500_000),  # 10 node-hours of wait at 0.05; of run time 3.00, the cap of a job
        ((linear("added_wait", "1"), RUN), 10, 3_000_000),  # now the wait gives more
        ((WAIT, WAIT, linear("added_run", "1")), 4, 400_000),  # terms of one index add up
        ((WAIT,), 10, 0),  # an hour of run time gives nothing
        ((linear("energy_freed", "9"),), 10, 0),
    ],
)
def test_what_is_sure_for_the_first_added_hour(terms: tuple[RewardTerm, ...], nodes: int, micro: int) -> None:
    assert replace(BOTH, terms=terms).first_hour(nodes) == micro


def test_a_job_that_asks_more_than_it_would_get_does_not_take_part() -> None:
    # Two and ten nodes get 0.10 and 0.50 for an hour.
    nan = float("nan")
    jobs = priced([2, 2, 10, 10, 10, 10], [1, 1, 1, 1, 0, 1], [0.10, 0.11, 0.5, 0.51, 0.9, nan])
    assert too_dear(jobs, BOTH).tolist() == [False, True, False, True, True, False]
    assert taking_part(jobs, BOTH).tolist() == [True, False, True, False, False, True]
    assert sentences(jobs, BOTH)[0].startswith("2 of 5 jobs with consent ask more for an added hour than Both gives:")
    kept = with_participation(jobs, BOTH).consent
    assert kept is not None
    assert kept.given.tolist() == taking_part(jobs, BOTH).tolist()
    assert taking_part(jobs, BOTH.scaled(Decimal("1.1"))).sum() == 5  # all but the one that does not consent
    assert taking_part(jobs, None).tolist() == [False, False, False, False, False, True]


def test_jobs_without_consent_or_price_say_nothing() -> None:
    plain = Jobs.build([0.0], [1], [HOUR])
    assert not taking_part(plain, BOTH).any()
    assert with_participation(plain, BOTH) is plain
    assert sentences(plain, BOTH) == []


def with_prices(jobs: Jobs, price: float) -> Jobs:
    n = len(jobs)
    return replace(jobs, consent=Consent.build(n, allowed=np.ones(n), price_per_added_hour=np.full(n, price)))


@pytest.mark.parametrize(("price", "paid"), [(0.5, 2), (0.51, 0)])
def test_a_settlement_rewards_no_job_that_asked_more(price: float, paid: int) -> None:
    jobs = with_prices(SITE.jobs, price)
    run, without = SITE.run(TARGETS, jobs), SITE.run(None, jobs)
    entries = entries_of(ScheduledJobs(jobs, run.schedule), without.schedule, TARGETS, BOTH)
    assert len([entry for entry in entries if entry.reward]) == paid


def test_a_design_counts_no_reward_for_those_who_ask_more_and_says_how_many() -> None:
    model = replace(BOTH, terms=(WAIT, RUN))
    inputs = replace(INPUTS, model=model, site=replace(SITE, jobs=with_prices(SITE.jobs, 0.8)))
    low, high = design(inputs, [Decimal(1), Decimal(2)])
    assert (low.work_share, low.rewards) == (0.0, 0)
    assert high.work_share == 1.0
    assert high.rewards > 0
    assert any(line.startswith("Of 4 jobs with a price for an added hour,") for line in of_design([low, high], inputs))


def test_limits_and_prices_stay_where_users_are_drawn() -> None:
    jobs = with_prices(SITE.jobs, 0.8)
    drawn = with_consent_of(jobs, 1.0, 3).consent
    assert drawn is not None
    assert drawn.price_per_added_hour.tolist() == [0.8] * 4


@pytest.mark.parametrize(("price", "reward"), [(0.3, 800_000), (0.51, 0)])
def test_an_offer_costs_no_reward_for_those_who_ask_more(price: float, reward: int) -> None:
    # Jobs of 6, 8 and 10 nodes get 0.30, 0.40 and 0.50 for an hour.
    site = days_of_work(10)
    site = replace(site, jobs=with_prices(site.jobs, price))
    terms = OfferTerms(reliability=0.5, confidence=0.9, lead_s=0.0)
    found = offers(site, [Candidate(11 * HOUR, HOUR, 2_000.0)], terms, replace(BOTH, terms=(WAIT, RUN)))[0]
    assert found.reward == reward
