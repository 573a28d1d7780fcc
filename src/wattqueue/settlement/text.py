"""The statement of events as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from wattqueue.model.money import words as money
from wattqueue.report.text_table import table
from wattqueue.settlement.contract import Contract
from wattqueue.settlement.files import kilowatt_hours
from wattqueue.settlement.page import NOT_FOR_MONEY
from wattqueue.settlement.statement import EventStatement


def lines(statements: Sequence[EventStatement], contract: Contract) -> list[str]:
    """Return a table of the events, the notes of their baselines, and what other rules would say."""
    heads = ("event", "from", "delivered kWh", "committed kWh", "missing kWh", "gaps", "payment", "penalty", "net")
    rows = [
        (
            each.event.event_id + (" (test)" if each.event.test else ""), contract.calendar.text(each.event.begin_s),
            kilowatt_hours(each.delivered_j), kilowatt_hours(each.committed_j), kilowatt_hours(each.missing_j),
            str(len(each.gaps)), money(each.payment, contract.currency), money(each.penalty, contract.currency),
            money(each.payment - each.penalty, contract.currency),
        )
        for each in statements
    ]  # fmt: skip
    found = [f"{contract.name}: baseline {contract.baseline}", *table(heads, rows)]
    for each in statements:
        name = each.event.event_id
        found.append(f"{name}: metered power is {' and '.join(each.labels) or 'missing'}.")
        found += [f"{name}: {note}." for note in each.baseline.notes]
        said = [
            f"{o.name} {kilowatt_hours(o.delivered_j)} kWh"
            if o.delivered_j is not None
            else f"{o.name} none ({o.note})"
            for o in each.beside
        ]
        found.append(f"{name}, delivered by others: {'; '.join(said)} ({NOT_FOR_MONEY}).")
    return found
