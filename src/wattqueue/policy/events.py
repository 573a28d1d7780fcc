"""Find the events of a round by comparing what two observations show.

The simulator's loop knows each event as it happens. A live controller sees the world from time to time, and an event
is what has changed in between: jobs that are new, jobs that ran and are gone, another cap, units in another state. Jobs
are compared by name, not counted: a job that arrives in the round in which another one starts is an event.

What the policy itself did is none (rule 2 of docs/semantics.md), apart from ``start``: a job that starts or is requeued
has not arrived or ended, and a unit on its way to the state that an action asked for is expected there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattqueue.policy.capabilities import EVENT_BITS

States = NDArray[np.int8]


@dataclass
class EventWatch:
    """What the last observation showed."""

    present: frozenset[str] = frozenset()
    """Jobs that waited, were under way or ran."""
    holding: frozenset[str] = frozenset()
    """Those of them that held units."""
    cap_w: float | None = None
    """None before the first observation."""
    states: States | None = None
    """State of each unit (``kernels/codes.py``); None before the first observation."""
    asked: dict[int, int] = field(default_factory=dict)
    """State that an action asked for, by unit, until it is seen there."""

    def observe(self, waiting: Iterable[str], holding: Iterable[str], cap_w: float, states: States) -> int:
        """Return the bits (``EVENT_BITS``) of what has happened since the last observation.

        At the first one each job counts as arrived, and one that holds units as started. The cap and the units of that
        moment are no change: a session calls the controls that wait for one at its beginning, in every driver (rule 2
        of docs/semantics.md).
        """
        held = frozenset(holding)
        present = held | frozenset(waiting)
        changes = {
            "arrival": not present <= self.present,
            "completion": not self.holding <= present,
            "signal": self.cap_w not in (None, cap_w),
            "node": self._moved(states),
            "start": not held <= self.holding,
        }
        self.present, self.holding, self.cap_w, self.states = present, held, cap_w, states.copy()
        return sum(EVENT_BITS[name] for name, happened in changes.items() if happened)

    def ask(self, unit: int, state: int) -> None:
        """Expect a unit in a state that an action asked for."""
        self.asked[unit] = state

    def _moved(self, states: States) -> bool:
        """Return whether a unit is in another state than before, and not in the one that an action asked for."""
        before = states if self.states is None else self.states
        changed = np.flatnonzero(states != before) if len(states) == len(before) else np.arange(len(states))
        return any(self.asked.pop(int(unit), None) != int(states[unit]) for unit in changed.tolist())
