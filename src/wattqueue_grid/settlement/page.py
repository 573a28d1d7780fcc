"""The statement of events as text and page: totals, curves, intervals, sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np

from wattqueue.report import words
from wattqueue.report.document import Document, Figures, Prose, Table
from wattqueue.report.figure import Axis, Drawn, Figure, power_axis
from wattqueue_grid.meter import KINDS
from wattqueue_grid.money import words as money
from wattqueue_grid.settlement.contract import Contract
from wattqueue_grid.settlement.statement import EventStatement, kilowatt_hours, kilowatts

NOT_FOR_MONEY = "for comparison only; the contract's baseline alone decides payment and penalty"


def document(statements: Sequence[EventStatement], contract: Contract, facts: Mapping[str, str]) -> Document:
    """Return the statement of some events. ``facts`` are the sources and their hashes."""
    whole = totals(statements, contract)
    return Document(
        title=f"Settlement: {contract.name}",
        eyebrow="  ·  ".join([words.count(len(statements), "event"), contract.baseline, contract.currency]),
        lede=lede(statements, contract),
        blocks=[
            Figures([_drawn(each, k) for k, each in enumerate(statements)]),
            whole,
            *(_intervals(each, contract) for each in statements),
            *(_others(each, k) for k, each in enumerate(statements)),
            rules(contract),
            sources(facts),
        ],
        text=[
            f"{contract.name}: baseline {contract.baseline}",
            whole,
            beside_no_event(contract),
            *(s for e in statements for s in _said(e)),
        ],
        links=(("totals", "Totals"), ("rules", "Rules"), ("sources", "Sources")),
        folds=True,
    )


def beside_no_event(contract: Contract) -> str:
    """Return what the net is compared with, and what is not in it."""
    return f"No event: {money(0, contract.currency)}. Rewards to users are not in the net (incentives settle)."


def _said(each: EventStatement) -> list[str]:
    """Return what the text says of an event: its power, its baseline, and what other rules would give."""
    name = each.event.event_id
    others = "; ".join(
        f"{o.name} none ({o.note})" if o.delivered_j is None else f"{o.name} {kilowatt_hours(o.delivered_j)} kWh"
        for o in each.beside
    )
    return [
        f"{name}: metered power is {' and '.join(each.labels) or 'missing'}.",
        *(f"{name}: {note}." for note in each.baseline.notes),
        f"{name}, delivered by other baselines: {others} ({NOT_FOR_MONEY}).",
    ]


def lede(statements: Sequence[EventStatement], contract: Contract) -> str:
    """Return what was delivered and what it is worth, in one sentence."""
    delivered, committed = sum(s.delivered_j for s in statements), sum(s.committed_j for s in statements)
    payment, penalty = sum(s.payment for s in statements), sum(s.penalty for s in statements)
    gaps = sum(len(s.gaps) for s in statements)
    missing = (
        f" {words.count(gaps, 'interval has', 'intervals have')} no data and count as not delivered." if gaps else ""
    )
    return (
        f"**{kilowatt_hours(delivered)} kWh** were delivered below the baseline of "
        f"{kilowatt_hours(committed)} kWh committed. Payment {money(payment, contract.currency)}, penalty "
        f"{money(penalty, contract.currency)}: **{money(payment - penalty, contract.currency)}**.{missing}"
    )


def totals(statements: Sequence[EventStatement], contract: Contract) -> Table:
    """Return the table of all events."""
    heads = (
        *("Event", "From", "To", "Days averaged", "Adjustment", "Delivered kWh", "Committed kWh", "Missing kWh"),
        *("Gaps", "Payment", "Penalty", "Net"),
    )
    short = (
        "event",
        "from",
        "",
        "",
        "",
        "delivered kWh",
        "committed kWh",
        "missing kWh",
        "gaps",
        "payment",
        "penalty",
        "net",
    )
    rows = [
        (
            each.event.event_id + (" (test)" if each.event.test else ""),
            contract.calendar.text(each.event.begin_s), contract.calendar.text(each.event.end_s),
            str(len(each.baseline.days)) if each.baseline.days else "own day",
            "none" if each.baseline.factor is None else f"{each.baseline.factor:.4f}",
            kilowatt_hours(each.delivered_j), kilowatt_hours(each.committed_j), kilowatt_hours(each.missing_j),
            str(len(each.gaps)), *(money(v, contract.currency) for v in _amounts(each)),
        )
        for each in statements
    ]  # fmt: skip
    days = [
        f"{each.event.event_id}, days averaged: {', '.join(day.isoformat() for day in each.baseline.days)}."
        for each in statements
        if each.baseline.days
    ]
    notes = [f"{each.event.event_id}: {note}." for each in statements for note in each.baseline.notes]
    kinds, said = ["", "", "", *["n"] * 9], [beside_no_event(contract), *days, *notes]
    return Table(
        heads,
        rows,
        "Totals by event",
        key="totals",
        short=short,
        kinds=kinds,
        notes=said,
        answer=[11],
    )


def _amounts(each: EventStatement) -> tuple[int, int, int]:
    """Return payment, penalty and net of an event."""
    return each.payment, each.penalty, each.payment - each.penalty


def _intervals(each: EventStatement, contract: Contract) -> Table:
    """Return the table of an event's intervals."""
    heads = (
        *("From", "Metered kW", "Label", "Baseline kW", "Replay kW", "Delivered kW", "Paid kW", "Missing kW"),
        *(f"Rate {contract.currency}/MWh", "Payment", "Penalty"),
    )
    rows = [
        (
            contract.calendar.text(row.begin_s), kilowatts(row.metered_w) or "gap", row.label or "no data",
            kilowatts(row.baseline_w) or "–", kilowatts(row.counterfactual_w) or "–",
            kilowatts(row.delivered_w) or "–", kilowatts(row.paid_w), kilowatts(row.missing_w), _digits(row.rate, 2),
            money(row.payment, contract.currency), money(row.penalty, contract.currency),
        )
        for row in each.rows
    ]  # fmt: skip
    title = f"Intervals of {each.event.event_id}" + (" (test)" if each.event.test else "")
    return Table(heads, rows, title, kinds=["", "n", "", *["n"] * 8], answer=[5])


