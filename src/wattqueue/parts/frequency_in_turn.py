"""Several frequency parts in turn: each one after the first maps the windows of those before it to other windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Signals
from wattqueue.parts.contracts import Entries, Frequency, Ints, Prediction, WithoutOptions
from wattqueue.parts.oracles import is_oracle

if TYPE_CHECKING:
    from wattqueue.parts.frequency.consent import Consent_


class Narrowed(NamedTuple):
    """Windows, and where nothing of one was left. Shapes (m,)."""

    first: Ints
    last: Ints
    empty: NDArray[np.bool_]
    """Entries that kept the nearest option because two parts have none in common."""


class FrequencyInTurn:
    """The window that the first part gives, narrowed by each later one to what the two have in common.

    Where they have nothing in common, the entry keeps the one option of the window before that is nearest to the later
    part's. One that adds options for load targets (``consent``) narrows nothing: its options come behind the window.
    """

    def __init__(self, parts: Sequence[Frequency], *, adds: Consent_ | None = None, highest_only: bool = False) -> None:
        """Take the parts in turn. ``adds``: the one of them for load targets; ``highest_only``: all state that."""
        self.parts, self.adds, self.highest_only = tuple(parts), adds, highest_only
        self.by_target = adds is not None and adds.by_target

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
        for part in (part for part in self.parts[1:] if part is not self.adds):
            own_first, own_last = (np.asarray(side, np.int32) for side in part.window(*told))
            empty |= (own_first > last) | (own_last < first)
            first, last = np.clip(own_first, first, last), np.clip(own_last, first, last)
        return Narrowed(first, last, empty)

    def without_options(
        self, jobs: KnownJobs, entries: Entries, prediction: Prediction, machine: Machine, signals: Signals
    ) -> NDArray[np.bool_]:
        """Return which entries were left without an option, by one of the parts or between two. Shape (m,)."""
        told = jobs, entries, prediction, machine, signals
        found = self.narrowed(*told).empty
        for part in self.parts:
            if isinstance(part, WithoutOptions):
                found |= part.without_options(*told)
        return found

    def in_targets(self, entries: Entries, machine: Machine) -> Ints:
        """Return the last option of each entry for use in load targets, its first for none. Shape (m,)."""
        if self.adds is None:
            return np.asarray(machine.option_start[entries.partition], np.int32)
        return self.adds.in_targets(entries, machine)
