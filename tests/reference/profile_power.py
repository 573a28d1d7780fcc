"""The machine's power with profiles, written to be read: at each moment ask every job what it draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ProfiledRun:
    """A run on ``nodes`` units; ``levels`` and where they resume, watts of one unit = base + scale level."""

    start_s: float
    end_s: float
    nodes: int
    levels: Sequence[float]
    resume: int
    base_w: float
    scale_w: float
    period_s: float = 20.0


def run_uw(run: ProfiledRun, now_s: float) -> int:
    """Microwatts of all units of a run at a moment; 0 before its start and from its end on."""
    if not run.start_s <= now_s < run.end_s:
        return 0
    place, k = 0, 0
    while run.start_s + (k + 1) * run.period_s <= now_s:
        k += 1
        place = place + 1 if place + 1 < len(run.levels) else run.resume
    return run.nodes * math.floor((run.base_w + run.scale_w * run.levels[place]) * 1e6 + 0.5)


def moments(run: ProfiledRun) -> list[float]:
    """When a run's watts may change."""
    out, k = [run.end_s], 0
    while run.start_s + k * run.period_s < run.end_s:
        out.append(run.start_s + k * run.period_s)
        k += 1
    return out


def profile_series(runs: Sequence[ProfiledRun], times: Sequence[float] = ()) -> list[tuple[float, int]]:
    """(time, microwatts of all runs), a row for each moment of a run and each of ``times``."""
    when = sorted({t for run in runs for t in moments(run)} | set(times))
    return [(t, sum(run_uw(run, t) for run in runs)) for t in when]
