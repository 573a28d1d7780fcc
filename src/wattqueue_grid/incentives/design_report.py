"""The design of incentives as text, page and CSV."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wattqueue.model.jobs import Floats
from wattqueue.report import words
from wattqueue.report.compare.stats import estimate
from wattqueue.report.document import Document, Figures, Prose, Table, csv_text
from wattqueue.report.figure import Axis, Figure
from wattqueue_grid.incentives.design import DesignInputs, DesignRow
from wattqueue_grid.incentives.participation import too_dear
from wattqueue_grid.incentives.verdict import verdict
from wattqueue_grid.money import MICRO, plain
from wattqueue_grid.money import words as money

HEADS = (
    *("Rate", "Users", "Work", "Added wait node-h", "Added run node-h", "Delivered", "Payment", "Penalty"),
    *("Lower bill", "Rewards", "Loss of users", "Centre", "Users gain", "Both"),
)
_CSV = (
    *("rate", "user_share", "work_share", "added_wait_node_s", "added_run_node_s", "delivered_j", "payment", "penalty"),
    *("saved", "rewards", "loss", "centre", "users", "total", "spread", "currency"),
)


def document(rows: Sequence[DesignRow], inputs: DesignInputs) -> Document:
    """Return the table, the verdict, and what the figures rest on."""
    said = sentences(rows, inputs)
    table = Table(
        HEADS, [_no_event(inputs), *(_cells(row, inputs) for row in rows)], "Rates", key="table", short=HEADS,
        kinds=["", *["n"] * (len(HEADS) - 1)], answer=[len(HEADS) - 1],
    )  # fmt: skip
    return Document(
        title=f"Incentives: {inputs.model.name}",
        eyebrow=f"acceptance curve {inputs.curve.origin}  ·  {words.count(len(inputs.events), 'event')}",
        lede=said[0],
        blocks=[table, Figures([(gains(rows, inputs), "gains")]), Prose("What this rests on", said[1:], "notes")],
        text=[said[0], table, *said[1:]],
        links=(("table", "Table"), ("notes", "Notes")),
    )


def gains(rows: Sequence[DesignRow], inputs: DesignInputs) -> Figure:
    """Return what centre, users and both gain at each rate with figures, with 95 % intervals over the draws."""
    known = [row for row in rows if not row.why]
    columns: dict[str, Floats] = {"rate": np.array([float(row.multiple) for row in known])}
    sides: dict[str, list[Sequence[int]]] = {
        "centre": [[centre for centre, _ in row.by_draw] for row in known],
        "users": [[users for _, users in row.by_draw] for row in known],
        "both": [row.totals for row in known],
    }
    for k, found in enumerate([estimate(draws) for draws in by_rate] for by_rate in sides.values()):
        columns[f"value_{k}"] = np.array([e.mean for e in found])
        columns[f"low_{k}"] = np.array([e.mean if e.low is None else e.low for e in found])
        columns[f"high_{k}"] = np.array([e.mean if e.high is None else e.high for e in found])
    heads = {"rate": "times the rates"} | {f"value_{k}": name for k, name in enumerate(sides)}
    currency = inputs.contract.currency
    says = f"Above the dashed line a side gains, below it it loses: {verdict(rows, currency).sentence}."
    if inputs.draws > 1:
        says += f" Bands: 95 % intervals of the means over {inputs.draws} draws of users."
    axes = Axis("times the rates"), Axis("gain against no event", currency, MICRO)
    return Figure("gains", "Gain by rate", says, *axes, columns, heads, {"labels": list(sides), "zero": "no event"})


def sentences(rows: Sequence[DesignRow], inputs: DesignInputs) -> list[str]:
    """Return the verdict and its assumptions in sentences."""
    currency, curve = inputs.contract.currency, inputs.curve
    found = verdict(rows, currency)
    return [
        f"{inputs.model.name}: {found.sentence}.",
        f"The acceptance curve {curve.name} is {curve.origin}: {curve.source}.",
        f"An added node-hour costs users {curve.value_per_node_h:f} {currency}, also those who do not consent.",
        "Delivered power, waits and bills are simulated, against a run without the targets.",
        *(f"No figures at {row.multiple:f} times the rates: {row.why}." for row in rows if row.why),
        *_priced_out(found.about, inputs),
    ]


def _priced_out(row: DesignRow, inputs: DesignInputs) -> list[str]:
    """Return how many jobs ask more for an added hour than a rate gives; nothing where no job states a price."""
    jobs = inputs.site.jobs
    priced = 0 if jobs.consent is None else int((jobs.consent.price_per_added_hour > 0).sum())
    dear = int(too_dear(jobs, inputs.model.scaled(row.multiple)).sum())
    if not priced:
        return []
    return [
        f"Of {priced} jobs with a price for an added hour, {dear} ask more than this rate gives: they do not take part."
    ]


def design_rows(rows: Sequence[DesignRow], inputs: DesignInputs) -> list[dict[str, str]]:
    """Return the rows of the CSV by the names of its columns."""
    return [dict(zip(_CSV, _exact(row, inputs.contract.currency), strict=True)) for row in rows]


def design_csv(rows: Sequence[DesignRow], inputs: DesignInputs) -> str:
    """Return one row per rate, amounts exact in units of the currency."""
    lead = f"wattqueue incentives-design acceptance={inputs.curve.origin} model_sha256={inputs.model.sha256}"
    return csv_text(_CSV, (_exact(row, inputs.contract.currency) for row in rows), lead)


def _exact(row: DesignRow, currency: str) -> list[str]:
    """Return the cells of a rate in CSV; empty where it has no figures."""
    if row.why:
        return [f"{row.multiple:f}", f"{row.user_share:.6g}", *[""] * (len(_CSV) - 3), currency]
    quantities = (row.user_share, row.work_share, row.added_wait_node_s, row.added_run_node_s, row.delivered_j)
    shown = [f"{value:.6g}" if value < 1 else f"{value:.0f}" for value in quantities]
    return [f"{row.multiple:f}", *shown, *map(plain, _amounts(row)), plain(row.spread), currency]


def _amounts(row: DesignRow) -> tuple[int, ...]:
    """Return the amounts of money of a rate, in the order of the columns."""
    return row.payment, row.penalty, row.saved, row.rewards, row.loss, row.centre, row.users, row.total


def _no_event(inputs: DesignInputs) -> tuple[str, ...]:
    """Return the row with which all rates are compared: no event, no money."""
    amounts = [money(0, inputs.contract.currency)] * 8
    return ("no event", "–", "–", words.figures(0.0), words.figures(0.0), words.energy(0.0), *amounts)


def _cells(row: DesignRow, inputs: DesignInputs) -> tuple[str, ...]:
    """Return a row as people read it; dashes where it has no figures."""
    if row.why:
        return (f"{row.multiple:f}", words.percent(row.user_share), *["–"] * (len(HEADS) - 2))
    return (
        f"{row.multiple:f}", words.percent(row.user_share), words.percent(row.work_share),
        words.figures(row.added_wait_node_s / 3_600), words.figures(row.added_run_node_s / 3_600),
        words.energy(row.delivered_j), *(money(amount, inputs.contract.currency) for amount in _amounts(row)),
    )  # fmt: skip
