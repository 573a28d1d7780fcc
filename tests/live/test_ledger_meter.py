"""The adaptive ledger live: the nodes' power is its meter, and what it learned outlives the controller."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.test_controller import Meter, make_slurm, run
from tests.reference.site_meter import NaiveSiteMeter, SiteReading
from wattqueue.errors import PolicyError
from wattqueue.kernels.state import site_meter as at
from wattqueue.live.cluster import Node
from wattqueue.live.decision import require_live
from wattqueue.live.features.ledger_meter import GAP_S, LedgerMeter, Metered, drawn_w
from wattqueue.live.state.database import open_state
from wattqueue.live.state.memory import ControllerState
from wattqueue.live.telemetry.base import NodePower
from wattqueue.live.world import Layout
from wattqueue.model.signals import Cap
from wattqueue.parts.ledger.adaptive import Adaptive
from wattqueue.policy.policy import load_policy

QUICK: dict[str, Any] = {
    "epsilon": 0.01, "window_days": 0.1, "meter_s": 10.0, "late": 0, "noise": 0.0, "begin": 1.0, "own": 0.01,
    "common": 0.0, "forget_s": 1e9,
}  # fmt: skip


def node(name: str, partition: str) -> Node:
    return Node(name, "idle", "on", usable=True, busy=False, partitions=(partition,))


def meter_of(folder: Path, **options: Any) -> LedgerMeter:
    return LedgerMeter(Adaptive(**{**QUICK, **options}), ControllerState(open_state(folder / "live.db")))


def seen(drawn: float, counted: tuple[int, ...] = (100, 300), *, cap: float = 500.0, known: bool = True) -> Metered:
    return Metered(drawn, 0.0, cap, counted, known=known)


def test_what_is_learned_is_the_twins(tmp_path: Path) -> None:
    ledger = Adaptive(**QUICK)
    meter, twin = meter_of(tmp_path), NaiveSiteMeter(ledger)
    meter.meter.state[at.HELD] = 1.0
    watts = [380.0, 420.0, 560.0, 600.0, 450.0, 390.0]
    for second in range(61):
        meter.observe(float(second), seen(watts[max(second - 1, 0) // 10]))
    # A job of 100 W has a deviation of 10 W, one of 300 W of 30 W; the share at which jobs fitted is 1 all the time.
    spread = math.sqrt(10.0**2 + 30.0**2)
    twin.readings = [
        SiteReading(10.0 * (k + 1), 10.0, w, 400.0, 10.0 if w > 501.0 else 0.0, True, (w - 400.0) / spread)
        for k, w in enumerate(watts)
    ]
    share, own, common = meter.terms
    assert share == pytest.approx(max(twin.share(), 1.0))
    assert own == pytest.approx(twin.z_in_force() ** 2 * ledger.own)
    assert common == 0.0
    assert meter.figures()["above_s"] == 20.0
    assert meter.figures()["allowed_s"] == pytest.approx(86.4)


def test_what_was_spent_outlives_the_controller_but_not_other_options(tmp_path: Path) -> None:
    meter = meter_of(tmp_path)
    for second in range(31):
        meter.observe(float(second), seen(600.0))
    again = meter_of(tmp_path)
    assert again.figures() == meter.figures()
    assert again.terms == meter.terms
    assert again.figures()["above_s"] == 30.0
    assert meter_of(tmp_path, epsilon=0.02).figures()["above_s"] == 0.0


def test_what_an_earlier_version_stored_is_read(tmp_path: Path) -> None:
    """Version 1 had 14 figures of state, and readings of six: no time held back, and no variances."""
    meter = meter_of(tmp_path)
    for second in range(31):
        meter.observe(float(second), seen(600.0))
    stored = json.loads(meter.memory.ledger)
    stored |= {"state": stored["state"][:14], "waiting": [row[:6] for row in stored["waiting"]]}
    meter.memory.keep_ledger(json.dumps(stored))
    again = meter_of(tmp_path)
    assert again.figures()["above_s"] == 30.0
    assert again.figures()["deviations"] == meter.figures()["deviations"]


def test_a_margin_that_holds_no_job_back_does_not_come_down(tmp_path: Path) -> None:
    meter = meter_of(tmp_path)
    for second in range(61):
        meter.observe(float(second), seen(390.0))
    assert meter.figures()["deviations"] == 1.0
    meter.meter.state[at.HELD] = 1.0
    for second in range(61, 121):
        meter.observe(float(second), seen(390.0))
    assert meter.figures()["deviations"] < 1.0


def test_time_without_a_controller_is_not_counted(tmp_path: Path) -> None:
    meter = meter_of(tmp_path)
    meter.observe(0.0, seen(600.0))
    meter.observe(GAP_S + 1.0, seen(600.0))
    assert meter.figures()["above_s"] == 0.0
    for second in range(10):
        meter.observe(GAP_S + 2.0 + second, seen(600.0))
    assert meter.figures()["above_s"] == pytest.approx(70.0 - (GAP_S + 1.0))


def test_doubt_uses_the_allowance_up_and_teaches_nothing(tmp_path: Path) -> None:
    meter = meter_of(tmp_path)
    for second in range(11):
        meter.observe(float(second), seen(900.0, known=second != 5))
    assert meter.figures()["above_s"] == 10.0
    assert meter.figures()["share"] == 1.0
    assert meter.meter.state[at.GREATEST] == 0.0


def test_watts_above_idle_are_those_of_nodes_that_are_on() -> None:
    layout = Layout.of(lab_machine(4), [node(f"{p}n{i}", p) for p in ("p1", "p2") for i in range(2)], {})
    power = {name: NodePower(180.0, "measured", 0.0, "meter") for name in layout.names}
    on = np.array([False, True, True, True])
    assert drawn_w(layout, on, power, ()) == pytest.approx(3 * 80.0)
    machine = replace(layout.machine, cap_scope="jobs")
    assert drawn_w(replace(layout, machine=machine), on, power, [((1, 2), 100)]) == pytest.approx(2 * 180.0)


def test_a_margin_grows_where_jobs_draw_more_than_was_admitted(tmp_path: Path) -> None:
    slurm = make_slurm()
    meter, ledger = Meter(slurm), Adaptive(**{**QUICK, "begin": 0.0})
    policy = load_policy("easy", ledger=ledger)
    # Predicted watts are a node's most, 200 W above idle: of 500 W two fit.
    made = {"cap": Cap.constant(800.0 + 500.0), "sources": (meter,), "policy": policy}
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, **made)  # type: ignore[arg-type]
    jobs = [slurm.submit(1, 500.0, watts=200, limit_s=900.0, partition="p1,p2") for _ in range(6)]
    meter.busy_w = 390.0  # 290 W of 200 W: 580 W of 500 W
    run(controller, slurm, 25)
    assert sum(job.state == "RUNNING" for job in jobs) == 2
    report = controller.last
    assert report is not None
    assert report.plan.promise["above_s"] > 0.0
    assert report.plan.promise["deviations"] > 0.0
    status = json.loads((controller.run_dir.folder / "status.json").read_text())
    assert status["promise"]["allowed_s"] == pytest.approx(86.4)
    assert report.plan.view.settings.chance == controller.planner.settings.chance


def test_it_is_refused_where_nothing_measures(tmp_path: Path) -> None:
    policy = load_policy("easy+pc-adaptive-1")
    assert require_live(policy, lab_machine()).chance is not None
    with pytest.raises(PolicyError, match="no source of the nodes' power") as caught:
        require_live(policy, lab_machine(), meters=False)
    assert 'ledger = "chance"' in (caught.value.hint or "")
    slurm = make_slurm()
    with pytest.raises(PolicyError, match="no source of the nodes' power"):
        make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.none(), policy=replace(policy, name="mine"))
