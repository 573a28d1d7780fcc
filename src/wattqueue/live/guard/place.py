"""Which of several planners the guard serves: one has the place, until it leaves or gives no sign of life.

Whoever may connect may read, and ask how the guard is; what changes something needs the place. A second planner
(a standby that waits for the lease of the database, or one that was started by mistake) is refused with that reason,
and gets the place once the first one is gone. Reading is no sign of life: a planner that has lost its right to write
goes on reading.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

CHANGES = ("write", "alive", "away", "submit-data", "ask")
"""Requests that change something."""


@dataclass
class PlannerPlace:
    """The place of the planner. ``clock`` counts seconds."""

    most_s: float
    """Silence after which another planner may take it."""
    clock: Callable[[], float] = time.monotonic
    holder: object = None
    """The connection that has it; None for nobody."""
    _heard_s: float = -math.inf

    @property
    def silent_s(self) -> float:
        """Time since the holder's last sign of life."""
        return self.clock() - self._heard_s

    def refusal(self, asker: object, what: object) -> str:
        """Return why a connection's request is not answered; empty where it has the place now, or needs none."""
        if what not in CHANGES:
            return ""
        if self.holder not in (None, asker) and self.silent_s < self.most_s:
            return f"another planner is at work (last heard {self.silent_s:.0f} s ago): this one has to wait"
        self.holder, self._heard_s = asker, self.clock()
        return ""

    def leave(self, asker: object) -> None:
        """Take over that a connection has ended."""
        if self.holder is asker:
            self.holder = None
