"""The study of paper 1: what needs no schedule against the paper and by hand; small sweeps end to end."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.program import wattqueue
from tests.wattqueue_studies.equal_work import equal_work
from wattqueue.errors import InputError
from wattqueue.model.eamc_table1 import POWER_W, RUNTIME_S
from wattqueue.policy.rows import find_row
from wattqueue.report.document import Figures
from wattqueue_studies.eamc.choices import energy_ratios, frequency_rows, partition_rows, threshold_rows
from wattqueue_studies.eamc.cirne import DAY_S, CirneModel
from wattqueue_studies.eamc.spans import ENDS, TREND, span_table, spans, with_trends
from wattqueue_studies.eamc.study import EamcStudy, PaperRuns
from wattqueue_studies.eamc.tables import TOLD
from wattqueue_studies.eamc.workloads import CONSERVATIVE, Case, System, profiles_from, systems, tables_from, workload
from wattqueue_studies.frame.report import StudyReport
from wattqueue_studies.frame.samples import Samples, sweep

SMALL = CirneModel(jobs=60, span_s=0.08 * DAY_S)


STUDY = EamcStudy(seeds=2, easy_seeds=1, threads=2, model=SMALL)


@pytest.fixture(scope="module")
def simulated() -> PaperRuns:
    return STUDY.simulate()


@pytest.fixture(scope="module")
def samples(simulated: PaperRuns) -> Samples:
    return simulated.conservative


@pytest.fixture(scope="module")
def small(simulated: PaperRuns) -> StudyReport:
    return STUDY.report(simulated)


def published_files(data_dir: Path) -> tuple[Path, Path]:
    return data_dir / "eamc/eamc_coefficients_tidy.csv", data_dir / "eamc/eamc_apps.csv"


def test_the_check_without_scheduling_by_hand() -> None:
    """Base Slurm from Table 1 as printed: joules of p1 for 1 to 7 and of p2 for STREAM, per second of p1."""
    ratios = {(r["share"], r["numerator"], r["denominator"]): r["value"] for r in energy_ratios(table1("p1/p2"))}
    joules = POWER_W * RUNTIME_S / RUNTIME_S[:, :1]
    stream = 0.5
    base = joules[:7, 0].mean() * (1 - stream) + joules[7, 1] * stream
    # Table 1 alone gives no app a fastest frequency below the highest.
    fastest = joules[:7, :2].mean() * (1 - stream) + joules[7, :2].mean() * stream
    assert ratios[50, "base-slurm", "min-runtime"] == pytest.approx(base / fastest)
    assert ratios[50, "min-runtime", "base-slurm"] == pytest.approx(fastest / base)
    assert len(ratios) == 36


def table1(name: str) -> System:
    return systems(profiles_from(None, None))[name]


def test_the_check_without_scheduling_against_the_paper(data_dir: Path) -> None:
    """Sections 5.1 and 5.2: +12 % (13 %), -5 %, -20 %; what scheduling adds is within a few per cent."""
    system = systems(profiles_from(*published_files(data_dir)))["p1/p2"]
    ratios = {(r["share"], r["numerator"], r["denominator"]): r["value"] for r in energy_ratios(system)}
    assert ratios[13, "min-runtime", "min-energy"] == pytest.approx(1.12, abs=0.005)
    assert ratios[13, "min-energy", "base-slurm"] == pytest.approx(0.95, abs=0.005)
    assert ratios[50, "eamc-priority-inc", "min-runtime"] == pytest.approx(0.80, abs=0.005)
    assert ratios[33, "min-runtime", "min-energy"] == pytest.approx(1.143, abs=0.001)


def test_frequencies_and_partitions_of_the_real_hardware(data_dir: Path) -> None:
    system = systems(profiles_from(*published_files(data_dir)))["p1/p2"]
    rows = {(r["app"], r["t_weight"]): r for r in frequency_rows(system, "p1")}
    assert len(rows) == 16
    # STREAM on p1 is fastest below the highest frequency.
    assert rows[8, 1.0]["min_time_ghz"] == 2.4
    assert rows[8, 1.0]["best_ghz"] == rows[8, 1.0]["min_energy_ghz"] == 1.2
    assert (rows[2, 1.0]["best_ghz"], rows[2, 1.5]["best_ghz"]) == (2.5, 2.7)
    best = {(r["app"], r["t_weight"]): r["best"] for r in partition_rows(system)}
    # "the first seven apps favor the first partition, while app 8 favors the second".
    assert {app for (app, _), where in best.items() if where == "p2"} == {8}
    assert all(where in {"p1", "p2"} for where in best.values())


def test_no_reading_of_the_threshold_leaves_ep_alone(data_dir: Path) -> None:
    both = systems(profiles_from(*published_files(data_dir)))
    beyond = {
        (name, r["reading"], r["distance"], r["t_weight"]): r["apps"]
        for name in both
        for r in threshold_rows(both[name])
    }
    assert beyond["p1/p2", "text", "relative", 1.0] == []
    assert beyond["p1/p2", "text", "absolute", 1.0] == [4, 8]
    assert beyond["p1/p2", "published-code", "absolute", 1.5] == [3, 4, 8]
    assert [2] not in beyond.values()


def test_every_row_has_the_documented_keys(small: StudyReport) -> None:
    document = json.loads(json.dumps(small.document(), allow_nan=False))
    keys = {
        "frequencies": {"app", "partition", "t_weight", "min_energy_ghz", "min_time_ghz", "best_ghz"},
        "partitions": {"app", "t_weight", "part_eff", "best"},
        "energy_ratios": {"share", "numerator", "denominator", "value"},
        "results": {
            "system", "share", "policy", "metric", "value", "low", "high", "relative_to", "change_percent",
            "published_percent",
        },
    }  # fmt: skip
    for name, wanted in keys.items():
        assert document[name]
        assert all(set(row) == wanted for row in document[name])
    assert {(r["app"], r["t_weight"]) for r in document["partitions"]} == {
        (a, w) for a in range(1, 9) for w in (1, 1.5)
    }
    assert {r["partition"] for r in document["frequencies"]} == {"p1", "p2", "p3"}
    assert {(r["system"], r["share"]) for r in document["results"]} == {
        ("p1/p2", 13), ("p1/p2", 33), ("p1/p2", 50), ("p1/p3", 13),
    }  # fmt: skip


def test_results_are_the_means_of_the_samples(small: StudyReport, samples: Samples) -> None:
    results = small.document()["results"]
    for row in results[::7]:
        if row["value"] is None:
            continue
        setting = f"{row['system']}, {row['share']} %"
        own = samples.of(setting, row["policy"], row["metric"])
        base = samples.of(setting, row["relative_to"], row["metric"])
        assert row["value"] == pytest.approx(own.mean())
        assert row["low"] <= row["value"] <= row["high"]
        if row["change_percent"] is not None:
            assert row["change_percent"] == pytest.approx(100 * (own.mean() / base.mean() - 1))
    told = {
        (r["policy"], r["metric"], r["relative_to"], r["share"]): r["published_percent"]
        for r in results
        if r["system"] == "p1/p2"
    }
    assert told["min-runtime", "makespan_s", "base-slurm", 13] == -39
    assert told["min-runtime", "makespan_s", "base-slurm", 33] is None
    assert TOLD.figure("p1/p3, 13 %", "min-energy", "job_energy_j", "eamc-priority-inc-v") == -2


def test_the_report_says_what_it_used_and_shows_every_published_figure(small: StudyReport) -> None:
    lines = list(small.lines())
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Table 1 of the paper (slope of watts assumed)" in text
    assert "2 seeds with conservative backfilling, 1 with EASY, of 60 generated jobs" in text
    assert "Figure 3: p1/p2, 13 %, per cent of change over base-slurm" in text
    assert "EASY, Figure 3: p1/p2, 13 %, per cent of change over base-slurm" in text
    # The claims, then the same figures with EASY beside them.
    assert text.count("(5.3") >= 12
    claims = small.document()["claims"]
    assert len(claims) == len(TOLD.claims)
    fitted = [c for c in claims if c["verdict"] == "by construction"]
    assert [(c["policy"], c["metric"], c["over"]) for c in fitted] == [
        ("min-runtime", "turnaround_s_mean", "base-slurm")
    ]


def test_up_to_is_the_extreme_of_the_workloads_that_a_figure_can_mean(small: StudyReport) -> None:
    rows = [c for c in small.document()["claims"] if len(c.get("settings", ())) > 1 and c["over"]]
    assert len(rows) > 5
    for row in rows:
        ours = [s["ours"] for s in row["settings"]]
        assert row["ours"] == (max(ours) if row["published"] > 0 else min(ours))


def test_the_page_has_every_figure_and_every_claim(small: StudyReport) -> None:
    page = small.html()
    # Figures 3, 4 (three workloads) and 6: four metrics each; Figure 5: three workloads, all jobs and p2's.
    assert page.count('<figure class="fig') == 5 * 4 + 3 * 2
    (figures,) = [block for block in small.blocks if isinstance(block, Figures)]
    keys = [figure.key for figure, _ in figures.drawn]
    assert len(set(keys)) == len(keys)
    assert "Figure 6: changes by seed" in page
    assert "Figure 5: share by seed" in page
    assert page.count("(5.2") >= 15


def test_both_readings_of_the_backfilling_stand_beside_each_other(small: StudyReport, simulated: PaperRuns) -> None:
    document = small.document()
    assert [c["key"] for c in document["claims"]] == [c["key"] for c in document["claims_easy"]]
    assert len({c["key"] for c in document["claims"]}) == len(document["claims"])
    on = "p1/p2, 13 %", "base-slurm", "turnaround_s_mean"
    assert (simulated.conservative.of(*on) != simulated.easy.of(*on)).any()
    orders = [c for c in document["claims"] if c["direction"]]
    assert {(c["policy"], c["over"], c["direction"]) for c in orders} >= {
        ("eamc-reorder", "min-runtime", -1),
        ("eamc-priority-inc", "min-runtime", 1),
    }


def test_tables_with_an_error_are_a_series_of_their_own(small: StudyReport, simulated: PaperRuns) -> None:
    """Jobs draw something else; what policies choose by the tables stays."""
    document = small.document()
    assert [c["key"] for c in document["claims_error"]] == [c["key"] for c in document["claims"]]
    exact, erred = simulated.easy, simulated.erred
    assert {setting for setting, _, _ in erred.values} == {setting for setting, _, _ in exact.values}
    for setting in erred.settings:
        on = setting, "base-slurm"
        assert (erred.of(*on, "frequency_ghz_mean") == exact.of(*on, "frequency_ghz_mean")).all()
        change = erred.of(*on, "job_energy_j") / exact.of(*on, "job_energy_j") - 1.0
        assert ((np.abs(change) > 0.0) & (np.abs(change) < 0.15)).all()


def test_the_conservative_rows_are_those_of_the_study() -> None:
    for name in ("base-slurm", "min-runtime", "min-energy", "eamc-reorder", "eamc-priority-inc", "eamc-priority-inc-v"):
        assert find_row(f"{name}-conservative")["backfill"] == CONSERVATIVE


def test_means_stand_beside_the_tails_of_waits(small: StudyReport, samples: Samples) -> None:
    text = " ".join(" ".join(small.lines()).split())
    assert "wait: mean, p95, p99, greatest" in text
    assert {"wait p95", "wait p99", "greatest wait"} <= set(TOLD.labels.values())
    on = "p1/p2, 13 %", "base-slurm"
    ordered = [samples.of(*on, f"wait_s_{name}") for name in ("p95", "p99", "max")]
    assert (np.diff(ordered, axis=0) >= 0).all()
    both = samples.of(*on, "job_energy_j_p1") + samples.of(*on, "job_energy_j_p2")
    np.testing.assert_allclose(both, samples.of(*on, "job_energy_j"))


def test_coefficients_are_read_once_for_a_report(
    simulated: PaperRuns, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(coefficients: Path | None, apps: Path | None) -> object:
        read.append(coefficients)
        return tables_from(coefficients, apps)

    monkeypatch.setattr("wattqueue_studies.eamc.study.tables_from", counted)
    coefficients, apps = published_files(data_dir)
    study = EamcStudy(coefficients, apps, seeds=2, easy_seeds=2, model=SMALL)
    assert "EAR coefficients" in str(study.report(simulated).text[0])
    assert read == [coefficients]


def test_base_slurm_runs_every_job_on_its_best_partition_at_the_highest_frequency(samples: Samples) -> None:
    on = "p1/p2, 50 %", "base-slurm"
    assert (samples.of(*on, "best_partition_percent") == 100).all()
    assert (samples.of(*on, "frequency_ghz_mean_p1").round(9) == 2.7).all()
    assert (samples.of(*on, "frequency_ghz_mean_p2").round(9) == 3.1).all()


def test_threads_and_seeds_do_not_change_a_sample() -> None:
    case = {"c": Case(table1("p1/p2"), 33, model=SMALL)}
    one = sweep(Case.draw, case, ["eamc-priority-inc"], [0, 1], threads=1)
    two = sweep(Case.draw, case, ["min-energy", "eamc-priority-inc"], [1], threads=2)
    for key in one.values:
        assert np.array_equal(one.values[key][1:], two.values[key], equal_nan=True)


def test_shares_differ_in_applications_only() -> None:
    a, b = workload(13, 3), workload(50, 3)
    assert (a.submit_s == b.submit_s).all()
    assert (a.nodes == b.nodes).all()
    assert (a.runtime_s == b.runtime_s).all()


def test_half_of_the_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        profiles_from(tmp_path / "c.csv", None)
    assert caught.value.where == "--coefficients, --apps"
    with pytest.raises(InputError) as caught:
        EamcStudy(seeds=0, model=SMALL).run()
    assert caught.value.where == "seeds"


@pytest.mark.compiled
def test_command_line(tmp_path: Path, data_dir: Path) -> None:
    coefficients, apps = published_files(data_dir)
    run = ("study", "eamc", "--jobs", "100", "--seeds", "1", "--easy-seeds", "1")
    done = wattqueue(*run, "--coefficients", coefficients, "--apps", apps, "--json", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "study.json").read_text()
    found = json.loads(done.stdout)
    assert found["seeds"] == 1
    assert {c["verdict"] for c in found["claims"]} == {"undecided", "by construction"}
    assert "EAMC on two clusters" in (tmp_path / "report.html").read_text()
    assert "p1, p2: EAR coefficients" in (tmp_path / "tables.md").read_text()
    wrong = wattqueue(*run, "--coefficients", coefficients)
    assert wrong.returncode == 2
    assert wrong.stderr.count("\n") == 1
    assert "--apps A" in wrong.stderr


def test_trends_are_those_from_13_to_50_percent_by_hand() -> None:
    """Priority-inc responds 10 % faster than min-runtime at 13 %, 40 % at 50 %; its clock on p2 falls by 1 GHz."""
    values = {}
    for setting, response, ghz in ((ENDS[0], 90.0, 2.5), (ENDS[1], 60.0, 1.5)):
        for policy, seconds in (("min-runtime", 100.0), ("eamc-priority-inc", response)):
            values[setting, policy, "turnaround_s_mean"] = np.full(2, seconds)
            values[setting, policy, "frequency_ghz_mean_p2"] = np.full(2, ghz)
    found = with_trends(equal_work(values))
    assert found.of(TREND, "eamc-priority-inc", "response_points") == pytest.approx([-30.0, -30.0])
    assert found.of(TREND, "eamc-priority-inc", "clock_ghz") == pytest.approx([-1.0, -1.0])
    alone = equal_work({key: value for key, value in values.items() if key[0] == ENDS[0]})
    assert set(with_trends(alone).values) == set(alone.values)


def test_responses_on_two_partitions_are_balanced_by_their_difference(samples: Samples) -> None:
    for policy in ("min-runtime", "eamc-reorder"):
        one, two, every, found = (
            samples.of("p1/p2, 13 %", policy, metric)
            for metric in ("turnaround_s_mean_p1", "turnaround_s_mean_p2", "turnaround_s_mean", "imbalance_percent")
        )
        np.testing.assert_allclose(found, 100.0 * np.abs(one - two) / every)


def test_spans_of_arrivals_are_simulated_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattqueue_studies.eamc.spans.SPANS", (6.0, 12.0))
    found = spans(systems(profiles_from(None, None)), range(2), threads=1, model=SMALL)
    table = span_table(found)
    assert [row[0] for row in table.rows] == ["6 days", "12 days"]
    assert all(len(row) == len(table.heads) for row in table.rows)
    assert table.rows[0][1:] != table.rows[1][1:]
