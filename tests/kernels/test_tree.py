"""The queue's tree against a list: the same candidates, and minima that are exact after every step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import clear_leaf, next_leaf, set_leaf
from tests.reference.queue_tree import QueueList
from wattqueue.kernels import codes, state
from wattqueue.kernels.tree import CLASSES, FAN, Limits, new_tree

STEPS = 150


def tree_over(sizes: list[int], need: np.ndarray, watt: np.ndarray) -> state.Tree:
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return new_tree(start, need, watt)


def class_holding(steps: np.ndarray, value: int) -> int:
    return int(np.searchsorted(steps, value, side="left"))


def limits_of(tree: state.Tree, most: tuple[int, float, int], spare: tuple[int, int]) -> Limits:
    need, wall, watt = most
    classes = class_holding(tree.need_step, need), class_holding(tree.watt_step, watt)
    return Limits(need, watt, wall, *spare, *classes)


def expect_exact_minima(tree: state.Tree, lists: list[QueueList]) -> None:
    """Every inner node knows the least of what is below it: more would lose entries, less would prune little."""
    for p, twin in enumerate(lists):
        for level in range(1, int(tree.height[p])):
            width = FAN**level
            for i in range(int(tree.size[p, level])):
                k = int(tree.offset[p, level]) + i
                need, wall, watt = twin.tree_pull(i * width, (i + 1) * width)
                assert (tree.need[k], tree.wall[k], tree.watt[k]) == (
                    min(need, codes.NEVER), wall, min(watt, codes.ANY_WATT)
                )  # fmt: skip
                expect_class_minima(tree, twin, k - len(tree.need_class), (i * width, (i + 1) * width))


def expect_class_minima(tree: state.Tree, twin: QueueList, inner: int, leaves: tuple[int, int]) -> None:
    for table, steps, by in ((tree.by_need, tree.need_step, 0), (tree.by_watt, tree.watt_step, 2)):
        for c in range(CLASSES):
            most = steps[c] if c < CLASSES - 1 else np.inf
            exact = twin.lower_classes(*leaves, float(most), by)
            assert table[inner // FAN, c, inner % FAN] <= exact
            assert table[inner // FAN, c, inner % FAN] == pytest.approx(exact, rel=3e-6)


@given(st.integers(0, 2**32 - 1))
def test_the_tree_finds_what_the_list_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(s) for s in rng.choice([1, 2, 15, 16, 17, 100, 256, 257, 300], int(rng.integers(1, 4)))]
    need, watt = rng.integers(1, 40, 500), rng.integers(-5, 60, 500) * 1_000_000
    tree = tree_over(sizes, need, watt)
    lists = [QueueList() for _ in sizes]
    for _ in range(STEPS):
        p = int(rng.integers(len(sizes)))
        leaf = int(rng.integers(sizes[p]))
        if rng.random() < 0.4:
            most = (int(rng.integers(0, 42)), float(rng.choice([rng.exponential(50), np.inf])), int(rng.choice(watt)))
            spare = (int(rng.integers(-3, 20)), int(rng.choice(watt)) // 2)
            found = next_leaf(tree, p, leaf, limits_of(tree, most, spare))
            assert found == lists[p].tree_next(leaf, most, spare)
        elif leaf in lists[p].leaves:
            clear_leaf(tree, p, leaf)
            lists[p].tree_clear(leaf)
        else:
            entry = (int(rng.choice(need)), float(rng.exponential(50)) + 1.0, int(rng.choice(watt)))
            set_leaf(tree, p, leaf, *entry)
            lists[p].tree_set(leaf, *entry)
    expect_exact_minima(tree, lists)


@pytest.mark.parametrize("leaves", [1, 16, 17, 256, 257, 4097])
def test_a_single_entry_is_found_from_everywhere_before_it(leaves: int) -> None:
    tree = tree_over([leaves], np.array([3]), np.array([7]))
    everything = limits_of(tree, (codes.ANY_NEED, np.inf, codes.ANY_WATT), (0, 0))
    assert next_leaf(tree, 0, 0, everything) == -1
    set_leaf(tree, 0, leaves - 1, 3, 10.0, 7)
    for leaf in {0, leaves // 2, leaves - 1}:
        assert next_leaf(tree, 0, leaf, everything) == leaves - 1
    assert next_leaf(tree, 0, 0, limits_of(tree, (2, np.inf, 7), (0, 0))) == -1
    assert next_leaf(tree, 0, 0, limits_of(tree, (3, 9.9, 7), (2, 7))) == -1
    assert next_leaf(tree, 0, 0, limits_of(tree, (3, 9.9, 7), (3, 7))) == leaves - 1
    clear_leaf(tree, 0, leaves - 1)
    assert next_leaf(tree, 0, 0, everything) == -1
