"""The meter of an adaptive ledger in a controller: the power of all nodes, and what the ledger learns of it (rule 15).

What is learned, and the margin that follows, come from the kernels of the simulator (``kernels/site_meter.py``). Only
the readings differ: a reading is the mean over the rounds of a period of what the nodes draw. A node that is not
measured counts its maximum, so that doubt uses the allowance up; share and margin are learned only of readings during
which most nodes were measured. Time without a controller is not counted.

The licences of running jobs are what the cluster itself counts: however little jobs draw for a watt predicted, no more
of them fit. So the share is at least 1 here; with ``track_running`` the licences follow what is measured instead.

What was learned and spent is stored at each reading, and lost where the ledger's options change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels.site_meter import holds_back, margin_once, take_reading
from wattqueue.kernels.state import site_meter as at
from wattqueue.live.extension import Extension
from wattqueue.live.planner import RoundState
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.world import Layout
from wattqueue.parts.run_contracts import MeteredLedger
from wattqueue.policy.sensors import LICENSED_SHARE, site_meter_of

GAP_S = 60.0
"""A longer time between two rounds is not metered: nobody knows what was drawn in it."""
TOLERANCE_W = 1.0
"""Licences are whole watts."""


class Metered(NamedTuple):
    """What a round shows of the machine's power."""

    drawn_w: float
    """Power above the base; nodes that are not measured at their maximum."""
    base_w: float
    """Idle watts that the cap covers and no job does."""
    cap_w: float
    """The cap in force; inf for none."""
    counted_w: Sequence[int]
    """What the ledger counts for each running job."""
    known: bool
    """Whether most nodes are measured."""


