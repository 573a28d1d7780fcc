"""More nodes behind the same breakers: how many fit, where they go, and the machine that results."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wattqueue.errors import MachineError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.supply import SupplyDomain
from wattqueue.plan.growth import BREAKER, MachineGrowth, constant_limits, jobs_for, pace


def machine(
    limits: list[float], row_w: float | None = None, *, base_w: float = 0.0, efficiency: float = 1.0
) -> Machine:
    """Racks of two nodes each below one row; a second partition of one node in the first rack."""
    racks = [
        SupplyDomain(name=f"rack{k}", parent="row", limit_w=limit, efficiency=efficiency,
                     nodes=f"cpu[{2 * k + 1}-{2 * k + 2}]" + (",login[1]" if k == 0 else ""))
        for k, limit in enumerate(limits)
    ]  # fmt: skip
    parts = Partition("cpu", 2 * len(limits), idle_w=50.0, max_w=300.0), Partition("login", 1, idle_w=10.0, max_w=100.0)
    return Machine("m", parts, supply=(*racks, SupplyDomain(name="row", limit_w=row_w, base_w=base_w)))


def fitting(made: Machine, unit_w: float) -> int:
    """Try all numbers of nodes by rack, and return the greatest sum under all limits."""
    tree, best = MachineGrowth(made, 0).tree, -1
    racks, row = [d for d in tree.domains if d.parent], tree.domains[-1]
    for counts in itertools.product(range(9), repeat=len(racks)):
        own = [n * unit_w + (100.0 if k == 0 else 0.0) for k, n in enumerate(counts)]
        inputs = [w / rack.efficiency for w, rack in zip(own, racks, strict=True)]
        under = all(w <= rack.least_limit_w + 1e-5 for w, rack in zip(inputs, racks, strict=True))
        if under and row.base_w + sum(inputs) <= row.least_limit_w + 1e-5:
            best = max(best, sum(counts))
    return best


RACKS = st.lists(st.integers(450, 1_700).map(float), min_size=1, max_size=3)


@settings(max_examples=40)
@given(RACKS, st.integers(900, 5_000), st.sampled_from([300.0, 217.0]), st.sampled_from([1.0, 0.94]))
def test_as_many_fit_as_any_choice_of_nodes_gives(limits: list[float], row: int, unit_w: float, eff: float) -> None:
    made = machine(limits, float(row), base_w=40.0, efficiency=eff)
    assert MachineGrowth(made, 0).fits(unit_w) == max(fitting(made, unit_w), 0)


@settings(max_examples=40)
@given(RACKS, st.integers(900, 5_000), st.sampled_from([300.0, 217.0]))
def test_nodes_go_where_all_of_them_fit(limits: list[float], row: int, unit_w: float) -> None:
    growth = MachineGrowth(machine(limits, float(row), base_w=40.0), 0)
    if not growth.carries_each(unit_w):
        return
    nodes = int(growth.fits(unit_w))
    grown = growth.grown(nodes, 1.0)
    assert grown.partitions[0].nodes == nodes
    full = grown.supply_tree.input_uw([unit_w, 100.0]) / 1e6
    assert (full <= [one.least_limit_w for one in grown.supply_tree.domains]).all()


def test_one_more_node_moves_no_other() -> None:
    growth = MachineGrowth(machine([900.0, 1_400.0, 700.0], 2_600.0), 0)
    before = np.array(growth.counts(3))
    for nodes in range(4, 20):
        after = np.array(growth.counts(nodes))
        assert after.sum() == nodes
        assert np.sort(after - before).tolist() == [0, 0, 1]
        before = after


def test_hand_computed() -> None:
    # 1,000 W a rack: three nodes of 300 W, four of 240 W; the login node takes 100 W of the first
    growth = MachineGrowth(machine([1_000.0, 1_000.0], None), 0)
    assert growth.fits(300.0) == 6
    assert growth.fits(240.0) == 3 + 4
    assert MachineGrowth(machine([1_000.0, 1_000.0], 1_500.0), 0).fits(300.0) == 4
    assert growth.counts(7) == [3, 4]
    assert growth.grown(7, 0.5).supply[0].limit_w == 500.0
    assert [one.limit_w for one in growth.grown(7, math.inf).supply] == [None, None, None]


def test_what_always_fits_counts_all_partitions_at_their_most() -> None:
    growth = MachineGrowth(machine([1_000.0, 1_000.0], None), 0)
    assert growth.always_fit([300.0, 100.0]) == 6
    assert growth.always_fit([225.0, 100.0]) == 8
    assert growth.always_fit([225.0, 110.0]) == 7  # 890 W are left in the first
    assert growth.always_fit([1_100.0, 100.0]) == 0
    own = SupplyDomain(name="old", nodes="b", limit_w=90.0)
    parts = Partition("a", 4, max_w=100.0), Partition("b", 2, max_w=50.0)
    beside = MachineGrowth(Machine("m", parts, supply=(SupplyDomain(name="new", nodes="a", limit_w=500.0), own)), 0)
    assert beside.carries_each(100.0)
    assert beside.fits(100.0) == 5
    assert beside.always_fit([100.0, 50.0]) == 0  # b may be above its own limit
    assert beside.always_fit([100.0, 45.0]) == 5


def test_a_breaker_stands_above_all() -> None:
    plain = Machine("m", (Partition("a", 4, max_w=100.0), Partition("b", 2, max_w=50.0)))
    growth = MachineGrowth(constant_limits(plain, 1_000.0), 0)
    assert growth.fits(100.0) == 9  # 100 W go to b
    tree = constant_limits(machine([900.0, 900.0], 1_500.0), 1_200.0)
    assert next(one for one in tree.supply if one.name == "row").parent == BREAKER
    assert MachineGrowth(tree, 0).fits(300.0) == 3


def test_the_lowest_of_a_moving_limit_counts() -> None:
    moving = SupplyDomain(name="feed", nodes="a", limit_s=(0.0, 10.0), limits_w=(900.0, 400.0))
    growth = MachineGrowth(constant_limits(Machine("m", (Partition("a", 4, max_w=100.0),), supply=(moving,)), None), 0)
    assert growth.fits(100.0) == 4


def test_no_limit_is_refused() -> None:
    with pytest.raises(MachineError, match="no limit stands above partition a"):
        MachineGrowth(Machine("m", (Partition("a", 4, max_w=100.0),)), 0)
    with pytest.raises(MachineError, match="2 nodes for 3 domains"):
        MachineGrowth(machine([900.0, 900.0, 900.0], None), 0).counts(2)


def test_each_node_keeps_its_work() -> None:
    growth = MachineGrowth(constant_limits(Machine("m", (Partition("a", 4, max_w=100.0),)), 1_000.0), 0)
    jobs = Jobs.build([100.0, 300.0, 900.0], [1, 2, 3], [10.0, 10.0, 10.0])
    assert jobs_for(jobs, growth, 8, same_load=False).submit_s.tolist() == [100.0, 200.0, 500.0]
    assert jobs_for(jobs, growth, 8, same_load=True) is jobs
    assert pace(growth, 8) == 0.5
