"""One run of a campaign: described by plain values, known by a hash of all that goes in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from wattqueue.campaign.program import program
from wattqueue.campaign.shared import Shared

Value = float | int | str | list[float] | None
"""What a column of results may hold."""
Row = dict[str, Value]


@runtime_checkable
class Cell(Protocol):
    """One run. Workers get cells pickled: a cell holds names and numbers, big inputs lie in ``Shared``.

    A frozen dataclass on a module's top level does it all but for the two methods.
    """

    def identity(self) -> Mapping[str, object]:
        """All that goes in, as JSON can hold it: two cells of one identity would give the same row."""
        ...

    def perform(self, shared: Shared) -> Row:
        """Do it: one row, its columns in the order in which they shall stand.

        Raises: WattQueueError for a run that cannot be done; the others go on.
        """
        ...


def key_of(cell: Cell) -> str:
    """What a finished cell is known by: a hash of its class, its identity and the program."""
    kind = f"{type(cell).__module__}.{type(cell).__qualname__}"
    text = json.dumps([kind, dict(cell.identity()), program()], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
