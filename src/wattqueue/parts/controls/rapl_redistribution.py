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
``spare_w`` at the next step. Without it caps would only fall. A socket is any device with a cap of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattqueue.errors import InputError
from wattqueue.kernels import codes
from wattqueue.kernels.codes import MICRO
from wattqueue.model.bounds import CAP_W
from wattqueue.parts.actions import Action, Refusal, SetDeviceLimits
from wattqueue.parts.contracts import Floats
from wattqueue.parts.domain_caps import DomainCaps, TreeOrder
from wattqueue.parts.run_contracts import CompiledStep

if TYPE_CHECKING:
    from wattqueue.kernels.redistribution import Sockets
    from wattqueue.policy.device_limits import DeviceLimits
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
        raise _unusable(power, cap, low, high)
    sockets = new_sockets(power, cap, low, high)
    if count_unusable(sockets):
        raise _unusable(power, cap, low, high)
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
    from wattqueue.kernels.redistribution import new_sockets, reset_begun

    spare_uw = _reserve_uw(spare_w)
    cap = _column(cap_w)
    low, high = _limits(minimum_w, len(cap)), _limits(maximum_w, len(cap))
    even = _column(np.clip(_column(even_w), low, high))
    sockets = new_sockets(cap, cap, low, high)
    sockets.begins[starting] = 1
    reset_begun(sockets, even, spare_uw)
    return np.asarray(sockets.new_cap_w)


def lower_to_budget(cap_w: Floats, budget_w: float, *, minimum_w: ArrayLike = 0.0) -> Floats:
    """Return the caps after a budget came down: their sum is at most ``budget_w`` at once.

    All that a cap has above its minimum is cut to one common height, so the highest caps give first. Caps whose sum is
    within the budget stay as they are.

    Raises: InputError where the minima alone exceed the budget.
    """
    from wattqueue.kernels.redistribution import lower_all, new_sockets

    cap = _column(cap_w)
    sockets = new_sockets(cap, cap, _limits(minimum_w, len(cap)), np.full(1, INF))
    lacking_uw = lower_all(sockets, int(min(budget_w, CAP_W.high) * MICRO))
    if lacking_uw > len(cap):  # less is rounding to whole microwatts
        raise _beyond_budget(len(cap), lacking_uw, budget_w)
    return np.asarray(sockets.new_cap_w)


