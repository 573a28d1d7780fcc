"""What passes between planner and guard: frames, a server, signs of life, the guard's own file."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tests.live.guard.test_checks import CAP_W, IDLE_W, guard_of
from tests.live.guard.world import NODE_W, NaiveJob, NaiveSlurm
from tests.live.recordings import Recorded
from tests.live.slurmlab import wait_for
from wattqueue.errors import InputError, OutputError
from wattqueue.live.cluster import ChangeJob, HoldJob, JobFields, JobKey, ReleaseJob, SetDomains, SetPool, Write
from wattqueue.live.config import GuardSection, LiveConfig
from wattqueue.live.files.lease import BEAT, Lease, LeaseLostError, read_lease
from wattqueue.live.files.status import read_beat
from wattqueue.live.guard.client import GuardConnection, GuardedCommands, GuardedRunDir, GuardWriter, to_json
from wattqueue.live.guard.messages import KINDS, from_json
from wattqueue.live.guard.place import PlannerPlace
from wattqueue.live.guard.serve import WriteGuard
from wattqueue.live.guard.settings import read_settings
from wattqueue.live.guard.sockets import CONNECTIONS, listen, serve
from wattqueue.live.guard.wire import Packet, WireError, receive, send
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import SlurmError
from wattqueue.live.slurm.lists import JOBS, POOL
from wattqueue.live.units import guard_text
from wattqueue.live.watts.bound import NO_OVERSHOOT

KEY = JobKey("7", 1795245457.0)


class Served:
    """A guard that serves in a thread."""

    def __init__(self, guard: WriteGuard) -> None:
        self.guard, self.said, self.stopped = guard, list[str](), False
        self.listener = listen(guard.settings.socket)
        self.failed: list[BaseException] = []
        self.planners: list[GuardConnection] = []
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        try:
            serve(self.guard, self.listener, self.said.append, lambda: self.stopped)
        except LeaseLostError as error:
            self.failed.append(error)

    def connection(self) -> GuardConnection:
        self.planners.append(GuardConnection(self.guard.settings.socket, 10.0))
        return self.planners[-1]

    def end(self) -> None:
        for one in self.planners:
            one.close()
        self.stopped = True
        self.thread.join(10.0)
        self.listener.close()


@pytest.fixture
def slurm() -> NaiveSlurm:
    return NaiveSlurm(open_w=100)


@pytest.fixture
def served(slurm: NaiveSlurm, tmp_path: Path) -> Iterator[Served]:
    found = Served(guard_of(slurm, tmp_path))
    yield found
    found.end()


def test_a_planner_reads_and_writes_through_the_guard(served: Served, slurm: NaiveSlurm) -> None:
    slurm.submit(NaiveJob(1, "large", 2, 200))
    guard = served.connection()
    assert GuardedCommands(guard).run(JOBS).out == slurm.run(JOBS).out
    writer = GuardWriter(guard)
    key = JobKey("1", 1.0)
    assert writer.apply_batch([SetPool("watts", "", "", 300), ReleaseJob("1", "", "", key=key)]) == ["", ""]
    assert (slurm.open_w, slurm.jobs["1"].held) == (300, False)
    with pytest.raises(SlurmError, match="the cap that the guard reads leaves 800 W"):
        writer.apply(SetPool("watts", "", "", CAP_W))
    with pytest.raises(SlurmError, match="only commands that read"):
        GuardedCommands(guard).run(("scontrol", "reconfigure"))


def test_a_second_planner_reads_and_waits_until_the_first_is_gone(served: Served, slurm: NaiveSlurm) -> None:
    """Neither disconnects the other: the first one's rounds go on, the second one's writes are refused."""
    first, second = served.connection(), served.connection()
    for watts in range(150, 160):
        assert GuardWriter(first).apply_batch([SetPool("watts", "", "", watts)]) == [""]
        assert GuardedCommands(second).run(JOBS).code == 0
        (error,) = GuardWriter(second).apply_batch([SetPool("watts", "", "", 90)])
        assert "another planner is at work" in error
        first.ask(Packet({"do": "alive"}))
    for request in ("alive", "away", "submit-data"):
        with pytest.raises(SlurmError, match="another planner is at work"):
            second.ask(Packet({"do": request}))
    assert slurm.open_w == 159
    assert read_beat(served.guard.settings.run_dir) is not None, "a planner that waits and ends is not away"
    first.close()
    wait_for("the place", lambda: GuardWriter(second).apply_batch([SetPool("watts", "", "", 90)]) == [""], 10.0)
    assert slurm.open_w == 90


def test_a_planner_that_stands_still_loses_its_place_and_one_that_speaks_keeps_it() -> None:
    now_s = [0.0]
    place = PlannerPlace(15.0, lambda: now_s[0])
    for _ in range(100):
        assert place.refusal("one", "alive") == ""
        now_s[0] += 14.0
        assert "last heard 14 s ago" in place.refusal("two", "write")
        assert place.refusal("two", "read") == place.refusal("two", "status") == ""
    now_s[0] += 1.0
    assert place.refusal("one", "read") == "", "reading is no sign of life"
    assert place.refusal("two", "write") == ""
    assert "another planner" in place.refusal("one", "write"), "it goes on after it stood still"
    place.leave("one")
    assert place.holder == "two"
    place.leave("two")
    assert place.refusal("one", "write") == ""


@pytest.mark.parametrize("what", ["nonsense", "", 1, None, [], {}, ["write"]])
def test_a_request_that_is_none_takes_no_place(served: Served, what: object) -> None:
    with pytest.raises(SlurmError, match="unknown request"):
        served.connection().ask(Packet({"do": what}))
    assert served.connection().ask(Packet({"do": "status"})).header["silent_s"] is None


def test_more_connections_than_the_guard_serves_take_nothing_from_those_that_are(served: Served) -> None:
    first = served.connection()
    first.ask(Packet({"do": "alive"}))
    others = [served.connection() for _ in range(CONNECTIONS - 1)]
    for one in others:
        one.ask(Packet({"do": "status"}))
    with pytest.raises(SlurmError, match="no answer"):
        served.connection().ask(Packet({"do": "status"}))
    first.ask(Packet({"do": "alive"}))
    others[0].close()
    late = served.connection()
    wait_for("room", lambda: asked(late), 10.0)


def asked(planner: GuardConnection) -> bool:
    try:
        return bool(planner.ask(Packet({"do": "status"})).header)
    except SlurmError:
        return False


def test_the_guard_says_what_it_checks_against(served: Served) -> None:
    found = served.connection().ask(Packet({"do": "status"})).header
    assert found == {
        "cap_w": float(CAP_W), "problem": "", "node_w": dict(NODE_W), "without_jobs_w": float(IDLE_W), "free": [],
        "overshoot": [0.0, 0.0], "accepted": [], "last_resort": [], "silent_s": None, "frequency_dir": "",
        "limits_socket": "", "consent": {"users": {}, "accounts": {}, "others": False},
    }  # fmt: skip
    planner = served.connection()
    planner.ask(Packet({"do": "alive"}))
    assert served.connection().ask(Packet({"do": "status"})).header["silent_s"] < 60.0
    served.guard.cap.text = "none"
    assert planner.ask(Packet({"do": "status"})).header["cap_w"] is None


NO_FRAMES = {
    "nothing": b"",
    "a byte": b"\x00",
    "another protocol": b"GET / HTTP/1.0\r\n\r\n",
    "too long": b"\xff" * 64,
    "no object": b"\x00\x00\x00\x02\x00\x00\x00\x00[]",
    "nested": b"\x00\x00\x20\x00\x00\x00\x00\x00" + b"[" * 8_192,
    "any bytes": bytes(range(256)) * 16,
}


@pytest.mark.parametrize("sent", NO_FRAMES.values(), ids=NO_FRAMES)
def test_what_is_no_frame_ends_the_connection_and_not_the_guard(served: Served, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(served.guard.settings.socket))
        channel.sendall(sent)
    assert served.connection().ask(Packet({"do": "alive"})).header == {"problem": ""}


def test_heartbeat_and_lease_are_the_guards(served: Served, slurm: NaiveSlurm, tmp_path: Path) -> None:
    run_dir = GuardedRunDir(tmp_path / "planner", guard=served.connection())
    slurm.now_s = 5_000.0
    run_dir.take_lease(1.0)
    run_dir.beat("observe", 1.0, 1.0)
    assert read_beat(tmp_path) is None
    run_dir.beat("control", 1.0, 1.0)
    assert read_beat(tmp_path) == ("control", 5_000.0)
    slurm.now_s += 29.0  # a quarter of away_s is 30 s
    run_dir.beat("control", 1.0, 1.0)
    assert read_beat(tmp_path) == ("control", 5_000.0)
    slurm.now_s += 2.0
    run_dir.beat("control", 1.0, 1.0)
    assert read_beat(tmp_path) == ("control", 5_031.0)
    found = read_lease(tmp_path)
    assert found is not None
    assert found[0].startswith("guard/")
    run_dir.away()
    assert not (tmp_path / BEAT).exists()


def test_a_guard_whose_lease_was_taken_over_ends_before_its_next_write(served: Served, slurm: NaiveSlurm) -> None:
    guard = served.connection()
    assert GuardWriter(guard).apply_batch([SetPool("watts", "", "", 200)]) == [""]
    Lease(served.guard.settings.run_dir, "release").take(slurm.now_s)
    (error,) = GuardWriter(guard).apply_batch([SetPool("watts", "", "", 300)])
    assert "no answer" in error
    served.thread.join(10.0)
    assert isinstance(served.failed[0], LeaseLostError)
    assert slurm.open_w == 200


def test_without_a_guard_a_round_fails_and_says_why(tmp_path: Path) -> None:
    guard = GuardConnection(tmp_path / "nobody")
    with pytest.raises(SlurmError, match="wattqueue") as caught:
        SlurmCluster(GuardedCommands(guard), writer=GuardWriter(guard)).observe()
    assert "guard" in str(caught.value)
    with pytest.raises(OutputError, match="no answer"):
        GuardedRunDir(tmp_path, guard=guard).beat("control", 1.0, 1.0)


def test_a_snapshot_through_the_guard_is_the_same(slurm: NaiveSlurm, tmp_path: Path) -> None:
    guard = guard_of(slurm, tmp_path)
    guard.slurm = Recorded()
    served = Served(guard)
    try:
        found = SlurmCluster(GuardedCommands(served.connection()), clock=lambda: 1.0).observe()
    finally:
        served.end()
    direct = SlurmCluster(Recorded(), clock=lambda: 1.0).observe()
    assert found.jobs
    assert all(
        getattr(found, name.name) == getattr(direct, name.name) for name in fields(direct) if name.name != "site"
    )


def test_frames_of_any_text_arrive() -> None:
    one, two = socket.socketpair()
    with one, two:
        for text in ("", "a|b\n", "\u20ac" * 10, "x" * 3_000_000):
            thread = threading.Thread(target=send, args=(one, Packet({"do": "read"}, text)))
            thread.start()
            assert receive(two, 10_000_000) == Packet({"do": "read"}, text)
            thread.join()
        send(one, Packet({}, "x" * 100))
        with pytest.raises(WireError, match="longer"):
            receive(two, 50)


@pytest.mark.parametrize(
    "write",
    [
        SetPool("watts", "1", "2", 2, why="x"),
        HoldJob("7", "a", "b", key=KEY),
        ChangeJob(
            "7", "a", "b", JobFields("p1", (1, 2), 3, ("n1", "n2"), 60.0, "text"), recount=True, key=KEY, why="because"
        ),
        ChangeJob("7", "a", "b", JobFields(nodes=()), key=KEY),
    ],
)
def test_a_write_is_the_same_behind_the_socket(write: Write) -> None:
    assert from_json(json.loads(json.dumps(to_json(write)))) == write


def test_every_kind_of_write_can_be_sent() -> None:
    """But those under power domains, which are refused beside a guard."""
    assert set(KINDS.values()) == set(Write.__subclasses__()) - {SetDomains}


CONFIG = {
    "machine": "quartz",
    "cap": "400kW",
    "run_dir": "/var/lib/wattqueue/run",
    "guard": {"socket": "/run/wattqueue-guard/socket", "run_dir": "/var/lib/wattqueue-guard", "planner": "nobody"},
    "slurm": {"conf": "/etc/slurm/slurm.conf"},
}


def test_the_file_that_install_writes_is_read(tmp_path: Path) -> None:
    config = LiveConfig.model_validate(CONFIG)
    guard = config.guard
    assert isinstance(guard, GuardSection)
    path = tmp_path / "guard.toml"
    path.write_text(guard_text(config, guard, {"batch": 300, "debug": 300}, ["login"], 95_000.5, 400_000.0))
    found = read_settings(path)
    assert (found.cap, found.without_jobs_w, found.node_w) == ("400000W", 95_001.0, {"batch": 300, "debug": 300})
    assert found.free == {"login"}
    assert found.slurm == {"conf": "/etc/slurm/slurm.conf"}
    assert (found.accepted, found.last_resort, found.overshoot) == (frozenset(), frozenset(), NO_OVERSHOOT)
    assert config.beat_dir == found.run_dir
    for cap_w, text in ((math.inf, "none"), (math.nan, "400kW")):
        path.write_text(guard_text(config, guard, {}, [], 0.0, cap_w))
        assert read_settings(path).cap == text


PLAIN = 'socket = "s"\nrun_dir = "."\ncap = "10kW"\nwithout_jobs_w = 1000\n'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "node_w|socket"),
        (PLAIN, "node_w"),
        (PLAIN + "[node_w]\nbatch = 1.5\n", "node_w.batch"),
        (PLAIN + "[node_w]\nbatch = -1\n", "node_w.batch"),
        (PLAIN + "more = 1\n[node_w]\n", "more"),
        (PLAIN + 'accepted = ["all"]\n[node_w]\n', "accepted"),
        (PLAIN + 'last_resort = ["kill"]\n[node_w]\n', "last_resort"),
        (PLAIN + 'planner = "no such account"\n[node_w]\n', "no such account"),
        (PLAIN + 'overshoot = "10 apples"\n[node_w]\n', "overshoot"),
        (PLAIN.replace("1000", "-1") + "[node_w]\n", "without_jobs_w"),
        (PLAIN.replace("1000", "true") + "[node_w]\n", "without_jobs_w"),
        (PLAIN.replace("10kW", "80%") + "[node_w]\n", "share"),
        ("socket = \n", "TOML"),
    ],
)
def test_what_is_wrong_in_the_guards_file_is_named(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "guard.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        read_settings(path)


PLACES = {
    "no file": ("", "cannot be read"),
    "a run folder in a file": (PLAIN.replace('"."', '"guard.toml/run"'), "the run folder cannot be used: Not a dir"),
    "a socket in no folder": (PLAIN.replace('"s"', '"missing/s"'), "nothing can listen here: No such file"),
    "a path that is too long": (PLAIN.replace('"s"', f'"{"s" * 108}"'), "nothing can listen here: AF_UNIX path too"),
}


@pytest.mark.parametrize(("text", "named"), PLACES.values(), ids=PLACES)
def test_the_command_says_what_is_wrong_and_ends(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "guard.toml"
    if text:
        path.write_text(f"{text}[node_w]\n")
    argv = [sys.executable, "-m", "wattqueue.live.guard", "-c", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_checks_are_prepared_while_the_planner_decides(served: Served, slurm: NaiveSlurm) -> None:
    guard = served.connection()
    for argv in (JOBS, POOL):
        GuardedCommands(guard).run(argv)
    wait_for("a bound of these lists", lambda: not served.guard.outdated, 10.0)
    calls = len(slurm.calls)
    assert GuardWriter(guard).apply_batch([SetPool("watts", "", "", 200)]) == [""]
    assert len(slurm.calls) == calls
