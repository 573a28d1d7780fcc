"""``decide(snapshot) -> actions``: the whole policy at one moment, for whoever drives.

The simulator keeps its view up incrementally; a live controller has a snapshot. Both run the very
same compiled pass, and a test holds that they start the same jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.schedule import schedule_once
from wattqueue.kernels.snapshot import load_queue, load_running, load_unusable
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction, Start
from wattqueue.policy.actions import StartJob
from wattqueue.policy.build import PassSettings, Window, build_view
from wattqueue.policy.view import View

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RunningJobs:
    """What runs at the moment of a snapshot. Shapes (r,) but the intervals.

    ``row`` rows of the job table; ``option`` at which they run; ``expected_end_s``; ``net_uw`` what
    each counts in the cap's scope (int64 microwatts: watts less the idle share, unless the cap
    covers jobs alone); ``first``, ``count`` into ``low``, ``high``: units held, as in Schedule.
    """

    row: Ints
    option: NDArray[np.int16]
    expected_end_s: Floats
    net_uw: NDArray[np.int64]
    first: NDArray[np.int64]
    count: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The scheduler's world at one moment.

    ``jobs`` holds waiting and running jobs; ``entries`` and ``window`` those of the waiting ones;
    ``unusable`` the units that are down, off, or on their way; ``cap_w`` inf for none. ``base_uw``
    replaces the idle watts that a machine-scope cap counts, where nodes are off.
    """

    now_s: float
    jobs: Jobs
    machine: Machine
    prediction: Prediction
    entries: Entries
    window: Window
    settings: PassSettings
    running: RunningJobs
    cap_w: float = np.inf
    margin_w: float = 0.0
    base_uw: int | None = None
    unusable: Ints = field(default_factory=lambda: np.zeros(0, np.int32))


def view_of(snapshot: Snapshot) -> state.View:
    """The kernels' view of a snapshot, before its pass."""
    s = snapshot
    view = build_view(s.jobs, s.machine, s.prediction, s.entries, s.window, s.settings)
    view.num[codes.NOW] = s.now_s
    count, held, running = view.counter, view.held, s.running
    if s.base_uw is not None:
        count[codes.BASE] = s.base_uw
    count[codes.CAP] = codes.NO_CAP if s.cap_w * codes.MICRO >= codes.NO_CAP else round(s.cap_w * codes.MICRO)
    count[codes.MARGIN] = round(s.margin_w * codes.MICRO)
    held.option[running.row] = running.option
    held.end[running.row] = running.expected_end_s
    held.first[running.row] = running.first
    held.pieces[running.row] = running.count
    room = len(running.low) + s.machine.units
    low, high = np.empty(room, np.int32), np.empty(room, np.int32)
    low[: len(running.low)], high[: len(running.high)] = running.low, running.high
    count[codes.INTERVALS] = len(running.low)
    rows = 2 * len(running.row) + 4 * len(s.entries.job) + 64
    plan = view.plan
    if s.settings.code == codes.CONSERVATIVE:
        partitions = len(s.machine.partitions)
        plan = plan._replace(
            time=np.empty(rows), nodes=np.empty((partitions, rows), np.int64), watt=np.empty(rows, np.int64)
        )
    view = view._replace(held=held._replace(low=low, high=high), plan=plan)
    load_running(view, np.asarray(running.row, np.int32), np.asarray(running.net_uw, np.int64))
    load_unusable(view, np.asarray(s.unusable, np.int32))
    load_queue(view, np.unique(s.entries.job).astype(np.int32))
    return view


def decide(snapshot: Snapshot) -> list[StartJob]:
    """What starts now, in order, with the units it gets. Rows refer to ``snapshot.jobs``."""
    view = view_of(snapshot)
    schedule_once(view)
    return [_start_job(view, k) for k in range(int(view.counter[codes.STARTS]))]


def _start_job(view: state.View, k: int) -> StartJob:
    job = int(view.entries.job[view.start_entry[k]])
    option = int(view.start_option[k])
    first, count = int(view.held.first[job]), int(view.held.pieces[job])
    units: list[int] = []
    for i in range(first, first + count):
        units += range(int(view.held.low[i]), int(view.held.high[i]) + 1)
    return StartJob(job, int(view.units.option_partition[option]), tuple(units), option)


def snapshot_of(view: View, settings: PassSettings, priority: Floats | None = None) -> tuple[Snapshot, Ints]:
    """A snapshot of an incremental view, and the rows of its job table in the view's.

    ``priority`` (q,) replaces the order of ``view.queue``; None keeps it.
    """
    kernel, queue, running = view.kernel, view.queue, view.running
    entry_job = kernel.entries.job[queue]
    rows = np.unique(np.concatenate((entry_job, running)))
    small = np.searchsorted(rows, entry_job).astype(np.int32)
    partition = (np.searchsorted(kernel.entries.start, queue, side="right") - 1).astype(np.int32)
    order = -np.arange(len(queue), dtype=np.float64) if priority is None else np.asarray(priority, np.float64)
    table = kernel.predicted
    row = rows if len(table.row) == 0 else table.row[rows]
    power = table.power_uw if len(table.power_uw) == 1 else table.power_uw[row]
    time = table.time_factor if len(table.time_factor) == 1 else table.time_factor[row]
    window = (kernel.entries.first[queue], kernel.entries.last[queue])
    unusable = np.flatnonzero(view.unit_state != codes.UNIT_ON).astype(np.int32)
    snapshot = Snapshot(
        view.now_s,
        view.jobs.take(rows),
        view.machine,
        Prediction(power / codes.MICRO, time),
        Entries(small, partition, order),
        window,
        settings,
        _running_of(kernel, running, np.searchsorted(rows, running).astype(np.int32)),
        view.cap_w,
        float(kernel.counter[codes.MARGIN]) / codes.MICRO,
        int(kernel.counter[codes.BASE]),
        unusable,
    )
    return snapshot, rows.astype(np.int32)


def _running_of(kernel: state.View, running: Ints, rows: Ints) -> RunningJobs:
    held, blocks = kernel.held, kernel.running
    used = blocks.order[: kernel.counter[codes.BLOCKS]]
    parts = [blocks.net[block, : blocks.filled[block]] for block in used]
    net = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return RunningJobs(
        rows,
        held.option[running],
        held.end[running],
        net,
        held.first[running],
        held.pieces[running],
        held.low[: kernel.counter[codes.INTERVALS]],
        held.high[: kernel.counter[codes.INTERVALS]],
    )


def decide_order(view: View, rerank: Callable[[View], Floats] | None) -> Sequence[Start]:
    """A pass in an order that is asked anew: the snapshot's pass, in the view's own entries."""
    count = view.kernel.counter
    depth = int(count[codes.DEPTH])
    settings = PassSettings(int(count[codes.CODE]), 0 if depth >= codes.ANY_NEED else depth, view.machine.cap_scope)
    snapshot, rows = snapshot_of(view, settings, rerank(view) if rerank is not None else None)
    entries = view.kernel.entries.of_job
    return [Start(int(entries[rows[start.job], start.partition]), start.option) for start in decide(snapshot)]
