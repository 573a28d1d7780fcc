"""Steps of a control that the compiled loop takes itself: redistribution of caps every few seconds.

A control in Python costs hundreds of microseconds a call, mostly for the view that it reads; over days with a step
every 4 s that is most of a run. ``take_step`` does what ``parts/controls/rapl_redistribution.py`` and
``rapl_lending.py`` do, with the same arithmetic (``kernels/redistribution.py``) and through the same change of limits
(``speed.set_device_limits``), so that outcomes are equal (tests/sim/test_control_step.py). Only jobs whose limit binds
before or after continue at another speed (``devices.list_changed``).

A refused raise is counted; other parts do not see it in their views. While a load target is known, the session asks for
consent: then the step is chosen here, and put in force there (``sim/control_step.py``).
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined, kernel
from wattqueue.kernels.consent import last_option
from wattqueue.kernels.device_power import read_devices
from wattqueue.kernels.entries import equal_net, units_differ
from wattqueue.kernels.in_loop import ControlStep
from wattqueue.kernels.redistribution import (
    BETWEEN,
    LENDS,
    RESET,
    begin_raises,
    cap_uw,
    caps_between,
    end_raises,
    keep_promise,
    step_caps,
)
from wattqueue.kernels.speed import set_device_limits
from wattqueue.kernels.state import Array, KernelView, Log, Truth

INF = float("inf")


@entry
def step_if_due(view: KernelView, truth: Truth, log: Log, step: ControlStep, happened: int) -> int:
    """Act if the period has run out, or one of its events is among ``happened``; return 1 where a limit changed.

    For instants at which controls in Python act, too.
    """
    if not step_is_due(view, step, happened):
        return 0
    take_step(view, truth, log, step)
    return int(step.now.acted)


@inlined
def step_is_due(view: KernelView, step: ControlStep, happened: int) -> bool:
    """Return whether the period has run out, or one of the control's events is among ``happened``."""
    return bool(step.now.at_s <= view.now.time_s or step.now.events & happened)


@entry
def asks_consent(view: KernelView, step: ControlStep) -> int:
    """Return 1 where the session has to look at what a step asks for: a load target is known, or limits it (rule 20).

    And while limits that were set for one are in force, of which it keeps the account.
    """
    now = view.now
    return int(now.in_target != 0 or now.ahead_s < INF or now.cap_uw < now.full_cap_uw or step.now.for_target != 0)


@kernel
def take_step(view: KernelView, truth: Truth, log: Log, step: ControlStep) -> None:
    """Set the limits until the next call; without a budget lift them.

    Lowered and raised limits are two actions: what is lowered is lowered although the ledger has no room for the rest.
    """
    begin_step(view, truth, step)
    lowered = set_changed(view, truth, log, step, -1.0)
    raised = set_changed(view, truth, log, step, 1.0)
    end_step(step, max(lowered, raised))


@entry
def choose_if_due(view: KernelView, truth: Truth, step: ControlStep, happened: int) -> int:
    """Choose the caps of a step that is due or woken, and return 1; 0 where it is neither.

    Whoever puts them in force lists the changes (``list_changed_caps``), and calls ``end_step``.
    """
    if not step_is_due(view, step, happened):
        return 0
    begin_step(view, truth, step)
    return 1


@kernel
def begin_step(view: KernelView, truth: Truth, step: ControlStep) -> None:
    """Choose the caps of a step; none of them is in force yet."""
    sockets = step.sockets
    if step.now.at_s <= view.now.time_s:
        step.now.at_s = view.now.time_s + step.now.period_s
    note_begins(view, truth, step)
    for device in range(len(sockets.cap_w)):
        step.before_w[device] = sockets.cap_w[device]
    choose_caps(view, truth, step)


@entry
def end_step(step: ControlStep, acted: int) -> None:
    """Note whether a step changed a limit, and whether all devices have one."""
    step.now.acted = acted
    step.now.limiting = as_int64(1)
    for device in range(len(step.sockets.cap_w)):
        if step.sockets.cap_w[device] == INF:
            step.now.limiting = 0


