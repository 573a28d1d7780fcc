"""Which options a job may start at while a load target is known (rule 20 of docs/semantics.md).

A target limits like a cap, and the pass takes the first option of a window that fits the lower of both. So a target
would slow every job with a window. What a target takes from a job's speed needs the consent of its user: beyond the
last option to which that reaches, a job starts at the first option that fits the cap alone, or waits.

The cap alone is ``now.full_cap_uw``; the limit in force, ``now.cap_uw``, is below it for a target, or for the rise
after one, and for nothing else. A pass that looks ahead, and one in Python, may look at a target before it begins.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined, kernel, separate
from wattqueue.kernels.chance import keeps_margin, margin_uw, square_w
from wattqueue.kernels.entries import entry_partition, equal_net, net_watt, ready_units, units_differ, wall_s, worst_net
from wattqueue.kernels.ledger import available_under
from wattqueue.kernels.state import Array, KernelView

INF = float("inf")


@inlined
def looks_at_target(view: KernelView) -> bool:
    """Return whether this pass may slow a start for a load target: one that limits now, or that it looks ahead to."""
    now = view.now
    if now.cap_uw < now.full_cap_uw:
        return True
    return bool((now.looks_ahead != 0 or now.backfill == codes.CUSTOM) and now.ahead_s < INF)


@inlined
def consent_ends(view: KernelView) -> bool:
    """Return whether the consent of a job may end by itself, so that a pass cannot go on from the last one."""
    if len(view.consent.latest_s) == 0:
        return False
    return bool(looks_at_target(view) or view.now.in_target != 0)


@inlined
def consented_option(view: KernelView, entry: int) -> int:
    """Return the last option to which the consent reaches for a start now: one at which the latest end is met."""
    first, option = as_int64(view.entries.first[entry]), as_int64(view.consent.last[entry])
    if len(view.consent.latest_s) > 0:
        job = as_int64(view.entries.job[entry])
        while option > first and view.now.time_s + wall_s(view, job, option) > view.consent.latest_s[job]:
            option -= 1
    return int(option)


@inlined
def first_option(view: KernelView, entry: int) -> int:
    """Return the first option at which ``entry`` may start now.

    That of its window; with ``by_target`` during a target the last to which the consent reaches, where that is for use
    in targets.
    """
    if view.now.by_target != 0 and view.now.in_target != 0:
        option = as_int64(consented_option(view, entry))
        if option > view.entries.plain[entry]:
            return int(option)
    return int(view.entries.first[entry])


@inlined
def last_option(view: KernelView, entry: int) -> int:
    """Return the last option at which ``entry`` may start now. Where units differ, they must have been chosen."""
    if looks_at_target(view):
        return last_beside_target(view, entry)
    return int(max(as_int64(view.entries.plain[entry]), as_int64(first_option(view, entry))))


@separate
def last_beside_target(view: KernelView, entry: int) -> int:
    """Return the last option at which ``entry`` may start while a target is looked at.

    The first that fits the cap alone, or the last to which the consent reaches, if that is lower in frequency. With
    ``by_target`` what is for use in targets waits for the begin of one.
    """
    last, reach = as_int64(view.entries.plain[entry]), as_int64(consented_option(view, entry))
    if view.now.by_target != 0 and view.now.in_target == 0:
        reach = min(reach, last)
    job = as_int64(view.entries.job[entry])
    free = available_alone(view)
    for option in range(as_int64(view.entries.first[entry]), last):
        if option >= reach and fits_cap_alone(view, net_watt(view, job, option), free):
            return int(option)
    return int(max(last, reach))


@kernel
def available_alone(view: KernelView) -> int:
    """Return the microwatts that starting jobs could take under the cap alone."""
    return available_under(view, as_int64(max(view.now.cap_uw, view.now.full_cap_uw)), as_int64(0))


@kernel
def fits_cap_alone(view: KernelView, net: int, free: int) -> bool:
    """Return whether a job of ``net`` microwatts would fit the cap alone, of which ``free`` are left."""
    if net > free:
        return False
    now = view.now
    if not keeps_margin(view) or now.full_cap_uw >= codes.NO_CAP:
        return True
    more = margin_uw(view, now.ledger_uw + net, now.squares_w2 + square_w(net)) - now.margin_uw
    return bool(net + more <= free)


@inlined
def promised_option(view: KernelView, entry: int) -> int:
    """Return the option that a reservation or a plan counts for ``entry``: the last at which it may start outside of
    targets; with ``by_target`` the last of its window.

    While a target is looked at, the last to which the consent reaches, or if that is less than all outside of targets,
    the first that fits the cap alone when nothing runs: whenever that fits the limit in force, the entry may start at
    it.
    """
    if view.now.by_target != 0:
        return int(view.entries.last[entry])
    plain = as_int64(view.entries.plain[entry])
    if not looks_at_target(view):
        return int(plain)
    reach = as_int64(consented_option(view, entry))
    return int(reach) if reach >= plain else idle_option(view, entry, reach)


@separate
def idle_option(view: KernelView, entry: int, reach: int) -> int:
    """Return the option of ``entry`` on a machine where nothing runs; ``reach`` is the last one consented to."""
    first, last = as_int64(view.entries.first[entry]), as_int64(view.entries.plain[entry])
    free = available_alone(view) + view.now.ledger_uw
    for option in range(first, last):
        if option >= reach and worst_net(view, entry, as_int64(option)) <= free:
            return int(option)
    return int(last)


@inlined
def promised_net(view: KernelView, entry: int) -> int:
    """Return the net microwatts that a reservation or a plan counts for ``entry`` (rule 12 of docs/semantics.md).

    At its promised option, on the worst units of its partition. The entry must be queued, or have been.
    """
    option = as_int64(promised_option(view, entry))
    if units_differ(view):
        if option == view.entries.last[entry]:
            return int(view.by_unit.worst[entry])
        return worst_net(view, entry, option)
    return equal_net(view, as_int64(view.entries.job[entry]), option)


@kernel
def slowed_option(view: KernelView, entry: int, option: int) -> int:
    """Return the option to which a control may slow a job for a target, that runs or starts at ``option``."""
    return max(option, as_int64(view.consent.last[entry]))


@entry
def start_options(view: KernelView, index: int, found: Array) -> int:
    """Write the first and last option at which an entry may start now to ``found`` (2,) int64; return 0.

    For parts in Python. Where units differ and too few are free for the entry: its window.
    """
    p = entry_partition(view, index)
    job = as_int64(view.entries.job[index])
    found[0], found[1] = view.entries.first[index], view.entries.last[index]
    if view.nodes[job] <= view.units.free[p] or not units_differ(view):
        if view.nodes[job] <= view.units.free[p]:
            ready_units(view, p, job)
        found[0], found[1] = first_option(view, index), last_option(view, index)
    return 0
