"""State what a user got for consent, in words and as a page; without a user, the totals of all."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wattqueue.verbs import Printed, verb_of


@verb_of(Printed)
def run(
    printed: Printed,
    user: Annotated[str | None, typer.Argument(help="Name of a user. [totals of all users]")] = None,
    *,
    ledger: Annotated[str, typer.Option(help="SQLite file, postgresql://USER@HOST/NAME or mariadb://USER@HOST/NAME.")],
    time_zone: Annotated[str, typer.Option(help="Time zone in which events are dated.")] = "UTC",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page to write (HTML).")] = None,
) -> None:
    """State what a user got for consent, in words and as a page; without a user, the totals of all."""
    from wattqueue.errors import InputError
    from wattqueue.formats.atomic_folder import write_text
    from wattqueue.report.document import UNBROKEN, aligned
    from wattqueue_grid.incentives.ledger import IncentiveLedger
    from wattqueue_grid.incentives.user_statement import document, job_rows
    from wattqueue_grid.money import plain, words
    from wattqueue_grid.settlement.calendar import SiteCalendar, zone_of

    book = IncentiveLedger.open(ledger, make=False)
    calendar = SiteCalendar(zone_of(time_zone, "--time-zone"))
    if user is None:
        if out is not None:
            raise InputError("writes the page of one user", where="--out", hint="name the user")
        totals = book.totals()
        rows = [(t.user_name, str(t.jobs), words(t.fee, t.currency), words(t.reward, t.currency)) for t in totals]
        printed.show(
            lambda: {"users": [asdict(t) | {"fee": plain(t.fee), "reward": plain(t.reward)} for t in totals]},
            lambda: aligned(("user", "jobs", "usage fee", "reward"), rows),
        )
        return
    lines = book.entries(user)
    shown = document(user, lines, calendar)
    if out is not None:
        write_text(out, shown.html())
    printed.show(lambda: {"user": user, "jobs": job_rows(lines)}, lambda: shown.lines(UNBROKEN))
    if out is not None:
        printed.say([str(out)])
