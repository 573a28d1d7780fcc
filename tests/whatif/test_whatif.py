"""wattqueue whatif as a user runs it, and its answer held to single runs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.program import wattqueue
from wattqueue.campaign.shared import Shared
from wattqueue.errors import CampaignError, InputError, MachineError, PolicyError
from wattqueue.formats.table.job_table import read_table, write_table
from wattqueue.formats.tariff import parse_source
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import Machine, Partition
from wattqueue.report.document import rows_csv
from wattqueue.runs.perform import load, perform
from wattqueue.runs.task import Task
from wattqueue.whatif.analysis import CapAnalysis, analyse, never_above
from wattqueue.whatif.document import delayed_user_rows, to_json
from wattqueue.whatif.page import document as shown_document
from wattqueue.whatif.prepare import Question, prepare, run_caps
from wattqueue.whatif.text import UNKNOWN, column_titles, remarks, safe_sentence, sentences, table_rows

HERE = ("--nodes", "32", "--node-watts", "90:350")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    n = 600
    jobs = Jobs.build(
        np.cumsum(rng.exponential(450.0, n)).round(),
        rng.choice([1, 2, 4, 8], n),
        rng.lognormal(7.8, 1.0, n).round() + 1.0,
        walltime_s=np.full(n, 86_400.0),
        user=rng.choice(["ann", "bob", "cid"], n),
        mean_power_w=rng.uniform(180.0, 340.0, n).round(),
        origin="generated",
    )
    path = tmp_path_factory.mktemp("whatif") / "jobs.csv"
    write_table(path, jobs)
    return path


def task(table: Path) -> Task:
    return Task(str(table), nodes=32, node_watts="90:350")


def answer(question: Question, folder: Path, workers: int = 1) -> CapAnalysis:
    setup = prepare(question)
    return analyse(setup, run_caps(setup, Shared(folder), workers=workers))


def test_each_point_is_the_run_that_simulate_makes(table: Path, tmp_path: Path) -> None:
    found = answer(Question(task(table), "50%..90%:20%", estimators=("history-mean",)), tmp_path)
    curve = found.curves[0]
    for cap, ran in zip(found.setup.caps, curve.ran, strict=True):
        single = perform(load(Task(**{**task(table).values(), "estimator": "history-mean", "cap": cap.text})))
        assert np.array_equal(ran.start_s, single.run.schedule.start_s, equal_nan=True)
        assert ran.metrics == pytest.approx(single.metrics, nan_ok=True)
        assert ran.power.over_s.sum() == pytest.approx(single.metrics["cap_over_s"])
        assert ran.power.machine_j.sum() == pytest.approx(single.metrics["machine_energy_j"])
    plain = perform(load(Task(**{**task(table).values(), "estimator": "history-mean"})))
    assert curve.plain.metrics["wait_s_mean"] == plain.metrics["wait_s_mean"]


@pytest.mark.compiled
def test_jobs_get_the_nodes_that_their_memory_needs(table: Path, tmp_path: Path) -> None:
    jobs = read_table(table).take(slice(0, 60))
    memory = np.where(np.arange(len(jobs)) % 3 == 0, 250.0 * jobs.nodes, 10.0)  # a third needs three nodes for one
    write_table(tmp_path / "jobs.csv", replace(jobs, extra={"memory_gb": memory}))
    machine = Machine("m", (Partition("p", 32, idle_w=90.0, max_w=350.0, memory_gb=100.0),))
    asked = task(tmp_path / "jobs.csv")
    setup = prepare(Question(asked, "90%", estimators=("maximum",)), machine=machine)
    found = analyse(setup, run_caps(setup, Shared(tmp_path / "shared"), workers=1))
    single = perform(load(replace(asked, estimator="maximum", cap="90%"), machine=machine))
    assert np.array_equal(found.curves[0].ran[0].start_s, single.run.schedule.start_s, equal_nan=True)
    assert setup.widened == 20
    assert "Jobs with more nodes than they ask for, for their memory: 20." in list(remarks(found))


def test_processes_give_the_same_answer(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wattqueue.whatif import grid

    question = Question(task(table), "50%..90%:20%", ("easy", "fcfs"), ("history-max", None))
    here = to_json(answer(question, tmp_path / "a"))
    monkeypatch.setattr(grid, "SMALL", 0)
    assert to_json(answer(question, tmp_path / "b", workers=2)) == here


@pytest.mark.compiled
def test_phases_count_in_what_is_above_the_cap(tmp_path: Path) -> None:
    week = Task("marconi:days=2,load=0.8", machine="marconi100")
    found = answer(Question(week, "15%", estimators=("oracle-mean",)), tmp_path).curves[0].ran[0]
    assert (found.metrics["cap_over_s"] or 0) > 0  # means held to the cap, the phases above them are not
    single = perform(load(replace(week, estimator="oracle-mean", cap="15%")))
    assert found.metrics == pytest.approx(single.metrics, rel=1e-9, abs=1e-6)  # samples are rounded to microwatts


def test_page_and_files_say_the_verdict(table: Path, tmp_path: Path) -> None:
    question = Question(task(table), "60%..100%:20%", ("easy", "fcfs"), ("maximum",))
    found = answer(question, tmp_path)
    page = shown_document(found).html()
    assert page.count('<figure class="fig') == 6  # wait, risk, hours, slowdown, energy, users; of one partition none
    assert all(text in page for text in ("easy, maximum", "fcfs, maximum", "Limits", "generated"))
    rows = list(csv.DictReader(rows_csv(list(delayed_user_rows(found))).splitlines()))
    assert len(rows) == 2 * 3 * (3 + 1)  # configurations, caps, three users and a partition
    lines = [line for curve in found.curves for line in (*sentences(found, curve), *remarks(found))]
    assert any("1 %: 60%" in line for line in lines)
    assert all(len(row) == len(column_titles(found)) for curve in found.curves for row in table_rows(found, curve))


def test_naive_can_never_be_above(table: Path, tmp_path: Path) -> None:
    found = answer(Question(task(table), "60%..100%:20%", estimators=("maximum", "oracle-max")), tmp_path)
    naive, oracle = found.curves
    assert naive.verdict.lowest == 0
    assert all(e.never and e.over_s == 0 for e in naive.evidence)
    assert oracle.verdict.lowest is None
    assert "oracle-max" in oracle.verdict.why


def test_a_job_above_the_stated_maximum_can_be_above(table: Path) -> None:
    setup = prepare(Question(Task(str(table), nodes=32, node_watts="90:300")))
    assert not never_above(setup, setup.policy(("easy", None)))


def test_without_watts_nothing_is_safe_by_the_data_and_a_cap_is_where_unknown_is_the_maximum(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,nodes,runtime_s\n0,4,5000\n10,4,5000\n")
    found = answer(Question(Task(str(path), nodes=4, node_watts="90:350"), "90%..100%:10%"), tmp_path)
    (curve,) = found.curves
    assert curve.verdict.lowest is None
    assert "100 %" in curve.verdict.why
    # at 90 % no job of four nodes fits at its maximum, at 100 % power cannot be above the cap
    assert curve.assumed is not None
    assert (curve.assumed.lowest, curve.best.lowest) == (1, 1)
    assert "cannot be exceeded" in curve.assumed.why


def unknown(table: Path, folder: Path, share: float) -> Path:
    """The same jobs, some of them without watts."""
    jobs = read_table(table)
    assert jobs.mean_power_w is not None
    watts = np.where(np.random.default_rng(1).random(len(jobs)) < share, np.nan, jobs.mean_power_w)
    write_table(folder / "partly.csv", replace(jobs, mean_power_w=watts))
    return folder / "partly.csv"


def test_both_answers_are_given_where_watts_are_unknown(table: Path, tmp_path: Path) -> None:
    partly = unknown(table, tmp_path, 0.3)
    jobs = read_table(partly)
    assert jobs.mean_power_w is not None
    filled = tmp_path / "filled.csv"
    write_table(filled, replace(jobs, mean_power_w=np.where(np.isnan(jobs.mean_power_w), 350.0, jobs.mean_power_w)))
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    caps = "60%..100%:20%"
    found = answer(Question(task(partly), caps, estimators=("maximum", "oracle-max")), tmp_path / "one")
    naive, oracle = found.curves
    assert naive.verdict.lowest is None
    # what is assumed is what a table would give that states the maximum where watts are unknown
    stated = answer(Question(task(filled), caps, estimators=("maximum",)), tmp_path / "two").curves[0]
    assert stated.assumed is None
    assert naive.assumed == stated.verdict
    assert naive.assumed is not None
    assert naive.assumed.lowest is not None
    said = safe_sentence(found, naive)
    assert "by the data alone: none: the power of" in said
    assert f"{UNKNOWN}: {found.setup.caps[naive.assumed.lowest].text} (" in said
    assert any("unknown at maximum" in row[2] for row in table_rows(found, naive))
    assert oracle.assumed is None  # an oracle is no estimator for production, whatever is assumed
    document = json.loads(to_json(found))["configurations"]
    assert document[0]["lowest_safe_cap"] is None
    assert document[0]["lowest_safe_cap_unknown_at_maximum"] == found.setup.caps[naive.assumed.lowest].text
    assert "lowest_safe_cap_unknown_at_maximum" not in document[1]
    page = shown_document(found).html()
    assert "by the data alone" in page
    assert "jobs without watts at the stated maximum" in page


def test_where_no_maximum_is_stated_nothing_is_assumed(table: Path, tmp_path: Path) -> None:
    setup = prepare(Question(task(unknown(table, tmp_path, 0.3))))
    machine = replace(setup.machine, partitions=tuple(replace(p, max_w=None) for p in setup.machine.partitions))
    found = analyse(replace(setup, machine=machine), run_caps(setup, Shared(tmp_path / "s"), workers=1))
    assert found.curves[0].assumed is None
    assert "states no maximum (max_w)" in found.curves[0].verdict.why


def test_a_bill_ends_with_its_own_run(table: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("time_s,price\n0,100\n")  # one price: the bill is energy times it
    source = parse_source(prices, "EUR/MWh", "--price-unit")
    found = answer(Question(task(table), "50%..90%:20%", prices=source), tmp_path)
    curve = found.curves[0]
    for bill in (*curve.bills, curve.plain_bill):
        assert bill.cost == pytest.approx(100.0 * bill.energy_j / 3.6e9)
    for bill, ran in zip((*curve.bills, curve.plain_bill), (*curve.ran, curve.plain), strict=True):
        assert bill.energy_j == pytest.approx(ran.metrics["machine_energy_j"])


def test_the_bill_without_a_cap_does_not_depend_on_what_else_was_asked(table: Path, tmp_path: Path) -> None:
    asked = ("50%", "90%", "50%..90%:20%")
    found = [answer(Question(task(table), caps), tmp_path / str(k)) for k, caps in enumerate(asked)]
    assert len({each.curves[0].plain_bill.energy_j for each in found}) == 1
    assert len({each.curves[0].ran[-1].power.edge_s[-1] for each in found}) > 1  # the caps end at different times


def test_prices_too_short_for_the_queue_are_refused(table: Path, tmp_path: Path) -> None:
    last = float(perform(load(task(table))).run.jobs.submit_s.max())
    prices = tmp_path / "prices.csv"
    prices.write_text("time_s,price\n" + "".join(f"{k},1\n" for k in range(0, int(last) + 1, 3_600)))
    question = Question(task(table), "45%", prices=parse_source(prices, "EUR/MWh", "--price-unit"))
    with pytest.raises(InputError) as caught:
        answer(question, tmp_path)
    assert caught.value.where == prices


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"policies": ("esy",)}, PolicyError, "esy"),
        ({"estimators": ("fcfs",)}, PolicyError, "fcfs"),
        ({"caps": "10%..90%"}, MachineError, "cap 10%"),
        ({"detail_cap": "61%"}, InputError, "--detail-cap"),
        ({"risk": 1.0}, InputError, "--risk"),
        ({"start": "soon"}, InputError, "--start"),
    ],
)
def test_a_question_without_an_answer_is_refused_before_any_run(
    table: Path, change: dict[str, object], error: type[Exception], word: str
) -> None:
    with pytest.raises(error) as caught:
        prepare(Question(task(table), **change))  # type: ignore[arg-type]
    assert word in str(caught.value)


def test_a_cap_without_known_watts_is_one_clear_error(table: Path, tmp_path: Path) -> None:
    with pytest.raises(CampaignError) as caught:
        answer(Question(Task(str(table), nodes=32), "3kW..4kW"), tmp_path)
    assert "\n" not in str(caught.value)


def test_files_and_table(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = wattqueue("whatif", table, *HERE, "--cap", "40%..80%", "--estimator", "history-mean", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "too little data" in done.stdout.lower()
    with (out / "whatif.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["cap"] for row in rows] == ["none", *(f"{k}%" for k in range(40, 81, 5))]
    waits = [float(row["wait_s_mean"]) for row in rows]
    assert waits[1] > waits[-1]
    document = json.loads((out / "whatif.json").read_text())
    assert document["configurations"][0]["lowest_safe_cap"] is None
    assert len(document["rows"]) == 10
    with (out / "delayed_users.csv").open(newline="") as file:
        users = [row for row in csv.DictReader(file) if row["cap"] == "60%" and row["kind"] == "user"]
    assert {row["name"] for row in users} == {"ann", "bob", "cid"}
    assert sum(float(row["share_of_work"]) for row in users) == pytest.approx(1.0)
    assert (out / "report.html").stat().st_size > 1_000_000


def test_a_wrong_call_writes_nothing(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for more in (("--cap", "60..x"), ("--risk", "0"), ("--prices", tmp_path / "no.csv"), ("--policy", "easy,easy")):
        done = wattqueue("whatif", table, *HERE, *more, "--out", out)
        assert done.returncode == 2
        assert done.stderr.startswith("wattqueue: ")
        assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_what_would_budgets_have_done(tmp_path: Path) -> None:
    """A row with budgets beside the same without: jobs wait for the next day, and the periods kept are said."""
    jobs = Jobs.build(
        np.arange(6) * 600.0, np.full(6, 4), np.full(6, 3_600.0), walltime_s=np.full(6, 3_600.0),
        user=["ann"] * 6, mean_power_w=np.full(6, 300.0),
    )  # fmt: skip
    write_table(tmp_path / "jobs.csv", jobs)
    row = 'controls = [{ part = "energy-budgets", budgets = "budgets.toml" }]\n'
    (tmp_path / "row.toml").write_text(f'[kept]\nsource = "a test"\n{row}')
    (tmp_path / "budgets.toml").write_text('[[budgets]]\nname = "ann"\nuser = "ann"\namount = 3.0\nperiod = "day"\n')
    policies = f"easy,{tmp_path / 'row.toml'}:kept"
    done = wattqueue("whatif", tmp_path / "jobs.csv", *HERE, "--cap", "100%", "--policy", policies, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    waits = [one["wait_s_mean"] for one in found["rows"] if one["cap"] == "100%"]
    assert waits[0] == 0.0
    assert waits[1] > 6 * 3_600.0, "each may use 1.4 kWh: two at a time, and three of what they leave"
    (notes,) = found["configurations"][1]["notes"].values()
    assert notes["budget ann: periods kept, of 2 that are over and of which something was used"] == 2
