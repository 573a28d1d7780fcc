"""The page's server: who sees what, what it refuses, how much it sends, and whom it drops."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import re
import resource
import socket
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.bigview import NOW_S, BigSlurm
from tests.live.slurmlab import wait_for
from tests.page.served import TOKEN, Served, configure, controller_of, served
from wattqueue.errors import InputError
from wattqueue.live.config import load_config
from wattqueue.live.files.page_files import PAGE
from wattqueue.live.reports.why import WHY
from wattqueue.page.feed import Feed, Stream
from wattqueue.page.live import LiveState

NAME = "<img src=x onerror=alert(1)>"
USER = "ada"


def fill(folder: Path) -> None:
    """State of a controller of this process, with a user and a job name that must not get out."""
    controller_of(BigSlurm(30, 8, 2), folder, 1400.0, 8).round()
    file = folder / "run" / PAGE
    page = json.loads(file.read_text())
    assert page["waiting"]
    for row in (*page["waiting"], *page["running"]):
        row[-2:] = [USER, NAME]
    file.write_text(json.dumps(page))
    status = json.loads((folder / "run/status.json").read_text())
    status["problems"] = [f"user {USER} misnamed {NAME}"]
    (folder / "run/status.json").write_text(json.dumps(status))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    fill(folder)
    with served(configure(folder)) as found:
        yield found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(token: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'anyone:{token}'.encode()).decode()}"}


@pytest.mark.parametrize("path", ["/", "/events", "/names", "/static/live.js"])
@pytest.mark.parametrize("given", [bearer("wrong"), bearer(""), basic("wrong"), {"Authorization": "Basic !"}])
def test_a_wrong_token_is_answered_without_detail(page: Served, path: str, given: dict[str, str]) -> None:
    answer = page.ask(path, **given)
    assert answer.status == 401
    assert answer.body == b""


@pytest.mark.parametrize("given", [bearer(TOKEN), basic(TOKEN)])
def test_with_the_token_names_are_there(page: Served, given: dict[str, str]) -> None:
    found = page.events(("now", "queue", "running", "events", "health"), **given)
    assert found["now"]["names"]
    assert found["queue"]["rows"][0][-2:] == [USER, NAME]
    assert found["now"]["problems"] == [f"user {USER} misnamed {NAME}"]


def test_without_a_token_no_name_is_sent(page: Served) -> None:
    found = page.events(("now", "queue", "running", "events", "health", "nodes", "ahead"))
    text = json.dumps(found)
    assert USER not in text
    assert "img" not in text
    assert found["now"]["problem_count"] == 1
    assert found["queue"]["rows"], "the queue itself is there"


def test_the_name_of_a_budget_is_a_name(tmp_path: Path) -> None:
    """A budget may be called after its user: its name is for those who have the token."""
    fill(tmp_path)
    path = tmp_path / "run" / WHY
    state = json.loads(path.read_text())
    state["jobs"]["77"] = ["budget", f"budget {USER}<b> has no room for it before 2026-12-01 00:00"]
    path.write_text(json.dumps(state))
    with served(configure(tmp_path)) as found:
        plain = json.dumps(found.events(("now", "queue")))
        assert "an energy budget" in plain
        assert USER not in plain
        assert f"budget {USER}<b> has no room" in json.dumps(found.events(("now", "queue"), **bearer(TOKEN)))


def test_a_page_without_a_token_file_shows_no_names(tmp_path: Path) -> None:
    fill(tmp_path)
    with served(configure(tmp_path, token=False)) as found:
        assert USER not in json.dumps(found.events(("now", "queue", "running", "health")))
        assert found.ask("/events", **bearer("anything")).status == 401, "there is no token that is right"
        assert found.ask("/events", **bearer("")).status == 401


def test_a_browser_is_asked_for_the_token(page: Served) -> None:
    asked = page.ask("/names")
    assert (asked.status, asked.body) == (401, b"")
    assert asked.headers["www-authenticate"].startswith("Basic")
    assert page.ask("/names", **basic(TOKEN)).status == 303


def test_nothing_can_be_written(page: Served) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/", "/events", "/static/live.js"):
            assert page.ask(path, method=method).status == 405
    for path in ("/static/../live.toml", "/static/%2e%2e%2flive.toml", "/static/page.json", "/run/status.json"):
        assert page.ask(path).status == 404


def test_every_answer_forbids_what_the_page_does_not_need(page: Served) -> None:
    for path in ("/", "/static/live.js", "/names"):
        headers = page.ask(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    html = page.ask("/").body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", html), "no inline script"
    assert "<style" not in html
    assert " style=" not in html
    assert not re.search(r"\son\w+=", html)
    assert not re.search(r"https?://", html)


def test_a_request_under_another_name_is_refused(page: Served) -> None:
    """A site that points its own name at this host cannot read the page through a browser."""
    for name in ("evil.example", f"evil.example:{page.port}", ""):
        assert page.ask("/events", Host=name).status == 421
    assert page.ask("/", Host="localhost").status == 200
    assert page.ask("/", Host=f"[::1]:{page.port}").status == 200


def test_the_first_load_is_small(page: Served) -> None:
    """Page, style, scripts and first events, as a browser gets them."""
    html = page.ask("/").body.decode()
    names = re.findall(r'(?:src|href)="(static/[\w.]+)"', html)
    assert len(names) == 7
    size = 0
    for name in ("", *names):
        answer = page.ask(f"/{name}", Accept_Encoding="gzip")
        assert answer.headers["content-encoding"] == "gzip"
        size += len(answer.body) + 400
        assert page.ask(f"/{name}", If_None_Match=answer.headers["etag"]).status == 304
    assert size <= 450_000 - 30_000, "with room for the first events"


def test_connections_are_bounded(tmp_path: Path) -> None:
    fill(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = min(10_000, hard - 300)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened: list[socket.socket] = []
    try:
        with served(configure(tmp_path, connections=50)) as page:
            reader = socket.create_connection(("127.0.0.1", page.port), timeout=180.0)
            reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert reader.recv(100).startswith(b"HTTP/1.1 200")
            refused = 0
            for _ in range(many):
                one = socket.create_connection(("127.0.0.1", page.port), timeout=180.0)
                opened.append(one)
            for one in opened[-200:]:
                with contextlib.suppress(OSError):
                    refused += one.recv(20).startswith(b"HTTP/1.1 503")
            assert refused >= 190, "those beyond the bound are told so"
            wait_for("closed connections", lambda: len(sockets(page)) <= 50 + 10)
            while b"event: time" not in reader.recv(65536):
                pass  # who was there before is served on
            reader.close()
            for one in opened:
                one.close()
            wait_for("room for others again", lambda: answers(page))
    finally:
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answers(page: Served) -> bool:
    """Whether a new connection gets the page."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return page.ask("/").status == 200
    return False


