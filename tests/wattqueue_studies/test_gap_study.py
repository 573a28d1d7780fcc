"""The study of gaps: its design, its windows under a cap, losses by hand, and a small run to its document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.runs.perform import load
from wattqueue.runs.task import Task
from wattqueue.sim.engine import simulate
from wattqueue_studies.bound import prove
from wattqueue_studies.bound.assess import Search
from wattqueue_studies.bound.windows import cut_window
from wattqueue_studies.gap import cases, study
from wattqueue_studies.gap.cases import GapCase, SmallestArea, made_rows
from wattqueue_studies.gap.study import ABOVE, BEST, BOUND, GAP, TURNAROUND_S, GapStudy, designed, loss_rows
from wattqueue_studies.runtimes.study import RecordedTrace

pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")

QUICK = Search(tries=20, steps=20)


@pytest.fixture(autouse=True)
def coarse_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every grid is a proof; fine ones take seconds with kernels as plain Python."""
    monkeypatch.setattr(prove, "FEW_INTERVALS", 16)


def crowd(n: int = 10) -> Jobs:
    """Jobs of 1 to 4 nodes that come faster than 8 nodes run them, of known watts."""
    k = np.arange(n)
    return Jobs.build(
        submit_s=5.0 * k, nodes=1 + k * 5 % 4, runtime_s=40.0 + k * 17 % 60, walltime_s=200.0 + 0 * k,
        mean_power_w=150.0 + 10.0 * (k % 5), user=[f"u{i % 2}" for i in k],
    )  # fmt: skip


def test_every_row_of_the_design_exists() -> None:
    rows = {*made_rows(capped=True), BEST, BOUND}
    plain = {*made_rows(capped=False), BEST, BOUND}
    for losses in designed():
        for pair in losses.pairs:
            assert set(pair) <= (rows if losses.capped else plain), losses.text
    assert {name for claim in study.TOLD.claims for name in (claim.policy, claim.over)} <= rows
    assert all(made().name for made in made_rows(capped=True).values())


def test_the_smallest_job_comes_first_by_nodes_or_by_watts() -> None:
    """On one node's room three jobs of areas 30, 20 and 10 node-seconds run in the reverse of their submission."""
    jobs = Jobs.build(submit_s=[0, 1, 1, 1], nodes=[1, 1, 1, 1], runtime_s=[5, 30, 20, 10], mean_power_w=[150.0] * 4)
    machine = Machine("m", (Partition("a", 1, idle_w=100.0, max_w=200.0),))
    starts = simulate(jobs, machine, load_policy("first-fit", order=SmallestArea(False))).schedule.start_s
    assert starts.tolist() == [0.0, 35.0, 15.0, 5.0]
    watts = replace(jobs, mean_power_w=np.array([150.0, 110.0, 140.0, 190.0]))  # 10, 40 and 90 W above idle
    policy = load_policy("first-fit", order=SmallestArea(True), estimator="oracle-mean")
    starts = simulate(watts, machine, policy).schedule.start_s
    assert starts.tolist() == [0.0, 5.0, 35.0, 55.0]


def test_what_runs_goes_on_under_a_row_that_counts_more_for_it_than_the_cap() -> None:
    """The cap begins with the window: before it, jobs that run are admitted whatever a row counts for them."""
    read = load(Task("fugaku:jobs=2", nodes=8), machine=Machine("m", (Partition("a", 8, idle_w=90.0, max_w=200.0),)))
    inputs = replace(read, jobs=crowd(), cap=Cap.constant(1_400.0), policy=load_policy("easy", estimator="oracle-mean"))
    run = simulate(inputs.jobs, inputs.machine, inputs.policy, cap=inputs.cap)
    begin_s = float(np.sort(run.schedule.start_s)[4]) + 1.0
    window = cut_window(inputs.jobs, run.schedule, begin_s, 3, np.ones(10))
    case = GapCase(inputs, made_rows(capped=True), {1: window})
    found = study.window_figures(case, 1, QUICK)
    assert window.running > 1
    assert {name for name, row in found.items() if np.isnan(row[TURNAROUND_S])} == set()
    assert found[BOUND][TURNAROUND_S] <= found[BEST][TURNAROUND_S] * (1 + 1e-12)
    for name, row in found.items():
        if name != BOUND and not row[ABOVE]:
            assert row[GAP] >= -1e-9, name
            assert row[TURNAROUND_S] >= found[BEST][TURNAROUND_S] - 1e-9
    assert found["easy+pc"][TURNAROUND_S] > found["easy"][TURNAROUND_S]


def test_losses_are_signed_differences_over_the_bound() -> None:
    values = {
        ("w", "easy", TURNAROUND_S): np.array([12.0, 9.0]),
        ("w", "easy+rt-true", TURNAROUND_S): np.array([10.0, 10.0]),
        ("w", BOUND, TURNAROUND_S): np.array([8.0, 5.0]),
        ("w", "easy", ABOVE): np.array([0.0, 1.0]),
        ("w", "easy+rt-true", ABOVE): np.zeros(2),
        ("w", BOUND, ABOVE): np.zeros(2),
    }
    (row,) = loss_rows(equal_work(values))
    assert (row.row, row.over, row.above) == ("easy", "easy+rt-true", 1)
    assert row.loss.mean == pytest.approx((25.0 - 20.0) / 2)
    assert row.document()["loss_percent"]["low"] < 0.0 < row.document()["loss_percent"]["high"]


def test_a_trace_is_reported_with_all_its_rows(tmp_path: Path) -> None:
    jobs = [f"{i} {i * 600} -1 1700 {1 + i % 4} -1 -1 {1 + i % 4} 2500 -1 1 {i % 4} 1 -1 1 -1 -1 -1" for i in range(60)]
    (tmp_path / "busy.swf").write_text("; MaxNodes: 6\n" + "\n".join(jobs) + "\n")
    told: list[tuple[int, int]] = []
    few = GapStudy([RecordedTrace(tmp_path / "busy.swf", 6)], generated=False, window=8, windows=2, search=QUICK)
    report = few.run(lambda done, every: told.append((done, every)))
    assert told[-1][0] == told[-1][1]
    document = json.loads(json.dumps(report.document()))
    bound = {row["metric"]: row["values"] for row in document["results"] if row["policy"] == BOUND}
    assert all(value > 0 for value in bound[TURNAROUND_S])
    for row in document["results"]:
        if row["metric"] == GAP:
            assert all(value >= -1e-9 for value in row["values"]), row["policy"]
    text = "\n".join(report.lines())
    assert "not knowing run times" in text
    assert "not knowing watts" not in text, "no cap, no watts"
    assert max(map(len, report.lines())) <= 80


def test_no_workload_is_refused() -> None:
    with pytest.raises(InputError):
        GapStudy(generated=False).run()


def test_the_generated_workloads_are_those_of_the_claims() -> None:
    named = {on for claim in study.TOLD.claims for on in claim.on}
    assert "generated" in named
    assert f"generated, cap of {cases.CAP.replace('%', ' %')}" in named
