"""Lists from slurmrestd: the same rows as from the commands, and every answer that is none is an error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.site import Site, cap_text
from tests.live.slurmlab import OPERATOR, USER
from wattqueue.errors import InputError
from wattqueue.live.config import load_config
from wattqueue.live.recording import dumps, encode
from wattqueue.live.slurm.commands import Commands, Slurm, SlurmError
from wattqueue.live.slurm.observe import DETAILS, JOBS, NODES, POOL
from wattqueue.live.slurm.rest import CutShortError, Rest, job_lines, node_state, tasks_of
from wattqueue.model.signals import Cap

JOB: dict[str, Any] = {
    "job_id": 7, "array_job_id": 0, "array_task_id": None, "array_task_string": "", "submit_time": 100,
    "job_state": "PENDING", "state_reason": "JobHeldUser", "partition": "p1,p2", "node_count": 2, "cpus": 20,
    "max_nodes": 3,
    "time_limit": 1560, "licenses": "watts:300", "priority": 0, "user_id": 1000, "start_time": 0, "nodes": "",
    "required_nodes": "n8", "dependency": "", "het_job_id": 0, "het_job_offset": 0,
}  # fmt: skip


def fake() -> FakeSlurm:
    return FakeSlurm({"p1": ["n1"]}, 1000)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("1-4%2", [1, 2, 3, 4]), ("3", [3]), ("1,7,9-10", [1, 7, 9, 10]), ("0-20:5", [0, 5, 10, 15, 20])],
)
def test_tasks_of_an_array(text: str, tasks: list[int]) -> None:
    assert list(tasks_of(text)) == tasks


@pytest.mark.parametrize("text", ["", "x", "-", "1-99999999999"])
def test_no_tasks(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - int's own words
        list(tasks_of(text))


def test_an_array_cut_short_is_left_to_squeue() -> None:
    with pytest.raises(CutShortError):
        list(tasks_of("1,3,5,..."))


def test_rows_of_jobs() -> None:
    assert list(job_lines(JOB)) == ["7|7|100|PENDING|JobHeldUser|p1,p2|2|20|1560:00|watts:300|0|1000|N/A||n8||3"]
    assert [line.split("|")[8] for line in job_lines(JOB | {"time_limit": None})] == ["UNLIMITED"]
    names: dict[str, dict[str, Any]] = {
        "3_1 3_2": {"array_job_id": 3, "array_task_string": "1-2"},
        "3_9": {"array_job_id": 3, "array_task_id": 9},
        "5+1": {"het_job_id": 5, "het_job_offset": 1},
    }
    for wanted, change in names.items():
        assert " ".join(line.split("|")[0] for line in job_lines(JOB | change)) == wanted
    assert list(job_lines(JOB | {"job_state": "COMPLETED"})) == []


@pytest.mark.parametrize(
    ("base", "flags", "state"),
    [
        ("idle", [], "idle"),
        ("allocated", ["DRAIN"], "draining"),
        ("idle", ["DRAIN"], "drained"),
        ("idle", ["POWERED_DOWN"], "idle~"),
        ("idle", ["POWERING_DOWN"], "idle%"),
        ("idle", ["POWERING_UP", "NOT_RESPONDING"], "idle#*"),
        ("down", ["NOT_RESPONDING"], "down*"),
        ("idle", ["COMPLETING"], "completing"),
        ("idle", ["PLANNED"], "planned"),
        ("idle", ["RESERVED"], "reserved"),
        ("mixed", ["MAINTENANCE"], "maint"),
    ],
)
def test_states_of_nodes(base: str, flags: list[str], state: str) -> None:
    assert node_state(base, flags) == state


class Answers(BaseHTTPRequestHandler):
    """A slurmrestd that answers what the test says."""

    status, body = 200, b""
    seen: list[tuple[str, str]] = []  # noqa: RUF012 - of the class on purpose: a handler lives for one request

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("X-SLURM-USER-TOKEN", "")))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    held = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=held.serve_forever)
    thread.start()
    Answers.seen.clear()
    yield f"http://127.0.0.1:{held.server_address[1]}"
    held.shutdown()
    held.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("status", "body", "quoted", "token"),
    [
        (401, b"Authentication failure", "Authentication failure", True),
        (500, b"oh", "500", True),
        (500, b'{"errors": [{"description": "slurmctld config is unable to load"}]}', "unable to load", True),
        (200, b"garbage", "jobs", False),
        (200, b"[]", "jobs", False),
        (200, b'{"jobs": [{}]}', "jobs", False),
        (200, b'{"errors": [{"error": "slurm is down"}]}', "slurm is down", False),
    ],
)
def test_an_answer_that_is_none_is_an_error(server: str, status: int, body: bytes, quoted: str, token: bool) -> None:
    """What slurmrestd itself printed is quoted; where the token may be the cause, the hint says so."""
    Answers.status, Answers.body = status, body
    rest = Rest(fake(), server, "me", lambda: "hunter2")
    with pytest.raises(SlurmError) as error:
        rest.run(JOBS)
    assert quoted in error.value.what
    assert ("token" in (error.value.hint or "")) == token
    assert "hunter2" not in str(error.value)
    assert Answers.seen == [("/slurm/v0.0.38/jobs", "hunter2")]
    rest.close()


def test_nobody_there_is_an_error_and_other_commands_are_run() -> None:
    slurm = fake()
    rest = Rest(slurm, "unix:/no/such/socket")
    with pytest.raises(SlurmError) as caught:
        rest.run(NODES)
    assert caught.value.where == "/no/such/socket"
    slurm.submit(1, 1.0, watts=1)
    assert rest.run(("scontrol", "release", "1")).code == 0


def test_a_list_cut_short_falls_back_to_squeue(server: str) -> None:
    Answers.status = 200
    Answers.body = json.dumps({"jobs": [JOB | {"array_job_id": 3, "array_task_string": "1,..."}]}).encode()
    slurm = fake()
    slurm.submit(1, 1.0, watts=1)
    rest = Rest(slurm, server)
    assert rest.run(JOBS).out == slurm.run(JOBS).out
    rest.close()


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('rest = "localhost:6820"', "slurm.rest"),
        ('rest = "http://other.host:6820"\nrest_token_file = "t"', "slurm.rest"),
        ('rest = "unix:/x"\nrest_version = "38"', "rest_version"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, lines: str, key: str) -> None:
    file = tmp_path / "live.toml"
    file.write_text(f'machine = "m"\n[slurm]\n{lines}\n')
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert caught.value.where == file
    assert key in caught.value.what


real = [pytest.mark.slurm, pytest.mark.compiled, pytest.mark.xdist_group("slurm")]


def both(site: Site) -> tuple[Slurm, Rest]:
    commands = Commands(environment={"SLURM_CONF": site.lab.env["SLURM_CONF"]})
    return commands, Rest(commands, f"unix:{site.lab.rest_socket}")


def jobs_of_every_kind(site: Site) -> None:
    """Running, held by us and by their users, an array with a limit, dependent, for later; a node that drains."""
    lab = site.lab
    site.beat_once()
    runs = [site.gated("-N2", "-t", "30", "-p", "p1"), site.gated("-N1", "-t", "2-03:00", "-p", "p2")]
    for job in runs:
        lab.run(["scontrol", "release", job], user=OPERATOR)
    lab.wait_states(runs, ["RUNNING"])
    lab.submit("-N1-3", "-n", "20", "-p", "p1,p2", "-t", "1-02:00:00", "-J", "a|b\nc", "--comment", "x|y")
    lab.submit("--array=1-4%2", "-p", "p2", "-w", "n8")
    lab.submit("-d", f"afterok:{runs[0]}", "-p", "p2", "--hold")
    lab.submit("--begin=now+1hour")
    ended = lab.submit("-N1", "-p", "p2")
    lab.run(["scontrol", "release", ended], user=OPERATOR)
    lab.wait_states([ended], ["COMPLETED"])
    for node in ("n1", "n4"):
        lab.run(["scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test"])


class TestReal:
    """Against a real slurmrestd of Slurm 22.05."""

    pytestmark = real

    def test_the_view_is_the_same_byte_for_byte_whoever_is_asked(self, site: Site, tmp_path: Path) -> None:
        jobs_of_every_kind(site)
        now_s = time.time()
        views, seen = [], []
        for slurm in both(site):
            name = type(slurm).__name__
            folder = tmp_path / name
            folder.mkdir()
            cap = Cap.constant(8 * 100.0 + 800.0)
            controller = make_controller(slurm, folder, lambda: now_s, cap=cap, machine=lab_machine())
            snapshot = controller.observer.snapshot()
            seen.append((sorted(snapshot.jobs, key=repr), snapshot.nodes, snapshot.pool, snapshot.details))
            views.append(dumps(encode(controller.planner.plan(snapshot, {}, telemetry_ok=True).view)))
            controller.observer.close()
        site.lab.run(["scontrol", "update", "NodeName=n1,n4", "State=RESUME"])
        commands, rest = seen
        assert len(commands[0]) == 9
        assert {job.state for job in commands[0]} == {"PENDING", "RUNNING"}
        assert [repr(job) for job in rest[0]] == [repr(job) for job in commands[0]]
        assert sorted(rest[1]) == sorted(commands[1])
        assert rest[2:] == commands[2:]
        assert views[0] == views[1]

    def test_a_token_opens_it_over_loopback_and_a_wrong_one_does_not(self, site: Site) -> None:
        commands, unix = both(site)
        token = site.lab.token()
        jwt = Rest(commands, site.lab.rest_url, OPERATOR, lambda: token)
        for argv in (JOBS, DETAILS, NODES, POOL):
            assert jwt.run(argv).out == unix.run(argv).out
        for user, word in ((OPERATOR, "wrong"), (OPERATOR, ""), (OPERATOR, site.lab.token(USER))):
            closed = Rest(commands, site.lab.rest_url, user, partial(str, word))
            with pytest.raises(SlurmError) as caught:
                closed.run(JOBS)
            assert caught.value.hint
            closed.close()
        jwt.close()
        unix.close()

    def test_a_controller_that_observes_through_it_brings_every_job_to_its_end(self, site: Site) -> None:
        site.start(site.configure(cap_text(600), slurm=f'rest = "unix:{site.lab.rest_socket}"'))
        site.wait_up()
        jobs = [site.lab.submit("-N1", "-p", "p1,p2", seconds=0.3) for _ in range(8)]
        site.wait_ended(jobs, 600)
        site.stop()
        assert set(site.starts(jobs).values()) == {1}
        site.check_audit()
