"""The site meter of an adaptive ledger: what it reads of the whole machine, and how the ledger's margin follows.

A reading is the mean true power, in the cap's scope, since the reading before; it is known ``LATE`` readings later. The
mean of what the ledger counted in the same time stands beside it. Of each reading three things
are learned (rule 15 of docs/semantics.md):

    share      watts drawn for a watt predicted: two averages, of power and of the ledger, that forget with ``FORGET_S``
    spent      seconds above the cap in the last ``WINDOW_S``, of which ``epsilon`` times the window is the allowance
    deviation  standard deviations by which power was above what had been admitted: power over the share at which jobs
               fitted last, less the ledger, over the ledger's standard deviation for z = 1. The cap is exceeded where
               it is greater than the z with which the last job was admitted
    greatest   greatest deviation in the last ``WINDOW_S``
    z          the number of standard deviations to keep free; each reading moves it by

                   GAIN * (seconds of a deviation above z - AIM * epsilon * seconds) / (epsilon * WINDOW_S)

The last is adaptive conformal inference (Gibbs and Candes 2021, eq. 2) on the deviations, in steps that are relative to
the allowance. Jobs that run cannot be ended, so power stays above the cap long after z is large enough: only what z
does not cover yet raises it. What is in force is z - CAUTION log(1 - spent / allowance), an integrator that saturates
(Angelopoulos, Candes and Tibshirani 2023, eq. 5) at a bound of the scores: at ``MOST`` times the greatest deviation.
The margin itself is that of a chance ledger (``kernels/chance.py``).

The simulator reads the meter in its loop (``read_meter``); a live controller hands in what it read
(``take_reading_once``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, by_reference, entry, inlined, kernel, referenced
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
MOST = 12
BEGIN = 13
FIGURES = 14

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
COUNTED_W2S = 11  # the same of the sum of squares
FIT_SHARE = 12  # share at which jobs fitted last
GREATEST = 13  # greatest deviation in the window
STATE = 14

# Columns of SiteMeter.waiting.
SPAN_S, DRAWN_W, COUNTED_W, ABOVE_S, WAITED, DEVIATION = 0, 1, 2, 3, 4, 5
COLUMNS = 6


@referenced
class SiteMeter(NamedTuple):
    """A meter of the whole machine's power, and what an adaptive ledger has learned by it."""

    figures: Array
    """float64 settings by slot."""
    state: Array
    """float64 by slot."""
    waiting: Array
    """(LATE + 1, 6) float64 readings that are not used yet: seconds, watts drawn and counted, seconds above the cap, 1
    where jobs waited, deviation."""
    spent_s: Array
    """(W,) float64 seconds above the cap in each part of the window."""
    greatest: Array
    """(W,) float64 greatest deviation in each part of the window."""
    cap_uw: Array
    """(1,) int64 highest cap since the reading before."""
    normal: Array
    """float64 standard normal numbers, of which the noise is drawn; empty for none."""


def new_meter(figures: Array, window_s: float, parts: int, rng: np.random.Generator) -> SiteMeter:
    """Return a meter that has read nothing.

    Args:
        figures: Settings by slot; ``ALLOWED_S`` is computed here. Shape (FIGURES,).
        window_s: Seconds of the window.
        parts: Parts of the window.
        rng: Source of the noise.
    """
    figures = figures.copy()
    figures[ALLOWED_S] = figures[EPSILON] * window_s
    state = np.zeros(STATE)
    state[[READ_AT, SINCE_S, Z, FIT_SHARE]] = -INF, -INF, figures[BEGIN], 1.0
    normal = rng.standard_normal(65_521) if figures[NOISE] > 0 else np.empty(0)
    waiting = np.zeros((int(figures[LATE]) + 1, COLUMNS))
    return SiteMeter(figures, state, waiting, np.zeros(parts), np.zeros(parts), np.zeros(1, np.int64), normal)


def no_meter() -> SiteMeter:
    """Return what stands for no meter."""
    figures = np.zeros(FIGURES)
    figures[PERIOD_S] = 1.0
    meter = new_meter(figures, 1.0, 1, np.random.default_rng(0))
    meter.state[READ_AT] = INF
    return meter


