"""Reward models: what a job's added wait, added run time, freed power and freed energy are worth, from a TOML file.

::

    name = "Discount for consent"
    currency = "EUR"
    fee_per_node_h = 0.50       # the usage fee, which rewards reduce
    most_of_fee = 0.80          # a reward is at most this share of the job's fee

    [[rewards]]
    index = "added_wait"        # per node-hour
    kind = "linear"
    rate = 0.02

    [[rewards]]
    index = "added_run"         # per node-hour
    kind = "capped"
    rate = 0.40
    cap = 25.00                 # of one job

    [[rewards]]
    index = "energy_freed"      # per kWh
    kind = "tiered"
    tiers = [[0, 0.10], [50, 0.05]]     # 0.10 up to 50 kWh, 0.05 for what is above

Paper 5 names three indexes for an incentive system: the increase in a job's waiting time and in its execution time,
and the decrease in power (section 2.2, abstract). Energy is WattQueue's addition. The paper gives no formula; linear,
capped and tiered are the usual forms of a tariff. The reward is a reduced usage fee (section 2.2), so it never exceeds
the fee.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Money, Share
from wattqueue.formats.checked_toml import StrictTable, read_model
from wattqueue.formats.source import sha256_of
from wattqueue_grid.money import decimal_of, micro

Index = Literal["added_wait", "added_run", "power_freed", "energy_freed"]
Kind = Literal["linear", "capped", "tiered"]
INDEXES: dict[str, tuple[str, int]] = {
    "added_wait": ("node-hour", 3_600),
    "added_run": ("node-hour", 3_600),
    "power_freed": ("kW", 1_000),
    "energy_freed": ("kWh", 3_600_000),
}
"""What a rate is for, and how many of the whole base units (node-seconds, watts, joules) make one."""


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """One term of a reward model. Rates per unit of ``INDEXES``."""

    index: Index
    kind: Kind
    tiers: tuple[tuple[Decimal, Decimal], ...]
    """(from so many units on, rate), rising; a linear or capped term has one."""
    cap: Decimal | None = None
    """Most that the term gives for one job."""

    def reward(self, quantity: int) -> int:
        """Return the micro-units for a quantity in base units; 0 for none."""
        per = INDEXES[self.index][1]
        total = Decimal(0)
        for k, (begin, rate) in enumerate(self.tiers):
            end = self.tiers[k + 1][0] * per if k + 1 < len(self.tiers) else Decimal(quantity)
            total += rate * max(min(Decimal(quantity), end) - begin * per, Decimal(0))
        # Exact up to this one rounding: Decimal products of such sizes stay within its 28 digits.
        found = micro(total, 1, per)
        return found if self.cap is None else min(found, micro(self.cap))


@dataclass(frozen=True, slots=True)
class JobQuantities:
    """The indexes of one job in whole base units, and the node-seconds that its fee is for."""

    added_wait: int = 0
    """Node-seconds."""
    added_run: int = 0
    """Node-seconds."""
    power_freed: int = 0
    """Watts, mean over the event."""
    energy_freed: int = 0
    """Joules within the event."""
    usage: int = 0
    """Node-seconds that the job would have run without the event: what its fee is for."""


@dataclass(frozen=True, slots=True)
class RewardModel:
    """A reward model."""

    name: str
    currency: str
    fee_per_node_h: Decimal
    most_of_fee: Decimal
    terms: tuple[RewardTerm, ...]
    sha256: str = ""

    def fee(self, job: JobQuantities) -> int:
        """Return a job's usage fee in micro-units, before any reward."""
        return micro(self.fee_per_node_h, job.usage, 3_600)

    def reward(self, job: JobQuantities) -> int:
        """Return a job's reward in micro-units: the sum of the terms, at most ``most_of_fee`` of the fee."""
        total = sum(term.reward(getattr(job, term.index)) for term in self.terms)
        return min(total, micro(self.fee_per_node_h * self.most_of_fee, job.usage, 3_600))

    def first_hour(self, nodes: int) -> int:
        """Return the micro-units that are sure for the first hour added to the turnaround of a job of so many nodes.

        The lower of what the model gives for an hour of wait and for one of run time; freed power and energy, and the
        limit by the fee, are left out.
        """
        hour = nodes * 3_600
        return min(
            sum(term.reward(hour) for term in self.terms if term.index == index)
            for index in ("added_wait", "added_run")
        )

    def scaled(self, factor: Decimal) -> RewardModel:
        """Return the model with every rate multiplied, caps and the limit by the fee as they are."""
        terms = tuple(
            RewardTerm(t.index, t.kind, tuple((begin, rate * factor) for begin, rate in t.tiers), t.cap)
            for t in self.terms
        )
        return RewardModel(self.name, self.currency, self.fee_per_node_h, self.most_of_fee, terms, self.sha256)


class _Term(StrictTable):
    index: Index
    kind: Kind
    rate: Money | None = None
    cap: Money | None = None
    tiers: list[list[Money]] | None = None


class _File(StrictTable):
    name: Annotated[str, Field(min_length=1)]
    currency: Annotated[str, Field(min_length=1, max_length=12)]
    fee_per_node_h: Money
    most_of_fee: Share = 1.0
    rewards: Annotated[list[_Term], Field(min_length=1)]


def read_reward_model(path: Path) -> RewardModel:
    """Return the reward model of a TOML file.

    Raises: InputError naming file and key for an unknown or missing key, a negative rate, a term whose keys do not
    belong to its kind, and tiers that do not begin at 0 and rise.
    """
    file = read_model(path, _File)
    terms = tuple(_term(row, f"{path}: rewards[{k + 1}]") for k, row in enumerate(file.rewards))
    return RewardModel(
        file.name,
        file.currency,
        decimal_of(file.fee_per_node_h, f"{path}: fee_per_node_h"),
        decimal_of(file.most_of_fee, f"{path}: most_of_fee"),
        terms,
        sha256_of(path),
    )


def _term(row: _Term, where: str) -> RewardTerm:
    """Return one term. Raises: InputError for keys that do not belong to its kind, and tiers that do not rise."""
    needed = {"linear": {"rate"}, "capped": {"rate", "cap"}, "tiered": {"tiers"}}[row.kind]
    given = {name for name in ("rate", "cap", "tiers") if getattr(row, name) is not None}
    if given != needed:
        raise InputError(
            f"a {row.kind} reward has {', '.join(sorted(given)) or 'no figures'}", where=where,
            hint=f"it needs {' and '.join(sorted(needed))}",
        )  # fmt: skip
    pairs: list[list[float]] = row.tiers if row.tiers is not None else [[0.0, row.rate or 0.0]]
    if any(len(pair) != 2 for pair in pairs) or not pairs:
        raise InputError(
            "a tier is a pair of a quantity and a rate", where=where, hint="tiers = [[0, 0.10], [50, 0.05]]"
        )
    begins = [pair[0] for pair in pairs]
    if begins[0] != 0 or any(b <= a for a, b in pairwise(begins)):
        raise InputError(f"tiers begin at {begins}", where=where, hint="begin at 0, and let each begin later")
    tiers = tuple((decimal_of(begin, where), decimal_of(rate, where)) for begin, rate in pairs)
    return RewardTerm(row.index, row.kind, tiers, None if row.cap is None else decimal_of(row.cap, where))
