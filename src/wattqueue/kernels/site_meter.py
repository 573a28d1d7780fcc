"""The site meter of an adaptive ledger: what it reads of the whole machine, and how the ledger's margin follows.

A reading is the mean true power, in the cap's scope, since the reading before; it is known ``LATE`` readings later. The
mean of what the ledger counted in the same time stands beside it. Of each reading three things
are learned (rule 15 of docs/semantics.md):

    share      watts drawn for a watt predicted: two averages, of power and the ledger, that forget with ``FORGET_S``;
               nearer to 1 where the noise of the meter is large beside the ledger's standard deviation
    spent      seconds above the cap in the last ``WINDOW_S``, of which ``epsilon`` times the window is the allowance
    deviation  standard deviations by which power was above what had been admitted: power over the share at which jobs
               fitted last, less the ledger, over the standard deviation of the ledger for z = 1 and of the reading
               together. With an exact meter, the cap is exceeded where it is greater than the z with which the last
               job was admitted
    greatest   greatest deviation in the last ``WINDOW_S``
    z          the number of standard deviations to keep free; each reading during which the margin held a job back
               (``holds_back``), or that is above the cap, moves it by

                   GAIN * (seconds of a deviation above z - AIM * epsilon * seconds) / (epsilon * WINDOW_S)

The last is adaptive conformal inference (Gibbs and Candes 2021, eq. 2) on the deviations, in steps that are relative to
the allowance. Jobs that run cannot be ended, so power stays above the cap long after z is large enough: only what z
does not cover yet raises it. What is in force is z - CAUTION log(1 - spent / allowance), an integrator that saturates
(Angelopoulos, Candes and Tibshirani 2023, eq. 5) at a bound of the scores: at ``MOST`` times the greatest deviation.
The margin itself is that of a chance ledger (``kernels/chance.py``).

The simulator reads the meter in its loop (``read_meter``), also while jobs only wait and the margin may still come
down (``may_fall``); a live controller hands in what it read (``take_reading``).
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, entry, inlined, kernel, separate
from wattqueue.kernels.chance import fits_watts, keeps_margin, margin_uw
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.sensors import periods
from wattqueue.kernels.state import Array, KernelView, Log, Truth
from wattqueue.kernels.state.site_meter import (
    ABOVE_S,
    AIM,
    ALLOWED_S,
    BEGIN,
    CAUTION,
    COMMON,
    COUNT,
    COUNTED_AT,
    COUNTED_W,
    COUNTED_W2S,
    COUNTED_WS,
    DEVIATION,
    DRAWN_W,
    EPSILON,
    FIT_SHARE,
    FORGET_S,
    GAIN,
    GREATEST,
    HELD,
    HELD_S,
    LATE,
    LEARNS,
    LEAST_SHARE,
    LEDGER_W,
    LEDGER_W2,
    MOST,
    NOISE,
    NOISE_W2,
    OF_LEDGER_W2,
    OF_NOISE_W2,
    OWN,
    PERIOD_S,
    POWER_W,
    READ_AT,
    ROW,
    SINCE_S,
    SLOT,
    SPAN_S,
    SPENT_S,
    SiteMeter,
    Z,
)
from wattqueue.kernels.supply import has_supply
from wattqueue.kernels.supply_classes import put_terms
from wattqueue.kernels.tree import Limits, class_of, tree_next

INF = float("inf")


@inlined
def count_ledger(view: KernelView, meter: SiteMeter, now: float) -> None:
    """Add up what the ledger counted until now, when it is about to change. For each instant of a run with a meter."""
    state = meter.state
    if state[READ_AT] < INF:
        state[COUNTED_WS] += view.now.ledger_uw / codes.MICRO * (now - state[COUNTED_AT])
        state[COUNTED_W2S] += view.now.squares_w2 * (now - state[COUNTED_AT])
        state[HELD_S] += state[HELD] * (now - state[COUNTED_AT])
        state[COUNTED_AT] = now


@inlined
def note_held(view: KernelView, meter: SiteMeter) -> None:
    """Note at the end of an instant whether the margin holds a job back. For each instant of a run with a meter."""
    if meter.state[READ_AT] < INF:
        meter.state[HELD] = 1.0 if holds_back(view) else 0.0


@entry
def holds_back(view: KernelView) -> bool:
    """Return whether the margin keeps a job from starting, or the share does where it is above 1.

    In some partition, the first entry in queue order that fits into the free units and, at the least that it draws,
    beside the ledger under the cap, does not fit there with them. Reservations are not looked at.
    """
    tree, now = view.tree, view.now
    if not keeps_margin(view) or now.queued == 0:
        return False
    left = now.cap_uw - now.base_uw - now.ledger_uw - now.idle_above_uw
    left = as_int64(max(left, now.available_uw + now.margin_uw))
    for p in range(len(view.units.free)):
        free = as_int64(view.units.free[p])
        if free <= 0 or left < 0:
            continue
        by_need, by_watt = class_of(tree.need_step, free), class_of(tree.watt_step, left)
        found = tree_next(
            tree, p, 0, Limits(free, left, INF, as_int64(codes.ANY_NEED), as_int64(codes.ANY_WATT), by_need, by_watt)
        )
        if found >= 0 and not fits_watts(view, as_int64(tree.watt[tree.offset[p, 0] + found])):
            return True
    return False


@inlined
def may_fall(view: KernelView, meter: SiteMeter) -> bool:
    """Return whether readings can still let the margin, or a share above 1, come down for a job that it holds back."""
    figures, state = meter.figures, meter.state
    if state[READ_AT] == INF or state[HELD] == 0.0:
        return False
    if state[SPENT_S] > 0.0 or (state[Z] > 0.0 and figures[GAIN] * figures[AIM] > 0.0):
        return True
    return bool(state[LEDGER_W] > 0.0 and view.now.running == 0)


@separate
def read_meter(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> None:
    """Read the meter now, learn of the reading that is known by now, and keep the margin that follows."""
    state, time_s = meter.state, view.now.time_s
    period = meter.figures[PERIOD_S]
    state[READ_AT] = (periods(time_s, period) + 1) * period
    since = state[SINCE_S]
    if since > -INF and time_s > since:
        read_power(view, truth, log, meter)
    state[SINCE_S] = time_s
    state[COUNTED_WS] = 0.0
    state[COUNTED_W2S] = 0.0
    state[HELD_S] = 0.0
    state[ROW] = max(truth.loop.power_rows - 1, 0)
    meter.cap_uw[0] = view.now.cap_uw
    keep_margin(view, meter)


@kernel
def read_power(view: KernelView, truth: Truth, log: Log, meter: SiteMeter) -> None:
    """Take the reading that ends now.

    An interval in which the cap came down is above it where its mean is above the higher one.
    """
    state, time_s = meter.state, view.now.time_s
    watts = mean_w(view, truth, log, int(state[ROW]), state[SINCE_S])
    if len(meter.normal) > 0:
        watts = max(0.0, watts * (1.0 + meter.figures[NOISE] * meter.normal[int(state[COUNT]) % len(meter.normal)]))
    cap = max(meter.cap_uw[0], view.now.cap_uw)
    above = cap < codes.NO_CAP and watts * codes.MICRO > cap + 1.0
    take_reading(meter, time_s, watts, view.now.base_uw / codes.MICRO, above)


@entry
def take_reading(meter: SiteMeter, now: float, read_w: float, base_w: float, above: bool) -> None:
    """Put a reading among those that are not used yet, and learn of the one that is known by now.

    ``read_w`` is mean power from ``state[SINCE_S]`` to ``now``, of which ``base_w`` is the base, ``above`` whether the
    cap was exceeded. What the ledger counted meanwhile, and for how long the margin held a job back, is in ``state``.
    """
    state, figures, count = meter.state, meter.figures, int(meter.state[COUNT])
    span = now - state[SINCE_S]
    at = count % len(meter.waiting)
    row = meter.waiting[at]
    row[SPAN_S], row[DRAWN_W], row[COUNTED_W] = span, read_w - base_w, state[COUNTED_WS] / span
    row[ABOVE_S], row[LEARNS] = span if above else 0.0, 1.0 if above or state[HELD_S] > 0.0 else 0.0
    row[OF_LEDGER_W2] = figures[OWN] * state[COUNTED_W2S] / span + figures[COMMON] * row[COUNTED_W] * row[COUNTED_W]
    row[OF_NOISE_W2] = (figures[NOISE] * read_w) ** 2
    row[DEVIATION] = deviation(meter, row)
    state[COUNT] = count + 1
    if state[COUNT] > figures[LATE]:
        learn_reading(meter, int(state[COUNT]) % len(meter.waiting), now)


@kernel
def deviation(meter: SiteMeter, row: Array) -> float:
    """Return the standard deviations by which power was above what had been admitted; 0 for an empty ledger."""
    fitted = meter.state[FIT_SHARE]
    spread = math.sqrt(row[OF_LEDGER_W2] + row[OF_NOISE_W2] / (fitted * fitted))
    if row[COUNTED_W] <= 0.0 or spread == 0.0:
        return 0.0
    return float((row[DRAWN_W] / fitted - row[COUNTED_W]) / spread)


@kernel
def mean_w(view: KernelView, truth: Truth, log: Log, row: int, since: float) -> float:
    """Return the mean watts in the cap's scope from ``since`` to now; ``row`` of the power series held then."""
    time_s, rows = view.now.time_s, as_int64(truth.loop.power_rows)
    total = 0.0
    for k in range(row, rows):
        begin = max(log.time[k], since)
        end = log.time[k + 1] if k + 1 < rows else time_s
        uw = log.jobs_uw[k]
        if view.now.scope_machine != 0:
            uw += log.other_uw[k]
        elif view.now.scope_jobs == 0:
            uw -= log.busy_idle_uw[k]
        if end > begin:
            total += uw / codes.MICRO * (end - begin)
    return float(total / (time_s - since))


