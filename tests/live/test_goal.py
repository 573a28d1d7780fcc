"""From what is to what should be: the fewest writes, lowering before raising, and none where nothing differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.apply import TOGETHER, Applier, WriteResult, batches
from wattqueue.live.cluster import ChangeJob, JobKey, ReleaseJob, SetPool, StopJob, Write
from wattqueue.live.goal import Goal, JobGoal, NodeGoal, plan_writes
from wattqueue.live.watts.bound import WattBound


class Notes:
    """A journal that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def intend(self, writes: Sequence[Write]) -> list[int]:
        self.rows += [("intend", write.kind) for write in writes]
        return list(range(len(self.rows) - len(writes), len(self.rows)))

    def record_outcomes(self, outcomes: Sequence[tuple[int, str]]) -> None:
        self.rows += [("settle", outcome) for _, outcome in outcomes]


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1000)


def carry_out(slurm: FakeSlurm, goal: Goal) -> list[WriteResult]:
    return Applier(slurm, Notes()).apply(plan_writes(slurm.observe(), goal), WattBound.none())


def test_a_start_is_one_update_a_release_and_a_priority() -> None:
    slurm = make_slurm()
    job = slurm.submit(2, 10.0, watts=800, partition="p1,p2", licences={"watts": 800, "matlab": 1})
    key = JobKey("1", job.submit_s)
    start = JobGoal(key, False, "p2", 300, ("m3", "m2"), 4000.0, 77, 2_100_000, why="easy starts it")
    outcomes = carry_out(slurm, Goal(jobs=(start,)))
    assert [o.write.kind for o in outcomes] == ["update", "frequency", "release", "priority"]
    assert all(o.error == "" for o in outcomes)
    assert (job.partition, job.licences, job.requested) == ("p2", {"matlab": 1, "watts": 300}, ("m3", "m2"))
    assert (job.limit_s, job.priority) == (67 * 60.0, 77)
    assert slurm.frequencies == {"1": 2_100_000}
    slurm.step()
    assert set(job.held_nodes) == {"m2", "m3"}


def test_what_is_already_so_is_not_written_again() -> None:
    slurm = make_slurm()
    job = slurm.submit(1, 10.0, watts=800)
    goal = Goal(700, (JobGoal(JobKey("1", job.submit_s), False, "p1", 300, (), None, 77, 1_200_000),))
    assert len(carry_out(slurm, goal)) == 5
    assert carry_out(slurm, goal) == []
    slurm.step()
    assert job.state == "RUNNING"
    assert carry_out(slurm, goal) == []


def test_the_number_of_nodes_is_pinned_where_no_maximum_is_stated() -> None:
    """job_submit.lua states none for a job with fewer GPUs than nodes."""
    slurm = make_slurm()
    slurm.submit(2, 50.0, watts=400)
    seen = slurm.observe()
    goal = Goal(jobs=(JobGoal(seen.jobs[0].key, held=False, node_count=2, watts=400),))
    for stated, pinned in (((2, 0), True), ((2, 2), False), ((1, 2), True)):
        rows = tuple(row._replace(range_nodes=stated) for row in seen.jobs)
        changed = [w.fields for w in plan_writes(replace(seen, jobs=rows), goal) if isinstance(w, ChangeJob)]
        assert [fields.node_count for fields in changed] == [(2, 2)] * pinned


def test_lowering_comes_before_raising_and_starts_come_last() -> None:
    slurm = make_slurm()
    jobs = [slurm.submit(1, 50.0, watts=100) for _ in range(4)]
    keys = [JobKey(j.name, j.submit_s) for j in jobs]
    carry_out(slurm, Goal(jobs=tuple(JobGoal(k, False) for k in keys[:2])))
    slurm.step()
    goals = (JobGoal(keys[2], False, watts=50), JobGoal(keys[0], watts=200), JobGoal(keys[1], watts=40))
    down = plan_writes(slurm.observe(), Goal(800, goals))
    assert [(w.kind, w.target) for w in down] == [
        ("pool", "watts"),
        ("update", "2"),
        ("update", "1"),
        ("update", "3"),
        ("release", "3"),
    ]
    carry_out(slurm, Goal(500))
    up = plan_writes(slurm.observe(), Goal(900, goals))
    assert [(w.kind, w.target) for w in up][:3] == [("update", "2"), ("update", "1"), ("pool", "watts")]


def test_the_pool_is_never_more_than_its_total() -> None:
    slurm = make_slurm()
    for wanted_w, open_w in ((600, 600), (250, 250), (5000, 1000), (-1, 0)):
        carry_out(slurm, Goal(wanted_w))
        assert slurm.open_w == open_w


def test_a_hold_comes_before_what_the_job_is_set_to() -> None:
    slurm = make_slurm()
    slurm.hold_new = False
    job = slurm.submit(1, 10.0, watts=100)
    outcomes = carry_out(slurm, Goal(jobs=(JobGoal(JobKey("1", job.submit_s), True, watts=200),)))
    assert [o.write.kind for o in outcomes] == ["hold", "update"]
    assert job.priority == 0


