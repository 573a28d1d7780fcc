"""Telemetry never makes the cap weaker: meters that stand still, jobs that draw little at first."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.drive import ACCEPTS_ALL, lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.power_model import ModelMeter, Phases, PowerModel, follow, quiet_then_full, steady
from wattqueue.errors import InputError
from wattqueue.live.config import LiveConfig, SlurmSection, TelemetrySection
from wattqueue.live.controller import Controller
from wattqueue.live.features.agent_controls import load_live_policy
from wattqueue.live.features.configured import rules_of
from wattqueue.live.planner import Rules
from wattqueue.live.telemetry.base import PowerSample, Reading, Telemetry, frozen_after
from wattqueue.live.watts.bound import AcceptedOvershoot
from wattqueue.live.watts.lowering import conditions_of, parse_overshoot, require_condition
from wattqueue.model.signals import Cap

Distort = Callable[[str, float, float], float | None]
NODES, CAP_W = 16, 2880.0
"""60 % of sixteen nodes of 300 W; 1,280 W above idle, so six jobs of a node at 200 W."""


def default_rules() -> Rules:
    """The planner's rules of a configuration that names a source of power and nothing else."""
    telemetry = TelemetrySection(pm_counters={"n1": Path("/nowhere")})
    return rules_of(
        LiveConfig(machine="m", mode="control", slurm=SlurmSection(write_priority=False), telemetry=telemetry)
    )


def slurm_of(nodes: int = NODES) -> FakeSlurm:
    half = nodes // 2
    names = {part: [f"{part}n{k}" for k in range(half)] for part in ("p1", "p2")}
    return FakeSlurm(names, 200 * nodes)


@pytest.mark.parametrize(
    ("case", "phases", "reads_w"),
    [("frozen", steady(1.0), 110.0), ("quiet", quiet_then_full(), None)],
)  # fmt: skip
def test_with_the_defaults_power_stays_within_the_cap(
    tmp_path: Path, case: str, phases: Phases, reads_w: float | None
) -> None:
    slurm = slurm_of()
    model = PowerModel(slurm, every=phases)
    meter = ModelMeter(model, distort=lambda _, watts, __: watts if reads_w is None else reads_w)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), machine=lab_machine(NODES),
        rules=default_rules(), sources=(meter,),
    )  # fmt: skip
    jobs = [slurm.submit(1, 160.0, watts=200, limit_s=600.0, partition="p1,p2") for _ in range(24)]
    course = follow(controller, model, CAP_W, 160)
    assert (course.above_s, course.most_w <= CAP_W) == (0.0, True), course
    follow(controller, model, CAP_W, 700)
    assert all(job.state == "COMPLETED" for job in jobs), case


def tracked(overshoot: AcceptedOvershoot) -> Rules:
    """Rules by which licences follow what is measured, as far as the site accepts."""
    return Rules(
        mode="control", write_priority=False, track_running=True, warm_up_s=5.0, margin=0.0, overshoot=overshoot
    )  # fmt: skip


def frozen_at(after_s: float) -> Distort:
    """A meter that stands still some time after its first reading."""
    last: dict[str, float] = {}
    begun: list[float] = []

    def read(name: str, watts: float, now_s: float) -> float:
        begun.append(now_s) if not begun else None
        if now_s - begun[0] < after_s:
            last[name] = watts
        return last[name]

    return read


def noisy(spread_w: float) -> Distort:
    dice = random.Random(7)
    return lambda _, watts, __: max(1.0, watts + dice.gauss(0.0, spread_w))


def jumping(name: str, watts: float, now_s: float) -> float:
    return watts if int(now_s / 7.0 + len(name)) % 3 else 105.0


METERS: dict[str, tuple[Distort, float]] = {
    "right": (lambda _, watts, __: watts, 0.0),
    "frozen": (frozen_at(20.0), 0.0),
    "missing": (lambda name, watts, now: None if hash((name, int(now / 20))) % 4 == 0 else watts, 0.0),
    "noisy": (noisy(30.0), 0.0),
    "delayed": (lambda _, watts, __: watts, 2.5),
    "too high": (lambda _, watts, __: 1.5 * watts, 0.0),
    "too low": (lambda _, watts, __: 0.85 * watts, 0.0),
    "jumping": (jumping, 0.0),
}


@pytest.mark.parametrize("name", METERS)
@pytest.mark.parametrize("overshoot_w", [0.0, 500.0])
def test_whatever_a_meter_shows_power_exceeds_the_cap_by_no_more_than_the_site_accepts(
    tmp_path: Path, name: str, overshoot_w: float
) -> None:
    slurm, dice = slurm_of(), random.Random(3)
    model = PowerModel(slurm)
    distort, late_s = METERS[name]
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), machine=lab_machine(NODES),
        rules=tracked(AcceptedOvershoot(overshoot_w)), sources=(ModelMeter(model, distort, late_s),),
    )  # fmt: skip
    most_w, lowered = 0.0, False
    for k in range(110):
        if k % 4 == 0 and k < 80:
            nodes = dice.choice([1, 1, 2])
            job = slurm.submit(nodes, dice.uniform(20.0, 90.0), watts=200 * nodes, limit_s=120.0, partition="p1,p2")
            model.phases[job.id] = quiet_then_full(dice.uniform(5.0, 40.0), dice.uniform(0.05, 0.5))
        if k == 60:
            for job in slurm.running()[:2]:
                slurm.requeue(job)
        course = follow(controller, model, CAP_W, 1)
        most_w = max(most_w, course.most_w)
        could_w = sum(200 * len(job.held_nodes) for job in slurm.running())
        assert could_w <= CAP_W - 100.0 * NODES + overshoot_w
        lowered |= any(job.licences["watts"] < 200 * len(job.held_nodes) for job in slurm.running())
    assert lowered == (overshoot_w > 0.0), "what the site accepts is used, and nothing else"
    assert most_w <= CAP_W + overshoot_w


