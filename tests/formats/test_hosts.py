"""Host lists and who shared nodes, against the plainest way to find out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.formats.slurm import hosts
from wattqueue.formats.slurm.hostlist import expand_hosts
from wattqueue.formats.slurm.hosts import SWEEP_ROWS, HostIndex, count_nodes, shared_with_others


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n7", ["n7"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("a1,b[2-3],login", ["a1", "b2", "b3", "login"]),
        ("rack[1-2]n[01-02]", ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]),
        ("n[1,3-4]-ib", ["n1-ib", "n3-ib", "n4-ib"]),
        ("n[1-3", []),
        ("n1]", []),
        ("n[x]", []),
        ("n[3-1]", []),
        ("n[1-2,,3]", []),
        ("n[1,5-2]", []),
        ("n[1-99999999]", []),
        ("n1,,n2", []),
        ("nid[001535,006+", []),
    ],
)
def test_lists_spelled_out(text: str, names: list[str]) -> None:
    assert expand_hosts(text) == names


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("None assigned", 0), ("(null)", 0), ("n7", 1), ("login", 1), ("n[001-004,007]", 5), ("a1,b[2-3]", 3),
     ("rack[1-2]n[01-04]", 8), ("nid[001535,006+", -1), ("n[5-2]", -1), ("n[0-999999999]", 10**9),
     ("n[1-4294967296]", -1)],
)  # fmt: skip
def test_nodes_of_a_list(text: str, count: int) -> None:
    assert HostIndex().ranges([text])[1].tolist() == [count]


def test_names_mean_the_same_node_however_they_are_listed() -> None:
    index = HostIndex()
    first, _ = index.ranges(["n[001-003]", "login"])
    second, _ = index.ranges(["n002,n003", "n4", "login", "login0"])
    both = hosts.HostRanges.joined([first, second])
    assert count_nodes(both) == 6
    assert count_nodes(hosts.HostRanges.joined([])) == 0


def shared_naively(nodes: list[set[int]], start: list[int], end: list[int]) -> list[bool]:
    n = len(nodes)
    return [
        any(i != j and start[i] < end[j] and start[j] < end[i] and nodes[i] & nodes[j] for j in range(n))
        for i in range(n)
    ]


occupation = st.tuples(st.integers(0, 40), st.integers(1, 9), st.sets(st.integers(0, 25), min_size=1, max_size=6))


@given(st.lists(occupation, min_size=1, max_size=40), st.sampled_from([3, 50, SWEEP_ROWS]))
def test_who_shared_a_node(rows: list[tuple[int, int, set[int]]], sweep_rows: int) -> None:
    start = [begin for begin, _, _ in rows]
    end = [begin + length for begin, length, _ in rows]
    lists = [f"n[{','.join(f'{node:02d}' for node in sorted(nodes))}]" for _, _, nodes in rows]
    ranges, count = HostIndex().ranges(lists)
    assert count.tolist() == [len(nodes) for _, _, nodes in rows]
    found = shared_with_others(ranges, np.array(start, np.float64), np.array(end, np.float64), sweep_rows)
    assert found.tolist() == shared_naively([nodes for _, _, nodes in rows], start, end)


@given(st.text(alphabet="n[]-,0123456789+ a", max_size=30))
def test_any_text_is_a_list_or_unreadable(text: str) -> None:
    ranges, count = HostIndex().ranges([text])
    assert count[0] >= -1
    assert (ranges.low <= ranges.high).all()
    names = expand_hosts(text.strip())
    if names and len(names) < 100:
        assert 0 < count[0] <= max(len(names), 1) or text != text.strip()
