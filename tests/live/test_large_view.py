"""A view and a decision on a large cluster: 10,000 jobs queued on 10,000 nodes (bench/cases/live.py measures it)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.bigview import NOW_S, BigSlurm
from tests.live.drive import lab_machine, make_controller
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.model.signals import Cap

pytestmark = pytest.mark.compiled
NODES = QUEUED = 10_000


@pytest.mark.parametrize("room_w", [0.0, 20_000.0])
def test_view_and_decision_for_ten_thousand_jobs_on_ten_thousand_nodes(tmp_path: Path, room_w: float) -> None:
    slurm = BigSlurm(QUEUED, NODES, running=2000)
    cap = Cap.constant(100.0 * NODES + slurm.used_w + room_w)
    controller = make_controller(
        SlurmCluster(slurm, clock=lambda: NOW_S), tmp_path, lambda: NOW_S, cap=cap, machine=lab_machine(NODES)
    )
    plan = controller.planner.plan(controller.cluster.observe(), {}, telemetry_ok=True)
    assert len(plan.waiting) == QUEUED
    assert len(plan.holding) > 1500
    assert bool(plan.starts) == (room_w > 0)
    slurm.without_line(5000)  # one waiting job is gone
    again = controller.planner.plan(controller.cluster.observe(), {}, telemetry_ok=True)
    assert len(again.waiting) == QUEUED - 1
    assert bool(again.starts) == (room_w > 0)
