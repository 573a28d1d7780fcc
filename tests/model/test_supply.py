"""The tree of power domains: figures by hand, and one clear error for each bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from wattqueue.errors import MachineError
from wattqueue.model.machine import CapScope, Machine, Partition
from wattqueue.model.supply import SupplyDomain, node_ranges

BATCH = Partition("batch", 4, idle_w=100.0, max_w=500.0)
GPU = Partition("gpu", 2, unit="socket", sockets_per_node=2, idle_w=200.0, max_w=900.0)


def domain(name: str, parent: str = "", nodes: str = "", **figures: Any) -> SupplyDomain:
    return SupplyDomain(name=name, parent=parent, nodes=nodes, **figures)


def machine(*supply: SupplyDomain, scope: CapScope = "machine") -> Machine:
    return Machine("m", (BATCH, GPU), cap_scope=scope, supply=supply)


TREE = (
    domain("feed", limit_w=20_000.0, base_w=90.0, efficiency=0.9),
    domain("a", "feed", "batch[1-2]", efficiency=0.8, base_w=10.0),
    domain("b", "feed", "batch[3,4],gpu", efficiency=0.8),
)


def test_what_stands_below_and_what_it_counts() -> None:
    tree = machine(*TREE).supply_tree
    assert [one.name for one in tree.domains] == ["a", "b", "feed"]
    assert tree.parent.tolist() == [2, 2, -1]
    assert tree.of_unit.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]  # two sockets a node
    assert [(p.own, p.partition, p.units) for p in tree.below[2]] == [(0, 0, 2), (1, 0, 2), (1, 1, 4)]
    assert {p.gain for p in tree.below[2]} == {1 / 0.8 / 0.9}
    assert tree.base_w.tolist() == [10.0, 0.0, 90.0 + 10.0 / 0.9]
    # 2 units of 100 W through 0.8; 2 of 100 and 4 of 200; both and their bases through 0.9, each rounded up to 1 uW.
    found = tree.input_uw([100.0, 200.0]) / 1e6
    assert found == pytest.approx([260.0, 1250.0, (250 + 1250) / 0.9 + 90 + 10 / 0.9], abs=1e-5)


def test_base_and_losses_count_in_the_scope_machine_alone() -> None:
    tree = machine(*TREE, scope="jobs").supply_tree
    assert tree.base_w.tolist() == [0.0, 0.0, 0.0]
    assert {p.gain for parts in tree.below for p in parts} == {1.0}


def test_a_machine_without_a_tree_has_no_domains() -> None:
    tree = machine().supply_tree
    assert tree.domains == ()
    assert set(tree.of_unit.tolist()) == {-1}


def test_a_limit_holds_before_its_first_row_too() -> None:
    moving = domain("x", limit_s=(10.0, 20.0), limits_w=(5.0, 3.0))
    assert [moving.limit_at(t) for t in (0.0, 10.0, 19.0, 20.0, 99.0)] == [5.0, 5.0, 5.0, 3.0, 3.0]
    assert (moving.least_limit_w, domain("y").limit_at(0.0)) == (3.0, math.inf)
    tree = machine(*(replace(one, limit_w=None, limit_s=(10.0, 20.0), limits_w=(2e4, 1e4)) for one in TREE)).supply_tree
    assert tree.times_s == (20.0,)


WHOLE = "batch,gpu"


@pytest.mark.parametrize(
    ("supply", "what", "hint"),
    [
        ([domain("a", "b", WHOLE), domain("b", "a")], "feeds itself: a <- b <- a", "no parent"),
        ([domain("a", "a", WHOLE)], "feeds itself", "no parent"),
        ([domain("a", "feet", WHOLE), domain("feed")], "parent 'feet' is no domain", "feed"),
        ([domain("a", nodes=WHOLE), domain("a", nodes=WHOLE)], "two domains of the name a", "two feeds of one rack"),
        ([domain("a", nodes=WHOLE), domain("b", nodes="gpu[2]")], "node 2 of gpu is in b, too|in a, too", "two feeds"),
        ([domain("a", nodes=WHOLE), domain("b")], "a domain without units", "name its nodes"),
        ([domain("a", nodes="batch,gpu[1]")], "1 of 2 nodes of gpu are in no domain, the first is 2", "no limit"),
        ([domain("a", nodes="batch[1-5],gpu")], "nodes 1 to 5 of batch, which has 4", "count from 1"),
        ([domain("a", nodes="batch[0-4],gpu")], "nodes 0 to 4 of batch", "count from 1"),
        ([domain("a", nodes="batsh,gpu")], "no partition 'batsh'", "batch"),
        ([domain("a", nodes=WHOLE, limit_w=1199.0)], "below its base and the idle watts", "raise the limit"),
        ([domain("a", nodes=WHOLE, limit_w=1249.0, base_w=50.0)], "1,250 W", "raise the limit"),
        ([domain("a", nodes=WHOLE, limit_s=(0.0, 5.0), limits_w=(2e3, 100.0))], "limit of 100 W", "raise the limit"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused(supply: list[SupplyDomain], what: str, hint: str) -> None:
    with pytest.raises(MachineError, match=what) as caught:
        machine(*supply)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "figures",
    [
        {"limit_w": math.nan}, {"limit_w": math.inf}, {"limit_w": -1.0}, {"base_w": math.nan}, {"base_w": -1.0},
        {"efficiency": 0.0}, {"efficiency": 1.1}, {"efficiency": math.nan}, {"limit_s": (0.0,)},
        {"limit_s": (0.0,), "limits_w": (1.0,), "limit_w": 1.0}, {"limit_s": (1.0, 0.0), "limits_w": (1.0, 2.0)},
        {"limit_s": (0.0, 0.0), "limits_w": (1.0, 2.0)}, {"limit_s": (math.nan,), "limits_w": (1.0,)},
        {"limit_s": (0.0,), "limits_w": (math.nan,)}, {"limit_w": 1.0, "known_s": (0.0,)},
        {"limit_s": (0.0, 5.0), "limits_w": (1.0, 2.0), "known_s": (0.0,)},
        {"limit_s": (0.0, 5.0), "limits_w": (1.0, 2.0), "known_s": (0.0, 6.0)},
        {"limit_s": (0.0, 5.0), "limits_w": (1.0, 2.0), "known_s": (0.0, math.nan)},
    ],
)  # fmt: skip
def test_figures_that_are_no_limits_are_refused(figures: dict[str, Any]) -> None:
    with pytest.raises(MachineError, match=r"limit|base_w|efficiency") as caught:
        domain("rack7", **figures)
    assert "rack7" in str(caught.value)


def test_lists_of_nodes() -> None:
    assert list(node_ranges(" a [1-3, 7], b,c[4-]", "x")) == [("a", 1, 3), ("a", 7, 7), ("b", 1, None), ("c", 4, None)]
    assert list(node_ranges("", "x")) == []


@pytest.mark.parametrize("text", ["a[", "a[1-2", "a[1--2]", "a[]", "[1-2]", "a[x]", "a[-3]", "a,,b"])
def test_texts_that_are_no_lists_of_nodes_are_refused(text: str) -> None:
    with pytest.raises(MachineError, match="nodes = "):
        list(node_ranges(text, "x"))