class RaplRedistribution:
    """Keep the sum of the sockets' caps within the budget, and move watts to where they are used, every 4 s.

    The budget is the cap in force; at first each socket has an even share of it. Without ``measure`` it reads the
    machine's power sensors (``view.device_w``). Caps are lowered before others are raised. With ``reset`` a socket on
    which a job has started begins with its even share again (``reset_at_start``).

    Under power domains that can bind it moves watts within them first, and keeps the sum of the caps below each domain
    within its limit (``kernels/redistribution_by_domain.py``); not where it lends.

    Overshoot: caps in force never sum to more than a constant budget. So in a period in which the demand of a socket
    rises above its cap at m moments, watts exceed the budget for at most min(``period_s``, (m + 1) x the time that the
    hardware needs to hold a cap), and after a lowered budget for at most ``period_s`` longer, whatever the ramps
    (``wattqueue_studies/epas/overshoot.py`` derives it, and replays recorded ramps).

    In a simulation that reads the machine's sensors its steps are compiled (``compiled_step``).

    Where the driver knows which limits are in force (``view.limits``: agents of nodes, which may be silent or refuse
    one), each step begins with those, and a socket that cannot be set keeps its watts.

    Raises: InputError for rates out of range.
    Reference: paper 3, section 4.4.
    """

    acts_on: ClassVar[tuple[str, ...]] = ("limit", "devices")
    events: frozenset[str] = frozenset()
    """None: woken by its period only."""
    sets_limits: bool = True
    """Whether it limits devices: what a job draws does not tell then at which frequency it runs."""
    holds_budget: bool = True
    """Its limits sum to no more than the cap: on a cluster nothing starts before they are in force."""
    lends: ClassVar[bool] = False
    """Whether no raise uses watts that are promised (``RaplLending``)."""
    between: ClassVar[bool] = False
    """Whether a call by an event, between two steps, only lowers caps to the budget and resets those of starts."""

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
        self.begin()

    def begin(self) -> None:
        """Forget the limits and jobs of a run before."""
        self._cap_w = np.zeros(0)
        """Limits that were asked for and not refused; none before the first."""
        self._asked: list[tuple[SetDeviceLimits, Floats]] = []
        """The last actions, each with the limits before it."""
        self._running: set[str] = set()
        self._of: DomainCaps | None = None
        """The power domains of the machine at the last call."""

    @property
    def reads_sensors(self) -> bool:
        """Return whether it reads the machine's power sensors: without ``measure``."""
        return self.measure is None

    @property
    def limits_w(self) -> Floats:
        """Return the device limits that are in force, as far as no driver has refused them. Shape (D,).

        Shape (0,) where there is no budget.
        """
        return self._cap_w

    def act(self, view: View) -> Sequence[Action]:
        """Return the changed device limits (sockets), those that are lowered first."""
        self._forget_refused(view.refusals)
        before, budget_w, sockets = self._cap_w, view.cap_w, view.machine.devices
        begins = self._begins(view)
        if budget_w == INF:
            return self._ask(np.full(sockets, INF), before) if len(before) else []
        if view.limits is not None:
            return self._follow(view, view.limits, begins)
        if not len(before):
            return self._ask(self._first(view), np.full(sockets, INF))
        cap_w = self._step(view, self._power_w(view), before, begins)
        return self._ask(self._allowed(view, cap_w, before, begins), before)

    def _power_w(self, view: View) -> Floats:
        """Return the watts that each socket draws, by the machine's sensors if nothing else measures."""
        return view.device_w if self.measure is None else self.measure(view)

    def _follow(self, view: View, limits: DeviceLimits, begins: NDArray[np.intp]) -> list[Action]:
        """Return the changes from limits that the driver knows, within the ranges that it states."""
        power_w, budget_w = self._power_w(view), view.cap_w
        first, free = not len(self._cap_w), limits.settable
        low = np.where(free, np.clip(self.minimum_w, limits.low_w, limits.high_w), limits.low_w)
        high = np.where(free, np.clip(self.maximum_w, low, limits.high_w), limits.high_w)
        before = np.clip(limits.cap_w, low, high)
        # Where what cannot be lowered leaves no room, the others go as low as they can.
        no_room = float(low.sum()) >= budget_w
        cap = low.copy()
        if not no_room:
            cap = self._allowed(view, self._step(view, power_w, before, begins, low, high), before, begins)
        actions = self._ask(cap, before)
        same = np.flatnonzero(free & (cap == before)) if first else np.zeros(0, np.intp)
        # All of them at first: also a limit that stays holds only for as long as somebody asks for it.
        return [*actions, *([SetDeviceLimits(same, cap[same])] if len(same) else [])]

    def _even_w(self, budget_w: float, sockets: int) -> float:
        """Return an even share of the budget in whole microwatts, within the hardware's limits."""
        even_w = round(budget_w * MICRO) // sockets / MICRO
        return float(np.clip(even_w, self.minimum_w, self.maximum_w))

    def _begins(self, view: View) -> NDArray[np.intp]:
        """Return the sockets of the jobs that run now and did not at the last call."""
        running = {view.job_id(row): int(row) for row in view.running}
        began = [row for job, row in running.items() if job not in self._running]
        self._running = set(running)
        if not (self.reset and began):
            return np.zeros(0, np.intp)
        units = np.concatenate([view.job_units(row) for row in began])
        return np.asarray(view.machine.device_of_unit[units], np.intp)

    def _domains(self, view: View) -> TreeOrder | None:
        """Return the power domains that can hold devices back, as their limits are now; None where there are none."""
        if self._of is None or self._of.machine is not view.machine:
            self._of = DomainCaps(view.machine)
        return None if self.lends or not self._of.bind else self._of.at(view.now_s, view.cap_w)

    def _first(self, view: View) -> Floats:
        """Return the first caps: an even share of the budget, or of the least limit above each socket."""
        sockets, domains = view.machine.devices, self._domains(view)
        if domains is None:
            return np.full(sockets, self._even_w(view.cap_w, sockets))
        return domains.even_w(np.full(1, self.minimum_w), np.full(1, self.maximum_w))

    def _step(
        self,
        view: View,
        power_w: Floats,
        cap_w: Floats,
        begins: NDArray[np.intp],
        low: Floats | None = None,
        high: Floats | None = None,
    ) -> Floats:
        """Return the caps after lowered limits, Algorithm 1, and starts; ``low``, ``high`` where ranges differ."""
        from wattqueue.kernels.redistribution import count_unusable, new_sockets, step_caps

        power = _column(power_w)
        low = np.full(1, self.minimum_w) if low is None else low
        high = np.full(1, self.maximum_w) if high is None else high
        sockets = new_sockets(power, cap_w.copy(), low, high)
        if len(power) != len(cap_w) or count_unusable(sockets):
            raise _unusable(power, cap_w, low, high)
        domains = self._domains(view)
        if domains is None:
            return self._caps_by(step_caps, sockets, begins, view.cap_w)
        sockets.begins[begins] = 1
        return domains.stepped(sockets, self._rates())

    def _caps_by(
        self, kernel: Callable[..., int], sockets: Sockets, begins: NDArray[np.intp], budget_w: float
    ) -> Floats:
        """Return the caps that a kernel chooses. Raises: InputError where the least caps exceed the budget."""
        count = len(sockets.cap_w)
        sockets.begins[begins] = 1
        even_w = np.full(1, self._even_w(budget_w, count))
        lacking_uw = kernel(sockets, self._rates(), even_w, round(budget_w * MICRO))
        if lacking_uw > count:  # less is rounding to whole microwatts
            raise _beyond_budget(count, lacking_uw, budget_w)
        return np.asarray(sockets.cap_w)

    def _allowed(self, view: View, cap_w: Floats, before_w: Floats, begins: NDArray[np.intp]) -> Floats:
        """Return the caps of a step as far as they may be set, from those before; here all of them."""
        return cap_w

    def compiled_step(self) -> CompiledStep | None:
        """Return the step for a driver's compiled loop; None where ``measure`` is a function in Python."""
        if self.measure is not None:
            return None
        return CompiledStep(codes.REDISTRIBUTE, (*self._rates(), self.minimum_w, self.maximum_w))

    def _rates(self) -> Floats:
        """Return t, T, r, R, and what starts and promises do, as kernels take them (``kernels/redistribution.py``)."""
        rates = self.lower, self.upper, self.decrease, self.increase, self.reset, self.lends, self.between
        return np.array(rates, np.float64)

    def _ask(self, cap_w: Floats, before: Floats) -> list[Action]:
        """Return the actions that change limits to ``cap_w`` from ``before``, and remember them.

        Two actions, so that what is lowered is lowered although the ledger has no room for what is raised.
        """
        self._cap_w = cap_w if cap_w[0] < INF else np.zeros(0)
        changed = [np.flatnonzero(cap_w < before), np.flatnonzero(cap_w > before)]
        self._asked = [(SetDeviceLimits(which, cap_w[which]), before[which]) for which in changed if len(which)]
        return [action for action, _ in self._asked]

    def _forget_refused(self, refusals: Sequence[Refusal]) -> None:
        """Go back to the limits before an action that was refused: what nobody raised is in the reserve still."""
        refused = {id(refusal.action) for refusal in refusals}
        for action, before in self._asked:
            if id(action) not in refused:
                continue
            if not len(self._cap_w):
                self._cap_w = np.full(len(before), INF)
            self._cap_w[action.devices] = before
        if len(self._cap_w) and not (self._cap_w < INF).all():
            self._cap_w = np.zeros(0)  # the first limits were refused: begin again
        self._asked = []


def _quotient(watts: float, sockets: int) -> float:
    """Return ``watts / sockets``, infinity where there are none."""
    return watts / sockets if sockets else INF


def _unusable(power: Floats, cap: Floats, low: Floats, high: Floats) -> InputError:
    """Return the error of readings and caps that no step can begin with."""
    if len(power) != len(cap):
        return InputError(f"{len(power)} readings of {len(cap)} sockets", where="redistribute")
    held = (power >= 0) & (power < INF) | np.isnan(power)
    bad = int(np.argmin(held & (cap >= low) & (cap <= high) & (cap < INF)))
    return InputError(
        f"power {power[bad]:g} W under a cap of {cap[bad]:g} W",
        where=f"redistribute, socket {bad}",
        hint="power is finite and 0 or more (NaN: no reading), a cap lies within the limits of its hardware",
    )


def _beyond_budget(sockets: int, lacking_uw: int, budget_w: float) -> InputError:
    """Return the error of a budget below the least caps."""
    return InputError(
        f"the least caps of {sockets} sockets sum to {lacking_uw / MICRO:g} W above the budget of {budget_w:g} W",
        where="budget",
        hint="stop sockets, or raise the budget",
    )


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
