"""Two controllers with a database in common: one works, the other takes over when it is silent, and never both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import Site, as_operator, cap_text
from tests.live.slurmlab import real, wait_for
from wattqueue.errors import InputError
from wattqueue.live.assemble import refuse_second, stand_by
from wattqueue.live.controller import Controller
from wattqueue.live.files.lease import LeaseLostError
from wattqueue.live.state.database import open_state
from wattqueue.live.state.shared_lease import SharedLease
from wattqueue.model.signals import Cap

STALE_S = 15.0


def make_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def lease_of(slurm: FakeSlurm, folder: Path, name: str) -> SharedLease:
    return SharedLease(open_state(folder / "shared.db"), lambda: slurm.now_s, STALE_S, f"{name}/1/0")


def make(slurm: FakeSlurm, folder: Path, name: str) -> tuple[Controller, SharedLease]:
    """A controller with a run folder of its own, and the database of both; and its lease there."""
    mine, lease = folder / name, lease_of(slurm, folder, name)
    mine.mkdir(exist_ok=True)
    state = str(folder / "shared.db")
    cap = Cap.constant(800.0 + 1000.0)
    controller = make_controller(slurm, mine, lambda: slurm.now_s, cap=cap, state=state, shared=lease)
    controller.run_dir.claim()
    return controller, lease


def test_a_second_controller_is_refused_and_a_standby_takes_over_within_the_time(tmp_path: Path) -> None:
    slurm = make_slurm()
    first, second = lease_of(slurm, tmp_path, "a"), lease_of(slurm, tmp_path, "b")
    refuse_second(first)
    with pytest.raises(InputError, match="a/1, seen 0 s ago"):
        refuse_second(second)
    waited: list[float] = []

    def wait(seconds: float) -> None:
        slurm.now_s += seconds
        waited.append(seconds)
        if sum(waited) < 100.0:
            first.permit()  # it is at work for so long, then it dies

    stand_by(second, lambda _: None, wait)
    assert 100.0 + STALE_S - 6.0 <= sum(waited) <= 100.0 + STALE_S + 2.0
    with pytest.raises(LeaseLostError):
        first.permit()


def test_a_controller_that_resumes_after_the_standby_took_over_writes_nothing(tmp_path: Path) -> None:
    slurm = make_slurm()
    first, lease = make(slurm, tmp_path, "a")
    refuse_second(lease)
    jobs = [slurm.submit(1, 60.0, watts=200, limit_s=90.0) for _ in range(12)]
    for _ in range(5):
        first.round()
        slurm.step()
    assert slurm.running()
    slurm.step(STALE_S + 1.0)  # it is stopped, or its host has lost the network
    second, lease = make(slurm, tmp_path, "b")
    refuse_second(lease)
    second.round()
    written = len(slurm.writes)
    with pytest.raises(LeaseLostError):
        first.round()
    assert len(slurm.writes) == written
    for _ in range(300):
        second.round()
        slurm.step()
    assert [job.state for job in jobs] == ["COMPLETED"] * 12
    assert [job.starts for job in jobs] == [1] * 12
    assert slurm.peak_w <= 1000


def test_what_is_given_up_is_taken_at_once(tmp_path: Path) -> None:
    slurm = make_slurm()
    first, second = lease_of(slurm, tmp_path, "a"), lease_of(slurm, tmp_path, "b")
    assert first.take() == ""
    first.drop()
    assert second.take() == ""
    assert first.take() != ""


@pytest.mark.parametrize("across_hosts", [False, True])
def test_a_database_that_fails_ends_writes_only_where_another_host_may_take_over(
    tmp_path: Path, across_hosts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = make_slurm()
    lease = lease_of(slurm, tmp_path, "a")
    monkeypatch.setattr(SharedLease, "across_hosts", across_hosts)
    assert lease.take() == ""
    with lease.engine.begin() as connection:
        connection.execute(text("ALTER TABLE live_lease RENAME TO gone"))
    slurm.now_s += STALE_S / 3.0 + 0.1
    assert lease.permit() == "", "it is not stale yet for anybody"
    slurm.now_s += STALE_S / 3.0
    assert bool(lease.permit()) == across_hosts


@real
def test_a_standby_of_a_real_slurm_takes_over_from_a_killed_controller(
    site: Site, record_property: Callable[[str, object], None]
) -> None:
    """Never a watt above the pool; the seconds of the takeover are recorded."""
    config = site.begin(cap_text(600), takeover_s=4.0)
    runs = [site.gated("-N1", "-p", "p1") for _ in range(3)]
    site.wait_running(runs)
    waits = [site.gated("-N1", "-p", "p2") for _ in range(2)]
    with (site.root / "log/standby.out").open("w") as out:
        elsewhere = ("unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")  # as on another host
        argv = [*elsewhere, *as_operator("live", "--config", str(config), "--standby")]
        other = subprocess.Popen(argv, env=site.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL, text=True)
    try:
        log = site.root / "log/standby.out"
        wait_for("the standby", lambda: "standby: at work is" in log.read_text(), step_s=0.2)
        time.sleep(2.0)
        assert other.poll() is None, log.read_text()
        assert site.child is not None
        os.kill(site.child.pid, signal.SIGKILL)
        site.child.wait(60.0)
        begin = time.monotonic()
        site.child, site.started_s = other, time.time()
        (site.root / "gates" / runs[0]).touch()
        used: list[int] = []

        def runs_again() -> bool:
            used.append(site.used_w()[0])
            return bool({*waits} & {*site.running()})

        wait_for("the standby to start a job", runs_again)
        took_s = time.monotonic() - begin
        assert max(used) <= 600
        record_property("takeover_s", round(took_s, 1))
        site.open_gate(*runs[1:])
        site.wait_running(waits)
        site.open_gate(*waits)
        assert json.loads((site.root / "live/run/status.json").read_text())["mode"] == "control"
    finally:
        site.child = other
