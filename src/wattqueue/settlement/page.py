"""The statement of events as one page that opens without a network: totals, curves, intervals, sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from html import escape

import numpy as np

from wattqueue.model.meter import KINDS
from wattqueue.model.money import words as money
from wattqueue.report import words
from wattqueue.report.cards import card, grid, paragraph
from wattqueue.report.document import Drawn, findings
from wattqueue.report.figure import Axis, Figure, power_axis
from wattqueue.settlement.contract import Contract
from wattqueue.settlement.files import kilowatt_hours, kilowatts
from wattqueue.settlement.statement import EventStatement

NOT_FOR_MONEY = "for comparison only; the contract's baseline alone decides payment and penalty"


def html(statements: Sequence[EventStatement], contract: Contract, facts: Mapping[str, str]) -> str:
    """Return the page of some events. ``facts`` are the sources and their hashes."""
    return findings(
        title=f"Settlement: {contract.name}",
        eyebrow="  ·  ".join([words.count(len(statements), "event"), contract.baseline, contract.currency]),
        lede=lede(statements, contract),
        drawn=[_drawn(each, k) for k, each in enumerate(statements)],
        cards=[
            totals(statements, contract),
            *(_intervals(each, contract) for each in statements),
            *(_beside(each, k) for k, each in enumerate(statements)),
            rules(contract),
            sources(facts),
        ],
        links=(("totals", "Totals"), ("rules", "Rules"), ("sources", "Sources")),
    )


def lede(statements: Sequence[EventStatement], contract: Contract) -> str:
    """Return what was delivered and what it is worth, in one sentence (HTML)."""
    delivered, committed = sum(s.delivered_j for s in statements), sum(s.committed_j for s in statements)
    payment, penalty = sum(s.payment for s in statements), sum(s.penalty for s in statements)
    gaps = sum(len(s.gaps) for s in statements)
    missing = (
        f" {words.count(gaps, 'interval has', 'intervals have')} no data and count as not delivered." if gaps else ""
    )
    return (
        f"<strong>{kilowatt_hours(delivered)} kWh</strong> were delivered below the baseline of "
        f"{kilowatt_hours(committed)} kWh committed. Payment {escape(money(payment, contract.currency))}, penalty "
        f"{escape(money(penalty, contract.currency))}: "
        f"<strong>{escape(money(payment - penalty, contract.currency))}</strong>.{missing}"
    )


def totals(statements: Sequence[EventStatement], contract: Contract) -> str:
    """Return the card of all events (HTML)."""
    heads = (
        *("Event", "From", "To", "Days averaged", "Adjustment", "Delivered kWh", "Committed kWh", "Missing kWh"),
        *("Gaps", "Payment", "Penalty", "Net"),
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
    notes = [paragraph(f"{s.event.event_id}: {note}.") for s in statements for note in s.baseline.notes]
    days = [
        paragraph(f"{s.event.event_id}, days averaged: {', '.join(d.isoformat() for d in s.baseline.days)}.")
        for s in statements
        if s.baseline.days
    ]
    kinds = ["", "", "", *["n"] * 9]
    return card("totals", "Totals", grid("Totals by event", heads, rows, kinds), *days, *notes)


def _amounts(each: EventStatement) -> tuple[int, int, int]:
    """Return payment, penalty and net of an event."""
    return each.payment, each.penalty, each.payment - each.penalty


def _intervals(each: EventStatement, contract: Contract) -> str:
    """Return the card of an event's intervals (HTML)."""
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
    kinds = ["", "n", "", *["n"] * 8]
    return card("", title, grid(title, heads, rows, kinds))


def _beside(each: EventStatement, k: int) -> str:
    """Return the card of other rules and the counterfactual (HTML)."""
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
    table = grid(title, heads, rows, ["", "n", "n", "wrap"])
    return card(f"beside-{k}", title, table, paragraph(f"These figures are {NOT_FOR_MONEY}."))


def rules(contract: Contract) -> str:
    """Return the card that says how the figures were computed (HTML)."""
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
    return card("rules", "How it is computed", *map(paragraph, lines))


def sources(facts: Mapping[str, str]) -> str:
    """Return the card of the inputs and of the labels' meanings (HTML)."""
    rows = [(key, value) for key, value in facts.items()]
    labels = paragraph("Labels: " + "; ".join(f"{name}, {what}" for name, what in KINDS.items()) + ".")
    return card("sources", "Sources", grid("Sources", ("Input", "Value"), rows, ["", "breaks"]), labels)


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
        "counterfactual replay (simulated)": [row.counterfactual_w for row in each.rows],
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
