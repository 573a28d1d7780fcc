"""The kernels' arrays in SI units, read-only: the figures of jobs and of the budget (``view.View`` adds the rest).

Arrays are the driver's own memory, and cannot be written to (``read_only``). numpy lets whoever holds a view of a
writable array make the view writable again; an array over a read-only buffer stays read-only. What nothing can prevent
in one process: the way from the buffer back to its owner (``.base.obj``), or through ``gc`` and ``ctypes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes, state
from wattqueue.kernels.calls import list_queue, net_of_start, start_options
from wattqueue.kernels.state import Scalars
from wattqueue.kernels.view_lists import RunningList
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.load_target import LoadTargets
from wattqueue.model.machine import Machine
from wattqueue.model.signals import NO_SIGNALS, Signals
from wattqueue.parts.actions import Refusal
from wattqueue.policy.build import time_factors, unit_uw
from wattqueue.policy.identity import JobNames

if TYPE_CHECKING:
    from wattqueue.policy.device_limits import DeviceLimits, DeviceReadings

T = TypeVar("T", bound=tuple[Any, ...])


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array on the same memory whose elements cannot be set, nor the array made writable."""
    return np.asarray(array.data.toreadonly())


def read_only_tuple(value: T) -> T:
    """Return a named tuple of the same class with all its arrays and records read-only, in tuples within it, too."""
    return type(value)._make(map(_member, value))  # type: ignore[attr-defined,no-any-return]


