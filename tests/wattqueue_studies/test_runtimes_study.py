"""The study of predicted run times: measures by hand, the choice by its rule, and a trace with published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.errors import InputError, PolicyError
from wattqueue.formats.machine.file import load_machine
from wattqueue.formats.read import read_workload
from wattqueue.model.jobs import Jobs, Labels
from wattqueue_studies.cli.study import runtimes
from wattqueue_studies.frame.claim import Verdict
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.runtimes.choice import EASY, Choice, settings
from wattqueue_studies.runtimes.study import POLICIES, RecordedTrace, RunTimesStudy, harm_table, judged
from wattqueue_studies.runtimes.trial import MACHINE, METRICS, TraceCase, cap_above_idle, halves

WAITS = ("wait_s_mean", "wait_s_p95", "wait_s_p99", "wait_s_max")


def jobs_of(rows: list[tuple[float, float, int, float]]) -> Jobs:
    """Jobs of one user from (submit, run time, nodes, requested time)."""
    submit, run, nodes, asked = map(np.array, zip(*rows, strict=True))
    jobs = Jobs.build(submit, nodes, run, walltime_s=asked)
    return replace(jobs, user=Labels(np.zeros(len(rows), jobs.user.codes.dtype), ("u",)))


def test_a_promise_that_a_wrong_prediction_breaks() -> None:
    """Two jobs of 10 s teach 10 s; the third runs 100 s, so that the reserved fourth waits beyond its promise."""
    jobs = jobs_of([(0, 10, 2, 100), (0, 10, 2, 100), (30, 100, 1, 100), (31, 10, 2, 100)])
    trial = TraceCase(jobs, 2).draw(0)
    found, plain = trial("easy+rt-last-two"), trial(EASY)
    # The second waits 10 s; the fourth starts at 130 instead of the promised 40.
    assert found["broken_promises"] == 1
    assert found["broken_promise_s_mean"] == pytest.approx(130 - 40)
    assert found["wait_s_max"] == plain["wait_s_max"] == 99
    assert found["wait_s_mean"] == pytest.approx((0 + 10 + 0 + 99) / 4)
    assert plain["broken_promises"] == 0
    assert set(found) == set(METRICS)


def test_a_cap_admits_four_nodes_in_five() -> None:
    jobs = jobs_of([(0, 10, 1, 10)] * 5)
    capped = TraceCase(jobs, 5, capped=True).draw(0)(EASY)
    assert capped["wait_s_mean"] == pytest.approx(10 / 5)
    assert TraceCase(jobs, 5).draw(0)(EASY)["wait_s_mean"] == 0


def test_the_cap_of_generated_jobs_adds_idle_watts_only_where_it_covers_them() -> None:
    machine = load_machine(MACHINE)
    assert cap_above_idle(machine).cap_w.tolist() == [350e3], "its cap covers what jobs draw above idle"
    whole = replace(machine, cap_scope="machine")
    assert cap_above_idle(whole).cap_w.tolist() == [350e3 + machine.idle_w]


def test_all_tables_are_written_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtimes.run(policy=["easy-sjbf"], seeds=1, days=1.0, workers=1, out=tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert text.startswith("# ")
    assert text.count("| easy-sjbf |") == 4, "three loads, and the cap"
    assert "| late |" in text
    assert "easy-sjbf" in capsys.readouterr().out


def test_halves_are_by_submission() -> None:
    jobs = jobs_of([(5, 1, 1, 1), (1, 1, 1, 1), (3, 1, 1, 1), (2, 1, 1, 1), (4, 1, 1, 1)])
    first, second = halves(jobs)
    assert sorted(first.submit_s.tolist()) == [1, 2]
    assert sorted(second.submit_s.tolist()) == [3, 4, 5]


def samples_of(values: Mapping[tuple[str, str], tuple[float, ...]]) -> Samples:
    return equal_work(
        {
            (setting, policy, metric): np.array([value])
            for (setting, policy), row in values.items()
            for metric, value in zip(WAITS, row, strict=True)
        }
    )


def test_the_choice_is_the_least_mean_that_keeps_easys_p99_on_the_first_half() -> None:
    names = list(settings())
    assert len(names) == 18
    values = {("1", EASY): (100.0, 0.0, 500.0, 0.0), ("2", EASY): (80.0, 0.0, 400.0, 0.0)}
    for i, name in enumerate(names):
        values["1", name] = (90.0 + i, 0.0, 600.0, 0.0)
        values["2", name] = (1.0, 0.0, 1.0, 0.0)
    none = Choice("t", samples_of(values), "1", "2")
    assert none.chosen == ""
    assert "none is chosen" in none.table().note
    # The first has the least mean and too high a p99; the second half has no part in the choice.
    values["1", names[4]] = (95.0, 0.0, 500.0, 0.0)
    values["1", names[2]] = (97.0, 0.0, 300.0, 0.0)
    values["2", names[4]] = (60.0, 0.0, 440.0, 0.0)
    choice = Choice("t", samples_of(values), "1", "2")
    assert choice.chosen == names[4]
    assert "mean by -25.0 % and its p99 by +10.0 %" in choice.table().note


def test_harm_is_each_figure_over_easys_without_oracles() -> None:
    samples = samples_of(
        {
            ("s", EASY): (100.0, 200.0, 300.0, 400.0),
            ("s", "easy++"): (90.0, 210.0, 330.0, 800.0),
            ("s", "easy-sjbf"): (80.0, 150.0, 300.0, 415.0),
            ("s", "easy+rt-true"): (500.0, 500.0, 500.0, 500.0),
        }
    )
    assert harm_table([samples]).rows == [["easy++, s", "-10", "+5", "+10", "+100"]]


def test_a_change_over_no_wait_at_all_is_left_out_of_what_harms() -> None:
    values = {(EASY, m): 0.0 if m == "wait_s_p95" else 100.0 for m in METRICS} | {("easy++", m): 90.0 for m in METRICS}
    values["easy++", "wait_s_max"] = 200.0
    samples = equal_work({("s", policy, metric): np.array([value]) for (policy, metric), value in values.items()})
    assert harm_table([samples]).rows == [["easy++, s", "-10", "–", "-10", "+100"]]


def test_published_figures_of_a_trace_that_was_not_simulated_are_left_out() -> None:
    assert judged(Samples({})).rows == []
    assert "No published figure" in judged(Samples({})).summary


def test_wrong_options_are_refused() -> None:
    for text in ("KTH.swf", "KTH.swf:", ":100", "KTH.swf:0", "KTH.swf:many"):
        with pytest.raises(InputError) as caught:
            runtimes.run(trace=[text])
        assert caught.value.where == "--trace"
    with pytest.raises(InputError) as caught:
        RunTimesStudy(seeds=0).run()
    assert "--seeds" in str(caught.value.where)
    with pytest.raises(PolicyError):
        RunTimesStudy(policies=("no-such-row",)).run()


def test_the_report_of_a_small_trace(data_dir: Path, tmp_path: Path) -> None:
    trace = tmp_path / "small.swf"
    rows = [f"{i} {i * 20} -1 {20 + 7 * (i % 9)} {1 + i % 3} -1 -1 {1 + i % 3} 300 -1 1 {i % 4} 1 -1 1 -1 -1 -1"
            for i in range(1, 41)]  # fmt: skip
    trace.write_text("; MaxNodes: 4\n" + "\n".join(rows) + "\n")
    assert len(read_workload(trace).jobs) == 40
    report = RunTimesStudy([RecordedTrace(trace, 4)], seeds=0, policies=("easy++", "easy+rt-true")).run()
    lines = list(report.lines())
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for part in ("small, 4 nodes: waits", "first half", "cap of 90%", "chosen on the first half", "Where it harms"):
        assert part in text
    assert "easy+rt-true (oracle)" in text
    document = report.document()
    assert {row["setting"] for row in document["recorded"]} == {
        "small, 4 nodes", "small, 4 nodes, first half", "small, 4 nodes, second half", "small, 4 nodes, cap of 90%",
    }  # fmt: skip
    assert "Where it harms" in report.html()


@pytest.mark.compiled
def test_figures_that_depend_on_no_prediction_are_those_of_the_other_simulator(data_dir: Path) -> None:
    jobs = read_workload(data_dir / "swf/KTH-SP2.swf.gz").jobs
    trial = TraceCase(jobs, 100).draw(0)
    rows = {policy: trial(policy) for policy in (EASY, "easy-sjbf", "easy+rt-true")}
    samples = equal_work(
        {("KTH-SP2, 100 nodes", p, metric): np.array([v]) for p, row in rows.items() for metric, v in row.items()}
    )
    verdicts = {(row.claim.text.partition(" (")[0], row.verdict) for row in judged(samples).rows}
    for policy in rows:
        assert (f"{policy}: mean wait", Verdict.REPRODUCED) in verdicts
    assert ("easy: p95 of the wait", Verdict.REPRODUCED) in verdicts
    assert set(POLICIES) >= set(rows)
