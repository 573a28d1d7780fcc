"""Objects in place of names, results in a notebook, and what is refused."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import wattqueue as wq
from tests.api.conftest import Line
from wattqueue.errors import OutputError

WATTS: dict[str, Any] = {"nodes": 8, "node_watts": "95:190.7"}


@pytest.fixture
def run(trace: Path) -> wq.RunResult:
    return wq.simulate(trace, **WATTS, cap="80%", estimator="oracle-mean")


def test_a_table_of_jobs(trace: Path, tmp_path: Path) -> None:
    jobs = wq.read_jobs(trace)
    assert len(jobs) == 79
    assert jobs.frame.height == 79
    assert jobs.unusable["line"].to_list() == [80]
    few = jobs.take(jobs.frame["submit_s"] < 400)
    assert few.frame["submit_s"].to_list() == [10.0 * i for i in range(1, 40)]
    few.save(tmp_path / "few.parquet")
    assert wq.read_jobs(tmp_path / "few.parquet").frame.equals(few.frame)
    assert "79\N{NO-BREAK SPACE}jobs" in jobs._repr_html_()
    assert "trace.swf" in repr(jobs)


def test_jobs_from_arrays(line: Line, tmp_path: Path) -> None:
    jobs = wq.Jobs.build(pl.Series([0.0, 5.0]), [4, 1], [60.0, 30.0], user=["ada", "bob"])
    run = wq.simulate(jobs, nodes=4)
    assert run.jobs["starting_time"].to_list() == [0.0, 60.0]
    assert run.jobs["user"].to_list() == ["ada", "bob"]
    done = line("rerun", run.save(tmp_path / "out"))
    assert isinstance(done.exception, wq.InputError)
    assert "memory" in str(done.exception.where)
    assert wq.whatif(jobs, nodes=4, node_watts="50:200", cap="90%", workers=1).frame.height == 2


def test_frames_become_frames_of_pandas() -> None:
    jobs = wq.Jobs.build([0.0, 5.0, 6.0], [4, 1, 9], [60.0, 30.0, 10.0], user=["ada", "bob", "bob"])
    run = wq.simulate(jobs, nodes=4, node_watts="50:200")
    assert run.jobs["starting_time"].null_count() == 1  # the third is too wide
    for frame in (run.jobs, run.power):
        assert pl.from_pandas(frame.to_pandas()).cast(frame.schema).equals(frame)


def test_objects_give_what_names_give(trace: Path, run: wq.RunResult) -> None:
    machine = wq.Machine("8-nodes", (wq.Partition("batch", 8, idle_w=95.0, max_w=190.7),))
    cap = wq.Cap.constant(0.8 * 8 * 190.7)
    policy = wq.load_policy("easy", estimator="oracle-mean")
    same = wq.simulate(wq.read_jobs(trace), machine, policy=policy, cap=cap)
    assert same.metrics == run.metrics
    assert same.jobs.equals(run.jobs)
    again = wq.simulate(trace, machine, policy="easy", estimator=policy.estimator, cap=cap)
    assert again.metrics == run.metrics
    assert again.label == "easy, python:OracleMean, cap of its own (oracle: oracle-mean)"


class Shortest:
    """A custom pass: the shortest walltime that fits starts first."""

    def schedule(self, view: Any) -> list[Any]:
        from wattqueue.parts import Start

        free, starts = view.free.copy(), []
        for entry in sorted(view.queue, key=lambda entry: view.jobs.walltime_s[view.entry_job(entry)]):
            nodes = view.jobs.nodes[view.entry_job(entry)]
            if nodes <= free[0]:
                free[0] -= nodes
                starts.append(Start(entry, 0))
        return starts


def test_a_part_made_here(trace: Path, tmp_path: Path) -> None:
    run = wq.simulate(trace, nodes=8, policy=wq.load_policy("easy", backfill=Shortest()))
    assert run.metrics["jobs_completed"] == 79
    run.save(tmp_path / "out")
    assert "python:Shortest" in (tmp_path / "out" / "run.toml").read_text()
    assert wq.read_run(tmp_path / "out").metrics == run.metrics


def test_a_part_put_in_place_of_another(trace: Path) -> None:
    """The simulation runs the policy as it is, not the row that it was once made from."""
    named = wq.simulate(trace, nodes=8, policy=wq.load_policy("easy", backfill=Shortest()))
    policy = wq.load_policy("easy")
    put = wq.simulate(trace, nodes=8, policy=replace(policy, backfill=Shortest()))
    assert put.metrics == named.metrics != wq.simulate(trace, nodes=8, policy=policy).metrics
    assert put.label == named.label == "easy, backfill=python:Shortest"
    by_hand = wq.simulate(trace, nodes=8, policy=replace(policy, backfill=Shortest(), row={}, made={}))
    assert by_hand.metrics == named.metrics


def test_a_run_in_a_notebook(run: wq.RunResult) -> None:
    pytest.importorskip("matplotlib")
    html = run._repr_html_()
    svg = ET.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])  # noqa: S314  our own
    assert svg.attrib["role"] == "img"
    assert "never exceeded" in svg.attrib["aria-label"]
    assert "<script" not in html
    assert "<style" not in html  # its rules would reach the whole page
    assert re.findall(r'(?:href|src)="(?!#)', html) == []
    assert not re.search(r"(fill|stroke): #(1b2430|566171|ffffff)", html)  # these are the theme's
    assert "Utilization" in html
    assert "jobs on 8-nodes: easy, oracle-mean, cap 80%" in repr(run)


def test_a_run_without_watts_has_no_power_picture(trace: Path) -> None:
    html = wq.simulate(trace, nodes=8)._repr_html_()
    assert "<svg" not in html
    assert "Utilization" in html


def test_a_run_in_a_notebook_without_matplotlib(run: wq.RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattqueue.api.run.find_spec", lambda _: None)
    html = run._repr_html_()
    assert "<svg" not in html
    assert "Utilization" in html


def test_pictures(run: wq.RunResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = run.plot("wait", tmp_path / "wait.svg")
    assert ET.fromstring(picture._repr_svg_()).tag.endswith("svg")  # noqa: S314  our own
    assert (tmp_path / "wait.svg").read_text() == picture.svg
    picture.save(tmp_path / "wait.csv")
    assert (tmp_path / "wait.csv").read_text().splitlines()[0] == ",".join(picture.frame.columns)
    with pytest.raises(wq.InputError) as caught:
        run.plot("nonesuch")
    assert caught.value.where == "plot"
    assert "gantt" in str(caught.value.hint)
    with pytest.raises(wq.InputError) as caught:
        picture.save(tmp_path / "wait.bmp")
    assert caught.value.where == tmp_path / "wait.bmp"


def test_a_comparison(trace: Path, run: wq.RunResult, tmp_path: Path) -> None:
    plain = wq.simulate(trace, **WATTS)
    found = wq.compare([plain, run, run])
    assert [group.label for group in found.comparison.groups] == [
        "easy",
        "easy, oracle-mean, cap 80% (oracle)",
        "easy, oracle-mean, cap 80% (oracle) (2)",
    ]
    assert set(found.frame.columns) >= {"metric", "group", "mean", "difference_percent"}
    named = wq.compare({"free": plain.save(tmp_path / "free"), "capped": run})
    assert named.frame["group"].unique(maintain_order=True).to_list() == ["free", "capped (oracle: oracle-mean)"]
    assert "capped" in named._repr_html_()
    named.report(tmp_path / "page.html")
    assert "capped" in (tmp_path / "page.html").read_text()
    with pytest.raises(wq.InputError):
        wq.compare([run])


def test_seeds_form_one_group() -> None:
    runs = [wq.simulate(wq.generate("marconi:days=1,load=0.01", seed=s), "marconi100") for s in (1, 2)]
    other = wq.simulate(wq.generate("marconi:days=1,load=0.01", seed=1), "marconi100", policy="fcfs")
    groups = wq.compare([*runs, other]).comparison.groups
    assert [len(group.members) for group in groups] == [2, 1]


def test_caps_and_scores_in_a_notebook(table: Path) -> None:
    caps = wq.whatif(table, nodes=12, node_watts="60:200", estimator="history-max", cap="50%,70%", workers=1)
    assert caps._repr_html_().count("<table") == 1
    assert "70%" in caps._repr_html_()
    assert caps.delayed_users.height > 0
    scores = wq.predict(table)
    assert "history-mean" in scores._repr_html_()
    assert ">MAPE<" in scores._repr_html_()
    assert "coverage" not in scores._repr_html_().lower()


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"jobs": 5}, "jobs"),
        ({"jobs": None}, "jobs"),
        ({"machine": 7, "nodes": None, "node_watts": None}, "machine"),
        ({"machine": wq.Machine("m", (wq.Partition("p", 9),))}, "machine"),
        ({"node_watts": (95, 190)}, "node_watts"),
        ({"cap": 0.8}, "cap"),
        ({"cap": wq.Cap.constant(1.0)}, "cap"),
        ({"policy": 5}, "policy"),
        ({"estimator": 5}, "easy"),
        ({"estimator": Shortest}, "easy"),
    ],
)
def test_other_types_are_refused_in_one_line(trace: Path, arguments: dict[str, Any], where: str) -> None:
    with pytest.raises(wq.WattQueueError) as caught:
        wq.simulate(**{"jobs": trace, **WATTS, **arguments})
    assert caught.value.where == where
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_readers_and_generators_refuse_each_other(trace: Path) -> None:
    with pytest.raises(wq.InputError) as caught:
        wq.read_jobs("marconi:days=7")
    assert caught.value.hint
    with pytest.raises(wq.InputError) as caught:
        wq.generate(str(trace))
    assert caught.value.where == str(trace)
    with pytest.raises(wq.InputError):
        wq.generate("nonesuch:days=7")


def test_nothing_is_written_where_it_cannot_be(run: wq.RunResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OutputError):
        run.save(tmp_path / "file")
    with pytest.raises(OutputError):
        run.report(tmp_path)
    assert (tmp_path / "file").read_text() == "kept"
