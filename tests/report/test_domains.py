"""The map of power domains, from a run that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattqueue.formats.rundir.folder import RunRecord
from wattqueue.formats.unusable import Unusable
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.metrics import metrics
from wattqueue.model.signals import Cap
from wattqueue.model.supply import SupplyDomain
from wattqueue.policy.policy import load_policy
from wattqueue.report import plot
from wattqueue.report.figures import domains
from wattqueue.report.load import of_record
from wattqueue.report.run import RunData
from wattqueue.report.run_page import pictures, report
from wattqueue.sim.engine import simulate

JOBS = Jobs.build([0.0, 0.0, 100.0], [2, 1, 3], [100.0, 50.0, 100.0], mean_power_w=[200.0, 150.0, 250.0])
"""Two nodes of r1 at 200 W to 100 s, one of r2 at 150 W to 50 s; then three nodes at 250 W to 200 s."""


def run_on(*supply: SupplyDomain, idle_w: float = 50.0, jobs: Jobs = JOBS) -> RunData:
    machine = Machine("m", (Partition("a", 4, idle_w=idle_w, max_w=300.0),), supply=supply)
    run = simulate(jobs, machine, load_policy("fcfs", estimator="oracle-mean"))
    figures = metrics(run.jobs, run.schedule, run.power, machine, Cap.none())
    return of_record(RunRecord(run.jobs, machine, run.cap, run.schedule, run.power, figures, {}, Unusable()))


ROW = SupplyDomain(name="row", limit_w=1_500.0, base_w=100.0)
RACKS = (
    SupplyDomain(name="r1", parent="row", nodes="a[1-2]", limit_w=600.0, efficiency=0.9),
    SupplyDomain(name="r2", parent="row", nodes="a[3-4]", limit_s=(0.0, 100.0), limits_w=(400.0, 500.0)),
)


def test_hand_computed() -> None:
    run = run_on(*RACKS, ROW)
    assert [one.name for one in run.domains] == ["row", "r1", "r2"]
    row, first, second = (one.input for one in run.domains)
    at = np.array([10.0, 60.0, 150.0])
    assert first.at(at) == pytest.approx([400.0 / 0.9, 400.0 / 0.9, 500.0 / 0.9])
    assert second.at(at).tolist() == [200.0, 100.0, 300.0]
    assert row.at(at) == pytest.approx(100.0 + first.at(at) + second.at(at))
    found = domains.figure(run)
    assert found is not None
    columns = found.columns
    begin = (columns["name"] == "r2") & (columns["time_s"] == 0.0)
    assert columns["limit_w"][begin].tolist() == [400.0]
    assert columns["share"][begin].tolist() == [0.5]
    assert float(columns["share"].max()) == pytest.approx(500.0 / 0.9 / 600.0)
    assert "r1 is fullest: 92.6 % of its limit at most." in found.says
    assert "No domain is above its limit" in found.says
    assert len(found) == 3 * domains.MOST


def test_above_a_limit() -> None:
    low = replace(RACKS[1], limit_s=(), limits_w=(), limit_w=250.0)
    run = run_on(RACKS[0], low, ROW, jobs=replace(JOBS, mean_power_w=np.array([200.0, 100.0, 250.0])))
    assert run.domains[2].excess.maximum(0.0, 400.0) == 0.0  # the pass keeps it
    lower = replace(run.domains[1].limit, value=np.array([440.0]))
    tight = replace(run, domains=(replace(run.domains[1], limit=lower),))
    found = domains.figure(tight)
    assert found is not None
    assert "1 domain is above the limit, r1 for longest: " in found.says
    assert float(found.columns["share"].max()) > 1.0


def test_no_map_without_limits_or_watts() -> None:
    assert domains.figure(run_on()) is None
    free = [replace(one, limit_w=None, limit_s=(), limits_w=()) for one in (*RACKS, ROW)]
    assert domains.figure(run_on(*free)) is None


def test_page_and_picture_show_it() -> None:
    run = run_on(*RACKS, ROW)
    kinds = [kind for _, kind in pictures(run)]
    assert kinds.index("domains") == kinds.index("gantt") + 1
    assert "Power domains" in report(run)
    found = domains.figure(run)
    assert found is not None
    assert b"of the limit" in plot.inline(found, "domains").encode()
    many = [SupplyDomain(name=f"n{k}", nodes=f"a[{k}]", limit_w=300.0) for k in range(1, 5)]
    early = replace(JOBS, submit_s=np.array([0.0, 0.0, 110.0]), nodes=np.array([2, 1, 1], np.int32))
    assert len(domains.figure(run_on(*many, jobs=early)) or ()) == 4 * domains.MOST
    idle = run_on(*many, jobs=early).domains[3]
    assert idle.input.at(np.array([0.0, 150.0])).tolist() == [50.0, 50.0]  # no job ever runs there
