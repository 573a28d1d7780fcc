"""Design and offer on a site so small that every figure can be worked out."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest

from wattqueue.errors import InputError
from wattqueue.model.consent import Consent
from wattqueue.model.jobs import Jobs
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.machine import plain_machine
from wattqueue.report.document import UNBROKEN
from wattqueue_grid.incentives.acceptance import AcceptanceCurve, read_acceptance, with_consent_of
from wattqueue_grid.incentives.design import DesignInputs, DesignRow, design
from wattqueue_grid.incentives.design_report import design_csv, document
from wattqueue_grid.incentives.offer import Candidate, Offer, OfferTerms, best_offers, offers, rank_of_promise
from wattqueue_grid.incentives.offer_report import document as offers_document
from wattqueue_grid.incentives.offer_report import offers_csv
from wattqueue_grid.incentives.offer_verdict import Earned
from wattqueue_grid.incentives.rewards import RewardModel, RewardTerm
from wattqueue_grid.incentives.site_runs import SimulatedSite, metered
from wattqueue_grid.incentives.verdict import verdict
from wattqueue_grid.meter import of_power
from wattqueue_grid.money import words as money
from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.load_history import CalledEvent

UTC = SiteCalendar(zone_of("UTC", "test"))
HOUR = 3_600.0


def linear(index: str, rate: str) -> RewardTerm:
    return RewardTerm(index, "linear", ((Decimal(0), Decimal(rate)),))  # type: ignore[arg-type]


# Ten nodes of 100 to 1,100 W. Each hour a job of one hour takes all ten: 11 kW throughout. Under a limit of 5 kW in
# hour 2 the job of that hour waits for an hour, and so do those behind it.
SITE = SimulatedSite(
    Jobs.build(
        HOUR * np.arange(4), [10] * 4, [HOUR] * 4, user=["ada", "bob", "ada", "bob"], mean_power_w=[1_100.0] * 4
    ),
    plain_machine(10, 100.0, 1_100.0),
    "easy",
)
TARGETS = LoadTargets.of(LoadTarget(2 * HOUR, 3 * HOUR, 5_000.0, correlation_id="e"))
EVENTS = (CalledEvent("e", 7_200, 10_800, 10_000),)
CURVE = AcceptanceCurve("assumed", "generated", "the test", Decimal("0.10"), ((0.0, 0.0), (1.0, 1.0)))
MODEL = RewardModel("Discount", "EUR", Decimal(1), Decimal(1), (linear("added_wait", "0.05"),))
CONTRACT = Contract("c", "EUR", UTC, "pjm-same-day", 10_000, Decimal(1_000), energy_per_mwh=Decimal(100))
INPUTS = DesignInputs(SITE, TARGETS, EVENTS, MODEL, CURVE, CONTRACT, draws=1)


def test_a_design_adds_up_payments_bills_rewards_and_losses() -> None:
    none, full = design(INPUTS, [Decimal(1), Decimal(0)])
    # Delivered: 11 kW without, 1 kW idle with the target, for an hour: 10 kWh at 1,000 EUR/MWh is 10 EUR.
    assert full.delivered_j == 10_000 * 3_600
    assert full.payment == 10_000_000
    assert full.penalty == 0
    # Two jobs wait an hour longer on ten nodes each: 20 node-hours, at 0.10 they cost users 2 EUR and give 1 EUR.
    assert (full.added_wait_node_s, full.added_run_node_s) == (72_000, 0)
    assert (full.loss, full.rewards) == (2_000_000, 1_000_000)
    # The run lasts an hour longer. Over these five hours both draw the same: 4 x 11 kWh, and an idle kWh.
    assert full.saved == 0
    assert full.centre == 10_000_000 - 1_000_000
    assert full.users == -1_000_000
    assert (full.user_share, full.work_share, full.spread) == (1.0, 1.0, 0)
    # At a rate of 0 nobody consents and nobody gets anything; easy holds the limit all the same.
    assert (none.user_share, none.rewards, none.payment) == (0.0, 0, 10_000_000)


def drawn(multiple: int, payment: int, rewards: int, loss: int, sums: Sequence[int] = ()) -> DesignRow:
    """A rate in micro-units, with 20 equal draws where no sums are given."""
    by_draw = tuple((total - (rewards - loss), rewards - loss) for total in sums or (payment - loss,) * 20)
    return DesignRow(Decimal(multiple), 0.5, 0.5, 0.0, 0.0, 0.0, payment, 0, 0, rewards, loss, by_draw)


EUR = 1_000_000


def test_the_best_rate_is_one_at_which_neither_side_loses() -> None:
    greatest, fair, poor = (
        drawn(0, 100 * EUR, 0, 10 * EUR),
        drawn(1, 80 * EUR, 20 * EUR, 15 * EUR),
        drawn(2, 60 * EUR, 70 * EUR, 5 * EUR),
    )
    found = verdict([greatest, fair, poor], "EUR")
    assert found.row is fair
    assert found.sentence == (
        "Best off together at 1 times the rates: the centre gains 60.00 EUR, users gain 5.00 EUR, both 65.00 EUR; "
        "with no event both have 0.00 EUR"
    )
    found = verdict([greatest, poor], "EUR")
    assert found.row is greatest
    assert "the centre gains 100.00 EUR, users lose 10.00 EUR" in found.sentence
    assert "at every rate that pays one side loses" in found.sentence


def test_an_event_that_never_pays_is_said_first() -> None:
    """As seen: 19.53 earned, 70.20 of rewards, and "best off together" at minus 19.40."""
    rng = np.random.default_rng(1)
    noise = np.rint(rng.normal(0.0, 5.37 * EUR, 20)).astype(int).tolist()
    one, four = ([round(mean * EUR) + x for x in noise] for mean in (-19.70, -19.40))
    rows = [drawn(1, 0, 0, round(19.7 * EUR), one), drawn(4, 0, 0, round(19.4 * EUR), four)]
    found = verdict(rows, "USD")
    assert found.row is None
    assert found.sentence.startswith("At no rate does an event pay: both sides together lose at each;")
    assert "the least loss is 19.40 USD" in found.sentence
    assert "with no event both have 0.00 USD" in found.sentence


def test_differences_within_their_error_are_ties() -> None:
    """Draw by draw: two rates may differ surely though their sums spread widely."""
    rng = np.random.default_rng(2)
    users, own = rng.normal(0.0, 20.0 * EUR, (2, 20))
    same = [round(100 * EUR + x) for x in users]
    less = [round(95 * EUR + x) for x in users]
    other = [round(99 * EUR + x) for x in own]
    best, worse, tied = drawn(1, 100 * EUR, 0, 0, same), drawn(2, 95 * EUR, 0, 0, less), drawn(4, 99 * EUR, 0, 0, other)
    found = verdict([best, worse, tied], "EUR")
    assert (found.row, found.tied) == (best, (tied,))
    assert "4 differ from it by less than the error" in found.sentence
    wide = [round(5 * EUR + 10 * x) for x in users]
    found = verdict([drawn(1, 5 * EUR, 0, 0, wide)], "EUR")
    assert found.row is None
    assert found.sentence.startswith("At no rate is an event shown to pay")


def test_few_draws_give_no_verdict() -> None:
    found = verdict([drawn(1, 9 * EUR, 0, 0, [9 * EUR] * 19)], "EUR")
    assert found.row is None
    assert found.sentence.startswith("No verdict from 19 draws of users, 20 are the least (--draws 20)")


def test_design_and_offers_tell_how_many_runs_are_done() -> None:
    told: list[tuple[int, int]] = []
    design(replace(INPUTS, draws=2), [Decimal(0), Decimal(1)], lambda *at: told.append(at))
    assert told == [(done, 5) for done in range(1, 6)]
    told.clear()
    terms = OfferTerms(warm_up_days=0, interval_s=900)
    offers(days_of_work(6), [Candidate(11 * HOUR, HOUR, 2_000.0)] * 2, terms, tell=lambda *at: told.append(at))
    assert told == [(done, len(told)) for done in range(1, len(told) + 1)]
    assert len(told) >= 3


def test_a_design_reads_as_table_csv_and_page_and_names_the_origin_of_its_curve() -> None:
    rows = design(INPUTS, [Decimal(0), Decimal(1)])
    said = "\n".join(document(rows, INPUTS).lines(UNBROKEN))
    assert "The acceptance curve assumed is generated: the test." in said
    assert "No verdict from 1 draws" in said
    assert "no event" in said
    assert design_csv(rows, INPUTS).splitlines()[3].startswith("1,1,1,72000,0,36000000,10,0,0,1,2,9,-1,8,0,EUR")
    assert document(rows, INPUTS).html() == document(rows, INPUTS).html()


def test_a_design_of_two_currencies_or_without_a_rate_is_refused() -> None:
    with pytest.raises(InputError) as error:
        design(replace(INPUTS, model=replace(MODEL, currency="CHF")), [Decimal(1)])
    assert error.value.where == "--model"
    for multiples in ([], [Decimal(-1)]):
        with pytest.raises(InputError) as error:
            design(INPUTS, multiples)
        assert error.value.where == "--rates"


@pytest.mark.parametrize("interval_s", [-1, 0, 7, 7_200])
def test_an_interval_divides_an_hour(interval_s: int) -> None:
    with pytest.raises(InputError) as error:
        replace(INPUTS, interval_s=interval_s)
    assert error.value.where == "--interval"


def test_the_users_of_a_smaller_share_are_among_those_of_a_larger_one() -> None:
    names = [f"u{i:03d}" for i in range(200)]
    jobs = Jobs.build(np.zeros(201), [1] * 201, [1.0] * 201, user=[*names, ""])
    shares = [with_consent_of(jobs, share, 7).consent for share in (0.0, 0.3, 0.6, 1.0)]
    given = [found.given for found in shares if found is not None]
    assert [int(g.sum()) for g in given] == [0, int(given[1].sum()), int(given[2].sum()), 200]
    assert 40 <= given[1].sum() <= 80
    assert (given[2][given[1]]).all()
    assert not given[3][-1]  # a job without a user


CURVE_TEXT = """
name = "Assumed"
origin = "generated"
source = "no users were asked"
value_per_node_h = 0.08
points = [[0.0, 0.05], [1.0, 0.55], [4.0, 0.95]]
"""


def test_a_curve_is_read_and_interpolated(tmp_path: Path) -> None:
    path = tmp_path / "acceptance.toml"
    path.write_text(CURVE_TEXT, encoding="utf-8")
    curve = read_acceptance(path)
    assert [round(curve.share(m), 4) for m in (0.0, 0.5, 1.0, 2.5, 9.0)] == [0.05, 0.3, 0.55, 0.75, 0.95]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"generated"', '"measured"', "origin"),
        ("[4.0, 0.95]", "[4.0, 1.95]", "points"),
        ("[4.0, 0.95]", "[4.0, 0.05]", "points"),
        ("[4.0, 0.95]", "[1.0, 0.95]", "points"),
        ("[4.0, 0.95]", "[4.0]", "points"),
        ("value_per_node_h = 0.08", "value_per_node_h = -1.0", "value_per_node_h"),
        ("source", "sources", "source"),
    ],
)
def test_a_curve_that_cannot_be_used_is_refused_with_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = tmp_path / "acceptance.toml"
    path.write_text(CURVE_TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_acceptance(path)
    assert str(path) in str(error.value.where)
    assert key in str(error.value)


@pytest.mark.parametrize(
    ("n", "reliability", "confidence", "k"),
    [
        (21, 0.9, 0.9, 0),  # 1 - 0.9^21 = 0.891: too few
        (22, 0.9, 0.9, 1),  # 1 - 0.9^22 = 0.902
        (28, 0.9, 0.95, 0),  # 1 - 0.9^28 = 0.948
        (29, 0.9, 0.95, 1),  # 1 - 0.9^29 = 0.953: the 29 of Wilks' tables for 90 % and 95 %
        (59, 0.95, 0.95, 1),  # 59 for 95 % and 95 %, as in Wilks' tables
        (93, 0.95, 0.95, 2),  # 93 for the second lowest
        (4, 0.5, 0.9, 1),  # 1 - 1/16 = 0.94; with one more of four: 1 - 5/16
    ],
)
def test_the_rank_of_a_promise_is_that_of_the_tables(n: int, reliability: float, confidence: float, k: int) -> None:
    assert rank_of_promise(n, reliability, confidence) == k


@pytest.mark.parametrize(
    ("n", "reliability", "confidence"), [(1_000, 0.9, 0.9), (1_001, 0.9, 0.9), (3_660, 0.99, 0.95), (2_500, 0.5, 0.2)]
)
def test_the_rank_of_a_promise_of_many_days(n: int, reliability: float, confidence: float) -> None:
    """Against whole numbers: coefficients of 1,030 days and more are beyond float64."""
    fails, of = round((1.0 - reliability) * 100), 100
    fewer, k = 0, 0
    while (fewer := fewer + comb(n, k) * fails**k * (of - fails) ** (n - k)) <= of**n * (1 - Fraction(confidence)):
        k += 1
    assert rank_of_promise(n, reliability, confidence) == k


def test_the_rank_of_a_promise_where_nothing_fails() -> None:
    assert rank_of_promise(2_000, 1.0, 0.9) == 0


def test_a_trace_with_a_wrong_time_of_submission_is_refused() -> None:
    site = days_of_work(4)
    late = site.jobs.submit_s.copy()
    late[-1] = 4_294_967_294.0  # no number in an SWF of 32 bits
    with pytest.raises(InputError, match="days from the first to the last submission"):
        offers(
            replace(site, jobs=replace(site.jobs, submit_s=late)),
            [Candidate(8 * 3_600.0, 3_600.0, 900.0)],
            OfferTerms(),
        )


def test_a_run_of_a_wrong_time_of_submission_is_not_metered() -> None:
    site = days_of_work(2)
    late = site.jobs.submit_s.copy()
    late[-1] = 4_294_967_294.0
    site = replace(site, jobs=replace(site.jobs, submit_s=late))
    run = site.run()
    with pytest.raises(InputError, match=r"4,772,1\d\d intervals"):
        metered((run,), site, 900)
    with pytest.raises(InputError, match=r"4,772,1\d\d intervals"):
        of_power(run.power, 0.0, 900, "run")


def days_of_work(days: int) -> SimulatedSite:
    """Each day at 10:00, 11:00 and 12:00 a job of one hour on as many nodes as the day allows: 6, 8 or 10 in turn."""
    submit = [86_400.0 * d + HOUR * h for d in range(days) for h in (10, 11, 12)]
    nodes = [(6, 8, 10)[d % 3] for d in range(days) for _ in range(3)]
    jobs = Jobs.build(
        [0.0, *submit, 86_400.0 * days], [1, *nodes, 1], [1.0, *[HOUR] * len(submit), 1.0],
        mean_power_w=[1_100.0] * (len(submit) + 2), user=["ada"] * (len(submit) + 2),
        consent=Consent.build(len(submit) + 2, allowed=np.ones(len(submit) + 2)),
    )  # fmt: skip
    return SimulatedSite(jobs, plain_machine(10, 100.0, 1_100.0), "easy")


def test_an_offer_promises_what_enough_days_would_have_delivered() -> None:
    # From 11 to 12 o'clock: 6, 8 or 10 nodes of 1,000 W above idle run without a target; under a limit of 2 kW none
    # starts. Reductions are 6, 8 and 10 kW in turn, so half of the days reach 8 kW and the lowest value is 6 kW.
    site = days_of_work(10)
    terms = OfferTerms(reliability=0.5, confidence=0.9, lead_s=0.0, warm_up_days=1)
    found = offers(site, [Candidate(11 * HOUR, HOUR, 2_000.0)], terms, MODEL)[0]
    assert found.days == 9
    # k with P(Binomial(9, 1/2) >= k) >= 0.9 is 3: the third lowest of 6 6 6 8 8 8 10 10 10 kW
    assert found.promise_w == pytest.approx(6_000.0)
    assert found.median_w == pytest.approx(8_000.0)
    # The jobs of 11 and 12 o'clock wait an hour longer each: 2 h on 8 nodes on average
    assert found.added_wait_node_s == pytest.approx(16 * HOUR)
    assert found.reward == 800_000  # 16 node-hours at 0.05
    assert found.promise_w is not None
    per_kw = 800_000 / (found.promise_w / 1_000)
    assert found.reward_per_kw == round(per_kw)
    said = " ".join(" ".join(offers_document([found], terms, "USD").lines(UNBROKEN)).split())
    assert f"at least {money(round(per_kw), 'USD')} for each kW promised" in said
    assert "EUR" not in said


def test_too_few_days_give_no_promise_and_a_workload_of_a_day_is_refused() -> None:
    terms = OfferTerms(lead_s=0.0)
    found = offers(days_of_work(6), [Candidate(11 * HOUR, HOUR, 2_000.0)], terms)
    assert found[0].promise_w is None
    assert any("too few" in line for line in offers_document(found, terms, "").lines(UNBROKEN))
    with pytest.raises(InputError) as error:
        offers(days_of_work(1), [Candidate(11 * HOUR, HOUR, 2_000.0)], terms)
    assert error.value.where == "workload"


@pytest.mark.parametrize("length_s", [0.0, 1.0, 899.0, 1_000.0, 2_699.0])
def test_a_delivery_is_whole_intervals(length_s: float) -> None:
    """Of 1 s there is no interval to meter (it ended in a traceback); of 1,000 s the end was left out in silence."""
    with pytest.raises(InputError, match="whole intervals of 900 s"):
        offers(days_of_work(6), [Candidate(11 * HOUR, length_s, 2_000.0)], OfferTerms())


def test_the_best_offer_of_a_begin_and_length_is_the_greatest_with_the_gentler_limit() -> None:
    site = days_of_work(8)
    terms = OfferTerms(reliability=0.5, confidence=0.9, lead_s=0.0)
    hard, gentle, none = (Candidate(11 * HOUR, HOUR, w) for w in (2_000.0, 2_500.0, 11_000.0))
    found = offers(site, [hard, gentle, none], terms)
    assert [offer.candidate for offer in best_offers(found)] == [gentle]
    assert len(offers_csv(found, terms, "EUR").splitlines()) == 2 + 3
    assert list(offers_document(found, terms, "EUR").lines(UNBROKEN))[1].startswith("11:00")


def offered(hours: float, reward: int, days: int = 28) -> Offer:
    """An offer of 5 kW at 8 o'clock whose event costs so many micro-units of rewards."""
    return Offer(Candidate(8 * HOUR, hours * HOUR, 50e3), 5_000.0, 20_000.0, days, 0.0, 0.0, reward)


