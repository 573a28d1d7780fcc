"""Devices: limits on what the units of a socket draw together, and the speed that follows.

A limit holds for a device, a job for its units; cores of several jobs share a socket. So a device keeps, once for what
jobs really draw and once for what is expected of them, two sums over its units at full speed::

    floor     watts that no limit reduces: idle watts, or what a job draws where that is less
    dynamic   watts above idle

and one speed, at which floor + dynamic speed**alpha is its limit. The speed of a device follows from its own jobs
alone, also where a job is held back by a slower device elsewhere; so it does not depend on the order in which devices
are looked at. A job runs at the speed of its slowest device.

A start or an end on a device changes its sums, and with them the speed of the others on it: the device is *touched*.
``list_changed`` computes the speeds of touched devices and lists the jobs on those whose speed changed;
``kernels/speed.py`` continues them. Nobody asks for the owners of units before the first limit, so that a run without
limits pays for nothing here (``keep_owners``).
"""

from __future__ import annotations

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, separate
from wattqueue.kernels.entries import unit_uw
from wattqueue.kernels.phases import true_unit_uw
from wattqueue.kernels.placement import unit_partition
from wattqueue.kernels.state import KernelView, Truth, UnitFactorTable

INF = float("inf")
SLOWEST = 0.1  # a limit at or below the floor slows a device to a tenth, not to a stand-still
TRUE = 0  # rows of the sums and speeds: what jobs really draw
EXPECTED = 1  # and what is expected of them


