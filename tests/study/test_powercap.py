"""The capped window of paper 4: measures by hand, averages, what is left out, and a small campaign."""

from dataclasses import replace

import numpy as np
import pytest

from wattqueue.campaign.cell import Row
from wattqueue.campaign.windows import Trace
from wattqueue.errors import EngineError
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.schedule import PowerSeries
from wattqueue.study.powercap.cell import (
    CAPPED_S,
    EASY,
    HIGHEST_DYNAMIC_W,
    MEAN,
    NAIVE,
    POLICIES,
    PowercapCell,
    hours,
    window_cap,
)
from wattqueue.study.powercap.prepare import Prepared, WorkloadSelection
from wattqueue.study.powercap.study import (
    BEYOND,
    SIDES,
    TOLD,
    PowercapRuns,
    PowercapStudy,
    against_mean,
    cells_of,
    claims,
    pictures,
    report,
    samples_of,
)

MACHINE = Machine("m", (Partition("p", 10, idle_w=50.0, max_w=1000.0),), cap_scope="dynamic")


def series(time_s: list[float], dynamic_w: list[float]) -> PowerSeries:
    """Two busy nodes throughout: 100 W of the jobs' watts are their idle share."""
    time, idle = np.array(time_s), np.full(len(time_s), 100.0)
    return PowerSeries(
        time, np.array(dynamic_w) + idle, np.full(len(time), 400.0), idle, np.full(len(time), 2, np.int32)
    )


def test_the_capped_hours_by_hand() -> None:
    """One hour at 80 kW, one at 110 kW, one at 100 kW, under 10 % of 955,080 W = 95,508 W."""
    begin = 7200.0
    cap = window_cap(begin, 10)
    assert cap.cap_w.tolist() == [np.inf, 95_508.0, np.inf]
    assert cap.time_s.tolist() == [-np.inf, 7200.0, 7200.0 + 10_800.0]
    power = series([7200.0, 10_800.0, 14_400.0, 18_000.0], [80e3, 110e3, 100e3, 0.0])
    row = hours(power, MACHINE, cap, begin, begin + CAPPED_S)
    assert row["power_w_mean"] == pytest.approx(290e3 / 3)
    assert row["power_w_max"] == 110e3
    assert row["cap_w"] == pytest.approx(95_508.0)
    assert row["excess_w"] == pytest.approx(110e3 - 95_508)
    assert row["over_share"] == pytest.approx(2 / 3)
    assert row["over_w_mean"] == pytest.approx((110e3 - 95_508 + 100e3 - 95_508) / 3)
    assert row["under_w_mean"] == pytest.approx((95_508 - 80e3) / 3)
    found = row["power_w_quantiles"]
    assert isinstance(found, list)
    assert [found[0], found[10], found[20]] == [80e3, 100e3, 110e3]


def test_without_a_cap_there_are_no_figures_of_one() -> None:
    row = hours(series([0.0, 10_800.0], [5.0, 0.0]), MACHINE, window_cap(0.0, None), 0.0, CAPPED_S)
    assert row["power_w_mean"] == 5.0
    assert row["cap_w"] is row["excess_w"] is row["over_share"] is None


def run_row(window: int, policy: str, cap: float | None, turnaround: float, mean: float, most: float) -> Row:
    limit = None if cap is None else cap / 100 * HIGHEST_DYNAMIC_W
    row: Row = {"window": window, "policy": policy, "cap_percent": cap, "turnaround_s_mean": turnaround, "cap_w": limit}
    if limit is None:
        return row
    over = max(mean - 1.0, 0.0) * limit
    return row | {
        "power_w_mean": mean * limit, "over_w_mean": over, "under_w_mean": limit - mean * limit + over,
        "over_share": 0.5, "excess_w": max(most - 1.0, 0.0) * limit,
    }  # fmt: skip


def few_rows() -> list[Row]:
    rows = [run_row(w, EASY, None, 100.0, 0, 0) for w in range(3)]
    for w, slower in enumerate((1.2, 0.7, 1.1)):
        for cap in (10.0, 70.0):
            rows.append(run_row(w, NAIVE, cap, 100.0 * slower, 0.25, 0.5))
            rows.append(run_row(w, MEAN, cap, 100.0 * slower, 1.02, 1.1 if cap == 10 else 0.9))
    return rows


