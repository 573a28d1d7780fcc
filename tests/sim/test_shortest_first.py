"""EASY with shortest-first backfilling: cases worked out by hand, and the known mean wait on a real trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wattqueue.formats.workloads.swf import read_swf
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


def starts(jobs: Jobs, nodes: int, backfill: object) -> list[float]:
    run = simulate(jobs, plain_machine(nodes), load_policy("easy", backfill=backfill))
    return [float(s) for s in run.schedule.start_s]


# Four nodes: the first job takes three until 100, the second wants four. The fourth node is free until then.
FOUR = Jobs.build(np.array([0.0, 1.0, 2.0, 3.0]), [3, 4, 1, 1], [100.0, 50.0, 90.0, 20.0])


def test_the_shorter_job_gets_the_free_node_first() -> None:
    # At 10 the node becomes free: the third job (90 s) would end by 100, so does the fourth (20 s), which is shorter.
    jobs = Jobs.build(np.array([0.0, 0.0, 1.0, 2.0, 3.0]), [3, 1, 4, 1, 1], [100.0, 10.0, 50.0, 90.0, 20.0])
    assert starts(jobs, 4, "easy") == [0.0, 0.0, 100.0, 10.0, 150.0]
    assert starts(jobs, 4, "easy-sjbf") == [0.0, 0.0, 100.0, 150.0, 10.0]


def test_the_head_keeps_its_place_however_long_it_is() -> None:
    assert starts(FOUR, 4, "easy-sjbf")[1] == 100.0


def test_equal_times_keep_the_order_of_the_queue() -> None:
    jobs = Jobs.build(np.array([0.0, 0.0, 1.0, 2.0, 3.0]), [3, 1, 4, 1, 1], [100.0, 10.0, 50.0, 40.0, 40.0])
    assert starts(jobs, 4, "easy-sjbf") == starts(jobs, 4, "easy")


def test_a_queue_depth_counts_tries_in_the_order_of_the_pass() -> None:
    jobs = Jobs.build(np.array([0.0, 0.0, 1.0, 2.0, 3.0]), [3, 1, 4, 1, 1], [100.0, 10.0, 50.0, 90.0, 20.0])
    # Two tries: the head, then the shortest, which is the last of the queue.
    assert starts(jobs, 4, {"part": "easy-sjbf", "queue_depth": 2})[4] == 10.0


@pytest.mark.compiled
def test_known_mean_waits_on_kth(data_dir: Path) -> None:
    # 6,834.6 and 5,904 s: an independent simulator's EASY, and its shortest-first backfilling, on the same jobs.
    jobs = read_swf(data_dir / "swf" / "KTH-SP2.swf.gz").jobs
    run = simulate(jobs, plain_machine(100), load_policy("easy-sjbf"))
    assert (run.schedule.start_s - jobs.submit_s).mean() == pytest.approx(5_904, abs=0.5)
