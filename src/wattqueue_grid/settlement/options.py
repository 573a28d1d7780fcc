"""Options of ``settle``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wattqueue.options import about, option

if TYPE_CHECKING:
    from wattqueue.api.inputs import PathLike
    from wattqueue.api.run import RunResult
    from wattqueue.formats.rundir.folder import RunRecord
    from wattqueue.formats.tariff import Tariff
    from wattqueue_grid.settlement.settlement import SettlementInputs


@dataclass(frozen=True, kw_only=True)
class PriceOptions:
    """A series of prices, and the date of the clock's 0."""

    prices: PathLike | None = option(None, "CSV of time and price, where the contract pays by it.", kind=Path)
    price_unit: str | None = option(None, "Unit of the prices. [the file's, else EUR/MWh]")
    repair: bool = option(False, "Correct dates with a wrong UTC offset.", kind=bool)
    start: str | None = option(None, "Date of the clock's 0 of targets and runs, such as 2023-03-01T00:00+01:00.")

    def tariff(self) -> Tariff | None:
        """Return the prices, None without a series. Raises: InputError for a file or unit that cannot be read."""
        from wattqueue.formats.tariff import parse_source, read_tariff

        if self.prices is None:
            return None
        return read_tariff(parse_source(Path(self.prices), self.price_unit, "--price-unit"), 0.0, repair=self.repair)


@dataclass(frozen=True)
class SettleOptions(PriceOptions):
    """Events, the contract and the meter."""

    targets: PathLike = field(
        metadata=about("CSV of load targets: the events, tests too.", kind=Path, metavar="TARGETS")
    )
    contract: PathLike = field(
        metadata=about("TOML: calendar, baseline, commitment, payment, penalty.", kind=Path, flags=("--contract",))
    )
    meter: RunResult | PathLike = field(
        metadata=about(
            "CSV of interval data, or the directory of a run (simulated power).",
            kind=Path,
            flags=("--meter",),
            also="a run",
        )
    )
    _: KW_ONLY
    interval: int | None = option(None, "Length of an interval. [the meter's; for a run 900]", kind=int, unit="s")
    counterfactual: RunResult | PathLike | None = option(
        None, "Directory of a run or replay without the events, shown beside the baseline.", kind=Path, also="a run"
    )
    event: Sequence[str] = option((), "Settle this event only; may be repeated.", many=True)

    def inputs(self) -> SettlementInputs:
        """Return what is settled; a run in memory by its record."""
        from wattqueue.formats.epoch import parse_date
        from wattqueue_grid.settlement.settlement import SettlementInputs

        return SettlementInputs(
            Path(self.targets),
            Path(self.contract),
            _source(self.meter),
            self.interval,
            None if self.counterfactual is None else _source(self.counterfactual),
            self.tariff(),
            None if self.start is None else parse_date(self.start, "--start"),
            tuple(self.event),
        )


def _source(value: RunResult | PathLike) -> Path | RunRecord:
    """Return a run's record, or the path of interval data or of a run's folder."""
    return Path(value) if isinstance(value, (str, os.PathLike)) else value.record
