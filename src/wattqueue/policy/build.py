"""From a policy's arrays to the tuples that kernels work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import PolicyError
from wattqueue.kernels import codes, state
from wattqueue.kernels.running import BLOCK
from wattqueue.kernels.tree import CLASSES, FAN
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine
from wattqueue.parts.contracts import Entries, Prediction

Window = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class PassSettings:
    """What a pass is told: compiled code, entries tried a pass, and what the cap covers."""

    code: int
    queue_depth: int
    cap_scope: str
    chance: tuple[float, float, float] | None = None
    """``terms`` of a chance ledger (parts/ledger/chance.py)."""


def kernel_array(column: NDArray[Any], dtype: type[Any]) -> NDArray[Any]:
    """``column`` contiguous and writable, copied only if it is not: numba compiles anew for a read-only array."""
    return np.require(column, dtype, ["C", "W"])


def rows_of(prediction: Prediction) -> state.Rows:
    """Watts as int64 microwatts, NaN as 0; never-offered (inf) options must have been left out before."""
    power = prediction.power_w
    known = np.isfinite(power)
    micro = np.rint(np.where(known, power, 0.0) * codes.MICRO).astype(np.int64)
    row = kernel_array(np.zeros(0) if prediction.row is None else prediction.row, np.int32)
    time = kernel_array(prediction.time_factor, np.float64)
    if len(time) > 1 and (time == time[0]).all():
        time = time[:1].copy()
    return state.Rows(row, kernel_array(micro, np.int64), time)


def queue_entries(jobs: Jobs, entries: Entries, window: Window, machine: Machine) -> state.Entries:
    """Entries sorted into queue order (SEMANTICS rule 5), partition by partition."""
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
    first = kernel_array(window[0][pick], np.int16)
    last = first if window[1] is window[0] else kernel_array(window[1][pick], np.int16)
    if m == n and partitions == 1 and order is None and np.array_equal(entries.job, rank):
        # Entry k is job k, and stands at place k: one array says so three times, as kernels only read it.
        return state.Entries(rank, first, last, rank, rank.reshape(n, 1), start)
    job = kernel_array(entries.job[pick], np.int32)
    of_job = np.full((n, partitions), -1, np.int32)
    of_job[job, part] = np.arange(m, dtype=np.int32)
    return state.Entries(job, first, last, kernel_array(rank[pick], np.int32), of_job, start)


def queue_order(submit_s: NDArray[Any], entries: Entries) -> NDArray[np.int64] | None:
    """Indices that sort entries by (priority, submit, trace position, partition); None if they are sorted."""
    keys = (entries.partition, entries.job, submit_s, -entries.priority)
    ahead = np.zeros(max(len(submit_s) - 1, 0), np.bool_)
    tied = ~ahead
    for key in reversed(keys):
        ahead |= tied & (key[:-1] > key[1:])
        tied &= key[:-1] == key[1:]
    return np.lexsort(keys) if ahead.any() else None


def empty_tree(entries: state.Entries, need: NDArray[Any], watt: NDArray[Any]) -> state.Tree:
    """A tree over every entry, with nothing queued. Classes of ``need`` and ``watt`` are their quantiles."""
    sizes = [level_sizes(int(count)) for count in np.diff(entries.start)]
    height = np.array([len(levels) for levels in sizes], np.int64)
    size = np.zeros((len(sizes), max(1, int(height.max(initial=0)))), np.int64)
    offset = np.zeros_like(size)
    leaves = total = len(entries.job)
    for p, levels in enumerate(sizes):
        offset[p, 0] = entries.start[p]
        for level, length in enumerate(levels):
            size[p, level] = length
            if level:
                offset[p, level] = total
                total += -(-length // FAN) * FAN
    classes = ((total - leaves) // FAN, CLASSES, FAN)
    room = total + FAN  # leaves are looked at by the 16, the last ones too
    return state.Tree(
        np.full(room, codes.NEVER, np.int32),
        np.full(room, np.inf),
        np.full(room, codes.ANY_WATT, np.int64),
        np.zeros(leaves, np.int8),
        np.zeros(leaves, np.int8),
        np.full(classes, np.inf, np.float32),
        np.full(classes, np.inf, np.float32),
        class_steps(need),
        class_steps(watt),
        np.empty((2, CLASSES), np.float32),
        offset,
        size,
        height,
        np.zeros(len(sizes), np.int64),
    )


def first_net_uw(jobs: Jobs, predicted: state.Rows, entries: state.Entries, machine: Machine) -> NDArray[np.int64]:
    """Net microwatts of a sample of entries at their first option."""
    job = entries.job[:: max(1, len(entries.job) // 10_000)]
    option = entries.first[:: max(1, len(entries.job) // 10_000)]
    row = 0 if len(predicted.power_uw) == 1 else predicted.row[job] if len(predicted.row) else job
    idle = np.array([round(p.idle_w * codes.MICRO) for p in machine.partitions], np.int64)
    share = 0 if machine.cap_scope == "jobs" else idle[machine.option_partition[option]]
    net: NDArray[np.int64] = jobs.nodes[job] * (predicted.power_uw[row, option] - share)
    return net


def level_sizes(leaves: int) -> list[int]:
    """Nodes of each level of a tree, leaves first; none without leaves."""
    levels = [leaves]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // FAN))
    return levels if leaves else []


def class_steps(values: NDArray[Any]) -> NDArray[np.int64]:
    """Upper ends of all classes but the last: low quantiles, since it is the small that fit in gaps."""
    if len(values) == 0:
        return np.zeros(CLASSES - 1, np.int64)
    sample = values[:: max(1, len(values) // 10_000)]
    shares = [0.02, 0.08, 0.2, 0.4, 0.6, 0.8, 0.93]
    steps: NDArray[np.int64] = np.quantile(sample, shares, method="lower").astype(np.int64)
    return steps


def empty_running(capacity: int, partitions: int) -> state.Running:
    """Blocks for ``capacity`` running jobs. Sparse neighbours are joined, so that few blocks suffice."""
    blocks = 4 * (capacity // BLOCK + 1) + 2
    return state.Running(
        np.empty((blocks, BLOCK)),
        np.empty((blocks, BLOCK), np.int32),
        np.empty((blocks, BLOCK), np.int64),
        np.zeros(blocks, np.int32),
        np.zeros(blocks),
        np.zeros(blocks, np.int64),
        np.zeros((blocks, partitions), np.int64),
        np.arange(blocks, dtype=np.int32),
    )


def all_free(machine: Machine) -> state.Units:
    """Every unit free."""
    counts = np.array([p.units for p in machine.partitions], np.int64)
    words = -(-counts // 64)
    word_start = np.concatenate(([0], np.cumsum(words))).astype(np.int64)
    word = np.full(word_start[-1], np.iinfo(np.uint64).max, np.uint64)
    for p, count in enumerate(counts):
        if count % 64:
            word[word_start[p + 1] - 1] = np.uint64((1 << int(count % 64)) - 1)
    filled = np.zeros(len(word) // 64 + 1, np.uint64)
    for w in range(len(word)):
        filled[w // 64] |= np.uint64(1 << (w % 64))
    idle = np.array([round(p.idle_w * codes.MICRO) for p in machine.partitions], np.int64)
    unit_start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    low, of_option = word_start[:-1].copy(), kernel_array(machine.option_partition, np.int32)
    return state.Units(word, filled, word_start, low, unit_start, counts.copy(), idle, of_option)


def nothing_held(n: int, room: int) -> state.Held:
    """No job holds anything; room for ``room`` intervals."""
    return state.Held(
        np.full(n, -1, np.int16),
        np.zeros(n),
        np.ones(n),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
    )


def no_promise(partitions: int) -> state.Promise:
    """No reservation."""
    return state.Promise(
        np.full(partitions, -1, np.int32),
        np.zeros(partitions),
        np.zeros(partitions, np.int64),
        np.zeros(partitions, np.int64),
        np.full(partitions, -1, np.int64),
    )


def no_plan(n: int, room: int, partitions: int) -> state.Plan:
    """An empty plan; ``room`` rows of profile."""
    return state.Plan(
        np.empty(room),
        np.empty((partitions, room), np.int64),
        np.empty(room, np.int64),
        np.full(n, -1, np.int32),
        np.zeros(n),
        np.zeros(n, np.int32),
    )


def build_view(
    jobs: Jobs, machine: Machine, prediction: Prediction, entries: Entries, window: Window, settings: PassSettings
) -> state.View:
    """An idle machine and an empty queue, ready for ``jobs``.

    Raises: PolicyError where the parts' arrays do not fit together.
    """
    check_shapes(jobs, machine, prediction, entries, window)
    n, partitions = len(jobs), len(machine.partitions)
    predicted = rows_of(prediction)
    queue = queue_entries(jobs, entries, window, machine)
    capacity = min(n, machine.units)
    planned = settings.code == codes.CONSERVATIVE
    num = np.zeros(codes.NUM_SLOTS)
    num[[codes.NOW, codes.LAST_PASS]] = -np.inf
    view = state.View(
        kernel_array(jobs.nodes, np.int32),
        kernel_array(jobs.walltime_s, np.float64),
        predicted,
        queue,
        empty_tree(queue, jobs.nodes, first_net_uw(jobs, predicted, queue, machine)),
        empty_running(capacity, partitions),
        all_free(machine),
        nothing_held(n, n + n // 2 + machine.units + 64),
        no_promise(partitions),
        no_plan(n if planned else 0, 4096 if planned else 0, partitions),
        np.empty(capacity + 1, np.int32),
        np.empty(capacity + 1, np.int16),
        num,
        np.zeros(codes.COUNT_SLOTS, np.int64),
    )
    fill_counters(view, machine, settings, jobs)
    return view


def fill_counters(view: state.View, machine: Machine, settings: PassSettings, jobs: Jobs) -> None:
    """The view's constants and its budget without a cap."""
    count = view.counter
    count[codes.CODE] = settings.code
    count[codes.DEPTH] = min(settings.queue_depth or codes.ANY_NEED, codes.ANY_NEED)
    count[codes.DIRTY] = 1
    count[codes.FIRST_NEW] = -1
    count[codes.CAP] = count[codes.AVAILABLE] = codes.NO_CAP
    count[codes.SCOPE_JOBS] = machine.cap_scope == "jobs"
    count[codes.SCOPE_MACHINE] = machine.cap_scope == "machine"
    if machine.cap_scope == "machine":
        count[codes.BASE] = sum(p.units * round(p.idle_w * codes.MICRO) for p in machine.partitions)
    if settings.chance is not None:
        count[codes.BY_CHANCE] = 1
        view.num[[codes.CHANCE_SHARE, codes.CHANCE_OWN, codes.CHANCE_COMMON]] = settings.chance
    count[codes.FCFS_RANKS] = appends_only(view.entries, jobs)
    if machine.cap_scope != "jobs":
        idle = view.units.idle_uw[view.units.option_partition]
        count[codes.NEGATIVE_NET] = bool((view.predicted.power_uw < idle).any())


