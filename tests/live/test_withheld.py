"""While the controller is away ``live release`` withholds what Slurm's counter misses, and gives it back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeJob, FakeSlurm
from wattqueue.live.cluster import ReleaseJob, SetPool, Snapshot, Write
from wattqueue.live.files.withheld import WITHHELD, stored_figure
from wattqueue.live.release import FAILED, Released, ReleaseSettings, release_all
from wattqueue.live.watts.missed import missed_w, stored
from wattqueue.model.signals import Cap

IDLE_W, TOTAL_W, EVERY_S = 800.0, 1600, 30.0


class Away:
    """A controller that worked for some rounds and is gone, and the timer that calls the release."""

    def __init__(self, folder: Path, pool_w: int = TOTAL_W) -> None:
        self.slurm = FakeSlurm({"p1": [f"n{i}" for i in range(4)], "p2": [f"m{i}" for i in range(4)]}, TOTAL_W)
        self.folder, self.waited = folder, list[float]()
        self.controller = make_controller(
            self.slurm, folder, lambda: self.slurm.now_s, cap=Cap.constant(IDLE_W + pool_w)
        )
        self.controller.run_dir.claim()

    def work(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            self.controller.round()
            self.slurm.step()

    def go_away(self) -> None:
        self.controller.run_dir.release()
        self.slurm.step(1000.0)
        self.slurm.hold_new = False

    def release(self) -> Released:
        def wait(seconds: float) -> None:
            self.waited.append(seconds)
            self.slurm.step(seconds)

        done = release_all(ReleaseSettings(self.folder / "run", 60.0), self.slurm, now_s=self.slurm.now_s, wait=wait)
        assert done.at_work == ""
        self.slurm.schedule()
        return done

    def runs(self, *jobs: FakeJob) -> list[bool]:
        return [job.state == "RUNNING" for job in jobs]


@pytest.mark.parametrize("pool_w", [TOTAL_W, 1000])
def test_what_slurm_does_not_count_is_withheld_until_it_is_counted_again(tmp_path: Path, pool_w: int) -> None:
    """Slurm would start two more jobs of 200 W on the watts that it returned twice."""
    away = Away(tmp_path, pool_w)
    slurm = away.slurm
    jobs = [slurm.submit(1, 1e6, watts=200, partition=name) for name in (("p1", "p2") * 4)[: pool_w // 200]]
    away.work()
    away.go_away()
    slurm.returned_twice_w = 400
    assert away.release().exit_status == 0
    more = [slurm.submit(1, 1e6, watts=200, partition=name) for name in ("p1", "p2")]
    for _ in range(5):
        slurm.step(EVERY_S)
        away.release()
    assert slurm.held_w <= pool_w
    assert slurm.held_w == 200 * sum(away.runs(*jobs)), "what waits does not start on watts that are held"
    assert slurm.reserved_w == TOTAL_W - pool_w + 400
    slurm.returned_twice_w = 0
    slurm.step(EVERY_S)
    away.release()
    assert slurm.reserved_w == TOTAL_W - pool_w, "back to what the controller stored"
    jobs[0].state = jobs[1].state = "COMPLETED"  # one in each partition
    slurm.schedule()
    assert all(away.runs(*more))


def test_one_false_reading_closes_nothing_and_a_wide_job_starts(tmp_path: Path) -> None:
    """The liveness twin: a job completes between the lists of one reading, or of both."""
    away = Away(tmp_path)
    slurm = away.slurm
    for partition in ("p1", "p2"):
        slurm.submit(2, 1e6, watts=400, partition=partition, limit_s=1e6)
    away.work()
    away.go_away()
    wide = slurm.submit(4, 1e6, watts=800, partition="p1")
    for false_readings in (1, 2):
        left = [false_readings]

        def fault(what: str | Write, left: list[int] = left) -> None:
            if what == "pool":
                slurm.returned_twice_w = 800 if left[0] > 0 else 0
                left[0] -= 1

        slurm.fault = fault
        away.release()
        assert slurm.reserved_w == (800 if false_readings == 2 else 0)
        slurm.step(EVERY_S)
        away.release()
        assert slurm.reserved_w == 0, "given back within a minute"
    for job in list(slurm.jobs.values())[:1]:
        job.state = "COMPLETED"
    slurm.step(EVERY_S)
    away.release()
    assert away.runs(wide) == [True]
    assert not any(isinstance(write, SetPool) and write.open_w < TOTAL_W - 800 for write in slurm.writes)


def test_watts_of_suspended_jobs_are_withheld_once(tmp_path: Path) -> None:
    """Slurm starts others on them and checks nothing when they go on. The stored figure has none of them."""
    away = Away(tmp_path, 1000)
    slurm = away.slurm
    slurm.submit(1, 1e6, watts=200)
    away.work()

    def with_suspended(seen: Snapshot) -> Snapshot:
        return replace(seen, jobs=tuple(row._replace(state="suspended") for row in seen.jobs))

    seen = slurm.observe()
    assert (missed_w(seen), missed_w(with_suspended(seen))) == (0, 200)
    plan = away.controller.planner.plan(with_suspended(seen), {}, telemetry_ok=True)
    assert plan.pool_w == 800
    assert stored_figure(800, TOTAL_W, 200) == stored(tmp_path / "run") == TOTAL_W - 1000
    assert stored_figure(0, TOTAL_W, 200) == TOTAL_W, "how far below is not known"


def test_nothing_is_released_where_the_pool_cannot_be_lowered(tmp_path: Path) -> None:
    away = Away(tmp_path)
    slurm = away.slurm
    slurm.submit(1, 1e6, watts=200)
    away.work()
    held = slurm.submit(1, 50.0, watts=1600)
    away.go_away()
    slurm.returned_twice_w = 200
    slurm.fault = lambda what: "fail" if isinstance(what, SetPool) else None
    done = away.release()
    assert (done.released, done.exit_status, held.priority) == (0, FAILED, 0)
    slurm.fault = lambda _: None
    assert away.release().released == 1
    kinds = [type(write) for write in slurm.writes if isinstance(write, SetPool | ReleaseJob)]
    assert kinds[-2:] == [SetPool, ReleaseJob], "the pool first"


@pytest.mark.parametrize("text", [None, "", "many 7\n"])
def test_without_a_stored_figure_what_is_withheld_stays(tmp_path: Path, text: str | None) -> None:
    """A controller of an earlier version stored none."""
    away = Away(tmp_path, 1000)
    slurm = away.slurm
    slurm.submit(1, 1e6, watts=200)
    away.work()
    away.go_away()
    path = tmp_path / "run" / WITHHELD
    path.unlink()
    if text is not None:
        path.write_text(text)
    for missing, expected in ((0, 600), (200, 800), (0, 600)):
        slurm.returned_twice_w = missing
        away.release()
        assert slurm.reserved_w == expected
