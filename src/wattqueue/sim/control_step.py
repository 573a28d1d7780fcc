"""Prepare the control whose steps the compiled loop takes itself (``kernels/control_step.py``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wattqueue.kernels.calls import asks_consent, choose_if_due, end_step, list_changed_caps, step_if_due, take_back
from wattqueue.kernels.codes import MICRO
from wattqueue.kernels.in_loop import ControlStep, new_step, no_step
from wattqueue.kernels.redistribution import LENDS, RATES
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap
from wattqueue.model.supply_binding import binding_as_stated
from wattqueue.parts.actions import SetDeviceLimits
from wattqueue.policy.capabilities import EVENT_BITS, Capabilities
from wattqueue.policy.session import Session
from wattqueue.sim.world import ABILITIES, SimulatedWorld


def control_step_of(needs: Capabilities, jobs: Jobs, machine: Machine, cap: Cap) -> ControlStep:
    """Return the control of a policy that has a compiled step, or one that never takes a step.

    A budget below the sum of the least caps is an error that only Python can raise, so such a run asks the control.
    """
    step = needs.step
    if step is None or step.code not in ABILITIES.control_steps or not len(jobs):
        return no_step()
    if binding_as_stated(machine).any() and not step.figures[LENDS]:
        return no_step()  # its limits are tested in Python
    *rates, minimum_w, maximum_w = step.figures
    if np.ceil(minimum_w * MICRO) * machine.devices > np.floor(cap.cap_w.min() * MICRO):
        return no_step()
    control, begin_s = needs.controls[needs.step_control], float(jobs.submit_s.min())
    wakes = begin_s, float(control.period_s), sum(EVENT_BITS[event] for event in control.events)
    idle_w = machine.device_idle_w * float(machine.cap_scope != "jobs")
    return new_step(np.array(rates[:RATES]), (minimum_w, maximum_w), wakes, idle_w, (len(jobs), machine.units))


def step_beside_others(session: Session, world: SimulatedWorld, step: ControlStep) -> Callable[[int], int]:
    """Return a function that has the compiled control act in its place among those in Python.

    It is given what happened, and returns 1 where a limit changed. Limits go through the session where that asks for
    consent.
    """

    def act(happened: int) -> int:
        if not asks_consent(world.kernel, step):
            return step_if_due(world.kernel, world.truth, world.log, step, happened)
        if not choose_if_due(world.kernel, world.truth, step, happened):
            return 0
        acted, control = 0, session.needs.controls[session.needs.step_control]
        for sign in (-1.0, 1.0):
            changed = list_changed_caps(step, sign)
            devices = step.device[:changed].copy()
            action = SetDeviceLimits(devices, step.sockets.cap_w[devices])
            if changed and session.take(world, world.view((), control), action, control):
                acted = 1
            else:
                take_back(step, changed)
        end_step(step, acted)
        return acted

    return act
