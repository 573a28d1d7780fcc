"""What is fitted of a workload, of a kind of GPU and across kinds, and what is predicted from it.

A kind of GPU has its floor, idle watts and a curve, pooled over workloads (``model.gpu_limits``). A workload has its
watts without a limit, and two constants that a second limit fixes: ``kept``, what of a limit it uses, and ``exponent``,
how much more than the pooled curve it slows down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wattqueue.model.gpu_limits import GpuCurve, LimitedRun, floor_of, limit_that_leaves, pooled_curve, share_left
from wattqueue.model.jobs import Floats

EXPONENTS = (0.2, 3.0)
"""Range of a workload's exponent: beyond it, noise of a cell that was measured once decides."""
SLOWED, HELD_BACK = 0.02, 0.97
"""A pooled slow-down (its logarithm) below the first fixes no exponent, a share of watts above the second no ``kept``.
"""


@dataclass(frozen=True, slots=True)
class KindOfGpu:
    """A kind of GPU: the lowest limit that is trusted, idle watts, and the curve of its workloads."""

    floor_w: float
    idle_w: float
    curve: GpuCurve

    @classmethod
    def of(cls, runs: Iterable[LimitedRun]) -> KindOfGpu:
        """Fit a kind on workloads; its idle watts are the least that any of them drew."""
        every = list(runs)
        floor = floor_of(every)
        trusted = [run.above(floor) for run in every]
        idle = min(float(run.watts.min()) for run in every)
        return cls(floor, idle, pooled_curve(trusted, idle))


@dataclass(frozen=True, slots=True)
class FittedWorkload:
    """A workload on a kind of GPU: watts without a limit, what it uses of a limit, and its exponent."""

    kind: KindOfGpu
    demand_w: float
    kept: float = 1.0
    exponent: float = 1.0

    @classmethod
    def of(cls, kind: KindOfGpu, run: LimitedRun) -> FittedWorkload:
        """Fit a workload on its least and its greatest limit; others are not read."""
        demand = float(run.watts[-1] - kind.idle_w)
        drawn, room = float(run.watts[0] - kind.idle_w), float(run.limit_w[0] - kind.idle_w)
        kept = 1.0
        if 0.0 < drawn < HELD_BACK * demand:
            kept = limit_that_leaves(drawn, demand) / room
        share = np.clip(drawn / demand, 0.0, 1.0) if demand > 0.0 else 1.0
        pooled = float(np.log(kind.curve.time_factor(np.array([share]))[0]))
        own = float(np.log(run.time_s[0] / run.time_s[-1]))
        exponent = float(np.clip(own / pooled, *EXPONENTS)) if pooled > SLOWED else 1.0
        return cls(kind, float(run.watts[-1]), kept, exponent)

    def predict(self, limit_w: Floats) -> tuple[Floats, Floats]:
        """Return watts and run times over that without a limit, at limits. Shapes (k,)."""
        idle, trusted = self.kind.idle_w, np.maximum(limit_w, self.kind.floor_w)
        demand = np.full(len(limit_w), max(self.demand_w - idle, 0.0))
        share = share_left(demand, self.kept * (trusted - idle))
        return min(idle, self.demand_w) + demand * share, self.kind.curve.time_factor(share) ** self.exponent


def across(known: Iterable[tuple[float, FittedWorkload]], rated_w: float, kind: KindOfGpu) -> FittedWorkload:
    """Return a workload on a kind of GPU on which it was not measured, from others with their rated watts.

    It draws the same share of the rated watts, on average over the others; its constants are their geometric means.
    """
    every = list(known)
    demand = rated_w * float(np.mean([fitted.demand_w / rated for rated, fitted in every]))
    kept, exponent = (
        float(np.exp(np.mean([np.log(getattr(fitted, name)) for _, fitted in every]))) for name in ("kept", "exponent")
    )
    return FittedWorkload(kind, demand, kept, exponent)


def unknown_kind(known: Iterable[tuple[float, KindOfGpu, Iterable[LimitedRun]]], rated_w: float) -> KindOfGpu:
    """Return what is assumed of a kind of GPU of rated watts, from workloads on other kinds.

    Floor and idle watts are the others' shares of their rated watts, on average; the curve is that of all workloads.
    """
    every = [(rated, kind, list(runs)) for rated, kind, runs in known]
    floor, idle = (
        rated_w * float(np.mean([getattr(kind, name) / rated for rated, kind, _ in every]))
        for name in ("floor_w", "idle_w")
    )
    shifted = [
        LimitedRun(run.limit_w - kind.idle_w, run.watts - kind.idle_w, run.time_s)
        for _, kind, runs in every
        for run in (one.above(kind.floor_w) for one in runs)
    ]
    return KindOfGpu(floor, idle, pooled_curve(shifted, 0.0))
