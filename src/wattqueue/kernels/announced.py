"""Announced limits, seen from before they come: what is left over when each begins (rule 13 of docs/semantics.md).

A pass that looks ahead treats an announced limit that is lower than the one before it as a reservation of watts: an
entry that would still run when it begins starts only if its watts fit beside what is planned to run then. What is left
over is computed in each pass from what runs, for the limits that some entry reaches into, and shrinks with the starts
of the pass. A limit that is higher than the one before needs no test of its own: what runs only ends.

With ``AHEAD_SLOWED`` a job counts within a load target at the last option to which its user consents, to which a
control may slow it when the target begins; otherwise, and under the cap, at the option at which it runs.

A conservative pass has the announced limits in its plan, rising ones, too (``plan.limit_profile``).
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.chance import margin_uw, square_kept, square_w
from wattqueue.kernels.consent import first_option, last_option, slowed_option
from wattqueue.kernels.entries import equal_net, least_net, net_of, net_watt, unit_uw, units_differ, wall_s
from wattqueue.kernels.first_match import first_from
from wattqueue.kernels.ledger import available_under
from wattqueue.kernels.state import KernelView
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_ahead import hold_announced
from wattqueue.kernels.unit_watts import held_uw


@inlined
def next_row(view: KernelView) -> int:
    """Return the first announced row that begins after now, ``now.ahead_end`` for none."""
    end = as_int64(view.now.ahead_end)
    row = first_from(view.ahead.time_s, as_int64(view.now.ahead_row), end, float(view.now.time_s))
    while row < end and view.ahead.time_s[row] <= view.now.time_s:
        row += 1
    return int(row)


@inlined
def sees_ahead(view: KernelView) -> bool:
    """Return whether this pass looks ahead, and something is announced."""
    return bool(view.now.looks_ahead != 0 and next_row(view) < view.now.ahead_end)


@kernel
def look_ahead(view: KernelView) -> None:
    """Begin a pass that looks ahead: nothing is computed yet of any limit."""
    view.now.ahead_stamp += 1


@inlined
def counts_slowed(view: KernelView, row: int) -> bool:
    """Return whether jobs count at the option to which a control may slow them when the limit of ``row`` begins."""
    return bool(view.now.looks_ahead == codes.AHEAD_SLOWED and view.ahead.in_target[row] != 0)


@kernel
def sum_row(view: KernelView, row: int) -> None:
    """Compute what runs when the limit of ``row`` begins, unless this pass has: net microwatts, and their squares."""
    running, ahead, place = view.running, view.ahead, row - as_int64(view.now.ahead_row)
    if ahead.stamp[place] == view.now.ahead_stamp:
        return
    time, ledger, squares = ahead.time_s[row], as_int64(0), as_int64(0)
    slowed = counts_slowed(view, row)
    for at in range(view.now.blocks):
        block = as_int64(running.order[at])
        if running.last_end[block] > time:
            for k in range(running.filled[block]):
                if running.end[block, k] > time:
                    job, net = as_int64(running.job[block, k]), as_int64(running.net[block, k])
                    net = as_int64(running_ahead(view, job, net, slowed))
                    ledger += net
                    squares += square_kept(view, job, net)
    ahead.stamp[place] = view.now.ahead_stamp
    ahead.ledger_uw[place], ahead.squares_w2[place] = ledger, squares


@kernel
def running_ahead(view: KernelView, job: int, net: int, slowed: bool) -> int:
    """Return the net microwatts of a running job when a limit begins; ``net`` is what it counts now."""
    if not slowed:
        return net
    option = as_int64(view.held.option[job])
    entry = as_int64(view.entries.of_job[job, view.units.option_partition[option]])
    if entry < 0:
        return net  # a snapshot that does not state its window
    option = as_int64(slowed_option(view, entry, option))
    uw = as_int64(unit_uw(view.predicted, job, option))
    total = held_uw(view.held, view.by_unit.factors, job, uw) if units_differ(view) else int(view.nodes[job]) * uw
    return min(net, as_int64(net_of(view, job, option, as_int64(total))))


@kernel
def starting_ahead(view: KernelView, entry: int, job: int, option: int, slowed: bool, best: bool) -> int:
    """Return the net microwatts of an entry when a limit begins that it reaches into, started now at ``option``.

    ``best``: on the best units of its partition; else on those that ``ready_units`` has chosen.
    """
    if slowed:
        option = as_int64(slowed_option(view, entry, option))
    if best:
        return least_net(view, as_int64(view.units.option_partition[option]), job, option)
    return net_watt(view, job, option)


@kernel
def fits_row(view: KernelView, row: int, net: int) -> bool:
    """Return whether a job of ``net`` microwatts fits below the limit of ``row``, beside what runs when it begins.

    With a margin that follows from what runs, that of the jobs that run then: no more than the margin of what runs now
    with that of what starts.
    """
    limit = as_int64(view.ahead.limit_uw[row])
    if net == 0 or limit >= codes.NO_CAP:
        return True
    sum_row(view, row)
    place = row - as_int64(view.now.ahead_row)
    ledger = as_int64(view.ahead.ledger_uw[place])
    left = available_under(view, limit, as_int64(0)) + view.now.ledger_uw - ledger
    if view.now.by_chance != 0:
        then = margin_uw(view, ledger + net, as_int64(view.ahead.squares_w2[place]) + square_w(net))
        left += view.now.margin_uw - then
    return bool(net <= left)


@separate
def fits_ahead(view: KernelView, entry: int, job: int, option: int, best: bool) -> bool:
    """Return whether an entry that starts now at ``option`` has ended, or fits, when each announced limit begins."""
    end = view.now.time_s + wall_s(view, job, option)
    for row in range(next_row(view), as_int64(view.now.ahead_end)):
        if end <= view.ahead.time_s[row]:
            break
        net = as_int64(starting_ahead(view, entry, job, option, counts_slowed(view, row), best))
        if not fits_row(view, as_int64(row), net):
            return False
    return True


@separate
def take_ahead(view: KernelView, entry: int, job: int, option: int) -> None:
    """Count a start in what runs when announced limits begin; before ``start_entry``, which takes the units."""
    end = view.now.time_s + wall_s(view, job, option)
    for row in range(next_row(view), as_int64(view.now.ahead_end)):
        if end <= view.ahead.time_s[row]:
            break
        place = row - as_int64(view.now.ahead_row)
        if view.ahead.stamp[place] == view.now.ahead_stamp:
            net = as_int64(starting_ahead(view, entry, job, option, counts_slowed(view, row), False))
            view.ahead.ledger_uw[place] += net
            view.ahead.squares_w2[place] += square_kept(view, job, net)


@separate
def is_held_back(view: KernelView, entry: int) -> bool:
    """Return whether announced limits alone keep an entry from starting at any option, on the best units there are."""
    job = as_int64(view.entries.job[entry])
    first, last = as_int64(view.entries.first[entry]), as_int64(view.entries.last[entry])
    if not units_differ(view):  # else the options of now depend on the units that it would get, and too few may be free
        first, last = as_int64(first_option(view, entry)), as_int64(last_option(view, entry))
    option = first
    while option <= last and not (
        fits_ahead(view, entry, job, as_int64(option), True) and domains_let_run(view, job, as_int64(option))
    ):
        option += 1
    return bool(option > last)


@inlined
def domains_let_run(view: KernelView, job: int, option: int) -> bool:
    """Return whether announced limits of domains alone let ``job`` start at ``option`` now."""
    if not has_supply(view):
        return True
    net, end = equal_net(view, job, option), view.now.time_s + wall_s(view, job, option)
    return hold_announced(view, as_int64(view.units.option_partition[option]), job, net, end)


@separate
def domains_hold_back(view: KernelView, entry: int) -> bool:
    """Return whether announced limits of domains alone keep an entry from starting at any option."""
    for option in range(first_option(view, entry), last_option(view, entry) + 1):
        if domains_let_run(view, as_int64(view.entries.job[entry]), as_int64(option)):
            return False
    return True
