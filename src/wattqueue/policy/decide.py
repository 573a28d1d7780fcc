"""``decide(snapshot) -> actions``: the whole policy at one moment, as a function.

The simulator keeps its view up to date incrementally; a live controller has a snapshot of the cluster each round.
``view_of`` loads a snapshot into a new view and ``decide`` runs the same compiled pass on it: the policy that was
simulated is the policy that drives. A test compares both ways on random worlds.

``snapshot_of`` goes the other way, from a view to a snapshot. It serves policies that re-rank the queue at each pass:
kernels need ranks that do not change, so such a pass runs on a new view in the new order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.calls import schedule_once
from wattqueue.kernels.fresh import new_plan
from wattqueue.kernels.in_flight import new_evidence
from wattqueue.kernels.padding import check_padding
from wattqueue.kernels.snapshot import load_queue, load_running, load_unusable
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.signals import NO_SIGNALS, Signals, next_targets
from wattqueue.parts.contracts import Entries, Prediction, Start
from wattqueue.policy.announced import announced_at, with_announced
from wattqueue.policy.build import PassSettings, build_view, rows_for, with_delays
from wattqueue.policy.by_unit import factors_of, rank_of
from wattqueue.policy.consent_windows import Window
from wattqueue.policy.identity import JobNames

if TYPE_CHECKING:
    from wattqueue.parts.actions import StartJob
    from wattqueue.policy.view import View

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RunningJobs:
    """What runs at the moment of a snapshot. Shapes (r,), except the intervals ``low`` and ``high``."""

    row: Ints
    """Rows of the job table."""
    option: NDArray[np.int16]
    """Options at which the jobs run."""
    expected_end_s: Floats
    """Start + planned time."""
    net_uw: NDArray[np.int64]
    """What the ledger counts for each, int64 microwatts; at least 0."""
    first: NDArray[np.int64]
    """First interval of each job."""
    count: Ints
    """Number of its intervals."""
    low: Ints
    """First unit of each interval."""
    high: Ints
    """Last unit of each interval, included."""
    parked: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which jobs are suspended by an action (rule 16), (r,), their ends infinite; empty: none."""
    variance_left: Floats = field(default_factory=lambda: np.zeros(0))
    """Relative variance of each job's watts, as a share of that at its start (an in-flight ledger), (r,); empty: all
    of it."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicySnapshot:
    """The scheduler's world at one moment: all that a pass depends on."""

    now_s: float
    """The time of the pass."""
    jobs: KnownJobs
    """Waiting and running jobs."""
    machine: Machine
    """The machine."""
    prediction: Prediction
    """Watts and time factors of the jobs."""
    entries: Entries
    """Entries of the waiting jobs; where a control asks for the windows of running ones, theirs, too."""
    window: Window
    """Options of each entry."""
    settings: PassSettings
    """The compiled pass and its knobs."""
    running: RunningJobs
    """Running jobs."""
    cap_w: float = np.inf
    """The cap in force; inf for none."""
    margin_w: float = 0.0
    """Watts that stay free below the cap, beside the margin of the policy's ledger."""
    base_uw: int | None = None
    """Idle microwatts that the cap covers and no job does; None: every node is powered."""
    unusable: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Units that are down, off, or in between."""
    rank: Floats | None = None
    """Rank of each unit for each application, low first (``by_unit.placement_order``); None: the lowest numbers."""
    signals: Signals = NO_SIGNALS
    """What is in force and announced, for parts that look ahead; the pass itself uses ``cap_w`` alone."""
    planned_s: Floats | None = None
    """Planned seconds of each job at reference speed (rule 3); None: the walltimes."""
    idle_above_uw: int = 0
    """Microwatts that idle units count above their idle watts (a measured ledger, rule 15)."""
    alone_w: float = -np.inf
    """The cap without load targets, where one lowers the limit (rule 20); else anything up to ``cap_w``."""
    not_before_s: Floats | None = None
    """When each job may start at the earliest, by a control (``DelayStart``); None where none delays jobs."""


def cap_uw(watts: float) -> int:
    """Return a cap as kernels count it."""
    return codes.NO_CAP if watts * codes.MICRO >= codes.NO_CAP else codes.microwatts(watts)


def view_of(snapshot: PolicySnapshot) -> state.KernelView:
    """Return the kernels' view of a snapshot, before its pass.

    Builds an idle view, fills in what runs (``held`` and the interval log) and the budget, then loads running jobs,
    unusable units and the queue through kernels. The plan gets room for every running end and twice for every entry.
    """
    s = snapshot
    view = build_view(
        s.jobs, s.machine, s.prediction, s.entries, s.window, s.settings, rank=s.rank, planned_s=s.planned_s
    )
    if s.not_before_s is not None:
        view = with_delays(view, np.array(s.not_before_s, np.float64))
    view.now.time_s = s.now_s
    now, held, running = view.now, view.held, s.running
    if s.base_uw is not None:
        now.base_uw = s.base_uw
    now.cap_uw = cap_uw(s.cap_w)
    now.full_cap_uw = cap_uw(max(s.cap_w, s.alone_w))
    now.in_target = s.signals.targets.in_force(s.now_s) >= 0
    if len(s.signals.targets):
        (row,) = next_targets(s.signals.targets, np.array([s.now_s]))
        now.ahead_s = s.signals.targets.start_s[row] if row >= 0 else np.inf
    if s.settings.looks_ahead:
        everything, rises = s.settings.all_limits, s.settings.code == codes.CONSERVATIVE
        found = announced_at(s.signals, np.array([s.now_s]), everything=everything, rises=rises)
        view = with_announced(view, found)
    # Not into MARGIN: that slot is the ledger's own, and a chance ledger computes it from what runs.
    now.base_margin_uw = codes.microwatts(s.margin_w)
    now.base_uw += now.base_margin_uw
    now.idle_above_uw = s.idle_above_uw
    held.option[running.row] = running.option
    held.end[running.row] = running.expected_end_s
    held.factor[running.row] = s.prediction.factors(running.row, running.option)
    held.first[running.row] = running.first
    held.pieces[running.row] = running.count
    if len(running.parked):
        held.parked[running.row] = running.parked
    room = len(running.low) + s.machine.units
    low, high = np.empty(room, np.int32), np.empty(room, np.int32)
    low[: len(running.low)], high[: len(running.high)] = running.low, running.high
    now.intervals = len(running.low)
    if len(running.variance_left):
        view = view._replace(evidence=new_evidence(len(s.jobs), 1.0, 1.0))
        view.evidence.left[running.row] = running.variance_left
    rows = 2 * len(running.row) + 4 * len(s.entries.job) + len(view.ahead.stamp) + 64
    planned = s.settings.code == codes.CONSERVATIVE
    plan = new_plan(len(s.jobs), len(s.machine.partitions), rows) if planned else view.plan
    view = check_padding(view._replace(held=held._replace(low=low, high=high), plan=plan))
    # At least 0 (rule 14): a reservation skips blocks of running jobs by sums that must not fall from block to block.
    net = np.maximum(np.asarray(running.net_uw, np.int64), 0)
    load_running(view, np.asarray(running.row, np.int32), net)
    load_unusable(view, np.asarray(s.unusable, np.int32))
    # Entries of running jobs state their windows, for controls; these jobs are in no queue.
    waits = np.zeros(len(s.jobs), np.bool_)
    waits[s.entries.job] = True
    waits[running.row] = False
    load_queue(view, np.flatnonzero(waits).astype(np.int32))
    return view


def decide(snapshot: PolicySnapshot) -> list[StartJob]:
    """Return what the compiled pass starts now, in order, with the units it gets.

    A pure function: the snapshot is not changed, and the same snapshot gives the same actions.
    """
    view = view_of(snapshot)
    schedule_once(view)
    return starts_of(view, JobNames(snapshot.jobs.job_id))


def starts_of(view: state.KernelView, names: JobNames) -> list[StartJob]:
    """Return the buffer of starts of a view as actions, in order."""
    from wattqueue.parts.actions import StartJob

    found = []
    for k in range(int(view.now.starts)):
        job, option = int(view.entries.job[view.start_entry[k]]), int(view.start_option[k])
        first, count = int(view.held.first[job]), int(view.held.pieces[job])
        units: list[int] = []
        for i in range(first, first + count):
            units += range(int(view.held.low[i]), int(view.held.high[i]) + 1)
        found.append(StartJob(names.name(job), int(view.units.option_partition[option]), tuple(units), option))
    return found


def snapshot_of(view: View, settings: PassSettings, priority: Floats | None = None) -> tuple[PolicySnapshot, Ints]:
    """Return a snapshot of an incremental view, and the rows of its job table in the view's.

    ``priority`` (q,) replaces the order of ``view.queue``; None keeps it. Only jobs that wait or run are taken over,
    so a snapshot of a long trace is small. Its job table is renumbered: row k of the snapshot is row ``rows[k]`` of
    the view.
    """
    from wattqueue.policy.state_view import own_kernel

    kernel, queue, running = own_kernel(view), view.queue, view.running
    entry_job = kernel.entries.job[queue]
    rows = np.unique(np.concatenate((entry_job, running)))
    small = np.searchsorted(rows, entry_job).astype(np.int32)
    partition = (np.searchsorted(kernel.entries.start, queue, side="right") - 1).astype(np.int32)
    order = -np.arange(len(queue), dtype=np.float64) if priority is None else np.asarray(priority, np.float64)
    small_running = np.searchsorted(rows, running).astype(np.int32)
    entries, window = Entries(small, partition, order), window_of(kernel, queue)
    if settings.looks_ahead:
        entries, window = _with_windows(view, entries, window, small_running)
    seconds = kernel.planned.seconds[rows]
    # Less than the walltime where run times are predicted, and of jobs that kept work when they were requeued.
    shorter = bool(kernel.now.correction) or bool((seconds != view.jobs.walltime_s[rows]).any())
    out = view.unit_state != codes.UNIT_ON
    for job in running if out.any() else ():
        out[view.job_units(int(job))] = False  # on a draining node
    unusable = np.flatnonzero(out).astype(np.int32)
    snapshot = PolicySnapshot(
        view.now_s,
        view.jobs.take(rows),
        view.machine,
        replace(rows_for(kernel.predicted, rows), unit_factor=factors_of(kernel)),
        entries,
        window,
        settings,
        _running_of(kernel, running, small_running),
        view.cap_w,
        # A chance ledger computes its margin again from the running jobs.
        0.0 if kernel.now.by_chance else float(kernel.now.margin_uw) / codes.MICRO,
        int(kernel.now.base_uw),
        unusable,
        rank_of(kernel, len(view.jobs.app.names)),
        view.signals,
        seconds if shorter else None,
        int(kernel.now.idle_above_uw),
        view.cap_alone_w,
        kernel.planned.not_before[rows] if len(kernel.planned.not_before) else None,
    )
    return snapshot, rows.astype(np.int32)


def window_of(kernel: state.KernelView, entry: Ints) -> Window:
    """Return the windows of some entries of a view."""
    table = kernel.entries
    return Window(table.first[entry], table.last[entry], None if table.plain is table.last else table.plain[entry])


def _with_windows(view: View, entries: Entries, window: Window, rows: Ints) -> tuple[Entries, Window]:
    """Return entries and windows with those of running jobs behind them, each where it runs.

    A pass that looks ahead counts a job at the last option of its window. ``rows`` (r,) in the snapshot's job table.
    """
    running = view.running
    first, last = view.job_windows(running)
    partition = view.machine.option_partition[view.job_options(running)].astype(np.int32)
    more = Entries(
        np.concatenate((entries.job, rows)),
        np.concatenate((entries.partition, partition)),
        np.concatenate((entries.priority, np.zeros(len(rows)))),
    )
    return more, window.with_more(first, last)


def _running_of(kernel: state.KernelView, running: Ints, rows: Ints) -> RunningJobs:
    """Return the running jobs of a view, with the watts that its ledger counts.

    Not the predictions: a job under a limit, or at another frequency than at its start, counts for something else.
    """
    held, blocks = kernel.held, kernel.running
    used = blocks.order[: kernel.now.blocks]
    parts = [blocks.net[block, : blocks.filled[block]] for block in used]
    net = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return RunningJobs(
        rows,
        held.option[running],
        held.end[running],
        net,
        held.first[running],
        held.pieces[running],
        held.low[: kernel.now.intervals],
        held.high[: kernel.now.intervals],
        held.parked[running] != 0,
        kernel.evidence.left[running] if len(kernel.evidence.left) else np.zeros(0),
    )


def ranked_starts(view: View, settings: PassSettings, priority: Floats | None) -> list[Start]:
    """Return the starts of a compiled pass over the queue in another order, as entries of the view itself.

    ``priority`` (q,) holds one number for each entry of ``view.queue``. The pass runs on a snapshot in the new order;
    ``check_shapes`` refuses priorities of the wrong length or NaN.
    """
    from wattqueue.policy.state_view import own_kernel

    snapshot, rows = snapshot_of(view, settings, priority)
    kernel = view_of(snapshot)
    schedule_once(kernel)
    entries, found = own_kernel(view).entries.of_job, []
    for k in range(int(kernel.now.starts)):
        job, option = int(kernel.entries.job[kernel.start_entry[k]]), int(kernel.start_option[k])
        found.append(Start(int(entries[rows[job], kernel.units.option_partition[option]]), option))
    return found
