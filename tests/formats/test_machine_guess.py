"""A machine drafted from jobs."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from wattqueue.formats.machine.file import CONFIRM, machine_toml
from wattqueue.formats.machine.guess import FEWEST, SHORTEST_S, guess_machine, most_at_once, node_watts
from wattqueue.model.jobs import Jobs


def test_nodes_from_the_most_that_were_held_at_once() -> None:
    start, end = np.array([0.0, 5.0, 10.0, np.nan]), np.array([10.0, 20.0, 20.0, 30.0])
    assert most_at_once(start, end, np.array([4, 3, 5, 100], np.int32)) == 8
    jobs = Jobs.build([0.0] * 3, [4, 3, 5], [10.0, 15.0, 10.0], start_s=[0.0, 5.0, 10.0])
    machine, marks = guess_machine(jobs, "x")
    assert machine.partitions[0].nodes == 8
    assert "held at once" in marks["partitions.0.nodes"]
    assert machine.partitions[0].max_w is None
    assert "no watts" in marks["partitions.0.idle_w"]
    (line,) = (line for line in machine_toml(machine, marks).splitlines() if "max_w" in line)
    assert line.startswith("# max_w = ")
    assert CONFIRM in line
    assert "max_w" not in machine_toml(machine), "without marks nothing is left to fill in"


def test_nodes_from_the_widest_job_where_nothing_else_is_known() -> None:
    machine, marks = guess_machine(Jobs.build([0.0, 1.0], [4, 7], [10.0, 10.0]), "x")
    assert machine.units == 7
    assert "widest" in marks["partitions.0.nodes"]


def partitioned(seen: list[int], cluster: int) -> Jobs:
    extra = {"partition_nodes": np.array(seen), "cluster_nodes": np.full(2, cluster), "cpus": np.array([128, 64])}
    return Jobs.build([0.0, 1.0], [4, 2], [10.0, 10.0], partition=["cpu", "gpu"], extra=extra)


def test_partitions_with_nodes_of_their_own_stay_apart() -> None:
    machine, _ = guess_machine(partitioned([10, 30], 40), "x")
    assert [(p.name, p.nodes, p.cores_per_socket) for p in machine.partitions] == [("gpu", 30, 32), ("cpu", 10, 32)]


def test_partitions_that_share_nodes_become_one() -> None:
    machine, marks = guess_machine(partitioned([40, 30], 40), "x")
    assert [(p.name, p.nodes) for p in machine.partitions] == [("batch", 40)]
    assert "cpu, gpu share nodes" in marks["partitions.0.name"]


def test_watts_come_from_jobs_that_had_their_nodes_alone() -> None:
    n = 2_000
    alone = np.arange(n) % 2 == 0
    power = np.where(alone, np.linspace(200.0, 700.0, n), 5_000.0)
    quality = np.where(alone, "measured", "attributed").astype(object)
    jobs = Jobs.build(
        np.arange(n),
        np.ones(n),
        np.full(n, 600.0),
        mean_power_w=power,
        max_power_w=power + 50,
        extra={"energy_quality": quality},
    )
    machine, marks = guess_machine(jobs, "x")
    part = machine.partitions[0]
    assert part.idle_w == pytest.approx(204.0, abs=2.0)
    assert part.max_w == 750.0
    assert "1,000 jobs that had their nodes alone" in marks["partitions.0.max_w"]
    text = machine_toml(machine, marks)
    assert text.count(CONFIRM) == len(marks)


def test_few_jobs_give_their_least_and_greatest() -> None:
    jobs = Jobs.build([0.0, 1.0], [1, 1], [600.0, 10.0], mean_power_w=[300.4, 900.0])
    part = guess_machine(jobs, "x")[0].partitions[0]
    assert (part.idle_w, part.max_w) == (300.0, 310.0), "watts of ten seconds are left out"


@pytest.mark.parametrize(("seconds", "used"), [(SHORTEST_S, True), (SHORTEST_S - 0.001, False)])
def test_watts_of_jobs_of_a_minute_are_used(seconds: float, used: bool) -> None:
    jobs = Jobs.build([0.0, 1.0], [1, 1], [600.0, seconds], mean_power_w=[300.4, 900.0])
    assert guess_machine(jobs, "x")[0].partitions[0].max_w == (900.0 if used else 310.0)


@pytest.mark.parametrize(("alone", "used"), [(FEWEST, True), (FEWEST - 1, False)])
def test_so_many_jobs_alone_on_their_nodes_are_enough(alone: int, used: bool) -> None:
    quality = np.array(["measured"] * alone + ["attributed"], object)
    power, n = np.array([300.0] * alone + [900.0]), alone + 1
    jobs = Jobs.build(
        np.arange(n), np.ones(n), np.full(n, 600.0), mean_power_w=power, extra={"energy_quality": quality}
    )
    assert (guess_machine(jobs, "x")[0].partitions[0].max_w == 300.0) == used


def with_watts(power: np.ndarray) -> Jobs:
    n = len(power)
    return Jobs.build(np.arange(n), np.ones(n), np.full(n, 600.0), mean_power_w=power)


def test_a_few_failed_counters_are_suspicious() -> None:
    good = np.linspace(200.0, 480.0, 6_004)
    (sound,) = node_watts(with_watts(good))
    assert (sound.jobs, sound.suspicious) == (6_004, False)
    assert sound.maximum_w == 480.0
    (bad,) = node_watts(with_watts(np.concatenate((good, np.full(15, 12_290.0)))))
    assert (bad.jobs, bad.suspicious, bad.maximum_w) == (6_019, True, 12_290.0)
    assert bad.p99_w < 480.0
    assert guess_machine(with_watts(good), "x")[0].partitions[0].idle_w == bad.idle_w == 202.0
    assert bad.below_idle == sound.below_idle == int((good < 202.0).sum()) > 0


def test_without_watts_there_is_nothing_to_print() -> None:
    assert node_watts(Jobs.build([0.0, 1.0], [4, 7], [10.0, 10.0])) == []


def test_a_line_break_in_a_name_stays_out_of_comments() -> None:
    jobs = Jobs.build([0.0, 5.0, 9.0], [1, 1, 1], [60.0] * 3, partition=["a\nb", "c", "c"], mean_power_w=[90.0] * 3)
    machine, marks = guess_machine(jobs, "a\nmachine")
    text = machine_toml(machine, marks)
    assert [part["name"] for part in tomllib.loads(text)["partitions"]] == [p.name for p in machine.partitions]
