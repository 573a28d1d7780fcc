"""Call those parts of a policy that are plain Python: an order that re-ranks, a ledger's margin, controls.

The compiled pass knows none of them. ``decide_with`` wraps ``decide``: it computes new priorities and
the margin from a view before the pass runs. ``Controls`` runs the policy's controls after the pass,
on a view in which the jobs that start now already hold their nodes (the order of an instant,
semantics, rule 2, seen from a driver whose instants are rounds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.schedule import schedule_once
from wattqueue.live.cluster import Snapshot
from wattqueue.live.world import Layout
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.actions import Action, Refusal, StartJob
from wattqueue.policy.decide import PolicySnapshot, decide, snapshot_of, view_of
from wattqueue.policy.policy import Policy
from wattqueue.policy.view import View

# Slurm's power states as the unit states of the kernels.
_POWER = {"on": codes.UNIT_ON, "off": codes.UNIT_OFF, "booting": codes.UNIT_BOOTING, "stopping": codes.UNIT_STOPPING}


def unit_states(layout: Layout, snapshot: Snapshot) -> NDArray[np.int8]:
    """Return the state of each unit as the kernels number them. Shape (units,).

    A node that can neither be used nor is busy counts as down, unless it is off or on its way: a
    control may want to wake that one.
    """
    out = np.full(len(layout.names), codes.UNIT_DOWN, np.int8)
    for node in snapshot.nodes:
        unit = layout.unit.get(node.name)
        if unit is not None and (node.usable or node.busy or node.power != "on"):
            out[unit] = _POWER[node.power]
    return out


def decide_with(policy: Policy) -> Callable[[PolicySnapshot], Sequence[StartJob]]:
    """Return ``decide`` for this policy, with re-ranking and the ledger's margin where it has them.

    A policy with neither gets the plain function, so that it costs nothing.
    """
    rerank = getattr(policy.order, "rerank", None)
    plain_ledger = isinstance(policy.ledger, Predicted)
    if rerank is None and plain_ledger:
        return decide

    def decide_here(snapshot: PolicySnapshot) -> Sequence[StartJob]:
        # a part sees units as on or down here: the pass cannot use what is off, booting or stopping
        states = np.full(snapshot.machine.units, codes.UNIT_ON, np.int8)
        states[snapshot.unusable] = codes.UNIT_DOWN
        view = View(snapshot.jobs, snapshot.machine, view_of(snapshot), states)
        if not plain_ledger:
            snapshot = replace(snapshot, margin_w=snapshot.margin_w + policy.ledger.margin_w(view))
        if rerank is None:
            return decide(snapshot)
        small, _ = snapshot_of(view, snapshot.settings, rerank(view))
        small = replace(small, margin_w=snapshot.margin_w)
        return decide(small)

    return decide_here


@dataclass
class Controls:
    """The controls of a policy: each runs every ``period_s``, and after the events that it names.

    Events are found by comparing this round with the one before. Several arrivals within one round
    are one event, and a job that arrived and ended between two rounds is none: controls react to the
    state, never to the history.
    """

    policy: Policy
    layout: Layout
    _due: dict[int, float] = field(default_factory=dict)
    _before: tuple[int, int, float, NDArray[np.int8] | None] = (0, 0, 0.0, None)

    def act(self, view: PolicySnapshot, snapshot: Snapshot, refusals: Sequence[Refusal]) -> list[Action]:
        """Return the actions of all controls that are due, in the policy's order.

        ``view`` is the policy's snapshot of this round, ``refusals`` the actions of the last round
        that were not carried out.
        """
        states = unit_states(self.layout, snapshot)
        happened = self._happened(view, states)
        actions: list[Action] = []
        seen: View | None = None
        for i, control in enumerate(self.policy.controls):
            # the period is counted from the round in which it ran, so a late round is not made up for
            due = control.period_s > 0 and view.now_s >= self._due.get(i, -np.inf)
            if not due and not (control.events & happened):
                continue
            if due:
                self._due[i] = view.now_s + control.period_s
            # one view for all controls of a round, built only if one of them runs
            if seen is None:
                kernel = view_of(view)
                schedule_once(kernel)  # what starts now is no longer free
                seen = View(view.jobs, view.machine, kernel, states, refusals)
            actions += control.act(seen)
        return actions

    def _happened(self, view: PolicySnapshot, states: NDArray[np.int8]) -> frozenset[str]:
        """Return the names of events since the last round, by comparing counts, cap and unit states."""
        # waiting counts jobs, not entries: a job with two partitions is one arrival
        waiting, running = len(np.unique(view.entries.job)), len(view.running.row)
        before = self._before
        self._before = (waiting, running, view.cap_w, states)
        changes = {
            "arrival": waiting > before[0],
            "completion": running < before[1],
            "signal": view.cap_w != before[2],
            "node": before[3] is None or not np.array_equal(states, before[3]),
        }
        return frozenset(name for name, happened in changes.items() if happened)
