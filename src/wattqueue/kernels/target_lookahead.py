"""The next load target, seen from before it: what is left over when it begins (rule 13 of docs/semantics.md).

A pass that looks ahead treats the begin of an announced target as a reservation of watts: an entry that would still run
then starts only if its watts fit beside what is planned to run then. ``AHEAD_LEFT`` is computed at the begin of each
pass from what runs, and shrinks with the starts of the pass.

With ``AHEAD_SLOWED`` a job counts there at the last option to which its user consents, to which a control may slow it
when the target begins; with ``AHEAD_AS_RUN`` at the option at which it runs.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel
from wattqueue.kernels.consent import first_option, last_option, slowed_option
from wattqueue.kernels.entries import equal_net, wall_s
from wattqueue.kernels.state import KernelView

INF = float("inf")


@kernel
def look_ahead(view: KernelView) -> None:
    """Compute the microwatts that are left over when the next announced target begins."""
    running, time = view.running, view.now.ahead_s
    if time == INF:
        return  # everything has ended by then
    left = view.now.ahead_cap_uw - view.now.base_uw - view.now.idle_above_uw
    for at in range(view.now.blocks):
        block = as_int64(running.order[at])
        if running.last_end[block] > time:
            for k in range(running.filled[block]):
                if running.end[block, k] > time:
                    left -= running_ahead(view, as_int64(running.job[block, k]), as_int64(running.net[block, k]))
    view.now.ahead_left_uw = left


@kernel
def running_ahead(view: KernelView, job: int, net: int) -> int:
    """Return the net microwatts of a running job when the target begins; ``net`` is what it counts now."""
    if view.now.looks_ahead != codes.AHEAD_SLOWED:
        return net
    option = as_int64(view.held.option[job])
    entry = as_int64(view.entries.of_job[job, view.units.option_partition[option]])
    if entry < 0:
        return net  # a snapshot that does not state its window
    return min(net, equal_net(view, job, as_int64(slowed_option(view, entry, option))))


@kernel
def starting_ahead(view: KernelView, entry: int, job: int, option: int) -> int:
    """Return the net microwatts of an entry when the target begins, started now at ``option``; 0 if it has ended."""
    if view.now.time_s + wall_s(view, job, option) <= view.now.ahead_s:
        return 0
    if view.now.looks_ahead == codes.AHEAD_SLOWED:
        return equal_net(view, job, as_int64(slowed_option(view, entry, option)))
    return equal_net(view, job, option)


@kernel
def fits_ahead(view: KernelView, entry: int, job: int, option: int) -> bool:
    """Return whether an entry that starts now at ``option`` has ended, or fits, when the next target begins."""
    needed = starting_ahead(view, entry, job, option)
    return bool(needed == 0 or needed <= view.now.ahead_left_uw)


@kernel
def take_ahead(view: KernelView, entry: int, job: int, option: int) -> None:
    """Count a start at the begin of the next target; before ``start_entry``, which takes the units."""
    view.now.ahead_left_uw -= starting_ahead(view, entry, job, option)


@kernel
def is_held_back(view: KernelView, entry: int) -> bool:
    """Return whether the next target alone keeps an entry from starting at any of its options, free units or not."""
    job = as_int64(view.entries.job[entry])
    for option in range(first_option(view, entry), last_option(view, entry) + 1):
        if fits_ahead(view, entry, job, as_int64(option)):
            return False
    return True
