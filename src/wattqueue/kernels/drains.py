"""States of nodes, and drains: a busy node takes no new job, and stops when its jobs have ended.

``change_node`` is the only place where the state of a node without a job changes: it keeps four figures in step, the
true watts of idle units, the base of the cap (scope ``machine``), the bitmap of free units, and the event flag that
wakes controls. A drain (``begin_drain``) only takes idle units out of the bitmap; the units of a job that ends follow
(``end_drains``), and when no job is left the node shuts down.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel, separate
from wattqueue.kernels.heap import heap_push
from wattqueue.kernels.ledger import available_with, change_base
from wattqueue.kernels.placement import restore_unit, unit_is_free, unit_partition, withhold_unit
from wattqueue.kernels.sensors import sense_node
from wattqueue.kernels.state import KernelView, Truth
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_changes import StandingNode, change_free, change_standing, standing_fits


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
        return int(truth.node.shutdown_uw[p])
    if state == codes.UNIT_OFF:
        return int(truth.node.off_uw[p])
    if state == codes.UNIT_BOOTING:
        return int(truth.node.boot_uw[p])
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
def standing(view: KernelView, truth: Truth, node: int, state: int) -> StandingNode:
    """Return the same as power domains count it: idle watts of each unit, or the figure of the node once."""
    first = as_int64(truth.node_start[node])
    if state == codes.UNIT_ON:
        idle = as_int64(view.units.idle_uw[unit_partition(view.units, first)])
        return StandingNode(as_int64(truth.node_start[node + 1] - first), idle)
    return StandingNode(as_int64(1), as_int64(base_uw_in(view, truth, node, state)))


@kernel
def base_fits(view: KernelView, truth: Truth, node: int, state: int) -> bool:
    """Return whether the ledger has room for a node in ``state``; what lowers the base always has."""
    if view.now.scope_machine == 0:
        return True
    before = node_state(truth, node)
    more = base_uw_in(view, truth, node, as_int64(state)) - base_uw_in(view, truth, node, before)
    if more > 0 and available_with(view, more) < 0:
        return False
    if has_supply(view):
        unit = as_int64(truth.node_start[node])
        return standing_fits(
            view, unit, standing(view, truth, node, before), standing(view, truth, node, as_int64(state))
        )
    return True


@kernel
def change_node(view: KernelView, truth: Truth, node: int, state: int) -> None:
    """Bring a node that runs no job into ``state``: its watts, the bits of its units, the base of the cap.

    The budget follows (``change_base``), so the next pass sees what a stop frees and what a wake takes.
    """
    before = node_state(truth, node)
    uw = node_uw_in(view, truth, node, as_int64(state))
    truth.loop.other_uw += uw - node_uw_in(view, truth, node, before)
    if truth.loop.sensing != 0:
        sense_node(view, truth, node, uw)
    more = as_int64(0)
    if view.now.scope_machine != 0:
        more = base_uw_in(view, truth, node, as_int64(state)) - base_uw_in(view, truth, node, before)
        if has_supply(view):
            unit, after = as_int64(truth.node_start[node]), standing(view, truth, node, as_int64(state))
            change_standing(view, unit, standing(view, truth, node, before), after)
    for unit in range(truth.node_start[node], truth.node_start[node + 1]):
        # Only units that are on are in the bitmap of free units; every other change leaves it alone.
        if before == codes.UNIT_ON:
            withhold(view, as_int64(unit))
        elif state == codes.UNIT_ON:
            restore(view, as_int64(unit))
        truth.unit_state[unit] = state
    # Wakes controls that wait for node events at this instant, if they have not been called yet.
    truth.loop.happened |= codes.STOP_ON_NODE
    change_base(view, more)


@kernel
def withhold(view: KernelView, unit: int) -> None:
    """Take a free unit out of use."""
    withhold_unit(view.units, unit)
    if has_supply(view):
        change_free(view, unit, as_int64(-1))


@kernel
def restore(view: KernelView, unit: int) -> None:
    """Let a unit take jobs again."""
    restore_unit(view.units, unit)
    if has_supply(view):
        change_free(view, unit, as_int64(1))


@kernel
def job_on(view: KernelView, truth: Truth, unit: int) -> int:
    """Return the running job that holds ``unit``, -1 for none.

    A scan over all running jobs where owners are not kept: failures are rare.
    """
    if truth.loop.keeps_owners != 0 and truth.devices.owner[unit] >= 0:
        return int(truth.devices.owner[unit])  # a suspended job has left its devices
    held = view.held
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            for i in range(held.first[job], held.first[job] + held.pieces[job]):
                if held.low[i] <= unit <= held.high[i]:
                    return int(job)
    return -1


@kernel
def change_for_a_time(view: KernelView, truth: Truth, node: int, state: int) -> None:
    """Let a node boot or stop, with a timer after the seconds that this takes.

    A figure of 0 s makes the timer ring at the next instant, which has the same time.
    """
    change_node(view, truth, node, state)
    p = unit_partition(view.units, as_int64(truth.node_start[node]))
    lasts_s = truth.node.boot_s[p] if state == codes.UNIT_BOOTING else truth.node.shutdown_s[p]
    heap_push(truth.timers, view.now.time_s + lasts_s, node)


@kernel
def begin_drain(view: KernelView, truth: Truth, node: int) -> None:
    """Take the idle units of a busy node out of use, and note that it drains."""
    for unit in range(truth.node_start[node], truth.node_start[node + 1]):
        if unit_is_free(view.units, unit):
            withhold(view, as_int64(unit))
        truth.unit_state[unit] = codes.UNIT_DRAINING
    truth.loop.draining += 1
    truth.loop.happened |= codes.STOP_ON_NODE
    view.now.dirty = 1


@kernel
def end_drain(view: KernelView, truth: Truth, node: int) -> None:
    """Bring a draining node back: its idle units take jobs again."""
    for unit in range(truth.node_start[node], truth.node_start[node + 1]):
        if job_on(view, truth, unit) < 0:
            restore(view, as_int64(unit))
        truth.unit_state[unit] = codes.UNIT_ON
    truth.loop.draining -= 1
    truth.loop.happened |= codes.STOP_ON_NODE
    view.now.dirty = 1


@separate
def end_drains(view: KernelView, truth: Truth, job: int) -> None:
    """Take the units that ``job`` gave back on draining nodes out of use; stop the nodes on which no job is left."""
    held = view.held
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            if truth.unit_state[unit] == codes.UNIT_DRAINING:
                withhold(view, as_int64(unit))
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            if truth.unit_state[unit] == codes.UNIT_DRAINING:
                stop_if_idle(view, truth, as_int64(truth.node_of_unit[unit]))


@kernel
def stop_if_idle(view: KernelView, truth: Truth, node: int) -> None:
    """Shut a draining node down if no job holds one of its units."""
    for unit in range(truth.node_start[node], truth.node_start[node + 1]):
        if job_on(view, truth, unit) >= 0:
            return
    end_drain(view, truth, node)
    change_for_a_time(view, truth, node, codes.UNIT_STOPPING)
