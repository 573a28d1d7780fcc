"""The statement of an event: what was delivered in each interval, what it pays and what missing delivery costs.

In an interval with a baseline of B watts, a metered mean of M and a commitment of C:

- delivered is ``B - M``; negative where the site drew more than its baseline, and then not paid;
- paid is ``min(delivered, most_share C)``, where that is positive, times the length, at the contract's rate or the
  price in force at the interval's begin;
- missing is ``C (1 - tolerance) - delivered``, where that is positive, at the rate of the penalty.

An interval without data, or without a baseline, counts as nothing delivered: it is not paid, and its commitment is
missing in full. Watts are whole and money is in whole micro-units, so each row of the statement can be computed again
from the row alone, and totals are the sums of the rows.

``csv_files`` writes statements as CSV: one file with a row per interval, one with a row per event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from wattqueue.errors import InputError
from wattqueue.formats.tariff import Tariff
from wattqueue.report.document import csv_text
from wattqueue_grid.meter import MeterData
from wattqueue_grid.money import micro, plain
from wattqueue_grid.settlement.baselines import BASELINES
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.energy_price import J_PER_MWH, payment_rates
from wattqueue_grid.settlement.load_history import BaselineCase, BaselineLoad, CalledEvent, LoadHistory


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One interval of an event. Watts are whole; None where there is no figure."""

    begin_s: int
    length_s: int
    metered_w: int | None
    label: str
    """Origin of the metered figure, one of ``meter.KINDS``; empty for a gap."""
    baseline_w: int | None
    counterfactual_w: int | None
    """What a replay without the event drew, by WattQueue's simulation; never used for money."""
    committed_w: int
    rate: Decimal
    """Paid per MWh."""
    paid_w: int
    missing_w: int
    payment: int
    """In micro-units."""
    penalty: int

    @property
    def delivered_w(self) -> int | None:
        """Return baseline less metered watts, None where one of them is missing."""
        if self.baseline_w is None or self.metered_w is None:
            return None
        return self.baseline_w - self.metered_w


