"""Turn the arrays of a policy's parts into the tuples that kernels work on.

Parts speak of watts as floats, of entries in any order, of NaN for unknown. Kernels want int64 microwatts, entries
partition by partition in queue order, and every array allocated and padded. ``build_view`` checks the parts' contracts
(``check_shapes``), converts, and returns the view of an idle machine with an empty queue. The simulator keeps such a
view up to date through a run; ``policy/decide.py`` loads a snapshot into it.

This is the only place where predictions become microwatts of the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes, state
from wattqueue.kernels.arrays import kernel_array
from wattqueue.kernels.fresh import (
    new_held,
    new_plan,
    new_reservations,
    new_running,
    new_units,
    no_evidence,
    no_limits,
    no_measured,
    no_plan,
    no_supply,
    ranked_units,
)
from wattqueue.kernels.padding import check_padding
from wattqueue.kernels.tree import new_tree
from wattqueue.model import bounds
from wattqueue.model.jobs import NODES_ASKED
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.model.machine import Machine
from wattqueue.model.supply import NO_MARGIN, Terms
from wattqueue.parts.contracts import Entries, Floats, Prediction
from wattqueue.policy.by_unit import check_unit_factor, new_by_unit
from wattqueue.policy.consent_windows import Window, reach_of

INTERVALS_A_JOB = 8
"""Room for intervals of units in a new view. Rows that are never written take no memory; to lengthen a log does."""


@dataclass(frozen=True, slots=True)
class PassSettings:
    """What a pass needs to know of its policy (rules 10 and 14 of docs/semantics.md)."""

    code: int
    """Compiled pass (``kernels/codes.py``), CUSTOM for one in Python."""
    queue_depth: int
    """Entries tried a pass; 0 for all."""
    cap_scope: str
    """What a cap covers: machine, dynamic or jobs."""
    chance: tuple[float, float, float] | None = None
    """``terms`` of a ledger whose margin follows from what runs (``Chance.terms``)."""
    by_target: bool = False
    """Whether a job starts at the last option to which it consents while a load target is in force (rule 20)."""
    correction: int = codes.PLAN_IS_LIMIT
    """What becomes of planned times that are wrong (``kernels/codes.py``); PLAN_IS_LIMIT where none is predicted."""
    looks_ahead: int = 0
    """How the pass counts what runs when announced limits begin (``kernels/codes.py``); 0: not."""
    all_limits: bool = False
    """Whether it looks at all announced limits; else at the begin of the next load target."""
    learns: bool = False
    """Whether the estimator is asked at each submission, so that predictions to come are not known."""
    balanced: bool = False
    """Whether starts level watts over racks (rule 22)."""
    racks: int = 0
    """Racks that a start takes units of at most, where so many hold it; 0 for no bound."""
    domain_terms: Terms = NO_MARGIN
    """Of the greatest margin that power domains can come to keep (``model.supply_binding.can_bind``)."""


def rows_of(prediction: Prediction) -> state.Rows:
    """Return watts as int64 microwatts, NaN as 0.

    Options that are never offered (inf) must have been left out before; a cap with unknown watts has been refused. A
    time factor that is the same for every row becomes a table of one row: the column of a long trace is read at every
    start.
    """
    power = prediction.power_w
    known = np.isfinite(power)
    micro = np.rint(np.where(known, power, 0.0) * codes.MICRO).astype(np.int64)
    row = kernel_array(np.zeros(0) if prediction.row is None else prediction.row, np.int32)
    time = kernel_array(prediction.time_factor, np.float64)
    if len(time) > 1 and (time == time[0]).all():
        time = time[:1].copy()
    return state.Rows(row, kernel_array(micro, np.int64), time)


def unit_uw(table: state.Rows, job: Any, option: Any) -> Any:
    """Return the microwatts of one unit of each job at its option, as ``Prediction.watts`` does. Shapes (k,), or ()."""
    return table.power_uw[_rows_in(table.power_uw, table, job), option]


def time_factors(table: state.Rows, job: NDArray[np.integer], option: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the run time of each job at its option relative to that at reference speed. Shapes (k,)."""
    found: NDArray[np.float64] = table.time_factor[_rows_in(table.time_factor, table, job), option]
    return found


def rows_for(table: state.Rows, job: NDArray[np.integer]) -> Prediction:
    """Return the rows of some jobs as a prediction of their own, in their order; a row for all stays one."""
    power, time = (each if len(each) == 1 else each[_rows_in(each, table, job)] for each in table[1:])
    return Prediction(power / codes.MICRO, time)


def _rows_in(column: NDArray[Any], table: state.Rows, job: Any) -> Any:
    """Return the row of each job in one of the two columns; a column of one row holds for every job."""
    if len(column) == 1:
        return 0
    return table.row[job] if len(table.row) else job


