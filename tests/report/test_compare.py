"""Comparison of runs: groups over seeds, intervals and paired tests with known answers, files, page."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.report.cases import generated_record, member
from tests.report.chromium import Browser
from tests.report.test_browser import CUT, expect_clean, expect_drawn, look
from wattqueue.cli.compare import terminal_table
from wattqueue.errors import InputError
from wattqueue.formats.rundir.folder import write_run
from wattqueue.report.compare import figures, table
from wattqueue.report.compare.document import report
from wattqueue.report.compare.groups import Group, Member, grouped
from wattqueue.report.compare.stats import Estimate, estimate, paired
from wattqueue.report.figures import pareto
from wattqueue.report.load import load_members, of_record
from wattqueue.report.metric_table import MAY_FALL


def with_metrics(seeds: dict[int, dict[str, float]], label: str) -> Group:
    members = []
    for seed, found in seeds.items():
        base = member(label, seed, jobs=40, units=16)
        members.append(Member(base.name, base.facts, replace(base.run, metrics=found)))
    return Group(label, tuple(members))


def test_runs_that_differ_in_their_seed_alone_are_one_group() -> None:
    runs = [member(policy, seed, jobs=60) for policy in ("easy", "fcfs") for seed in (3, 1, 2)]
    groups = grouped(runs)
    assert [g.label for g in groups] == ["easy", "fcfs"]
    assert [[m.seed for m in g.members] for g in groups] == [[3, 1, 2], [3, 1, 2]]


def test_another_machine_cap_or_option_makes_another_group() -> None:
    base = member("easy", 1, jobs=60)
    capped = replace(base.run, about=replace(base.run.about, cap="50%", seed=2))
    row = {**base.facts["policy"], "backfill": {"part": "easy", "queue_depth": 10}}
    option = {"task": {**base.facts["task"], "seed": 2}, "policy": row}
    second = replace(base.run, about=replace(base.run.about, seed=2))
    others = [Member("cap", base.facts, capped), Member("option", option, second)]
    assert [len(g.members) for g in grouped([base, *others])] == [1, 1, 1]


def test_the_same_seed_twice_is_no_second_sample() -> None:
    base = member("easy", 1, jobs=60)
    groups = grouped([base, Member("again", base.facts, base.run), member("easy", 2, jobs=60)])
    assert [[m.seed for m in g.members] for g in groups] == [[1, 2], [1]]


def test_without_a_seed_equal_runs_stay_apart() -> None:
    run = member("easy", 1, jobs=60).run
    run = replace(run, about=replace(run.about, seed=None))
    groups = grouped([Member("out/a", {}, run), Member("out/b", {}, run)])
    assert [g.label for g in groups] == ["a", "b"]


def test_one_run_cannot_be_compared_and_none_twice() -> None:
    one = member("easy", 1, jobs=60)
    with pytest.raises(InputError) as caught:
        grouped([one])
    assert caught.value.hint
    with pytest.raises(InputError) as caught:
        grouped([one, one])
    assert caught.value.where == one.name


def test_interval_of_students_t() -> None:
    # Mean 5, s = 1.5811, n = 5: half = 2.776445 x 1.5811 / sqrt(5) = 1.9632 (t table, 4 degrees of freedom).
    got = estimate([3.0, 4.0, 5.0, 6.0, 7.0])
    assert got.mean == 5.0
    assert got.half == pytest.approx(1.96324, abs=1e-4)
    assert estimate([4.0]).half is None


def test_paired_test_of_students_sleep_data() -> None:
    """Student 1908, Table I: extra hours of sleep of ten patients under two drugs; t = 4.0621, p = 0.00283."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    got = paired(first, second)
    assert got is not None
    assert got.difference.mean == pytest.approx(1.58)
    assert (got.difference.low, got.difference.high) == pytest.approx((0.70011, 2.45989), abs=1e-4)
    assert got.p_t == pytest.approx(0.002833, abs=1e-5)
    assert got.p_wilcoxon is not None
    assert 0.001 < got.p_wilcoxon < 0.02