@kernel
def keep_owners(view: KernelView, truth: Truth) -> None:
    """Begin to keep the jobs on the units of each device, and their watts.

    Jobs that were started by an action of this instant join when they begin (``begin_in_devices``).
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


@separate
def count_job(view: KernelView, truth: Truth, job: int, sign: int) -> None:
    """Let a running job join (1) or leave (-1) its devices at its option; touch those that have a limit."""
    devices, held = truth.devices, view.held
    expected = unit_uw(view.predicted, job, as_int64(view.held.option[job]))
    count_watts(view, truth, as_int64(TRUE), truth.by_unit, job, true_unit_uw(view, truth, job), sign)
    count_watts(view, truth, as_int64(EXPECTED), view.by_unit.factors, job, expected, sign)
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            devices.owner[unit] = job if sign > 0 else -1
    touch_devices(view, truth, job)


@kernel
def touch_devices(view: KernelView, truth: Truth, job: int) -> None:
    """Touch the devices of a running job that have a limit."""
    devices, held = truth.devices, view.held
    if truth.loop.limited == 0:
        return
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for device in range(devices.of_unit[held.low[k]], devices.of_unit[held.high[k]] + 1):
            if devices.cap_uw[device] < codes.NO_CAP:
                touch(truth, device)


@kernel
def count_watts(
    view: KernelView, truth: Truth, kind: int, factors: UnitFactorTable, job: int, uw: int, sign: int
) -> None:
    """Add (1) or take (-1) the watts of a running job at full speed to the sums of its devices.

    ``kind`` is TRUE or EXPECTED, ``factors`` the table of that kind; a unit of factor 1 draws ``uw`` microwatts.
    """
    devices, held = truth.devices, view.held
    idle = view.units.idle_uw[view.units.option_partition[held.option[job]]]
    differ = factors.table.shape[0] > 0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for unit in range(held.low[k], held.high[k] + 1):
            watt = uw
            if differ:
                watt = round(uw * factors.table[factors.row[job], unit])
            device = devices.of_unit[unit]
            devices.dynamic_uw[kind, device] += sign * max(watt - idle, 0)
            devices.floor_uw[kind, device] += sign * (min(watt, idle) - idle)


@inlined
def touch(truth: Truth, device: int) -> None:
    """Note that the limit of a device, or the jobs on it, changed."""
    if truth.devices.mark[device] == 0:
        truth.devices.mark[device] = 1
        truth.devices.stale[truth.loop.stale] = device
        truth.loop.stale += 1


@inlined
def list_job(truth: Truth, job: int) -> None:
    """Add a job to the list of those that may have to continue at another speed."""
    if truth.devices.job_mark[job] == 0:
        truth.devices.job_mark[job] = 1
        truth.devices.job[truth.loop.listed] = job
        truth.loop.listed += 1


@kernel
def clear_list(truth: Truth) -> None:
    """Empty the list of jobs."""
    for k in range(truth.loop.listed):
        truth.devices.job_mark[truth.devices.job[k]] = 0
    truth.loop.listed = 0


@kernel
def list_changed(view: KernelView, truth: Truth) -> None:
    """Compute the speeds of the touched devices; list the jobs on those whose speed changed."""
    devices = truth.devices
    for k in range(truth.loop.stale):
        device = as_int64(devices.stale[k])
        devices.mark[device] = 0
        true = device_speed(view, truth, as_int64(TRUE), device)
        expected = device_speed(view, truth, as_int64(EXPECTED), device)
        if true != devices.speed[TRUE, device] or expected != devices.speed[EXPECTED, device]:
            devices.speed[TRUE, device] = true
            devices.speed[EXPECTED, device] = expected
            for unit in range(devices.start[device], devices.start[device + 1]):
                if devices.owner[unit] >= 0:
                    list_job(truth, as_int64(devices.owner[unit]))
    truth.loop.stale = 0


@inlined
def device_speed(view: KernelView, truth: Truth, kind: int, device: int) -> float:
    """Return the relative speed, at most 1, at which a device just draws its limit.

    Inverts watts = floor + dynamic speed**alpha. A limit at or below the floor gives ``SLOWEST``: no limit stops a job.
    A device without dynamic watts has none to reduce: it is not slowed.
    """
    devices = truth.devices
    floor, dynamic = devices.floor_uw[kind, device], devices.dynamic_uw[kind, device]
    limit = devices.cap_uw[device]
    if dynamic == 0 or floor + dynamic <= limit:
        return 1.0
    if limit <= floor:
        return SLOWEST
    p = unit_partition(view.units, as_int64(devices.start[device]))
    alpha = truth.node.alpha[p]
    return float(max(SLOWEST, ((limit - floor) / dynamic) ** (1.0 / alpha)))


@inlined
def job_speed(view: KernelView, truth: Truth, kind: int, job: int) -> float:
    """Return the speed of the slowest device of a running job, at most 1: ``kind`` is TRUE or EXPECTED."""
    if truth.loop.limited == 0:
        return 1.0
    return slowest_device(view, truth, kind, job)


@inlined
def slowest_device(view: KernelView, truth: Truth, kind: int, job: int) -> float:
    """Return the speed of the slowest device of ``job``."""
    devices, held = truth.devices, view.held
    speed = 1.0
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for device in range(devices.of_unit[held.low[k]], devices.of_unit[held.high[k]] + 1):
            speed = min(speed, devices.speed[kind, device])
    return speed


@separate
def least_limit(view: KernelView, truth: Truth, job: int) -> float:
    """Return the lowest limit in microwatts on a device of the units that a job holds; inf for none."""
    lowest = INF
    if truth.loop.limited > 0:
        for k in range(view.held.first[job], view.held.first[job] + view.held.pieces[job]):
            for unit in range(view.held.low[k], view.held.high[k] + 1):
                lowest = min(lowest, truth.devices.cap_uw[truth.devices.of_unit[unit]])
    return lowest


@inlined
def set_limit(truth: Truth, device: int, cap_uw: float) -> None:
    """Put a limit on a device in force, inf for none; its speed follows in ``list_changed``."""
    before = truth.devices.cap_uw[device]
    if before == cap_uw:
        return
    truth.loop.limited += int(cap_uw < codes.NO_CAP) - int(before < codes.NO_CAP)
    truth.devices.cap_uw[device] = cap_uw
    touch(truth, device)
