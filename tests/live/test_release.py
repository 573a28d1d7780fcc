"""The release fall-back over the fake Slurm: it survives what ended the controller, and never works beside one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy import text as sql

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import InputError
from wattqueue.live.cluster import ReleaseJob, Write
from wattqueue.live.controller import Controller
from wattqueue.live.features.capfile import CapFile
from wattqueue.live.files.lease import Lease, LeaseLostError, read_lease, replace_text
from wattqueue.live.files.status import RunDir, notify, read_beat
from wattqueue.live.planner import Rules
from wattqueue.live.release import AT_WORK, FAILED, BestEffortLog, ReleaseSettings, read_settings, release_all
from wattqueue.model.signals import Cap

CAP_W = 8 * 100.0 + 1000.0


def make_slurm(total_w: int = 1600) -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, total_w)


def claimed(slurm: FakeSlurm, folder: Path, cap_w: float = CAP_W, cap: CapFile | None = None) -> Controller:
    """A controller that holds its run folder, as ``wattqueue live`` does."""
    controller = make_controller(slurm, folder, lambda: slurm.now_s, cap=cap or Cap.constant(cap_w))
    controller.run_dir.claim()
    return controller


def claimed_again(controller: Controller, slurm: FakeSlurm, folder: Path) -> Controller:
    """A controller that is started after another has ended, under a cap that has room."""
    controller.run_dir.release()
    return claimed(slurm, folder)


def settings(folder: Path, away_s: float = 60.0) -> ReleaseSettings:
    return ReleaseSettings(folder / "run", away_s)


def test_it_waits_until_the_controller_is_away_and_leaves_what_is_not_for_it(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path, 800.0)  # nothing fits: all jobs stay held
    ours = slurm.submit(1, 10.0, watts=200)
    users = slurm.submit(1, 10.0, watts=200, mark="ticket 7 wattqueue:user-held")
    slow = slurm.submit(1, 10.0, watts=200, mark="wattqueue:needs-controller")
    renamed = slurm.submit(1, 10.0, watts=200, mark="a site's own")
    overwritten = slurm.submit(4, 10.0, watts=1600, mark="a site's own")
    bare = slurm.submit(1, 10.0, watts=200)
    bare.licences = {"matlab": 1}
    controller.round()
    young = release_all(settings(tmp_path), slurm, now_s=slurm.now_s + 59.0)
    assert (young.released, young.exit_status) == (0, AT_WORK)
    assert young.at_work
    late = release_all(settings(tmp_path), slurm, now_s=slurm.now_s + 61.0)
    assert (late.released, late.exit_status) == (2, 0)
    free = [job.priority > 0 for job in (ours, renamed, users, slow, overwritten, bare)]
    assert free == [True, True, False, False, False, False]


def test_jobs_of_several_components_wait_for_the_controller_whatever_their_mark_says(tmp_path: Path) -> None:
    """Slurm does not test the watts of components when it starts them; the site wrote over the mark of the script."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path, 800.0)
    group = slurm.submit_whole(("p1", "p2"), 10.0, watts=200)
    for job in group:
        job.mark = "a site's own"
    plain = slurm.submit(1, 10.0, watts=200)
    controller.round()
    assert release_all(settings(tmp_path), slurm, now_s=slurm.now_s + 61.0).released == 1
    assert [job.priority > 0 for job in (*group, plain)] == [False, False, True]
    again = claimed_again(controller, slurm, tmp_path)
    for _ in range(40):
        again.round()
        slurm.step()
    assert {job.state for job in group} == {"COMPLETED"}, "the next controller starts them"


def test_a_controller_that_hung_and_resumes_writes_nothing_more(tmp_path: Path) -> None:
    """Stopped between planning and writing; meanwhile the release took over. Its flock is still held."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(4)]
    stopped: list[int] = []

    def boundary(where: str) -> None:
        if where == "after" and not stopped:
            stopped.append(len(slurm.writes))
            slurm.now_s += 300.0
            assert release_all(settings(tmp_path), slurm, now_s=slurm.now_s).exit_status == 0
            stopped.append(len(slurm.writes))

    controller.applier.boundary = boundary
    with pytest.raises(LeaseLostError) as caught:
        controller.round()
    assert caught.value.where == tmp_path / "run"
    assert len(slurm.writes) == stopped[1] > stopped[0], "not one write after the release"
    assert all(job.priority > 0 for job in jobs)
    with pytest.raises(LeaseLostError):
        controller.round()
    controller.run_dir.release()
    again = claimed(slurm, tmp_path)
    again.round()
    assert read_lease(tmp_path / "run") is not None


@pytest.mark.parametrize(("ahead_s", "at_work"), [(5.0, True), (3600.0, False)])
def test_a_heartbeat_from_the_future_keeps_no_release_away(tmp_path: Path, ahead_s: float, at_work: bool) -> None:
    """A controller whose clock was ahead, and that is gone: its beat and its lease are no sign of life."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path, 800.0)
    slurm.submit(1, 10.0, watts=200)
    slurm.now_s += ahead_s
    controller.round()
    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s - ahead_s)
    assert (done.exit_status == AT_WORK) == at_work
    assert done.released == (not at_work)


