"""The queue's tree: which queued entry is the next that could start?

Leaves are all entries of a partition in queue order, queued or not; a node has 16 children. Each node holds minima
over the queued leaves below it: units, walltime, watts. A search for the next candidate (``tree_next``) skips a
subtree if a minimum shows that nothing in it fits. Minima are necessary conditions only: they prune, and the test of
an entry at the leaf (``greedy.try_entry``) is exact.

Alone, these minima prune little, since one job of a subtree is small and another one is short. So each inner node also
holds the least walltime among its entries of at most so many units, and among those of at most so many watts, for 8
*classes* of either. A reservation leaves room for jobs that are small *and* short, and both tables together find a
subtree without any. Class boundaries are quantiles of the workload (``class_steps``); the choice changes the
speed of a search, never its result.

Layout of ``need``, ``wall`` and ``watt`` for two partitions of 20 and 5 entries::

    0            20      25              41    ...
    | leaves p0  | p1    | level 1 of p0 | level 2 of p0 | level 1 of p1 | padding
                           2 of 16 used    1 of 16 used    1 of 16 used

``offset[p, level]`` is where a level begins, ``size[p, level]`` its length. Levels of inner nodes are padded to whole
groups of 16 with infinite nodes, so that the 16 children of a node are neighbours and one vector instruction compares
all of them (``_words.at_most``); the answer is a word with a bit for each child. Leaves of different partitions follow
one another without padding: a group that reaches into the next partition is masked. The class tables are grouped the
same way: ``by_need[group, class]`` holds 16 neighbouring nodes.

Updates walk from the leaf to the root: ``tree_set`` lowers minima and stops where nothing changed; ``tree_clear``
recomputes a node from its children only if the removed entry was the least of something. Tests compare every node
with a plain list after each step (tests/kernels/test_tree.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattqueue.kernels import codes
from wattqueue.kernels._numba import AT_MOST_LANES, as_int64, at_most, inlined, kernel, least_of
from wattqueue.kernels.bits import ZERO, lowest_bit, mask
from wattqueue.kernels.state import Array, Tree

FAN = 16
SHIFT = 4  # its logarithm: shifts, since floor division of signed numbers costs a branch
CLASSES = 8
CLASS_SHARES = [0.02, 0.08, 0.2, 0.4, 0.6, 0.8, 0.93]
"""Quantiles that separate the classes. Most are low: small and short jobs are those that fit in gaps."""
SAMPLE = 10_000
"""Values from which the quantiles are taken."""
INF = float("inf")
ROUNDING_MARGIN = 1.0 - 1e-6  # walltimes of classes are kept in single precision, rounded down


class Limits(NamedTuple):
    """What a candidate may need: the query of a search.

    It fits into ``need`` units and ``watt`` microwatts, and either ends within ``wall`` seconds or fits into
    ``spare_need`` and ``spare_watt`` (the leftovers of a reservation). ``need_class`` and ``watt_class`` are the
    smallest classes that hold ``need`` and ``watt``.
    """

    need: int
    watt: int
    wall: float
    spare_need: int
    spare_watt: int
    need_class: int
    watt_class: int


def new_tree(entry_start: NDArray[np.int64], need: NDArray[Any], watt: NDArray[Any]) -> Tree:
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
    return Tree(
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
    sample = values[:: max(1, len(values) // SAMPLE)]
    place = (np.array(CLASS_SHARES) * (len(sample) - 1)).astype(np.int64)
    steps: NDArray[np.int64] = np.partition(sample, place)[place].astype(np.int64)
    return steps


@inlined
def class_of(steps: Array, value: int) -> int:
    """Return the first class whose upper end is at or above ``value``.

    The last class has no upper end. Eight classes: a linear walk is faster than a binary search.
    """
    k = 0
    while k < CLASSES - 1 and value > steps[k]:
        k += 1
    return k


@kernel
def tree_set(tree: Tree, p: int, leaf: int, need: int, wall: float, watt: int) -> None:
    """Queue the entry at ``leaf`` of partition p. O(log m), less where a parent already holds lower minima."""
    tree.head[p] = min(tree.head[p], leaf)
    k = tree.offset[p, 0] + leaf
    tree.need[k] = need
    tree.wall[k] = wall
    tree.watt[k] = watt
    need_class = class_of(tree.need_step, need)
    watt_class = class_of(tree.watt_step, watt)
    tree.need_class[k] = need_class
    tree.watt_class[k] = watt_class
    i = leaf
    for level in range(1, tree.height[p]):
        i >>= SHIFT
        k = tree.offset[p, level] + i
        changed = need < tree.need[k] or wall < tree.wall[k] or watt < tree.watt[k]
        tree.need[k] = min(need, tree.need[k])
        tree.wall[k] = min(wall, tree.wall[k])
        tree.watt[k] = min(watt, tree.watt[k])
        inner = k - len(tree.need_class)
        changed |= lower_classes(tree.by_need, inner, need_class, wall)
        changed |= lower_classes(tree.by_watt, inner, watt_class, wall)
        if not changed:
            return


@inlined
def lower_classes(table: Array, inner: int, first: int, wall: float) -> bool:
    """Lower the walltimes of classes ``first`` and up of an inner node to ``wall``; return whether any was above it.

    Classes are cumulative: an entry of class 2 is also one of at most class 3.
    """
    low = wall * ROUNDING_MARGIN
    changed = False
    group, place = inner >> SHIFT, inner & (FAN - 1)
    for c in range(first, CLASSES):
        if low < table[group, c, place]:
            table[group, c, place] = low
            changed = True
    return changed


@kernel
def tree_clear(tree: Tree, p: int, leaf: int) -> None:
    """Take the entry at ``leaf`` out of the queue. O(16 log m), less where it was the least of nothing."""
    k = as_int64(tree.offset[p, 0] + leaf)
    need = tree.need[k]
    wall = tree.wall[k]
    watt = tree.watt[k]
    # An empty leaf passes no search: its need is above every limit.
    tree.need[k] = codes.NEVER
    tree.wall[k] = INF
    tree.watt[k] = codes.ANY_WATT
    i = leaf
    for level in range(1, tree.height[p]):
        i >>= SHIFT
        up = tree.offset[p, level] + i
        # The entry was the least of nothing here, so it is of nothing further up either; unless it was of a class.
        if tree.need[up] < need and tree.wall[up] < wall and tree.watt[up] < watt:
            if not was_least(tree, k, up - len(tree.need_class), wall):
                return
        if not tree_pull(tree, p, level, i):
            return


@inlined
def was_least(tree: Tree, leaf: int, inner: int, wall: float) -> bool:
    """Return whether ``wall``, of an entry that left, was the least of any class of an inner node."""
    group, place = inner >> SHIFT, inner & (FAN - 1)
    for c in range(tree.need_class[leaf], CLASSES):
        if tree.by_need[group, c, place] >= np.float32(wall * ROUNDING_MARGIN):
            return True
    least = False
    for c in range(tree.watt_class[leaf], CLASSES):
        least |= bool(tree.by_watt[group, c, place] >= np.float32(wall * ROUNDING_MARGIN))
    return least


@inlined
def tree_pull(tree: Tree, p: int, level: int, i: int) -> bool:
    """Recompute node i of ``level`` from its children; return whether anything changed.

    Level 1 has leaves for children: fewer than 16 where the partition ends, and without class tables of their own.
    """
    first = tree.offset[p, level - 1] + i * FAN
    leaves = len(tree.need_class)
    if level > 1:
        need, wall, watt = least_of(tree.need, first), least_of(tree.wall, first), least_of(tree.watt, first)
        gather_nodes(tree, (first - leaves) >> SHIFT)
    else:
        end = min(first + FAN, tree.offset[p, 0] + tree.size[p, 0])
        need, wall, watt = least_leaves(tree, first, end)
        gather_leaves(tree, first, end)
    k = tree.offset[p, level] + i
    changed = tree.need[k] != need or tree.wall[k] != wall or tree.watt[k] != watt
    tree.need[k] = need
    tree.wall[k] = wall
    tree.watt[k] = watt
    changed |= write_classes(tree.by_need, k - leaves, tree.least, as_int64(0))
    return write_classes(tree.by_watt, k - leaves, tree.least, as_int64(1)) or changed


@inlined
def least_leaves(tree: Tree, first: int, end: int) -> tuple[int, float, int]:
    """Return least units, walltime and watts of leaves ``first`` .. ``end - 1``: fewer than 16 where a partition ends.

    A partition's last group of leaves is followed by leaves of the next one, so it cannot be read as a whole.
    """
    if end - first == FAN:
        return least_of(tree.need, first), least_of(tree.wall, first), least_of(tree.watt, first)
    need, wall, watt = tree.need[first], tree.wall[first], tree.watt[first]
    for k in range(first + 1, end):
        need = min(need, tree.need[k])
        wall = min(wall, tree.wall[k])
        watt = min(watt, tree.watt[k])
    return need, wall, watt


@inlined
def gather_nodes(tree: Tree, group: int) -> None:
    """Write the least walltime of each class among 16 inner nodes to ``least``; padding is infinite."""
    for c in range(CLASSES):
        at = (group * CLASSES + c) * FAN
        tree.least[0, c] = least_of(tree.by_need, at)
        tree.least[1, c] = least_of(tree.by_watt, at)


@inlined
def gather_leaves(tree: Tree, first: int, end: int) -> None:
    """Write the least walltime of each class among leaves to ``least``. Leaves that are not queued are infinite."""
    least = tree.least
    for c in range(CLASSES):
        least[0, c] = INF
        least[1, c] = INF
    for k in range(first, end):
        low = np.float32(tree.wall[k] * ROUNDING_MARGIN)
        least[0, tree.need_class[k]] = min(least[0, tree.need_class[k]], low)
        least[1, tree.watt_class[k]] = min(least[1, tree.watt_class[k]], low)
    for c in range(1, CLASSES):
        least[0, c] = min(least[0, c], least[0, c - 1])
        least[1, c] = min(least[1, c], least[1, c - 1])


@inlined
def write_classes(table: Array, inner: int, least: Array, row: int) -> bool:
    """Write row ``row`` of ``least`` (0: by units, 1: by watts) to an inner node; return whether anything changed."""
    changed = False
    group, place = inner >> SHIFT, inner & (FAN - 1)
    for c in range(CLASSES):
        changed |= table[group, c, place] != least[row, c]
        table[group, c, place] = least[row, c]
    return changed


@inlined
def leaves_passing(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """Return a bit for each of the 16 leaves from k on: whether it is a candidate."""
    return np.uint64(
        fits_free(tree, k, limits) & (at_most(tree.wall, k, limits.wall) | fits_leftovers(tree, k, limits))
    )


@inlined
def nodes_passing(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """Return a bit for each of the 16 inner nodes from k on: whether something below it may be a candidate.

    Something below may end in time if the least walltime among entries of few enough units, and that among entries of
    few enough watts, both do.
    """
    group = (k - len(tree.need_class)) >> SHIFT
    short = at_most(tree.by_need, (group * CLASSES + limits.need_class) * FAN, np.float32(limits.wall))
    short &= at_most(tree.by_watt, (group * CLASSES + limits.watt_class) * FAN, np.float32(limits.wall))
    return np.uint64(fits_free(tree, k, limits) & (short | fits_leftovers(tree, k, limits)))


@inlined
def fits_free(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """Return a bit for each of 16 nodes: whether it needs no more than is free."""
    return np.uint64(at_most(tree.need, k, limits.need) & at_most(tree.watt, k, limits.watt))


@inlined
def fits_leftovers(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """Return a bit for each of 16 nodes: whether it needs no more than a reservation leaves over."""
    return np.uint64(at_most(tree.need, k, limits.spare_need) & at_most(tree.watt, k, limits.spare_watt))


@kernel
def tree_next(tree: Tree, p: int, leaf: int, limits: Limits) -> int:
    """Return the first candidate of partition p at ``leaf`` or behind it, -1 for none.

    Goes up the tree while nothing to the right of the position passes, and down into the first child that does. At
    each level the 16 siblings are looked at together; bits before the position and behind the end of the level are
    masked. ``head`` shortens a search from the front: no leaf before it is queued.
    """
    top = tree.height[p] - 1
    if top < 0 or (top > 0 and nodes_passing(tree, as_int64(tree.offset[p, top]), limits) == ZERO):
        return -1
    level = 0
    i = max(leaf, int(tree.head[p]))
    while i < tree.size[p, level]:
        first = i & -FAN
        k = as_int64(tree.offset[p, level] + first)
        ahead = mask(i - first, min(FAN, tree.size[p, level] - first) - (i - first))
        found = ahead & (leaves_passing(tree, k, limits) if level == 0 else nodes_passing(tree, k, limits))
        if found != ZERO:
            i = first + lowest_bit(found)
            if level == 0:
                return int(i)
            # Down into a node that passes. None of its children may: its minima can be those of different leaves.
            level -= 1
            i *= FAN
        elif level == top:
            return -1
        else:
            # Up: the next sibling of the parent. A parent that is the first of its own group was not looked at yet.
            i = (first >> SHIFT) + 1
            level += 1
            while level < top and i & (FAN - 1) == 0:
                i >>= SHIFT
                level += 1
    return -1
