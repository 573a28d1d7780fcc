"""Nodes that stop, wake, fail and return; jobs that go back to the queue.

Power is switched by the node: all units of a node are in one state, in ``Truth.unit_state`` of each. Actions and
events name any unit of the node. A node without a job is in one of five states (``kernels/codes.py``), each with watts
of its own: idle watts are those of its units, all other figures are the node's and count once. ``change_node`` is
the only place where a state changes: it keeps four figures in step, the true watts of idle units, the base of
the cap (scope ``machine``), the bitmap of free units, and the event flag that wakes controls.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel
from wattqueue.kernels.domains import count_job
from wattqueue.kernels.entries import enqueue_job, release_job
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.ledger import available_with, change_base
from wattqueue.kernels.placement import restore_unit, unit_is_free, unit_partition, withhold_unit
from wattqueue.kernels.power import account
from wattqueue.kernels.state import KernelView, Log, Truth


@kernel
def node_state(truth: Truth, node: int) -> int:
    """Return the state of a node: that of each of its units."""
    return int(truth.unit_state[truth.node_start[node]])


@kernel
def node_uw_in(view: KernelView, truth: Truth, node: int, state: int) -> int:
    """Return the microwatts of a node without a job, in ``state``; 0 for one that is down."""
    first = as_int64(truth.node_start[node])
    p = unit_partition(view.units, first)
    if state == codes.UNIT_ON:
        return int((truth.node_start[node + 1] - first) * view.units.idle_uw[p])
    if state == codes.UNIT_STOPPING:
        return int(truth.node_figures[p, codes.SHUTDOWN_UW])
    if state == codes.UNIT_OFF:
        return int(truth.node_figures[p, codes.OFF_UW])
    if state == codes.UNIT_BOOTING:
        return int(truth.node_figures[p, codes.BOOT_UW])
    return 0  # a node that is down draws nothing


@kernel
def base_uw_in(view: KernelView, truth: Truth, node: int, state: int) -> int:
    """Return the microwatts that the base of the cap counts for a node without a job in ``state`` (rule 14).

    A node on its way counts for the greater of its watts now and afterwards: the timer that ends a boot cannot be
    refused, so its idle watts must not have been spent in the meantime.
    """
    if state == codes.UNIT_BOOTING:
        return max(node_uw_in(view, truth, node, state), node_uw_in(view, truth, node, as_int64(codes.UNIT_ON)))
    if state == codes.UNIT_STOPPING:
        return max(node_uw_in(view, truth, node, state), node_uw_in(view, truth, node, as_int64(codes.UNIT_OFF)))
    return node_uw_in(view, truth, node, state)


@kernel
def base_fits(view: KernelView, truth: Truth, node: int, state: int) -> bool:
    """Return whether the ledger has room for a node in ``state``; what lowers the base always has."""
    if view.counter[codes.SCOPE_MACHINE] == 0:
        return True
    now = base_uw_in(view, truth, node, node_state(truth, node))
    more = base_uw_in(view, truth, node, as_int64(state)) - now
    return bool(more <= 0 or available_with(view, more) >= 0)


@kernel
def change_node(view: KernelView, truth: Truth, node: int, state: int) -> None:
    """Bring a node that runs no job into ``state``: its watts, the bits of its units, the base of the cap.

    The budget follows (``change_base``), so the next pass sees what a stop frees and what a wake takes.
    """
    before = node_state(truth, node)
    truth.tally[codes.OTHER_UW] += node_uw_in(view, truth, node, as_int64(state)) - node_uw_in(
        view, truth, node, before
    )
    more = as_int64(0)
    if view.counter[codes.SCOPE_MACHINE] != 0:
        more = base_uw_in(view, truth, node, as_int64(state)) - base_uw_in(view, truth, node, before)
    for unit in range(truth.node_start[node], truth.node_start[node + 1]):
        # Only units that are on are in the bitmap of free units; every other change leaves it alone.
        if before == codes.UNIT_ON:
            withhold_unit(view.units, unit)
        elif state == codes.UNIT_ON:
            restore_unit(view.units, unit)
        truth.unit_state[unit] = state
    # Wakes controls that wait for node events at this instant, if they have not been called yet.
    truth.request[codes.HAPPENED] |= codes.STOP_ON_NODE
    change_base(view, more)


@kernel
def timer_events(view: KernelView, truth: Truth) -> None:
    """Apply the shut-downs and boots that are over: UNIT_STOPPING to UNIT_OFF, UNIT_BOOTING to UNIT_ON.

    Timers of one time apply in the order of node numbers, which is the heap's order of ties (rule 2).
    """
    while truth.tally[codes.TIMERS] > 0 and truth.timers.time[0] <= view.num[codes.NOW]:
        node = as_int64(truth.timers.item[0])
        heap_remove(truth.timers, truth.tally, codes.TIMERS, node)
        if node_state(truth, node) == codes.UNIT_STOPPING:
            change_node(view, truth, node, codes.UNIT_OFF)
        else:
            change_node(view, truth, node, codes.UNIT_ON)


@kernel
def node_events(view: KernelView, truth: Truth, log: Log) -> None:
    """Apply failures and returns from outside; jobs of a failed node are requeued (rule 3 of docs/semantics.md).

    ``node_time`` is sorted by (time, down before up, unit). A return has no effect on a node that is not down.
    """
    k = truth.tally[codes.NEXT_NODE_EVENT]
    while k < len(truth.node_time) and truth.node_time[k] <= view.num[codes.NOW]:
        node = as_int64(truth.node_of_unit[truth.node_unit[k]])
        if truth.node_up[k] == 0:
            fail_node(view, truth, log, node)
        elif node_state(truth, node) == codes.UNIT_DOWN:
            change_node(view, truth, node, codes.UNIT_ON)
        k += 1
    truth.tally[codes.NEXT_NODE_EVENT] = k


@kernel
def fail_node(view: KernelView, truth: Truth, log: Log, node: int) -> None:
    """Take ``node`` down, from whatever state; its timer, if any, is cancelled.

    The jobs on it are requeued first, which frees all their units; only then can its units be withheld.
    """
    state = node_state(truth, node)
    if state == codes.UNIT_DOWN:
        return
    if truth.timers.place[node] >= 0:
        heap_remove(truth.timers, truth.tally, codes.TIMERS, node)
    if state == codes.UNIT_ON:
        for unit in range(truth.node_start[node], truth.node_start[node + 1]):
            if not unit_is_free(view.units, unit):
                requeue_job(view, truth, log, job_on(view, truth, unit))
    change_node(view, truth, node, codes.UNIT_DOWN)


@kernel
def job_on(view: KernelView, truth: Truth, unit: int) -> int:
    """Return the running job that holds ``unit``, -1 for none.

    A scan over all running jobs where owners are not kept: failures are rare.
    """
    if truth.tally[codes.OWNERS] != 0:
        return int(truth.domains.owner[unit])
    held = view.held
    for at in range(view.counter[codes.BLOCKS]):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            for i in range(held.first[job], held.first[job] + held.pieces[job]):
                if held.low[i] <= unit <= held.high[i]:
                    return int(job)
    return -1


@kernel
def requeue_job(view: KernelView, truth: Truth, log: Log, job: int) -> None:
    """Put a running job back at its previous place in the queue, to start from zero (rule 3).

    The energy that it used so far stays in the log: ``energy_j`` sums all its runs.
    """
    heap_remove(truth.ends, truth.tally, codes.HEAP, job)
    # The bill of this run, at its last watts; change_speed() has added what earlier ones differed by.
    log.energy_j[job] += (view.num[codes.NOW] - log.start[job]) * (truth.uw[job] / codes.MICRO)
    log.state[job] = codes.WAITING
    account(view, truth, job, as_int64(-1))
    if truth.tally[codes.OWNERS] != 0:
        count_job(view, truth, job, as_int64(-1))
    release_job(view, job)
    enqueue_job(view, job)
    view.counter[codes.DIRTY] = 1


@kernel
def change_for_a_time(view: KernelView, truth: Truth, node: int, state: int, lasts: int) -> None:
    """Bring a node into ``state``, with a timer after the seconds in column ``lasts`` of its partition's figures.

    A figure of 0 s makes the timer ring at the next instant, which has the same time.
    """
    change_node(view, truth, node, state)
    p = unit_partition(view.units, as_int64(truth.node_start[node]))
    end = view.num[codes.NOW] + truth.node_figures[p, lasts]
    heap_push(truth.timers, truth.tally, codes.TIMERS, end, node)


@kernel
def stop_unit(view: KernelView, truth: Truth, unit: int) -> int:
    """Shut the node of a unit down; return 0, or why not (``kernels/codes.py``).

    Refused on a node that is not on or holds a job, and where shutting down draws more than the ledger has room for.
    """
    node = as_int64(truth.node_of_unit[unit])
    if node_state(truth, node) != codes.UNIT_ON:
        return codes.REFUSED_STATE
    for each in range(truth.node_start[node], truth.node_start[node + 1]):
        if not unit_is_free(view.units, each):
            return codes.REFUSED_BUSY
    if not base_fits(view, truth, node, as_int64(codes.UNIT_STOPPING)):
        return codes.REFUSED_POWER
    change_for_a_time(view, truth, node, codes.UNIT_STOPPING, codes.SHUTDOWN_S)
    return 0


@kernel
def wake_unit(view: KernelView, truth: Truth, unit: int) -> int:
    """Boot the stopped node of a unit; return 0, or why not (``kernels/codes.py``).

    Refused on a node that is not off, and where the ledger has no room for its boot or idle watts.
    """
    node = as_int64(truth.node_of_unit[unit])
    if node_state(truth, node) != codes.UNIT_OFF:
        return codes.REFUSED_STATE
    if not base_fits(view, truth, node, as_int64(codes.UNIT_BOOTING)):
        return codes.REFUSED_POWER
    change_for_a_time(view, truth, node, codes.UNIT_BOOTING, codes.BOOT_S)
    return 0
