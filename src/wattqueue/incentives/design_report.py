"""The design of incentives as lines, CSV and page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape

from wattqueue.incentives.design import DesignInputs, DesignRow, best
from wattqueue.incentives.participation import too_dear
from wattqueue.model.money import plain
from wattqueue.model.money import words as money
from wattqueue.report import words
from wattqueue.report.cards import card, grid, paragraph
from wattqueue.report.document import findings
from wattqueue.report.text_table import table

HEADS = (
    *("Rate", "Users", "Work", "Added wait node-h", "Added run node-h", "Delivered", "Payment", "Penalty"),
    *("Lower bill", "Rewards", "Loss of users", "Centre", "Users gain", "Both"),
)
_CSV = (
    *("rate", "user_share", "work_share", "added_wait_node_s", "added_run_node_s", "delivered_j", "payment", "penalty"),
    *("saved", "rewards", "loss", "centre", "users", "total", "spread", "currency"),
)


def lines(rows: Sequence[DesignRow], inputs: DesignInputs) -> list[str]:
    """Return the table, the rate that leaves both best off, and what the figures rest on."""
    return [*table(HEADS, [_cells(row, inputs) for row in rows]), *sentences(rows, inputs)]


def sentences(rows: Sequence[DesignRow], inputs: DesignInputs) -> list[str]:
    """Return the result and its assumptions in sentences."""
    found, why = best(rows)
    currency = inputs.contract.currency
    curve = inputs.curve
    gains = f"the centre gains {money(found.centre, currency)}, users gain {money(found.users, currency)}"
    spread = f"standard deviation over {inputs.draws} draws {money(found.spread, currency)}"
    consent = f"{words.percent(found.user_share)} of users consent"
    result = f"Best off together at {found.multiple:f} times the rates of {inputs.model.name}: {consent}, {gains}"
    return [
        f"{result}, both {money(found.total, currency)} ({spread}); {why}.",
        f"The acceptance curve {curve.name} is {curve.origin}: {curve.source}.",
        f"An added node-hour costs users {curve.value_per_node_h:f} {currency}, also those who do not consent.",
        "Delivered power, waits and bills are simulated, against a run without the targets.",
        *(f"No figures at {row.multiple:f} times the rates: {row.why}." for row in rows if row.why),
        *_priced_out(found, inputs),
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


def csv_text(rows: Sequence[DesignRow], inputs: DesignInputs) -> str:
    """Return one row per rate, amounts exact in units of the currency."""
    out = io.StringIO()
    out.write(f"# wattqueue incentives-design acceptance={inputs.curve.origin} model_sha256={inputs.model.sha256}\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV)
    currency = inputs.contract.currency
    for row in rows:
        amounts = (row.payment, row.penalty, row.saved, row.rewards, row.loss, row.centre, row.users, row.total)
        quantities = (row.user_share, row.work_share, row.added_wait_node_s, row.added_run_node_s, row.delivered_j)
        if row.why:
            writer.writerow([f"{row.multiple:f}", f"{row.user_share:.6g}", *[""] * (len(_CSV) - 3), currency])
            continue
        shown = [f"{value:.6g}" if value < 1 else f"{value:.0f}" for value in quantities]
        writer.writerow([f"{row.multiple:f}", *shown, *map(plain, amounts), plain(row.spread), currency])
    return out.getvalue()


def html(rows: Sequence[DesignRow], inputs: DesignInputs) -> str:
    """Return the page."""
    said = sentences(rows, inputs)
    kinds = ["", *["n"] * (len(HEADS) - 1)]
    return findings(
        title=f"Incentives: {inputs.model.name}",
        eyebrow=f"acceptance curve {inputs.curve.origin}  ·  {words.count(len(inputs.events), 'event')}",
        lede=escape(said[0]),
        drawn=[],
        cards=[
            card("table", "Rates", grid("Rates", HEADS, [_cells(r, inputs) for r in rows], kinds)),
            card("notes", "What this rests on", *map(paragraph, said[1:])),
        ],
    )


def _cells(row: DesignRow, inputs: DesignInputs) -> tuple[str, ...]:
    """Return a row as people read it; dashes where it has no figures."""
    if row.why:
        return (f"{row.multiple:f}", words.percent(row.user_share), *["–"] * (len(HEADS) - 2))
    amounts = (row.payment, row.penalty, row.saved, row.rewards, row.loss, row.centre, row.users, row.total)
    return (
        f"{row.multiple:f}", words.percent(row.user_share), words.percent(row.work_share),
        words.figures(row.added_wait_node_s / 3_600), words.figures(row.added_run_node_s / 3_600),
        words.energy(row.delivered_j), *(money(amount, inputs.contract.currency) for amount in amounts),
    )  # fmt: skip
