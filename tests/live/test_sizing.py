"""The number of nodes that a job needs: by CPUs, memory, sockets and GPUs; an upper bound where it cannot be known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.live.cluster import Job, JobKey
from wattqueue.live.slurm.sizing import Needs, Shape, can_hold, least_nodes, least_nodes_of, parse_gres, with_size

BIG = Shape(16, 2, 16, 32000, (("gpu", 4),))
SMALL = Shape(8, 1, 8, 32000)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("(null)", {}),
        ("gpu:4(S:0-1)", {"gpu": 4}),
        ("gpu:a100:2,gpu:h100:1", {"gpu": 3}),
        ("gres:gpu:8", {"gpu": 8}),
        ("gres/gpu=8", {"gpu": 8}),
        ("gpu", {"gpu": 1}),
        ("shard:1k", {"shard": 1024}),
    ],
)
def test_generic_resources(text: str, counts: dict[str, int]) -> None:
    assert dict(parse_gres(text)) == counts


@pytest.mark.parametrize(
    ("needs", "nodes"),
    [
        (Needs(), 1),
        (Needs(tasks=20), 2),
        (Needs(cpus=33), 3),
        (Needs(tasks=8, cpus_per_task=10), 8),
        (Needs(tasks=8, memory_per_cpu_mb=8000), 2),
        (Needs(tasks=8, tasks_per_socket=2), 2),
        (Needs(tasks=6, tasks_per_node=2), 3),
        (Needs(tasks=20, threads_per_core=1), 2),
        (Needs(gres_per_job=(("gpu", 8),)), 2),
        (Needs(gres_per_job=(("gpu", 4),), cpus_per_gres=(("gpu", 8),)), 2),
        (Needs(gres_per_job=(("gpu", 4),), memory_per_gres_mb=(("gpu", 16000),)), 2),
        (Needs(tasks=3, gres_per_task=(("gpu", 2),)), 2),
        (Needs(gres_per_job=(("fpga", 3),)), 3),
        (Needs(tasks=5, unknown=True), 5),
        (Needs(tasks=500), 10),
    ],
)
def test_nodes_of_one_shape(needs: Needs, nodes: int) -> None:
    assert least_nodes(needs, BIG, 10) == nodes


def test_of_several_shapes_the_one_that_needs_most_decides_but_only_those_that_can_hold_a_task() -> None:
    both = [(BIG, 4), (SMALL, 4)]
    assert least_nodes_of(Needs(tasks=16), both, 8) == 2
    assert least_nodes_of(Needs(tasks=16, gres_per_job=(("gpu", 1),)), both, 8) == 1
    assert not can_hold(Needs(gres_per_node=(("gpu", 1),)), [SMALL])


counts = st.integers(0, 40)


@given(counts, counts, st.integers(0, 20), counts, st.integers(0, 9), st.integers(1, 30))
def test_enough_cpus_memory_and_gpus_and_never_more_nodes_than_tasks_or_gpus(
    tasks: int, cpus: int, each: int, mb: int, gpus: int, limit: int
) -> None:
    needs = Needs(
        tasks=tasks,
        cpus=cpus,
        cpus_per_task=each,
        memory_per_cpu_mb=mb * 100,
        gres_per_job=(("gpu", gpus),) * (gpus > 0),
    )
    nodes = least_nodes(needs, BIG, limit)
    assert 1 <= nodes <= max(tasks, cpus, gpus, 1)
    assert nodes <= limit
    if nodes < limit and can_hold(needs, [BIG]):
        assert nodes * 4 >= gpus
        assert nodes * 16 >= max(tasks, 1) * max(each, 1)


def row(partition: str, nodes: int = 1, most: int = 1) -> Job:
    key = JobKey("1", 1.0)
    return Job(key, 1, "pending", "", partition, nodes, 1, 60.0, 200, 0, 1, 0.0, (), (), True, "operator", most)


def test_a_row_gets_the_nodes_it_needs_and_loses_partitions_that_cannot_run_it() -> None:
    shapes = {"p1": [(BIG, 4)], "p2": [(SMALL, 4)]}
    sized = with_size(row("p1,p2"), Needs(gres_per_job=(("gpu", 8),)), shapes)
    assert (sized.nodes, sized.partition, sized.listed_partition) == (2, "p1", "p1,p2")
    assert with_size(row("p2"), Needs(gres_per_job=(("gpu", 8),)), shapes).partition == "p2", "nothing else is left"
    plain = row("p1,p2")
    assert with_size(plain, Needs(tasks=1), shapes) is plain
    stated = with_size(row("p1"), Needs(gres_per_job=(("gpu", 8),), most_nodes=1), shapes)
    assert stated.nodes == 1, "the user's own maximum stands"
