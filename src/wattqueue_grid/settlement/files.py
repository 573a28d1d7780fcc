"""The statement of events as CSV: one file with a row per interval, one with a row per event.

Amounts are exact, in units of the currency; watts are kW with three decimals. Nothing in the files depends on the time
or the machine on which they were made: the same inputs give identical files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wattqueue.report.document import csv_text
from wattqueue_grid.money import plain
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.statement import EventStatement

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