@kernel
def choose_caps(view: KernelView, truth: Truth, step: ControlStep) -> None:
    """Write the new caps: of a whole step, or between two steps those of a start or a moved budget."""
    sockets, budget, now_s = step.sockets, as_int64(view.now.cap_uw), view.now.time_s
    even = budget // len(sockets.cap_w) / codes.MICRO
    step.even_w[0] = min(max(even, sockets.minimum_w[0]), sockets.maximum_w[0])
    limited = budget < codes.NO_CAP
    if step.rates[BETWEEN] != 0.0 and limited and step.now.limiting != 0 and now_s < step.now.step_at_s:
        caps_between(sockets, step.rates, step.even_w, budget)
        return
    step.now.step_at_s = now_s + step.now.period_s
    if not limited:
        set_all(sockets.cap_w, INF)
    elif step.now.limiting == 0:
        set_all(sockets.cap_w, step.even_w[0])
    else:
        read_devices(view, truth.devices.of_unit, sockets.power_w)
        step_caps(sockets, step.rates, step.even_w, budget)
        if step.rates[LENDS] != 0.0:
            keep_promises(view, truth, step)


@kernel
def keep_promises(view: KernelView, truth: Truth, step: ControlStep) -> None:
    """Take back raises of watts that are promised to the reserved entries of the last pass (rule 8)."""
    begin_raises(step.sockets, step.before_w)
    for p in range(len(view.reserved.entry)):
        entry = as_int64(view.reserved.entry[p])
        if entry < 0 or view.reserved.time[p] == INF or view.held.option[view.entries.job[entry]] >= 0:
            continue
        mark_held(view, truth, step.held, view.reserved.time[p])
        left = view.now.cap_uw - net_of_promise(view, entry)
        for device in range(len(step.held)):
            if step.held[device] == 0:
                left -= cap_uw(step.least_w[device])
        keep_promise(step.sockets, step.held, left)
    end_raises(step.sockets)


@inlined
def net_of_promise(view: KernelView, entry: int) -> int:
    """Return the microwatts that are promised to a reserved entry, as ``policy.view.View.promises`` states them."""
    if units_differ(view):
        return int(view.by_unit.worst[entry])
    return equal_net(view, as_int64(view.entries.job[entry]), as_int64(last_option(view, entry)))


@kernel
def mark_held(view: KernelView, truth: Truth, held: Array, time_s: float) -> None:
    """Mark the devices of the jobs that are expected to run beyond ``time_s``."""
    for device in range(len(held)):
        held[device] = 0
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            if view.held.end[job] > time_s:
                mark_sockets(view, truth, held, job)


@kernel
def set_all(caps_w: Array, watts: float) -> None:
    """Write one figure to all caps."""
    for device in range(len(caps_w)):
        caps_w[device] = watts


@kernel
def set_changed(view: KernelView, truth: Truth, log: Log, step: ControlStep, sign: float) -> int:
    """Put in force the limits that rose (1) or fell (-1); return 1 where there were some and they were not refused."""
    k = as_int64(list_changed_caps(step, sign))
    if k == 0:
        return 0
    if set_device_limits(view, truth, log, step.device[:k], step.cap_uw[:k], step.before_uw) == 0:
        return 1
    step.now.refused += 1
    take_back(step, k)
    return 0


@entry
def list_changed_caps(step: ControlStep, sign: float) -> int:
    """Write the devices whose caps rose (1) or fell (-1), and these caps, to ``device`` and ``cap_uw``; return k."""
    caps, k = step.sockets.cap_w, 0
    for device in range(len(caps)):
        # No difference of the two: both may be infinite.
        if (sign > 0.0 and caps[device] > step.before_w[device]) or (
            sign < 0.0 and caps[device] < step.before_w[device]
        ):
            step.device[k] = device
            step.cap_uw[k] = caps[device] * codes.MICRO
            k += 1
    return k


@entry
def take_back(step: ControlStep, k: int) -> None:
    """Go back to the caps before the step for the first ``k`` listed devices: their change was refused."""
    for i in range(k):
        step.sockets.cap_w[step.device[i]] = step.before_w[step.device[i]]


@kernel
def note_begins(view: KernelView, truth: Truth, step: ControlStep) -> None:
    """Mark the sockets of jobs that run now and did not at the last step, where starts reset them."""
    begins, resets = step.sockets.begins, step.rates[RESET] != 0.0
    for device in range(len(begins)):
        begins[device] = 0
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            if resets and step.ran[job] == 0:
                mark_sockets(view, truth, begins, job)
            step.ran[job] = 2
    for k in range(step.now.ran):
        step.ran[step.ran_job[k]] -= 1  # 0 for one that has ended; the others are 1 below
    rows = 0
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            step.ran[job] = 1
            step.ran_job[rows] = job
            rows += 1
    step.now.ran = rows


@kernel
def mark_sockets(view: KernelView, truth: Truth, marks: Array, job: int) -> None:
    """Mark the devices of a running job with 1 in ``marks`` (D,) int8."""
    held = view.held
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for device in range(truth.devices.of_unit[held.low[k]], truth.devices.of_unit[held.high[k]] + 1):
            marks[device] = 1
