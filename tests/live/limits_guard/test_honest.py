"""An honest controller whose limits a process of its own publishes: the tests of limits run there as they stand."""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.live import test_node_limits
from tests.live.guard import behind
from tests.live.guard.behind import Behind
from tests.live.limits_guard.world import settings
from tests.live.test_node_limits import MOST_W, Cluster, Live
from wattqueue.live.guard.limits_told import LimitsReader, LimitsTold
from wattqueue.live.guard.wire import Packet
from wattqueue.live.limits_guard.messages import Arrived
from wattqueue.live.limits_guard.publisher import LimitPublisher

LIMITED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "none before limits hold": (
        f"{4 * MOST_W}W",
        test_node_limits.test_nothing_starts_before_the_limits_that_hold_the_budget_are_in_force,
    ),
    "watts follow the load": ("1100W", test_node_limits.test_watts_follow_the_load_and_the_budget_holds),
    "decided again": ("1100W", test_node_limits.test_a_recorded_round_with_limits_is_decided_again),
    "slowed down": ("none", test_node_limits.test_a_running_job_is_slowed_down_and_its_limit_stretches),
    "faster": ("none", test_node_limits.test_a_job_goes_faster_only_when_there_is_room_and_its_licence_is_raised),
}
"""The cap that what publishes limits reads, ``none`` where limits do not keep it, and a test of a controller."""


class Published(Cluster):
    """Nodes whose limits a publisher sends; it hears of them what the controller hears."""

    problem = ""
    publisher: LimitPublisher
    now_s = 0.0

    def __init__(self, *more: Any, cap: str, folder: Path, **options: Any) -> None:
        super().__init__(*more, **options)
        connection: Any = type("Connection", (), {"send": self.wire.send, "close": self.close, "problem": ""})
        self.arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        connection.arrived = self.arrived
        own = settings(folder, cap, keeps_cap=cap != "none")
        self.publisher = LimitPublisher(own, connection, lambda: self.now_s)
        self.link.sender = self

    def send(self, limits: Mapping[str, Mapping[str, float]]) -> None:
        """Hand requests over, and have the publisher take its next step."""
        asked = {name: dict(values) for name, values in limits.items()}
        assert self.publisher.answer(Packet({"do": "ask", "limits": asked})).header == {"refused": 0}
        self.publisher.step(self.now_s)

    def close(self) -> None:
        """Nothing to close."""

    def step(self, now_s: float) -> None:
        """As of the controller's own nodes; the publisher takes a step, too."""
        super().step(now_s)
        self.now_s = now_s
        for state in self.waiting:
            self.arrived.put(Arrived(state.node, state.text()))
        self.publisher.step(now_s)


@pytest.mark.parametrize(("cap", "test"), LIMITED.values(), ids=LIMITED)
def test_limits_of_a_controller(
    cap: str, test: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Published] = []

    def cluster() -> Published:
        made.append(Published(cap=cap, folder=tmp_path))
        return made[-1]

    monkeypatch.setattr(test_node_limits, "Cluster", cluster)
    test(tmp_path)
    assert all(one.wire.sent for one in made)


def epas(folder: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[[LimitPublisher], LimitsTold]) -> Live:
    """A controller behind a guard that is told so of limits in force."""
    made: list[Published] = []

    def cluster() -> Published:
        made.append(Published(cap="1100W", folder=folder))
        return made[-1]

    monkeypatch.setattr(test_node_limits, "Cluster", cluster)
    accepts = {"accepted": frozenset({"limits"}), "limits_socket": folder / "limits"}
    monkeypatch.setattr(test_node_limits, "make_controller", Behind(accepts))
    monkeypatch.setattr(LimitsReader, "ask", lambda _: told(made[-1].publisher))
    monkeypatch.setattr(behind, "NET_W", MOST_W - 100)
    return test_node_limits.measured(folder)


def test_licences_follow_measurements_where_the_guard_is_told_that_limits_keep_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = epas(tmp_path, monkeypatch, lambda one: LimitsTold(**one.in_force()))
    assert len(live.slurm.running()) == 4
    assert live.slurm.used_w < 2 * 260


def test_without_that_word_jobs_count_the_maximum_of_their_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = epas(tmp_path, monkeypatch, lambda _: LimitsTold())
    assert len(live.slurm.running()) == 2
    assert live.slurm.used_w == 520
