"""The capped window of paper 4: measures by hand, averages, what is left out, and a small campaign."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.wattqueue_studies.equal_work import WHOLE
from wattqueue.campaign.cell import Row
from wattqueue.campaign.shared import Shared
from wattqueue.campaign.windows import Trace
from wattqueue.errors import EngineError
from wattqueue.model.machine import Machine, Partition
from wattqueue.model.power_sensor import PowerSensor
from wattqueue.model.schedule import PowerSeries
from wattqueue.parts.ledger.measured import Measured
from wattqueue.policy.policy import load_policy
from wattqueue_studies.frame.samples import Samples
from wattqueue_studies.powercap.cell import (
    CAPPED_S,
    EASY,
    HIGHEST_DYNAMIC_W,
    MEAN,
    NAIVE,
    POLICIES,
    REAL_MEAN,
    PowercapCell,
    capped_part,
    hours,
    machine_of,
    measured,
    window_cap,
)
from wattqueue_studies.powercap.frontier import DEVIATIONS, FAMILIES, MARGINS, RULES, Frontier, FrontierStudy
from wattqueue_studies.powercap.prepare import Prepared, WorkloadSelection, prepare, prepare_traces
from wattqueue_studies.powercap.runs import (
    ALL,
    BINDING,
    COLUMNS,
    EXCESS_MEDIAN,
    KEPT,
    PowercapRuns,
    over_traces,
    pooled,
    samples_of,
)
from wattqueue_studies.powercap.study import TOLD, PowercapStudy, Runs, cells_of, claims, report, with_points
from wattqueue_studies.powercap.tables import pictures

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
    row: Row = {
        "window": window, "policy": policy, "cap_percent": cap, "turnaround_s_mean": turnaround, "cap_w": limit,
        **WHOLE.row(),
    }  # fmt: skip
    if limit is None:
        return row | {"power_w_mean": mean * HIGHEST_DYNAMIC_W}
    over = max(mean - 1.0, 0.0) * limit
    return row | {
        "power_w_mean": mean * limit, "over_w_mean": over, "under_w_mean": limit - mean * limit + over,
        "over_share": 0.5, "excess_w": max(most - 1.0, 0.0) * limit,
    }  # fmt: skip


def few_rows() -> list[Row]:
    rows = [run_row(w, EASY, None, 100.0, drawn, 0) for w, drawn in enumerate((0.5, 0.72, 0.05))]
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
    assert over_traces([found], KEPT).of(KEPT, NAIVE, "turnaround_change_percent").tolist() == pytest.approx([15.0])


def test_a_cap_binds_where_easy_draws_more() -> None:
    """EASY draws 50, 72 and 5 % of the highest power on average, under caps of 10 and 70 %."""
    found = runs_of(few_rows())
    assert found.groups(ALL).all()
    assert found.groups(BINDING).tolist() == [[True, False], [True, True], [False, False]]
    # Of its three groups the mean is broken in the two at 10 %.
    assert over_traces([found], BINDING).of(BINDING, MEAN, "broken").tolist() == pytest.approx([200 / 3])
    assert over_traces([found]).of(ALL, MEAN, EXCESS_MEDIAN).tolist() == pytest.approx([5.0])


def test_intervals_are_over_traces() -> None:
    more = [{**row, "excess_w": 3 * (row["excess_w"] or 0)} if "excess_w" in row else row for row in few_rows()]
    means = over_traces([runs_of(few_rows()), runs_of(more)])
    assert means.of(ALL, MEAN, "excess_percent").tolist() == pytest.approx([5.0, 15.0])
    assert pooled([runs_of(few_rows()), runs_of(more)]).grid(MEAN, "excess_percent").shape == (6, 2)


def test_of_one_trace_nothing_is_shown() -> None:
    found = runs_of([r for r in few_rows() if r["window"] == 0])
    assert found.left_out == ()
    assert {row.verdict.value for row in claims([found]).rows} <= {"undecided", "by construction"}


def test_published_figures_stand_beside_ours() -> None:
    rows = {(r["policy"], r["metric"], r["source"]): r for r in claims([runs_of(few_rows())]).document()}
    unused = rows[NAIVE, "unused_percent", "6.5"]
    assert (unused["published"], unused["ours"], unused["difference"]) == (74, pytest.approx(75.0), pytest.approx(1.0))
    assert unused["verdict"] == "by construction"  # idle watts were inferred from it
    assert rows[NAIVE, "turnaround_change_percent", "6.5"]["without_left_out"] == pytest.approx(15.0)
    assert rows[MEAN, EXCESS_MEDIAN, "6.5, median"]["ours"] == pytest.approx(5.0)
    assert len([r for r in rows if r[0] == MEAN]) == 5  # real mean was not run: nothing is compared with it
    assert len(TOLD.claims) == 13


def test_mean_is_compared_with_real_mean_in_points() -> None:
    values = {(ALL, MEAN, "unused_percent"): [3.0, 5.0], (ALL, REAL_MEAN, "unused_percent"): [6.0, 4.0]}
    found = with_points(Samples({key: np.array(each) for key, each in values.items()}))
    assert found.of(ALL, MEAN, "unused_over_real_points").tolist() == [-3.0, 1.0]
    assert len(found.values) == 3


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


CHOICE = WorkloadSelection(workloads=2, days=0.5, trace_days=16.0, warm_days=4.0, seed=3, load=0.9, machines=0.5)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> PowercapStudy:
    return PowercapStudy(tmp_path_factory.mktemp("powercap"), CHOICE, traces=2, caps=(20, 50), workers=1)


@pytest.fixture(scope="module")
def small(study: PowercapStudy) -> Runs:
    return study.simulate()


@pytest.mark.compiled
def test_a_small_campaign(small: Runs) -> None:
    assert list(small) == [208.0, 240.0]
    for runs in small.values():
        assert [run.choice.seed for run in runs] == [3, 4]
        rows = [row for run in runs for row in run.rows]
        assert len(rows) == 2 * 2 * (1 + 2 * 5)
        assert all(row["jobs_never_ran"] == 0 for row in rows)
    means = {idle: over_traces(runs) for idle, runs in small.items()}
    unused = {p: means[208.0].of(ALL, p, "unused_percent").mean() for p in means[208.0].policies}
    assert unused[NAIVE] > unused["easy+pc-real-max"] > unused["easy+pc-real-mean"]
    assert not means[208.0].of(ALL, NAIVE, "excess_percent").any()
    # A cap on power above idle admits more watts where less is idle.
    drawn = [{float(str(row["power_w_mean"])) for run in runs for row in run.rows} for runs in small.values()]
    assert drawn[0].isdisjoint(drawn[1])


@pytest.mark.compiled
def test_finished_runs_are_not_done_again(study: PowercapStudy, small: Runs) -> None:
    seen: list[tuple[int, int]] = []
    kept = (study.folder / "finished.jsonl").read_bytes()
    again = study.simulate(progress=lambda *at: seen.append(at))
    assert [run.rows for runs in again.values() for run in runs] == [
        run.rows for runs in small.values() for run in runs
    ]
    assert seen == []
    # Preparations are kept, too.
    assert (study.folder / "finished.jsonl").read_bytes() == kept
    first, second = (run.prepared for runs in (small, again) for run in runs[208.0][:1])
    assert (first.trace, first.window_jobs, first.nodes_asked) == (second.trace, second.window_jobs, second.nodes_asked)


@pytest.mark.compiled
def test_a_preparation_opens_as_it_was_made(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    ((_, opened),) = prepare_traces(CHOICE, 1, shared, ["easy+pc-chance-1"], workers=1)
    made = prepare(CHOICE, shared, ["easy+pc-chance-1"])
    assert (opened.trace, opened.jobs, opened.window_jobs) == (made.trace, made.jobs, made.window_jobs)
    assert opened.nodes_asked == made.nodes_asked
    assert opened.ledger_options("easy+pc-chance-1", 1) == made.ledger_options("easy+pc-chance-1", 1)


@pytest.fixture(scope="module")
def frontier(study: PowercapStudy, small: Runs) -> Frontier:
    return FrontierStudy(study.folder, replace(CHOICE, workloads=1), traces=2, caps=(30,), workers=1).run()


@pytest.mark.compiled
def test_the_frontier_has_every_rule_on_every_trace(frontier: Frontier) -> None:
    names = [name for family in FAMILIES.values() for name in family]
    assert sorted(frontier.means.policies) == sorted(names)
    assert len(names) == len(RULES) + len(MARGINS) * len(DEVIATIONS)
    for name in names:
        assert frontier.means.of(ALL, name, "under_percent").shape == (2,)
    left = [frontier.means.of(ALL, n, "under_percent").mean() for n in FAMILIES["measured now"]]
    assert left[0] < left[-1]
    known = frontier.document()["means"]
    assert len(known) == len(names) * (len(COLUMNS) + 1)
    unknown = {row["policy"] for row in known if row["values"] == [None, None]}
    assert unknown == set(names) - set(RULES), "the capped hours alone are simulated: no turnaround"
    assert {row["metric"] for row in known if None in row["values"]} == {"turnaround_change_percent"}


@pytest.mark.compiled
def test_the_capped_hours_alone_decide_about_themselves(frontier: Frontier, study: PowercapStudy) -> None:
    """Runs cut to the capped hours draw in them what runs of the whole window draw."""
    shared, trace = Shared(study.folder), frontier.runs[0].prepared.trace
    window = trace.opened(shared, 0)
    part = capped_part(window)
    assert len(part.jobs) < len(window.jobs)
    assert part.jobs.runtime_s.max() <= CAPPED_S < window.jobs.runtime_s.max()
    machine = replace(machine_of(208.0), sensor=PowerSensor(20.0, 60.0, noise=0.02, loss=0.01))
    policy = load_policy(MEAN, ledger=Measured(deviations=0.5))
    rows = [measured(each, machine, policy, 20.0, then_w) for each, then_w in ((window, np.inf), (part, 0.0))]
    assert rows[0]["excess_w"]
    assert rows[0]["power_w_quantiles"] == pytest.approx(rows[1]["power_w_quantiles"])
    assert {k: v for k, v in rows[0].items() if k.startswith(("over", "under", "excess"))} == pytest.approx(
        {k: v for k, v in rows[1].items() if k.startswith(("over", "under", "excess"))}
    )


def test_rules_are_compared_at_equal_left() -> None:
    """Between margins that leave 10 and 20 % and draw 4 and 2 % above, a rule that leaves 15 % compares with 3 %."""
    family = FAMILIES["measured now"]
    values = {
        (ALL, name, metric): np.array([at, at])
        for name, under, over in ((family[0], 10.0, 4.0), (family[-1], 20.0, 2.0))
        for metric, at in (("under_percent", under), ("over_percent", over))
    }
    for name in family[1:-1]:
        values |= {
            (ALL, name, "under_percent"): np.array([20.0, 20.0]),
            (ALL, name, "over_percent"): np.array([2.0, 2.0]),
        }
    found = Frontier([], Samples(values)).interpolated("measured now", "over_percent", np.array([15.0, 9.0]))
    assert found.tolist() == pytest.approx([3.0, np.nan], nan_ok=True)


@pytest.mark.compiled
def test_the_report_says_what_it_rests_on(small: Runs, frontier: Frontier) -> None:
    found = report(small, frontier)
    lines = list(found.lines())
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for words in ("2 generated traces", "cap binds", "runs that break the cap", "confirms nothing", "unseen traces"):
        assert words in text
    assert "easy+pc-real-mean (oracle)" in text, "oracles are marked"
    assert "easy+pc-mean (oracle)" not in text
    assert "measured now, z 0.5" in text
    page = found.html()
    assert "easy+pc-mean" in page
    assert page.count("</html>") == 1
    document = found.document()
    assert document["traces"][0]["origin"] == "generated"
    assert len(document["runs"]) == sum(len(run.rows) for runs in small.values() for run in runs)
    assert {(a["idle_w"], a["groups"]) for a in document["averages"]} == {
        (idle, which) for idle in (208.0, 240.0) for which in (ALL, BINDING, KEPT)
    }
    assert len(document["averages"][0]["unused_percent"]["traces"]) == 2
    table = "\n".join(found.markdown())
    assert "| easy+pc-naive: cap unused | 74 |" in table


@pytest.mark.compiled
def test_a_chance_ledger_takes_its_own_past(study: PowercapStudy, frontier: Frontier) -> None:
    prepared = frontier.runs[0].prepared
    cells = cells_of(prepared, ("easy+pc-chance-1", MEAN), (20,))
    (known,) = [dict(c.ledger) for c in cells if c.policy == "easy+pc-chance-1"]
    (other,) = [
        dict(c.ledger)
        for c in cells_of(frontier.runs[1].prepared, ("easy+pc-chance-1",), (20,))
        if c.policy == "easy+pc-chance-1"
    ]
    assert known != other
    assert cells[1].loaded().ledger.share == known["share"]  # type: ignore[attr-defined]
    assert [c.ledger for c in cells if c.policy == MEAN] == [()]


@pytest.mark.compiled
def test_pictures_say_that_the_mark_is_the_cap(small: Runs, frontier: Frontier) -> None:
    runs = small[208.0]
    figure = next(pictures(runs, pooled(runs)))[0]
    assert figure.heads["published"] == "cap"
    assert figure.columns["published"].tolist() == [20.0, 50.0]
    assert figure.columns["name"].tolist() == ["cap 20 %", "cap 50 %"]
    assert (figure.columns["median"] < figure.columns["published"]).all()
    above, excess = (each for each, kind in frontier.pictures() if kind == "points")
    assert above.extra["families"] == list(FAMILIES)
    assert excess.y.name == "highest excess"
    assert len(above) == len(frontier.means.policies)