def idle_uw(machine: Machine) -> NDArray[np.int64]:
    """Return the idle microwatts of one unit of each partition. Shape (P,)."""
    return np.array([codes.microwatts(p.idle_w) for p in machine.partitions], np.int64)


def unit_idle_uw(machine: Machine) -> NDArray[np.int64]:
    """Return the idle microwatts of each unit. Shape (U,)."""
    return np.repeat(idle_uw(machine), [p.units for p in machine.partitions])


def most_uw(machine: Machine) -> NDArray[np.int64]:
    """Return the stated maximum of one unit of each partition in microwatts, -1 where none is stated. Shape (P,)."""
    return np.array([-1 if p.max_w is None else codes.microwatts(p.max_w) for p in machine.partitions], np.int64)


def domains_of(
    jobs: KnownJobs, machine: Machine, prediction: Prediction, settings: PassSettings, unit_net: NDArray[np.int64],
    *, ranked: bool,
) -> state.SupplyLimits:  # fmt: skip
    """Return the power domains that can hold jobs back, and nodes of GPUs. ``ranked``: units are taken by rank."""
    if not machine.supply and NODES_ASKED not in jobs.extra:
        return no_supply()
    from wattqueue.model.gpu_nodes import gpus_by_node
    from wattqueue.policy.supply import require_by_node, supply_limits

    of_node = gpus_by_node(machine, jobs.extra)
    found = supply_limits(
        machine, prediction, learns=settings.learns, terms=settings.domain_terms, sample=unit_net, of_node=of_node
    )
    lacking = (
        (ranked, "a placement that ranks units, or watts that depend on the unit"),
        (settings.balanced or settings.racks > 0, "a placement that chooses racks"),
        (settings.all_limits and len(found.room) > 0, "a pass that looks ahead to limits of power domains"),
    )
    require_by_node("placement", machine, of_node, next((what for lacks, what in lacking if lacks), ""))
    if len(found.marks):
        from wattqueue.kernels.supply_load import BALANCED, MARGIN, RACKS

        found.marks[[BALANCED, RACKS, MARGIN]] = settings.balanced, settings.racks, settings.chance is not None
        found.terms[:] = settings.chance or NO_MARGIN
    return found


def queue_entries(jobs: KnownJobs, entries: Entries, window: Window, machine: Machine) -> state.EntryTable:
    """Return the entries sorted into queue order (rule 5 of docs/semantics.md), partition by partition.

    ``rank`` is an entry's place in the one order over all partitions; passes merge partitions by it. Under FCFS in one
    partition all tables are the same column 0, 1, 2, ..., and one array serves for three of them: at 24 million jobs
    that saves 200 MB.
    """
    n, m, partitions = len(jobs), len(entries.job), len(machine.partitions)
    rank = np.arange(m, dtype=np.int32)
    order = queue_order(jobs.submit_s[entries.job], entries)
    if order is not None:
        rank = np.empty(m, np.int32)
        rank[order] = np.arange(m, dtype=np.int32)
    by_partition = np.lexsort((rank, entries.partition)) if partitions > 1 else order
    pick: Any = slice(None) if by_partition is None else by_partition
    part = entries.partition[pick]
    start = np.searchsorted(part, np.arange(partitions + 1)).astype(np.int64)
    first = kernel_array(window.first[pick], np.int16)
    last = first if window.last is window.first else kernel_array(window.last[pick], np.int16)
    plain = last if window.plain is None else kernel_array(window.plain[pick], np.int16)
    if m == n and partitions == 1 and order is None and np.array_equal(entries.job, rank):
        # Entry k is job k, and stands at place k: one array says so three times, as kernels only read it.
        return state.EntryTable(rank, first, last, plain, rank, rank.reshape(n, 1), start)
    job = kernel_array(entries.job[pick], np.int32)
    of_job = np.full((n, partitions), -1, np.int32)
    of_job[job, part] = np.arange(m, dtype=np.int32)
    if int((of_job >= 0).sum()) != m:
        # Only one of two could ever be queued, and started.
        raise PolicyError("an order has two entries for one job in one partition", where="entries")
    return state.EntryTable(job, first, last, plain, kernel_array(rank[pick], np.int32), of_job, start)


def queue_order(submit_s: NDArray[Any], entries: Entries) -> NDArray[np.int64] | None:
    """Return the indices that sort entries by (priority, submit, trace position, partition); None if they are sorted.

    The check is much cheaper than the sort, and most workloads under FCFS pass it.
    """
    keys = (entries.partition, entries.job, submit_s, -entries.priority)
    ahead = np.zeros(max(len(submit_s) - 1, 0), np.bool_)
    tied = ~ahead
    for key in reversed(keys):
        ahead |= tied & (key[:-1] > key[1:])
        tied &= key[:-1] == key[1:]
    return np.lexsort(keys) if ahead.any() else None


