"""Reward models by hand: linear, capped, tiered, limited by the fee; and what is refused with its key."""

from decimal import Decimal
from pathlib import Path

import pytest

from wattqueue.errors import InputError
from wattqueue_grid.incentives.rewards import JobQuantities, RewardModel, RewardTerm, read_reward_model

ZERO = Decimal(0)


def linear(index: str, rate: str) -> RewardTerm:
    return RewardTerm(index, "linear", ((ZERO, Decimal(rate)),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "quantity", "micro"),
    [
        ("added_wait", 7_200, 200_000),  # 2 node-hours at 0.10
        ("added_run", 1_800, 50_000),  # half a node-hour
        ("power_freed", 2_500, 250_000),  # 2.5 kW
        ("energy_freed", 3_600_000, 100_000),  # 1 kWh
        ("energy_freed", 0, 0),
    ],
)
def test_a_rate_is_per_node_hour_kilowatt_or_kilowatt_hour(index: str, quantity: int, micro: int) -> None:
    assert linear(index, "0.10").reward(quantity) == micro


def test_a_capped_term_gives_at_most_its_cap() -> None:
    term = RewardTerm("added_run", "capped", ((ZERO, Decimal("0.40")),), Decimal("1.00"))
    assert [term.reward(3_600 * h) for h in (1, 2, 3, 100)] == [400_000, 800_000, 1_000_000, 1_000_000]


def test_a_tiered_term_gives_each_rate_for_its_part() -> None:
    # 10 kWh at 0.10, the 5 kWh above at 0.05: 1.25
    term = RewardTerm("energy_freed", "tiered", ((ZERO, Decimal("0.10")), (Decimal(10), Decimal("0.05"))))
    assert term.reward(15 * 3_600_000) == 1_250_000
    assert term.reward(10 * 3_600_000) == 1_000_000
    assert term.reward(5 * 3_600_000) == 500_000


def test_terms_add_up_to_at_most_a_share_of_the_fee() -> None:
    model = RewardModel(
        "m", "EUR", Decimal("0.50"), Decimal("0.8"), (linear("added_wait", "0.10"), linear("added_run", "1.00"))
    )
    # fee of 4 node-hours: 2.00; rewards 0.10 + 0.50 = 0.60
    job = JobQuantities(added_wait=3_600, added_run=1_800, usage=4 * 3_600)
    assert (model.fee(job), model.reward(job)) == (2_000_000, 600_000)
    # 0.10 + 5.00 would be more than 0.8 x 2.00
    assert model.reward(JobQuantities(added_wait=3_600, added_run=18_000, usage=4 * 3_600)) == 1_600_000


def test_a_model_scales_its_rates_and_not_its_limits() -> None:
    term = RewardTerm("added_run", "capped", ((ZERO, Decimal("0.40")),), Decimal("1.00"))
    model = RewardModel("m", "EUR", Decimal(100), Decimal(1), (term,)).scaled(Decimal(2))
    assert model.terms[0].reward(3_600) == 800_000
    assert model.terms[0].reward(7_200) == 1_000_000


TEXT = """
name = "Discount"
currency = "EUR"
fee_per_node_h = 0.50
most_of_fee = 0.8

[[rewards]]
index = "added_wait"
kind = "linear"
rate = 0.02

[[rewards]]
index = "energy_freed"
kind = "tiered"
tiers = [[0, 0.10], [50, 0.05]]
"""


def test_a_model_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    path.write_text(TEXT, encoding="utf-8")
    model = read_reward_model(path)
    assert (model.fee_per_node_h, model.most_of_fee) == (Decimal("0.5"), Decimal("0.8"))
    assert model.terms[1].tiers == ((Decimal(0), Decimal("0.1")), (Decimal(50), Decimal("0.05")))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("rate = 0.02", "rate = -0.02", "rewards[1].rate"),
        ("rate = 0.02", "", "rewards[1]"),
        ("rate = 0.02", "rate = 0.02\ncap = 1.0", "rewards[1]"),
        ('"added_wait"', '"added_waiting"', "rewards[1].index"),
        ('"linear"', '"quadratic"', "rewards[1].kind"),
        ("[[0, 0.10], [50, 0.05]]", "[[5, 0.10]]", "rewards[2]"),
        ("[[0, 0.10], [50, 0.05]]", "[[0, 0.10], [0, 0.05]]", "rewards[2]"),
        ("[[0, 0.10], [50, 0.05]]", "[[0, 0.10, 1]]", "rewards[2]"),
        ("most_of_fee = 0.8", "most_of_fee = 1.5", "most_of_fee"),
        ("fee_per_node_h", "fee_per_node_hour", "fee_per_node_h"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_with_its_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    path = tmp_path / "model.toml"
    path.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_reward_model(path)
    assert str(path) in str(error.value.where)
    assert key in str(error.value)
