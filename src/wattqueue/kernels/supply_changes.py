"""What running jobs and idle nodes take from power domains, where that changes while they stand (rule 22).

A job that gets another frequency, that device limits slow, that is suspended or measured counts other watts in the
domains of its units from then on (``recount_job``). A node that stops or boots counts the watts of its state, once
(``change_standing``). What raises watts by an action is refused where a domain has no room for it
(``listed_fit_domains``, ``standing_fits``); ``marks[REFUSER]`` says which one.
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import as_int64, kernel, separate
from wattqueue.kernels.running import running_net
from wattqueue.kernels.state import KernelView, Truth
from wattqueue.kernels.supply import list_leaves, list_units, move_listed, running_each, touch, variance_of
from wattqueue.kernels.supply_load import (
    BY_UNIT,
    GIVEN,
    REFUSER,
    counted,
    each_of,
    left_with,
    load_now,
    load_tried,
    take_listed,
    take_path,
)


class StandingNode(NamedTuple):
    """What a node without a job counts: so many times so many microwatts. Its units each idle, or the node once."""

    times: int
    uw: int


@separate
def recount_job(view: KernelView, job: int, before: int, after: int, variance: float) -> None:
    """Count a running job at ``after`` net microwatts, no more at ``before``, in the domains of its units.

    ``variance``: its own was that before, as a share of that at its start.
    """
    supply = view.supply
    move_listed(supply, list_leaves(view, job), running_each(view, job, before), variance, as_int64(-1))
    if supply.marks[BY_UNIT] != 0:
        note_figures(view, job, after)
    move_listed(supply, list_leaves(view, job), running_each(view, job, after), variance_of(view, job), as_int64(1))
    supply.marks[GIVEN] = 1


@kernel
def note_figures(view: KernelView, job: int, net: int) -> None:
    """Take over what each unit of a running job counts by the samples of now; of a suspended one all the same."""
    held, unit, even = view.held, view.supply.unit, each_of(net, int(view.nodes[job]))
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for one in range(held.low[k], held.high[k] + 1):
            unit.counted[one] = even if held.parked[job] != 0 else unit.fresh[one]


@kernel
def has_moved(view: KernelView, job: int) -> bool:
    """Return whether some unit of a running job would count other watts by the samples of now."""
    held, unit = view.held, view.supply.unit
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for one in range(held.low[k], held.high[k] + 1):
            if unit.counted[one] != unit.fresh[one]:
                return True
    return False


@separate
def count_idle_unit(view: KernelView, one: int, uw: int) -> None:
    """Count a unit without a job at ``uw`` microwatts above idle watts in its domains."""
    supply = view.supply
    leaf, before = as_int64(supply.leaf_of[one]), as_int64(supply.unit.idle_above[one])
    if uw != before:
        domain = as_int64(supply.leaf_domain[leaf])
        take_path(supply, domain, before, as_int64(-1), supply.room)
        take_path(supply, domain, uw, as_int64(1), supply.room)
        supply.unit.idle_above[one] = uw
        supply.marks[GIVEN] = 1
        touch(supply, leaf)


@separate
def listed_fit_domains(view: KernelView, truth: Truth) -> bool:
    """Return whether the listed jobs fit at their new watts (``devices.net``) under all domains.

    Not where a domain would count more than now, and more than its limit.
    """
    supply, devices = view.supply, truth.devices
    tried, now = load_tried(supply), load_now(supply, as_int64(0))
    supply.marks[REFUSER] = 0
    for domain in range(len(supply.room)):
        tried.room[domain] = now.room[domain]
        tried.drawn[0, domain], tried.drawn[1, domain] = now.drawn[0, domain], now.drawn[1, domain]
    for k in range(truth.loop.listed):
        job, net = as_int64(devices.job[k]), as_int64(devices.net[k])
        before, variance = running_net(view, job), variance_of(view, job)
        if net != before or (supply.marks[BY_UNIT] != 0 and has_moved(view, job)):
            leaves = list_leaves(view, job)
            take_listed(supply, leaves, running_each(view, job, before), variance, as_int64(-1), tried)
            leaves = list_units(view, job, supply.unit.fresh)
            take_listed(supply, leaves, running_each(view, job, net), variance, as_int64(1), tried)
    for domain in range(len(supply.room)):
        left = left_with(supply, as_int64(domain), tried, as_int64(0))
        if left < 0 and left < left_with(supply, as_int64(domain), now, as_int64(0)):
            supply.marks[REFUSER] = domain + 1
            return False
    return True


@kernel
def change_free(view: KernelView, unit: int, sign: int) -> None:
    """Count a unit that takes jobs again (1), or no more (-1)."""
    leaf = as_int64(view.supply.leaf_of[unit])
    view.supply.free[leaf] += sign
    view.supply.marks[GIVEN] = 1
    touch(view.supply, leaf)


@kernel
def change_standing(view: KernelView, unit: int, before: StandingNode, after: StandingNode) -> None:
    """Count another state of the node of ``unit`` in its domains."""
    supply = view.supply
    leaf = as_int64(supply.leaf_of[unit])
    domain = as_int64(supply.leaf_domain[leaf])
    take_path(supply, domain, before.uw, -before.times, supply.room)
    take_path(supply, domain, after.uw, after.times, supply.room)
    supply.marks[GIVEN] = 1
    touch(supply, leaf)


@kernel
def standing_fits(view: KernelView, unit: int, before: StandingNode, after: StandingNode) -> bool:
    """Return whether all domains have room for another state of the node of ``unit``; for less they always have."""
    supply = view.supply
    domain, now, tried = (
        as_int64(supply.leaf_domain[supply.leaf_of[unit]]),
        load_now(supply, as_int64(0)),
        load_tried(supply),
    )
    supply.marks[REFUSER] = 0
    while domain >= 0:
        gain = float(supply.gain[domain])
        more = after.times * counted(after.uw, gain) - before.times * counted(before.uw, gain)
        tried.room[domain] = now.room[domain] - more
        tried.drawn[0, domain], tried.drawn[1, domain] = now.drawn[0, domain], now.drawn[1, domain]
        left = left_with(supply, domain, tried, as_int64(0))
        if left < 0 and left < left_with(supply, domain, now, as_int64(0)):
            supply.marks[REFUSER] = domain + 1
            return False
        domain = as_int64(supply.parent[domain])
    return True
