"""Keep room for jobs that wait and may start at any moment, and start those of reservations.

What waits is no power, but it may start before the next round: nodes and watts that it would take are kept for it, so
that the policy starts nobody else on them (semantics, rule 2). The jobs that the controller released were given their
room by the policy. Of the others (several components, no watts) the policy did not ask whether they fit:

- jobs of several components: ``live.components`` decides when they are released, and for how long they keep room;
- jobs without watts that fit keep their room: the resource manager starts them at once. Of those that do not fit, and
  of the jobs of several components that do not, the oldest keeps what is free, for a time.

Jobs that the site's rules (``live.site``) keep from starting are barred for this round, so that they take neither nodes
nor watts from others; like a job at an association's limit in Slurm, they get no reservation either. Jobs of a
reservation are started before the policy is asked, on the reservation's nodes, as Slurm puts them before all others:
those nodes serve nobody else, so the policy could not decide anything but to start them. They wait only for watts, in
the order of their submission.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection

import numpy as np

from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import Job
from wattqueue.live.components import ComponentGroup, Kept, complete_jobs
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.site import barred
from wattqueue.live.stages.occupy import keep_units
from wattqueue.live.table import Owner, Stage
from wattqueue.parts.actions import StartJob

RESERVED = frozenset({"reserved", "maint"})
"""States of nodes that only jobs of a reservation can use."""


@stage(
    reads="snapshot running under_way waiting pool_w bare_w held_w elsewhere_w holders withheld jobs.row jobs.request "
    "jobs.owner jobs.since_s",
    writes="holding taken reserved_w without_nodes_w let_go free_nodes reserved waiting planned_s jobs.stage "
    "jobs.reason jobs.part jobs.option jobs.net_w jobs.units jobs.intervals jobs.end_s jobs.variance_left "
    "jobs.placed_row",
)
def reserve(now: RoundState) -> None:
    """Keep nodes and watts for jobs under way, bar what the site's rules bar, and start jobs of reservations."""
    open_w = math.inf if now.pool_w is None else now.pool_w + now.bare_w - now.held_w - now.elsewhere_w
    jobs, released = now.jobs, [slot for slot in now.under_way if now.jobs.stage[slot] != Stage.FREE]
    for slot in released:
        _keep(now, slot, now.planner.layout.of_job(jobs.row[slot]))
    now.without_nodes_w = _keep_for_others(now, open_w - _kept_w(now))
    now.reserved_w = float(_kept_w(now) + now.without_nodes_w)
    room_w = open_w - now.reserved_w
    if not now.snapshot.site.empty:
        for slot in _bar(now):
            room_w -= _start_reserved(now, slot, room_w)
        now.waiting = jobs.waiting()
    now.planned_s = now.planner.predictor.expect_ends(jobs, np.array(now.holding, np.int64), now.now_s)


def _kept_w(now: RoundState) -> int:
    """Return the watts that are kept for jobs that wait, with their nodes."""
    return int(now.jobs.net_w[np.array(now.holding[now.holders :], np.int64)].sum())


def _keep(now: RoundState, slot: int, part: int) -> int:
    """Keep nodes of a partition and watts for a job that waits; return the watts of one for which no node is free.

    ``part``: -1 for one whose nodes nobody knows.
    """
    layout = now.planner.layout
    row: Job = now.jobs.row[slot]
    if part < 0:
        return max(row.watts, 0)
    # an adopted or foreign job has no stored release: its partition's first option, its own watts
    placed = now.planner.memory.placed.get(row.key)
    option = placed.option if placed is not None else int(layout.machine.option_start[part])
    wanted = row.requested or (expand(placed.nodes) if placed is not None else ())
    net_w = row.watts if row.watts >= 0 else layout.most_of(part, row)
    return 0 if keep_units(now, slot, part, option, net_w, wanted) else max(row.watts, 0)


def _keep_for_others(now: RoundState, room_w: float) -> int:
    """Keep room for the jobs that only the resource manager schedules; return watts that are kept without nodes.

    ``room_w`` are the watts that no job holds.
    """
    jobs, turns = now.jobs, now.planner.turns
    waiting = _scheduled_elsewhere(now)
    turns.begin_round({rows[0].whole for _, rows in waiting if rows[0].whole})
    if not waiting:
        return 0
    layout, without_nodes_w, let_go = now.planner.layout, 0, set[str]()
    usable = np.flatnonzero(now.planner.nodes.usable)
    left = Counter(layout.row_of(int(unit)) for unit in usable if unit not in now.taken)
    for slots, rows in waiting:
        parts = _choose_parts(now, rows, left)
        nodes = Counter[int]()
        for row, part in zip(rows, parts, strict=True):
            nodes[part] += row.nodes if part >= 0 else 0
        # one that carries no watts asks for none, and starts as soon as it has its nodes
        watts = sum(max(row.watts, 0) for row in rows)
        fits_nodes = all(left[part] >= count for part, count in nodes.items())
        kept = _ask(now, slots, rows, fits_watts=watts <= room_w, fits_nodes=fits_nodes)
        if kept.released:
            let_go.add(rows[0].whole)
        if kept.room:
            without_nodes_w += sum(_keep(now, slot, part) for slot, part in zip(slots, parts, strict=True))
            left.subtract(nodes)
            room_w -= watts
    now.let_go = frozenset(let_go)
    for slot in jobs.at([Stage.FREE], Owner.HANDED_OVER):
        if jobs.row[slot].whole not in now.let_go:
            jobs.stage[slot] = Stage.STALLED
    return without_nodes_w


