"""One run of a campaign: described by plain values, identified by a hash of all that determines its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared

Value = float | int | str | list[float] | None
"""Value of a column of results."""
Row = dict[str, Value]
"""Result of a cell, its columns in the order in which the table shows them."""


@runtime_checkable
class Cell(Protocol):
    """One run. Workers receive cells pickled: a cell holds names and numbers, large inputs lie in ``Shared``.

    A frozen dataclass at the top level of a module, with these two methods, is a cell. ``str(cell)`` is its name in
    error messages.
    """

    def identity(self) -> Mapping[str, object]:
        """Return all inputs as JSON can hold them: two cells of equal identity give equal rows."""
        ...

    def perform(self, shared: Shared) -> Row:
        """Run the cell and return its row.

        Raises: WattQueueError for a run that cannot be done; the other cells still run.
        """
        ...


def key_of(cell: Cell) -> str:
    """Return the key of a cell: a hash of its class, its identity and the program.

    The program is part of it so that a new version never mixes its rows with those of another.
    """
    kind = f"{type(cell).__module__}.{type(cell).__qualname__}"
    text = json.dumps([kind, dict(cell.identity()), program()], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