def runs_of(rows: list[Row]) -> PowercapRuns:
    n = len({r["window"] for r in rows})
    trace = Trace("a", "b", ("c",) * n, tuple(float(w) for w in range(n)))
    return PowercapRuns(WorkloadSelection(), Prepared(trace, 1, (1,) * n, (1.0,) * n), rows, samples_of(rows))


def test_averages_are_over_groups() -> None:
    samples = samples_of(few_rows())

    def mean(policy: str, metric: str) -> float:
        return float(samples.grid(policy, metric).mean())

    assert samples.settings == ["10", "70"]
    assert samples.grid(NAIVE, "unused_percent").shape == (3, 2)
    assert mean(NAIVE, "unused_percent") == pytest.approx(75.0)
    assert mean(NAIVE, "turnaround_change_percent") == pytest.approx(0.0)
    assert mean(MEAN, "unused_percent") == pytest.approx(-2.0)
    assert mean(MEAN, "over_percent") - mean(MEAN, "under_percent") == pytest.approx(2.0)
    assert mean(MEAN, "broken") == pytest.approx(50.0)
    assert mean(MEAN, "excess_percent") == pytest.approx(5.0)


def test_the_workload_that_capping_helps_most_is_left_out() -> None:
    found = runs_of(few_rows())
    assert found.left_out == (1,)
    assert found.kept.grid(NAIVE, "turnaround_change_percent").shape == (2, 2)
    assert found.kept.grid(NAIVE, "turnaround_change_percent").mean() == pytest.approx(15.0)


def test_of_one_workload_none_is_left_out_and_nothing_is_shown() -> None:
    found = runs_of([r for r in few_rows() if r["window"] == 0])
    assert found.left_out == ()
    assert {row.verdict.value for row in claims(found).rows} <= {"undecided", "not comparable"}


def test_published_figures_stand_beside_ours() -> None:
    rows = {(r["policy"], r["metric"], r["source"]): r for r in claims(runs_of(few_rows())).document()}
    unused = rows[NAIVE, "unused_percent", "6.5"]
    assert (unused["published"], unused["ours"], unused["difference"]) == (74, pytest.approx(75.0), pytest.approx(1.0))
    assert unused["verdict"] == "not comparable"  # idle watts were inferred from it
    assert rows[NAIVE, "turnaround_change_percent", "6.5"]["without_left_out"] == pytest.approx(15.0)
    assert rows[MEAN, "excess_percent", "6.5, median"]["ours"] == pytest.approx(5.0)
    assert len([r for r in rows if r[0] == MEAN]) == 5
    assert len(TOLD.claims) == 11


def test_a_capped_run_without_its_figures_is_a_defect() -> None:
    rows = few_rows()
    rows[3]["cap_w"] = None
    with pytest.raises(EngineError) as caught:
        samples_of(rows)
    assert "cap_w" in caught.value.what


def test_the_grid_is_the_papers() -> None:
    trace = Trace("a", "b", ("c",) * 30, tuple(float(w) for w in range(30)))
    prepared = Prepared(trace, 1, (1,) * 30, (1.0,) * 30)
    cells = cells_of(prepared, POLICIES, range(10, 71, 5))
    assert len([c for c in cells if c.cap_percent is not None]) == 1950
    assert len([c for c in cells if c == PowercapCell(trace, c.window, EASY)]) == 30


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> PowercapStudy:
    choice = WorkloadSelection(workloads=2, days=0.5, trace_days=16.0, warm_days=4.0, seed=3, load=0.9, machines=0.5)
    return PowercapStudy(tmp_path_factory.mktemp("powercap"), choice, caps=(20, 50), workers=1)


@pytest.fixture(scope="module")
def small(study: PowercapStudy) -> PowercapRuns:
    return study.simulate()


