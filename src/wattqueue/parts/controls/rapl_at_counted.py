"""Limit each socket of a running job to the watts that were counted for it: RAPL behind a prediction (paper 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from wattqueue.kernels.codes import MICRO
from wattqueue.parts.actions import Action, SetDeviceLimits

if TYPE_CHECKING:
    from wattqueue.policy.view import View


class RaplAtCounted:
    """Limit the device (socket) of each running job to what admission counted there; lift it when it is free.

    Where a prediction is too low, the socket slows down, and with it the whole job, instead of breaking the budget. The
    limit is the predicted watts of the device's busy units and the idle watts of its others; limits are set in the
    instant of the start. A prediction that is right or too high is never slowed, and the ledger is not changed.

    Reference: paper 2 has no such limit: its budget is kept by predictions alone.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit",)
    sets_limits: bool = True
    period_s: float = 0.0
    events: frozenset[str] = frozenset({"start", "completion", "node"})

    def act(self, view: View) -> Sequence[Action]:
        """Return the limits of all devices: setting one again to what it is changes nothing."""
        machine, counted = view.machine, view.counted_unit_w
        first, idle = machine.device_start[:-1], np.isnan(counted)
        idle_w = machine.by_unit([p.idle_w for p in machine.partitions])
        micro = np.rint(np.add.reduceat(np.where(idle, idle_w, counted), first) * MICRO)
        # Rounded up by one float: a limit that is rounded below what is counted would slow every job by a trifle.
        limit_w = np.nextafter(micro / MICRO, np.inf)
        limit_w[np.logical_and.reduceat(idle, first)] = np.inf
        return [SetDeviceLimits(np.arange(machine.devices), limit_w)]
