"""Inner kernels that a test calls by themselves, compiled or not."""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._numba import at_least, at_most, entry, least_of, trailing_zeros
from wattqueue.kernels.bits import lowest_bit, mask, run_length
from wattqueue.kernels.chance import fits_watts, margin_uw, most_net
from wattqueue.kernels.greedy import reserve
from wattqueue.kernels.heap import heap_push, heap_remove
from wattqueue.kernels.placement import (
    give_units,
    restore_unit,
    take_units,
    unit_is_free,
    withhold_unit,
)
from wattqueue.kernels.profile_power import put_step
from wattqueue.kernels.running import running_insert, running_remove
from wattqueue.kernels.shortest import find_shortest
from wattqueue.kernels.site_meter import keep_margin
from wattqueue.kernels.state import Array, KernelView
from wattqueue.kernels.supply_chunks import nodes_hold
from wattqueue.kernels.supply_classes import update_partition
from wattqueue.kernels.supply_load import take_listed, units_that_fit
from wattqueue.kernels.tree import tree_clear, tree_next, tree_set

set_leaf = entry(tree_set)
clear_leaf = entry(tree_clear)
next_leaf = entry(tree_next)
shortest_of = entry(find_shortest)
push = entry(heap_push)
remove = entry(heap_remove)
insert_running = entry(running_insert)
remove_running = entry(running_remove)


@entry
def keep_margin_of(view: KernelView) -> None:
    """The margin of what the ledger counts."""
    view.now.margin_uw = margin_uw(view, view.now.ledger_uw, view.now.squares_w2)


may_start = entry(fits_watts)
most_to_search = entry(most_net)
reserved = entry(reserve)
take = entry(take_units)
give = entry(give_units)
withhold = entry(withhold_unit)
restore = entry(restore_unit)
free_now = entry(unit_is_free)
most_under_supply = entry(units_that_fit)
take_listed_units = entry(take_listed)
nodes_hold_load = entry(nodes_hold)
count_again = entry(update_partition)


@entry
def bit_tricks(words: Array, bits: Array, lengths: Array, out: Array) -> None:
    """Rows of ``out``: lowest set bit of a word, length of its run from a bit on, a mask."""
    for k in range(len(words)):
        out[k, 0] = lowest_bit(words[k])
        out[k, 1] = run_length(words[k], bits[k])
        out[k, 2] = mask(bits[k], lengths[k])


@entry
def zeros_below(column: Array, out: Array) -> None:
    """Zero bits below the lowest set bit of each word."""
    for k in range(len(column)):
        out[k] = trailing_zeros(column[k])


@entry
def compare(column: Array, at: int, number: float) -> int:
    found: int = at_least(column, at, number)
    return found


@entry
def compare_most(column: Array, at: int, number: float) -> int:
    found: int = at_most(column, at, number)
    return found


@entry
def least(column: Array, at: int) -> float:
    found: float = least_of(column, at)
    return found


def words(values: list[int]) -> Array:
    return np.array(values, np.uint64)


keep_margin_now = entry(keep_margin)
put_one_step = entry(put_step)
