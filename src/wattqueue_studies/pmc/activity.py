"""Activity of an application on a socket: mean active cores, and events per unhalted cycle of each component.

Section 2.1 of paper 2 takes the activity of an application as a property of the micro-architecture: one recording on
any socket serves for all. What differs between sockets is the watts per activity (``weights``).

``read_activity`` reads CSV: one row per interval of a process on a socket, with its watts where they were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats import csv_records
from wattqueue.formats.atomic_write import atomic_write
from wattqueue.model.bounds import UNIT_W
from wattqueue.model.jobs import Floats
from wattqueue_studies.pmc.events import COMPONENTS, LEVELS, Microarchitecture
from wattqueue_studies.pmc.readings import CounterTrace

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


COLUMNS = ("app", "process", "socket", "time_s", *LEVELS, "watts")
"""Header; ``watts`` may be empty."""
MOST_PROCESSES = 10_000_000
"""Greatest number of a process."""
MOST_LEVEL = 1e6
"""Greatest level: events per cycle are below ten, active cores below a thousand."""
LEAST_W = 1e-3
"""Least watts: errors are stated as shares of them."""
NUMBERS = ("process", "time_s", *LEVELS, "watts")


def read_activity(path: Path) -> list[SocketRun]:
    """Return the runs of a table of activity (CSV, also gzipped), in the order of their first rows.

    Raises: InputError naming file, line and column for missing columns, and levels that are negative or missing.
    """
    frame, _ = csv_records.read(path, csv_records.having(COLUMNS[:-1]), NUMBERS)
    level = frame.select(LEVELS).to_numpy()
    counted = np.asarray(((level >= 0) & (level <= MOST_LEVEL)).all(axis=1))
    csv_records.require_rows(path, counted, f"an activity is missing, negative or above {MOST_LEVEL:g}")
    watts: Floats = frame["watts"].to_numpy() if "watts" in frame.columns else np.full(len(frame), np.nan)
    drawn = np.asarray(np.isnan(watts) | ((watts >= LEAST_W) & (watts <= UNIT_W.high)))
    csv_records.require_rows(
        path, drawn, "watts that no socket draws", f"{LEAST_W:g} to {UNIT_W.high:g}, or leave them empty"
    )
    process = frame["process"].fill_nan(0.0).to_numpy()
    whole = (process >= 0) & (process <= MOST_PROCESSES) & (process == np.floor(process))
    csv_records.require_rows(path, whole, "process is no whole number", f"0 to {MOST_PROCESSES:,}")
    named = (frame["app"].fill_null("") != "") & (frame["socket"].fill_null("") != "")
    csv_records.require_rows(path, named.to_numpy(), "a row without app or socket", "name both")
    time_s = frame["time_s"].to_numpy()
    rows: dict[tuple[str, int, str], list[int]] = {}
    keys = zip(frame["app"].to_list(), process.astype(np.int64).tolist(), frame["socket"].to_list(), strict=True)
    for row, (app, which, socket) in enumerate(keys):
        rows.setdefault((app, which, socket), []).append(row)
    return [
        SocketRun(socket, ActivityTrace(app, time_s[at], level[at], which), watts[at])
        for (app, which, socket), at in rows.items()
    ]


def write_activity(path: Path, runs: Iterable[SocketRun]) -> None:
    """Write runs as a table. Raises: OutputError."""
    import polars as pl

    frames = [
        pl.DataFrame(
            {
                "app": [run.trace.name] * len(run.trace.level),
                "process": run.trace.process,
                "socket": run.socket,
                "time_s": run.trace.time_s,
                **{name: run.trace.level[:, k] for k, name in enumerate(LEVELS)},
                "watts": pl.Series(run.watts, dtype=pl.Float64).fill_nan(None),
            },
            schema_overrides={"process": pl.Int64},
        )
        for run in runs
    ]
    with atomic_write(path) as temporary:
        csv_records.write(temporary, pl.concat(frames), "wattqueue activity", {"schema_version": "1"})
