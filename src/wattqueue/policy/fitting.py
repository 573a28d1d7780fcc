"""Which queued entries fit now, as arrays: what a pass in Python looks at, in place of calls for single figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wattqueue.kernels.calls import bind, list_fitting
from wattqueue.kernels.view_lists import FittingRows
from wattqueue.policy.state_view import read_only

if TYPE_CHECKING:
    from wattqueue.kernels.state import KernelView
    from wattqueue.policy.state_view import Floats, Ints


class Fitting(NamedTuple):
    """Pairs of a queued entry and an option at which it fits now, beside nothing else that starts. Shapes (k,).

    In queue order; of one entry the highest frequency first. The arrays are the driver's memory: what they show holds
    until the view is asked again.
    """

    entry: Ints
    """Row of the entry, as ``Start.entry``."""
    option: Ints
    """The option, as ``Start.option``."""
    job: Ints
    """Row of the job in ``View.jobs``; a job may have entries in several partitions."""
    partition: Ints
    """The entry's partition."""
    nodes: Ints
    """Units that the job needs."""
    net_w: Floats
    """Watts that the ledger would count, as ``View.net_watts``."""
    walltime_s: Floats
    """Requested seconds."""


class FittingList:
    """Lists the pairs of one view again and again, into the same memory; it grows when there are more than ever."""

    __slots__ = ("found", "shown", "view", "write")

    def __init__(self, view: KernelView) -> None:
        """Prepare for a view."""
        self.view = view
        self._make_room(64)

    def _make_room(self, room: int) -> None:
        """Take other memory, for so many pairs."""
        rows = FittingRows(*(np.empty(room, kind) for kind in (*(np.int32,) * 5, *(np.float64,) * 2)))
        self.shown = Fitting._make(map(read_only, rows))
        self.found: dict[int, Fitting] = {}
        """The arrays as they are shown, by the number of pairs."""
        self.write = bind(list_fitting, self.view, rows)

    def now(self) -> Fitting:
        """Return the pairs that have the units and the watts now (``View.fitting``).

        Power domains are not asked: a start that they have no room for is refused when it is chosen (rule 22).
        """
        count = self.write()
        found = self.found.get(count)
        if found is None:
            if count > len(self.shown.entry):
                self._make_room(2 * count)
                return self.now()
            found = self.found[count] = Fitting._make(column[:count] for column in self.shown)
        return found
