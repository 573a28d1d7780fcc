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
from wattqueue.live.planner import RoundState
from wattqueue.live.requests import JobRequest
from wattqueue.live.stages.occupy import occupy
from wattqueue.live.table import LiveJobs, _apart
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
    r, jobs, inside = random.Random(seed), LiveJobs(), set[int]()
    jobs.update(tuple(ROWS))
    for slot in jobs.new:
        jobs.request[slot] = JobRequest(jobs.row[slot].key, "u", "", "p1", 1, 60.0)
    for _ in range(6):
        for _ in range(r.choice([1, 2, 5, 30])):
            k = r.randrange(len(ROWS))
            slot = jobs.slot[ROWS[k].key]
            if k in inside and r.random() < 0.6:
                jobs.leave_queue(slot)
                inside.discard(k)
            else:
                jobs.join_queue(slot, frozenset({0}), None)
                inside.add(k)
        assert jobs.rows(jobs.queue) == [ROWS[k] for k in sorted(inside)]
        assert jobs.queue is jobs.queue
        assert jobs.known_jobs(jobs.queue).job_id.tolist() == [ROWS[k].key.name for k in sorted(inside)]


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
    jobs = LiveJobs()
    jobs.update(tuple(old))
    jobs.update(tuple(new))
    assert {key: jobs.row[slot] for key, slot in jobs.slot.items()} == {row.key: row for row in new}
    assert len(set(jobs.slot.values())) == len(new)


def test_placements_that_are_kept_follow_the_clock_as_fresh_ones_do(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0))
    planner, jobs = controller.planner, controller.planner.jobs
    for k in range(6):
        slurm.submit(1, 500.0, watts=200, limit_s=60.0 * (1 + k), partition="p1,p2")
    for _ in range(8):
        report = controller.round()
        assert report is not None
        slurm.step(50.0)
        looks = []
        for _ in range(2):
            now = RoundState(planner, slurm.observe(), counted=report.plan.counted)
            occupy(now)
            held = np.array(now.holding, np.int64)
            columns = [getattr(jobs, name)[held].tolist() for name in ("part", "units", "intervals", "end_s")]
            looks.append((now.holding, now.taken, now.withheld, columns))
            planner.occupied = ([], [], frozenset(), frozenset())
            jobs.placed_row[:] = None
        assert looks[0] == looks[1]
        ends = zip(jobs.end_s[held].tolist(), jobs.rows(held), strict=True)
        assert all(end_s >= min(slurm.now_s + OVERDUE_S, row.start_s + 60.0) for end_s, row in ends)
