"""The walk for the shortest candidate against a scan of the queue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import set_leaf, shortest_of
from tests.kernels.views import view_with
from wattqueue.kernels import codes, state
from wattqueue.kernels.shortest import Place
from wattqueue.kernels.tree import Limits

INF = float("inf")
SIZES = [1, 2, 15, 16, 17, 32, 33, 255, 256, 257, 272, 273]
"""Entries of a partition: with and without a node that is the only one of its parent, on each level."""
FIRST = Place(-INF, -1)


def queue_of(leaves: int, partitions: int = 1) -> state.KernelView:
    """Partitions of 50 units in which ``leaves`` jobs may run; none of them is queued yet."""
    ones = np.ones(leaves)
    return view_with(ones, ones, ones, [50] * partitions, codes.SHORTEST)


def limits(need: int, wall: float = INF, watt: int = codes.ANY_WATT, spare: tuple[int, int] = (0, 0)) -> Limits:
    return Limits(need, watt, wall, *spare, 0, 0)


@given(st.integers(0, 2**32 - 1))
def test_the_walk_finds_what_a_scan_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.choice(SIZES))
    view, p = queue_of(size, 2), int(rng.integers(2))
    begin = int(view.entries.start[p])
    view.entries.rank[begin : begin + size] = np.sort(rng.choice(1_000, size, replace=False))
    queued = {int(leaf) for leaf in np.flatnonzero(rng.random(size) < rng.choice([0.1, 1.0]))}
    need, watt = rng.integers(1, 9, size), rng.integers(1, 9, size)
    wall = rng.integers(1, 9, size).astype(float)
    for leaf in queued:
        set_leaf(view.tree, p, leaf, int(need[leaf]), float(wall[leaf]), int(watt[leaf]))
    view.reserved.entry[p] = begin + int(rng.integers(size)) if rng.random() < 0.5 else -1
    wanted = limits(
        int(rng.integers(0, 9)), float(rng.choice([4.0, INF])), int(rng.integers(3, 9)), (int(rng.integers(9)), 4)
    )
    order = sorted(
        (float(wall[leaf]), int(view.entries.rank[begin + leaf]), leaf)
        for leaf in queued
        if need[leaf] <= wanted.need and watt[leaf] <= wanted.watt
        and (wall[leaf] <= wanted.wall or (need[leaf] <= wanted.spare_need and watt[leaf] <= wanted.spare_watt))
        and begin + leaf != view.reserved.entry[p]
    )  # fmt: skip
    last = FIRST
    for seconds, rank, leaf in order[:40]:
        assert shortest_of(view, p, wanted, last) == leaf
        last = Place(seconds, rank)
    if len(order) <= 40:
        assert shortest_of(view, p, wanted, last) == -1


@pytest.mark.parametrize("size", SIZES)
def test_a_single_entry_is_found_once_and_not_where_it_is_reserved(size: int) -> None:
    view = queue_of(size)
    set_leaf(view.tree, 0, size - 1, 3, 10.0, 7)
    assert shortest_of(view, 0, limits(3), FIRST) == size - 1
    assert shortest_of(view, 0, limits(2), FIRST) == -1
    assert shortest_of(view, 0, limits(3), Place(10.0, int(view.entries.rank[size - 1]))) == -1
    view.reserved.entry[0] = size - 1
    assert shortest_of(view, 0, limits(3), FIRST) == -1


def test_an_empty_queue_has_no_candidate() -> None:
    assert shortest_of(queue_of(17), 0, limits(50), FIRST) == -1