def first_line(*found: Offer) -> str:
    earned = Earned(Decimal(180), "USD")
    return next(iter(offers_document(found, OfferTerms(), "USD", earned).lines(UNBROKEN)))


def test_whether_an_offer_pays_is_the_first_sentence() -> None:
    """180 USD/MWh are 0.18 USD for each kW in an hour; rewards of 300 USD for 5 kW are 60 USD for each."""
    assert first_line(offered(1, 300 * EUR), offered(2, 400 * EUR)) == (
        "No offer pays: the contract pays at most 0.18 USD to 0.36 USD for each kW promised, and the least loss is "
        "59.82 USD for each; with no event the centre has 0.00 USD."
    )
    gains = first_line(offered(1, 300 * EUR), offered(2, EUR))
    assert gains.startswith("An offer may pay: at most 0.16 USD for each kW promised, before penalties")
    assert "1 of 2 lose" in gains
    assert first_line(offered(1, 0, days=19)).startswith("No verdict from 19 days, 20 are the least;")
    nothing = replace(offered(1, 0), promise_w=0.0)
    assert first_line(nothing).startswith("No offer pays: nothing can be promised;")


def test_no_event_is_a_row_of_the_offers_and_each_has_what_is_left_for_a_kw() -> None:
    found, earned = [offered(1, 300 * EUR)], Earned(Decimal(180), "USD")
    lines = list(offers_document(found, OfferTerms(), "USD", earned).lines(UNBROKEN))
    assert lines[2].split()[-2:] == ["0.00", "USD"]
    assert lines[2].startswith("no event")
    assert lines[3].endswith("−59.82 USD")
    assert offers_csv(found, OfferTerms(), "USD", earned).splitlines()[2].endswith("300,60,0.18,-59.82,USD")