def appends_only(entries: state.Entries, jobs: Jobs) -> bool:
    """Whether an arrival always ranks behind all that arrived before it."""
    if len(entries.job) == 0:
        return True
    by_rank = np.empty(len(entries.job), np.float64)
    by_rank[entries.rank] = jobs.submit_s[entries.job]
    return bool((by_rank[:-1] <= by_rank[1:]).all())


def check_shapes(jobs: Jobs, machine: Machine, prediction: Prediction, entries: Entries, window: Window) -> None:
    """Raises PolicyError where a part broke its contract."""
    options = len(machine.option_partition)
    rows = len(jobs) if prediction.row is None else int(prediction.row.max(initial=-1)) + 1
    for name, table in (("power_w", prediction.power_w), ("time_factor", prediction.time_factor)):
        if table.ndim != 2 or table.shape[1] != options or (len(table) < rows and len(table) != 1):
            raise PolicyError(
                f"the estimator's {name} has shape {table.shape}, expected ({rows}, {options})",
                mend="one row a job (or a row index), one column a (partition, frequency)",
            )
    first, last = window
    if not len(entries.job) == len(entries.partition) == len(entries.priority) == len(first) == len(last):
        raise PolicyError("entries and frequency window differ in length")
    inside = (first <= last) & (machine.option_start[entries.partition] <= first)
    inside &= last < machine.option_start[entries.partition + 1]
    if not inside.all():
        raise PolicyError("a frequency window leaves its entry's partition", where=f"entry {int(np.argmin(inside))}")
    if np.isnan(entries.priority).any():
        raise PolicyError("a priority is NaN")