def _others(each: EventStatement, k: int) -> Table:
    """Return the table of other rules and the counterfactual."""
    heads = ("Would-be load by", "Mean kW", "Delivered kWh by it", "")
    rows = [
        (
            other.name,
            "–" if other.mean_w is None else f"{other.mean_w / 1e3:,.3f}",
            "–" if other.delivered_j is None else kilowatt_hours(other.delivered_j),
            other.note,
        )
        for other in each.beside
    ]
    title = f"Beside the contract's baseline: {each.event.event_id}"
    note = f"These figures are {NOT_FOR_MONEY}."
    return Table(heads, rows, title, note, key=f"beside-{k}", kinds=["", "n", "n", "wrap"])


def rules(contract: Contract) -> Prose:
    """Return how the figures were computed."""
    paid = (
        f"{_digits(contract.payment_per_mwh, 2)} {contract.currency}/MWh"
        if contract.payment_per_mwh is not None
        else f"the price in force at the interval's begin (below 0: {contract.negative_price})"
    )
    delivered = f"Delivered is baseline ({contract.baseline}) less metered power."
    limit = f"It is paid up to {_digits(contract.most_share * 100)} % of the commitment, at {paid}."
    tolerance = f"less a tolerance of {_digits(contract.tolerance * 100)} % and less what was delivered"
    fine = f"{_digits(contract.penalty_per_mwh, 2)} {contract.currency}/MWh"
    missing = f"Missing is the commitment {tolerance}; it costs {fine}."
    tests = (
        "paid" if contract.tests_paid else "not paid",
        "penalised" if contract.tests_penalised else "not penalised",
    )
    lines = (
        f"{delivered} {limit}",
        missing,
        "An interval without data counts as not delivered.",
        f"Tests are {' and '.join(tests)}.",
        "Each amount of a row is rounded to a millionth of the currency; totals are sums of rows.",
    )
    return Prose("How it is computed", lines, "rules")


def sources(facts: Mapping[str, str]) -> Table:
    """Return the table of the inputs, and the meanings of labels."""
    labels = "Labels: " + "; ".join(f"{name}, {what}" for name, what in KINDS.items()) + "."
    return Table(("Input", "Value"), [*facts.items()], "Sources", labels, key="sources", kinds=["", "breaks"])


def _digits(value: Decimal, least: int = 0) -> str:
    """Return a decimal with as many digits after the point as it needs, at least some."""
    exact = f"{value.normalize():f}"
    return exact if len(exact.partition(".")[2]) > least else f"{value:.{least}f}"


def _drawn(each: EventStatement, k: int) -> Drawn:
    """Return the figure of an event: metered power, baseline, counterfactual."""
    begin = each.event.begin_s
    lines = {
        "metered": [row.metered_w for row in each.rows],
        f"baseline {each.baseline.name}": [row.baseline_w for row in each.rows],
        "the same jobs without the event (simulated)": [row.counterfactual_w for row in each.rows],
    }
    drawn = {name: _column(values) for name, values in lines.items() if any(v is not None for v in values)}
    columns = {"time_s": np.array([float(row.begin_s - begin) for row in each.rows])}
    columns |= {f"mean_{i}": values for i, values in enumerate(drawn.values())}
    highest = max((float(np.nanmax(values)) for values in drawn.values()), default=0.0)
    groups = [{"label": name, "seeds": 1, "cap": None} for name in drawn]
    says = (
        f"{kilowatt_hours(each.delivered_j)} kWh delivered of {kilowatt_hours(each.committed_j)} kWh committed"
        f"{'; a test' if each.event.test else ''}."
    )
    figure = Figure(
        f"event-{k + 1}", f"Event {each.event.event_id}", says,
        Axis("time since the event began", *words.span_unit(each.event.end_s - begin)[::-1]), power_axis(highest),
        columns, {"time_s": "from"} | {f"mean_{i}": name for i, name in enumerate(drawn)},
        {"groups": groups, "end_s": float(each.event.end_s - begin), "exact": True},
    )  # fmt: skip
    return figure, "overlay"


def _column(values: Sequence[int | None]) -> np.ndarray:
    """Return watts as a column, NaN for gaps."""
    return np.array([np.nan if v is None else float(v) for v in values])
