"""Power domains: limits on what the units of a socket draw together, and the speed that follows.

A limit holds for a domain, a job for its units; cores of several jobs share a socket. So a domain keeps, once for what
jobs really draw and once for what is expected of them, two sums over its units at full speed::

    floor     watts that no limit reduces: idle watts, or what a job draws where that is less
    dynamic   watts above idle

and one speed, at which floor + dynamic speed**alpha is its limit. The speed of a domain follows from its own jobs
alone, also where a job is held back by a slower domain elsewhere; so it does not depend on the order in which domains
are looked at. A job runs at the speed of its slowest domain.

A start or an end on a domain changes its sums, and with them the speed of the others on it: the domain is *touched*.
``list_changed`` computes the speeds of touched domains and lists the jobs on those whose speed changed;
``kernels/speed.py`` continues them. Nobody asks for the owners of units before the first limit, so that a run without
limits pays for nothing here (``keep_owners``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel
from wattqueue.kernels.entries import unit_uw
from wattqueue.kernels.phases import true_unit_uw
from wattqueue.kernels.placement import unit_partition
from wattqueue.kernels.state import Domains, KernelView, Truth, UnitFactorTable

INF = float("inf")
SLOWEST = 0.1  # a limit at or below the floor slows a domain to a tenth, not to a stand-still
TRUE = 0  # rows of the sums and speeds: what jobs really draw
EXPECTED = 1  # and what is expected of them


def new_domains(start: NDArray[np.int32], of_unit: NDArray[np.int32], idle_uw: NDArray[np.int64], jobs: int) -> Domains:
    """Make the domains of a machine on which nothing runs and nothing is limited.

    ``start`` (D + 1,) first unit of each; ``of_unit`` (U,) domain of each unit; ``idle_uw`` (U,) microwatts.
    """
    domains, units = len(start) - 1, len(of_unit)
    floor = np.add.reduceat(idle_uw, start[:-1]) if domains else np.zeros(0, np.int64)
    return Domains(
        start,
        of_unit,
        np.full(domains, INF),
        np.full(units, -1, np.int32),
        np.repeat(floor[np.newaxis], 2, axis=0),
        np.zeros((2, domains), np.int64),
        np.ones((2, domains)),
        np.empty(domains, np.int32),
        np.zeros(domains, np.int8),
        np.empty(units + 1, np.int32),
        np.empty(units + 1, np.int64),
        np.zeros(jobs, np.int8),
    )


@kernel
def keep_owners(view: KernelView, truth: Truth) -> None:
    """Begin to keep the jobs on the units of each domain, and their watts.

    Jobs that were started by an action of this instant join when they begin (``begin_in_domains``).
    """
    if truth.loop.keeps_owners != 0:
        return
    truth.loop.keeps_owners = 1
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            if truth.ends.place[job] >= 0 and view.held.parked[job] == 0:
                count_job(view, truth, job, as_int64(1))


@kernel
def count_job(view: KernelView, truth: Truth, job: int, sign: int) -> None:
    """Let a running job join (1) or leave (-1) its domains at its option; touch those that have a limit."""
    domains, held = truth.domains, view.held
    expected = unit_uw(view.predicted, job, as_int64(view.held.option[job]))
    count_watts(view, truth, as_int64(TRUE), truth.by_unit, job, true_unit_uw(view, truth, job), sign)
    count_watts(view, truth, as_int64(EXPECTED), view.by_unit.factors, job, expected, sign)
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            domains.owner[unit] = job if sign > 0 else -1
    touch_domains(view, truth, job)


@kernel
def touch_domains(view: KernelView, truth: Truth, job: int) -> None:
    """Touch the domains of a running job that have a limit."""
    domains, held = truth.domains, view.held
    if truth.loop.limited == 0:
        return
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for domain in range(domains.of_unit[held.low[k]], domains.of_unit[held.high[k]] + 1):
            if domains.cap_uw[domain] < codes.NO_CAP:
                touch(truth, domain)


@kernel
def count_watts(
    view: KernelView, truth: Truth, kind: int, factors: UnitFactorTable, job: int, uw: int, sign: int
) -> None:
    """Add (1) or take (-1) the watts of a running job at full speed to the sums of its domains.

    ``kind`` is TRUE or EXPECTED, ``factors`` the table of that kind; a unit of factor 1 draws ``uw`` microwatts.
    """
    domains, held = truth.domains, view.held
    idle = view.units.idle_uw[view.units.option_partition[held.option[job]]]
    differ = factors.table.shape[0] > 0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            watt = uw
            if differ:
                watt = round(uw * factors.table[factors.row[job], unit])
            domain = domains.of_unit[unit]
            domains.dynamic_uw[kind, domain] += sign * max(watt - idle, 0)
            domains.floor_uw[kind, domain] += sign * (min(watt, idle) - idle)


@inlined
def touch(truth: Truth, domain: int) -> None:
    """Note that the limit of a domain, or the jobs on it, changed."""
    if truth.domains.mark[domain] == 0:
        truth.domains.mark[domain] = 1
        truth.domains.stale[truth.loop.stale] = domain
        truth.loop.stale += 1


@inlined
def list_job(truth: Truth, job: int) -> None:
    """Add a job to the list of those that may have to continue at another speed."""
    if truth.domains.job_mark[job] == 0:
        truth.domains.job_mark[job] = 1
        truth.domains.job[truth.loop.listed] = job
        truth.loop.listed += 1


@kernel
def clear_list(truth: Truth) -> None:
    """Empty the list of jobs."""
    for k in range(truth.loop.listed):
        truth.domains.job_mark[truth.domains.job[k]] = 0
    truth.loop.listed = 0


@kernel
def list_changed(view: KernelView, truth: Truth) -> None:
    """Compute the speeds of the touched domains; list the jobs on those whose speed changed."""
    domains = truth.domains
    for k in range(truth.loop.stale):
        domain = as_int64(domains.stale[k])
        domains.mark[domain] = 0
        true = domain_speed(view, truth, as_int64(TRUE), domain)
        expected = domain_speed(view, truth, as_int64(EXPECTED), domain)
        if true != domains.speed[TRUE, domain] or expected != domains.speed[EXPECTED, domain]:
            domains.speed[TRUE, domain] = true
            domains.speed[EXPECTED, domain] = expected
            for unit in range(domains.start[domain], domains.start[domain + 1]):
                if domains.owner[unit] >= 0:
                    list_job(truth, as_int64(domains.owner[unit]))
    truth.loop.stale = 0


@inlined
def domain_speed(view: KernelView, truth: Truth, kind: int, domain: int) -> float:
    """Return the relative speed, at most 1, at which a domain just draws its limit.

    Inverts watts = floor + dynamic speed**alpha. A limit at or below the floor gives ``SLOWEST``: no limit stops a job.
    A domain without dynamic watts has none to reduce: it is not slowed.
    """
    domains = truth.domains
    floor, dynamic = domains.floor_uw[kind, domain], domains.dynamic_uw[kind, domain]
    limit = domains.cap_uw[domain]
    if dynamic == 0 or floor + dynamic <= limit:
        return 1.0
    if limit <= floor:
        return SLOWEST
    p = unit_partition(view.units, as_int64(domains.start[domain]))
    alpha = truth.node.alpha[p]
    return float(max(SLOWEST, ((limit - floor) / dynamic) ** (1.0 / alpha)))


@inlined
def job_speed(view: KernelView, truth: Truth, kind: int, job: int) -> float:
    """Return the speed of the slowest domain of a running job, at most 1: ``kind`` is TRUE or EXPECTED."""
    if truth.loop.limited == 0:
        return 1.0
    return slowest_domain(view, truth, kind, job)


@inlined
def slowest_domain(view: KernelView, truth: Truth, kind: int, job: int) -> float:
    """Return the speed of the slowest domain of ``job``."""
    domains, held = truth.domains, view.held
    speed = 1.0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for domain in range(domains.of_unit[held.low[k]], domains.of_unit[held.high[k]] + 1):
            speed = min(speed, domains.speed[kind, domain])
    return speed


@kernel
def least_limit(view: KernelView, truth: Truth, job: int) -> float:
    """Return the lowest limit in microwatts on a power domain of the units that a job holds; inf for none."""
    lowest = INF
    if truth.loop.limited > 0:
        for k in range(view.held.first[job], view.held.first[job] + view.held.pieces[job]):
            for unit in range(view.held.low[k], view.held.high[k] + 1):
                lowest = min(lowest, truth.domains.cap_uw[truth.domains.of_unit[unit]])
    return lowest


@inlined
def set_limit(truth: Truth, domain: int, cap_uw: float) -> None:
    """Put a limit on a domain in force, inf for none; its speed follows in ``list_changed``."""
    before = truth.domains.cap_uw[domain]
    if before == cap_uw:
        return
    truth.loop.limited += int(cap_uw < codes.NO_CAP) - int(before < codes.NO_CAP)
    truth.domains.cap_uw[domain] = cap_uw
    touch(truth, domain)