def test_what_the_site_accepts_is_used(tmp_path: Path) -> None:
    """Of jobs that stay quiet, so many more run as the accepted watts are: three of 200 W for 600 W."""
    slurm = slurm_of()
    model = PowerModel(slurm, every=steady(0.2))
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), machine=lab_machine(NODES),
        rules=tracked(AcceptedOvershoot(600.0)), sources=(ModelMeter(model),),
    )  # fmt: skip
    for _ in range(16):
        slurm.submit(1, 900.0, watts=200, limit_s=1800.0, partition="p1,p2")
    follow(controller, model, CAP_W, 3)
    assert len(slurm.running()) == 6
    follow(controller, model, CAP_W, 60)
    assert len(slurm.running()) == 9


def test_licences_that_were_lowered_before_go_back_to_what_jobs_started_with(tmp_path: Path) -> None:
    """A site that relied on the old default: after the upgrade nothing follows the meter any more."""
    slurm = slurm_of()
    model = PowerModel(slurm, every=steady(0.2))

    def controller(rules: Rules) -> Controller:
        return make_controller(
            slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), machine=lab_machine(NODES), rules=rules,
            sources=(ModelMeter(model),),
        )  # fmt: skip

    for _ in range(16):
        slurm.submit(1, 900.0, watts=200, limit_s=1800.0, partition="p1,p2")
    follow(controller(tracked(ACCEPTS_ALL)), model, CAP_W, 60)
    assert len(slurm.running()) > 9
    follow(controller(default_rules()), model, CAP_W, 3)
    assert {job.licences["watts"] for job in slurm.running()} == {200}
    assert slurm.used_w > slurm.open_w, "so nothing starts until enough of them have ended"


@pytest.mark.parametrize(
    ("policy", "agents", "overshoot", "allowed"),
    [
        ("easy", True, "", False), ("easy", False, "5%", True), ("easy+pc-inflight", True, "", False),
        ("easy+pc-inflight", False, "300W", True), ("e-pas-intel", True, "", True), ("e-pas-intel", False, "", False),
        ("easy+pc-adaptive-1", False, "", True), ("easy+pc-chance-1", False, "", False),
    ],
)  # fmt: skip
def test_lowering_needs_a_limit_a_promise_or_consent(policy: str, agents: bool, overshoot: str, allowed: bool) -> None:
    row, _ = load_live_policy(policy)
    met = conditions_of(row, parse_overshoot(overshoot), agents=agents)
    assert met.met == allowed
    if allowed:
        require_condition(row, met, follows=True)
        assert len(met.lines()) == 1
    else:
        with pytest.raises(InputError) as refused:
            require_condition(row, met, follows=True)
        assert refused.value.where == "telemetry.track_running"


def test_an_overshoot_is_watts_or_a_share_of_the_cap() -> None:
    assert parse_overshoot("2kW").of(1e4) == 2000.0
    assert parse_overshoot("5%").of(1e4) == 500.0
    assert parse_overshoot(" ").of(1e4) == parse_overshoot("5%").of(math.inf) == 0.0
    for wrong in ("5", "many", "5 apples", "-3W"):
        with pytest.raises(InputError):
            parse_overshoot(wrong)


def test_a_meter_that_stands_still_lowers_no_licence(tmp_path: Path) -> None:
    """At 110 % of idle with new times, although the site would accept any overshoot."""
    slurm = slurm_of()
    model = PowerModel(slurm)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), machine=lab_machine(NODES),
        rules=tracked(ACCEPTS_ALL), sources=(ModelMeter(model, lambda *_: 110.0),),
    )  # fmt: skip
    for _ in range(12):
        slurm.submit(1, 900.0, watts=200, limit_s=1800.0, partition="p1,p2")
    assert follow(controller, model, CAP_W, 60).above_s == 0.0
    assert {job.licences["watts"] for job in slurm.running()} == {200}


@pytest.mark.parametrize(("resolution_w", "samples"), [(0.0, 3), (0.5, 4), (1.0, 4), (10.0, 13)])
def test_so_many_equal_samples_are_one_that_stands_still(resolution_w: float, samples: int) -> None:
    source = Fixed(resolution_w)
    telemetry = Telemetry([source])
    shown = []
    for k in range(samples + 1):
        telemetry.read(100.0 + k)
        telemetry.read(100.0 + k)  # the same sample again is none
        shown.append(telemetry.node("n1", 300.0, 100.0 + k).unchanged)
    assert shown == [False] * (samples - 1) + [True, True]
    source.watts = 181.0
    telemetry.read(200.0)
    assert not telemetry.node("n1", 300.0, 200.0).unchanged
    assert frozen_after(resolution_w) == samples


class Fixed:
    """A meter of one node that shows what the test says."""

    name = "fixed"

    def __init__(self, resolution_w: float) -> None:
        self.resolution_w, self.watts = resolution_w, 180.0

    def read(self, now_s: float) -> Reading:
        """Return the watts with the time of now."""
        return Reading({"n1": PowerSample(self.watts, now_s, self.name)})
