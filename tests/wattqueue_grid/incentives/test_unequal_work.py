"""Design and offers where a load target leaves jobs: no winner and no difference of totals is stated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from tests.api.test_unequal_work import WINNER
from tests.report.cases import unfinished
from tests.wattqueue_grid.incentives.test_design_and_offer import INPUTS
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.sim.engine import Run
from wattqueue_grid.incentives.design import design
from wattqueue_grid.incentives.offer import Candidate, OfferTerms, offers
from wattqueue_grid.incentives.offer_report import document, offers_csv
from wattqueue_grid.incentives.site_runs import SimulatedSite


class Leaving(SimulatedSite):
    """A site on which a load target leaves the last job."""

    def run(self, targets: LoadTargets | None = None, jobs: Jobs | None = None) -> Run:
        run = SimulatedSite.run(self, targets, jobs)
        return run if targets is None else replace(run, schedule=unfinished(run.schedule, 1))


def leaving(site: SimulatedSite) -> Leaving:
    return Leaving(site.jobs, site.machine, site.policy, site.cap, site.epoch_s, site.estimator)


def designed() -> str:
    with pytest.raises(InputError) as caught:
        design(replace(INPUTS, site=leaving(INPUTS.site)), [Decimal(0), Decimal(1)])
    return str(caught.value)


def offered() -> str:
    site = leaving(INPUTS.site)
    jobs = Jobs.build(3_600.0 * np.arange(96), [10] * 96, [1_800.0] * 96, mean_power_w=[1_100.0] * 96)
    terms = OfferTerms(warm_up_days=0)
    found = offers(replace(site, jobs=jobs), [Candidate(36_000.0, 3_600.0, 5_000.0)], terms)
    assert found[0].promise_w is None
    return "\n".join([*document(found, terms, "EUR").lines(), offers_csv(found, terms, "EUR")])


@pytest.mark.parametrize("consumer", [designed, offered])
def test_nobody_names_a_winner(consumer: Callable[[], str]) -> None:
    said = consumer()
    assert not WINNER.search(said), WINNER.search(said)
    assert "never ran" in said