def _member(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return read_only(value)
    if isinstance(value, Scalars):
        return type(value)(read_only(value.data))
    return read_only_tuple(value) if isinstance(value, tuple) else value


Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class StateView:
    """Jobs, units, watts and announced limits at this pass, as the driver's arrays have them (``view.View``)."""

    jobs: KnownJobs
    """The job table: what users requested, and in ``jobs.observed`` what has happened so far."""
    machine: Machine
    """The machine."""
    _own: state.KernelView
    """The driver's arrays, which kernels write to."""
    unit_state: NDArray[np.int8]
    """State of each unit (``kernels/codes.py``). Shape (U,)."""
    refusals: Sequence[Refusal] = ()
    """Actions that were refused since the part was last called."""
    names: JobNames | None = field(default=None, repr=False)
    """What actions call the jobs; the driver's own, so that it is prepared once."""
    signals: Signals = field(default=NO_SIGNALS, repr=False)
    """What has been announced, for ``announced_caps``."""
    limits: DeviceLimits | None = field(default=None, repr=False)
    """Device limits as the driver knows them; None where each takes effect at once, or none can be set."""
    readings: DeviceReadings | None = field(default=None, repr=False)
    """What live telemetry shows of devices; None where the machine's sensors are read, or nothing measures."""
    _running: RunningList | None = field(default=None, init=False, repr=False)
    _kernel: state.KernelView | None = field(default=None, init=False, repr=False)
    _start: Callable[[int, int], int] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.unit_state = read_only(self.unit_state)

    @property
    def kernel(self) -> state.KernelView:
        """Return the kernels' arrays, read-only, for parts that need more than the properties below."""
        found = self._kernel
        if found is None:
            found = self._kernel = read_only_tuple(self._own)
        return found

    @property
    def now_s(self) -> float:
        """Return the time of this pass."""
        return float(self._own.now.time_s)

    @property
    def queue(self) -> Ints:
        """Return the queued entries in queue order. Shape (q,)."""
        out = np.empty(self._own.now.queued, np.int32)
        return out[: list_queue(self._own, out)]

    @property
    def heads(self) -> Ints:
        """Return the first queued entry of each partition that has one, in queue order. Shape (P,) at most."""
        queue = self.queue
        partition = np.searchsorted(self._own.entries.start, queue, side="right")
        heads: Ints = queue[np.sort(np.unique(partition, return_index=True)[1])]
        return heads

    @property
    def running(self) -> Ints:
        """Return the rows of running jobs by expected end. Shape (r,)."""
        listing = self._running
        if listing is None:
            listing = self._running = RunningList(self._own)
        return listing.rows[: listing.write()].copy()

    @property
    def expected_end_s(self) -> Floats:
        """Return the expected end of each job of the table; valid for running ones. Shape (n,)."""
        return self.kernel.held.end

    def job_id(self, row: int) -> str:
        """Return what actions call the job in a row. It means the same job in every call; a row does not."""
        names = self.names
        return (self._names() if names is None else names).name(row)

    def job_ids(self, rows: Iterable[int]) -> list[str]:
        """Return the names of the jobs in some rows."""
        name = self._names().name
        return [name(int(row)) for row in rows]

    def job_row(self, job_id: str) -> int:
        """Return the row of a job now; -1 where it is not in the table, because it ended or never was."""
        return self._names().row(job_id)

    def _names(self) -> JobNames:
        """Return the names of the jobs of this table."""
        if self.names is None:
            self.names = JobNames(self.jobs.job_id)
        return self.names

    @property
    def entries(self) -> int:
        """Return the number of entries of the order, queued or not."""
        return len(self._own.entries.job)

    @property
    def free(self) -> NDArray[np.int64]:
        """Return the free units of each partition. Shape (P,)."""
        return self.kernel.units.free

    @property
    def cap_w(self) -> float:
        """Return the cap in force; inf for none."""
        cap = int(self._own.now.cap_uw)
        return np.inf if cap >= codes.NO_CAP else cap / codes.MICRO

    @property
    def cap_alone_w(self) -> float:
        """Return the cap in force without load targets; inf for none."""
        cap = int(max(self._own.now.cap_uw, self._own.now.full_cap_uw))
        return np.inf if cap >= codes.NO_CAP else cap / codes.MICRO

    @property
    def announced_caps(self) -> tuple[Floats, Floats]:
        """Return the caps that were announced for later: when each comes into force, and its watts (inf for none).

        Seconds on the clock of ``now_s``, rising, and watts in the cap's scope. Shapes (k,), k = 0 where none is
        announced. Reservations and plans do not use them (rule 13 of docs/semantics.md); a part may look ahead.
        """
        return self.signals.caps_after(self.now_s)

    @property
    def load_targets(self) -> LoadTargets:
        """Return the load targets that have been announced and are not over, in watts of the cap's scope.

        They are in ``announced_caps``, too, with the rise that is allowed after each.
        """
        return self.signals.targets.known_at(self.now_s)

    @property
    def target_w(self) -> float:
        """Return the watts of the load target in force; inf for none."""
        row = self.signals.targets.in_force(self.now_s)
        return float(self.signals.targets.limit[row]) if row >= 0 else np.inf

    @property
    def available_w(self) -> float:
        """Return the watts that starting jobs may still take; inf without a cap."""
        return np.inf if self.cap_w == np.inf else float(self._own.now.available_uw) / codes.MICRO

    def entry_job(self, entry: int) -> int:
        """Return the row of an entry's job."""
        return int(self._own.entries.job[entry])

    def entry_partition(self, entry: int) -> int:
        """Return the partition of an entry."""
        return int(np.searchsorted(self._own.entries.start, entry, side="right")) - 1

    def entry_options(self, entry: int) -> range:
        """Return the options that an entry may take now, highest frequency first.

        Those of its window; during a load target as far as the user consents (rule 20 of docs/semantics.md).
        """
        found = np.empty(2, np.int64)
        start_options(self._own, entry, found)
        return range(int(found[0]), int(found[1]) + 1)

    def net_watts(self, job: int, option: int) -> float:
        """Return what the ledger would count for a start of ``job`` at ``option``, by prediction.

        Without the idle watts of its units, and at least 0, unless the cap covers jobs alone (rule 14 of
        docs/semantics.md). Where units differ: on the units that it would get now, or on the best ones of the partition
        while too few are free (rule 12).
        """
        if len(self._own.by_unit.factors.table):
            return net_of_start(self._own, int(self.machine.option_partition[option]), job, option) / codes.MICRO
        unit = int(unit_uw(self._own.predicted, job, option))
        if self.machine.cap_scope != "jobs":
            unit = max(unit - int(self._own.units.idle_uw[self.machine.option_partition[option]]), 0)
        return unit * int(self._own.nodes[job]) / codes.MICRO

    def planned_s(self, job: int, option: int) -> float:
        """Return the seconds for which plans reserve ``job`` at ``option``, stretched by the speed there.

        What rule 3 of docs/semantics.md calls its planned time: a predicted run time, or the walltime.
        """
        factor = time_factors(self._own.predicted, np.array([job]), np.array([option]))
        return float(self._own.planned.seconds[job] * factor[0])

    def net_watts_of(self, jobs: Ints, options: NDArray[Any]) -> Floats:
        """Return ``net_watts`` of several jobs, each at its option. Shapes (k,)."""
        if len(self._own.by_unit.factors.table):
            pairs = zip(jobs.tolist(), options.tolist(), strict=True)
            return np.array([self.net_watts(job, option) for job, option in pairs], np.float64)
        unit = unit_uw(self._own.predicted, jobs, options)
        if self.machine.cap_scope != "jobs":
            unit = np.maximum(unit - self._own.units.idle_uw[self.machine.option_partition[options]], 0)
        return np.asarray(unit * self._own.nodes[jobs] / codes.MICRO, np.float64)

    def counted_net_w(self, jobs: Ints) -> Floats:
        """Return the watts that the ledger counts for running jobs now, predicted or measured. Shape (k,).

        Without the idle watts of their units, as ``net_watts``; NaN for a job that does not run.
        """
        blocks = self._own.running
        used = blocks.order[: int(self._own.now.blocks)]
        filled = np.arange(blocks.job.shape[1]) < blocks.filled[used][:, None]
        counted = np.full(len(self._own.nodes), np.nan)
        counted[blocks.job[used][filled]] = blocks.net[used][filled] / codes.MICRO
        return counted[jobs]

    def time_factors_of(self, jobs: Ints, options: NDArray[Any]) -> Floats:
        """Return the predicted run time of each job at its option, relative to that at reference speed. Shapes (k,)."""
        found = time_factors(self._own.predicted, jobs, options)
        return np.broadcast_to(found, jobs.shape)

    def job_options(self, jobs: Ints) -> NDArray[np.int16]:
        """Return the options at which jobs run, -1 for those that do not. Shape (k,)."""
        found: NDArray[np.int16] = self._own.held.option[jobs]
        return found

    def job_windows(self, jobs: Ints) -> tuple[Ints, Ints]:
        """Return the first and last option that the policy offers to running jobs where they run. Shapes (k,)."""
        table = self._own.entries
        option = self._own.held.option[jobs].astype(np.int32)
        entry = table.of_job[jobs, self.machine.option_partition[option]]
        first, last = (np.where(entry < 0, option, side[entry]).astype(np.int32) for side in (table.first, table.last))
        return first, last

    @property
    def base_w(self) -> float:
        """Return the idle watts that the cap covers and no job does (rule 14 of docs/semantics.md)."""
        return float(self._own.now.base_uw) / codes.MICRO

    def job_option(self, job: int) -> int:
        """Return the option at which a job runs, -1 if it does not run."""
        return int(self._own.held.option[job])

    def job_units(self, job: int) -> Ints:
        """Return the unit numbers that a running job holds, in the order in which it got them. Shape (nodes,)."""
        held = self._own.held
        first, count = int(held.first[job]), int(held.pieces[job])
        pairs = zip(held.low[first : first + count], held.high[first : first + count], strict=True)
        return np.concatenate([np.arange(low, high + 1, dtype=np.int32) for low, high in pairs])

    @property
    def unit_job(self) -> Ints:
        """Return the row of the running job on each unit, -1 for none. Shape (U,)."""
        rows = self.running
        found = np.full(self.machine.units, -1, np.int32)
        found[units_of(self, rows)[0]] = np.repeat(rows, self._own.nodes[rows])
        return found

    @property
    def counted_unit_w(self) -> Floats:
        """Return the watts that are predicted of each unit of running jobs at full speed, else NaN. Shape (U,).

        The job's watts at its option times the factor of that very unit (rule 12 of docs/semantics.md).
        """
        held = self._own.held
        on = self.unit_job
        unit = np.flatnonzero(on >= 0)
        job = on[unit]
        uw, factors = unit_uw(self._own.predicted, job, held.option[job]), self._own.by_unit.factors
        counted = np.full(self.machine.units, np.nan)
        counted[unit] = np.rint(uw * factors.table[factors.row[job], unit]) if len(factors.table) else uw
        counted /= codes.MICRO
        return counted

    @property
    def active(self) -> Ints:
        """Return the rows of running jobs that are not suspended. Shape (k,), rising."""
        rows = np.sort(self.running)
        found: Ints = rows[self._own.held.parked[rows] == 0]
        return found

    @property
    def suspended(self) -> Ints:
        """Return the rows of running jobs that are suspended. Shape (s,). Their expected end is infinite."""
        rows = self.running
        found: Ints = rows[self._own.held.parked[rows] != 0]
        return found


def units_of(view: StateView, rows: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the units of running jobs, job by job, and where those of each job begin. Shapes (u,), (k,)."""
    from wattqueue.model.ranges import ranges

    kernel = own_kernel(view)
    pieces = kernel.held.pieces[rows].astype(np.int64)
    interval = ranges(kernel.held.first[rows].astype(np.int64), pieces)
    low = kernel.held.low[interval].astype(np.int64)
    count = kernel.nodes[rows]
    return ranges(low, kernel.held.high[interval] - low + 1), np.cumsum(count) - count


def own_kernel(view: StateView) -> state.KernelView:
    """Return the driver's own arrays: for code of a driver that calls kernels, which write to them."""
    return view._own  # noqa: SLF001 - private to parts
