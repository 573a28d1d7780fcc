"""From a real file to the metrics: the figures that an independent simulator gives, start by start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wattqueue.formats.rundir.folder import RunRecord, read_run, write_run
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.model.machine import plain_machine
from wattqueue.model.metrics import metrics
from wattqueue.policy.policy import load_policy
from wattqueue.sim.engine import simulate


@pytest.mark.parametrize(
    ("first", "wait_s", "machine_j"),
    [
        (5_000, 9_462.25, 105_834_387_060.83),
        pytest.param(28_481, 6_834.59, None, marks=pytest.mark.compiled),
    ],
)
def test_easy_on_kth_sp2(data_dir: Path, tmp_path: Path, first: int, wait_s: float, machine_j: float | None) -> None:
    jobs = read_swf(data_dir / "swf" / "KTH-SP2.swf.gz").jobs.take(np.arange(first))
    jobs = replace(jobs, mean_power_w=np.full(first, 190.738))
    machine = plain_machine(100, 95.0, 190.738)
    run = simulate(jobs, machine, load_policy("easy"))
    found = metrics(jobs, run.schedule, run.power, machine, run.cap)
    assert found["wait_s_mean"] == pytest.approx(wait_s, abs=0.005)
    if machine_j is not None:
        assert found["machine_energy_j"] == pytest.approx(machine_j, abs=0.005)
    write_run(tmp_path, RunRecord(jobs, machine, run.cap, run.schedule, run.power, found))
    again = read_run(tmp_path)
    assert metrics(again.jobs, again.schedule, again.power, again.machine, again.cap) == found
