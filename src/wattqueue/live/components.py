"""Jobs of several components (Slurm's heterogeneous jobs): released as a whole, once each component carries its watts.

The resource manager alone schedules them. It takes licences on the first component only, so the others get theirs from
the controller; until then all of them are held (job_submit.lua), and the release of one would free them all. When they
are released, ``ComponentTurns`` decides.

The resource manager plans nodes for all components of a job, and starts them together. That it has the licences for
all of them is not tested when they start (Slurm's backfill starts what it has planned, see docs/cap-held.md), so the
controller releases a job only while it keeps the watts of all its components for it:

- A job that fits beside all that runs and is kept before it is released. One that has not started after the start
  timeout, or of which the resource manager says that something else keeps it, is *late*: it is held again, and refused
  with a back-off like any other late job (``Planner.refuse``).
- Of those that do not fit, the oldest has a *turn*: it keeps what is free of its nodes and watts. While the watts
  suffice it is released, so that the resource manager plans nodes for it. After a turn nobody has one for as long:
  the policy starts jobs meanwhile. The next turn of the same job lasts twice as long, so one of them outlasts
  the running jobs whose nodes or watts it needs.
- All others are held.

Turns are not stored: after a restart of the controller they begin with the start timeout again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from wattqueue.live.cluster import Job, Node
from wattqueue.live.goal import JobGoal
from wattqueue.live.world import Layout

ORPHANED = "its first component is gone: it can neither start nor be cancelled, and would keep nodes from others"
LONGEST_TURN_S = 7 * 86400.0
"""Longest turn."""
BLOCKED_S = 1.0
"""A released job is late after so long where the resource manager states what else keeps it from starting."""


class ComponentGroup(NamedTuple):
    """What is asked of a job of several components in one round."""

    whole: str
    released_s: float
    """Since when nobody holds it; inf while it is held."""
    blocked: bool
    """Whether the resource manager says that more than nodes, watts and the order keeps it from starting."""
    backs_off: bool
    """Whether the back-off of its last release lasts."""
    fits_watts: bool
    fits_nodes: bool

    @property
    def fits(self) -> bool:
        """Whether all components could start now."""
        return self.fits_watts and self.fits_nodes

    @property
    def is_released(self) -> bool:
        """Whether nobody holds it."""
        return math.isfinite(self.released_s)


class Kept(NamedTuple):
    """What is done for a job in this round."""

    room: bool
    """Nodes and watts are kept for it: always while it is released, since it may start before it is held again."""
    released: bool
    """It is released, or stays so; else it is held."""


class ComponentTurns:
    """Whose turn it is. Groups of a round are asked about from the oldest on."""

    def __init__(self, timeout_s: float) -> None:
        """``timeout_s``: the start timeout."""
        self.timeout_s = timeout_s
        self.late = set[str]()
        """The jobs of this round that were released and did not start in time."""
        self._fits_s: dict[str, float] = {}
        """Since when a released job fits."""
        self._until_s, self._length_s, self._whose = -math.inf, 0.0, ""
        """End, length and owner of the last turn."""
        self._waits = False
        """Whether one that does not fit was met in this round."""

    def begin_round(self, known: Collection[str]) -> None:
        """Begin a round with these jobs of several components that wait; what is known of others is forgotten."""
        self._fits_s = {whole: since_s for whole, since_s in self._fits_s.items() if whole in known}
        self._waits = False
        self.late.clear()

    def ask(self, group: ComponentGroup, now_s: float) -> Kept:
        """Return what is done for the next group."""
        if self._is_late(group, now_s):
            self.late.add(group.whole)
            return Kept(room=True, released=False)
        if group.backs_off:
            return Kept(group.is_released, released=False)
        if group.fits:
            return Kept(room=True, released=True)
        on = self.patient(now_s, group.whole)
        return Kept(on or group.is_released, on and group.fits_watts)

    def patient(self, now_s: float, whole: str = "") -> bool:
        """Return whether the next job that does not fit has a turn; ``whole`` is empty for one without watts."""
        on = not self._waits and self._has_turn(whole, now_s)
        self._waits = True
        return on

    def _is_late(self, group: ComponentGroup, now_s: float) -> bool:
        """Whether a released job has had its time; one that does not fit has its turn instead."""
        if group.blocked:
            return now_s - group.released_s > min(BLOCKED_S, self.timeout_s)
        if not (group.fits and group.is_released):
            self._fits_s.pop(group.whole, None)
            return False
        return now_s - self._fits_s.setdefault(group.whole, now_s) > self.timeout_s

    def _has_turn(self, whole: str, now_s: float) -> bool:
        """Whether the oldest job that does not fit has a turn now; begins one where the pause after the last is over.

        A job that becomes the oldest during the turn of another has the rest of it.
        """
        if now_s >= self._until_s + self._length_s:
            again = whole and whole == self._whose
            self._length_s = min(2.0 * self._length_s, LONGEST_TURN_S) if again else self.timeout_s
            self._until_s, self._whose = now_s + self._length_s, whole
        return now_s < self._until_s


def orphans(jobs: Iterable[Job], components: Iterable[Job]) -> list[Job]:
    """Return those of the ``components`` that wait and whose first one is no longer among ``jobs``.

    ``components`` are none of the first ones.

    A restart of slurmctld forgets a job whose first component names a partition that was deleted, and keeps the others.
    Slurm plans nodes for them all the same.
    """
    waiting = [row for row in components if row.pending]
    first = {row.whole for row in jobs if row.whole and row.component == 0} if waiting else set()
    return [row for row in waiting if row.whole not in first]


def left_over(components: Iterable[Job]) -> list[JobGoal]:
    """Return goals that hold these orphans, each by its own number."""
    return [JobGoal(row.key, held=True, why=ORPHANED, component_only=True) for row in components if not row.held]


def complete_jobs(layout: Layout, nodes: Iterable[Node], held: Sequence[Job], aside: Iterable[Job]) -> set[str]:
    """Return the jobs whose components all carry the watts that their nodes can draw, so that they may be released.

    ``held`` are the components that are held for the controller, ``aside`` the pending jobs of which it decides
    nothing. A job waits for a component that somebody else holds, or that cannot be given watts.
    """
    if not held:
        return set()
    most_w, ours = _dearest(layout, nodes), {row.key for row in held}
    waits = {
        row.whole for row in (*held, *aside)
        if row.whole and (_falls_short(row, most_w) or (row.held and row.key not in ours))
    }  # fmt: skip
    return {row.whole for row in held} - waits


def given_watts(layout: Layout, nodes: Iterable[Node], held: Sequence[Job]) -> list[JobGoal]:
    """Return the watts of components that carry too few, of those that are held for the controller.

    Too few: none, or those of other partitions and nodes that an administrator has changed since.
    """
    if not held:
        return []
    most_w = _dearest(layout, nodes)
    short = (row for row in held if _falls_short(row, most_w))
    return [JobGoal(row.key, watts=_counted_w(row, most_w), why="a component of a job") for row in short]


def released(held: Sequence[Job], let_go: Collection[str]) -> list[JobGoal]:
    """Return the release of each of these jobs, of which ``held`` are the held components."""
    free = [row for row in held if row.whole in let_go]
    return _for_each_job(free, "heterogeneous jobs are scheduled by Slurm", held=False)


def held_again(waiting: Sequence[Job]) -> list[JobGoal]:
    """Return the hold of each job of these released components."""
    return _for_each_job(waiting, "its components cannot start together now", held=True)


def _for_each_job(components: Sequence[Job], why: str, *, held: bool) -> list[JobGoal]:
    """Return a goal for each job of these components, by its first one: one write holds or releases all."""
    return [*{row.whole: JobGoal(row.key, held=held, why=why) for row in reversed(components)}.values()]


def _dearest(layout: Layout, nodes: Iterable[Node]) -> dict[str, int]:
    """Return the net watts of the dearest managed node of each partition of the cluster; 0 where it has none.

    A partition that the machine file does not name may hold managed nodes: its jobs count, too.
    """
    found: dict[str, int] = {}
    for node in nodes:
        unit = layout.unit.get(node.name)
        watts = 0 if unit is None else layout.most_net_w(layout.row_of(unit))
        for name in node.partitions:
            found[name] = max(found.get(name, 0), watts)
    return found


def _falls_short(row: Job, most_w: dict[str, int]) -> bool:
    """Whether a waiting component carries fewer watts than its nodes can draw."""
    return max(row.watts, 0) < _counted_w(row, most_w)


def _counted_w(row: Job, most_w: dict[str, int]) -> int:
    """Return the net watts of the most nodes that a waiting job may get, in the dearest of its partitions.

    A partition without any node, which a restart of slurmctld may have forgotten, counts as the dearest of all.
    """
    dearest = max(most_w.values(), default=0)
    watts = max((most_w.get(name, dearest) for name in row.partition.split(",")), default=0)
    return watts * max(row.nodes, row.most_nodes)
