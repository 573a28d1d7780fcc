"""A ramp upwards after a load target: so many watts a second since the last rise (rule 13 of docs/semantics.md).

From the end of a target with a ramp on, what the ledger counts may exceed its highest figure since then, ``RISEN_TO``,
by the ramp's watts for each second since that figure was reached. The limit in force, ``now.cap_uw``, is the lower of
that and of the stated one: so starts, faster frequencies and nodes that wake need no second test. Between two events
the limit is raised in steps of ``AnnouncedSteps.rise_step_s``.

Bound: at t seconds after the end of the target the ledger counts at most what it counted then, and t times the ramp.
For the limit after each rise is that rise and the ramp since, so that two rises never allow more than the line through
the first.
"""

from __future__ import annotations

import math

from wattqueue.kernels import codes
from wattqueue.kernels._numba import as_int64, kernel, separate
from wattqueue.kernels.ledger import set_budget
from wattqueue.kernels.state import KernelView, Truth

INF = float("inf")


@separate
def begin_ramp(view: KernelView, truth: Truth, row: int) -> None:
    """Note the limits of a row of signals; a ramp begins where a target ends."""
    ramp_uw = truth.announced.ramp_uw_per_s[row]
    view.now.stated_cap_uw = truth.signal_uw[row]
    if ramp_uw == 0.0:
        view.now.ramp_uw_per_s = 0.0
    elif row > 0 and truth.signal_target[row - 1] != 0 and truth.signal_target[row] == 0:
        view.now.ramp_uw_per_s = ramp_uw
        view.now.last_rise_s = view.now.time_s
        view.now.highest_ledger_uw = counted_uw(view)


@kernel
def counted_uw(view: KernelView) -> int:
    """Return the microwatts that the ledger counts in the scope of the cap."""
    now = view.now
    return int(now.base_uw + now.ledger_uw + now.idle_above_uw)


@separate
def climb(view: KernelView, truth: Truth) -> None:
    """Set the limit in force by the ramp, as far as it is below the stated one; a ramp is over where it is not."""
    truth.loop.ramp_at_s = INF
    steps, row = truth.announced, as_int64(truth.loop.next_signal) - 1
    if view.now.ramp_uw_per_s == 0.0:
        return
    since = view.now.time_s - view.now.last_rise_s
    limit = view.now.highest_ledger_uw + as_int64(math.floor(view.now.ramp_uw_per_s * since))
    stated = as_int64(view.now.stated_cap_uw)
    if limit >= steps.rise_top_uw[row]:
        view.now.ramp_uw_per_s = 0.0
        limit = stated  # which may be above: nothing, or a cap beyond the machine's maximum
    else:
        truth.loop.ramp_at_s = view.now.time_s + steps.rise_step_s[row]
        limit = min(limit, stated)
    if limit != view.now.cap_uw:
        view.now.cap_uw = limit
        set_budget(view)
        truth.loop.happened |= codes.STOP_ON_SIGNAL


@separate
def note_rise(view: KernelView) -> None:
    """Note what the ledger counts at the end of an instant, where that is a rise."""
    counted = counted_uw(view)
    if counted > view.now.highest_ledger_uw:
        view.now.highest_ledger_uw = counted
        view.now.last_rise_s = view.now.time_s
