"""Jobs of several components: each carries watts before the job may start, also where it was submitted without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.live.cluster import ChangeJob, Job, ReleaseJob, Snapshot
from wattqueue.live.goal import plan_writes
from wattqueue.live.release import held_for_controller
from wattqueue.live.slurm.writes import commands_of
from wattqueue.model.signals import Cap


def components(slurm: FakeSlurm, watts: tuple[int, int]) -> Snapshot:
    """Two held jobs as the components of one, with these watts."""
    seen = slurm.observe()
    rows: list[Job] = []
    for k, row in enumerate(seen.jobs):
        key = row.key._replace(name=f"1+{k}")
        rows.append(row._replace(key=key, whole="1", component=k, watts=watts[k]))
    details = {
        new.key: seen.details[old.key]._replace(parts=2, mark="wattqueue:needs-controller")
        for old, new in zip(seen.jobs, rows, strict=True)
    }
    return replace(seen, jobs=tuple(rows), details=details)


@pytest.fixture
def slurm() -> FakeSlurm:
    fake = FakeSlurm({"p1": ["n1", "n2"], "p2": ["m1", "m2"]}, 1600)
    fake.submit(1, 50.0, watts=200, partition="p1")
    fake.submit(2, 50.0, watts=400, partition="p1,p2")
    return fake


def test_the_job_is_released_as_soon_as_each_component_carries_watts(slurm: FakeSlurm, tmp_path: Path) -> None:
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(400.0 + 800.0))
    bare = components(slurm, (200, -1))
    plan = controller.planner.plan(bare, {}, telemetry_ok=True)
    changes = [w for w in plan_writes(bare, plan.goal) if isinstance(w, ChangeJob | ReleaseJob)]
    (only,) = (w for w in changes if w.target.startswith("1"))
    assert isinstance(only, ChangeJob)
    assert commands_of(only) == [("scontrol", "update", "JobId=1+1", "Licenses=watts:400")]
    whole = components(slurm, (200, 400))
    plan = controller.planner.plan(whole, {}, telemetry_ok=True)
    released = [w.target for w in plan_writes(whole, plan.goal) if isinstance(w, ReleaseJob)]
    assert released == ["1"], "once, and by the name that frees all components"


def test_the_release_fallback_frees_no_job_of_which_a_component_carries_no_watts(slurm: FakeSlurm) -> None:
    """Also where the site's own comment stands in place of the mark."""
    for watts, expected in (((200, -1), []), ((200, 400), ["1+0"])):
        seen = components(slurm, watts)
        marked = {key: one._replace(mark="the site's own") for key, one in seen.details.items()}
        assert [row.key.name for row in held_for_controller(replace(seen, details=marked))] == expected
    assert held_for_controller(components(slurm, (200, 400))) == [], "marked as the controller's alone"
