"""``wattqueue plan``: a hand-computed case, what must hold of any answer, bad input, and its files."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wattqueue as wq
from tests.plan.test_risk import naive_input
from tests.program import wattqueue
from wattqueue.errors import InputError, MachineError
from wattqueue.formats.table.job_table import write_table
from wattqueue.formats.unusable import Unusable
from wattqueue.formats.workload import Workload
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.profiles import PowerProfiles
from wattqueue.model.schedule import State
from wattqueue.model.supply import SupplyDomain
from wattqueue.plan.answer import PlanAnswer, answer, largest_row
from wattqueue.plan.page import document, files
from wattqueue.plan.prepare import KnownWatts, PlanQuestion, prepare
from wattqueue.plan.quantiles import read_quantiles
from wattqueue.plan.risk import worst_of
from wattqueue.plan.text import headline
from wattqueue.plan.trial import mean_waits_s
from wattqueue.plan.truth import exceedances
from wattqueue.policy.policy import load_policy
from wattqueue.runs.task import Task
from wattqueue.sim.engine import simulate

DAY_S = 86_400.0


def racks(limit_w: float, row_w: float | None = None, *, nodes: int = 8, max_w: float = 300.0) -> Machine:
    """Two racks of half of the nodes each, below a row."""
    half = nodes // 2
    supply = (
        SupplyDomain(name="row", limit_w=row_w),
        SupplyDomain(name="r1", parent="row", nodes=f"a[1-{half}]", limit_w=limit_w),
        SupplyDomain(name="r2", parent="row", nodes=f"a[{half + 1}-{nodes}]", limit_w=limit_w),
    )
    return Machine("m", (Partition("a", nodes, idle_w=100.0, max_w=max_w),), supply=supply)


def jobs_of(seed: int = 5, n: int = 240, load: float = 0.75, nodes: int = 8, spread: float = 25.0) -> Jobs:
    """Jobs over some nine days at a load of so many nodes, whose users draw much the same each time."""
    rng = np.random.default_rng(seed)
    size, run = rng.choice([1, 2, 4], n), rng.lognormal(8.4, 0.8, n).round() + 60.0
    gap = float((size * run).sum()) / nodes / load / n
    user = rng.integers(0, 6, n)
    watts = np.clip(150.0 + 15.0 * user + rng.normal(0.0, spread, n), 105.0, 295.0)
    return Jobs.build(
        np.cumsum(rng.exponential(gap, n)).round(), size, run, walltime_s=np.full(n, DAY_S),
        user=[f"u{k}" for k in user], mean_power_w=watts.round(1), origin="generated",
    )  # fmt: skip


def planned(jobs: Jobs, machine: Machine, estimator: str | None = "oracle-mean", **more: object) -> PlanAnswer:
    question = PlanQuestion(Task("jobs.csv", estimator=estimator), **more)  # type: ignore[arg-type]
    return answer(prepare(question, machine=machine, workload=Workload(jobs, Unusable(), "test", len(jobs))))


def test_hand_computed() -> None:
    # A rack of 1,010 W: three nodes at their maximum of 300 W. Jobs draw 200 W, and never less nodes than there are
    # wait: five busy nodes fill a rack. A sixth, idle at 100 W, would leave room for four busy ones alone.
    n = 160
    jobs = Jobs.build(np.arange(n) * 100.0, np.ones(n), np.full(n, 40_000.0), mean_power_w=np.full(n, 200.0))
    found = planned(jobs, racks(1_010.0, nodes=6), risk=0.001)
    assert (found.nameplate, found.high, found.nodes) == (6, 10, 10)
    assert found.planning == 1.0
    assert found.waits_s[0] == found.waits_s[1] > 0  # nothing is held back, on machines that are full
    assert found.risk.upper == 0.0
    assert found.hotter == 8  # four of 220 W, as five are 1,100 W
    assert headline(found).startswith("**+4 nodes** beyond the 6 that fit at their stated maximum (10, 66.7 %)")


def test_higher_limits_never_give_fewer_nodes_and_hotter_jobs_never_more() -> None:
    jobs = jobs_of(1, nodes=12, load=0.9)
    answers = [planned(jobs, racks(1_600.0 * f, 3_000.0 * f, nodes=12)) for f in (1.0, 1.07, 1.2)]
    nodes = [found.nodes for found in answers]
    assert nodes == sorted(nodes)
    assert nodes[0] < nodes[-1]
    for found in answers:
        assert found.hotter <= found.nodes
        assert found.nodes >= found.nameplate
        assert found.risk.upper <= 0.001


def test_nodes_that_are_found_keep_the_limits() -> None:
    jobs = jobs_of(3)
    found = planned(jobs, racks(1_000.0, 1_850.0))
    assert found.more > 0
    assert found.run.schedule.ran.all()  # liveness: every job starts
    run, unit_w = found.run, np.asarray(found.run.jobs.mean_power_w)
    assert run.machine.partitions[0].nodes == found.nodes
    assert found.waits_s[1] <= max(1.05 * found.waits_s[0], found.waits_s[0] + 1.0)
    limits = {"row": 1_850.0, "r1": 1_000.0, "r2": 1_000.0}
    fullest = dict.fromkeys(limits, 0.0)
    for time_s in np.unique(run.schedule.start_s):
        for name in limits:
            fullest[name] = max(fullest[name], naive_input(run, name, unit_w, float(time_s)))
    assert all(fullest[name] <= limits[name] + 1e-5 for name in limits)
    assert max(fullest[name] / limits[name] for name in limits) > 0.9
    assert found.replay.share == 0.0


def test_jobs_that_draw_more_than_was_counted_leave_room_below_the_limits() -> None:
    jobs, machine = jobs_of(4), racks(1_000.0, 1_850.0)
    exact, low = planned(jobs, machine), planned(jobs, machine, "oracle-mean+margin:factor=0.9")
    assert low.nodes <= exact.nodes
    assert low.risk.upper <= 0.001
    assert low.planning < 0.97 < exact.planning
    assert low.replay.share == 0.0  # by the watts of the very jobs, too
    learned = [planned(jobs, machine, "history-mean", risk=risk).nodes for risk in (1e-6, 0.2)]
    assert learned == sorted(learned)


def test_few_days_are_no_evidence() -> None:
    jobs = jobs_of(5, n=60)
    found = planned(jobs, racks(1_000.0, 1_850.0), "history-mean")
    assert found.risk.share == 0.0
    assert max(one.correlation for one in found.risks) == 1.0
    assert any("give no interval" in str(part) for part in document(found).text)


def test_the_load_may_stay() -> None:
    jobs = jobs_of(6)
    same = planned(jobs, racks(1_000.0, 1_850.0), same_load=True)
    assert np.array_equal(same.run.jobs.submit_s, jobs.submit_s)
    grown = planned(jobs, racks(1_000.0, 1_850.0))
    assert np.ptp(grown.run.jobs.submit_s) == pytest.approx(np.ptp(jobs.submit_s) * 8 / grown.nodes)
    assert same.nodes >= grown.nodes


def test_quantiles_alone_take_correlation_one(tmp_path: Path) -> None:
    table = tmp_path / "watts.csv"
    table.write_text("percent,node_w,other_w\n0,100,1\n50,150,2\n99.9,200,3\n100,250,4\n")
    jobs = replace(jobs_of(7), mean_power_w=None)
    found = planned(jobs, racks(1_000.0), None, power_quantiles=table, column="node_w")
    assert (found.nameplate, found.high, found.nodes, found.hotter) == (6, 10, 10, 8)
    assert found.risk.correlation == 1.0
    assert found.risk.share == pytest.approx(0.001)
    assert found.waits_s[0] == found.waits_s[1]
    assert found.run.schedule.ran.all()
    assert "(correlation 1)" in "".join(map(str, document(found).text))
    assert planned(jobs, racks(1_000.0), None, power_quantiles=table, column="node_w", risk=1e-4).nodes == 8


def test_quantiles_of_a_real_cluster(data_dir: Path) -> None:
    table = read_quantiles(data_dir / "gpu" / "acme_power_quantiles.csv", "seren_gpu_server_w")
    assert 2_490.0 < table.at(0.5) < 2_530.0
    assert table.at(0.999) == 6554.0  # rows are half a percent apart: the next one
    assert table.share_above(6554.0) == 0.0
    assert table.share_above(5696.0) == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("percent,w\n0,5\n50,4\n100,9\n", "watts fall"),
        ("percent,w\n0,5\n99,9\n", "percents from 0 to 99"),
        ("percent,w\n0,0\n100,0\n", "no watts above 0"),
        ("share,w\n0,0\n100,1\n", "no column percent"),
    ],
)
def test_tables_that_are_no_quantiles(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_quantiles(path, None)


def test_a_derated_row_is_rehearsed() -> None:
    jobs = jobs_of(8, load=0.9)
    found = planned(jobs, racks(1_000.0, 1_850.0)).rehearsal
    assert (found.domain, found.limit_w, found.never_ran, found.refused) == ("row", 1_387.5, 0, "")
    assert found.extra_wait_s > 0
    assert 0.0 <= found.above_s < 8 * 3_600.0
    rack = planned(jobs, racks(1_000.0, 1_850.0), derate_domain="r2", derate=0.9).rehearsal
    assert (rack.domain, rack.limit_w, rack.refused) == ("r2", 900.0, "")
    low = planned(jobs, racks(1_000.0, 1_850.0), derate=0.01).rehearsal
    assert "below its base and the idle watts" in low.refused
    assert largest_row(racks(1_000.0).supply_tree) == "r1"  # the row has no limit


def test_waits_are_compared_over_the_jobs_that_ran_in_both() -> None:
    """One that never ran in the other run waited longest: left out there alone, waits would seem to fall."""
    jobs = Jobs.build(np.array([0.0, 0.0, 1.0]), np.array([8, 8, 8]), np.full(3, 100.0))
    run = simulate(jobs, replace(racks(2400.0), supply=()), load_policy("easy"))
    schedule = run.schedule
    lost = replace(schedule, state=np.array([State.COMPLETED, State.COMPLETED, State.NOT_STARTED], np.int8))
    other = replace(run, schedule=replace(lost, start_s=schedule.start_s + np.array([0.0, 10.0, np.nan])))
    assert mean_waits_s(run, other) == (50.0, 55.0)
    assert mean_waits_s(other, run) == (55.0, 50.0)


def test_bad_questions() -> None:
    jobs = jobs_of(9, n=20)
    for machine, more, kind, said in (
        (racks(250.0, nodes=2), {}, MachineError, "do not carry a node of a at its stated maximum"),
        (racks(1_000.0), {"partition": "b"}, InputError, "no partition 'b'"),
        (racks(1_000.0), {"derate_domain": "x"}, InputError, "no domain 'x'"),
        (racks(1_000.0), {"breaker": "70%"}, InputError, "no limit of a breaker"),
        (racks(1_000.0), {"power_quantiles": Path("q.csv")}, InputError, "q.csv"),
        (Machine("m", (Partition("a", 4, max_w=None),)), {"breaker": "1kW"}, InputError, "states no maximum"),
        (Machine("m", (Partition("a", 4, max_w=90.0),)), {}, MachineError, "no limit stands above"),
    ):
        with pytest.raises(kind, match=said):
            planned(jobs, machine, **more)
    with pytest.raises(InputError, match="no job has measured watts"):
        planned(replace(jobs, mean_power_w=None), racks(1_000.0))


def test_the_verb_and_the_function_write_the_same(tmp_path: Path) -> None:
    table, machine = tmp_path / "jobs.csv", tmp_path / "site.toml"
    write_table(table, jobs_of(2))
    machine.write_text(
        'name = "site"\n[[partitions]]\nname = "a"\nnodes = 8\nidle_w = 100.0\nmax_w = 300.0\n'
        '[[supply]]\nname = "row"\nlimit_w = 1850.0\n'
        '[[supply]]\nname = "r[1-2]"\nparent = "row"\nnodes = "a[1-8]"\nlimit_w = 1000.0\n'
    )
    options = ("--machine", machine, "--estimator", "history-max", "--breaker", "1.8kW")
    done = wattqueue("plan", table, *options, "--out", tmp_path / "line")
    assert done.returncode == 0, done.stderr
    found = wq.plan(table, machine, estimator="history-max", breaker="1.8kW")
    found.save(tmp_path / "api")
    for name in ("plan.csv", "plan.json", "report.html"):
        assert (tmp_path / "api" / name).read_bytes() == (tmp_path / "line" / name).read_bytes(), name
    assert found.sentence in " ".join(done.stdout.split())
    told = json.loads((tmp_path / "line" / "plan.json").read_text())
    assert (told["nodes"], told["more"], told["answer"]) == (found.nodes, found.more, found.sentence)
    assert json.loads(wattqueue("plan", table, *options, "--json").stdout) == told
    with (tmp_path / "line" / "plan.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["nodes"]) for row in rows] == found.frame["nodes"].to_list()
    assert {int(row["nodes"]) for row in rows if row["fits"] == "True"} >= {found.nodes}
    assert "breaker" in told["limits_w"]
    refused = wattqueue("plan", table, "--nodes", "8")
    assert refused.returncode == 2
    assert "states no maximum" in refused.stderr


def test_the_page_shows_what_the_text_says() -> None:
    found = planned(jobs_of(2), racks(1_000.0, 1_850.0), "history-max")
    page = files(found, document(found))["report.html"]
    assert f"+{found.more}" in page
    assert f"{found.high}" in page
    assert "Rehearsed: row" in page


def test_what_belongs_together_in_the_workload_counts() -> None:
    # wide jobs draw twice what was counted, narrow ones half: drawn from each other, few are hot in one place at once
    jobs = jobs_of(10, load=0.9)
    wide = jobs.nodes == 4
    jobs = replace(jobs, mean_power_w=np.where(wide, 240.0, 120.0))
    setup = prepare(
        PlanQuestion(Task("jobs.csv", estimator="oracle-mean")), machine=racks(1_100.0, 1_850.0),
        workload=Workload(jobs, Unusable(), "test", len(jobs)),
    )  # fmt: skip
    machine = setup.growth.grown(8, math.inf)
    run = simulate(jobs, machine, load_policy("easy", estimator="oracle-mean"))
    counted = np.asarray(np.where(wide, 120.0, 240.0) * jobs.nodes, np.float64)
    found = exceedances(replace(run, schedule=replace(run.schedule, predicted_w=counted)), setup, 8, 1.0)
    own, others = (worst_of([one for one in found if one.own is mine]) for mine in (True, False))
    assert own.share > 0.0
    assert others.share > 0.0
    exact = exceedances(run, setup, 8, 1.0)
    assert worst_of([one for one in exact if one.own]).share == own.share  # it is the same truth
    assert [one.own for one in exact] == [False, True]  # ratios of 1 alone: no correlation to try


def test_parts_of_a_run_are_those_of_its_profile() -> None:
    profiles = PowerProfiles.from_samples([[100.0] * 12 + [200.0] * 4, []], period_s=10.0)
    jobs = Jobs.build([0.0, 1.0], [2, 1], [160.0, 50.0], mean_power_w=[125.0, 90.0], max_power_w=[200.0, 110.0],
                      profiles=profiles)  # fmt: skip
    known = KnownWatts.of(jobs, jobs.peak_power_w())
    assert known.level_w[0].tolist() == [100.0] * 12 + [200.0] * 4
    assert set(known.level_w[1]) == {110.0}
    assert (known.greatest, known.known) == (200.0, 1.0)
    assert known.quantile(0.6) == 100.0  # 240 of 370 unit-seconds
    assert known.quantile(0.999) == 200.0
    assert KnownWatts.of(jobs, None).known == 0.0
