"""Activity of an application on a socket: mean active cores, and events per unhalted cycle of each component.

Section 2.1 of paper 2 takes the activity of an application as a property of the micro-architecture: one recording on
any socket serves for all. What differs between sockets is the watts per activity (``weights``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.counters import CounterTrace
from wattqueue_studies.pmc.events import COMPONENTS, LEVELS, Microarchitecture

ALIKE = 0.02
"""Processes whose mean activities differ by no more than this share count as alike."""


@dataclass(frozen=True, slots=True, eq=False)
class ActivityTrace:
    """Activity of one process over t intervals.

    Attributes:
        name: The application; processes of one application share it.
        time_s: End of each interval. Shape (t,).
        level: Mean active cores, then the ratios of ``COMPONENTS``. Shape (t, 9).
        process: Number of the process within the application.
        dropped: Intervals without a usable count, which were left out.

    Raises: InputError for shapes that do not fit, an empty trace, and levels that are negative or not finite.
    """

    name: str
    time_s: Floats
    level: Floats
    process: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        if self.level.shape != (len(self.time_s), len(LEVELS)):
            raise InputError(f"levels of shape {self.level.shape}, expected (t, {len(LEVELS)})", where=self.name)
        if not len(self.level):
            raise InputError("no usable interval", where=self.name, hint="record at least one second of counters")
        if not (np.isfinite(self.level).all() and (self.level >= 0).all()):
            raise InputError("an activity is negative or not finite", where=self.name)

    @property
    def mean(self) -> Floats:
        """Return the mean over time. Shape (9,)."""
        found: Floats = self.level.mean(axis=0)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SocketRun:
    """One process of an application on one socket.

    Attributes:
        socket: Name of the socket.
        trace: Its activity.
        watts: Watts of the socket in the same intervals, NaN where they were not measured. Shape (t,).
    """

    socket: str
    trace: ActivityTrace
    watts: Floats


def activity_ratios(
    trace: CounterTrace, active_cores: Floats, architecture: Microarchitecture, name: str = "app", process: int = 0
) -> ActivityTrace:
    """Return the activity ratios of Table 1: events of each component per unhalted cycle.

    An interval in which an event was not counted, or without a cycle, is left out and counted in ``dropped``.

    Args:
        trace: Counts of a socket.
        active_cores: Mean active cores in the same intervals (mpstat). Shape (t,).
        architecture: Events of the socket's micro-architecture.
        name: Name of the application.
        process: Number of the process.

    Raises: InputError for an event that was not recorded, and where no interval is usable.
    """
    if len(active_cores) != len(trace):
        raise InputError(
            f"{len(active_cores)} intervals of active cores, {len(trace)} of counters",
            where=name,
            hint="record both with the same period",
        )
    cycles, of = architecture.columns(trace.counts)
    level = np.empty((len(trace), len(LEVELS)))
    level[:, 0] = active_cores
    per_cycle = np.where(trace.counts[cycles] > 0, trace.counts[cycles], np.nan)
    for k, component in enumerate(COMPONENTS, start=1):
        level[:, k] = sum(trace.counts[event] for event in of[component]) / per_cycle
    good = np.isfinite(level).all(axis=1)
    return ActivityTrace(name, trace.time_s[good], level[good], process, int((~good).sum()))


def alike(means: Floats, tolerance: float = ALIKE) -> NDArray[np.int64]:
    """Return, for each process of an application, the process whose prediction it shares.

    Section 2.3: processes with similar workloads are treated as one. A process shares the first one before it from
    which no mean level differs by more than ``tolerance``, relative to the greatest such level of the application.

    Args:
        means: Mean activity of each process. Shape (N, 9).
        tolerance: Greatest relative difference.
    """
    scale = np.maximum(means.max(axis=0), 1e-12)
    shared = np.arange(len(means))
    leaders: list[int] = []
    for k, row in enumerate(means):
        near = next((j for j in leaders if (np.abs(row - means[j]) <= tolerance * scale).all()), None)
        if near is None:
            leaders.append(k)
        else:
            shared[k] = near
    return shared


def merged(processes: Sequence[ActivityTrace]) -> tuple[list[ActivityTrace], NDArray[np.int64]]:
    """Return one trace per group of processes alike, and the group of each process. Shape (N,)."""
    shared = alike(np.stack([p.mean for p in processes]))
    leaders = np.unique(shared)
    return [processes[j] for j in leaders], np.searchsorted(leaders, shared)