@dataclass(frozen=True, slots=True)
class OtherBaseline:
    """What another rule, or the counterfactual, would say of the same event; for reading, not for money."""

    name: str
    mean_w: float | None
    """Mean baseline in watts over the intervals that have one; None where the rule gives none."""
    delivered_j: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class EventStatement:
    """The statement of one event."""

    event: CalledEvent
    baseline: BaselineLoad
    rows: tuple[IntervalRow, ...]
    beside: tuple[OtherBaseline, ...]
    """Other published rules and our counterfactual."""

    @property
    def delivered_j(self) -> int:
        """Return the energy delivered, intervals above the baseline counted as negative."""
        return sum((row.delivered_w or 0) * row.length_s for row in self.rows)

    @property
    def committed_j(self) -> int:
        """Return the energy that was committed."""
        return sum(row.committed_w * row.length_s for row in self.rows)

    @property
    def missing_j(self) -> int:
        """Return the energy that was missing beyond the tolerance."""
        return sum(row.missing_w * row.length_s for row in self.rows)

    @property
    def payment(self) -> int:
        """Return the payment in micro-units: the sum of the rows."""
        return sum(row.payment for row in self.rows)

    @property
    def penalty(self) -> int:
        """Return the penalty in micro-units: the sum of the rows."""
        return sum(row.penalty for row in self.rows)

    @property
    def gaps(self) -> tuple[int, ...]:
        """Return the begins of intervals without data of the meter."""
        return tuple(row.begin_s for row in self.rows if row.metered_w is None)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the metered figures, each once."""
        return tuple(sorted({row.label for row in self.rows if row.label}))


def settle_event(
    event: CalledEvent,
    events: Sequence[CalledEvent],
    history: LoadHistory,
    contract: Contract,
    *,
    counterfactual: MeterData | None = None,
    prices: Tariff | None = None,
) -> EventStatement:
    """Return the statement of an event.

    Args:
        event: The event that is settled.
        events: All events of the site, this one among them.
        history: The meter's data.
        contract: Baseline and terms.
        counterfactual: Power of a replay without the event, on the meter's intervals; None without one.
        prices: Price series in Unix time where the contract pays by a series.

    Raises:
        InputError: An event outside the meter's data, a history that is too short for the baseline, a contract that
            needs prices, or a negative price where the contract refuses them.
    """
    meter = history.meter
    if event.begin_s < meter.begin_s or event.end_s > meter.end_s:
        raise InputError(
            f"lies outside the meter's data, which last from {contract.calendar.text(meter.begin_s)} to "
            f"{contract.calendar.text(meter.end_s)}",
            where=f"event {event.event_id}", hint="give data that cover it, or choose events with --event",
        )  # fmt: skip
    others = tuple(other for other in events if other != event)
    case = BaselineCase(history, event, others)
    found = BASELINES[contract.baseline](case)
    rates = payment_rates(event, meter.interval_s, contract, prices)
    seen = _counterfactual(event, meter.interval_s, counterfactual)
    metered = meter.power_w[meter.rows(event.begin_s, event.end_s)]
    labels = meter.label.values()[meter.rows(event.begin_s, event.end_s)]
    rows = tuple(
        interval_row(
            event, contract, (event.begin_s + i * meter.interval_s, meter.interval_s), rates[i], labels[i], figures
        )
        for i, figures in enumerate(zip(metered, found.power_w, seen, strict=True))
    )
    beside = (*_other_rules(case, contract.baseline, metered), *_of_replay(counterfactual, seen, metered, case))
    return EventStatement(event, found, rows, beside)


def interval_row(
    event: CalledEvent,
    contract: Contract,
    span: tuple[int, int],
    rate: Decimal,
    label: str,
    figures: tuple[float, float, float],
) -> IntervalRow:
    """Return one interval from (begin, length), rate, label, and (metered, baseline, counterfactual) watts."""
    metered, baseline, counterfactual = (_whole(w) for w in figures)
    committed, length = event.committed_w, span[1]
    delivered = 0 if metered is None or baseline is None else baseline - metered
    paid = max(min(delivered, int(committed * contract.most_share)), 0)
    missing = max(int(committed * (1 - contract.tolerance)) - max(delivered, 0), 0)
    pays = not event.test or contract.tests_paid
    fines = not event.test or contract.tests_penalised
    return IntervalRow(
        span[0], length, metered, label, baseline, counterfactual, committed, rate, paid, missing,
        micro(rate, paid * length, J_PER_MWH) if pays else 0,
        micro(contract.penalty_per_mwh, missing * length, J_PER_MWH) if fines else 0,
    )  # fmt: skip


def _whole(watts: float) -> int | None:
    """Return whole watts, None for a gap."""
    return None if np.isnan(watts) else round(float(watts))


def _counterfactual(event: CalledEvent, step: int, replay: MeterData | None) -> list[float]:
    """Return the watts of the replay by interval, NaN where it has none. Raises: InputError for other intervals."""
    count = (event.end_s - event.begin_s) // step
    if replay is None:
        return [float("nan")] * count
    if replay.interval_s != step:
        raise InputError(f"intervals of {replay.interval_s} s, the meter's are {step} s", where=replay.source)
    place = [(event.begin_s - replay.begin_s) // step + i for i in range(count)]
    return [float(replay.power_w[i]) if 0 <= i < len(replay) else float("nan") for i in place]


def _other_rules(case: BaselineCase, chosen: str, metered: np.ndarray) -> list[OtherBaseline]:
    """Return what the rules that the contract does not name would say."""
    found = []
    for name, rule in BASELINES.items():
        if name == chosen:
            continue
        try:
            found.append(_compared(name, rule(case).power_w, metered, case))
        except InputError as error:
            found.append(OtherBaseline(name, None, None, error.what))
    return found


def _of_replay(
    replay: MeterData | None, seen: list[float], metered: np.ndarray, case: BaselineCase
) -> list[OtherBaseline]:
    """Return what the counterfactual replay says, where there is one."""
    if replay is None:
        return []
    found = _compared("counterfactual replay", np.array(seen), metered, case)
    return [OtherBaseline(found.name, found.mean_w, found.delivered_j, f"simulated by WattQueue: {replay.source}")]


def _compared(name: str, watts: np.ndarray, metered: np.ndarray, case: BaselineCase) -> OtherBaseline:
    """Return mean and delivered energy of some baseline watts, over the intervals that have both figures."""
    there = np.isfinite(watts) & np.isfinite(metered)
    if not there.any():
        return OtherBaseline(name, None, None, "no interval with both figures")
    delivered = int((watts - metered)[there].sum()) * case.history.meter.interval_s
    return OtherBaseline(name, float(watts[there].mean()), delivered)


INTERVALS = "intervals.csv"
EVENTS = "events.csv"
_INTERVAL_HEADS = (
    *("event", "test", "begin", "length_s", "metered_kw", "label", "baseline_kw", "counterfactual_kw"),
    *("delivered_kw", "committed_kw", "paid_kw", "missing_kw", "rate_per_mwh", "payment", "penalty"),
)
EVENT_HEADS = (
    *("event", "test", "begin", "end", "baseline", "days", "adjustment", "delivered_kwh", "committed_kwh"),
    *("missing_kwh", "intervals", "gaps", "payment", "penalty", "net", "currency", "notes"),
)


def csv_files(statements: Sequence[EventStatement], contract: Contract, facts: Mapping[str, str]) -> dict[str, str]:
    """Return the files by name. ``facts`` are the sources and their hashes, written into a comment line."""
    lead = " ".join(f"{key}={value}" for key, value in facts.items())
    return {
        INTERVALS: csv_text(
            _INTERVAL_HEADS, _intervals(statements, contract), f"wattqueue settlement-intervals {lead}"
        ),
        EVENTS: csv_text(EVENT_HEADS, event_rows(statements, contract), f"wattqueue settlement-events {lead}"),
    }


def kilowatts(watts: int | None) -> str:
    """Return whole watts as kW with three decimals; empty for none."""
    return "" if watts is None else f"{'-' if watts < 0 else ''}{abs(watts) // 1_000}.{abs(watts) % 1_000:03d}"


def kilowatt_hours(joules: int) -> str:
    """Return joules as kWh with three decimals, rounded halves to even; the sign stays."""
    size = round(abs(joules) / 3_600)
    return f"{'-' if joules < 0 and size else ''}{size // 1_000}.{size % 1_000:03d}"


def yes_no(value: bool) -> str:
    """Return ``yes`` or ``no``."""
    return "yes" if value else "no"


def _intervals(statements: Sequence[EventStatement], contract: Contract) -> Iterable[tuple[str, ...]]:
    for each in statements:
        for row in each.rows:
            yield (
                each.event.event_id, yes_no(each.event.test), contract.calendar.text(row.begin_s), str(row.length_s),
                kilowatts(row.metered_w), row.label, kilowatts(row.baseline_w), kilowatts(row.counterfactual_w),
                kilowatts(row.delivered_w), kilowatts(row.committed_w), kilowatts(row.paid_w),
                kilowatts(row.missing_w), f"{row.rate:f}", plain(row.payment), plain(row.penalty),
            )  # fmt: skip


def event_rows(statements: Sequence[EventStatement], contract: Contract) -> Iterable[tuple[str, ...]]:
    """Yield the row of each event, in the columns of ``EVENT_HEADS``."""
    text = contract.calendar.text
    for each in statements:
        factor = each.baseline.factor
        yield (
            each.event.event_id, yes_no(each.event.test), text(each.event.begin_s), text(each.event.end_s),
            each.baseline.name, " ".join(day.isoformat() for day in each.baseline.days),
            "" if factor is None else f"{factor:.6f}", kilowatt_hours(each.delivered_j),
            kilowatt_hours(each.committed_j), kilowatt_hours(each.missing_j), str(len(each.rows)), str(len(each.gaps)),
            plain(each.payment), plain(each.penalty), plain(each.payment - each.penalty), contract.currency,
            "; ".join(each.baseline.notes),
        )  # fmt: skip