def test_nodes_and_requeue() -> None:
    slurm = make_slurm()
    job = slurm.submit(1, 100.0, watts=100)
    key = JobKey("1", job.submit_s)
    carry_out(slurm, Goal(jobs=(JobGoal(key, False),)))
    slurm.step()
    goal = Goal(nodes=(NodeGoal("m1", False), NodeGoal("n1", False), NodeGoal("m2", True)), requeue=((key, "cap"),))
    outcomes = carry_out(slurm, goal)
    assert [(o.write.kind, o.write.target) for o in outcomes] == [("requeue", "1"), ("power", "m1")]
    assert job.state == "PENDING"
    slurm.step(5)
    assert [o.write.after for o in carry_out(slurm, Goal(nodes=(NodeGoal("m1", True),)))] == ["on"]


def test_a_failed_update_keeps_its_job_held_and_the_others_going() -> None:
    slurm = make_slurm()
    a, b = slurm.submit(1, 10.0, watts=100), slurm.submit(1, 10.0, watts=100)
    slurm.fault = lambda what: "fail" if isinstance(what, ChangeJob) and what.target == "1" else None
    goals = tuple(JobGoal(JobKey(j.name, j.submit_s), False, watts=50) for j in (a, b))
    outcomes = carry_out(slurm, Goal(jobs=goals))
    assert [bool(o.error) for o in outcomes] == [True, True, False, False]
    assert (a.priority, b.priority > 0) == (0, True)


def test_nothing_is_released_where_the_pool_could_not_be_lowered() -> None:
    slurm = make_slurm()
    job = slurm.submit(1, 10.0, watts=100)
    slurm.fault = lambda what: "fail" if isinstance(what, SetPool) else None
    outcomes = carry_out(slurm, Goal(500, (JobGoal(JobKey("1", job.submit_s), False),)))
    assert [o.write.kind for o in outcomes if o.error] == ["pool", "release"]
    assert job.priority == 0


def test_a_job_that_is_gone_needs_no_write() -> None:
    assert (
        plan_writes(
            make_slurm().observe(), Goal(jobs=(JobGoal(JobKey("9", 5.0), False),), requeue=((JobKey("9", 5.0), ""),))
        )
        == []
    )


def test_a_write_that_fails_slowly_leaves_the_rest_to_the_next_round() -> None:
    """Slurm waits 5 s for a job whose accounting index it lost; a round must not wait so for each of many."""
    slurm = make_slurm()
    jobs = [slurm.submit(1, 10.0, watts=100) for _ in range(4)]
    clock = [0.0]

    def fault(what: str | Write) -> str | None:
        if not isinstance(what, ReleaseJob) or what.target not in ("2", "3"):
            return None
        clock[0] += 5.0
        return "fail"

    slurm.fault = fault
    applier = Applier(slurm, Notes(), clock=lambda: clock[0])
    snapshot = slurm.observe()
    goals = tuple(JobGoal(JobKey(job.name, job.submit_s), False, why="start") for job in jobs)
    outcomes = applier.apply(plan_writes(snapshot, Goal(jobs=goals)), WattBound.none())
    assert [(o.write.target, bool(o.error)) for o in outcomes] == [("1", False), ("2", True)]
    assert [job.priority > 0 for job in jobs] == [True, False, False, False]


def test_writes_of_one_kind_are_carried_out_together_and_recorded_one_by_one() -> None:
    """Every job stands still before the first licence is lowered; what failed ends the writes of its job alone."""
    slurm = make_slurm()
    jobs = [slurm.submit(1, 100.0, watts=100) for _ in range(3)]
    for job in jobs:
        slurm.release(job)
    slurm.step()
    slurm.fault = lambda what: "fail" if isinstance(what, StopJob) and what.target == "2" else None
    notes, seen = Notes(), slurm.observe()
    goals = tuple(JobGoal(row.key, watts=0, stopped=True) for row in seen.jobs)
    outcomes = Applier(slurm, notes).apply(plan_writes(seen, Goal(jobs=goals)), WattBound.none())
    kinds = [(one.write.kind, one.write.target) for one in outcomes if not one.error]
    assert kinds == [("stop", "1"), ("stop", "3"), ("update", "1"), ("update", "3")]
    assert notes.rows[:6] == [("intend", "stop")] * 3 + [
        ("settle", "done"),
        ("settle", "stop 2: refused"),
        ("settle", "done"),
    ]
    assert [job.licences["watts"] for job in jobs] == [0, 100, 0]


def test_batches_keep_the_order_and_have_a_limit() -> None:
    writes: list[Write] = [StopJob(str(n), "", "", key=JobKey(str(n), 0.0)) for n in range(TOGETHER + 1)]
    writes += [SetPool("watts", "", "", 5), *writes[:2], writes[0], ReleaseJob("7", "", ""), ReleaseJob("8", "", "")]
    assert [len(batch) for batch in batches(writes)] == [TOGETHER, 1, 1, 2, 1, 1, 1]
    assert [write for batch in batches(writes) for write in batch] == writes
