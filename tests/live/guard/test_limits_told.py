"""What counts for running jobs behind limits of nodes that the guard is told of: less only where they are in force."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.guard.test_checks import CAP_W, IDLE_W, settings
from tests.live.guard.world import NODE_W, NaiveJob, NaiveSlurm
from wattqueue.live.guard.checks import GuardBound, Seen
from wattqueue.live.guard.limits_told import QUIET_S, LimitsReader, LimitsTold
from wattqueue.live.guard.sockets import listen
from wattqueue.live.guard.wire import Packet, WireError, receive, send
from wattqueue.live.slurm.lists import JOBS, parse_jobs

MOST_W = 3 * NODE_W["large"]
"""What the job's three nodes can draw."""


def counted_w(tmp_path: Path, told: LimitsTold | None, *, accepted: frozenset[str] = frozenset({"limits"})) -> int:
    """What counts for a job of three nodes whose licence is 120 W."""
    world = NaiveSlurm()
    world.submit(NaiveJob(1, "large", 3, 120, state="RUNNING", held=False))
    rows, _ = parse_jobs(world.run(JOBS).out, {})
    seen = Seen(1_000.0, tuple(rows.values()), None, limits=told)
    return GuardBound(settings(tmp_path, accepted=accepted), CAP_W, seen).sum_w


@pytest.mark.parametrize(
    ("told", "watts"),
    [
        (None, 120),
        (LimitsTold(), MOST_W),
        (LimitsTold({"large1": 30.0}), MOST_W - 30),
        (LimitsTold({"large1": 30.4, "large2": 1e9, "large3": 10.0, "small1": 40.0}), MOST_W - 140),
        (LimitsTold({"large1": 100.0, "large2": 100.0, "large3": 100.0}), 120),
        (LimitsTold({"large1": 1.0, "large2": 1.0, "large3": 1.0}, holds=True), 120),
        (LimitsTold({"large1": 1.0, "large2": 1.0}, holds=True), MOST_W - 2),
    ],
)
def test_what_counts_for_a_job_behind_limits(tmp_path: Path, told: LimitsTold | None, watts: int) -> None:
    assert counted_w(tmp_path, told) == watts
    assert counted_w(tmp_path, told, accepted=frozenset()) == MOST_W
    assert counted_w(tmp_path, told, accepted=frozenset({"limits", "estimates"})) == 120


@contextmanager
def answering(path: Path, answer: Packet | None) -> Iterator[list[dict[str, Any]]]:
    """What answers at a socket; None accepts, and says nothing until the end."""
    asked: list[dict[str, Any]] = []
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                channel, _ = listener.accept()
            except OSError:
                return
            with channel:
                if over.is_set():
                    return
                try:
                    asked.append(receive(channel, 1_000).header)
                    if answer is None:
                        over.wait(30.0)
                    else:
                        send(channel, answer)
                except WireError:
                    pass

    with listen(path) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield asked
        finally:
            over.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(str(path))
            thread.join(30.0)
            assert not thread.is_alive()


def test_the_guard_asks_which_limits_are_in_force(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with answering(path, Packet({"below_w": {"n1": 30, "n2": -5.0}, "holds": True})) as asked:
        assert LimitsReader(path).ask() == LimitsTold({"n1": 30.0, "n2": 0.0}, holds=True)
    assert asked == [{"do": "limits"}]


@pytest.mark.parametrize(
    "answer",
    [
        Packet({"error": "no"}), Packet({"below_w": []}), Packet({"below_w": {"n1": "x"}, "holds": True}),
        Packet({"below_w": {"n1": None}}), Packet({}), None,
    ],
)  # fmt: skip
def test_without_an_answer_nothing_is_told_and_nothing_asked_for_a_while(tmp_path: Path, answer: Packet | None) -> None:
    now_s = [0.0]
    reader = LimitsReader(tmp_path / "socket", lambda: now_s[0])
    with answering(tmp_path / "socket", answer) as asked:
        assert reader.ask() == LimitsTold()
        now_s[0] = QUIET_S - 0.1
        assert reader.ask() == LimitsTold()
        assert len(asked) == 1
        now_s[0] = QUIET_S
    assert reader.ask() == LimitsTold(), "nobody is there any more"


def test_a_guard_without_a_socket_asks_nobody(tmp_path: Path) -> None:
    own = settings(tmp_path)
    assert own.limits_socket is None
    assert replace(own, limits_socket=tmp_path / "socket").told()["limits_socket"] == str(tmp_path / "socket")
    assert own.without_jobs_w == IDLE_W
