"""Settle demand-response events: baseline, delivered power, payment and penalty by interval.

What is done stands in ``wattqueue_grid.settlement.settlement``. Files are written before anything is printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    targets: Annotated[Path, typer.Argument(metavar="TARGETS", help="CSV of load targets: the events, tests too.")],
    *,
    contract: Annotated[Path, typer.Option(help="TOML: calendar, baseline, commitment, payment, penalty.")],
    meter: Annotated[Path, typer.Option(help="CSV of interval data, or the directory of a run (simulated power).")],
    interval: Annotated[int | None, typer.Option(help="Seconds of an interval. [the meter's; for a run 900]")] = None,
    counterfactual: Annotated[
        Path | None, typer.Option(help="Directory of a run or replay without the events, shown beside the baseline.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="CSV of time and price, where the contract pays by it.")] = None,
    price_unit: Annotated[str, typer.Option(help="Unit of the prices.")] = "EUR/MWh",
    repair: Annotated[bool, typer.Option("--repair", help="Correct dates with a wrong UTC offset.")] = False,
    start: Annotated[str | None, typer.Option(help="Date of the clock's 0 of targets and runs.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="Settle this event only; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for intervals.csv, events.csv, statement.html.")] = None,
) -> None:
    """Settle demand-response events: baseline, delivered power, payment and penalty by interval."""
    from wattqueue.formats.epoch import parse_date
    from wattqueue.formats.pages import write_files
    from wattqueue.report.document import UNBROKEN
    from wattqueue.whatif.bill import parse_source, read_tariff
    from wattqueue_grid.settlement.settlement import SettlementInputs, perform_settlement

    epoch = None if start is None else parse_date(start, "--start")
    tariff = (
        None if prices is None else read_tariff(parse_source(prices, price_unit, "--price-unit"), 0.0, repair=repair)
    )
    settled = perform_settlement(
        SettlementInputs(targets, contract, meter, interval, counterfactual, tariff, epoch, tuple(event or ()))
    )
    if out is not None:
        write_files(out, settled.files())
    for line in settled.document.lines(UNBROKEN):
        typer.echo(line)
    if out is not None:
        typer.echo(f"{out / 'statement.html'} (with intervals.csv and events.csv)")