def test_a_controller_beats_on_after_its_clock_was_set_back(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    controller.round()
    slurm.now_s -= 3600.0
    controller.round()
    assert read_beat(tmp_path / "run") == ("control", slurm.now_s)


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_a_controller_that_only_watches_keeps_no_release_away(tmp_path: Path, mode: str) -> None:
    slurm = make_slurm()
    job = slurm.submit(1, 50.0, watts=200)
    rules = Rules(mode=mode)  # type: ignore[arg-type]
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), rules=rules)
    controller.run_dir.claim()
    controller.round()
    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s)
    assert (done.released, done.exit_status) == (1, 0)
    assert job.priority > 0
    assert controller.round() is not None, "and goes on"


def test_a_release_that_finds_a_new_controller_stops(tmp_path: Path) -> None:
    slurm = make_slurm()
    (tmp_path / "run").mkdir()
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(4)]

    def fault(what: str | Write) -> str | None:
        if isinstance(what, ReleaseJob) and what.target == jobs[1].name:
            Lease(tmp_path / "run", "controller").take(slurm.now_s)
        return None

    slurm.fault = fault
    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s)
    assert (done.released, done.exit_status) == (2, AT_WORK)
    assert [job.priority > 0 for job in jobs] == [True, True, False, False]
    lease = read_lease(tmp_path / "run")
    assert lease is not None
    assert lease[0].startswith("controller"), "the other's lease stays"


def test_one_job_that_slurm_refuses_does_not_keep_the_others(tmp_path: Path) -> None:
    slurm = make_slurm()
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(4)]
    slurm.fault = lambda what: "fail" if isinstance(what, ReleaseJob) and what.target == jobs[1].name else None
    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s)
    assert (done.released, len(done.failed), done.exit_status) == (3, 1, FAILED)
    assert jobs[1].name in done.failed[0].replace(":", " ").split()


def test_a_folder_that_cannot_be_written_ends_the_old_right_or_at_least_not_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wattqueue.errors import OutputError

    def full(path: Path, text: str, **_: object) -> None:
        raise OutputError("no space left on device", where=path)

    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    controller.round()
    slurm.submit(1, 50.0, watts=200)
    monkeypatch.setattr("wattqueue.live.files.lease.atomic_text", full)
    told: list[str] = []
    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s + 100.0, say=told.append)
    assert (done.released, done.exit_status) == (1, 0)
    assert told
    with pytest.raises(LeaseLostError):
        controller.round()


def test_heartbeat_and_lease_are_renewed_in_place_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wattqueue.errors import OutputError

    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    controller.round()

    def full(path: Path, text: str, **_: object) -> None:
        raise OutputError("no space left on device", where=path)

    monkeypatch.setattr("wattqueue.live.files.lease.atomic_text", full)
    slurm.step(200.0)
    controller.round()
    assert read_beat(tmp_path / "run") == ("control", float(int(slurm.now_s)))
    lease = read_lease(tmp_path / "run")
    assert lease is not None
    assert lease[1] == float(int(slurm.now_s))
    with pytest.raises(OutputError):
        replace_text(tmp_path / "run/beat", "another length\n")


BROKEN = {
    "a typing error": 'machine = "m.toml"\ncap = 80%\nrun_dir = "here"\naway_s = 5\n[slurm]\nconf = "s.conf"\n',
    "an open text": 'run_dir = "here"\naway_s = 5\npolicy = "easy\n[slurm]\nconf = "s.conf"\n',
    "a table twice": 'run_dir = "here"\naway_s = 5\n[slurm]\nconf = "s.conf"\n[slurm]\n',
    "wrong types": 'run_dir = "here"\naway_s = 5\nstate = 7\n[slurm]\nconf = "s.conf"\nbin_dir = true\n',
    "an unknown key": 'run_dir = "here"\naway_s = 5\nawayy_s = 7\n[slurm]\nconf = "s.conf"\nnope = 1\n',
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_configuration_with_an_error_still_gives_what_a_release_needs(tmp_path: Path, what: str) -> None:
    file = tmp_path / "live.toml"
    file.write_text(BROKEN[what])
    found = read_settings(file)
    assert (found.run_dir, found.away_s, found.conf) == (tmp_path / "here", 5.0, str(tmp_path / "s.conf"))
    assert bool(found.ignored) == (what != "an unknown key")


def test_any_text_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "live.toml"
    for text in ("", "\x00\x01\n\n", "[[[\n", "= = =\n" * 50, '"""\n', "a = [\n1,\n"):
        file.write_text(text)
        assert read_settings(file).run_dir == tmp_path / "run"
    with pytest.raises(InputError) as caught:
        read_settings(tmp_path / "mistyped.toml")
    assert caught.value.where == tmp_path / "mistyped.toml"


def test_an_audit_log_that_fails_is_given_up_and_the_release_goes_on(tmp_path: Path) -> None:
    slurm = make_slurm()
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(3)]
    tries: list[int] = []

    def broken() -> object:
        tries.append(1)
        raise ValueError("file is not a database")

    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s, journal=BestEffortLog(broken))
    assert (done.released, tries) == (len(jobs), [1])


