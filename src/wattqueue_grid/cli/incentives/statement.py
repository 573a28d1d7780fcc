"""State what a user got for consent, in words and as a page; without a user, the totals of all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    user: Annotated[str | None, typer.Argument(help="Name of a user. [totals of all users]")] = None,
    *,
    ledger: Annotated[str, typer.Option(help="SQLite file, postgresql://USER@HOST/NAME or mariadb://USER@HOST/NAME.")],
    time_zone: Annotated[str, typer.Option(help="Time zone in which events are dated.")] = "UTC",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write (HTML).")] = None,
) -> None:
    """State what a user got for consent, in words and as a page; without a user, the totals of all."""
    from wattqueue.errors import InputError
    from wattqueue.formats.pages import write_text
    from wattqueue.report.document import UNBROKEN, aligned
    from wattqueue_grid.incentives.ledger import IncentiveLedger
    from wattqueue_grid.incentives.user_statement import document
    from wattqueue_grid.money import words
    from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of

    book = IncentiveLedger.open(ledger, make=False)
    calendar = SiteCalendar(zone_of(time_zone, "--time-zone"))
    if user is None:
        if out is not None:
            raise InputError("writes the page of one user", where="--out", hint="name the user")
        rows = [
            (t.user_name, str(t.jobs), words(t.fee, t.currency), words(t.reward, t.currency)) for t in book.totals()
        ]
        for line in aligned(("user", "jobs", "usage fee", "reward"), rows):
            typer.echo(line)
        return
    shown = document(user, book.entries(user), calendar)
    if out is not None:
        write_text(out, shown.html())
    for line in shown.lines(UNBROKEN):
        typer.echo(line)
    if out is not None:
        typer.echo(str(out))
