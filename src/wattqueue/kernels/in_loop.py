"""What the loop asks without returning to Python: an estimator, run times from history, a control, a site meter.

Their state, and the state of those that are switched off: kernels need arguments of one type. The kernels are in
``history_prediction``, ``recent_runs``, ``control_step`` and ``site_meter``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wattqueue.kernels._numba import Scalars, referenced
from wattqueue.kernels.history import History, new_history
from wattqueue.kernels.recent_runs import RecentRuns
from wattqueue.kernels.redistribution import RATES, Sockets, new_sockets
from wattqueue.kernels.state.queue import Array
from wattqueue.kernels.state.site_meter import SiteMeter

INF = float("inf")

# Slots of HistoryState.rule.
ON = 0
PREVIOUS_JOB = 1  # the user's last job stands for the next one, as LastJob does
GREATEST = 2  # the greatest watts are learned, not the mean
BY_APP = 3  # the user's jobs of the same application count, where there are any
BY_UNIT = 4  # watts are learned over the mean predicted factor of a job's units
CORRECTED = 5  # predicted watts are corrected: margin, bound
RULE_SLOTS = 6

# Slots of HistoryState.knob.
SPREADS = 0  # standard deviations that are added
LEAST_SPREAD = 1  # a standard deviation counts as at least this share of the prediction
MARGIN = 2  # predicted watts are multiplied by this
KNOB_SLOTS = 3


@referenced
class HistoryState(NamedTuple):
    """What the loop predicts with: watts, and run times (``runs``).

    ``rule`` (6,) int64, ``knob`` (3,) float64 (see the constants); ``history`` by ``user`` (n,) int32, ``by_app`` by
    ``pair`` (n,) int32, a number for each (user, application); ``peak_w`` (n,) greatest watts that a meter would show,
    NaN unknown; ``idle_w``, ``max_w``, ``dynamic``, ``held_w`` (O,): figures of a unit by option (``scale``).
    ``rule[ON]`` 0: every other array is empty, and the loop predicts no watts.
    """

    rule: Array
    knob: Array
    history: History
    user: Array
    by_app: History
    pair: Array
    peak_w: Array
    idle_w: Array
    max_w: Array
    dynamic: Array
    held_w: Array
    runs: RecentRuns


class StepState(Scalars):
    """Where the steps of a control stand."""

    at_s: float
    """Next call by the period; inf for none."""
    step_at_s: float
    """Before this time a call by an event is none of a whole step, where BETWEEN is set."""
    period_s: float
    events: int
    """Events that wake it, too, bits of ``EventLoopState.happened``."""
    limiting: int
    """1 while limits are set."""
    ran: int
    """Rows of ``ran_job`` in use."""
    refused: int
    """Actions that the ledger had no room for."""
    acted: int
    """1 where the last step changed a limit."""
    for_target: int
    """1 while limits that were set for a load target are in force."""


@referenced
class ControlStep(NamedTuple):
    """What a control keeps between two steps, and working space."""

    rates: Array
    """(RATES,) float64, slots of ``kernels/redistribution.py``."""
    now: StepState
    sockets: Sockets
    """Devices; ``cap_w`` are the limits in force."""
    even_w: Array
    """(1,) float64 even share of the budget."""
    before_w: Array
    """(D,) float64 limits before the step, inf for none."""
    device: Array
    """(D,) int32 working space: devices whose limit changes."""
    cap_uw: Array
    """(D,) float64 working space: their new limits."""
    before_uw: Array
    """(D,) float64 working space: those before."""
    ran: Array
    """(n,) int8, 1 for jobs that ran at the last step."""
    ran_job: Array
    """(U + 1,) int32 these jobs."""
    least_w: Array
    """(D,) float64 watts of each device where no job runs: idle, at least the least cap."""
    held: Array
    """(D,) int8 working space: 1 for devices that are busy beyond a promised time."""


@referenced
class InLoop(NamedTuple):
    """Parts that the loop asks without returning to Python."""

    history: HistoryState
    """Of an estimator."""
    step: ControlStep
    """Of a control."""
    meter: SiteMeter
    """Of an adaptive ledger."""


def no_history(runs: RecentRuns) -> HistoryState:
    """Return what predicts no watts, and run times as ``runs`` does."""
    nothing, nobody = np.zeros(0), np.zeros(0, np.int32)
    none = new_history(nobody), nobody
    off = np.zeros(RULE_SLOTS, np.int64)
    return HistoryState(off, np.zeros(KNOB_SLOTS), *none, *none, *(nothing,) * 5, runs)


def new_step(
    rates: Array, limits_w: tuple[float, float], wakes: tuple[float, float, int], idle_w: Array, sizes: tuple[int, int]
) -> ControlStep:
    """Return a control that has done nothing.

    ``limits_w`` are the least and the highest cap of the hardware; ``wakes`` its first call, its period and the bits of
    its events; ``idle_w`` (D,) idle watts of each device, as far as the cap covers them; ``sizes`` n jobs and U units.
    """
    devices, (jobs, units) = len(idle_w), sizes
    limits = np.full(1, limits_w[0]), np.full(1, limits_w[1])
    now = StepState()
    now.at_s, now.period_s, now.events = wakes
    now.step_at_s = -INF
    return ControlStep(
        np.ascontiguousarray(rates, np.float64),
        now,
        new_sockets(np.empty(devices), np.full(devices, INF), *limits),
        np.empty(1),
        np.empty(devices),
        np.empty(devices, np.int32),
        np.empty(devices),
        np.empty(devices),
        np.zeros(jobs, np.int8),
        np.empty(units + 1, np.int32),
        np.maximum(idle_w, limits_w[0]),
        np.zeros(devices, np.int8),
    )


def no_step() -> ControlStep:
    """Return a control that never takes a step."""
    return new_step(np.zeros(RATES), (0.0, INF), (INF, INF, 0), np.zeros(0), (0, 0))
