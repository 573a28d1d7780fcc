"""What devices draw, by what is measured, as a control that acts by it sees it (rule 16 of docs/semantics.md).

A simulation reads the machine's power sensors; live the controller hands over what its telemetry shows. Either way the
same rules hold for a reading: one that says nothing of now is none, and the prediction counts; one that stands still
can only raise what counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wattqueue.kernels.device_power import read_devices
from wattqueue.parts.contracts import Floats

if TYPE_CHECKING:
    from wattqueue.policy.device_limits import DeviceReadings, Flags
    from wattqueue.policy.state_view import StateView


class DevicePower(NamedTuple):
    """What devices draw. Shapes (D,)."""

    base_w: float
    """Watts that the cap counts beside the devices."""
    net_w: Floats
    """Watts in the cap's scope that no idle sum has: above idle, or in the scope ``jobs`` all of a busy device's."""
    idle_w: Floats
    """Watts that are not in ``net_w``: what a limit on the device has to leave beside them."""
    since_s: Floats
    """From when on it was measured; -inf where the prediction counts."""
    draws: Flags
    """Whether a job runs there that is not suspended."""

    @property
    def power_w(self) -> float:
        """Measured power in the cap's scope."""
        return self.base_w + float(self.net_w.sum())

    @property
    def is_measured(self) -> bool:
        """Whether at least one device in use is measured; elsewhere all is predicted."""
        return bool(np.isfinite(self.since_s[self.draws]).any())


def device_power(view: StateView) -> DevicePower | None:
    """Return what each device draws; None where nothing measures."""
    read = view.readings if view.readings is not None else _sensors(view)
    if read is None:
        return None
    first = view.machine.device_start[:-1]
    idle_unit = view.machine.by_unit([part.idle_w for part in view.machine.partitions])
    idle_w = np.add.reduceat(idle_unit, first)
    unit_w, busy = view.counted_unit_w, ~np.isnan(view.counted_unit_w)
    for row in view.suspended:
        unit_w[view.job_units(int(row))] = np.nan
    counted = np.add.reduceat(np.where(np.isnan(unit_w), idle_unit, unit_w), first)
    draws = np.logical_or.reduceat(~np.isnan(unit_w), first)
    known = ~np.isnan(read.power_w) & (_latest_start_s(view) <= read.taken_s)
    used = np.where(known & (read.moves | draws), read.power_w, counted)
    limit_w = np.inf if view.limits is None else view.limits.cap_w
    still = known & ~read.moves & draws
    used = np.where(still, np.minimum(np.maximum(used, counted), limit_w), used)
    since_s = np.where(known, read.taken_s, -np.inf)
    if view.machine.cap_scope == "jobs":
        net_w = np.where(np.logical_or.reduceat(busy, first), used, 0.0)
        return DevicePower(view.base_w, net_w, 0.0 * idle_w, since_s, draws)
    return DevicePower(view.base_w, np.maximum(used - idle_w, 0.0), idle_w, since_s, draws)


def _sensors(view: StateView) -> DeviceReadings | None:
    """Return what the machine's sensors show; None where it has none, or they are not read."""
    from wattqueue.policy.device_limits import DeviceReadings
    from wattqueue.policy.state_view import own_kernel

    samples, machine = own_kernel(view).measured, view.machine
    if not len(samples.sample_uw):
        return None
    begin_s = samples.begin_s[samples.of_unit[machine.device_start[:-1]]]
    return DeviceReadings(sampled_w(view), begin_s, np.ones(machine.devices, np.bool_))


def sampled_w(view: StateView) -> Floats:
    """Return the measured watts of each device, NaN where a sensor shows nothing. Shape (D,)."""
    from wattqueue.policy.state_view import own_kernel

    found = np.empty(view.machine.devices)
    read_devices(own_kernel(view), view.machine.device_of_unit, found)
    return found


def _latest_start_s(view: StateView) -> Floats:
    """Return since when each device has the jobs that it has; -inf for none. Shape (D,)."""
    from wattqueue.policy.state_view import own_kernel

    samples = own_kernel(view).measured
    if len(samples.since_s):  # sensors are followed: also continuations, and frequencies that were raised
        start_s = np.where(samples.job >= 0, samples.since_s, -np.inf)
    else:
        job, start_s = view.unit_job, np.full(view.machine.units, -np.inf)
        start_s[job >= 0] = view.jobs.observed.start_s[job[job >= 0]]
    return np.asarray(np.maximum.reduceat(start_s, view.machine.device_start[:-1]), np.float64)
