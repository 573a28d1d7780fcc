"""Device limits that were set for a load target, and whom they slow (rule 20 of docs/semantics.md).

A limit holds for a device and stays when the job ends for which it was set. So a job may start under one to which its
user never consented. ``TargetLimits`` remembers which limits are for a target, with those that held before, and says
which of them have to go back to that: the session asks after each pass that started jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from wattqueue.kernels import state
from wattqueue.kernels.calls import set_budget
from wattqueue.parts.actions import SetDeviceLimits
from wattqueue.parts.contracts import Floats
from wattqueue.policy.actions import carry_out
from wattqueue.policy.consent_windows import SLACK

if TYPE_CHECKING:
    from wattqueue.policy.driver import Driver
    from wattqueue.policy.view import View

LIFTED = "limits of a load target that were lifted for jobs without consent"
"""Note of a run: how often that happened, by device."""


class TargetLimits:
    """The limits in force that are for load targets.

    Attributes:
        before_w: The limit that held before, by device.
        lifted: How many limits went back to it for a job that started under them.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.before_w: dict[int, float] = {}
        self.lifted = 0

    def note(self, before_w: Floats, after_w: Floats, *, for_target: bool) -> None:
        """Take over limits that were carried out; what the cap asks for is no target's any more. Shapes (D,)."""
        for device in np.flatnonzero(after_w != before_w).tolist():
            if after_w[device] >= self.before_w.get(device, np.inf) or (
                after_w[device] < before_w[device] and not for_target
            ):
                self.before_w.pop(device, None)
            elif after_w[device] < before_w[device]:
                self.before_w.setdefault(device, float(before_w[device]))

    def lift(self, driver: Driver) -> None:
        """Lift the limits that slow a job beyond its user's consent.

        As far as the cap alone has room for what all jobs on their devices draw then.
        """
        if not self.before_w:
            return
        before_w = driver.device_limits_w
        action = self.to_lift(driver.view(()), before_w)
        if action is None:
            return
        with cap_alone(driver.kernel):
            reason = carry_out(driver.abilities.actions, driver, action, self)
        if not reason:
            self.note(before_w, driver.device_limits_w, for_target=False)
            self.lifted += len(action.devices)

    def to_lift(self, view: View, caps_w: Floats) -> SetDeviceLimits | None:
        """Return the limits to go back to, for running jobs that are slowed beyond their users' consent; None for none.

        ``caps_w`` (D,) are the limits in force. By predicted watts, as rule 14 has it.
        """
        from wattqueue.policy.consented import limited_speeds, may_slow
        from wattqueue.policy.state_view import units_of

        devices = np.array(sorted(self.before_w), np.int64)
        without_w = caps_w.copy()
        without_w[devices] = [self.before_w[device] for device in devices.tolist()]
        rows = view.active
        (factors, _), (free, _) = limited_speeds(view, rows, caps_w, without_w)
        slower = factors > free * (1 + SLACK)
        rows = rows[slower][~may_slow(view, rows[slower], factors[slower])]
        if not len(rows):
            return None
        found = np.intersect1d(view.machine.device_of_unit[units_of(view, rows)[0]], devices)
        return SetDeviceLimits(found, without_w[found])


@contextmanager
def cap_alone(kernel: state.KernelView) -> Iterator[None]:
    """Compare with the cap alone, instead of the limit in force, what is done inside."""
    now = kernel.now
    held = int(now.cap_uw)
    now.cap_uw = max(held, int(now.full_cap_uw))
    set_budget(kernel)
    try:
        yield
    finally:
        now.cap_uw = held
        set_budget(kernel)