def test_equal_differences_are_no_test() -> None:
    got = paired([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    assert got is not None
    assert (got.difference.low, got.difference.high) == (1.0, 1.0)
    assert got.p_t is None
    assert paired([1.0], [2.0]) is None


def test_pairs_are_found_by_seed_not_by_place() -> None:
    a = with_metrics({1: {"wait_s_mean": 100.0}, 2: {"wait_s_mean": 200.0}, 3: {"wait_s_mean": 310.0}}, "a")
    b = with_metrics({3: {"wait_s_mean": 309.0}, 2: {"wait_s_mean": 190.0}, 4: {"wait_s_mean": 5.0}}, "b")
    ((_, cell),) = table.compare([a, b]).rows
    assert cell.pairs is not None
    assert cell.pairs.difference.n == 2
    assert cell.pairs.difference.mean == pytest.approx((-10 - 1) / 2)
    assert cell.value is not None
    assert cell.value.mean == 168  # of all its runs
    assert cell.difference_percent == pytest.approx(100 * (249.5 - 255) / 255)  # over the seeds of both
    assert cell.better is True
    assert cell.certain is False


def test_better_depends_on_the_metric() -> None:
    a = with_metrics({1: {"wait_s_mean": 1.0, "utilization": 0.5, "power_utilization": 0.5, "jobs_killed": 0}}, "a")
    b = with_metrics({1: {"wait_s_mean": 2.0, "utilization": 0.6, "power_utilization": 0.6, "jobs_killed": 1}}, "b")
    got = {row[1].metric: row[1] for row in table.compare([a, b]).rows}
    assert got["wait_s_mean"].better is False
    assert got["utilization"].better is True
    assert got["power_utilization"].better is None
    assert got["jobs_killed"].difference_percent is None  # nothing to divide by
    assert table.difference(got["wait_s_mean"]) == "+100 %"


def test_points_on_the_front() -> None:
    x = np.array([1.0, 2.0, 3.0, 2.0, 1.0])
    y = np.array([9.0, 5.0, 5.0, 4.0, 9.0])
    assert pareto.undominated(x, y).tolist() == [True, False, False, True, True]
    assert "a, b and c" in pareto.says(["a", "b", "c"], np.array([True] * 3))
    assert "a and c" in pareto.says(["a", "b", "c"], np.array([True, False, True]), alike=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    where = tmp_path_factory.mktemp("runs")
    for policy, used in (("easy", 48), ("fcfs", 40)):
        for seed in (1, 2, 3):
            write_run(where / f"{policy}-{seed}", generated_record(300, 48, seed, policy=policy, used=used))
    return sorted(where.iterdir())


def test_curves_of_a_group_are_means_over_seeds_and_stop_with_the_runs(folders: list[Path]) -> None:
    groups = grouped(load_members(folders))
    figure = figures.power(groups)
    for k, group in enumerate(groups):
        lengths = sorted(m.run.last_s - m.run.first_s for m in group.members)
        mean = figure.columns[f"mean_{k}"]
        time = figure.columns["time_s"]
        assert np.isfinite(mean[time < lengths[-1]]).all()
        assert np.isnan(mean[time >= lengths[-1]]).all()
        low, high = figure.columns[f"low_{k}"], figure.columns[f"high_{k}"]
        there = np.isfinite(mean)
        assert (low[there] <= mean[there] + 1e-9).all()
        assert (mean[there] <= high[there] + 1e-9).all()
        # Mean watts x time is the mean energy of the seeds, while all of them run.
        width = time[1] - time[0]
        every = time + width <= lengths[0]
        got = float((mean[every] * width).sum())
        want = []
        for m in group.members:
            s, end = m.run.power, float(time[every][-1] + width) + m.run.first_s
            edges = np.append(s.time_s[s.time_s < end], end)
            want.append(float((s.value[: len(edges) - 1] * np.diff(edges)).sum()))
        assert got == pytest.approx(np.mean(want), rel=1e-9)


def test_files_say_the_same(folders: list[Path]) -> None:
    comparison = table.compare(grouped(load_members(folders)))
    rows = list(csv.DictReader(io.StringIO(table.to_csv(comparison))))
    whole = json.loads(table.to_json(comparison))
    assert whole["schema_version"] == 1
    assert [len(g["runs"]) for g in whole["groups"]] == [3, 3]
    assert len(rows) == len(whole["rows"])
    wait = next(r for r in rows if r["metric"] == "wait_s_mean" and r["group"] == "fcfs")
    assert wait["unit"] == "s"
    assert int(wait["pairs"]) == 3
    assert float(wait["ci95_low"]) < float(wait["mean"]) < float(wait["ci95_high"])
    assert 0 <= float(wait["p_paired_t"]) <= 1


@pytest.mark.parametrize(
    ("under", "said"),
    [
        ({"wait_s_mean": 90.0, "node_wait_s_mean": 200.0, "power_utilization": 0.9}, True),
        ({"wait_s_mean": 90.0, "node_wait_s_mean": 200.0}, False),  # no cap: another reason
        ({"wait_s_mean": 90.0, "node_wait_s_mean": 90.0, "power_utilization": 0.9}, False),
        ({"wait_s_mean": 110.0, "node_wait_s_mean": 200.0, "power_utilization": 0.9}, False),
    ],
)
def test_a_mean_that_falls_under_a_cap_is_explained_beside_the_mean_by_nodes(
    under: dict[str, float], *, said: bool
) -> None:
    plain = {"wait_s_mean": 100.0, "node_wait_s_mean": 100.0}
    found = table.compare([with_metrics({1: plain}, "none"), with_metrics({1: under}, "cap")])
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(terminal_table(found, everything=False))
    shown = " ".join(console.export_text().split())
    assert "Waiting time, by nodes, mean" in shown
    assert (MAY_FALL in shown) is said
    assert (MAY_FALL in report(found)) is said


def closed() -> table.Comparison:
    """A run beside one that left 60 of its 80 jobs."""
    records = {"easy": generated_record(80, 16), "adapt": generated_record(80, 16, policy="adapt", left=60)}
    return table.compare(grouped([Member(name, r.facts, of_record(r)) for name, r in records.items()]))


def test_a_run_that_left_jobs_is_better_and_worse_in_nothing() -> None:
    found = closed()
    cells = {row[1].metric: row[1] for row in found.rows}
    assert cells["machine_energy_j"].value is not None
    assert {name for name, cell in cells.items() if cell.difference_percent is not None} == {"energy_per_node_h_j"}
    assert all(cell.better is None for name, cell in cells.items() if name != "energy_per_node_h_j")
    assert all(cell.pairs is None for cell in cells.values())
    assert cells["jobs_never_ran"].value == Estimate(1, 60)
    assert table.shown(cells["all_wait_s_mean"]).startswith("≥ ")
    (said,) = table.not_comparable(found)
    assert "adapt: 60 of 80 jobs never ran (still queued at the end)" in said
    assert "20 jobs that ran in both" in said
    rows = list(csv.DictReader(io.StringIO(table.to_csv(found))))
    assert {row["not_comparable"] for row in rows if row["group"] == "easy"} == {""}
    assert all("60 of 80 jobs never ran" in row["not_comparable"] for row in rows if row["group"] == "adapt")
    whole = json.loads(table.to_json(found))
    assert whole["groups"][1]["common_jobs"]["jobs"] == 20


def test_the_page_of_unequal_work_names_no_winner() -> None:
    text = report(closed()).replace("\u00a0", " ")
    assert "Not comparable: adapt: 60 of 80 jobs never ran (still queued at the end)." in text
    assert 'id="fig-pareto"' not in text
    assert not re.search(r"needs the least|Further left is better|highest peak|longest queue", text)


def test_own_figures_do_not_depend_on_what_a_run_is_compared_with() -> None:
    runs = {"a": generated_record(80, 16), "b": generated_record(80, 16, policy="b", used=12)}
    runs["c"] = generated_record(80, 16, policy="c", left=70)
    members = {name: Member(name, r.facts, of_record(r)) for name, r in runs.items()}
    values = []
    for other in ("a", "c"):
        rows = table.compare(grouped([members["b"], members[other]])).rows
        values.append({row[0].metric: table.shown(row[0]) for row in rows})
    assert values[0] == values[1]


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True), (400, False), (1280, True)], ids=str)
def test_page_of_unequal_work(browser: Browser, tmp_path: Path, width: int, *, dark: bool) -> None:
    page = tmp_path / "compare.html"
    page.write_text(report(closed()), encoding="utf-8")
    browser.open(page, width=width, dark=dark)
    expect_clean(browser)
    charts = look(browser)
    assert [c["key"] for c in charts] == ["power", "queue", "utilization", "wait", "slowdown"]
    expect_drawn(charts)
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js(CUT) == []


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)], ids=str)
def test_page_of_a_comparison(browser: Browser, folders: list[Path], tmp_path: Path, width: int, *, dark: bool) -> None:
    page = tmp_path / "compare.html"
    page.write_text(report(table.compare(grouped(load_members(folders)))), encoding="utf-8")
    browser.open(page, width=width, dark=dark)
    expect_clean(browser)
    charts = look(browser)
    assert [c["key"] for c in charts] == ["pareto", "power", "queue", "utilization", "wait", "slowdown"]
    expect_drawn(charts)
    assert browser.js("document.documentElement.scrollWidth") <= width
    assert browser.js(CUT) == []
    assert browser.js("document.querySelectorAll('#table tbody tr').length") > 20
    # A group can be taken out of a picture with its key.
    before = browser.js("wattqueue.charts.wait.chart.getOption().series.length")
    browser.js("document.querySelector('#fig-wait .key button').click()")
    assert browser.js("wattqueue.charts.wait.chart.getOption().series.length") == before - 1
    assert browser.js("document.querySelector('#fig-wait .key button').getAttribute('aria-pressed')") == "false"
    expect_clean(browser)
