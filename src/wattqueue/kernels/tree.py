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
from wattqueue.kernels._jit import at_most, inlined, kernel, wide
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
    for c in range(first, CLASSES):
        if low < table[inner, c]:
            table[inner, c] = low
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
    for c in range(tree.need_class[leaf], CLASSES):
        if tree.by_need[inner, c] >= np.float32(wall * HAIR):
            return True
    least = False
    for c in range(tree.watt_class[leaf], CLASSES):
        least |= bool(tree.by_watt[inner, c] >= np.float32(wall * HAIR))
    return least


@inlined
def tree_pull(tree: Tree, p: int, level: int, i: int) -> bool:
    """Recompute node i of ``level`` from its children; whether anything changed."""
    first = tree.offset[p, level - 1] + i * FAN
    end = min(first + FAN, tree.offset[p, level - 1] + tree.size[p, level - 1])
    need = codes.NEVER
    wall = INF
    watt = codes.ANY_WATT
    needs, walls, watts = tree.need, tree.wall, tree.watt
    for child in range(end - first):
        k = np.uint64(first + child)  # unsigned, so that the compiler takes several at once
        need = min(need, needs[k])
        wall = min(wall, walls[k])
        watt = min(watt, watts[k])
    k = tree.offset[p, level] + i
    changed = tree.need[k] != need or tree.wall[k] != wall or tree.watt[k] != watt
    tree.need[k] = need
    tree.wall[k] = wall
    tree.watt[k] = watt
    leaves = len(tree.need_class)
    if level > 1:
        gather_nodes(tree.least, tree.by_need, tree.by_watt, first - leaves, end - first)
    else:
        gather_leaves(tree, first, end)
    changed |= write_classes(tree.by_need, k - leaves, tree.least, wide(0))
    return write_classes(tree.by_watt, k - leaves, tree.least, wide(1)) or changed


@inlined
def gather_nodes(least: Array, by_need: Array, by_watt: Array, below: int, children: int) -> None:
    """Into ``least``, the least walltime of each class among inner nodes. Row by row, eight classes at once."""
    for c in range(CLASSES):
        least[0, c] = by_need[below, c]
        least[1, c] = by_watt[below, c]
    for k in range(below + 1, below + children):
        for c in range(CLASSES):
            least[0, c] = min(least[0, c], by_need[k, c])
            least[1, c] = min(least[1, c], by_watt[k, c])


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
    for c in range(CLASSES):
        changed |= table[inner, c] != least[row, c]
        table[inner, c] = least[row, c]
    return changed


@inlined
def tree_passes(tree: Tree, k: int, limits: Limits) -> bool:
    """Whether something below inner node k may be a candidate."""
    if tree.need[k] > limits.need or tree.watt[k] > limits.watt:
        return False
    if tree.need[k] <= limits.spare_need and tree.watt[k] <= limits.spare_watt:
        return True
    inner = k - len(tree.need_class)
    if tree.by_need[inner, limits.need_class] > limits.wall:
        return False
    return bool(tree.by_watt[inner, limits.watt_class] <= limits.wall)


@inlined
def leaves_passing(tree: Tree, k: int, limits: Limits) -> np.uint64:
    """A bit for each of the 16 leaves from k on: whether it is a candidate."""
    short = at_most(tree.wall, k, limits.wall)
    spare = at_most(tree.need, k, limits.spare_need) & at_most(tree.watt, k, limits.spare_watt)
    fits = at_most(tree.need, k, limits.need) & at_most(tree.watt, k, limits.watt)
    return np.uint64(fits & (short | spare))


@kernel
def tree_next(tree: Tree, p: int, leaf: int, limits: Limits) -> int:
    """The first candidate of partition p at ``leaf`` or behind it, or -1."""
    top = tree.height[p] - 1
    if top < 0 or (top > 0 and not tree_passes(tree, wide(tree.offset[p, top]), limits)):
        return -1
    level = 0
    i = max(leaf, int(tree.head[p]))
    while True:
        if i >= tree.size[p, level]:
            if level == top:
                return -1
            i = (i + FAN - 1) >> SHIFT
            level += 1
            continue
        if level > 0 and tree_passes(tree, tree.offset[p, level] + i, limits):
            level -= 1
            i *= FAN
            continue
        if level == 0:
            first = i & -FAN
            count = min(FAN, tree.size[p, 0] - first)
            found = leaves_passing(tree, tree.offset[p, 0] + first, limits) & mask(i - first, first + count - i)
            if found != ZERO:
                return int(first + lowest_bit(found))
            i = first + FAN
        else:
            i += 1
        while level < top and i & (FAN - 1) == 0:
            i >>= SHIFT
            level += 1