def first_net_uw(
    jobs: KnownJobs, predicted: state.Rows, entries: state.EntryTable, machine: Machine
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the net microwatts of a sample of entries at their first option, and those of one unit.

    Their quantiles separate the classes of the queue's tree, and of power domains.
    """
    job = entries.job[:: max(1, len(entries.job) // 10_000)]
    option = entries.first[:: max(1, len(entries.job) // 10_000)]
    share = 0 if machine.cap_scope == "jobs" else idle_uw(machine)[machine.option_partition[option]]
    unit_net = np.maximum(unit_uw(predicted, job, option) - share, 0)
    return jobs.nodes[job] * unit_net, unit_net


def build_view(
    jobs: KnownJobs, machine: Machine, prediction: Prediction, entries: Entries, window: Window, settings: PassSettings,
    *, rank: Floats | None = None, planned_s: Floats | None = None, checked: bool = False,
    stores_work: bool = False,
) -> state.KernelView:  # fmt: skip
    """Return a view of an idle machine and an empty queue, ready for ``jobs``.

    ``rank`` (applications, units) is what the placement ranks units by; None takes the lowest numbers. ``planned_s``
    (n,) are planned seconds at reference speed, at most the walltimes; None plans with the walltimes. ``checked``:
    the caller has called ``check_shapes`` on these arrays, or on more of them. ``stores_work``: a requeue may change
    walltimes, so that the job table's own column is not used.

    Raises: PolicyError where the parts' arrays do not fit together.
    """
    if not checked:
        check_shapes(jobs, machine, prediction, entries, window)
    n, partitions = len(jobs), len(machine.partitions)
    predicted = rows_of(prediction)
    queue = queue_entries(jobs, entries, window, machine)
    capacity = min(n, machine.units)
    counts = np.array([p.units for p in machine.partitions], np.int64)
    units = new_units(counts, idle_uw(machine), most_uw(machine), machine.option_partition)
    by_unit = new_by_unit(jobs.app, machine, prediction, rank, len(queue.job), len(units.word))
    if len(by_unit.order):
        units = ranked_units(units, by_unit.order)
    walltime = kernel_array(jobs.walltime_s, np.float64)
    if stores_work:
        walltime = walltime.copy()
    net, unit_net = first_net_uw(jobs, predicted, queue, machine)
    view = state.KernelView(
        kernel_array(jobs.nodes, np.int32),
        walltime,
        planned_times(walltime, planned_s, settings),
        predicted,
        by_unit,
        queue,
        reach_of(jobs, machine, prediction, queue),
        no_limits(),
        new_tree(queue.start, jobs.nodes, net),
        new_running(capacity, partitions),
        units,
        domains_of(jobs, machine, prediction, settings, unit_net, ranked=len(by_unit.order) > 0),
        new_held(n, INTERVALS_A_JOB * n + machine.units + 64),
        no_measured(),
        no_evidence(),
        new_reservations(partitions),
        new_plan(n, partitions) if settings.code == codes.CONSERVATIVE else no_plan(partitions),
        np.empty(capacity + 1, np.int32),
        np.empty(capacity + 1, np.int16),
        state.PassState(),
    )
    fill_counters(view, machine, settings, jobs)
    return check_padding(view)


def planned_times(
    walltime: NDArray[np.float64], planned_s: Floats | None, settings: PassSettings
) -> state.PlannedTimes:
    """Return the planned times of a new view; the column of walltimes itself where nothing is predicted.

    ``planned_s`` is less than the walltime of a job that kept work when it was requeued, too.
    """
    if settings.correction == codes.PLAN_IS_LIMIT:
        seconds = walltime if planned_s is None else np.array(planned_s, np.float64)
        return state.PlannedTimes(seconds, np.zeros(0, np.int16), np.zeros(0), np.zeros(0))
    n = len(walltime)
    seconds = walltime.copy() if planned_s is None else np.array(planned_s, np.float64)
    return state.PlannedTimes(seconds, np.zeros(n, np.int16), np.full(n, np.inf), np.zeros(0))


def with_delays(view: state.KernelView, not_before_s: Floats) -> state.KernelView:
    """Return a view in which jobs may be delayed, each until a time. Shape (n,)."""
    return view._replace(planned=view.planned._replace(not_before=kernel_array(not_before_s, np.float64)))


def fill_counters(view: state.KernelView, machine: Machine, settings: PassSettings, jobs: KnownJobs) -> None:
    """Set the view's constants, and its budget without a cap.

    ``dirty`` and ``first_new`` begin as after a change, so that the first pass is a whole one.
    """
    now = view.now
    now.time_s = now.last_pass_s = -np.inf
    now.ahead_s = np.inf
    now.backfill = settings.code
    now.depth = min(settings.queue_depth or codes.ANY_NEED, codes.ANY_NEED)
    now.dirty = 1
    now.first_new = -1
    now.cap_uw = now.available_uw = codes.NO_CAP
    now.scope_jobs = machine.cap_scope == "jobs"
    now.scope_machine = machine.cap_scope == "machine"
    if machine.cap_scope == "machine":
        now.base_uw = sum(p.units * codes.microwatts(p.idle_w) for p in machine.partitions)
    if settings.chance is not None:
        now.by_chance = 1
        now.chance_share, now.chance_own, now.chance_common = settings.chance
    now.by_target = settings.by_target
    now.correction = settings.correction
    now.looks_ahead = settings.looks_ahead
    now.fcfs_ranks = appends_only(view.entries, jobs)


def appends_only(entries: state.EntryTable, jobs: KnownJobs) -> bool:
    """Return whether an arrival always ranks behind all that arrived before it.

    Then a pass that follows nothing but arrivals may begin at the first new entry (``greedy.begin_pass``).
    """
    if len(entries.job) == 0:
        return True
    by_rank = np.empty(len(entries.job), np.float64)
    by_rank[entries.rank] = jobs.submit_s[entries.job]
    return bool((by_rank[:-1] <= by_rank[1:]).all())


def check_shapes(jobs: KnownJobs, machine: Machine, prediction: Prediction, entries: Entries, window: Window) -> None:
    """Raise PolicyError where a part broke its contract.

    Shapes of the estimator's tables, lengths of entries and windows, windows that leave their partition, priorities
    that are NaN: kernels would read beyond an array, or never end, rather than fail.
    """
    check_prediction(jobs, machine, prediction)
    check_entries(jobs, machine, entries, window)


def check_prediction(jobs: KnownJobs, machine: Machine, prediction: Prediction) -> None:
    """Raise PolicyError for an estimator's tables of the wrong shape, or with figures that no kernel can use."""
    check_tables(jobs, machine, prediction)
    power, time = prediction.power_w, prediction.time_factor
    good = bounds.UNIT_W.holds(power) | np.isnan(power) | np.isposinf(power)
    if not good.all():
        raise PolicyError(
            f"the estimator predicts {power[~good][0]!s} W for a unit",
            hint=f"use {bounds.UNIT_W.text}, nan (unknown) or inf (never offered): {bounds.UNIT_W.reason}",
        )
    if not ((time > 0) & np.isfinite(time)).all():
        raise PolicyError(
            "the estimator's time_factor is not above 0 and finite everywhere", hint="use 1.0 for no change"
        )
    check_unit_factor(jobs.app, machine, prediction)


def check_tables(jobs: KnownJobs, machine: Machine, prediction: Prediction) -> None:
    """Raise PolicyError for an estimator's tables of the wrong shape."""
    options = len(machine.option_partition)
    rows = len(jobs) if prediction.row is None else int(prediction.row.max(initial=-1)) + 1
    if prediction.row is not None and (len(prediction.row) != len(jobs) or prediction.row.min(initial=0) < 0):
        raise PolicyError(
            f"the estimator's row has {len(prediction.row)} rows, or some below 0, for {len(jobs)} jobs",
            hint="row holds a row of the two tables for each job",
        )
    for name, table in (("power_w", prediction.power_w), ("time_factor", prediction.time_factor)):
        if table.ndim != 2 or table.shape[1] != options or (len(table) < rows and len(table) != 1):
            raise PolicyError(
                f"the estimator's {name} has shape {table.shape}, expected ({rows}, {options})",
                hint="one row a job (or a row index), one column a (partition, frequency)",
            )


def check_entries(jobs: KnownJobs, machine: Machine, entries: Entries, window: Window) -> None:
    """Raise PolicyError for entries of jobs or partitions that do not exist, and windows outside their partition."""
    first, last = window.first, window.last
    if not len(entries.job) == len(entries.partition) == len(entries.priority) == len(first) == len(last):
        raise PolicyError("entries and frequency window differ in length")
    for name, column, end in (
        ("job", entries.job, len(jobs)),
        ("partition", entries.partition, len(machine.partitions)),
    ):
        if len(column) and (column.min() < 0 or column.max() >= end):
            raise PolicyError(f"an entry names a {name} outside 0..{end - 1}", where=f"entries.{name}")
    if len(machine.option_partition) > np.iinfo(np.int16).max:
        raise PolicyError(
            f"{len(machine.option_partition):,} options", where=machine.name, hint="options are numbered by 16 bits"
        )
    inside = (first <= last) & (machine.option_start[entries.partition] <= first)
    inside &= last < machine.option_start[entries.partition + 1]
    if not inside.all():
        raise PolicyError("a frequency window leaves its entry's partition", where=f"entry {int(np.argmin(inside))}")
    if np.isnan(entries.priority).any():
        raise PolicyError("a priority is NaN")
