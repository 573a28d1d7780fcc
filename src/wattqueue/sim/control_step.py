"""Prepare the control whose steps the compiled loop takes itself (``kernels/control_step.py``)."""

from __future__ import annotations

import numpy as np

from wattqueue.kernels.codes import MICRO
from wattqueue.kernels.control_step import ControlStep, new_step, no_step
from wattqueue.kernels.redistribution import RATES
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import Cap, Signals
from wattqueue.policy.capabilities import Capabilities
from wattqueue.sim.world import ABILITIES


def control_step_of(needs: Capabilities, jobs: Jobs, machine: Machine, cap: Cap, signals: Signals) -> ControlStep:
    """Return the control of a policy that has a compiled step, or one that never takes a step.

    A budget below the sum of the least caps is an error that only Python can raise, so such a run asks the control; so
    does one with load targets, where the session asks for consent.
    """
    step = needs.step
    if step is None or len(signals.targets) or step.code not in ABILITIES.control_steps or not len(jobs):
        return no_step()
    *rates, minimum_w, maximum_w = step.figures
    if np.ceil(minimum_w * MICRO) * machine.domains > np.floor(cap.cap_w.min() * MICRO):
        return no_step()
    sizes = len(jobs), machine.domains, machine.units
    period_s = float(needs.controls[needs.step_control].period_s)
    begin_s = float(jobs.submit_s.min())
    return new_step(np.array(rates[:RATES]), (minimum_w, maximum_w), period_s, begin_s, sizes)
