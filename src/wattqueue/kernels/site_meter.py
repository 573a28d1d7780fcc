"""The site meter of an adaptive ledger: what it reads of the whole machine, and how the ledger's margin follows.

A reading is the mean true power, in the cap's scope, since the reading before; it is known ``LATE`` readings later. The
mean of what the ledger counted in the same time stands beside it. Of each reading three things
are learned (rule 15 of docs/semantics.md):

    share   watts drawn for a watt predicted: two averages, of power and of the ledger, that forget with ``FORGET_S``
    spent   seconds above the cap in the last ``WINDOW_S``, of which ``epsilon`` times the window is the allowance
    z       the number of standard deviations to keep free; each reading moves it by

                GAIN * (seconds above - AIM * epsilon * seconds) / (epsilon * WINDOW_S)

The last is adaptive conformal inference (Gibbs and Candes 2021, eq. 2) on the exceedance of the cap, in steps that are
relative to the allowance: one whole allowance spent raises z by GAIN. What is in force is z - CAUTION log(1 - spent /
allowance), an integrator that saturates (Angelopoulos, Candes and Tibshirani 2023, eq. 5): as the allowance runs out,
the margin grows beyond every bound, and nothing starts any more. The margin itself is that of a chance ledger
(``kernels/chance.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, inlined, kernel, referenced
from wattqueue.kernels.chance import margin_uw
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.sensors import periods
from wattqueue.kernels.state import Array, KernelView, Log, Truth

INF = float("inf")

# Slots of SiteMeter.figures.
PERIOD_S = 0
LATE = 1  # readings that come in between a reading and its use
NOISE = 2  # standard deviation of a reading, relative to its watts
ALLOWED_S = 3  # epsilon x window: seconds above the cap in a window
EPSILON = 4
OWN = 5  # variances of a chance ledger, for z = 1
COMMON = 6
FORGET_S = 7
LEAST_SHARE = 8
GAIN = 9
AIM = 10
CAUTION = 11
MOST_Z = 12
FIGURES = 13

# Slots of SiteMeter.state.
READ_AT = 0  # next reading; inf where there is no meter
SINCE_S = 1  # the reading before
ROW = 2  # row of the power series in force then
COUNT = 3  # readings so far
POWER_W = 4  # averages that forget: power, and the ledger
LEDGER_W = 5
Z = 6
SPENT_S = 7
SLOT = 8  # number of the part of the window under way
COUNTED_WS = 9  # what the ledger counted since the reading before, and until when
COUNTED_AT = 10
STATE = 11

# Columns of SiteMeter.waiting.
SPAN_S, DRAWN_W, COUNTED_W, ABOVE_S, WAITED = 0, 1, 2, 3, 4
COLUMNS = 5


@referenced
class SiteMeter(NamedTuple):
    """A meter of the whole machine's power, and what an adaptive ledger has learned by it."""

    figures: Array
    """float64 settings by slot."""
    state: Array
    """float64 by slot."""
    waiting: Array
    """(LATE + 1, 5) float64 readings that are not used yet: seconds, watts drawn and counted, seconds above the cap, 1
    where jobs waited."""
    spent_s: Array
    """(W,) float64 seconds above the cap in each part of the window."""
    cap_uw: Array
    """(1,) int64 highest cap since the reading before."""
    normal: Array
    """float64 standard normal numbers, of which the noise is drawn; empty for none."""


def new_meter(figures: Array, z: float, window_s: float, parts: int, rng: np.random.Generator) -> SiteMeter:
    """Return a meter that has read nothing.

    Args:
        figures: Settings by slot; ``ALLOWED_S`` is computed here. Shape (FIGURES,).
        z: Standard deviations to keep free at first.
        window_s: Seconds of the window.
        parts: Parts of the window.
        rng: Source of the noise.
    """
    figures = figures.copy()
    figures[ALLOWED_S] = figures[EPSILON] * window_s
    state = np.zeros(STATE)
    state[[READ_AT, SINCE_S, Z]] = -INF, -INF, z
    normal = rng.standard_normal(65_521) if figures[NOISE] > 0 else np.empty(0)
    waiting = np.zeros((int(figures[LATE]) + 1, COLUMNS))
    return SiteMeter(figures, state, waiting, np.zeros(parts), np.zeros(1, np.int64), normal)


def no_meter() -> SiteMeter:
    """Return what stands for no meter."""
    figures = np.zeros(FIGURES)
    figures[PERIOD_S] = 1.0
    meter = new_meter(figures, 0.0, 1.0, 1, np.random.default_rng(0))
    meter.state[READ_AT] = INF
    return meter


@inlined
def count_ledger(view: KernelView, meter: SiteMeter, now: float) -> None:
    """Add up what the ledger counted until now, when it is about to change. For each instant of a run with a meter."""
    state = meter.state
    if state[READ_AT] < INF:
        state[COUNTED_WS] += view.counter[codes.LEDGER] / codes.MICRO * (now - state[COUNTED_AT])
        state[COUNTED_AT] = now


