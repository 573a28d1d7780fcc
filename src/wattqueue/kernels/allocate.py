"""Allocate the arrays that kernels work on, with the padding that they rely on.

Kernels neither allocate nor check bounds. Two of the instructions that they use read several elements at once,
beyond the element that is wanted:

* ``at_most`` and ``least_of`` read 16 elements of the columns of a ``Tree``, from a multiple of 16 on;
* ``at_least`` reads 64 elements of the columns of a ``ReservationPlan``.

So every column of a tree ends with a whole group of 16, and a plan has room for at least 64 rows. Both are
guaranteed here, beside the kernels, by the functions that make these tuples. ``check_padding`` verifies the
guarantee once for each view that is built or enlarged (not in every call of a kernel): a reader beyond the
end of an array would not fail, but return whatever stands there.

This module is plain Python. ``policy/build.py`` fills the tuples from a policy's arrays, ``sim/truth.py`` from a
workload. Symbols as in ``kernels/state.py``: n jobs, m entries, P partitions, O options, U units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import EngineError
from wattqueue.kernels import codes, state
from wattqueue.kernels._numba import AT_LEAST_LANES, AT_MOST_LANES
from wattqueue.kernels.running import BLOCK
from wattqueue.kernels.tree import CLASSES, FAN

Part = TypeVar("Part", state.Held, state.Log, state.ReservationPlan)

PLAN_ROWS = 4096
"""Rows of a new plan; the engine enlarges it while it runs (``wider_plan``)."""
_CLASS_SHARES = [0.02, 0.08, 0.2, 0.4, 0.6, 0.8, 0.93]
"""Quantiles that separate the classes of a tree. Most are low: small and short jobs are those that fit in gaps."""
_SAMPLE = 10_000
_HINT = "make it with kernels/allocate.py"


def kernel_array(column: NDArray[Any], dtype: type[Any]) -> NDArray[Any]:
    """Return ``column`` contiguous and writable, copied only if needed: numba compiles again for a read-only array."""
    return np.require(column, dtype, ["C", "W"])


def new_tree(entry_start: NDArray[np.int64], need: NDArray[Any], watt: NDArray[Any]) -> state.Tree:
    """Make a tree over every entry, with nothing queued.

    ``entry_start`` (P + 1,) are the first entries of the partitions; ``need`` and ``watt`` samples of units and net
    watts, whose quantiles separate the classes. Any sample gives correct results: classes only prune.
    """
    sizes = [level_sizes(int(count)) for count in np.diff(entry_start)]
    height = np.array([len(levels) for levels in sizes], np.int64)
    size = np.zeros((len(sizes), max(1, int(height.max(initial=0)))), np.int64)
    offset = np.zeros_like(size)
    leaves = total = int(entry_start[-1])
    for p, levels in enumerate(sizes):
        offset[p, 0] = entry_start[p]
        for level, length in enumerate(levels):
            size[p, level] = length
            if level:
                offset[p, level] = total
                total += -(-length // FAN) * FAN
    classes = ((total - leaves) // FAN, CLASSES, FAN)
    # Leaves of a partition begin anywhere, not at a multiple of 16: without inner nodes behind them, the last ones
    # need a whole group of padding.
    room = total + AT_MOST_LANES
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


def level_sizes(leaves: int) -> list[int]:
    """Return the number of nodes of each level of a tree, leaves first; nothing without leaves.

    20 leaves give [20, 2, 1]: 16 children a node, up to a single root.
    """
    levels = [leaves]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // FAN))
    return levels if leaves else []


def class_steps(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the upper ends of all classes but the last. Shape (CLASSES - 1,).

    From a sample of at most 10,000 values: a quantile need not be exact, and long traces have millions of jobs.
    """
    if len(values) == 0:
        return np.zeros(CLASSES - 1, np.int64)
    sample = values[:: max(1, len(values) // _SAMPLE)]
    steps: NDArray[np.int64] = np.quantile(sample, _CLASS_SHARES, method="lower").astype(np.int64)
    return steps


def new_running(capacity: int, partitions: int) -> state.RunningBlocks:
    """Make blocks for ``capacity`` running jobs.

    Sparse neighbours are joined (``running_tidy``), so that two neighbours hold more than 32 jobs together; four
    times the blocks that full ones would take always suffice.
    """
    blocks = 4 * (capacity // BLOCK + 1) + 2
    return state.RunningBlocks(
        np.empty((blocks, BLOCK)),
        np.empty((blocks, BLOCK), np.int32),
        np.empty((blocks, BLOCK), np.int64),
        np.zeros(blocks, np.int32),
        np.zeros(blocks),
        np.zeros(blocks, np.int64),
        np.zeros((blocks, partitions), np.int64),
        np.arange(blocks, dtype=np.int32),
    )


def new_units(
    counts: NDArray[np.int64], idle_uw: NDArray[np.int64], option_partition: NDArray[np.int32]
) -> state.Units:
    """Make the bitmap of a machine on which every unit is free.

    ``counts`` (P,) units of each partition; ``idle_uw`` (P,) idle microwatts of one; ``option_partition`` (O,). Bits
    beyond the last unit of a partition stay 0, so that no search finds them.
    """
    words = -(-counts // 64)
    word_start = np.concatenate(([0], np.cumsum(words))).astype(np.int64)
    word = np.full(word_start[-1], np.iinfo(np.uint64).max, np.uint64)
    for p, count in enumerate(counts):
        if count % 64:
            word[word_start[p + 1] - 1] = np.uint64((1 << int(count % 64)) - 1)
    filled = np.zeros(len(word) // 64 + 1, np.uint64)
    filled[: len(word) // 64] = np.iinfo(np.uint64).max
    filled[-1] = np.uint64((1 << (len(word) % 64)) - 1)
    unit_start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    of_option = kernel_array(option_partition, np.int32)
    return state.Units(word, filled, word_start, word_start[:-1].copy(), unit_start, counts.copy(), idle_uw, of_option)


def new_held(n: int, intervals: int) -> state.Held:
    """Make the table of what jobs hold: nothing.

    ``intervals`` is the number of rows of the interval log. The engine lengthens it when it may run full; a job on
    neighbouring units takes one row.
    """
    return state.Held(
        np.full(n, -1, np.int16),
        np.zeros(n),
        np.ones(n),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
        np.empty(intervals, np.int32),
        np.empty(intervals, np.int32),
    )


def new_reservations(partitions: int) -> state.Reservations:
    """Make the reservations of a greedy pass: none."""
    return state.Reservations(
        np.full(partitions, -1, np.int32),
        np.zeros(partitions),
        np.zeros(partitions, np.int64),
        np.zeros(partitions, np.int64),
        np.full(partitions, -1, np.int64),
    )


def new_plan(n: int, partitions: int, rows: int = PLAN_ROWS) -> state.ReservationPlan:
    """Make an empty plan for ``n`` jobs; ``rows`` of profile, and at least as many as are read at once."""
    rows = max(rows, AT_LEAST_LANES)
    return state.ReservationPlan(
        np.empty(rows),
        np.empty((partitions, rows), np.int64),
        np.empty(rows, np.int64),
        np.full(n, -1, np.int32),
        np.zeros(n),
        np.zeros(n, np.int32),
    )


def no_plan(partitions: int) -> state.ReservationPlan:
    """Make the plan of a view whose pass is not conservative: nothing reads it."""
    return state.ReservationPlan(
        np.empty(0), np.empty((partitions, 0), np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0),
        np.empty(0, np.int32),
    )  # fmt: skip


def wider_plan(plan: state.ReservationPlan) -> state.ReservationPlan:
    """Return the plan with twice the rows; ``time`` and ``watt`` are lengthened in place, ``nodes`` is copied."""
    nodes = np.concatenate((plan.nodes, np.empty_like(plan.nodes)), axis=1)
    return lengthened(plan, len(plan.time), "time", "watt")._replace(nodes=nodes)


def lengthened(part: Part, rows: int, *columns: str) -> Part:
    """Return a tuple of which the named columns have ``rows`` more, in place: do not use the former tuple any more.

    The operating system moves the pages of a large column; a copy would touch as much memory again. The tuple is a new
    one because its arrays have moved (``_numba/addresses.py``).
    """
    for name in columns:
        column = getattr(part, name)
        column.resize(len(column) + rows, refcheck=False)
    return part._replace()


def new_heap(capacity: int, ids: int) -> state.Heap:
    """Make an empty heap for ``capacity`` of ``ids`` different ids."""
    return state.Heap(np.empty(capacity), np.empty(capacity, np.int32), np.full(ids, -1, np.int32))


def new_log(n: int) -> state.Log:
    """Make the log of a run in which nothing has happened; room for a power step a job, most traces need somewhat more.

    numpy asks for huge pages for a part of a new array, and the system moves no half of a mapping: the first time
    that a column is lengthened copies it. So that is to happen early, while other buffers still are short.
    """
    rows = n + 1024
    return state.Log(
        np.zeros(n, np.int8), np.zeros(n, np.int8), np.full(n, np.nan), np.full(n, np.nan), np.zeros(n),
        np.full(n, -1, np.int16), np.empty(rows), np.empty(rows, np.int64), np.empty(rows, np.int64),
        np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(n, np.int32),
    )  # fmt: skip


def check_padding(view: state.KernelView) -> state.KernelView:
    """Return ``view`` if its arrays are as kernels read them.

    Raises: EngineError for a column of the tree or the plan that ends before the last element that is read, and
    for an array that is not contiguous (kernels compute addresses from shapes alone). Either is a defect of the
    caller that made the tuple, never of a user's input.
    """
    for name, column in _arrays(view, "view"):
        if not column.flags.c_contiguous:
            raise EngineError("an array of a kernel is not contiguous", where=name, hint=_HINT)
    tree, plan = view.tree, view.plan
    group = (tree.offset + -(-tree.size // FAN) * FAN)[tree.size > 0]
    columns = {"tree.need": tree.need, "tree.wall": tree.wall, "tree.watt": tree.watt}
    needed = dict.fromkeys(columns, int(group.max(initial=0)))
    inner = (tree.offset + -(-tree.size // FAN) * FAN)[:, 1:][tree.size[:, 1:] > 0] - len(tree.need_class)
    for name, table in (("tree.by_need", tree.by_need), ("tree.by_watt", tree.by_watt)):
        columns[name], needed[name] = table, -(-int(inner.max(initial=0)) // FAN)
    if view.counter[codes.CODE] == codes.CONSERVATIVE:
        columns |= {"plan.time": plan.time, "plan.watt": plan.watt, "plan.nodes": plan.nodes.T}
        needed |= dict.fromkeys(("plan.time", "plan.watt", "plan.nodes"), max(len(plan.time), AT_LEAST_LANES))
    for name, column in columns.items():
        if len(column) < needed[name]:
            raise EngineError(
                f"{len(column)} rows, and kernels read {needed[name]}",
                where=name,
                hint="make it with kernels/allocate.py",
            )
    return view


def _arrays(part: Any, name: str) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array of a tuple and of the tuples within it, with its dotted name."""
    for field, value in zip(part._fields, part, strict=True):
        if isinstance(value, np.ndarray):
            yield f"{name}.{field}", value
        else:
            yield from _arrays(value, f"{name}.{field}")
