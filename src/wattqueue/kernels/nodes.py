"""Nodes that stop, wake, fail and return; jobs that go back to the queue.

Power is switched by the node: all units of a node are in one state, in ``Truth.unit_state`` of each. Actions and
events name any unit of the node. A node without a job is in one of five states (``kernels/codes.py``), each with watts
of its own: idle watts are those of its units, all other figures are the node's and count once. ``kernels/drains.py``
changes states.
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel, separate
from wattqueue.kernels.devices import count_job
from wattqueue.kernels.drains import (
    base_fits,
    begin_drain,
    change_for_a_time,
    change_node,
    end_drain,
    end_drains,
    job_on,
    node_state,
)
from wattqueue.kernels.entries import enqueue_job, release_job
from wattqueue.kernels.heap import heap_remove
from wattqueue.kernels.placement import unit_is_free
from wattqueue.kernels.power import account
from wattqueue.kernels.state import KernelView, Log, Truth


@separate
def timer_events(view: KernelView, truth: Truth) -> None:
    """Apply the shut-downs and boots that are over: UNIT_STOPPING to UNIT_OFF, UNIT_BOOTING to UNIT_ON.

    Timers of one time apply in the order of node numbers, which is the heap's order of ties (rule 2).
    """
    while truth.timers.filled[0] > 0 and truth.timers.time[0] <= view.now.time_s:
        node = as_int64(truth.timers.item[0])
        heap_remove(truth.timers, node)
        if node_state(truth, node) == codes.UNIT_STOPPING:
            change_node(view, truth, node, codes.UNIT_OFF)
        else:
            change_node(view, truth, node, codes.UNIT_ON)


@separate
def node_events(view: KernelView, truth: Truth, log: Log) -> None:
    """Apply failures and returns from outside; jobs of a failed node are requeued (rule 3 of docs/semantics.md).

    ``node_time`` is sorted by (time, down before up, unit). A return has no effect on a node that is not down.
    """
    k = truth.loop.next_node_event
    while k < len(truth.node_time) and truth.node_time[k] <= view.now.time_s:
        node = as_int64(truth.node_of_unit[truth.node_unit[k]])
        if truth.node_up[k] == 0:
            fail_node(view, truth, log, node)
        elif node_state(truth, node) == codes.UNIT_DOWN:
            change_node(view, truth, node, codes.UNIT_ON)
        k += 1
    truth.loop.next_node_event = k


@kernel
def fail_node(view: KernelView, truth: Truth, log: Log, node: int) -> None:
    """Take ``node`` down, from whatever state; its timer, if any, is cancelled.

    The jobs on it are requeued first, which frees all their units; only then can its units be withheld.
    """
    state = node_state(truth, node)
    if state == codes.UNIT_DOWN:
        return
    if state == codes.UNIT_DRAINING:
        end_drain(view, truth, node)
        state = codes.UNIT_ON
    if truth.timers.place[node] >= 0:
        heap_remove(truth.timers, node)
    if state == codes.UNIT_ON:
        for unit in range(truth.node_start[node], truth.node_start[node + 1]):
            if not unit_is_free(view.units, unit):
                requeue_job(view, truth, log, job_on(view, truth, unit))
    change_node(view, truth, node, codes.UNIT_DOWN)


@kernel
def requeue_job(view: KernelView, truth: Truth, log: Log, job: int) -> None:
    """Put a running job back at its previous place in the queue, to start from zero (rule 3).

    The energy that it used so far stays in the log: ``energy_j`` sums all its runs.
    """
    heap_remove(truth.ends, job)
    # The bill of this run, at its last watts; change_speed() has added what earlier ones differed by.
    log.energy_j[job] += (view.now.time_s - log.start[job]) * (truth.uw[job] / codes.MICRO)
    log.past_j[job] = log.energy_j[job]
    log.state[job] = codes.WAITING
    account(view, truth, job, as_int64(-1))
    if view.held.parked[job] != 0:
        view.held.parked[job] = 0
        log.parked_s[job] += view.now.time_s
    elif truth.loop.keeps_owners != 0:
        count_job(view, truth, job, as_int64(-1))
    release_job(view, job)
    if truth.loop.draining > 0:
        end_drains(view, truth, job)
    enqueue_job(view, job)
    view.now.dirty = 1


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
    change_for_a_time(view, truth, node, codes.UNIT_STOPPING)
    return 0


@kernel
def drain_unit(view: KernelView, truth: Truth, unit: int) -> int:
    """Have the node of a unit take no new job, and stop when its jobs have ended; at once where it has none.

    Refused on a node that is not on. What a later shutdown draws beyond idling is not refused any more.
    """
    node = as_int64(truth.node_of_unit[unit])
    if node_state(truth, node) != codes.UNIT_ON:
        return codes.REFUSED_STATE
    for each in range(truth.node_start[node], truth.node_start[node + 1]):
        if not unit_is_free(view.units, each):
            begin_drain(view, truth, node)
            return 0
    return stop_unit(view, truth, unit)


@kernel
def wake_unit(view: KernelView, truth: Truth, unit: int) -> int:
    """Boot the stopped node of a unit; return 0, or why not (``kernels/codes.py``).

    A node that drains takes jobs again. Refused on a node that is not off, and where the ledger has no room for its
    boot or idle watts.
    """
    node = as_int64(truth.node_of_unit[unit])
    if node_state(truth, node) == codes.UNIT_DRAINING:
        end_drain(view, truth, node)
        return 0
    if node_state(truth, node) != codes.UNIT_OFF:
        return codes.REFUSED_STATE
    if not base_fits(view, truth, node, as_int64(codes.UNIT_BOOTING)):
        return codes.REFUSED_POWER
    change_for_a_time(view, truth, node, codes.UNIT_BOOTING)
    return 0
