"""``settle``: the statements of demand-response events, as ``wattqueue settle`` makes them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.api.inputs import PathLike, of_arguments, text
from wattqueue.api.run import RunResult
from wattqueue.formats.epoch import parse_date
from wattqueue.formats.pages import write_files
from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.report.document import UNBROKEN
from wattqueue.whatif.bill import parse_source, read_tariff
from wattqueue_grid.settlement.files import EVENTS, INTERVALS
from wattqueue_grid.settlement.settlement import Settlement, SettlementInputs, perform_settlement

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class SettlementResult:
    """What events deliver and pay under a contract."""

    settlement: Settlement

    def __repr__(self) -> str:
        count = len(self.settlement.statements)
        return f"<settlement of {count} event{'' if count == 1 else 's'}: {self.settlement.contract.name}>"

    def __str__(self) -> str:
        return "\n".join(self.settlement.document.lines(UNBROKEN))

    @property
    def payment(self) -> Decimal:
        """Return what all events pay, exact, in units of the contract's currency."""
        return self.settlement.payment

    @property
    def penalty(self) -> Decimal:
        """Return what missing delivery costs, exact, in units of the contract's currency."""
        return self.settlement.penalty

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """Return the columns of intervals.csv as a polars frame; null for gaps. Money columns are floats here."""
        return _frame(self.settlement.files()[INTERVALS])

    @cached_property
    def events(self) -> pl.DataFrame:
        """Return the columns of events.csv as a polars frame."""
        return _frame(self.settlement.files()[EVENTS])

    def save(self, folder: PathLike) -> None:
        """Write intervals.csv, events.csv and statement.html, identical on every run. Raises: OutputError."""
        write_files(Path(text(folder, "folder", "a folder")), self.settlement.files())


@of_arguments
def settle(
    targets: PathLike,
    contract: PathLike,
    meter: RunResult | PathLike,
    *,
    interval_s: int | None = None,
    counterfactual: RunResult | PathLike | None = None,
    prices: PathLike | None = None,
    price_unit: str = "EUR/MWh",
    repair: bool = False,
    start: str | None = None,
    events: Sequence[str] = (),
) -> SettlementResult:
    """Settle demand-response events: baseline, delivered power, payment and penalty by interval.

    The figures are those of ``wattqueue settle``.

    Args:
        targets: CSV of load targets: the events, tests too.
        contract: TOML of the contract: calendar, baseline, commitment, payment, penalty.
        meter: CSV of interval data, or a run or its folder, whose power is then labelled simulated.
        interval_s: Seconds of an interval. None takes the meter's, or 900 for a run.
        counterfactual: A run without the events or its folder, shown beside the baseline and never used for money.
        prices: CSV of time and price, where the contract pays by it.
        price_unit: Unit of the prices.
        repair: Correct dates of the prices with a wrong UTC offset.
        start: Date of the clock's 0 of targets and runs, ``"2023-03-01T00:00+01:00"``.
        events: Ids of the events to settle. Empty settles all.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        settled = settle("targets.csv", "contract.toml", run, start="2023-03-01T00:00+01:00")
        settled.payment - settled.penalty
        settled.intervals.select("begin", "delivered_kw", "payment")
    """
    tariff = None
    if prices is not None:
        source = parse_source(Path(text(prices, "prices", "a CSV of time and price")), price_unit, "price_unit")
        tariff = read_tariff(source, 0.0, repair=repair)
    return SettlementResult(
        perform_settlement(
            SettlementInputs(
                Path(text(targets, "targets", "a CSV of load targets")),
                Path(text(contract, "contract", "the TOML of a contract")),
                _source(meter, "meter"),
                interval_s,
                None if counterfactual is None else _source(counterfactual, "counterfactual"),
                tariff,
                None if start is None else parse_date(text(start, "start", "a date"), "start"),
                tuple(events),
            )
        )
    )


def _source(value: RunResult | PathLike, where: str) -> Path | RunRecord:
    """Return a run's record, or the path of interval data or of a run's folder. Raises: InputError."""
    if isinstance(value, RunResult):
        return value.record
    return Path(text(value, where, "interval data, or a run or its folder"))


def _frame(csv_text: str) -> pl.DataFrame:
    """Return a CSV of the settlement as a frame."""
    import polars as pl

    return pl.read_csv(io.BytesIO(csv_text.encode()), comment_prefix="#", infer_schema_length=None)
