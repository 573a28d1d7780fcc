"""Settle demand-response events: baseline, delivered power, payment and penalty by interval.

What is done stands in ``wattqueue_grid.settlement.settlement``. Files are written before anything is printed.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from wattqueue.verbs import Printed, out_field, verb_of
from wattqueue_grid.settlement.options import SettleOptions


@dataclass(frozen=True)
class SettleVerb(Printed, SettleOptions):
    """Options of the verb."""

    _: KW_ONLY
    out: Path | None = out_field("Directory for intervals.csv, events.csv, statement.html.")


@verb_of(SettleVerb)
def run(options: SettleVerb) -> None:
    """Settle demand-response events: baseline, delivered power, payment and penalty by interval."""
    from wattqueue.formats.atomic_folder import write_files
    from wattqueue.report.document import UNBROKEN
    from wattqueue_grid.settlement.settlement import perform_settlement

    settled, folder = perform_settlement(options.inputs()), options.out
    if folder is not None:
        write_files(folder, settled.files())
    options.show(settled.as_json, lambda: settled.document.lines(UNBROKEN))
    if folder is not None:
        options.say([f"{folder / 'statement.html'} (with intervals.csv and events.csv)"])
