"""A demand-response contract from a TOML file: calendar, baseline, commitment, payment, penalty, tests.

::

    name = "Interruptible load 2023"
    currency = "EUR"
    time_zone = "Europe/Berlin"
    holidays = [2023-04-07, 2023-04-10]
    baseline = "caiso-10-in-10"
    committed_kw = 150

    [payment]
    per_mwh = 180.00            # or: series = true, the price series of --prices
    most_share = 1.2            # delivery above 120 % of the commitment is not paid

    [penalty]
    per_mwh = 300.00
    tolerance = 0.10            # a tenth of the commitment may be missing

    [tests]
    paid = true
    penalised = false

    [tariff]                    # what the site itself pays; for the design of incentives
    per_mwh = 95.00             # or: series = true
    peak_per_kw = 8.50          # of the highest interval

    [events.event-7]            # by correlation id, where an event differs
    committed_kw = 90
    test = true

Amounts are decimals as they are written in the file. A rate below 0 is refused: who pays is said by the table it stands
in. Prices of a series may be negative, as they are on a real market; ``negative_price`` says what is then paid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from wattqueue.errors import InputError
from wattqueue.formats.bounded import Kilowatts, Money, Share
from wattqueue.formats.checked_toml import StrictTable, read_model
from wattqueue.formats.source import sha256_of
from wattqueue_grid.money import decimal_of
from wattqueue_grid.settlement.baselines import rule_of
from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of

NegativePrice = Literal["refuse", "zero", "pass"]


class _Payment(StrictTable):
    per_mwh: Money | None = None
    series: bool = False
    negative_price: NegativePrice = "refuse"
    most_share: Annotated[float, Field(ge=0, le=100)] = 1.0


class _Penalty(StrictTable):
    per_mwh: Money = 0.0
    tolerance: Share = 0.0


class _Tests(StrictTable):
    paid: bool = True
    penalised: bool = False


class _Tariff(StrictTable):
    per_mwh: Money | None = None
    series: bool = False
    peak_per_kw: Money = 0.0


class _Event(StrictTable):
    committed_kw: Kilowatts | None = None
    test: bool = False


class _File(StrictTable):
    name: Annotated[str, Field(min_length=1)]
    currency: Annotated[str, Field(min_length=1, max_length=12)]
    time_zone: str
    baseline: str
    committed_kw: Kilowatts
    holidays: list[date] = Field(default_factory=list)
    payment: _Payment = _Payment()
    penalty: _Penalty = _Penalty()
    tests: _Tests = _Tests()
    tariff: _Tariff = _Tariff()
    events: dict[str, _Event] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventTerms:
    """What a contract says of one event."""

    committed_w: int
    test: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """A demand-response contract. Rates in ``currency`` per MWh."""

    name: str
    currency: str
    calendar: SiteCalendar
    baseline: str
    committed_w: int
    payment_per_mwh: Decimal | None = None
    """None where delivery is paid at the price of a series."""
    negative_price: NegativePrice = "refuse"
    most_share: Decimal = Decimal(1)
    """Delivery is paid up to this share of the commitment."""
    penalty_per_mwh: Decimal = Decimal(0)
    tolerance: Decimal = Decimal(0)
    """Share of the commitment that may be missing without a penalty."""
    tests_paid: bool = True
    tests_penalised: bool = False
    events: dict[str, EventTerms] = field(default_factory=dict)
    """Terms of single events by their correlation id."""
    sha256: str = ""
    energy_per_mwh: Decimal | None = Decimal(0)
    """What the site pays for energy; None where it pays the prices of a series."""
    peak_per_kw: Decimal = Decimal(0)
    """What it pays for its highest interval."""

    def terms(self, event_id: str) -> EventTerms:
        """Return what holds for an event."""
        return self.events.get(event_id, EventTerms(self.committed_w))


def read_contract(path: Path) -> Contract:
    """Return the contract of a TOML file.

    Raises: InputError naming file and key for a key that is unknown or missing, a negative rate, an unknown baseline or
    time zone, and a payment that states both or neither of its two forms.
    """
    file = read_model(path, _File)
    rule_of(file.baseline, f"{path}: baseline")
    if (file.payment.per_mwh is None) != file.payment.series:
        raise InputError(
            "payment has no rate" if file.payment.per_mwh is None else "payment has a rate and series = true",
            where=f"{path}: payment",
            hint="write either per_mwh = 180.00 or series = true",
        )
    if file.tariff.series and file.tariff.per_mwh is not None:
        raise InputError("tariff has a rate and series = true", where=f"{path}: tariff", hint="keep one of them")
    committed = _watts(file.committed_kw)
    terms = {
        name: EventTerms(committed if e.committed_kw is None else _watts(e.committed_kw), e.test)
        for name, e in file.events.items()
    }
    paid = file.payment.per_mwh
    return Contract(
        file.name,
        file.currency,
        SiteCalendar(zone_of(file.time_zone, f"{path}: time_zone"), frozenset(file.holidays)),
        file.baseline,
        committed,
        None if paid is None else decimal_of(paid, f"{path}: payment.per_mwh"),
        file.payment.negative_price,
        decimal_of(file.payment.most_share, f"{path}: payment.most_share"),
        decimal_of(file.penalty.per_mwh, f"{path}: penalty.per_mwh"),
        decimal_of(file.penalty.tolerance, f"{path}: penalty.tolerance"),
        file.tests.paid,
        file.tests.penalised,
        terms,
        sha256_of(path),
        None if file.tariff.series else decimal_of(file.tariff.per_mwh or 0.0, f"{path}: tariff.per_mwh"),
        decimal_of(file.tariff.peak_per_kw, f"{path}: tariff.peak_per_kw"),
    )


def _watts(kilowatts: float) -> int:
    """Return whole watts of kilowatts as written."""
    return round(decimal_of(kilowatts, "committed_kw") * 1_000)