@kernel
def learn_reading(meter: SiteMeter, row: int, now: float) -> None:
    """Learn of one reading: spent, greatest deviation, z, and share."""
    figures, state, known = meter.figures, meter.state, meter.waiting
    span, above, deviated = known[row, SPAN_S], known[row, ABOVE_S], known[row, DEVIATION]
    learns = known[row, LEARNS] != 0.0
    spend(meter, above, deviated if learns else 0.0, now)
    if learns:
        missed = span if deviated > state[Z] else 0.0
        moved = figures[GAIN] * (missed - figures[AIM] * figures[EPSILON] * span) / figures[ALLOWED_S]
        state[Z] = max(state[Z] + moved, 0.0)
    learn_share(meter, row)


@inlined
def learn_share(meter: SiteMeter, row: int) -> None:
    """Learn the watts drawn for a watt predicted; of an empty ledger, that nothing is known of what will run next."""
    state, known = meter.state, meter.waiting
    counted = known[row, COUNTED_W]
    if counted == 0.0:
        state[POWER_W] = state[LEDGER_W] = state[LEDGER_W2] = state[NOISE_W2] = 0.0
    elif counted > 0.0:
        forgets = state[LEDGER_W] > 0.0
        weight = 1.0 - math.exp(-known[row, SPAN_S] / meter.figures[FORGET_S]) if forgets else 1.0
        state[POWER_W] += weight * (known[row, DRAWN_W] - state[POWER_W])
        state[LEDGER_W] += weight * (counted - state[LEDGER_W])
        state[LEDGER_W2] += weight * (known[row, OF_LEDGER_W2] - state[LEDGER_W2])
        state[NOISE_W2] += weight * (known[row, OF_NOISE_W2] - state[NOISE_W2])


