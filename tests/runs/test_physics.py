"""Physics through every verb that runs or scores: files, hashes, sources, the same truth for each policy."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import wattqueue as wq
from wattqueue.api.whatif import whatif
from wattqueue.campaign.plan import plan_of
from wattqueue.campaign.shared import Shared
from wattqueue.cli.rerun import differences
from wattqueue.formats.rundir.folder import write_run
from wattqueue.model.physics import Physics
from wattqueue.runs.perform import perform, prepared
from wattqueue.runs.physics import physics_of
from wattqueue.runs.record import record, recorded_inputs
from wattqueue.runs.task import Task
from wattqueue.whatif.analysis import never_above
from wattqueue.whatif.prepare import Question, prepare

SOURCE = "jobs with true watts and times by cells.csv"
MACHINE = """name = "site"
[[partitions]]
name = "p1"
nodes = 4
idle_w = 50.0
max_w = 400.0
[[partitions]]
name = "p2"
nodes = 4
idle_w = 50.0
max_w = 400.0
"""
JOBS = "submit_s,nodes,runtime_s,walltime_s,app,ran_partition,mean_power_w\n" + "".join(
    f"{10 * k},{1 + k % 3},{600 + k},4000,{('cg', 'ft', 'lu')[k % 3]},p1,{'' if k % 4 == 0 else 200 + k}\n"
    for k in range(30)
)
CELLS = "app,partition,watts,time_s\ncg,p1,250,100\ncg,p2,150,150\nft,p1,300,100\nft,p2,330,60\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "site.toml").write_text(MACHINE)
    (tmp_path / "physics.toml").write_text('table = "cells.csv"\n')
    (tmp_path / "cells.csv").write_text(CELLS)
    (tmp_path / "apps.csv").write_text(
        "app_id,module_index,time_s,power_w,cpi,tpi\ncg,0,100,250,1,0\ncg,1,150,150,1,0\nft,0,100,300,1,0\nft,1,60,330,1,0\n"
    )
    same = "2.0,2.0,1,1,0,0,1,0,0"
    head = "module,f_ref_ghz,f_target_ghz,available,A,B,C,D,E,F"
    (tmp_path / "coefficients.csv").write_text(f"{head}\np1,{same}\np2,{same}\n")
    return tmp_path


def simulated(site: Path, **more: Any) -> wq.RunResult:
    stated = {"physics": site / "physics.toml", **more}
    return wq.simulate(str(site / "jobs.csv"), str(site / "site.toml"), **stated)


def test_a_run_and_its_repetition(site: Path) -> None:
    run = simulated(site, policy="fcfs")
    frame = pl.read_csv(run.save(site / "out") / "jobs.csv")
    plain = wq.simulate(str(site / "jobs.csv"), str(site / "site.toml"), policy="fcfs")
    assert run.notes[SOURCE] == 20
    assert run.notes["jobs with true watts and times by the machine's exponents"] == 10
    assert not any("physics" in text or "true" in text for text in plain.notes)
    slower = {("cg", "p2"): 1.5, ("ft", "p2"): 0.6}
    for row in frame.iter_rows(named=True):
        factor = slower.get((row["app"], row["partition"]), 1.0)
        k = int(row["job_id"]) - 1
        assert row["execution_time"] == pytest.approx((600 + k) * factor)
        watts = {"cg": 250.0, "ft": 300.0, "lu": 400.0}[row["app"]] if k % 4 == 0 else 200.0 + k
        ratio = {("cg", "p2"): 0.6, ("ft", "p2"): 1.1}.get((row["app"], row["partition"]), 1.0)
        assert row["consumed_energy"] == pytest.approx(
            (600 + k) * factor * watts * ratio * row["requested_number_of_resources"], rel=1e-6
        )
    assert {row["partition"] for row in frame.iter_rows(named=True)} == {"p1", "p2"}
    inputs = recorded_inputs(site / "out")
    assert set(inputs.task.hashes) >= {"physics", str(site / "cells.csv")}
    write_run(site / "again", record(perform(inputs)))
    assert differences(site / "out", site / "again") == []
    np.testing.assert_array_equal(prepared(inputs).actual.power_w, perform(inputs).run.actual.power_w)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["physics.toml", "cells.csv"])
def test_a_file_that_changed_since_is_refused(site: Path, name: str) -> None:
    simulated(site).save(site / "out")
    (site / name).write_text((site / name).read_text() + "\n")
    for again in (lambda: recorded_inputs(site / "out"), lambda: wq.replay(site / "out", str(site / "jobs.csv"))):
        with pytest.raises(wq.InputError) as caught:
            again()
        assert str(site / name) in str(caught.value)


def test_a_replay_with_the_workload_has_the_same_truth(site: Path) -> None:
    run = simulated(site)
    run.save(site / "out")
    again = wq.replay(site / "out", str(site / "jobs.csv"), starts="recorded")
    assert again.notes[SOURCE] == 20
    assert again.metrics["machine_energy_j"] == pytest.approx(run.metrics["machine_energy_j"], rel=1e-9)
    assert again.metrics["makespan_s"] == run.metrics["makespan_s"]
    without = wq.simulate(str(site / "jobs.csv"), str(site / "site.toml"))
    assert without.metrics["machine_energy_j"] != pytest.approx(run.metrics["machine_energy_j"], rel=1e-3)


def test_of_the_machine_file_as_of_a_file_of_its_own(site: Path) -> None:
    named = simulated(site)
    (site / "with.toml").write_text(MACHINE + '[physics]\ntable = "cells.csv"\n')
    own = wq.simulate(str(site / "jobs.csv"), str(site / "with.toml"))
    assert own.metrics == named.metrics
    own.save(site / "out")
    assert differences(site / "out", own.save(site / "other")) == []
    write_run(site / "again", record(perform(recorded_inputs(site / "out"))))
    assert differences(site / "out", site / "again") == []
    machine = wq.load_machine(site / "with.toml")
    assert wq.simulate(str(site / "jobs.csv"), machine).metrics == named.metrics
    given = physics_of(Task("", physics=str(site / "physics.toml")), machine)
    assert isinstance(given, Physics)
    again = wq.simulate(str(site / "jobs.csv"), str(site / "site.toml"), physics=given)
    assert again.metrics == named.metrics
    again.save(site / "object")
    for repeat in (recorded_inputs, lambda folder: wq.replay(folder, str(site / "jobs.csv"))):
        with pytest.raises(wq.InputError):
            repeat(site / "object")


def test_runs_of_different_physics_are_not_compared(site: Path) -> None:
    """Folders, results and replays; another seed, and another folder with the same figures, are the same physics."""
    known, erred = simulated(site), simulated(site, physics_error=0.05)
    elsewhere = site / "elsewhere"
    elsewhere.mkdir()
    for name in ("physics.toml", "cells.csv"):
        (elsewhere / name).write_text((site / name).read_text())
    known.save(site / "known")
    same = [simulated(site, policy="fcfs", physics=elsewhere / "physics.toml")]
    same.append(wq.replay(site / "known", str(site / "jobs.csv"), starts="recorded"))
    for run in same:
        frame = wq.compare({"known": site / "known", "same": run}).frame
        assert frame["difference_percent"].drop_nulls().len() > 0
    assert simulated(site, seed=3).work.truth == known.work.truth != ""
    without = wq.simulate(str(site / "jobs.csv"), str(site / "site.toml"))
    for run in (erred, without):
        found = wq.compare({"known": known, "other": run})
        assert found.frame["difference_percent"].drop_nulls().len() == 0
        assert "different physics" in repr(found)
    assert simulated(site, physics_error=0.05, seed=3).work.truth not in ("", known.work.truth, erred.work.truth)


def test_prediction_and_truth_of_one_file_are_named(site: Path) -> None:
    (site / "ear.toml").write_text('reference = "p1"\near = { coefficients = "coefficients.csv", apps = "apps.csv" }\n')
    (site / "row.toml").write_text(
        '[mine]\nestimator = { part = "ear", profiles = { coefficients = "coefficients.csv", apps = "apps.csv" } }\n'
        'order = "priority-inc"\nfrequency = "least-distance"\n'
    )
    more: dict[str, Any] = {"policy": f"{site / 'row.toml'}:mine", "physics": site / "ear.toml"}
    note = "prediction = truth: files that estimator and physics both read (coefficients.csv, apps.csv)"
    assert simulated(site, **more).notes[note] == 2
    assert note not in simulated(site, **more, physics_error=0.05).notes
    assert not any("prediction = truth" in text for text in simulated(site, policy=more["policy"]).notes)
    assert (
        note
        in whatif(str(site / "jobs.csv"), str(site / "site.toml"), cap="100%", workers=1, **more).files["whatif.json"]
    )


def test_an_error_is_drawn_by_seed_and_stored(site: Path) -> None:
    found = [simulated(site, physics_error=0.1, seed=seed).metrics["machine_energy_j"] for seed in (1, 2, 1)]
    assert found[0] == found[2] != found[1]
    run = simulated(site, physics_error=0.1, seed=1)
    run.save(site / "out")
    inputs = recorded_inputs(site / "out")
    assert (inputs.task.physics_error, inputs.task.seed) == (0.1, 1)
    assert perform(inputs).metrics["machine_energy_j"] == found[0]
    again = wq.replay(site / "out", str(site / "jobs.csv"), starts="recorded")
    assert again.metrics["machine_energy_j"] == pytest.approx(found[0], rel=1e-9)
    with pytest.raises(wq.InputError):
        wq.simulate(str(site / "jobs.csv"), str(site / "site.toml"), physics_error=0.1)
    with pytest.raises(wq.InputError):
        simulated(site, physics_error=1.5)


def test_whatif_has_the_same_truth(site: Path) -> None:
    found = whatif(
        str(site / "jobs.csv"), str(site / "site.toml"), cap="90%,100%", workers=1, physics=site / "physics.toml"
    )
    run = simulated(site, cap="100%")
    row = next(row for row in found.rows if row["cap"] == "100%")
    assert row["machine_energy_j"] == run.metrics["machine_energy_j"]
    assert row["wait_s_mean"] == run.metrics["wait_s_mean"]
    # Without physics the estimator maximum keeps every cap by construction; with it, what jobs draw elsewhere decides.
    task = Task(str(site / "jobs.csv"), str(site / "site.toml"))
    for name, by_construction in ((None, True), (str(site / "physics.toml"), False)):
        setup = prepare(Question(replace(task, physics=name)))
        assert never_above(setup, setup.policy(("easy", None))) == by_construction
        known = setup.known_w
        assert known is not None
        # Tables give cg and ft the watts that the trace lacks: of every 12 jobs 3 have none, one of them is lu.
        assert int(np.isnan(known).sum()) == (8 if name is None else 2)
    stated = json.loads(found.files["whatif.json"])
    assert SOURCE in json.dumps(stated["configurations"])
    assert set(stated["task"]["hashes"]) >= {"physics"}


def test_campaigns_have_the_same_truth(site: Path) -> None:
    (site / "c.toml").write_text(
        'workloads = ["jobs.csv"]\nmachines = ["site.toml"]\nphysics = "physics.toml"\n'
        "physics_error = 0.1\nseeds = [1, 2]\n"
    )
    plan = plan_of(site / "c.toml")
    shared = Shared(site / "shared")
    (site / "shared").mkdir()
    cells = plan.cells([source.perform(shared) for source in plan.sources])
    rows = [cell.perform(shared) for cell in cells]
    assert [row["seed"] for row in rows] == [1, 2]
    for row in rows:
        run = simulated(site, physics_error=0.1, seed=row["seed"])
        assert row["machine_energy_j"] == run.metrics["machine_energy_j"]
        assert f"{SOURCE}: 20" in str(row["physics"])
    before = [cell.identity()["physics"] for cell in cells]
    assert len(set(before)) == 2
    (site / "cells.csv").write_text(CELLS.replace("150,150", "151,150"))
    assert (
        plan_of(site / "c.toml").cells([source.perform(shared) for source in plan.sources])[0].identity()["physics"]
        != before[0]
    )
    (site / "cells.csv").write_text(CELLS.replace("p2", "p9"))
    with pytest.raises(wq.InputError) as caught:
        plan_of(site / "c.toml")
    assert str(site / "cells.csv:3") in str(caught.value)


def test_predict_scores_the_watts_of_tables_where_the_trace_has_none(site: Path) -> None:
    given: dict[str, Any] = {"machine": str(site / "site.toml"), "physics": site / "physics.toml"}
    scores = wq.predict(str(site / "jobs.csv"), "last-job", **given)
    watts = scores.evaluation.actual_w
    # jobs 1, 5, 9, ... state none: cg and ft have the table's figure, lu stays unknown
    expected = [{0: 250.0, 1: 300.0, 2: np.nan}[k % 3] if k % 4 == 0 else 200.0 + k for k in range(30)]
    np.testing.assert_allclose(watts, expected)
    assert any("6 of 30 jobs" in text and "cells.csv" in text for text in scores.remarks)
    off = wq.predict(str(site / "jobs.csv"), "last-job", **given, physics_error=0.1, seed=3).evaluation.actual_w
    ratio = off / watts
    assert len(set(np.round(ratio[np.isfinite(ratio)], 9))) == 3


def test_a_report_names_the_sources(site: Path) -> None:
    run = simulated(site)
    page = run.report(site / "page.html").read_text()
    assert "Physics: jobs with true watts and times by cells.csv" in page
    assert re.search(r"by cells\.csv</th>.{,200}>20.jobs<", page)
