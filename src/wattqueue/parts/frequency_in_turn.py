"""Several frequency parts in turn: each one after the first narrows the windows of those before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Frequency, Ints, Prediction
from wattqueue.parts.oracles import is_oracle


class Narrowed(NamedTuple):
    """Windows, and where nothing of one was left. Shapes (m,)."""

    first: Ints
    last: Ints
    empty: NDArray[np.bool_]
    """Entries that kept the nearest option because two parts have none in common."""


class FrequencyInTurn:
    """The window that the first part gives, narrowed by each later one to what the two have in common.

    Where they have nothing in common, the entry keeps the one option of the window before that is nearest to the later
    part's.
    """

    def __init__(self, parts: Sequence[Frequency], *, highest_only: bool = False) -> None:
        """Take the parts in turn. ``highest_only``: all of them state that."""
        self.parts, self.highest_only = tuple(parts), highest_only

    @property
    def knows_future(self) -> bool:
        """Return whether one of the parts is an oracle."""
        return any(map(is_oracle, self.parts))

    def window(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> tuple[Ints, Ints]:
        """Return the first and last option of each entry. Shapes (m,)."""
        return self.narrowed(jobs, entries, prediction, machine, signals)[:2]

    def narrowed(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> Narrowed:
        """Return the windows, and the entries of which two parts had no option in common."""
        told = jobs, entries, prediction, machine, signals
        first, last = (np.asarray(side, np.int32) for side in self.parts[0].window(*told))
        empty = np.zeros(len(first), np.bool_)
        for part in self.parts[1:]:
            own_first, own_last = (np.asarray(side, np.int32) for side in part.window(*told))
            empty |= (own_first > last) | (own_last < first)
            first, last = np.clip(own_first, first, last), np.clip(own_last, first, last)
        return Narrowed(first, last, empty)
