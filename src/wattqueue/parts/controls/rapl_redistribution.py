"""Move power caps from sockets that do not use them to sockets that are held back by theirs (paper 3, Algorithm 1).

Every 4 s each socket's power P is compared with its cap PC. Below ``t PC`` the cap is lowered, by ``r PC`` or by half
of what is unused, whichever is less; above ``T PC`` it is raised by at most ``R PC``; in between it stays.

Two versions of the algorithm, both pure functions on arrays. ``redistribute_as_printed`` follows the lines of the
paper. ``redistribute`` is corrected, because the printed one lets the sum of the caps grow beyond the budget
(``wattqueue study epas`` prints how often, and by how much). Line by line, what is printed and what
is corrected:

* 1-7: P and n are not set to 0 before a step. Both begin at 0; what nobody takes is in ``spare_w``.
* 3: pools all of ``PC - P``. Pooled are what lines 11 and 12 take, and ``spare_w``.
* 8, 17: ``p = P / n`` divides by 0 where none is to be raised, and after the last one. One level for all is found
  before anyone is raised: each socket gets the smaller of the level and what it asks for (water-filling).
* 11-15: no limits of the hardware. ``minimum_w`` and ``maximum_w`` of each socket hold.
* 15: a share depends on the sockets before it. No cap depends on the order of the sockets.
* 17: P less the last raise, not less all of them. The sum of all shares is at most the pool.

What nobody takes is not lost: the reserve is the budget less the sum of the caps, and the caller hands it in as
``spare_w`` at the next step. Without it caps would only fall. A socket is any power domain with a cap of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError
from wattqueue.kernels.codes import MICRO
from wattqueue.model.bounds import CAP_W
from wattqueue.parts.actions import Action, SetDomainCaps
from wattqueue.parts.contracts import Floats

if TYPE_CHECKING:
    from wattqueue.policy.view import View

LOWER = 0.92
"""t: a socket that draws less than this share of its cap gives some of it away (section 5.2)."""
UPPER = 0.96
"""T: a socket that draws more than this share of its cap is raised (section 5.2)."""
DECREASE = 0.1
"""r: largest share of its cap that a socket gives away in a step (section 5.2)."""
INCREASE = 0.4
"""R: largest share of its cap that a socket is raised by in a step (section 5.2)."""
PERIOD_S = 4.0
"""Seconds between two readings of RAPL (section 3.2). The paper does not state the period of the algorithm itself; that
it is the same is assumed."""
INF = float("inf")

Measure = Callable[["View"], Floats]
"""Returns the watts that each socket draws now, by its number, NaN where there is no reading. Shape (S,)."""


def unused_w(power_w: Floats, cap_w: Floats, *, lower: float = LOWER) -> float:
    """Return what lines 1 to 3 add to P: all that sockets below ``lower`` of their caps leave unused, in watts."""
    return float((cap_w - power_w)[power_w < cap_w * lower].sum())


def redistribute_as_printed(
    power_w: Floats,
    cap_w: Floats,
    *,
    lower: float = LOWER,
    upper: float = UPPER,
    decrease: float = DECREASE,
    increase: float = INCREASE,
    pool_w: float = 0.0,
) -> Floats:
    """Return the caps of the next step by Algorithm 1 as it is printed, line by line, in the order of the sockets.

    The sum of the caps may grow beyond the budget: this is for comparison only.

    Args:
        power_w: P, watts that each socket draws. Shape (S,).
        cap_w: PC, watts of each socket's cap. Shape (S,).
        lower: t, as a share of the cap.
        upper: T, likewise.
        decrease: r, likewise.
        increase: R, likewise.
        pool_w: P before line 1. The paper never sets it to 0: read so, it is the sum of ``unused_w`` over all steps
            before. (n is 0 again after line 16 has counted every raised socket.)

    Returns: the new caps in watts. Shape (S,).

    Reference: paper 3, Algorithm 1. A division by 0 (lines 8 and 17) gives a figure that no line reads.
    """
    new = np.array(cap_w, np.float64)
    low, high = power_w < cap_w * lower, power_w > cap_w * upper
    pool = pool_w + unused_w(power_w, cap_w, lower=lower)  # lines 1-7
    n = int(high.sum())
    share = _quotient(pool, n)  # line 8
    taken = np.minimum(cap_w * decrease, (cap_w - power_w) / 2)
    new[low] = (cap_w - taken)[low]  # lines 11-12
    for i in np.flatnonzero(high):
        new[i] = min(cap_w[i] + cap_w[i] * increase, cap_w[i] + share)  # lines 14-15
        n -= 1  # line 16
        share = _quotient(pool - (new[i] - cap_w[i]), n)  # line 17: earlier raises are not subtracted
    return new


def redistribute(
    power_w: Floats,
    cap_w: Floats,
    *,
    lower: float = LOWER,
    upper: float = UPPER,
    decrease: float = DECREASE,
    increase: float = INCREASE,
    minimum_w: ArrayLike = 0.0,
    maximum_w: ArrayLike = INF,
    spare_w: float = 0.0,
) -> Floats:
    """Return the caps of the next step by Algorithm 1, corrected (the module says in which lines).

    Invariants: the caps grow by no more in all than ``spare_w``; each stays within its limits; a socket between
    ``lower`` and ``upper`` of its cap, and one without a reading, keep theirs; the order of sockets does not matter.

    Args:
        power_w: P, watts that each socket draws; NaN without a reading. Shape (S,).
        cap_w: PC, watts of each socket's cap, within its limits. Shape (S,).
        lower: t, as a share of the cap.
        upper: T, likewise.
        decrease: r, likewise.
        increase: R, likewise.
        minimum_w: Least cap that the hardware takes: one for all, or shape (S,).
        maximum_w: Highest cap that the hardware takes, likewise.
        spare_w: The reserve: budget less the sum of the caps, 0 or more.

    Returns: the new caps in watts. Shares are whole microwatts. Shape (S,).

    Raises: InputError for a reading that is negative or infinite, a cap outside its limits, columns of different
    lengths, and figures out of range.
    Reference: paper 3, Algorithm 1.
    """
    from wattqueue.kernels.redistribution import (
        count_unusable,
        give_shares,
        new_sockets,
        take_unused,
        water_level,
    )

    _require_rates(lower, upper, decrease, increase)
    spare_uw = _reserve_uw(spare_w)
    cap, power = _column(cap_w), _column(power_w)
    low, high = _limits(minimum_w, len(cap)), _limits(maximum_w, len(cap))
    if len(power) != len(cap):
        raise InputError(f"{len(power)} readings of {len(cap)} sockets", where="redistribute")
    sockets = new_sockets(power, cap, low, high)
    if count_unusable(sockets):
        held = (power >= 0) & (power < INF) | np.isnan(power)
        bad = int(np.argmin(held & (cap >= low) & (cap <= high) & (cap < INF)))
        raise InputError(
            f"power {power[bad]:g} W under a cap of {cap[bad]:g} W",
            where=f"redistribute, socket {bad}",
            hint="power is finite and 0 or more (NaN: no reading), a cap lies within the limits of its hardware",
        )
    pool_uw = take_unused(sockets, float(lower), float(upper), float(decrease), float(increase)) + spare_uw
    give_shares(sockets, water_level(sockets.want_uw, pool_uw))
    return np.asarray(sockets.new_cap_w)


def reset_at_start(
    cap_w: Floats,
    starting: NDArray[np.integer],
    even_w: ArrayLike,
    *,
    minimum_w: ArrayLike = 0.0,
    maximum_w: ArrayLike = INF,
    spare_w: float = 0.0,
) -> Floats:
    """Return the caps after a job has started on some sockets: theirs are ``even_w`` again, as far as watts allow.

    Without this, a socket whose cap has decayed while it was idle needs several raises of 40 % to come back, 4 s each.
    Watts come from the reserve, then from sockets that run no new job and were raised above ``even_w``: these are
    lowered to one common height above it, the furthest raised ones first. Where that is not enough, the new job's
    sockets share it by water-filling. Where caps and reserve sum to at least ``even_w`` a socket, it is always enough.

    Args:
        cap_w: Watts of each socket's cap, within its limits. Shape (S,).
        starting: Sockets of the jobs that start now, by number. Shape (k,).
        even_w: Budget / sockets; or shape (S,), the share of each socket.
        minimum_w: Least cap that the hardware takes: one for all, or shape (S,).
        maximum_w: Highest cap that the hardware takes, likewise.
        spare_w: The reserve: budget less the sum of the caps, 0 or more.

    Returns: the new caps in watts. Shape (S,).

    Raises: InputError as ``redistribute``.
    Reference: not in paper 3, whose section 4.4 says nothing of starts.
    """
    spare_uw = _reserve_uw(spare_w)
    cap = _column(cap_w)
    low, high = _limits(minimum_w, len(cap)), _limits(maximum_w, len(cap))
    even = np.clip(np.broadcast_to(_column(even_w), cap.shape), low, high)
    begins = np.zeros(len(cap), np.bool_)
    begins[starting] = True
    above, below = _whole_uw(np.maximum(cap - even, 0.0)), _whole_uw(np.maximum(even - cap, 0.0))
    need = np.where(begins, below, 0)
    returned = int(above[begins].sum())
    pool = spare_uw + returned
    surplus = np.where(begins, 0, above)
    kept = _shares(surplus, max(0, int(surplus.sum()) - max(0, int(need.sum()) - pool)))
    given = _shares(need, pool + int((surplus - kept).sum()))
    change = given - (surplus - kept) - np.where(begins, above, 0)
    return np.where(change == 0, cap, cap + change / MICRO)


def lower_to_budget(cap_w: Floats, budget_w: float, *, minimum_w: ArrayLike = 0.0) -> Floats:
    """Return the caps after a budget came down: their sum is at most ``budget_w`` at once.

    All that a cap has above its minimum is cut to one common height, so the highest caps give first. Caps whose sum is
    within the budget stay as they are.

    Raises: InputError where the minima alone exceed the budget.
    """
    cap = _column(cap_w)
    least = np.broadcast_to(_limits(minimum_w, len(cap)), cap.shape)
    if cap.sum() <= budget_w:
        return cap.copy()
    room = budget_w - float(least.sum())
    if room < 0:
        raise InputError(
            f"the least caps of {len(cap)} sockets sum to {least.sum():g} W, the budget is {budget_w:g} W",
            where="budget",
            hint="stop sockets, or raise the budget",
        )
    kept = _shares(_whole_uw(cap - least), int(room * MICRO))
    return least + kept / MICRO


class RaplRedistribution:
    """Keep the sum of the sockets' caps within the budget, and move watts to where they are used, every 4 s.

    The budget is the cap in force; at first each socket has an even share of it. ``measure`` comes from outside: a
    simulation's telemetry, or an agent on each node. Caps are lowered before others are raised. With ``reset`` a
    socket on which a job has started begins with its even share again (``reset_at_start``).

    Raises: InputError for rates out of range.
    Reference: paper 3, section 4.4.
    """

    events: frozenset[str] = frozenset()
    """None: woken by its period only."""

    def __init__(
        self,
        *,
        lower: float = LOWER,
        upper: float = UPPER,
        decrease: float = DECREASE,
        increase: float = INCREASE,
        minimum_w: float = 0.0,
        maximum_w: float = INF,
        reset: bool = True,
        period_s: float = PERIOD_S,
        measure: Measure | None = None,
    ) -> None:
        _require_rates(lower, upper, decrease, increase)
        self.lower, self.upper, self.decrease, self.increase = lower, upper, decrease, increase
        self.minimum_w, self.maximum_w, self.reset = minimum_w, maximum_w, reset
        self.period_s, self.measure = period_s, measure
        self._cap_w = np.zeros(0)
        self._running: set[str] = set()

    @property
    def missing(self) -> str:
        """Return what this part needs and was not given; the loader of policies refuses such a part."""
        return (
            "" if self.measure is not None else "a source of measured watts of each socket (measure=..., from Python)"
        )

    def act(self, view: View) -> Sequence[Action]:
        """Return the changed limits of power domains (sockets), those that are lowered first."""
        before, budget_w, sockets = self._cap_w, view.cap_w, view.machine.domains
        running = {view.job_id(row): int(row) for row in view.running}
        began = [row for job, row in running.items() if job not in self._running]
        self._running = set(running)
        if budget_w == INF or self.measure is None:
            self._cap_w = np.zeros(0)
            return [SetDomainCaps(range(sockets), np.full(sockets, INF))] if len(before) else []
        even_w = float(np.clip(budget_w / sockets, self.minimum_w, self.maximum_w))
        if not len(before):
            self._cap_w = np.full(sockets, even_w)
            return [SetDomainCaps(range(sockets), self._cap_w)]
        cap = self._step(self.measure(view), lower_to_budget(before, budget_w, minimum_w=self.minimum_w), budget_w)
        if self.reset and began:
            units = np.concatenate([view.job_units(row) for row in began])
            starting = np.unique(view.machine.domain_of_unit[units])
            spare = max(0.0, budget_w - float(cap.sum()))
            cap = reset_at_start(
                cap, starting, even_w, minimum_w=self.minimum_w, maximum_w=self.maximum_w, spare_w=spare
            )
        self._cap_w = cap
        # Two actions, so that what is lowered is lowered although the ledger has no room for what is raised.
        lowered, raised = np.flatnonzero(cap < before), np.flatnonzero(cap > before)
        return [SetDomainCaps(domains, cap[domains]) for domains in (lowered, raised) if len(domains)]

    def _step(self, power_w: Floats, cap_w: Floats, budget_w: float) -> Floats:
        """Return the caps after Algorithm 1."""
        return redistribute(
            power_w,
            cap_w,
            lower=self.lower,
            upper=self.upper,
            decrease=self.decrease,
            increase=self.increase,
            minimum_w=self.minimum_w,
            maximum_w=self.maximum_w,
            spare_w=max(0.0, budget_w - float(cap_w.sum())),
        )


def _quotient(watts: float, sockets: int) -> float:
    """Return ``watts / sockets``, infinity where there are none."""
    return watts / sockets if sockets else INF


def _shares(want_uw: NDArray[np.int64], pool_uw: int) -> NDArray[np.int64]:
    """Return equal shares of a pool, none above what is asked for (water-filling). Shapes (S,)."""
    from wattqueue.kernels.redistribution import water_level

    return np.minimum(want_uw, water_level(want_uw, pool_uw))


def _whole_uw(watts: Floats) -> NDArray[np.int64]:
    """Return the whole microwatts below each figure."""
    return np.floor(watts * MICRO).astype(np.int64)


def _column(values: ArrayLike) -> Floats:
    """Return a contiguous column of floats, as kernels read it; one figure becomes a column of one row."""
    return np.ascontiguousarray(np.atleast_1d(np.asarray(values, np.float64)))


def _limits(values: ArrayLike, sockets: int) -> Floats:
    """Return a limit of the hardware as a column of one row, or of a row a socket. Raises: InputError."""
    column = _column(values)
    if len(column) not in (1, sockets) or not (column >= 0).all():
        raise InputError(
            f"{len(column)} limits of {sockets} sockets", where="limits", hint="one, or one a socket, from 0 W"
        )
    return column


def _reserve_uw(spare_w: float) -> int:
    """Return the reserve in whole microwatts. Raises: InputError where it is negative or not finite."""
    if not 0.0 <= spare_w < INF:
        raise InputError(
            f"spare_w = {spare_w}", where="reserve", hint="0 or more; a sum of caps above the budget is lowered first"
        )
    return int(min(spare_w, CAP_W.high) * MICRO)


def _require_rates(lower: float, upper: float, decrease: float, increase: float) -> None:
    """Raise InputError for thresholds and rates outside their ranges."""
    if not (0.0 <= lower <= upper <= 1.0 and 0.0 <= decrease <= 1.0 and 0.0 <= increase < INF):
        raise InputError(
            f"t {lower}, T {upper}, r {decrease}, R {increase}",
            where="redistribute",
            hint="0 <= t <= T <= 1, r between 0 and 1, R from 0",
        )
