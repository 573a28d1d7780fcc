"""Jobs that ask for GPUs: needs by partition, GPU limits as operating points, and what a run writes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattqueue.errors import InputError
from wattqueue.formats.physics import read_cells
from wattqueue.formats.table.job_table import read_table
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.physics import Physics
from wattqueue.model.schedule import State
from wattqueue.model.signals import Cap
from wattqueue.parts.gpus import (
    NEVER,
    units_for_gpus,
    unknown_by_node,
    with_units_for_gpus,
)
from wattqueue.parts.memory import with_needed_units
from wattqueue.policy.policy import load_policy, policy_from_row
from wattqueue.sim.engine import Run, simulate

CPU = Partition("cpu", 8, idle_w=100.0, max_w=300.0)
NODE = Partition(
    "gpu", 4, idle_w=600.0, max_w=2_000.0, gpus_per_node=4, gpu_idle_w=50.0, gpu_max_w=400.0,
    gpu_caps_w=(400.0, 200.0), curve_share=(0.3, 1.0), curve_time=(2.0, 1.0),
)  # fmt: skip
SINGLE = replace(NODE, name="single", unit="gpu", idle_w=150.0, max_w=500.0)


def asking(nodes: list[int], gpus: list[float], **more: object) -> Jobs:
    n = len(nodes)
    return Jobs.build(np.zeros(n), nodes, [100.0] * n, extra={"gpus": np.array(gpus, np.float64)}, **more)


@pytest.mark.parametrize(
    ("nodes", "gpus", "needed"),
    [
        (2, 0, [2, 2, 8]),  # nodes: two units of nodes, eight of GPUs
        (2, 8, [NEVER, 2, 8]),
        (1, 3, [NEVER, 1, 3]),  # a chunk within a node
        (2, 4, [NEVER, 2, 8]),  # two of each node: whole nodes
        (1, 8, [NEVER, 2, 8]),  # of nodes with eight GPUs
        (2, 5, [NEVER, 2, 8]),  # not known by node: as few as hold all
        (3, 4, [NEVER, 1, 4]),
    ],
)
def test_a_need_belongs_to_the_partition(nodes: int, gpus: int, needed: list[int]) -> None:
    machine = Machine("m", (CPU, NODE, SINGLE))
    jobs = with_units_for_gpus(asking([nodes], [gpus]), machine)
    assert units_for_gpus(jobs, machine)[0].tolist() == needed
    assert jobs.nodes[0] == min(needed)
    assert unknown_by_node(jobs)[0] == (gpus % nodes != 0)


def test_a_job_runs_only_where_it_needs_what_it_has() -> None:
    """The first asks for no GPUs and gets nodes, the second GPUs, the third names a partition that has none."""
    machine = Machine("m", (CPU, SINGLE))
    jobs = with_needed_units(asking([2, 1, 1], [0, 2, 1], partition=["", "", "cpu"]), machine)
    run = simulate(jobs, machine, load_policy("easy"))
    assert run.schedule.option[:2].tolist() == [0, 1]
    assert run.schedule.state[2] == State.REJECTED
    named = with_needed_units(asking([2], [0], partition=["single"]), machine)
    assert named.nodes.tolist() == [8]
    assert simulate(named, machine, load_policy("easy")).schedule.option.tolist() == [1]


def test_without_a_column_or_without_gpus_jobs_stay_as_they_are() -> None:
    jobs = asking([2], [2])
    assert with_needed_units(jobs, Machine("m", (CPU,))) is jobs
    plain = replace(jobs, extra={})
    assert with_needed_units(plain, Machine("m", (NODE,))) is plain


def test_watts_of_a_node_are_shared_out_to_the_gpus_of_a_job() -> None:
    """A node of 4 x 150 W idle that drew 1,000 W: its 400 W above idle are those of the job's GPUs."""
    jobs = asking([1, 1, 2], [2, 4, 8], mean_power_w=[1_000.0, 1_000.0, 1_000.0])
    found = with_units_for_gpus(jobs, Machine("m", (SINGLE,)))
    assert found.nodes.tolist() == [2, 4, 8]
    assert found.mean_power_w is not None
    assert found.mean_power_w.tolist() == pytest.approx([350.0, 250.0, 250.0])
    assert with_units_for_gpus(jobs, Machine("m", (NODE,))).mean_power_w is not None
    same = with_units_for_gpus(jobs, Machine("m", (NODE,))).mean_power_w
    assert same is not None
    assert same.tolist() == [1_000.0] * 3


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 20)), min_size=1, max_size=8), st.sampled_from([1, 3, 4, 8])
)
def test_units_hold_the_gpus_that_are_asked_for(rows: list[tuple[int, int]], per_node: int) -> None:
    whole = replace(NODE, gpus_per_node=per_node, idle_w=2_000.0, max_w=9_000.0)
    single = replace(whole, name="single", unit="gpu", idle_w=500.0, max_w=2_000.0)
    jobs = asking([nodes for nodes, _ in rows], [gpus for _, gpus in rows])
    machine = Machine("m", (whole, single))
    needed = units_for_gpus(with_units_for_gpus(jobs, machine), machine)
    for (nodes, gpus), (of_nodes, of_gpus) in zip(rows, needed, strict=True):
        assert of_nodes * per_node >= gpus
        assert of_gpus >= gpus
        assert of_gpus == gpus <= per_node or of_gpus % per_node == 0, "within a node, or whole nodes"
        if gpus == 0:
            assert of_nodes == nodes


