"""What users see of waiting jobs, and what a job that is not submitted yet would need."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from wattqueue.live.planner import Planner, RoundState
from wattqueue.live.requests import JobRequest

MOST = 200
"""Waiting jobs that are told why they wait, in the policy's order."""


def annotations_of(plan: RoundState) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the annotations of waiting jobs by job: their watts, why they wait, and when they are expected to start.

    Expected starts are those of the policy's reservations: of the head of each partition under EASY.
    """
    view, kernel = plan.view, plan.decision.now.kernel
    reserved = {
        int(kernel.entries.job[entry]): float(at_s)
        for entry, at_s in zip(kernel.reserved.entry.tolist(), kernel.reserved.time.tolist(), strict=True)
        if entry >= 0 and math.isfinite(at_s)
    }
    started = set(plan.decision.rows)
    layout = plan.planner.layout
    scope_w = 0.0 if layout.machine.cap_scope == "jobs" else 1.0
    idle_w = scope_w * np.array([part.idle_w for part in layout.machine.partitions])[view.entries.partition]
    net_w = np.maximum(view.prediction.watts(view.entries.job, np.asarray(view.window[0])) - idle_w, 0.0)
    entry_of = {int(job): k for k, job in reversed(list(enumerate(view.entries.job.tolist())))}
    for row, slot in enumerate(plan.waiting.tolist()[:MOST]):
        if row in started or row not in entry_of:
            continue
        watts = math.ceil(net_w[entry_of[row]] * int(view.jobs.nodes[row]) - 1e-6)
        text = plan.jobs.reason[slot] or "waits for nodes, watts or its turn"
        said = {"reason_pending": text, "t_estimate": reserved.get(row)}  # None takes an earlier one back
        yield plan.jobs.row[slot].number, {"sched": said, "wattqueue": {"watts": watts}}


def most_room_w(planner: Planner, now_s: float) -> float:
    """Return the most net watts that a cap to come leaves for jobs; inf without a cap, or where it leaves none."""
    highest_w = float(planner.left.highest_from(np.array([now_s]))[0])
    room_w = highest_w - planner.nodes.base_uw / 1e6
    return room_w if math.isfinite(room_w) and room_w > 0.0 else math.inf


def least_w(planner: Planner, request: JobRequest, parts: Collection[str], now_s: float) -> float:
    """Return the least net watts that a job counts by its prediction, on nodes of some partitions."""
    planner.predictor.predict([request], now_s, planner.jobs.slot)
    known, layout = planner.predictor.of(request.key), planner.layout
    if known is None:
        return 0.0
    net_w = [
        layout.net_uw(float(watts), [int(layout.first[part])] * request.nodes, None) / 1e6
        for watts, part in zip(known[0].tolist(), layout.machine.option_partition.tolist(), strict=True)
        if math.isfinite(watts) and layout.machine.partitions[part].name in parts
    ]
    return min(net_w, default=0.0)