@inlined
def count_ledger(view: KernelView, meter: SiteMeter, now: float) -> None:
    """Add up what the ledger counted until now, when it is about to change. For each instant of a run with a meter."""
    state = meter.state
    if state[READ_AT] < INF:
        state[COUNTED_WS] += view.counter[codes.LEDGER] / codes.MICRO * (now - state[COUNTED_AT])
        state[COUNTED_W2S] += view.counter[codes.SQUARES] * (now - state[COUNTED_AT])
        state[COUNTED_AT] = now


@kernel
def read_meter(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> None:
    """Read the meter now, learn of the reading that is known by now, and keep the margin that follows."""
    state, now = meter.state, view.num[codes.NOW]
    period = meter.figures[PERIOD_S]
    state[READ_AT] = (periods(now, period) + 1) * period
    since = state[SINCE_S]
    if since > -INF and now > since:
        read_power(view, truth, log, meter)
    state[SINCE_S] = now
    state[COUNTED_WS] = 0.0
    state[COUNTED_W2S] = 0.0
    state[ROW] = max(truth.tally[codes.POWER_ROWS] - 1, 0)
    meter.cap_uw[0] = view.counter[codes.CAP]
    keep_margin(view, meter)


@kernel
def read_power(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> None:
    """Take the reading that ends now.

    An interval in which the cap came down is above it where its mean is above the higher one.
    """
    state, now = meter.state, view.num[codes.NOW]
    watts = mean_w(view, truth, log, int(state[ROW]), state[SINCE_S])
    if len(meter.normal) > 0:
        watts = max(0.0, watts * (1.0 + meter.figures[NOISE] * meter.normal[int(state[COUNT]) % len(meter.normal)]))
    cap = max(meter.cap_uw[0], view.counter[codes.CAP])
    above = cap < codes.NO_CAP and watts * codes.MICRO > cap + 1.0
    waited = cap < codes.NO_CAP and view.counter[codes.QUEUED] > 0
    take_reading(meter, now, watts - view.counter[codes.BASE] / codes.MICRO, above, waited)


@kernel
def take_reading(meter: SiteMeter, now: float, drawn_w: float, above: bool, waited: bool) -> None:
    """Put a reading among those that are not used yet, and learn of the one that is known by now.

    ``drawn_w`` is mean power above the base from ``state[SINCE_S]`` to ``now``, ``above`` whether the cap was exceeded,
    ``waited`` whether jobs waited under a cap. What the ledger counted meanwhile is in ``state``.
    """
    state, count = meter.state, int(meter.state[COUNT])
    span = now - state[SINCE_S]
    at = count % len(meter.waiting)
    row = meter.waiting[at]
    row[SPAN_S], row[DRAWN_W], row[COUNTED_W] = span, drawn_w, state[COUNTED_WS] / span
    row[ABOVE_S], row[WAITED] = span if above else 0.0, 1.0 if waited else 0.0
    row[DEVIATION] = deviation(meter, drawn_w, row[COUNTED_W], state[COUNTED_W2S] / span)
    state[COUNT] = count + 1
    if state[COUNT] > meter.figures[LATE]:
        learn_reading(meter, int(state[COUNT]) % len(meter.waiting), now)


@kernel
def deviation(meter: SiteMeter, drawn_w: float, counted_w: float, squares_w2: float) -> float:
    """Return the standard deviations by which power was above what had been admitted; 0 for an empty ledger."""
    figures = meter.figures
    spread = math.sqrt(figures[OWN] * squares_w2 + figures[COMMON] * counted_w * counted_w)
    return (drawn_w / meter.state[FIT_SHARE] - counted_w) / spread if spread > 0.0 else 0.0


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
    """Learn of one reading: share, spent, greatest deviation and z."""
    figures, state, known = meter.figures, meter.state, meter.waiting
    span, above, deviated = known[row, SPAN_S], known[row, ABOVE_S], known[row, DEVIATION]
    waited = known[row, WAITED] != 0.0 or above > 0.0
    spend(meter, above, deviated if waited else 0.0, now)
    if waited:
        missed = span if deviated > state[Z] else 0.0
        moved = figures[GAIN] * (missed - figures[AIM] * figures[EPSILON] * span) / figures[ALLOWED_S]
        state[Z] = max(state[Z] + moved, 0.0)
    if known[row, COUNTED_W] > 0.0:
        weight = 1.0 - math.exp(-span / figures[FORGET_S]) if state[LEDGER_W] > 0.0 else 1.0
        state[POWER_W] += weight * (known[row, DRAWN_W] - state[POWER_W])
        state[LEDGER_W] += weight * (known[row, COUNTED_W] - state[LEDGER_W])


@kernel
def spend(meter: SiteMeter, above: float, deviated: float, now: float) -> None:
    """Count seconds above the cap and a deviation, and forget those that have left the window."""
    state, parts = meter.state, len(meter.spent_s)
    part_s = meter.figures[ALLOWED_S] / meter.figures[EPSILON] / parts
    slot = periods(now, part_s)
    if state[COUNT] == meter.figures[LATE] + 1:
        state[SLOT] = slot
    passed = slot > state[SLOT]
    for k in range(max(int(state[SLOT]) + 1, slot - parts + 1), slot + 1):
        state[SPENT_S] -= meter.spent_s[k % parts]
        meter.spent_s[k % parts] = 0.0
        meter.greatest[k % parts] = 0.0
    state[SLOT] = slot
    meter.spent_s[slot % parts] += above
    state[SPENT_S] += above
    meter.greatest[slot % parts] = max(meter.greatest[slot % parts], deviated)
    if passed:
        state[GREATEST] = 0.0
        for k in range(parts):
            state[GREATEST] = max(state[GREATEST], meter.greatest[k])
    state[GREATEST] = max(state[GREATEST], deviated)


@kernel
def share_in_force(meter: SiteMeter) -> float:
    """Return the watts drawn for a watt predicted."""
    state = meter.state
    if state[LEDGER_W] <= 0.0:
        return 1.0
    return float(max(state[POWER_W] / state[LEDGER_W], meter.figures[LEAST_SHARE]))


@kernel
def z_in_force(meter: SiteMeter) -> float:
    """Return the standard deviations to keep free: z, and more as the allowance runs out."""
    figures, state = meter.figures, meter.state
    most = max(state[Z], figures[MOST] * max(state[GREATEST], figures[BEGIN]))
    left = 1.0 - state[SPENT_S] / figures[ALLOWED_S]
    return float(min(state[Z] - figures[CAUTION] * math.log(left), most)) if left > 0.0 else float(most)


@kernel
def keep_margin(view: KernelView, meter: SiteMeter) -> None:
    """Put share and margin in force; the budget follows."""
    count, z = view.counter, z_in_force(meter)
    share = share_in_force(meter)
    view.num[codes.CHANCE_SHARE] = share
    view.num[codes.CHANCE_OWN] = z * z * meter.figures[OWN]
    view.num[codes.CHANCE_COMMON] = z * z * meter.figures[COMMON]
    count[codes.MARGIN] = margin_uw(view, as_int64(count[codes.LEDGER]), as_int64(count[codes.SQUARES]))
    set_budget(view)
    if count[codes.AVAILABLE] >= 0:
        meter.state[FIT_SHARE] = share


@entry
def take_reading_once(meter: SiteMeter, now: float, drawn_w: float, above: bool, waited: bool) -> None:
    """Take a reading and learn, for callers in Python that read the meter themselves."""
    meter = by_reference(meter)
    take_reading(meter, now, drawn_w, above, waited)


@entry
def margin_once(meter: SiteMeter, margin: Array) -> None:
    """Write share and z in force into ``margin`` (2,) float64, for callers in Python."""
    meter = by_reference(meter)
    margin[0] = share_in_force(meter)
    margin[1] = z_in_force(meter)