def unwritable(controller: Controller) -> Callable[[], None]:
    """Make the controller's database refuse writes; returns what makes it writable again."""
    engine = controller.audit.engine

    def refuse(connection: object, _record: object, _proxy: object) -> None:
        connection.execute("PRAGMA query_only=ON")  # type: ignore[attr-defined]

    event.listen(engine, "checkout", refuse)

    def repair() -> None:
        event.remove(engine, "checkout", refuse)
        engine.dispose()

    return repair


def test_a_state_that_cannot_be_written_holds_and_lowers_only(tmp_path: Path) -> None:
    slurm = make_slurm()
    file = tmp_path / "cap.csv"
    file.write_text("time_s,cap_w\n0,1800\n")
    from tests.live.drive import lab_machine

    controller = claimed(slurm, tmp_path, cap=CapFile(str(file), lab_machine()))
    running = [slurm.submit(1, 500.0, watts=200, limit_s=900.0) for _ in range(2)]
    for _ in range(3):
        controller.round()
        slurm.step()
    assert all(job.state == "RUNNING" for job in running)
    repair = unwritable(controller)
    waiting = slurm.submit(1, 50.0, watts=200)
    loose = slurm.submit(1, 50.0, watts=200, partition="p2")
    slurm.release(loose)
    file.write_text("time_s,cap_w\n0,1300\n")
    os.utime(file, ns=(0, 1))
    for _ in range(3):
        report = controller.round()
        assert report is not None
        assert report.problems
        slurm.now_s += 1.0
    assert slurm.open_w == 500, "the pool follows a lower cap"
    assert loose.priority == 0, "what was released outside is held"
    assert waiting.priority == 0, "nothing starts"
    file.write_text("time_s,cap_w\n0,1800\n")
    os.utime(file, ns=(0, 2))
    controller.round()
    assert slurm.open_w == 500, "nothing is raised"
    repair()
    for _ in range(4):
        report = controller.round()
        slurm.step()
    assert report is not None
    assert report.problems == []
    assert (waiting.state, loose.state, slurm.open_w) == ("RUNNING", "RUNNING", 1000)
    again = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W))
    assert again.planner.memory.placed.keys() == controller.planner.memory.placed.keys(), "what was unsaved is saved"


def test_a_start_that_cannot_be_stored_is_reported_as_long_as_it_waits(tmp_path: Path) -> None:
    """A full disk: what writes nothing succeeds (a delete of no row), and must not take the report back."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    refuse = "CREATE TRIGGER full BEFORE INSERT ON live_placed BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
    with controller.audit.engine.begin() as connection:
        connection.execute(sql(refuse))
    waiting = slurm.submit(1, 50.0, watts=200)
    for _ in range(3):
        report = controller.round()
        assert report is not None
        assert any("disk is full" in problem for problem in report.problems)
        assert waiting.priority == 0
    with controller.audit.engine.begin() as connection:
        connection.execute(sql("DROP TRIGGER full"))
    report = controller.round()
    assert report is not None
    assert (report.problems, waiting.priority > 0) == ([], True)


def test_a_job_whose_update_was_not_recorded_is_not_released_either(tmp_path: Path) -> None:
    """The disk has room again between the two writes of a start: the job must not start on its old watts."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    refuse = "CREATE TRIGGER full BEFORE INSERT ON live_audit WHEN NEW.kind = 'update' "
    with controller.audit.engine.begin() as connection:
        connection.execute(sql(f"{refuse} BEGIN SELECT RAISE(FAIL, 'disk is full'); END"))
    job = slurm.submit(1, 50.0, watts=800, most_nodes=4, limit_s=60.0)
    for _ in range(3):
        controller.round()
        assert job.priority == 0
    with controller.audit.engine.begin() as connection:
        connection.execute(sql("DROP TRIGGER full"))
    controller.round()
    assert job.priority > 0, "no back-off: the job is not to blame"


