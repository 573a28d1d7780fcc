"""Inner kernels have no Python wrapper; these have, so that a test can call one by itself, compiled or not."""

from __future__ import annotations

import numpy as np

from wattqueue.kernels._numba import at_least, at_most, by_reference, entry, least_of, trailing_zeros
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
from wattqueue.kernels.profile_power import NextSteps, put_step
from wattqueue.kernels.running import running_insert, running_remove
from wattqueue.kernels.site_meter import SiteMeter, keep_margin
from wattqueue.kernels.state import Array, Heap, KernelView, Tree, Units
from wattqueue.kernels.tree import Limits, tree_clear, tree_next, tree_set


@entry
def set_leaf(tree: Tree, p: int, leaf: int, need: int, wall: float, watt: int) -> None:
    tree_set(by_reference(tree), p, leaf, need, wall, watt)


@entry
def clear_leaf(tree: Tree, p: int, leaf: int) -> None:
    tree_clear(by_reference(tree), p, leaf)


@entry
def next_leaf(tree: Tree, p: int, leaf: int, limits: Limits) -> int:
    return tree_next(by_reference(tree), p, leaf, limits)


@entry
def push(heap: Heap, time: float, item: int) -> None:
    heap_push(by_reference(heap), time, item)


@entry
def remove(heap: Heap, item: int) -> None:
    heap_remove(by_reference(heap), item)


@entry
def insert_running(view: KernelView, job: int, net: int) -> None:
    running_insert(by_reference(view), job, net)


@entry
def remove_running(view: KernelView, job: int) -> None:
    running_remove(by_reference(view), job)


@entry
def keep_margin_of(view: KernelView) -> None:
    """The margin of what the ledger counts."""
    view = by_reference(view)
    view.now.margin_uw = margin_uw(view, view.now.ledger_uw, view.now.squares_w2)


@entry
def may_start(view: KernelView, net: int) -> bool:
    return fits_watts(by_reference(view), net)


@entry
def most_to_search(view: KernelView) -> int:
    return most_net(by_reference(view))


@entry
def reserved(view: KernelView, p: int, index: int) -> None:
    reserve(by_reference(view), p, index)


@entry
def take(view: KernelView, p: int, job: int) -> None:
    take_units(by_reference(view), p, job)


@entry
def give(view: KernelView, p: int, job: int) -> None:
    give_units(by_reference(view), p, job)


@entry
def withhold(units: Units, unit: int) -> None:
    withhold_unit(by_reference(units), unit)


@entry
def restore(units: Units, unit: int) -> None:
    restore_unit(by_reference(units), unit)


@entry
def free_now(units: Units, unit: int) -> bool:
    return unit_is_free(by_reference(units), unit)


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


@entry
def keep_margin_now(view: KernelView, meter: SiteMeter) -> None:
    """Put the share and margin of a site meter in force."""
    keep_margin(by_reference(view), by_reference(meter))


@entry
def put_one_step(due: NextSteps, time: float, r: int) -> None:
    put_step(by_reference(due), time, r)
