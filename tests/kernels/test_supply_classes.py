"""Bounds by class of watts, and the units of one entry, kept along paths: against a count from the beginning."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.drivers import count_again, most_under_supply, take_listed_units
from tests.profiles import examples
from wattqueue.kernels.state import SupplyLimits, SupplyLoad
from wattqueue.kernels.supply import CLASSES, new_supply
from wattqueue.kernels.supply_load import TOUCHED


def load_now(supply: SupplyLimits, p: int) -> SupplyLoad:
    """As the kernel of this name, which Python may not call: compiled kernels return numbers only."""
    return SupplyLoad(supply.free, supply.room, supply.drawn, supply.now_below[p], supply.now_most[p])


@examples(150)
@given(st.integers(0, 2**32 - 1))
def test_what_is_kept_along_paths_is_a_count_from_the_beginning(seed: int) -> None:
    """Racks below rows, some units in no domain, two partitions; jobs come and go."""
    rng = np.random.default_rng(seed)
    racks, rows, size = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(1, 9))
    units = racks * size
    parent = np.array([*(racks + rng.integers(0, rows, racks)), *([-1] * rows)], np.int32)
    gain = np.concatenate((rng.choice([1.0, 1.03], racks), np.full(rows, 1.07)))
    limits = rng.integers(0, 300_000_000 * size * 2, (1, racks + rows))
    of_unit = np.repeat(np.arange(racks), size).astype(np.int32)
    of_unit[rng.random(units) < 0.1] = -1
    half = int(rng.integers(0, units + 1))
    start = np.array([0, half, units], np.int32) if 0 < half < units else np.array([0, units], np.int32)
    sample = rng.integers(0, 400_000_000, 50)
    supply = new_supply(
        parent,
        gain,
        np.zeros(racks + rows, np.int64),
        limits,
        np.full(1, -np.inf),
        of_unit,
        start,
        sample,
        of_node=np.zeros(len(start) - 1, np.int32),
    )
    partitions, each = len(start) - 1, int(rng.integers(0, 400_000_000))
    below, most = np.zeros(racks + rows, np.int64), np.zeros(racks + rows, np.int64)

    def counted(p: int, unit_net: int) -> int:
        return int(most_under_supply(supply, p, unit_net, SupplyLoad(*load_now(supply, p)[:3], below, most)))

    for p in range(partitions):
        supply.now_each[p] = each
        supply.now_total[p] = most_under_supply(supply, p, each, load_now(supply, p))
    supply.classes.counted[:] = 0
    for step in range(6):
        if step:
            leaves = np.sort(rng.choice(len(supply.free), int(rng.integers(1, len(supply.free) + 1)), replace=False))
            supply.leaf[: len(leaves)], supply.take[: len(leaves)] = leaves, rng.integers(0, 3, len(leaves))
            take_listed_units(
                supply,
                len(leaves),
                int(rng.integers(0, 400_000_000)),
                1.0,
                int(rng.choice([-1, 1])),
                load_now(supply, 0),
            )
            supply.free[:] = np.maximum(supply.free, 0)
            supply.classes.touched[: len(leaves)], supply.marks[TOUCHED] = leaves, len(leaves)
        for p in range(partitions):
            if step == 0:  # all leaves are new to the classes, none to the entry
                supply.now_total[p], supply.now_below[p], supply.now_most[p] = 0, 0, 0
            count_again(supply, p)
            assert supply.now_total[p] == counted(p, each)
            exact = [counted(p, int(least)) for least in supply.classes.least]
            over = supply.classes.capacity[p] - exact
            assert over.min() >= 0
            assert over.max() <= racks + rows  # a quotient that is a whole number may be rounded up
        assert len(exact) == CLASSES
        supply.classes.counted[:] = supply.free
