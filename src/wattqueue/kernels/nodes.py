"""Units that stop, wake, fail and return; and jobs that go back to the queue."""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._jit import kernel, wide
from wattqueue.kernels.entries import enqueue_job, release_job
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.placement import restore_unit, unit_is_free, unit_partition, withhold_unit
from wattqueue.kernels.power import account
from wattqueue.kernels.schedule import set_budget
from wattqueue.kernels.state import Log, Truth, View


@kernel
def unit_uw_in(view: View, truth: Truth, p: int, state: int) -> int:
    """Microwatts of a unit of partition p that runs no job, by its state."""
    if state == codes.UNIT_ON:
        return int(view.units.idle_uw[p])
    if state == codes.UNIT_STOPPING:
        return int(truth.node_figures[p, codes.SHUTDOWN_UW])
    if state == codes.UNIT_OFF:
        return int(truth.node_figures[p, codes.OFF_UW])
    if state == codes.UNIT_BOOTING:
        return int(truth.node_figures[p, codes.BOOT_UW])
    return 0  # a unit that is down draws nothing


@kernel
def change_unit(view: View, truth: Truth, unit: int, state: int) -> None:
    """Bring a unit that runs no job into ``state``: its watts, its bit, the cap's base."""
    p = unit_partition(view.units, unit)
    before = wide(truth.unit_state[unit])
    more = unit_uw_in(view, truth, p, wide(state)) - unit_uw_in(view, truth, p, wide(before))
    truth.tally[codes.OTHER_UW] += more
    if view.counter[codes.SCOPE_MACHINE] != 0:
        view.counter[codes.BASE] += more
    if before == codes.UNIT_ON:
        withhold_unit(view.units, unit)
    elif state == codes.UNIT_ON:
        restore_unit(view.units, unit)
    truth.unit_state[unit] = state
    truth.wish[codes.HAPPENED] |= codes.ASK_ON_NODE
    set_budget(view)


@kernel
def timer_events(view: View, truth: Truth) -> None:
    """Shut-downs and boots that are over."""
    while truth.tally[codes.TIMERS] > 0 and truth.timers.time[0] <= view.num[codes.NOW]:
        unit = wide(truth.timers.item[0])
        heap_remove(truth.timers, truth.tally, codes.TIMERS, unit)
        if truth.unit_state[unit] == codes.UNIT_STOPPING:
            change_unit(view, truth, unit, codes.UNIT_OFF)
        else:
            change_unit(view, truth, unit, codes.UNIT_ON)


@kernel
def node_events(view: View, truth: Truth, log: Log) -> None:
    """Failures and returns from outside; the job of a failed unit is requeued (SEMANTICS rule 3)."""
    k = truth.tally[codes.NEXT_NODE_EVENT]
    while k < len(truth.node_time) and truth.node_time[k] <= view.num[codes.NOW]:
        unit = wide(truth.node_unit[k])
        if truth.node_up[k] == 0:
            fail_unit(view, truth, log, unit)
        elif truth.unit_state[unit] == codes.UNIT_DOWN:
            change_unit(view, truth, unit, codes.UNIT_ON)
        k += 1
    truth.tally[codes.NEXT_NODE_EVENT] = k


@kernel
def fail_unit(view: View, truth: Truth, log: Log, unit: int) -> None:
    """``unit`` goes down, from whatever state."""
    if truth.unit_state[unit] == codes.UNIT_DOWN:
        return
    if truth.timers.place[unit] >= 0:
        heap_remove(truth.timers, truth.tally, codes.TIMERS, unit)
    if truth.unit_state[unit] == codes.UNIT_ON and not unit_is_free(view.units, unit):
        requeue_job(view, truth, log, job_on(view, unit))
    change_unit(view, truth, unit, codes.UNIT_DOWN)


@kernel
def job_on(view: View, unit: int) -> int:
    """The running job that holds ``unit``; a scan, because failures are rare."""
    held = view.held
    for at in range(view.counter[codes.BLOCKS]):
        block = wide(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = wide(view.running.job[block, k])
            for i in range(held.first[job], held.first[job] + held.pieces[job]):
                if held.low[i] <= unit <= held.high[i]:
                    return int(job)
    return -1


@kernel
def requeue_job(view: View, truth: Truth, log: Log, job: int) -> None:
    """A running job goes back to its old place in the queue; what it drew so far stays on its bill."""
    heap_remove(truth.ends, truth.tally, codes.HEAP, job)
    log.energy_j[job] += (view.num[codes.NOW] - log.start[job]) * (truth.uw[job] / codes.MICRO)
    log.state[job] = codes.WAITING
    account(view, truth, job, wide(-1))
    release_job(view, job)
    enqueue_job(view, job)
    view.counter[codes.DIRTY] = 1


@kernel
def change_for_a_time(view: View, truth: Truth, unit: int, state: int, lasts: int) -> None:
    """A unit's new state, until its timer rings after what slot ``lasts`` of its node's figures says."""
    change_unit(view, truth, unit, state)
    p = unit_partition(view.units, unit)
    end = view.num[codes.NOW] + truth.node_figures[p, lasts]
    heap_push(truth.timers, truth.tally, codes.TIMERS, end, unit)


@kernel
def stop_unit(view: View, truth: Truth, unit: int) -> int:
    """Shut a free unit down; 0, or why not (kernels/codes.py)."""
    if truth.unit_state[unit] != codes.UNIT_ON:
        return codes.REFUSED_STATE
    if not unit_is_free(view.units, unit):
        return codes.REFUSED_BUSY
    change_for_a_time(view, truth, unit, codes.UNIT_STOPPING, codes.SHUTDOWN_S)
    return 0


@kernel
def wake_unit(view: View, truth: Truth, unit: int) -> int:
    """Boot a stopped unit; 0, or why not."""
    if truth.unit_state[unit] != codes.UNIT_OFF:
        return codes.REFUSED_STATE
    change_for_a_time(view, truth, unit, codes.UNIT_BOOTING, codes.BOOT_S)
    return 0
