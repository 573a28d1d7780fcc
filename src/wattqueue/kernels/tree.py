"""The queue's tree: minima over queued entries, 16 children a node.

The minima are necessary conditions only: they prune, and the test at the leaf is exact. Alone, the
least units, the least watts and the least walltime of a subtree prune little, since one job in it is
small and another one short. So each inner node also knows the least walltime among entries of at most
so many units, and among those of at most so many watts, for a few classes of either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wattqueue.kernels import codes
from wattqueue.kernels._jit import at_most, inlined, kernel, least_of, wide
from wattqueue.kernels.bits import ZERO, lowest_bit, mask
from wattqueue.kernels.state import Array, Tree

FAN = 16
SHIFT = 4  # its logarithm: shifts, since floor division of signed numbers costs a branch
CLASSES = 8
INF = float("inf")
HAIR = 1.0 - 1e-6  # walltimes of classes are kept in single precision, rounded down


class Limits(NamedTuple):
    """What a candidate may need.

    It fits in ``need`` and ``watt``, and either ends within ``wall`` seconds or fits in ``spare_need``
    and ``spare_watt`` (the leftovers of a reservation). ``need_class`` and ``watt_class`` are the
    smallest classes that hold ``need`` and ``watt``.
    """

    need: int
    watt: int
    wall: float
    spare_need: int
    spare_watt: int
    need_class: int
    watt_class: int


@inlined
def class_of(steps: Array, value: int) -> int:
    """The first class whose upper end is at or above ``value``; the last one has none."""
    k = 0
    while k < CLASSES - 1 and value > steps[k]:
        k += 1
    return k


@kernel
def tree_set(tree: Tree, p: int, leaf: int, need: int, wall: float, watt: int) -> None:
    """Queue the entry at ``leaf`` of partition p."""
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
        if not (note_class(tree.by_need, inner, need_class, wall) | note_class(tree.by_watt, inner, watt_class, wall)):
            if not changed:
                return


@inlined
def note_class(table: Array, inner: int, first: int, wall: float) -> bool:
    """Let classes from ``first`` on know of an entry of ``wall`` seconds; whether any did not know of less."""
    low = wall * HAIR
    changed = False
    group, place = inner >> SHIFT, inner & (FAN - 1)
    for c in range(first, CLASSES):
        if low < table[group, c, place]:
            table[group, c, place] = low
            changed = True
    return changed


@kernel
def tree_clear(tree: Tree, p: int, leaf: int) -> None:
    """Take the entry at ``leaf`` out of the queue."""
    k = wide(tree.offset[p, 0] + leaf)
    need = tree.need[k]
    wall = tree.wall[k]
    watt = tree.watt[k]
    tree.need[k] = codes.NEVER
    tree.wall[k] = INF
    tree.watt[k] = codes.ANY_WATT
    i = leaf
    for level in range(1, tree.height[p]):
        i >>= SHIFT
        up = tree.offset[p, level] + i
        if tree.need[up] < need and tree.wall[up] < wall and tree.watt[up] < watt:
            if not was_least(tree, k, up - len(tree.need_class), wall):
                return
        if not tree_pull(tree, p, level, i):
            return


@inlined
def was_least(tree: Tree, leaf: int, inner: int, wall: float) -> bool:
    """Whether ``wall``, of an entry that left, was the least of any class of an inner node."""
    group, place = inner >> SHIFT, inner & (FAN - 1)
    for c in range(tree.need_class[leaf], CLASSES):
        if tree.by_need[group, c, place] >= np.float32(wall * HAIR):
            return True
    least = False
    for c in range(tree.watt_class[leaf], CLASSES):
        least |= bool(tree.by_watt[group, c, place] >= np.float32(wall * HAIR))
    return least


@inlined
def tree_pull(tree: Tree, p: int, level: int, i: int) -> bool:
    """Recompute node i of ``level`` from its children; whether anything changed."""
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
    changed |= write_classes(tree.by_need, k - leaves, tree.least, wide(0))
    return write_classes(tree.by_watt, k - leaves, tree.least, wide(1)) or changed


@inlined
def least_leaves(tree: Tree, first: int, end: int) -> tuple[int, float, int]:
    """Least units, walltime and watts of leaves: fewer than 16 where a partition ends."""
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
    """Into ``least``, the least walltime of each class among 16 inner nodes; places without a node are infinite."""
    for c in range(CLASSES):
        at = (group * CLASSES + c) * FAN
        tree.least[0, c] = least_of(tree.by_need, at)
        tree.least[1, c] = least_of(tree.by_watt, at)


@inlined
def gather_leaves(tree: Tree, first: int, end: int) -> None:
    """Into ``least``, the least walltime of each class among leaves. Idle leaves are infinite."""
    least = tree.least
    for c in range(CLASSES):
        least[0, c] = INF
        least[1, c] = INF
    for k in range(first, end):
        low = np.float32(tree.wall[k] * HAIR)
        least[0, tree.need_class[k]] = min(least[0, tree.need_class[k]], low)
        least[1, tree.watt_class[k]] = min(least[1, tree.watt_class[k]], low)
    for c in range(1, CLASSES):
        least[0, c] = min(least[0, c], least[0, c - 1])
        least[1, c] = min(least[1, c], least[1, c - 1])


@inlined
def write_classes(table: Array, inner: int, least: Array, row: int) -> bool:
    """Write what was gathered into an inner node; whether anything changed."""
    changed = False
    group, place = inner >> SHIFT, inner & (FAN - 1)
    for c in range(CLASSES):
        changed |= table[group, c, place] != least[row, c]
        table[group, c, place] = least[row, c]
    return changed


@inlined
def leaves_passing(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """A bit for each of the 16 leaves from k on: whether it is a candidate."""
    return np.uint64(fitting(tree, k, limits) & (at_most(tree.wall, k, limits.wall) | sparing(tree, k, limits)))


@inlined
def nodes_passing(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """A bit for each of the 16 inner nodes from k on: whether something below it may be a candidate."""
    group = (k - len(tree.need_class)) >> SHIFT
    short = at_most(tree.by_need, (group * CLASSES + limits.need_class) * FAN, np.float32(limits.wall))
    short &= at_most(tree.by_watt, (group * CLASSES + limits.watt_class) * FAN, np.float32(limits.wall))
    return np.uint64(fitting(tree, k, limits) & (short | sparing(tree, k, limits)))


@inlined
def fitting(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """Which of 16 nodes need no more than there is."""
    return np.uint64(at_most(tree.need, k, limits.need) & at_most(tree.watt, k, limits.watt))


@inlined
def sparing(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """Which of 16 nodes need no more than a reservation leaves over."""
    return np.uint64(at_most(tree.need, k, limits.spare_need) & at_most(tree.watt, k, limits.spare_watt))


@kernel
def tree_next(tree: Tree, p: int, leaf: int, limits: Limits) -> int:
    """The first candidate of partition p at ``leaf`` or behind it, or -1.

    Up and down the tree, the 16 children of a node looked at together.
    """
    top = tree.height[p] - 1
    if top < 0 or (top > 0 and nodes_passing(tree, wide(tree.offset[p, top]), limits) == ZERO):
        return -1
    level = 0
    i = max(leaf, int(tree.head[p]))
    while i < tree.size[p, level]:
        first = i & -FAN
        k = wide(tree.offset[p, level] + first)
        ahead = mask(i - first, min(FAN, tree.size[p, level] - first) - (i - first))
        found = ahead & (leaves_passing(tree, k, limits) if level == 0 else nodes_passing(tree, k, limits))
        if found != ZERO:
            i = first + lowest_bit(found)
            if level == 0:
                return int(i)
            level -= 1
            i *= FAN
        elif level == top:
            return -1
        else:
            i = (first >> SHIFT) + 1
            level += 1
            while level < top and i & (FAN - 1) == 0:
                i >>= SHIFT
                level += 1
    return -1
