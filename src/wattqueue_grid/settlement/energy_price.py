"""Rates by interval, from a contract or a price series; and what a site pays for its energy and its peak."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.tariff import Tariff, require_cover
from wattqueue_grid.meter import MeterData
from wattqueue_grid.money import decimal_of, micro
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.load_history import CalledEvent

J_PER_MWH = 3_600_000_000


def payment_rates(event: CalledEvent, step: int, contract: Contract, prices: Tariff | None) -> list[Decimal]:
    """Return what a MWh pays in each interval: the contract's rate, or the price in force at the interval's begin.

    Raises: InputError where prices are missing, do not cover the event, change within an interval, are in another unit,
    or fall below 0 and the contract refuses that.
    """
    count = (event.end_s - event.begin_s) // step
    if contract.payment_per_mwh is not None:
        return [contract.payment_per_mwh] * count
    where = f"event {event.event_id}"
    found = []
    for k, price in enumerate(prices_at(event.begin_s, count, step, contract, prices, where)):
        if price < 0 and contract.negative_price == "refuse":
            raise InputError(
                f"the price at {contract.calendar.text(event.begin_s + k * step)} is {price}, below 0",
                where=where,
                hint='say in the contract what holds: payment.negative_price = "zero" or "pass"',
            )
        found.append(max(price, Decimal(0)) if contract.negative_price == "zero" else price)
    return found


def prices_at(
    begin_s: int, count: int, step: int, contract: Contract, prices: Tariff | None, where: str
) -> list[Decimal]:
    """Return the price of each of ``count`` intervals, the one in force at its begin.

    Raises: InputError as ``payment_rates``.
    """
    if prices is None:
        raise InputError("the contract pays by a price series", where=where, hint="give --prices FILE")
    if prices.source.per_j != J_PER_MWH or prices.source.amount != contract.currency:
        raise InputError(
            f"prices are in {prices.source.unit}, the contract is in {contract.currency}/MWh",
            where=prices.source.path,
            hint=f"give prices in {contract.currency}/MWh, and say so with --price-unit",
        )
    end_s = begin_s + count * step
    require_cover(prices, begin_s, end_s, (contract.calendar.text(begin_s), contract.calendar.text(end_s)))
    inside = prices.series.time_s[(prices.series.time_s > begin_s) & (prices.series.time_s < end_s)]
    if (inside % step).any():
        raise InputError(
            f"prices change within intervals of {step} s",
            where=prices.source.path,
            hint="settle with shorter intervals",
        )
    begins = begin_s + step * np.arange(count, dtype=np.float64)
    return [decimal_of(float(price), str(prices.source.path)) for price in prices.series.at(begins)]


def energy_bill(meter: MeterData, contract: Contract, prices: Tariff | None) -> int:
    """Return what a site pays for some intervals in micro-units: energy, and the charge for the highest interval.

    Each interval's cost is rounded once, and rounded costs are summed. Intervals without data cost nothing. Negative
    prices count as they are: consumption then earns.

    Raises: InputError as ``payment_rates`` where the site pays the prices of a series.
    """
    watts = [0 if np.isnan(w) else round(float(w)) for w in meter.power_w]
    step = meter.interval_s
    if contract.energy_per_mwh is not None:
        rates = [contract.energy_per_mwh] * len(watts)
    else:
        rates = prices_at(meter.begin_s, len(watts), step, contract, prices, "tariff")
    energy = sum(micro(rate, w * step, J_PER_MWH) for rate, w in zip(rates, watts, strict=True))
    return energy + micro(contract.peak_per_kw, max(watts, default=0), 1_000)
