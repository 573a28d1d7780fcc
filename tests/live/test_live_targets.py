"""Load targets live: the pool follows them, and problems of their source are seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.model.load_target import LoadTarget, LoadTargets
from wattqueue.model.signals import Cap

IDLE_W = 800.0
"""Eight nodes of 100 W."""


@dataclass
class Stated:
    """A source of targets that a test states."""

    stated: LoadTargets = field(default_factory=LoadTargets.none)
    found: tuple[str, ...] = ()
    power: list[tuple[float, bool]] = field(default_factory=list)

    def start(self, say: Callable[[str], None]) -> None: ...

    def close(self) -> None: ...

    def targets(self) -> LoadTargets:
        return self.stated

    def problems(self) -> Sequence[str]:
        return self.found

    def unusable(self) -> int:
        return len(self.found)

    def measured(self, time_s: float, power_w: float, *, measured: bool, consenting_w: float | None = None) -> None:
        self.power.append((power_w, measured))


def fake_slurm() -> FakeSlurm:
    return FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)


def target(slurm: FakeSlurm, begin_s: float, end_s: float, limit_w: float, ramp: float = np.inf) -> LoadTargets:
    return LoadTargets.of(
        LoadTarget(slurm.now_s + begin_s, slurm.now_s + end_s, limit_w, correlation_id="e1", ramp_w_per_s=ramp)
    )


def test_the_pool_follows_a_target_and_rises_again(tmp_path: Path) -> None:
    slurm, source = fake_slurm(), Stated()
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), targets=source)
    controller.round()
    assert slurm.open_w == 2000 - IDLE_W
    source.stated = target(slurm, 10.0, 100.0, 1100.0, ramp=10.0)
    controller.round()
    assert slurm.open_w == 2000 - IDLE_W, "announced, and not begun"
    seen = []
    for _ in range(20):
        slurm.step(10.0)
        controller.round()
        seen.append((slurm.now_s, slurm.open_w))
    begin_s = source.stated.start_s[0]
    end_s = source.stated.end_s[0]
    for now_s, open_w in seen:
        if begin_s <= now_s < end_s:
            assert open_w == 1100 - IDLE_W
        elif now_s >= end_s:
            assert open_w <= min(2000.0, 1100.0 + 10.0 * (now_s - end_s)) - IDLE_W
    assert seen[-1][1] == 2000 - IDLE_W


@pytest.mark.parametrize("stated_w", [5000.0, 2000.0])
def test_a_target_above_the_cap_changes_nothing(tmp_path: Path, stated_w: float) -> None:
    slurm, source = fake_slurm(), Stated()
    source.stated = target(slurm, -10.0, 100.0, stated_w)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), targets=source)
    controller.round()
    assert slurm.open_w == 2000 - IDLE_W


def test_a_target_at_idle_closes_the_pool_and_its_end_opens_it(tmp_path: Path) -> None:
    slurm, source = fake_slurm(), Stated()
    source.stated = target(slurm, -10.0, 100.0, IDLE_W)
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), targets=source)
    controller.round()
    assert slurm.open_w == 0
    source.stated = LoadTargets.none()  # cancelled
    controller.round()
    assert slurm.open_w == 2000 - IDLE_W


def test_problems_of_the_source_are_in_the_status(tmp_path: Path) -> None:
    slurm, source = fake_slurm(), Stated(found=("OpenADR: no answer",))
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2000.0), targets=source)
    report = controller.round()
    assert report is not None
    assert "OpenADR: no answer" in report.problems