@kernel
def read_meter(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> None:
    """Read the meter now, learn of the reading that is known by now, and keep the margin that follows."""
    state, now = meter.state, view.num[codes.NOW]
    period = meter.figures[PERIOD_S]
    state[READ_AT] = (periods(now, period) + 1) * period
    since = state[SINCE_S]
    if since > -INF and now > since:
        note_reading(view, truth, log, meter)
        if state[COUNT] > meter.figures[LATE]:
            rows = len(meter.waiting)
            learn_reading(meter, int(state[COUNT]) % rows, now)
    state[SINCE_S] = now
    state[COUNTED_WS] = 0.0
    state[ROW] = max(truth.tally[codes.POWER_ROWS] - 1, 0)
    meter.cap_uw[0] = view.counter[codes.CAP]
    keep_margin(view, meter)


@kernel
def note_reading(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> None:
    """Put the reading that ends now among those that are not used yet.

    An interval in which the cap came down is above it where its mean is above the higher one.
    """
    state, now = meter.state, view.num[codes.NOW]
    count, since = int(state[COUNT]), state[SINCE_S]
    watts = mean_w(view, truth, log, int(state[ROW]), since)
    if len(meter.normal) > 0:
        watts = max(0.0, watts * (1.0 + meter.figures[NOISE] * meter.normal[count % len(meter.normal)]))
    cap = max(meter.cap_uw[0], view.counter[codes.CAP])
    at = count % len(meter.waiting)
    meter.waiting[at, SPAN_S] = now - since
    meter.waiting[at, DRAWN_W] = watts - view.counter[codes.BASE] / codes.MICRO
    meter.waiting[at, COUNTED_W] = state[COUNTED_WS] / (now - since)
    above = cap < codes.NO_CAP and watts * codes.MICRO > cap + 1.0
    meter.waiting[at, ABOVE_S] = now - since if above else 0.0
    meter.waiting[at, WAITED] = 1.0 if cap < codes.NO_CAP and view.counter[codes.QUEUED] > 0 else 0.0
    state[COUNT] = count + 1


@kernel
def mean_w(view: KernelView, truth: Truth, log: Log, row: int, since: float) -> float:
    """Return the mean watts in the cap's scope from ``since`` to now; ``row`` of the power series held then."""
    now, rows = view.num[codes.NOW], as_int64(truth.tally[codes.POWER_ROWS])
    total = 0.0
    for k in range(row, rows):
        begin = max(log.time[k], since)
        end = log.time[k + 1] if k + 1 < rows else now
        uw = log.jobs_uw[k]
        if view.counter[codes.SCOPE_MACHINE] != 0:
            uw += log.other_uw[k]
        elif view.counter[codes.SCOPE_JOBS] == 0:
            uw -= log.busy_idle_uw[k]
        if end > begin:
            total += uw / codes.MICRO * (end - begin)
    return float(total / (now - since))


@kernel
def learn_reading(meter: SiteMeter, row: int, now: float) -> None:
    """Learn of one reading: share, spent and z."""
    figures, state, known = meter.figures, meter.state, meter.waiting
    span, above = known[row, SPAN_S], known[row, ABOVE_S]
    spend(meter, above, now)
    if known[row, WAITED] != 0.0 or above > 0.0:
        moved = figures[GAIN] * (above - figures[AIM] * figures[EPSILON] * span) / figures[ALLOWED_S]
        state[Z] = min(max(state[Z] + moved, 0.0), figures[MOST_Z])
    if known[row, COUNTED_W] > 0.0:
        weight = 1.0 - math.exp(-span / figures[FORGET_S]) if state[LEDGER_W] > 0.0 else 1.0
        state[POWER_W] += weight * (known[row, DRAWN_W] - state[POWER_W])
        state[LEDGER_W] += weight * (known[row, COUNTED_W] - state[LEDGER_W])


@kernel
def spend(meter: SiteMeter, above: float, now: float) -> None:
    """Count seconds above the cap, and forget those that have left the window."""
    state, parts = meter.state, len(meter.spent_s)
    part_s = meter.figures[ALLOWED_S] / meter.figures[EPSILON] / parts
    slot = periods(now, part_s)
    if state[COUNT] == meter.figures[LATE] + 1:
        state[SLOT] = slot
    for k in range(max(int(state[SLOT]) + 1, slot - parts + 1), slot + 1):
        state[SPENT_S] -= meter.spent_s[k % parts]
        meter.spent_s[k % parts] = 0.0
    state[SLOT] = slot
    meter.spent_s[slot % parts] += above
    state[SPENT_S] += above


@kernel
def keep_margin(view: KernelView, meter: SiteMeter) -> None:
    """Put share and margin in force; the budget follows."""
    figures, state, count = meter.figures, meter.state, view.counter
    share = 1.0
    if state[LEDGER_W] > 0.0:
        share = max(state[POWER_W] / state[LEDGER_W], figures[LEAST_SHARE])
    z, left = figures[MOST_Z], 1.0 - state[SPENT_S] / figures[ALLOWED_S]
    if left > 0.0:
        z = min(state[Z] - figures[CAUTION] * math.log(left), z)
    view.num[codes.CHANCE_SHARE] = share
    view.num[codes.CHANCE_OWN] = z * z * figures[OWN]
    view.num[codes.CHANCE_COMMON] = z * z * figures[COMMON]
    count[codes.MARGIN] = margin_uw(view, as_int64(count[codes.LEDGER]), as_int64(count[codes.SQUARES]))
    set_budget(view)