@pytest.mark.compiled
def test_a_small_campaign(small: PowercapRuns) -> None:
    assert len(small.rows) == 2 * (1 + 2 * 5)
    assert all(row["jobs_not_started"] == 0 for row in small.rows)
    unused = {p: small.samples.grid(p, "unused_percent").mean() for p in small.samples.policies}
    assert unused[NAIVE] > unused["easy+pc-real-max"] > unused["easy+pc-real-mean"]
    assert not small.samples.grid(NAIVE, "excess_percent").any()
    assert not small.samples.grid("easy+pc-real-max", "excess_percent").any()


@pytest.mark.compiled
def test_finished_runs_are_not_done_again(study: PowercapStudy, small: PowercapRuns) -> None:
    seen: list[tuple[int, int]] = []
    again = study.simulate(progress=lambda *at: seen.append(at))
    assert again.rows == small.rows
    assert seen == []


@pytest.mark.compiled
def test_the_report_says_what_it_rests_on(small: PowercapRuns) -> None:
    found = report(small)
    lines = list(found.lines())
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "generated trace" in text
    assert "Without workload" in text
    assert "runs that break the cap" in text
    assert "confirms nothing" in text
    assert "easy+pc-real-mean (oracle)" in text, "oracles are marked"
    assert "easy+pc-mean (oracle)" not in text
    page = found.html()
    assert "easy+pc-mean" in page
    assert page.count("</html>") == 1
    document = found.document()
    assert document["workloads"]["origin"] == "generated"
    assert len(document["runs"]) == len(small.rows)
    assert set(document["averages"][0]["unused_percent"]) == {"mean", "low", "high", "without_left_out", "by_cap"}
    assert list(document["averages"][0]["unused_percent"]["by_cap"]) == ["20.0", "50.0"]


def test_both_sides_are_judged_by_pairs() -> None:
    rows = few_rows()
    for w, (under, most) in enumerate([(1.03, 1.05), (1.01, 1.05), (1.02, 1.04)]):
        rows += [run_row(w, "easy+pc-app", cap, 100.0, under, most) for cap in (10.0, 70.0)]
    samples = samples_of([r for r in rows if r["policy"] != NAIVE])
    (found,) = against_mean(samples).rows
    # mean: 1.02 on average and 10 % above at one of two caps; of ours 5, 5 and 4 % above at both.
    assert found.changes["excess_percent"].size.mean == pytest.approx((5 + 5 + 4) / 3 - 5)
    assert found.changes["under_percent"].size.mean == pytest.approx(0.0)
    assert found.better(tuple(SIDES), 0.005) == "no"


@pytest.mark.compiled
def test_a_chance_ledger_takes_its_own_past(study: PowercapStudy, small: PowercapRuns) -> None:
    ours = replace(study, policies=(MEAN, *BEYOND)).simulate()
    cells = cells_of(ours.prepared, ("easy+pc-chance-1", MEAN), (20,))
    known = [dict(c.ledger) for c in cells if c.policy == "easy+pc-chance-1"]
    assert len(known) == 2
    assert known[0] != known[1]
    assert cells[1].loaded().ledger.share == known[0]["share"]  # type: ignore[attr-defined]
    assert [c.ledger for c in cells if c.policy == MEAN] == [(), ()]
    over = {p: ours.samples.grid(p, "over_percent").mean() for p in ours.samples.policies}
    assert over["easy+pc-chance-0.1"] <= over["easy+pc-chance-1"] <= over[MEAN]
    found = report(small, ours)
    text = "\n".join(found.lines())
    assert "Hold-out: 2 workloads" in text
    assert "easy+pc-quantile-0.1" in text
    assert len(found.document()["hold_out"]["comparisons"]) == len(BEYOND)


@pytest.mark.compiled
def test_pictures_say_that_the_mark_is_the_cap(small: PowercapRuns) -> None:
    figure = next(pictures(small))[0]
    assert figure.heads["published"] == "cap"
    assert figure.columns["published"].tolist() == [20.0, 50.0]
    assert figure.columns["name"].tolist() == ["cap 20 %", "cap 50 %"]
    assert (figure.columns["median"] < figure.columns["published"]).all()