@pytest.mark.parametrize("again", [False, True])
def test_a_job_that_an_administrator_released_keeps_its_least_number_of_nodes(tmp_path: Path, again: bool) -> None:
    """Slurm tries to start it and shows an estimate then; counted with that the job would never fit this cap."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path, 1300.0)  # 500 W for jobs
    running = slurm.submit(2, 20.0, watts=400, limit_s=60.0)
    job = slurm.submit(1, 10.0, watts=800, most_nodes=4, limit_s=60.0)
    for _ in range(3):
        controller.round()
        slurm.step()
    assert (running.state, job.priority) == ("RUNNING", 0)
    slurm.release(job)
    slurm.step()
    (shown,) = [row.nodes for row in slurm.observe().jobs if row.number == job.id]
    assert (job.state, job.reason, shown) == ("PENDING", "Licenses", 4)
    controller.round()
    assert job.priority == 0, "the policy decides"
    if again:
        controller.run_dir.release()
        controller = claimed(slurm, tmp_path, 1300.0)
    for _ in range(100):
        if job.state == "COMPLETED":
            break
        controller.round()
        slurm.step()
    assert job.state == "COMPLETED"
    assert len(job.held_nodes) == 2, "as many as fit"


def test_a_damaged_database_does_not_end_a_controller_that_runs(tmp_path: Path) -> None:
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    first = slurm.submit(1, 500.0, watts=200, limit_s=900.0)
    for _ in range(3):
        controller.round()
        slurm.step()
    assert first.state == "RUNNING"
    controller.audit.engine.dispose()
    for path in tmp_path.glob("live.db*"):
        path.write_bytes(b"no database at all" * 1000)
    held = slurm.submit(1, 50.0, watts=200)
    report = controller.round()
    assert report is not None
    assert report.problems
    assert held.priority == 0


def test_an_old_snapshot_is_not_written_from(tmp_path: Path) -> None:
    """Stopped for a minute and resumed, nobody took over: the rest of the batch waits for a new snapshot."""
    slurm = make_slurm()
    controller = claimed(slurm, tmp_path)
    jobs = [slurm.submit(1, 50.0, watts=200) for _ in range(4)]
    now = [0.0]
    controller.applier.clock = lambda: now[0]
    controller.applier.boundary = lambda where: now.__setitem__(0, now[0] + 60.0) if where == "after" else None
    controller.round()
    assert len(slurm.writes) == 1
    controller.applier.boundary = lambda _: None
    controller.round()
    assert all(job.priority > 0 for job in jobs)


def test_a_run_folder_has_one_controller_and_its_lease_ends_with_it(tmp_path: Path) -> None:
    first, second = RunDir(tmp_path / "run"), RunDir(tmp_path / "run")
    first.claim()
    assert read_lease(tmp_path / "run") is None, "not before it has planned a round"
    first.take_lease(100.0)
    with pytest.raises(InputError) as caught:
        second.claim()
    assert caught.value.where == tmp_path / "run"
    assert first.lease is not None
    assert first.lease.held()
    first.release()
    assert read_lease(tmp_path / "run") is None
    second.claim()
    second.release()


def test_a_controller_that_cannot_start_keeps_no_release_away(tmp_path: Path) -> None:
    """systemd starts it again every five seconds; each time it fails before its first round."""
    slurm = make_slurm()
    job = slurm.submit(1, 50.0, watts=200)
    broken = RunDir(tmp_path / "run")
    broken.claim()
    done = release_all(settings(tmp_path), slurm, now_s=slurm.now_s)
    assert (done.released, done.exit_status) == (1, 0)
    assert job.priority > 0


@pytest.mark.parametrize("content", [None, "", "time_s,cap_w\n0,lots\n"])
def test_a_cap_file_that_cannot_be_read_at_the_start_closes_the_pool(tmp_path: Path, content: str | None) -> None:
    from tests.live.drive import lab_machine

    slurm, file = make_slurm(), tmp_path / "cap.csv"
    if content is not None:
        file.write_text(content)
    caps = CapFile(str(file), lab_machine())
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=caps)
    job = slurm.submit(1, 50.0, watts=200)
    for _ in range(3):
        report = controller.round()
        slurm.step()
    assert report is not None
    assert report.problems == [caps.problem] != [""]
    assert (slurm.open_w, job.priority) == (0, 0)
    file.write_text("time_s,cap_w\n0,1200\n")
    os.utime(file, ns=(0, 1))
    for _ in range(3):
        report = controller.round()
        slurm.step()
    assert report is not None
    assert report.problems == []
    assert (slurm.open_w, job.state) == (400, "RUNNING")
    with pytest.raises(InputError):
        CapFile("80 bananas", lab_machine())


def test_systemd_is_told_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("WATCHDOG=1")
    where = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(where)
        server.settimeout(5.0)
        monkeypatch.setenv("NOTIFY_SOCKET", where)
        assert notify("WATCHDOG=1")
        assert server.recv(64) == b"WATCHDOG=1"
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not notify("WATCHDOG=1")