@kernel
def spend(meter: SiteMeter, above: float, deviated: float, now: float) -> None:
    """Count seconds above the cap and a deviation, and forget those that have left the window."""
    state, parts = meter.state, len(meter.spent_s)
    part_s = meter.figures[ALLOWED_S] / meter.figures[EPSILON] / parts
    slot = periods(now, part_s)
    passed = slot > state[SLOT]
    for k in range(max(int(state[SLOT]) + 1, slot - parts + 1), slot + 1):
        meter.spent_s[k % parts] = 0.0
        meter.greatest[k % parts] = 0.0
    state[SLOT] = slot
    meter.spent_s[slot % parts] += above
    meter.greatest[slot % parts] = max(meter.greatest[slot % parts], deviated)
    if passed:
        state[GREATEST] = 0.0
        state[SPENT_S] = 0.0  # summed up again: no rest of a rounding is spent for ever
        for k in range(parts):
            state[GREATEST] = max(state[GREATEST], meter.greatest[k])
            state[SPENT_S] += meter.spent_s[k]
    else:
        state[SPENT_S] += above
    state[GREATEST] = max(state[GREATEST], deviated)


@kernel
def share_in_force(meter: SiteMeter) -> float:
    """Return the watts drawn for a watt predicted: between 1 and what was metered, by how far that can be trusted.

    A ratio of metered to predicted watts varies by the ledger's standard deviation, and by the noise of the meter. The
    weight of what was metered is the ledger's part of the variance: one job on a large machine shows little.
    """
    state = meter.state
    if state[LEDGER_W] <= 0.0:
        return 1.0
    variance = state[LEDGER_W2] + state[NOISE_W2]
    weight = state[LEDGER_W2] / variance if variance > 0.0 else 1.0
    return float(max(1.0 + weight * (state[POWER_W] / state[LEDGER_W] - 1.0), meter.figures[LEAST_SHARE]))


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
    now, z = view.now, z_in_force(meter)
    share = share_in_force(meter)
    now.chance_share = share
    now.chance_own = z * z * meter.figures[OWN]
    now.chance_common = z * z * meter.figures[COMMON]
    now.margin_uw = margin_uw(view, as_int64(now.ledger_uw), as_int64(now.squares_w2))
    set_budget(view)
    if has_supply(view):
        put_terms(view)
    if now.available_uw >= 0:
        meter.state[FIT_SHARE] = share


@entry
def margin_once(meter: SiteMeter, margin: Array) -> None:
    """Write share and z in force into ``margin`` (2,) float64, for callers in Python."""
    margin[0] = share_in_force(meter)
    margin[1] = z_in_force(meter)
