"""Decide when a job of several components is released to the resource manager, and how long room is kept for it.

The resource manager alone schedules such a job: it plans nodes for all components, and starts them together. That it
has the licences for all of them is not tested when they start (Slurm's backfill starts what it has planned, see
docs/cap-held.md), so the controller releases a job only while it keeps the watts of all its components for it:

- A job that fits beside all that runs and is kept before it is released. One that has not started after the start
  timeout, or of which the resource manager says that something else keeps it, is held again and *put off*: for the
  start timeout, then for twice as long each time, up to an hour.
- Of those that do not fit, the oldest has a *turn*: it keeps what is free of its nodes and watts. While the watts
  suffice it is released, so that the resource manager plans nodes for it. After a turn nobody has one for as long:
  the policy starts jobs meanwhile. The next turn of the same job lasts twice as long, so one of them outlasts
  the running jobs whose nodes or watts it needs.
- All others are held.

Nothing is stored: after a restart of the controller, turns begin with the start timeout again.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

LONGEST_WAIT_S = 3600.0
"""Longest time for which a job is put off."""
LONGEST_TURN_S = 7 * 86400.0
"""Longest turn."""
BLOCKED_S = 1.0
"""A released job is held again after so long where the resource manager states what else keeps it from starting."""


class ComponentGroup(NamedTuple):
    """What is asked of a job of several components in one round."""

    whole: str
    released_s: float
    """Since when nobody holds it; inf while it is held."""
    blocked: bool
    """Whether the resource manager says that more than nodes, watts and the order keeps it from starting."""
    fits_watts: bool
    fits_nodes: bool


class Kept(NamedTuple):
    """What is done for a job in this round."""

    room: bool
    """Nodes and watts are kept for it: always while it is released, since it may start before it is held again."""
    released: bool
    """It is released, or stays so; else it is held."""


class _Wait(NamedTuple):
    until_s: float
    length_s: float


class ComponentTurns:
    """The turns, and the jobs that are put off. Groups of a round are asked about from the oldest on."""

    def __init__(self, timeout_s: float) -> None:
        """``timeout_s``: the start timeout."""
        self.timeout_s = timeout_s
        self._put_off: dict[str, _Wait] = {}
        self._fits_s: dict[str, float] = {}
        """Since when a released job fits."""
        self._turn, self._whose = _Wait(-math.inf, 0.0), ""
        self._waits = False
        """Whether one that does not fit was met in this round."""

    def begin_round(self, known: Collection[str]) -> None:
        """Begin a round with these jobs of several components that wait; what is known of others is forgotten."""
        self._put_off = {whole: wait for whole, wait in self._put_off.items() if whole in known}
        self._fits_s = {whole: since_s for whole, since_s in self._fits_s.items() if whole in known}
        self._waits = False

    def ask(self, group: ComponentGroup, now_s: float) -> Kept:
        """Return what is done for the next group."""
        released, wait = math.isfinite(group.released_s), self._put_off.get(group.whole)
        if self._late(group, now_s):
            length_s = self.timeout_s if wait is None else min(2.0 * wait.length_s, LONGEST_WAIT_S)
            self._put_off[group.whole] = _Wait(now_s + length_s, length_s)
            return Kept(released, released=False)
        if wait is not None and now_s < wait.until_s:
            return Kept(released, released=False)
        if group.fits_watts and group.fits_nodes:
            return Kept(room=True, released=True)
        on = self.patient(now_s, group.whole)
        return Kept(on or released, on and group.fits_watts)

    def patient(self, now_s: float, whole: str = "") -> bool:
        """Return whether the next job that does not fit has a turn; ``whole`` is empty for one without watts."""
        on = not self._waits and self._has_turn(whole, now_s)
        self._waits = True
        return on

    def _late(self, group: ComponentGroup, now_s: float) -> bool:
        """Whether a released job has had its time; one that does not fit has its turn instead."""
        if group.blocked:
            return now_s - group.released_s > min(BLOCKED_S, self.timeout_s)
        if not (group.fits_watts and group.fits_nodes and math.isfinite(group.released_s)):
            self._fits_s.pop(group.whole, None)
            return False
        return now_s - self._fits_s.setdefault(group.whole, now_s) > self.timeout_s

    def _has_turn(self, whole: str, now_s: float) -> bool:
        """Whether the oldest job that does not fit has a turn now; begins one where the pause after the last is over.

        A job that becomes the oldest during the turn of another has the rest of it.
        """
        if now_s >= self._turn.until_s + self._turn.length_s:
            again = whole and whole == self._whose
            length_s = min(2.0 * self._turn.length_s, LONGEST_TURN_S) if again else self.timeout_s
            self._turn, self._whose = _Wait(now_s + length_s, length_s), whole
        return now_s < self._turn.until_s