def test_a_connection_without_a_request_is_closed(page: Served) -> None:
    """Bytes of a head that never ends buy no time."""
    with (
        socket.create_connection(("127.0.0.1", page.port), timeout=180.0) as silent,
        socket.create_connection(("127.0.0.1", page.port), timeout=0.5) as slow,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(120):
            try:
                slow.sendall(b"X-More: 1\r\n")
                assert slow.recv(10) == b""
                break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            raise AssertionError("still open after a minute")
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(10) == b""


def test_a_reader_that_takes_nothing_is_dropped(page: Served) -> None:
    with socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", page.port))
        stuck.sendall(b"GET /static/echarts.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 8)  # 9 MB uncompressed
        port = stuck.getsockname()[1]
        wait_for("the connection", lambda: holds(page, port))
        wait_for("its end", lambda: not holds(page, port))
        assert page.ask("/").status == 200


def sockets(page: Served) -> set[str]:
    """Inodes of the sockets that the process holds, the one that listens among them."""
    found = set()
    for link in Path(f"/proc/{page.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
    return {one for one in found if one.isdigit()}


def holds(page: Served, port: int) -> bool:
    """Whether the process holds the connection to a port of this host."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[9] in sockets(page) for row in rows if row[2].endswith(f":{port:04X}"))


def busy(tmp_path: Path) -> tuple[LiveState, Any, list[float]]:
    """State of 10,000 queued jobs, and a function that makes the next one: jobs come, start and end each time."""
    clock = [NOW_S]
    slurm = BigSlurm(10_000, 400, 100)
    controller = controller_of(slurm, tmp_path, 41_000.0, 400, clock)

    def step() -> None:
        clock[0] += 5.0
        slurm.without_line(101)
        controller.round()

    controller.round()
    step()
    return LiveState(tmp_path / "run", tmp_path / "run", 120.0), step, clock


@pytest.mark.compiled
def test_a_look_at_ten_thousand_jobs_costs_little(tmp_path: Path, record_property: Any) -> None:
    state, step, clock = busy(tmp_path)
    feed = Feed(state.sections)
    feed.look(clock[0])
    took = []
    for _ in range(5):
        step()
        begin = time.process_time()
        feed.look(clock[0])
        took.append(round(1e3 * (time.process_time() - begin), 1))
    record_property("look_ms", took)  # processor time; 50 ms is the bound
    assert json.loads(feed.texts[1]["queue"])["total"] >= 9_900
    texts = feed.texts
    feed.look(clock[0] + 1.0)
    assert feed.texts is texts, "nothing changed: nothing is made again"


def test_a_busy_queue_costs_a_reader_no_more_than_its_budget(record_property: Any) -> None:
    """Half an hour in which the first hundred jobs are others each five seconds."""
    r = random.Random(7)

    def source(now_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
        rows = [[str(r.randrange(10**7)), r.randrange(9), "p1", round(now_s), r.randrange(9999), None, "watts", "",
                 f"user{r.randrange(500)}", f"job-{r.randrange(10**9)}"] for _ in range(100)]  # fmt: skip
        now = {"time_s": now_s, "summary": f"{r.random():.1f} of 15.3 kW; {r.randrange(999)} jobs wait for watts"}
        history = [[t, 1, 1, r.randrange(9999), None, 0, 0] for t in range(60, round(now_s), 60)]
        made = {"now": now, "health": [], "queue": {"rows": rows, "total": 10_000, "kinds": []}, "history": history}
        return made, made

    feed = Feed(source)
    stream, packer = Stream(feed, names=True, packed=True), zlib.decompressobj(31)
    sizes, text = [], ""
    for k in range(360):
        feed.look(86_400.0 + 5.0 * k)
        data = b"".join(stream.news(86_400.0 + 5.0 * k + second) for second in range(5))
        sizes.append(len(data))
        text += packer.decompress(data).decode()
    minutes = [sum(sizes[k : k + 12]) for k in range(1, len(sizes) - 11)]
    record_property("bytes", [sizes[0], max(minutes)])
    assert sizes[0] <= 30_000
    assert 15_000 <= max(minutes) <= 30_000, "the budget is what bounds it"
    assert text.count("event: queue\n") >= 60, "and it goes on"
    assert text.count("event: now\n") == 360
    assert text.count("[87540,") == 1, "each row of the history once"


def test_a_damaged_state_is_named_and_ends_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    state = LiveState(tmp_path / "run", tmp_path / "run", 120.0)
    (tmp_path / "run/why.json").write_text('{"turns": {"job": "!!"}}')
    for text in ("", "[]", "{", '{"time_s": "x"}'):
        (tmp_path / "run/status.json").write_text(text)
        plain, named = state.sections(time.time())
        assert plain["now"]["state"] == "none"
    fill(tmp_path)
    (tmp_path / "run/why.json").write_text('{"turns": {"job": "!!"}}')
    _, named = state.sections(time.time())
    assert any("why.json" in row[2] for row in named["health"])


def test_another_address_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"page\.address"):
        load_config(configure(tmp_path, token=False, address="0.0.0.0"))  # noqa: S104
    assert load_config(configure(tmp_path, address="0.0.0.0")).page.token_file is not None  # noqa: S104