class LedgerMeter:
    """Reads the machine's power from round to round for an adaptive ledger."""

    def __init__(self, ledger: MeteredLedger, memory: ControllerState) -> None:
        """Go on with what ``memory`` holds of a ledger with the same options."""
        self.memory = memory
        self.meter = site_meter_of(ledger, LICENSED_SHARE)
        self._last_s = -math.inf
        self._drawn_ws = 0.0
        self._cap_w = 0.0
        self._known = True
        self._recall()

    @property
    def terms(self) -> tuple[float, float, float]:
        """Return the terms of a chance ledger that are in force: share, z^2 own, z^2 common (pure numbers)."""
        share, z = self._in_force()
        figures = self.meter.figures
        return share, z * z * float(figures[at.OWN]), z * z * float(figures[at.COMMON])

    def figures(self) -> dict[str, float]:
        """Return what the status shows: seconds above the cap and allowed in the window, deviations kept free."""
        share, z = self._in_force()
        spent_s, allowed_s = float(self.meter.state[at.SPENT_S]), float(self.meter.figures[at.ALLOWED_S])
        return {"above_s": spent_s, "allowed_s": allowed_s, "deviations": z, "share": share}

    def _in_force(self) -> tuple[float, float]:
        """Return the watts drawn for a watt predicted, and the deviations to keep free."""
        margin = np.zeros(2)
        margin_once(self.meter, margin)
        return float(margin[0]), float(margin[1])

    def read(self, now: RoundState) -> None:
        """Take over a round: what nodes draw, if they are measured at all, and what running jobs count.

        The margin that follows is put in force.
        """
        planner, slots = now.planner, now.holding[: now.holders]
        if now.power:
            counted = now.jobs.net_w[slots].tolist()
            holders = list(zip(now.jobs.units[slots], counted, strict=True))
            drawn = drawn_w(planner.layout, planner.nodes.on, now.power, holders)
            base_w = planner.nodes.base_uw / codes.MICRO
            self.observe(now.now_s, Metered(drawn, base_w, now.left_w, counted, now.telemetry_ok))
        planner.settings = replace(planner.settings, chance=self.terms)

    def observe(self, now_s: float, seen: Metered) -> None:
        """Take over what a round shows; at the end of a period a reading is learned and stored."""
        state, since = self.meter.state, now_s - self._last_s
        self._last_s = now_s
        if not 0.0 < since <= GAP_S:
            self._begin(now_s, seen.cap_w)
            return
        net = np.array(seen.counted_w, np.float64)
        self._drawn_ws += seen.drawn_w * since
        state[at.COUNTED_WS] += float(net.sum()) * since
        state[at.COUNTED_W2S] += float((net * net).sum()) * since
        state[at.HELD_S] += state[at.HELD] * since
        self._cap_w, self._known = max(self._cap_w, seen.cap_w), self._known and seen.known
        if now_s < state[at.READ_AT]:
            return
        if not self._known:
            state[[at.COUNTED_WS, at.COUNTED_W2S]] = at.UNKNOWN, 0.0
        drawn_w = self._drawn_ws / (now_s - float(state[at.SINCE_S]))
        above = drawn_w + seen.base_w > self._cap_w + TOLERANCE_W
        take_reading(self.meter, now_s, drawn_w + seen.base_w, seen.base_w, above)
        self._begin(now_s, seen.cap_w)
        self._store()

    def passed(self, now: RoundState) -> None:
        """Note after a pass whether jobs fit with the share in force, and whether the margin holds a job back."""
        view = now.decision.now.kernel
        if view.now.available_uw >= 0:
            self.meter.state[at.FIT_SHARE] = self._in_force()[0]
        self.meter.state[at.HELD] = float(holds_back(view))
        now.promise = self.figures()

    def _begin(self, now_s: float, cap_w: float) -> None:
        """Begin a reading."""
        state, period_s = self.meter.state, float(self.meter.figures[at.PERIOD_S])
        state[at.READ_AT] = (math.floor(now_s / period_s) + 1.0) * period_s
        state[at.SINCE_S] = now_s
        state[[at.COUNTED_WS, at.COUNTED_W2S, at.HELD_S]] = 0.0
        self._drawn_ws, self._cap_w, self._known = 0.0, cap_w, True

    def _store(self) -> None:
        """Store what was learned."""
        meter = self.meter
        parts = {k: [meter.spent_s[k], meter.greatest[k]] for k in np.flatnonzero(meter.spent_s + meter.greatest)}
        self.memory.keep_ledger(
            json.dumps({
                "figures": meter.figures.tolist(), "state": meter.state.tolist(), "waiting": meter.waiting.tolist(),
                "parts": {str(k): [float(v) for v in values] for k, values in parts.items()},
            })
        )  # fmt: skip

    def _recall(self) -> None:
        """Go on with what was stored under the same options."""
        kept = json.loads(self.memory.ledger) if self.memory.ledger else {}
        if kept.get("figures") != self.meter.figures.tolist():
            return
        # What an earlier version stored has fewer slots; new ones are appended.
        self.meter.state[: len(kept["state"])] = kept["state"]
        self.meter.waiting[:, : len(kept["waiting"][0])] = kept["waiting"]
        for k, (spent_s, greatest) in kept["parts"].items():
            self.meter.spent_s[int(k)], self.meter.greatest[int(k)] = spent_s, greatest


def drawn_w(
    layout: Layout, on: NDArray[np.bool_], power: Mapping[str, NodePower], holders: Sequence[tuple[Sequence[int], int]]
) -> float:
    """Return the watts that nodes draw above what the cap's scope counts for idle ones.

    Of nodes that are on, (units,); under the scope ``jobs`` all watts of busy ones. ``holders``: units and net watts of
    each running job.
    """
    of_jobs = layout.machine.cap_scope == "jobs"
    units = {unit for held, _ in holders for unit in held} if of_jobs else np.flatnonzero(on)
    idle_uw = np.zeros_like(layout.idle_uw) if of_jobs else layout.idle_uw
    names = layout.names
    shown = {int(u): power[names[u]] for u in units if names[u] in power}
    # a meter that may stand still shows no less than what is counted for the node
    least_w = {u: net_w / len(held) for held, net_w in holders for u in held if u in shown and shown[u].unchanged}
    net_w = {u: one.power_w - float(idle_uw[u]) / codes.MICRO for u, one in shown.items()}
    return float(sum([max(watts, least_w.get(u, watts)) for u, watts in net_w.items()]))


def ledger_extension(meter: LedgerMeter) -> Extension:
    """Return the stages by which an adaptive ledger measures the machine."""
    return Extension({"decide": meter.read, "decided": meter.passed}, keeps=meter)
