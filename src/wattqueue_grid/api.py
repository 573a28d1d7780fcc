"""``settle``: the statements of demand-response events, as ``wattqueue settle`` makes them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.api.inputs import PathLike, of_options, text
from wattqueue.api.run import RunResult
from wattqueue.formats.atomic_folder import write_files
from wattqueue.report.document import UNBROKEN
from wattqueue_grid.settlement.options import SettleOptions
from wattqueue_grid.settlement.settlement import Settlement, perform_settlement
from wattqueue_grid.settlement.statement import EVENTS, INTERVALS

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


@of_options(SettleOptions)
def settle(options: SettleOptions) -> SettlementResult:
    """Settle demand-response events: baseline, delivered power, payment and penalty by interval.

    The figures are those of ``wattqueue settle``. A run's power is labelled simulated, and a counterfactual is never
    used for money.

    Raises:
        WattQueueError: One line that says what is wrong, where, and how to correct it.

    Example::

        settled = settle("targets.csv", "contract.toml", run, start="2023-03-01T00:00+01:00")
        settled.payment - settled.penalty
        settled.intervals.select("begin", "delivered_kw", "payment")
    """
    for value, name, hint in (
        (options.targets, "targets", "a CSV of load targets"), (options.contract, "contract", "the TOML of a contract"),
        (options.prices or "", "prices", "a CSV of time and price"), (options.start or "", "start", "a date"),
    ):  # fmt: skip
        text(value, name, hint)
    for source, name in ((options.meter, "meter"), (options.counterfactual or "", "counterfactual")):
        if not isinstance(source, RunResult):
            text(source, name, "interval data, or a run or its folder")
    return SettlementResult(perform_settlement(options.inputs()))


def _frame(csv_text: str) -> pl.DataFrame:
    """Return a CSV of the settlement as a frame."""
    import polars as pl

    return pl.read_csv(io.BytesIO(csv_text.encode()), comment_prefix="#", infer_schema_length=None)
