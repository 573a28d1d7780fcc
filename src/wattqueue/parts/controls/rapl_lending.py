"""Redistribute caps without touching watts that are promised to a waiting job, and before jobs start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels.codes import MICRO
from wattqueue.parts.actions import Action
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_redistribution import INF, RaplRedistribution

if TYPE_CHECKING:
    from wattqueue.policy.view import Promise, View

Flags = NDArray[np.bool_]
Microwatts = NDArray[np.int64]


def keep_promises(
    cap_w: Floats, before_w: Floats, held: Flags, limit_uw: Microwatts, begins: NDArray[np.intp] | None = None
) -> Floats:
    """Return caps of which no raise uses watts that are promised.

    For each of k promises, the caps of the sockets that are busy beyond its time may rise up to its limit in all. Where
    they would rise beyond it, their raises become equal shares of what is left (water-filling), none above what it was.

    Invariants: no cap is above ``cap_w``, or below the lesser of ``cap_w`` and ``before_w``; for each promise the held
    caps sum to at most its limit, or to no more than these lesser ones where they exceed it already.

    Args:
        cap_w: Caps that are asked for. Shape (S,).
        before_w: Caps now. Shape (S,).
        held: For each promise, the sockets that are still busy at its time. Shape (k, S).
        limit_uw: For each promise, whole microwatts that those sockets may have in all. Shape (k,).
        begins: Sockets of jobs that have just started, which keep what was asked for. Shape (b,).

    Returns: the caps in watts. Raises are whole microwatts. Shape (S,).
    """
    from wattqueue.kernels.redistribution import begin_raises, end_raises, keep_promise, new_sockets

    sockets = new_sockets(np.empty(0), cap_w.copy(), np.zeros(1), np.full(1, INF))
    sockets.begins[[] if begins is None else begins] = 1
    begin_raises(sockets, before_w)
    for busy, most_uw in zip(held.astype(np.int8), limit_uw.tolist(), strict=True):
        keep_promise(sockets, busy, most_uw)
    end_raises(sockets)
    return np.asarray(sockets.cap_w)


class RaplLending(RaplRedistribution):
    """Lend unused watts to running jobs, but none that a reservation needs; raise caps before a job starts.

    ``rapl-redistribution`` raises whoever draws what its cap allows. Where such a job runs on beyond the time at which
    a waiting job was promised its start, what it was given is missing then: the promise is broken, or the new job
    starts under a low cap. (GEOPM removed the opportunistic boost of its power balancer.) Here a socket that is busy
    beyond a promised time t is raised only as far as

        sum of the caps of sockets busy beyond t + least watts of all others + watts promised <= budget

    holds afterwards (``keep_promises``). Sockets that are free by then may be given everything. A job that starts has
    been counted by the pass beside all promises: its sockets are reset to their even share whatever is promised.

    It is woken by starts and signals, too. At a start the new job's sockets are reset in the same instant, instead of
    up to a period later, in which the job would be slowed by a cap that had decayed while the socket was idle. Where
    the budget falls, caps fall in that instant. In between, Algorithm 1 takes its step every ``period_s``.

    Reference: paper 3, Algorithm 1; promises are reservations (rule 8 of docs/semantics.md).
    """

    events: frozenset[str] = frozenset({"start", "signal"})
    lends: ClassVar[bool] = True
    between: ClassVar[bool] = True

    def begin(self) -> None:
        """Forget the limits and jobs of a run before."""
        super().begin()
        self._step_at_s = -INF

    def act(self, view: View) -> Sequence[Action]:
        """Return the changed limits: of a step where one is due, else of a start or a moved budget."""
        self._forget_refused(view.refusals)  # where the first limits were refused, there are none to go on from
        whole = view.limits is not None or not len(self.limits_w) or view.cap_w == INF
        if whole or view.now_s >= self._step_at_s:
            self._step_at_s = view.now_s + self.period_s
            return super().act(view)
        return self._between(view)

    def _between(self, view: View) -> Sequence[Action]:
        """Return the limits after a start, or a lower budget, between two steps."""
        from wattqueue.kernels.redistribution import caps_between, new_sockets

        before = self.limits_w
        sockets = new_sockets(np.empty(0), before.copy(), np.full(1, self.minimum_w), np.full(1, self.maximum_w))
        return self._ask(self._caps_by(caps_between, sockets, self._begins(view), view.cap_w), before)

    def _allowed(self, view: View, cap_w: Floats, before_w: Floats, begins: NDArray[np.intp]) -> Floats:
        """Return the caps of a step without raises that a promise forbids."""
        promises = view.promises if self.lends else []
        if not promises:
            return cap_w
        return keep_promises(cap_w, before_w, *promised_limits(view, promises, self.minimum_w), begins)


def promised_limits(view: View, promises: Sequence[Promise], minimum_w: float) -> tuple[Flags, Microwatts]:
    """Return the devices that are busy beyond each promised time, and what their caps may sum to.

    That is the budget less what is promised, and less the watts of all other devices: idle, at least the least cap.
    Shapes (k, D) and (k,).
    """
    from wattqueue.kernels.redistribution import ROUNDING_UW

    machine = view.machine
    idle_w = machine.device_idle_w * float(machine.cap_scope != "jobs")
    others_uw = np.ceil(np.maximum(idle_w, minimum_w) * MICRO - ROUNDING_UW).astype(np.int64)
    time_s = np.array([promise.time_s for promise in promises])
    held = np.zeros((len(promises), machine.devices), np.bool_)
    for row in view.running:
        late = view.expected_end_s[row] > time_s
        if late.any():
            held[np.ix_(late, machine.device_of_unit[view.job_units(int(row))])] = True
    net_uw = np.array([round(promise.net_w * MICRO) for promise in promises])
    return held, round(view.cap_w * MICRO) - net_uw - np.where(held, 0, others_uw).sum(axis=1)