def _scheduled_elsewhere(now: RoundState) -> list[tuple[list[int], list[Job]]]:
    """Return the waiting jobs that only the resource manager schedules, with their components, from the oldest on.

    Those that may start at any moment, and those of several components that the controller may release.
    """
    jobs, snapshot = now.jobs, now.snapshot
    # under power domains Slurm would place them anywhere, so they stay held
    held = jobs.at([Stage.HELD], Owner.HANDED_OVER) if now.planner.domains is None else []
    free = [slot for slot in now.under_way if jobs.stage[slot] == Stage.FREE]
    if not (held or free):
        return []
    undecided = jobs.undecided()
    complete = complete_jobs(now.planner.layout, snapshot.nodes, jobs.rows(held), jobs.rows(undecided))
    may_start = set(free)
    wholes = {jobs.row[slot].whole for slot in free if jobs.row[slot].whole} | complete
    groups: dict[str, list[int]] = {}
    for slot in undecided:
        row = jobs.row[slot]
        if slot in may_start or (row.held and row.whole in wholes):  # a stray component has its room already
            groups.setdefault(row.target, []).append(slot)
    return [(group, jobs.rows(group)) for group in groups.values()]


def _ask(now: RoundState, slots: list[int], rows: list[Job], *, fits_watts: bool, fits_nodes: bool) -> Kept:
    """Return whether room is kept for a job that only the resource manager schedules, and whether it is released."""
    turns, refused = now.planner.turns, now.planner.memory.refused.get(rows[0].key)
    if not rows[0].whole:
        return Kept((fits_watts and fits_nodes) or turns.patient(now.now_s), released=True)
    if now.planner.domains is not None:  # whoever released it
        return Kept(room=True, released=False)
    free = [slot for slot, row in zip(slots, rows, strict=True) if not row.held]
    since_s = min(now.jobs.since_s[free].tolist(), default=math.inf)
    blocked, backs_off = any(row.blocked for row in rows), refused is not None and now.now_s < refused.until_s
    group = ComponentGroup(rows[0].whole, since_s, blocked, backs_off, fits_watts, fits_nodes)
    return turns.ask(group, now.now_s)


def _choose_parts(now: RoundState, rows: list[Job], left: Counter[int]) -> list[int]:
    """Return the machine's partition for each component: the first with enough free nodes of those that it may use.

    A partition that the machine file does not name may hold managed nodes. -1 where it holds none.
    """
    layout, free, out = now.planner.layout, left.copy(), []
    for row in rows:
        allowed: Collection[int] = layout.allowed(row.partition)
        if not allowed and row.watts > 0:
            names = set(row.partition.split(","))
            found = (layout.unit.get(one.name) for one in now.snapshot.nodes if not names.isdisjoint(one.partitions))
            allowed = {layout.row_of(unit) for unit in found if unit is not None}
        part = max(allowed, key=lambda part: (free[part] >= row.nodes, -part), default=-1)
        free[part] -= row.nodes
        out.append(part)
    return out


def _bar(now: RoundState) -> list[int]:
    """Bar the jobs that the site's rules keep from starting; return those of reservations that they do not."""
    jobs, site, names = now.jobs, now.snapshot.site, now.planner.layout.names
    busy = {names[unit] for unit in now.taken}
    usable = (node.name for node in now.snapshot.nodes if node.usable or node.state in RESERVED)
    now.free_nodes = frozenset(usable) - busy
    waiting = now.waiting.tolist()
    found = barred(site, jobs.rows(waiting), jobs.rows((*now.running, *now.under_way)), now.free_nodes)
    own = [slot for slot in waiting if jobs.row[slot].key in site.reserved and jobs.row[slot].key not in found]
    for slot in own:
        jobs.bar(slot, "")
    for key, reason in found.items():
        jobs.bar(jobs.slot[key], reason)
    return own


def _start_reserved(now: RoundState, slot: int, room_w: float) -> int:
    """Start a job of a reservation on free nodes of it, if they and ``room_w`` suffice; return its watts."""
    planner, row = now.planner, now.jobs.row[slot]
    layout, figures = planner.layout, planner.predictor.of(row.key)
    names = now.snapshot.site.reserved[row.key] & now.free_nodes
    units = sorted(u for u in map(layout.unit.get, names) if u is not None and u not in now.taken)
    found = _units_in_one_partition(now, units, row)
    if figures is None or found is None:
        return 0
    part, mine = found
    option = int(layout.machine.option_start[part])
    start = StartJob(row.key.name, part, mine, option)
    chosen = planner.placement.chosen(row, start, figures, named=False)
    if chosen.watts > room_w:
        return 0
    keep_units(now, slot, part, option, chosen.watts, [layout.names[unit] for unit in mine])
    now.reserved.append(chosen)
    return chosen.watts


def _units_in_one_partition(now: RoundState, units: list[int], row: Job) -> tuple[int, tuple[int, ...]] | None:
    """Return a partition of the machine that has enough of these units for a job, and the first of them there."""
    parts = np.searchsorted(now.planner.layout.first, units, side="right") - 1
    for part in np.unique(parts):
        mine = [unit for unit, one in zip(units, parts, strict=True) if one == part]
        if len(mine) >= row.nodes:
            return int(part), tuple(mine[: row.nodes])
    return None
