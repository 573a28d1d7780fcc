"""Find what a person should act on in a round: the same figures for status, log, metrics and alerts.

Each condition is a figure that is 0 in normal operation (``Conditions``), and has a line for the status and the log
(``lines``), a gauge (``live.reports.metrics``) and an alert (``share/alerts.yml``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.planner import RoundState
from wattqueue.live.state.memory import STUCK_AFTER, Refused
from wattqueue.live.table import Stage

NAMED = 3
"""Jobs that one line names at most."""
TOLERANCE_W = 1.0
"""Licences are whole watts, so a sum of them may exceed a cap in fractions by less than this."""


class Conditions(NamedTuple):
    """Conditions of one round."""

    over_cap_w: float = 0.0
    """Counted watts above the cap that the site states, load targets aside."""
    over_target_w: float = 0.0
    """Counted watts above a load target, or above the limit that rises after one, where that is below the cap."""
    cap_below_idle_w: float = 0.0
    """Watts by which the cap is below what counts without any job: idle nodes, and shared ones."""
    cap_unreadable: bool = False
    """Whether the content of the cap's file is not in force."""
    foreign: tuple[str, ...] = ()
    """Jobs that wait on managed nodes and that Slurm schedules."""
    unlicensed: tuple[str, ...] = ()
    """Jobs that run on managed nodes without watts: Slurm does not count them."""
    stuck: tuple[Refused, ...] = ()
    """Jobs whose start failed again and again."""
    failed: tuple[str, ...] = ()
    """Jobs that are held since their launch failed."""
    shared_w: float = 0.0
    """Watts that shared nodes count."""
    orphans: tuple[str, ...] = ()
    """Components of jobs whose first component is gone."""
    never: tuple[str, ...] = ()
    """Jobs that are set aside since they can start under no limit to come, each with the reason (rule 19)."""
    target: str = ""
    """What limits below the cap: ``load target``, or ``limit after the load target``; empty where nothing does."""
    over_measured_w: float = 0.0
    """Measured watts above the cap without load targets."""
    did: str = ""
    """What was done since they are."""

    def lines(self, stated_w: float, alone_w: float, *, observing: bool = False) -> list[str]:
        """Return a line for each condition that holds; ``observing``: the controller controls nothing.

        ``stated_w`` is the limit in force, ``alone_w`` the cap without load targets.
        """
        found = []
        if self.cap_below_idle_w:
            shared = f" and shared ones count ({self.shared_w:,.0f} W)" if self.shared_w else ""
            way_out = "; drain shared nodes to let other jobs start" if self.shared_w else ""
            found.append(
                f"the {self.target or 'cap'} of {stated_w:,.0f} W is {self.cap_below_idle_w:,.0f} W below what idle "
                f"nodes draw{shared}: the pool is closed, and it cannot be held{way_out}"
            )
        reason = "nothing is controlled in this mode" if observing else "nothing starts, and no running job is ended"
        if self.over_cap_w:
            found.append(f"counted power is {self.over_cap_w:,.0f} W above the cap of {alone_w:,.0f} W: {reason}")
        if self.over_target_w:
            found.append(
                f"counted power is {self.over_target_w:,.0f} W above the {self.target} of {stated_w:,.0f} W: {reason}; "
                "only jobs whose users consent are slowed down or parked"
            )
        if self.over_measured_w:
            found.append(
                f"measured power is {self.over_measured_w:,.0f} W above the cap of {alone_w:,.0f} W: {self.did}"
            )
        for names, verbs, what in (
            (self.unlicensed, ("runs", "run"), "without watts, taken off the pool at the maximum of the nodes"),
            (self.foreign, ("waits", "wait"), "for Slurm alone (no watts, or several components)"),
            (self.orphans, ("stays", "stay"), "held: the first component is gone, so nobody can start or cancel it"),
            (self.failed, ("waits", "wait"), "for a person, held because the launch failed"),
            (self.never, ("is", "are"), "set aside until the highest limit to come rises"),
        ):
            if names:
                found.append(f"{_count(names)} {verbs[len(names) > 1]} {what}: {_first(names)}")
        found += [f"job {r.key.name} failed to start {r.times} times: {r.reason}" for r in self.stuck[:NAMED]]
        if len(self.stuck) > NAMED:
            found.append(f"and {len(self.stuck) - NAMED} more jobs failed to start")
        return found


def conditions(plan: RoundState) -> Conditions:
    """Return the conditions of a round."""
    jobs, planner = plan.jobs, plan.planner
    stuck = tuple(
        sorted((r for r in planner.memory.refused.values() if r.times >= STUCK_AFTER), key=lambda r: (-r.times, r.key))
    )
    # while the cap's file could not be read since the start nothing can be compared with a cap
    stated_w, alone_w = (math.inf, math.inf) if plan.cap_unknown else (plan.stated_w, plan.alone_w)
    target = "load target" if plan.in_target else "limit after the load target"
    holders = jobs.rows(plan.holding[: plan.holders]) if planner.rules.mode == "control" else []
    return Conditions(
        _above(plan.counted_w, alone_w),
        _above(plan.counted_w, stated_w) if stated_w < alone_w else 0.0,
        max(0.0, plan.idle_w - stated_w),
        plan.cap_problem != "",
        _names(plan.rows_at(Stage.FREE, Stage.STALLED)),
        _names([row for row in holders if row.watts < 0]),
        stuck,
        _names([row for row in plan.snapshot.jobs if row.held_by == "failed"]),
        plan.shared.watts,
        _names(plan.rows_at(Stage.ORPHANED)),
        tuple(f"{jobs.name[slot]} ({why})" for slot, why in plan.never.items()),
        target if stated_w < alone_w else "",
        0.0 if plan.cap_unknown else planner.above.over_w,
        planner.above.words(),
    )


def _above(watts: float, limit_w: float) -> float:
    """Return by how much watts exceed a limit, 0 within the tolerance."""
    return watts - limit_w if watts - limit_w > TOLERANCE_W else 0.0


def _names(rows: Sequence[Job]) -> tuple[str, ...]:
    """Return the names of jobs in the order of their submission."""
    keys: list[JobKey] = sorted((row.key for row in rows), key=lambda key: (key.submit_s, key.name))
    return tuple(key.name for key in keys)


def _count(names: Sequence[str]) -> str:
    return "1 job" if len(names) == 1 else f"{len(names):,} jobs"


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
