"""What is kept from round to round is what a fresh look makes: the queue's order, rows that changed, placements."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.cluster import Job
from wattqueue.live.occupied import PlacedJobs, busy_columns
from wattqueue.live.queue import Queue
from wattqueue.live.requests import JobRequest
from wattqueue.live.sorting import _apart
from wattqueue.live.world import OVERDUE_S
from wattqueue.model.signals import Cap


def rows_of(count: int) -> list[Job]:
    """Waiting jobs, submitted one second after the other."""
    slurm = FakeSlurm({"p1": ["n1"]}, 100)
    for k in range(count):
        slurm.now_s = 1e6 + k
        slurm.submit(1, 5.0, watts=10)
    return list(slurm.observe().jobs)


ROWS = rows_of(40)


@given(seed=st.integers(0, 10**6))
def test_the_order_of_the_queue_is_that_of_its_places(seed: int) -> None:
    """Few changes are applied one by one, many at once: both give the order of submissions."""
    r, queue, inside = random.Random(seed), Queue(), set[int]()
    for _ in range(6):
        for _ in range(r.choice([1, 2, 5, 30])):
            k = r.randrange(len(ROWS))
            row = ROWS[k]
            if k in inside and r.random() < 0.6:
                queue.remove(row.key)
                inside.discard(k)
            else:
                queue.add(row, JobRequest(row.key, "u", "", "p1", 1, 60.0), frozenset({0}), None)
                inside.add(k)
        assert queue.keys() == tuple(ROWS[k].key for k in sorted(inside))
        assert queue.keys() is queue.keys()
        assert queue.table()[0].job_id.tolist() == [ROWS[k].key.name for k in sorted(inside)]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_rows_that_came_or_went_are_found_wherever_they_are(seed: int) -> None:
    r = random.Random(seed)
    old = [row for row in ROWS if r.random() < 0.7]
    new = [row for row in old if r.random() < r.choice([0.2, 0.95, 1.0])]
    for row in r.sample(ROWS, r.choice([0, 0, 1, 4])):
        if row not in new:
            new.insert(r.randint(0, len(new)), row)
    before, after = _apart(old, new)
    assert before.keys() - after.keys() == {id(row) for row in old} - {id(row) for row in new}
    assert after.keys() - before.keys() == {id(row) for row in new} - {id(row) for row in old}
    assert [id(row) for row in new if id(row) in after] == list(after)


def test_placements_that_are_kept_follow_the_clock_as_fresh_ones_do(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0))
    planner = controller.planner
    for k in range(6):
        slurm.submit(1, 500.0, watts=200, limit_s=60.0 * (1 + k), partition="p1,p2")
    columns = busy_columns((), None)
    for _ in range(8):
        controller.round()
        slurm.step(50.0)
        running = planner.running.of(planner.sorter.sort(slurm.observe(), {}, {}, {}).running, {}, slurm.now_s, {})
        kept = planner.placed.occupation(running, slurm.now_s)
        fresh = PlacedJobs(planner.layout).occupation(running, slurm.now_s)
        assert (kept.busy, kept.taken, kept.withheld) == (fresh.busy, fresh.taken, fresh.withheld)
        assert all(job.end_s >= min(slurm.now_s + OVERDUE_S, job.row.start_s + 60.0) for job in kept.busy)
        columns, again = busy_columns(kept.busy, columns), busy_columns(fresh.busy, None)
        for one, other in zip(columns[1:], again[1:], strict=True):
            np.testing.assert_array_equal(one, other)
