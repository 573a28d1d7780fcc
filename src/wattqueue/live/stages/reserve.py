"""Keep room for jobs that wait and may start at any moment, and start those of reservations.

What waits is no power, but it may start before the next round: nodes and watts that it would take are kept for it, so
that the policy starts nobody else on them (semantics, rule 2). The jobs that the controller released were given their
room by the policy. Of the others (several components, no watts) nobody asked whether they fit:

- those that fit beside all that runs and is kept before them keep their room: the resource manager starts them at once;
- of those that do not fit, the oldest keeps what is free of its nodes and watts for ``start_timeout_s``. Then none does
  for as long, however many wait: else a stream of them would keep the policy from starting anything.

Jobs that the site's rules (``live.site``) keep from starting are barred for this round, so that they take neither nodes
nor watts from others; like a job at an association's limit in Slurm, they get no reservation either. Jobs of a
reservation are started before the policy is asked, on the reservation's nodes, as Slurm puts them before all others:
those nodes serve nobody else, so the policy could not decide anything but to start them. They wait only for watts, in
the order of their submission.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from wattqueue.formats.slurm.hostlist import expand
from wattqueue.live.cluster import Job
from wattqueue.live.planner import RoundState, stage
from wattqueue.live.site import barred
from wattqueue.live.stages.occupy import keep_units
from wattqueue.live.table import Stage
from wattqueue.parts.actions import StartJob

RESERVED = frozenset({"reserved", "maint"})
"""States of nodes that only jobs of a reservation can use."""


@stage(
    reads="snapshot running under_way waiting pool_w bare_w held_w elsewhere_w holders withheld jobs.row jobs.request",
    writes="holding taken reserved_w free_nodes reserved waiting planned_s jobs.stage jobs.reason jobs.part "
    "jobs.option jobs.net_w jobs.units jobs.intervals jobs.end_s jobs.variance_left jobs.placed_row",
)
def reserve(now: RoundState) -> None:
    """Keep nodes and watts for jobs under way, bar what the site's rules bar, and start jobs of reservations."""
    room_w = math.inf if now.pool_w is None else now.pool_w + now.bare_w - now.held_w - now.elsewhere_w
    jobs, released = now.jobs, [slot for slot in now.under_way if now.jobs.stage[slot] != Stage.FREE]
    for slot in released:
        _keep(now, slot)
    room_w -= _kept_w(now)
    for slot in _with_room(now, room_w):
        _keep(now, slot)
    now.reserved_w = float(_kept_w(now))
    if now.pool_w is not None:
        room_w = now.pool_w + now.bare_w - now.held_w - now.elsewhere_w - now.reserved_w
    if not now.snapshot.site.empty:
        for slot in _bar(now):
            room_w -= _start_reserved(now, slot, room_w)
        now.waiting = jobs.waiting()
    now.planned_s = now.planner.predictor.expect_ends(jobs, np.array(now.holding, np.int64), now.now_s)


def _kept_w(now: RoundState) -> int:
    """Return the watts that are kept for jobs that wait."""
    return int(now.jobs.net_w[np.array(now.holding[now.holders :], np.int64)].sum())


def _keep(now: RoundState, slot: int) -> None:
    """Keep nodes and watts for a job that waits and that may start at any moment."""
    # an adopted or foreign job has no stored release: its partition's first option, its own watts
    layout, row = now.planner.layout, now.jobs.row[slot]
    placed, part = now.planner.memory.placed.get(row.key), layout.of_job(row)
    option = placed.option if placed is not None else int(layout.machine.option_start[part])
    wanted = row.requested or (expand(placed.nodes) if placed is not None else ())
    net_w = row.watts if row.watts >= 0 else layout.most_of(part, row)
    keep_units(now, slot, part, option, net_w, wanted)


def _with_room(now: RoundState, room_w: float) -> list[int]:
    """Return the jobs that only the resource manager schedules for which room is kept; ``room_w`` no job holds."""
    jobs, layout = now.jobs, now.planner.layout
    groups: dict[str, list[int]] = {}
    for slot in now.under_way:
        if jobs.stage[slot] == Stage.FREE:
            groups.setdefault(jobs.row[slot].target, []).append(slot)
    if not groups:
        return []
    usable = np.flatnonzero(now.planner.nodes.usable)
    left = Counter(layout.row_of(int(unit)) for unit in usable if unit not in now.taken)
    out, waits = list[int](), False
    for group in groups.values():
        nodes = Counter[int]()
        for row in jobs.rows(group):
            nodes[layout.of_job(row)] += row.nodes
        # one that carries no watts asks for none, and starts as soon as it has its nodes
        watts = sum(max(row.watts, 0) for row in jobs.rows(group))
        fits = watts <= room_w and all(left[part] >= count for part, count in nodes.items())
        if fits or (not waits and _patient(now)):
            out += group
            left.subtract(nodes)
            room_w -= watts
        waits = waits or not fits
    return out


def _patient(now: RoundState) -> bool:
    """Whether room is kept now for a job that does not fit; begins such a time if none was for long enough."""
    planner, timeout_s = now.planner, now.planner.rules.start_timeout_s
    if now.now_s >= planner.room_until_s + timeout_s:
        planner.room_until_s = now.now_s + timeout_s
    return now.now_s < planner.room_until_s


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
