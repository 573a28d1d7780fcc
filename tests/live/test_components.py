"""Jobs of several components: each carries watts before the job may start, also where it was submitted without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.drive import make_controller
from tests.live.fakeslurm import FakeSlurm
from tests.live.test_shared_nodes import make_slurm, over
from wattqueue.live.cluster import ChangeJob, HoldJob, Job, ReleaseJob, Snapshot
from wattqueue.live.goal import plan_writes
from wattqueue.live.release import held_for_controller
from wattqueue.live.reports.conditions import conditions
from wattqueue.live.slurm.writes import commands_of
from wattqueue.live.table import Stage
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
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
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


@pytest.mark.parametrize("watts", [(100, 400), (200, 200), (0, 400)])
def test_a_component_with_fewer_watts_than_its_nodes_draw_gets_them_before_the_release(
    slurm: FakeSlurm, tmp_path: Path, watts: tuple[int, int]
) -> None:
    """An administrator changed its partition, nodes or licence: Slurm would start it on what it carries."""
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
    seen = components(slurm, watts)
    plan = controller.planner.plan(seen, {}, telemetry_ok=True)
    done = [w for w in plan_writes(seen, plan.goal) if isinstance(w, ChangeJob | ReleaseJob)]
    (k,) = (k for k in (0, 1) if watts[k] != (200, 400)[k])
    assert [(w.target, w.fields.watts) for w in done if isinstance(w, ChangeJob)] == [(f"1+{k}", (200, 400)[k])]
    assert len(done) == 1


def test_a_component_on_a_partition_that_is_gone_counts_the_dearest_node(slurm: FakeSlurm, tmp_path: Path) -> None:
    """A restart of slurmctld forgets partitions that slurm.conf does not name; they may be created again."""
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
    seen = components(slurm, (200, -1))
    first, second = seen.jobs
    seen = replace(seen, jobs=(first, second._replace(partition="gone")))
    plan = controller.planner.plan(seen, {}, telemetry_ok=True)
    writes = [w for w in plan_writes(seen, plan.goal) if isinstance(w, ChangeJob | ReleaseJob)]
    assert [(w.target, w.fields.watts) for w in writes if isinstance(w, ChangeJob)] == [("1+1", 400)]
    assert len(writes) == 1


def test_the_release_fallback_frees_no_job_of_components(slurm: FakeSlurm) -> None:
    """Also where the site's own comment stands in place of the mark; jobs of one component beside it are released."""
    seen = components(slurm, (200, 400))
    marked = {key: one._replace(mark="the site's own") for key, one in seen.details.items()}
    assert held_for_controller(replace(seen, details=marked)) == []
    alone = replace(slurm.observe(), details={row.key: next(iter(marked.values())) for row in slurm.observe().jobs})
    assert len(held_for_controller(alone)) == 2


def test_a_component_on_a_partition_that_the_machine_file_lacks_counts_its_dearest_node(tmp_path: Path) -> None:
    """Its job waits until it does: the release of the first component would start it uncounted."""
    fake = FakeSlurm({"p1": ["n1", "n2"], "p2": ["m1", "m2"], "debug": ["n1", "n2", "m1", "m2"], "free": ["x1"]}, 1600)
    fake.submit(1, 50.0, watts=200, partition="p1")
    fake.submit(2, 50.0, watts=400, partition="p2,debug")
    controller = make_controller(fake, tmp_path, lambda: fake.now_s, cap=Cap.constant(800.0 + 800.0))
    for partition, mark, expected in (
        ("p2,debug", "wattqueue:needs-controller", ["watts 400 of 1+1"]),
        ("debug", "wattqueue:needs-controller", ["watts 400 of 1+1"]),
        ("debug", "held by the site", []),
        ("free", "wattqueue:needs-controller", ["release of 1"]),
    ):
        seen = components(fake, (200, -1))
        first, second = seen.jobs
        details = {**seen.details, second.key: seen.details[second.key]._replace(mark=mark)}
        seen = replace(seen, jobs=(first, second._replace(partition=partition)), details=details)
        plan = controller.planner.plan(seen, {}, telemetry_ok=True)
        done = [
            f"watts {w.fields.watts} of {w.target}" if isinstance(w, ChangeJob) else f"release of {w.target}"
            for w in plan_writes(seen, plan.goal)
            if isinstance(w, ChangeJob | ReleaseJob)
        ]
        assert done == expected, (partition, mark)


def test_a_component_that_was_freed_without_watts_is_held_again(slurm: FakeSlurm, tmp_path: Path) -> None:
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
    seen = components(slurm, (200, -1))
    seen = replace(seen, jobs=tuple(row._replace(held_by="", reason="Priority") for row in seen.jobs))
    plan = controller.planner.plan(seen, {}, telemetry_ok=True)
    assert [w.target for w in plan_writes(seen, plan.goal) if isinstance(w, HoldJob)] == ["1"]


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("partition", ["p1,p2", "debug"])
def test_a_component_whose_first_one_is_gone_is_held_and_stays_held(
    slurm: FakeSlurm, tmp_path: Path, held: bool, partition: str
) -> None:
    """Slurm can neither start nor cancel it, and plans nodes for it as long as it is not held."""
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
    seen = components(slurm, (200, 400))
    second = seen.jobs[1]._replace(partition=partition)
    row = second if held else second._replace(held_by="", reason="Resources")
    seen = replace(seen, jobs=(row,))
    report = controller.planner.plan(seen, {}, telemetry_ok=True)
    writes = [(type(w), w.target) for w in plan_writes(seen, report.goal) if w.key is not None]
    assert writes == ([] if held else [(HoldJob, str(row.number))]), "by its own number: 1 names a job that is gone"
    assert report.rows_at(Stage.ORPHANED) == [row]
    found = conditions(report)
    assert (line := found.lines(1200.0, 1200.0)[0]).startswith("1 job stays held")
    assert row.key.name in line


def test_an_orphan_on_shared_nodes_is_held(tmp_path: Path) -> None:
    """Jobs carry no watts there; after a crash Slurm planned nodes for such a component, and started nobody else."""
    slurm = make_slurm()
    for partition in ("p1", "s"):
        slurm.submit(1, 50.0, watts=200, partition=partition)
    controller = over(slurm, tmp_path)
    seen = components(slurm, (200, 400))
    row = seen.jobs[1]._replace(partition="s", watts=-1, held_by="", reason="Resources")
    plan = controller.planner.plan(replace(seen, jobs=(row,)), {}, telemetry_ok=True)
    assert plan.rows_at(Stage.ORPHANED) == [row]
    assert [w.target for w in plan_writes(seen, plan.goal) if isinstance(w, HoldJob)] == [str(row.number)]


def test_an_orphan_in_a_partition_that_is_not_managed_is_left_alone(slurm: FakeSlurm, tmp_path: Path) -> None:
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(800.0 + 800.0))
    seen = components(slurm, (200, 400))
    row = seen.jobs[1]._replace(partition="elsewhere", watts=-1, held_by="", reason="Resources")
    details = {row.key: seen.details[row.key]._replace(mark="")}
    plan = controller.planner.plan(replace(seen, jobs=(row,), details=details), {}, telemetry_ok=True)
    assert plan.rows_at(Stage.ORPHANED) == []
    assert plan.goal.jobs == ()
