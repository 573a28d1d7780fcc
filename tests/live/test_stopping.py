"""How many rounds a controller runs, and what it leaves behind when it stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wattqueue.errors import InputError
from wattqueue.live import assemble
from wattqueue.live.files.status import RunDir


@pytest.fixture
def signals_kept() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Counted:
    """A controller that observes nothing and notes what it is asked."""

    def __init__(self, at_round: Any = None) -> None:
        self.asked: list[str] = []
        self.at_round = at_round
        self.meter = self.planner = None
        self.extensions, self.at_end = (), lambda: None
        self.cluster, self.failures, self.problem = SimpleNamespace(name="none"), 0, "asked for nothing"
        self.audit = SimpleNamespace(note=lambda what, text: self.asked.append(f"{what}: {text}"))
        self.telemetry = SimpleNamespace(close=lambda: self.asked.append("telemetry closed"))
        self.run_dir = SimpleNamespace(
            compiled=lambda: None,
            away=lambda: self.asked.append("away"),
            release=lambda: self.asked.append("released"),
        )

    def renewed(self) -> Counted:
        return self

    def round(self) -> None:
        self.asked.append("round")
        if self.at_round is not None:
            self.at_round()

    def wait_s(self, _period_s: float) -> float:
        return 0.0


CONFIG: Any = SimpleNamespace(
    metrics=SimpleNamespace(port=0), mode="observe", policy="easy", cap="none", period_s=0.0, run_dir=Path()
)


def run(controller: Any, rounds: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(assemble, "warm_up", lambda *_: True)
    return assemble.run_until_stopped(controller, CONFIG, lambda _text: None, rounds)


LEFT = ["telemetry closed", "away", "released"]


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.usefixtures("signals_kept")
def test_as_many_rounds_as_are_asked_for(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Counted()
    assert run(controller, rounds, monkeypatch)
    assert controller.asked == [
        "start: mode observe, policy easy, cap none", *["round"] * rounds, "stop: ended", *LEFT
    ]  # fmt: skip


@pytest.mark.usefixtures("signals_kept")
def test_a_signal_ends_the_rounds_after_the_one_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Counted(lambda: signal.raise_signal(signal.SIGTERM))
    assert run(controller, 0, monkeypatch)
    assert controller.asked[1:] == ["round", "stop: by signal", *LEFT]


def test_a_lock_is_given_up_whatever_the_number_of_its_descriptor(tmp_path: Path) -> None:
    first, second = RunDir(tmp_path / "run"), RunDir(tmp_path / "run")
    kept = os.dup(0)
    os.close(0)  # as for a service that is started without an input: the next descriptor is 0
    try:
        first.claim()
        assert first._lock == 0
        first.take_lease(0.0)
        assert first.lease is not None
        with pytest.raises(InputError):
            second.claim()
        another = os.dup(kept)  # has the number of the lock that the second one did not get
        second.release()
        os.fstat(another)
        os.close(another)
        first.release()
        second.claim()
        second.release()
    finally:
        os.dup2(kept, 0)
        os.close(kept)
