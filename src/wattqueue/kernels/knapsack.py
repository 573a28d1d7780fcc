"""The best set of jobs that fits side by side in each interval of a grid: 0/1 knapsacks by dynamic programming.

Symbols: h prices (a job in an interval), K intervals, W the greatest number of nodes. Reference: Kellerer, Pferschy,
Pisinger, "Knapsack Problems" (2004), section 2.3.
"""

from __future__ import annotations

from typing import NamedTuple

from wattqueue.kernels._numba import as_int64, entry, kernel, referenced
from wattqueue.kernels.state import Array


@referenced
class Knapsacks(NamedTuple):
    """``first`` (K + 1,) first item of each interval in ``item`` (h,), which has the place of each item's price in
    ``worth`` (h,); ``nodes`` (h,) of each price's job; ``room`` (K,) nodes of each interval; ``chosen`` (h,) int8, by
    price; ``table`` (items of an interval + 1, W + 1) is work space.
    """

    first: Array
    item: Array
    worth: Array
    nodes: Array
    room: Array
    chosen: Array
    table: Array


@kernel
def fill_table(sacks: Knapsacks, interval: int, wide: int) -> None:
    """Find the greatest worth of the first items for each number of nodes; ``wide`` nodes would hold all of them.

    Row k is of the first k items. Numbers of nodes that even all later items leave unused are left out.
    """
    room = as_int64(sacks.room[interval])
    begin = as_int64(sacks.first[interval])
    for width in range(room + 1):
        sacks.table[0, width] = 0.0
    for k in range(sacks.first[interval + 1] - begin):
        place = sacks.item[begin + k]
        nodes = as_int64(sacks.nodes[place])
        worth = sacks.worth[place]
        wide -= nodes
        least = max(room - wide, 0)
        for width in range(least, min(nodes, room + 1)):
            sacks.table[k + 1, width] = sacks.table[k, width]
        for width in range(max(least, nodes), room + 1):
            without = sacks.table[k, width]
            taken = sacks.table[k, width - nodes] + worth
            sacks.table[k + 1, width] = taken if taken > without else without


@kernel
def choose_set(sacks: Knapsacks, interval: int) -> float:
    """Mark the items of the best set of an interval, and return what they are worth."""
    begin = as_int64(sacks.first[interval])
    end = as_int64(sacks.first[interval + 1])
    total = 0.0
    wide = as_int64(0)
    for k in range(begin, end):
        total += sacks.worth[sacks.item[k]]
        wide += sacks.nodes[sacks.item[k]]
        sacks.chosen[sacks.item[k]] = 1
    if wide <= sacks.room[interval]:
        return total
    fill_table(sacks, interval, wide)
    width = as_int64(sacks.room[interval])
    for k in range(end - begin - 1, -1, -1):
        place = sacks.item[begin + k]
        taken = sacks.table[k + 1, width] > sacks.table[k, width]
        sacks.chosen[place] = 1 if taken else 0
        if taken:
            width -= as_int64(sacks.nodes[place])
    return float(sacks.table[end - begin, as_int64(sacks.room[interval])])


@entry
def best_sets(sacks: Knapsacks, length: Array) -> float:
    """Choose the best set of each interval; return the sum of what they are worth times ``length`` (K,)."""
    total = 0.0
    for interval in range(len(length)):
        total += choose_set(sacks, as_int64(interval)) * length[interval]
    return float(total)
