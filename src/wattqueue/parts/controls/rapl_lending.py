"""Redistribute caps without touching watts that are promised to a waiting job, and before jobs start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels.codes import MICRO
from wattqueue.parts.actions import Action
from wattqueue.parts.contracts import Floats
from wattqueue.parts.controls.rapl_redistribution import (
    INF,
    RaplRedistribution,
    lower_to_budget,
    reset_at_start,
)
from wattqueue.parts.run_contracts import CompiledStep

if TYPE_CHECKING:
    from wattqueue.policy.view import Promise, View

Flags = NDArray[np.bool_]


def keep_promises(cap_w: Floats, before_w: Floats, held: Flags, limit_w: Floats) -> Floats:
    """Return caps of which no raise uses watts that are promised.

    For each of k promises, the caps of the sockets that are busy beyond its time may rise up to its limit in all. Where
    they would rise beyond it, their raises become equal shares of what is left (water-filling), none above what it was.

    Invariants: no cap is above ``cap_w``, or below the lesser of ``cap_w`` and ``before_w``; for each promise the held
    caps sum to at most its limit, or to no more than these lesser ones where they exceed it already.

    Args:
        cap_w: Caps that are asked for. Shape (S,).
        before_w: Caps now. Shape (S,).
        held: For each promise, the sockets that are still busy at its time. Shape (k, S).
        limit_w: For each promise, watts that those sockets may have in all. Shape (k,).

    Returns: the caps in watts. Raises are whole microwatts. Shape (S,).
    """
    from wattqueue.kernels.redistribution import water_level

    least = np.minimum(cap_w, before_w)
    raised = np.floor((cap_w - least) * MICRO).astype(np.int64)
    asked = raised.copy()
    for busy, most_w in zip(held, limit_w, strict=True):
        room_w = most_w - float(least[busy].sum())
        raised[busy] = np.minimum(raised[busy], water_level(raised[busy], int(max(0.0, room_w) * MICRO)))
    return np.where(raised == asked, cap_w, least + raised / MICRO)


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
    _step_at_s: float = -INF

    def compiled_step(self) -> CompiledStep | None:
        """Return None: no kernel looks at promises."""
        return None

    def act(self, view: View) -> Sequence[Action]:
        """Return the changed limits: of a step where one is due, else of a start or a moved budget."""
        whole = view.limits is not None or not len(self.limits_w) or view.cap_w == INF
        if whole or view.now_s >= self._step_at_s:
            self._step_at_s = view.now_s + self.period_s
            return super().act(view)
        return self._between(view)

    def _between(self, view: View) -> Sequence[Action]:
        """Return the limits after a start, or a lower budget, between two steps."""
        self._forget_refused(view.refusals)
        before, budget_w = self.limits_w, view.cap_w
        begins = self._begins(view)
        cap = lower_to_budget(before, budget_w, minimum_w=self.minimum_w)
        if len(begins):
            cap = reset_at_start(
                cap,
                begins,
                self._even_w(budget_w, len(cap)),
                minimum_w=self.minimum_w,
                maximum_w=self.maximum_w,
                spare_w=max(0.0, budget_w - float(cap.sum())),
            )
        return self._ask(cap, before)

    def _allowed(self, view: View, cap_w: Floats, before_w: Floats, begins: NDArray[np.intp]) -> Floats:
        """Return the caps of a step without raises that a promise forbids."""
        promises = view.promises
        if not promises:
            return cap_w
        held, limit_w = promised_limits(view, promises, self.minimum_w)
        begun = np.zeros(len(cap_w), np.bool_)
        begun[begins] = True
        limit_w = limit_w - np.where(held & begun, cap_w, 0.0).sum(axis=1)
        return keep_promises(cap_w, before_w, held & ~begun, limit_w)


def promised_limits(view: View, promises: Sequence[Promise], minimum_w: float) -> tuple[Flags, Floats]:
    """Return the power domains that are busy beyond each promised time, and what their caps may sum to.

    That is the budget less what is promised, and less the watts of all other domains: idle, at least the least cap.
    Shapes (k, D) and (k,).
    """
    machine = view.machine
    idle_w = machine.by_unit([p.idle_w for p in machine.partitions])
    idle_w = idle_w if machine.cap_scope != "jobs" else np.zeros(machine.units)
    others_w = np.maximum(np.add.reduceat(idle_w, machine.domain_start[:-1]), minimum_w)
    time_s = np.array([promise.time_s for promise in promises])
    held = np.zeros((len(promises), machine.domains), np.bool_)
    for row in view.running:
        late = view.expected_end_s[row] > time_s
        if late.any():
            held[np.ix_(late, machine.domain_of_unit[view.job_units(int(row))])] = True
    net_w = np.array([promise.net_w for promise in promises])
    return held, view.cap_w - net_w - np.where(held, 0.0, others_w).sum(axis=1)
