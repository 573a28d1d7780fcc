"""Asking a policy's parts in plain Python, live: an order that ranks anew, a ledger's margin, controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.schedule import schedule_once
from wattqueue.live.slurm.snapshot import Snapshot
from wattqueue.live.world import Layout
from wattqueue.parts.ledger.predicted import Predicted
from wattqueue.policy.actions import Action, Refusal, StartJob
from wattqueue.policy.decide import Snapshot as PolicySnapshot
from wattqueue.policy.decide import decide, snapshot_of, view_of
from wattqueue.policy.policy import Policy
from wattqueue.policy.view import View

_POWER = {"on": codes.UNIT_ON, "off": codes.UNIT_OFF, "booting": codes.UNIT_BOOTING, "stopping": codes.UNIT_STOPPING}


def unit_states(layout: Layout, snapshot: Snapshot) -> NDArray[np.int8]:
    """State of each unit as the kernels number them. Shape (units,)."""
    out = np.full(len(layout.names), codes.UNIT_DOWN, np.int8)
    for node in snapshot.nodes:
        unit = layout.unit.get(node.name)
        if unit is not None and (node.usable or node.busy or node.power != "on"):
            out[unit] = _POWER[node.power]
    return out


def decide_with(policy: Policy) -> Callable[[PolicySnapshot], Sequence[StartJob]]:
    """``decide`` for this policy: as it is, or with the order asked anew and the ledger's margin kept free."""
    rerank = getattr(policy.order, "rerank", None)
    plain_ledger = isinstance(policy.ledger, Predicted)
    if rerank is None and plain_ledger:
        return decide

    def ask(snapshot: PolicySnapshot) -> Sequence[StartJob]:
        states = np.full(snapshot.machine.units, codes.UNIT_ON, np.int8)
        states[snapshot.unusable] = codes.UNIT_DOWN
        view = View(snapshot.jobs, snapshot.machine, view_of(snapshot), states)
        if not plain_ledger:
            snapshot = replace(snapshot, margin_w=snapshot.margin_w + policy.ledger.margin_w(view))
        if rerank is None:
            return decide(snapshot)
        small, rows = snapshot_of(view, snapshot.settings, rerank(view))
        small = replace(small, margin_w=snapshot.margin_w)
        return [replace(start, job=int(rows[start.job])) for start in decide(small)]

    return ask


@dataclass
class Controls:
    """A policy's controls, asked after the pass: each every ``period_s``, and after its events."""

    policy: Policy
    layout: Layout
    _due: dict[int, float] = field(default_factory=dict)
    _before: tuple[int, int, float, NDArray[np.int8] | None] = (0, 0, 0.0, None)

    def act(self, view: PolicySnapshot, snapshot: Snapshot, refusals: Sequence[Refusal]) -> list[Action]:
        """What the controls want now."""
        states = unit_states(self.layout, snapshot)
        happened = self._happened(view, states)
        actions: list[Action] = []
        seen: View | None = None
        for i, control in enumerate(self.policy.controls):
            due = control.period_s > 0 and view.now_s >= self._due.get(i, -np.inf)
            if not due and not (control.events & happened):
                continue
            if due:
                self._due[i] = view.now_s + control.period_s
            if seen is None:
                kernel = view_of(view)
                schedule_once(kernel)  # what starts now is no longer free
                seen = View(view.jobs, view.machine, kernel, states, refusals)
            actions += control.act(seen)
        return actions

    def _happened(self, view: PolicySnapshot, states: NDArray[np.int8]) -> frozenset[str]:
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
