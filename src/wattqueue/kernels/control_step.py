"""Steps of a control that the compiled loop takes itself: redistribution of caps every few seconds.

A control in Python costs hundreds of microseconds a call, mostly for the view that it reads; over days with a step
every 4 s that is most of a run. ``take_step`` does what ``parts/controls/rapl_redistribution.py`` does, with the same
arithmetic (``kernels/redistribution.py``) and through the same change of limits (``speed.set_domain_caps``), so that
outcomes are equal (tests/sim/test_control_step.py). Only jobs whose limit binds before or after continue at another
speed (``domains.list_changed``).

A refused raise is counted; other parts do not see it in their views.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import Scalars, as_int64, entry, kernel, referenced
from wattqueue.kernels.domain_power import read_domains
from wattqueue.kernels.history_prediction import HistoryState
from wattqueue.kernels.redistribution import RATES, Sockets, new_sockets, step_caps
from wattqueue.kernels.site_meter import SiteMeter
from wattqueue.kernels.speed import set_domain_caps
from wattqueue.kernels.state import Array, KernelView, Log, Truth

INF = float("inf")


class StepState(Scalars):
    """Where the steps of a control stand."""

    at_s: float
    """Next step; inf for none."""
    period_s: float
    limiting: int
    """1 while limits are set."""
    ran: int
    """Rows of ``ran_job`` in use."""
    refused: int
    """Actions that the ledger had no room for."""
    acted: int
    """1 where the last step changed a limit."""


@referenced
class ControlStep(NamedTuple):
    """What a control keeps between two steps, and working space."""

    rates: Array
    """(RATES,) float64, slots of ``kernels/redistribution.py``."""
    now: StepState
    sockets: Sockets
    """Power domains; ``cap_w`` are the limits in force."""
    even_w: Array
    """(1,) float64 even share of the budget."""
    before_w: Array
    """(D,) float64 limits before the step, inf for none."""
    domain: Array
    """(D,) int32 working space: domains whose limit changes."""
    cap_uw: Array
    """(D,) float64 working space: their new limits."""
    before_uw: Array
    """(D,) float64 working space: those before."""
    ran: Array
    """(n,) int8, 1 for jobs that ran at the last step."""
    ran_job: Array
    """(U + 1,) int32 these jobs."""


@referenced
class InLoop(NamedTuple):
    """Parts that the loop asks without returning to Python."""

    history: HistoryState
    """Of an estimator."""
    step: ControlStep
    """Of a control."""
    meter: SiteMeter
    """Of an adaptive ledger."""


def new_step(
    rates: Array, limits_w: tuple[float, float], period_s: float, begin_s: float, sizes: tuple[int, int, int]
) -> ControlStep:
    """Return a control that has done nothing.

    ``limits_w`` are the least and the highest cap of the hardware, ``sizes`` n jobs, D domains and U units.
    """
    jobs, domains, units = sizes
    limits = np.full(1, limits_w[0]), np.full(1, limits_w[1])
    now = StepState()
    now.at_s, now.period_s = begin_s, period_s
    return ControlStep(
        np.ascontiguousarray(rates, np.float64),
        now,
        new_sockets(np.empty(domains), np.full(domains, INF), *limits),
        np.empty(1),
        np.empty(domains),
        np.empty(domains, np.int32),
        np.empty(domains),
        np.empty(domains),
        np.zeros(jobs, np.int8),
        np.empty(units + 1, np.int32),
    )


def no_step() -> ControlStep:
    """Return a control that never takes a step."""
    return new_step(np.zeros(RATES), (0.0, INF), INF, INF, (0, 0, 0))


@entry
def step_if_due(view: KernelView, truth: Truth, log: Log, step: ControlStep) -> int:
    """Take the step if it is due; return 1 where it changed a limit. For instants at which Python controls act, too."""
    if step.now.at_s > view.now.time_s:
        return 0
    take_step(view, truth, log, step)
    return int(step.now.acted)


@kernel
def take_step(view: KernelView, truth: Truth, log: Log, step: ControlStep) -> None:
    """Set the limits of the next period; without a budget lift them.

    Lowered and raised limits are two actions: what is lowered is lowered although the ledger has no room for the rest.
    """
    sockets, now, budget = step.sockets, step.now, as_int64(view.now.cap_uw)
    step.now.at_s = view.now.time_s + step.now.period_s
    note_begins(view, truth, step)
    for domain in range(len(sockets.cap_w)):
        step.before_w[domain] = sockets.cap_w[domain]
    if budget >= codes.NO_CAP:
        set_all(sockets.cap_w, INF)
    else:
        even = budget // len(sockets.cap_w) / codes.MICRO
        step.even_w[0] = min(max(even, sockets.minimum_w[0]), sockets.maximum_w[0])
        if now.limiting == 0:
            set_all(sockets.cap_w, step.even_w[0])
        else:
            read_domains(view, truth.domains.of_unit, sockets.power_w)
            step_caps(sockets, step.rates, step.even_w, budget)
    lowered = set_changed(view, truth, log, step, -1.0)
    raised = set_changed(view, truth, log, step, 1.0)
    now.acted = max(lowered, raised)
    now.limiting = as_int64(1)
    for domain in range(len(sockets.cap_w)):
        if sockets.cap_w[domain] == INF:
            now.limiting = 0


@kernel
def set_all(caps_w: Array, watts: float) -> None:
    """Write one figure to all caps."""
    for domain in range(len(caps_w)):
        caps_w[domain] = watts


@kernel
def set_changed(view: KernelView, truth: Truth, log: Log, step: ControlStep, sign: float) -> int:
    """Put in force the limits that rose (1) or fell (-1); return 1 where there were some and they were not refused."""
    caps, k = step.sockets.cap_w, 0
    for domain in range(len(caps)):
        # No difference of the two: both may be infinite.
        if (sign > 0.0 and caps[domain] > step.before_w[domain]) or (
            sign < 0.0 and caps[domain] < step.before_w[domain]
        ):
            step.domain[k] = domain
            step.cap_uw[k] = caps[domain] * codes.MICRO
            k += 1
    if k == 0:
        return 0
    if set_domain_caps(view, truth, log, step.domain[:k], step.cap_uw[:k], step.before_uw) == 0:
        return 1
    step.now.refused += 1
    for i in range(k):
        caps[step.domain[i]] = step.before_w[step.domain[i]]
    return 0


@kernel
def note_begins(view: KernelView, truth: Truth, step: ControlStep) -> None:
    """Mark the sockets of jobs that run now and did not at the last step."""
    begins = step.sockets.begins
    for domain in range(len(begins)):
        begins[domain] = 0
    for at in range(view.now.blocks):
        block = as_int64(view.running.order[at])
        for k in range(view.running.filled[block]):
            job = as_int64(view.running.job[block, k])
            if step.ran[job] == 0:
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
def mark_sockets(view: KernelView, truth: Truth, begins: Array, job: int) -> None:
    """Mark the power domains of a running job."""
    held = view.held
    for k in range(held.first[job], held.first[job] + held.pieces[job]):
        for domain in range(truth.domains.of_unit[held.low[k]], truth.domains.of_unit[held.high[k]] + 1):
            begins[domain] = 1
