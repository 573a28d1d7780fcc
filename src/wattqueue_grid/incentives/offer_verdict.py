"""Whether an offer pays: what a contract pays for each kW promised, against the rewards that it costs.

What is earned is the most that it can be: delivered on every day, without a penalty. What users lose is not in it
either (``incentives design`` weighs both), so a loss is certain and a gain is not. No event is 0, and the row that
every offer is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from wattqueue.errors import InputError
from wattqueue.report.compare.stats import FEWEST_DRAWS
from wattqueue_grid.incentives.offer import Offer
from wattqueue_grid.incentives.rewards import RewardModel
from wattqueue_grid.money import micro
from wattqueue_grid.money import words as money
from wattqueue_grid.settlement.contract import read_contract
from wattqueue_grid.settlement.energy_price import J_PER_MWH


@dataclass(frozen=True, slots=True)
class Earned:
    """What a contract pays.

    Attributes:
        per_mwh: The most for each MWh promised, delivery above the promise included.
        currency: Of the contract and of the rewards.
    """

    per_mwh: Decimal
    currency: str

    @classmethod
    def read(cls, path: Path, model: RewardModel | None) -> Earned:
        """Read a contract. Raises: InputError for one that pays by a series, or in another currency than the model."""
        contract = read_contract(path)
        if model is None:
            raise InputError(
                "a contract without rewards gives no verdict", where="--contract", hint="give --model, too"
            )
        if contract.payment_per_mwh is None:
            hint = "an offer has no date: state per_mwh under [payment], as the prices that you expect"
            raise InputError("pays by a series of prices", where=path, hint=hint)
        if contract.currency != model.currency:
            raise InputError(f"is in {contract.currency}, and the rewards in {model.currency}", where=path)
        return cls(contract.payment_per_mwh * max(contract.most_share, Decimal(1)), contract.currency)

    def per_kw(self, offer: Offer) -> int:
        """Return the most that an offer earns for each kW, in micro-units."""
        return micro(self.per_mwh, round(1_000 * offer.candidate.length_s), J_PER_MWH)

    def net_per_kw(self, offer: Offer) -> int | None:
        """Return what is left of it after the rewards; None without a promise."""
        return None if offer.reward_per_kw is None else self.per_kw(offer) - offer.reward_per_kw


def sentence(best: Sequence[Offer], earned: Earned) -> str:
    """Return the verdict on the best offers of each begin and length, with its full stop."""
    promised = [offer for offer in best if offer.reward_per_kw is not None]
    nothing = f"with no event the centre has {money(0, earned.currency)}"
    if not promised:
        return f"No offer pays: nothing can be promised; {nothing}."
    least, most = min(map(earned.per_kw, promised)), max(map(earned.per_kw, promised))
    paid = money(least, earned.currency) + ("" if least == most else f" to {money(most, earned.currency)}")
    nets = [net for offer in promised if (net := earned.net_per_kw(offer)) is not None]
    net, days = max(nets), min(offer.days for offer in promised)
    if days < FEWEST_DRAWS:
        return f"No verdict from {days} days, {FEWEST_DRAWS} are the least; {nothing}."
    if net < 0:
        said = f"No offer pays: the contract pays at most {paid} for each kW promised, and the least loss is"
        return f"{said} {money(-net, earned.currency)} for each; {nothing}."
    losing = sum(one < 0 for one in nets)
    said = (
        f"An offer may pay: at most {money(net, earned.currency)} for each kW promised, before penalties and what users"
    )
    lost = f"; {losing} of {len(promised)} lose" if losing else ""
    return f"{said} lose{lost}; {nothing}."