def limited(cap_w: float | None, policy: str = "frequency-window") -> tuple[np.ndarray, np.ndarray]:
    """Options and ends of two jobs of 100 s at 2,000 W a node, on two nodes with limits of 400 and 200 W."""
    machine = Machine("m", (replace(NODE, nodes=2),))
    jobs = with_needed_units(asking([1, 1], [4, 4], mean_power_w=[2_000.0] * 2, walltime_s=[500.0] * 2), machine)
    row = policy_from_row("r", {"estimator": "oracle-mean", "backfill": "easy", "frequency": policy})
    run = simulate(jobs, machine, row, cap=Cap.constant(cap_w) if cap_w else None)
    assert run.power.scope_w("machine").max() <= (cap_w or np.inf) + 1e-6
    return run.schedule.option, run.schedule.end_s


def test_under_a_cap_a_job_starts_at_the_greatest_limit_that_fits() -> None:
    """Two nodes at 400 W need 4,000 W; under 3,600 W the second gets the lower limit, and runs longer by the curve."""
    assert limited(None)[0].tolist() == [0, 0]
    option, end = limited(3_600.0)
    assert option.tolist() == [0, 1]
    # 1,400 W of GPUs under 600 W: 0.428 is left, of which the curve says 1.76
    assert end.tolist() == pytest.approx([100.0, 176.3], abs=0.5)
    assert limited(3_600.0, "highest")[1].tolist() == [100.0, 200.0]


def test_an_estimator_that_learns_predicts_what_a_limit_leaves() -> None:
    """What was drawn under a limit teaches what the job would draw without: it does not start without it."""
    machine = Machine("m", (replace(NODE, nodes=1),))
    jobs = asking([1, 1], [4, 4], mean_power_w=[1_500.0] * 2, user=["a", "a"])
    jobs = replace(with_needed_units(jobs, machine), submit_s=np.array([0.0, 200.0]))
    row = {"estimator": "history-mean", "backfill": "easy", "frequency": "frequency-window"}
    run = simulate(jobs, machine, policy_from_row("r", row), cap=Cap.constant(1_300.0))
    expected = simulate(
        jobs, machine, policy_from_row("o", {**row, "estimator": "oracle-mean"}), cap=Cap.constant(1_300.0)
    )
    assert run.schedule.option.tolist() == [1, 1]
    assert expected.schedule.option.tolist() == [1, 1]
    learned = float(run.schedule.energy_j[0] / (run.schedule.end_s[0] - run.schedule.start_s[0]))
    assert run.schedule.predicted_w[1] == pytest.approx(learned, rel=1e-6)


def test_a_table_has_whole_numbers_of_gpus(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("submit_s,nodes,runtime_s,gpus\n0,1,10,2\n0,1,10,\n")
    jobs = read_table(table)
    assert np.nan_to_num(jobs.extra["gpus"]).tolist() == [2.0, 0.0]
    table.write_text("submit_s,nodes,runtime_s,gpus\n0,1,10,2.5\n")
    with pytest.raises(InputError, match=r"gpus is 2\.5, not a whole number"):
        read_table(table)
    table.write_text("submit_s,nodes,runtime_s,gpus\n0,1,10,-1\n")
    with pytest.raises(InputError, match="gpus is -1"):
        read_table(table)


def test_physics_of_an_application_at_gpu_limits(tmp_path: Path) -> None:
    """Measured at both limits: half the watts and 1.2 times the time, whatever the curve of the partition says."""
    machine = Machine("m", (replace(NODE, nodes=1),))
    jobs = with_needed_units(asking([1], [4], mean_power_w=[1_600.0], app=["llm"], walltime_s=[500.0]), machine)
    row = policy_from_row("r", {"estimator": "oracle-mean", "backfill": "easy", "frequency": "frequency-window"})

    def run_under(rows: str) -> Run:
        (tmp_path / "cells.csv").write_text("app,partition,gpu_cap_w,watts,time_s\n" + rows)
        physics = Physics((read_cells(tmp_path / "cells.csv"),))
        return simulate(jobs, machine, row, cap=Cap.constant(1_300.0), actual=physics)

    run = run_under("llm,gpu,400,1600,50\nllm,gpu,200,800,60\n")
    assert run.schedule.option.tolist() == [1]
    assert run.schedule.end_s[0] == pytest.approx(120.0)
    assert run.schedule.energy_j[0] == pytest.approx(800.0 * 120.0)
    by_curve = run_under("llm,gpu,400,1600,50\n")
    assert by_curve.schedule.end_s[0] > 120.0, "a limit that no row states follows from the partition's curve"
    with pytest.raises(InputError, match="no GPU limit of 250 W"):
        run_under("llm,gpu,400,1600,50\nllm,gpu,250,900,60\n")
