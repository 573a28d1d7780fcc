"""The study of combined: all ingredients are the row, claims that can be judged, tables of what is worth something."""

from __future__ import annotations

import numpy as np
import pytest

from wattqueue.policy.for_machine import SiteFacts, row_on
from wattqueue.policy.interfaces import AXES
from wattqueue.policy.oracles import oracles_of
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import LEFT_OUT, find_row, published_rows
from wattqueue_studies.combined.ingredients import (
    ALL,
    BASE,
    INGREDIENTS,
    SiteDraw,
    carbon,
    choices,
    moving_cap,
    parts_of,
    price,
)  # fmt: skip
from wattqueue_studies.combined.papers import verdict_table, verdicts
from wattqueue_studies.combined.scenarios import COMBINED, SCENARIOS
from wattqueue_studies.combined.study import TOLD, CombinedStudy
from wattqueue_studies.combined.worth import FIGURES, SETTING, TESTED, Worth, pairs, single, worth_tables
from wattqueue_studies.frame.samples import Samples

DRAWS = 12


def test_all_ingredients_are_the_row_combined() -> None:
    draw = SiteDraw(1)
    made = row_on(find_row(COMBINED), SiteFacts.simulated(draw.machine, draw.known))
    parts = parts_of(frozenset(INGREDIENTS), draw.machine, draw.known)
    assert parts == {axis: made[axis] for axis in AXES}
    assert LEFT_OUT not in made, "the scenario gives everything"


def test_no_ingredient_is_easy() -> None:
    draw = SiteDraw(1)
    parts = parts_of(frozenset(), draw.machine, draw.known)
    easy = load_policy("easy", **parts)
    assert type(easy.frequency) is type(load_policy("easy").frequency)
    assert {axis: parts[axis] for axis in ("estimator", "runtime", "order", "placement", "ledger", "controls")} == {
        axis: find_row("easy")[axis] for axis in ("estimator", "runtime", "order", "placement", "ledger", "controls")
    }


def test_every_row_of_the_scenario_is_one_of_its_own() -> None:
    every = choices()
    assert len(every) == 1 + 8 + 28 + 8 + 1
    assert len(set(every.values())) == len(every)
    assert every[BASE] == frozenset()
    assert every[ALL] == frozenset(INGREDIENTS)
    assert every["all without price"] == frozenset(INGREDIENTS) - {"price"}


def test_factors_that_were_learned_are_near_the_true_ones() -> None:
    draw = SiteDraw(3)
    learned, true = draw.known["table"].factor[0], draw.true_factor.mean(axis=0)
    for first, end in ((0, 32), (32, 56)):
        own, other = learned[first:end] / learned[first:end].mean(), true[first:end] / true[first:end].mean()
        assert np.abs(own / other - 1).max() < 0.02


def test_signals_of_the_scenario_repeat_day_by_day() -> None:
    assert moving_cap().in_force_w(12 * 3600.0) < moving_cap().in_force_w(2 * 3600.0)
    assert int(np.argmax(price().value[:24])) == 18
    assert int(np.argmin(carbon().value[:24])) == 13


def test_claims_name_scenarios_and_rows_that_know_no_future() -> None:
    assert [claim.on[0] for claim in TOLD.claims] == list(SCENARIOS)
    for claim in TOLD.claims:
        assert claim.policy == COMBINED
        assert claim.over in published_rows()
        assert not oracles_of(load_policy(claim.over)), "the best row is no oracle"
        assert claim.metric in TOLD.labels


def samples(changes: dict[str, float]) -> Samples:
    """Figures of each paper's scenario: combined over the paper's row by so many per cent."""
    rng = np.random.default_rng(1)
    values = {}
    for claim in TOLD.claims:
        (name,) = claim.on
        base = 1000.0 + rng.normal(0.0, 10.0, DRAWS)
        size = changes.get(claim.over, 0.0) + rng.normal(0.0, 0.2, DRAWS)
        for row, figures in ((claim.over, base), (COMBINED, base * (1 + size / 100))):
            values[name, row, claim.metric] = figures
            values[name, row, "over_s"] = np.full(DRAWS, 2.0 if row == COMBINED and claim.over in changes else 1.0)
            values[name, row, "never_ran"] = np.zeros(DRAWS)
    return Samples(values, scores=True)


def test_a_loss_is_excluded_where_the_whole_interval_is_below_one_per_cent() -> None:
    rows = {row["row"]: row for row in verdicts(TOLD.claims, samples({"slurm-prvp": 3.0, "e-pas-intel": -5.0}))}
    assert not rows["slurm-prvp"]["loss_excluded"]
    assert rows["e-pas-intel"]["loss_excluded"]
    assert rows["e-pas-intel"]["better"]
    assert not rows["slurm-prvp"]["no_worse"], "more time above the cap"
    assert rows["easy+pc-mean"]["no_worse"]
    shown = "\n".join(verdict_table(TOLD.claims, samples({}), TOLD).lines())
    assert shown.count("over ") >= len(TOLD.claims)


def site_samples() -> Samples:
    """Figures of all rows: EAR saves a tenth of the wait, prices double it, and take away what EAR saves."""
    rng = np.random.default_rng(2)
    values = {}
    draw = 100.0 * (1 + 0.02 * rng.random(DRAWS))
    for name, chosen in choices().items():
        factor = (0.9 if "ear" in chosen and "price" not in chosen else 1.0) * (2.0 if "price" in chosen else 1.0)
        for metric in FIGURES:
            noise = 1 + 0.002 * rng.normal(size=DRAWS)
            values[SETTING, name, metric] = draw * noise * (factor if metric == "wait_s" else 1.0)
    return Samples(values, scores=True)


def found(rows: list[Worth], what: str, where: str, metric: str) -> Worth:
    return next(row for row in rows if (row.what, row.where, row.metric) == (what, where, metric))


def test_what_an_ingredient_is_worth_alone_and_in_all() -> None:
    rows = single(site_samples())
    assert len(rows) == 2 * len(INGREDIENTS) * len(TESTED)
    ear = found(rows, "ear", "alone", "wait_s")
    assert ear.sure
    assert ear.change.size.mean == pytest.approx(-10.0, abs=0.5)
    assert not found(rows, "ear", "in all", "wait_s").sure, "prices take it away"
    assert found(rows, "price", "in all", "wait_s").change.size.mean == pytest.approx(122.0, abs=2.0)
    assert not found(rows, "units", "alone", "energy_j").sure


def test_pairs_that_harm_each_other_are_named() -> None:
    harmed = found(pairs(site_samples()), "ear + price", "pair", "wait_s")
    assert harmed.sure
    assert harmed.change.size.mean > 100.0, "over the better one of the two, EAR alone"
    text = "\n".join(line for table in worth_tables(site_samples()) for line in table.lines())
    assert "ear + price" in text
    assert "harm" in text


@pytest.mark.slow
@pytest.mark.compiled
def test_the_study_runs_and_reports() -> None:
    report = CombinedStudy(draws=2, first=1, site_draws=2).run()
    document = report.document()
    assert len(document["verdicts"]) == len(SCENARIOS)
    assert len(document["worth"]) == 2 * 8 * len(TESTED) + 2 * 28
    assert "Combined against" in report.html()
    by_row = {(row["policy"], row["metric"]): row["values"] for row in document["site"]}
    assert by_row[BASE, "consent_node_h"] == [0.0, 0.0]
    assert all(value > 0 for value in by_row["price", "consent_node_h"])
