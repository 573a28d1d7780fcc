"""What whatif prints: weighting of means, recorded waits, the wait of a safe cap, units, dates, narrow terminals."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from wattqueue.campaign.shared import Shared
from wattqueue.cli._table import print_document
from wattqueue.formats.table.job_table import write_table
from wattqueue.model.comparability import OPEN, Gate
from wattqueue.model.jobs import Jobs
from wattqueue.runs.task import Task
from wattqueue.whatif.analysis import CapAnalysis, analyse
from wattqueue.whatif.delayed_users import Extra, worst_hours
from wattqueue.whatif.document import rows
from wattqueue.whatif.figures import logarithmic, pictures
from wattqueue.whatif.page import document
from wattqueue.whatif.prepare import Question, prepare, run_caps
from wattqueue.whatif.recorded import recorded_waits
from wattqueue.whatif.text import (
    column_titles,
    headline,
    hour_sentence,
    mean_falls,
    remarks,
    safe_sentence,
    sentences,
    table_rows,
)

DAY = 86_400.0
EPOCH = 1_700_000_000.0  # 14 November 2023


def jobs_of(n: int = 300, *, first_s: float = 300.0, starts: float | None = None, nodes: int = 1) -> Jobs:
    """Generated jobs; with ``starts`` each has waited so many seconds in its trace."""
    rng = np.random.default_rng(5)
    submit = first_s + np.cumsum(rng.exponential(500.0, n)).round()
    return Jobs.build(
        submit,
        rng.choice([1, 2, 4], n) * nodes,
        rng.lognormal(7.8, 1.0, n).round() + 1.0,
        walltime_s=np.full(n, DAY),
        user=rng.choice(["ann", "bob"], n),
        mean_power_w=rng.uniform(180.0, 340.0, n).round(),
        start_s=None if starts is None else submit + starts,
    )


def answer_of(
    folder: Path, jobs: Jobs, caps: str = "50%..90%:20%", node_watts: str = "90:350", **more: object
) -> CapAnalysis:
    write_table(folder / "jobs.csv", jobs)
    task = Task(str(folder / "jobs.csv"), nodes=16, node_watts=node_watts)
    setup = prepare(Question(task, caps, **{"estimators": ("maximum",), "risk": 0.05, **more}))  # type: ignore[arg-type]
    return analyse(setup, run_caps(setup, Shared(folder / "shared"), workers=1))


def cells(answer: CapAnalysis, head: str) -> list[str]:
    """One column of the first table by the beginning of its head."""
    (column,) = [k for k, name in enumerate(column_titles(answer)) if name.startswith(head)]
    return [row[column] for row in table_rows(answer, answer.curves[0])]


def test_the_means_of_an_hour_are_taken_over_the_jobs_that_wait_longer() -> None:
    # Two jobs in one hour: a wide one starts 1 h later, a narrow one starts 3 h earlier.
    jobs = Jobs.build([0.0, 10.0], [100, 1], [3_600.0, 3_600.0])
    plain = np.array([0.0, 4 * 3_600.0 + 10.0])
    capped = np.array([3_600.0, 3_600.0 + 10.0])
    extra = Extra.of((plain, plain + 3_600.0), (capped, capped + 3_600.0))
    (hour,) = worst_hours(jobs, extra, plain)
    assert (hour.jobs, hour.delayed) == (2, 1)
    assert hour.wait_mean_s < 0  # over both jobs the mean wait is shorter
    assert hour.delayed_plain_wait_mean_s == 0.0
    assert hour.delayed_wait_mean_s == 3_600.0


def test_a_sentence_about_delayed_jobs_never_prints_a_shorter_wait(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of())
    curve = answer.curves[0]
    hours = answer.hours(curve, 0)
    assert hours
    for hour in hours:
        assert hour.delayed_wait_mean_s > hour.delayed_plain_wait_mean_s
        assert f"{hour.delayed:,}" in hour_sentence(answer, hour)


def test_recorded_waits_stand_beside_the_replay(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of(starts=36_000.0))
    recorded = recorded_waits(answer.setup.jobs, answer.curves[0].plain.start_s)
    assert recorded is not None
    assert recorded.wait_s_mean == pytest.approx(36_000.0)
    assert recorded.factor > 2
    assert table_rows(answer, answer.curves[0])[0][0] == "recorded"
    assert cells(answer, "Waiting time, mean")[0] == "10"
    told = [line for line in sentences(answer, answer.curves[0]) if "10 h" in line]
    assert len(told) == 1
    assert told[0].startswith("Warning: ")


def test_a_replay_that_agrees_with_the_record_is_not_warned_of(tmp_path: Path) -> None:
    first = answer_of(tmp_path, jobs_of())
    jobs = first.setup.jobs
    again = Jobs.build(
        jobs.submit_s, jobs.nodes, jobs.runtime_s, walltime_s=jobs.walltime_s, user=jobs.user,
        mean_power_w=jobs.mean_power_w, start_s=first.curves[0].plain.start_s,
    )  # fmt: skip
    (tmp_path / "again").mkdir()
    answer = answer_of(tmp_path / "again", again)
    recorded = recorded_waits(answer.setup.jobs, answer.curves[0].plain.start_s)
    assert recorded is not None
    assert recorded.factor == pytest.approx(1.0)
    assert not any(line.startswith("Warning: ") for line in sentences(answer, answer.curves[0]))


def test_without_recorded_starts_there_is_no_such_row(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of())
    assert recorded_waits(answer.setup.jobs, answer.curves[0].plain.start_s) is None
    assert table_rows(answer, answer.curves[0])[0][0] == "none"


def test_the_sentence_of_the_safe_cap_gives_the_risk_and_the_wait(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of(), "45%..90%:15%")
    curve = answer.curves[0]
    assert curve.verdict.lowest == 0
    sentence = safe_sentence(answer, curve).partition(". ")[0]
    waits = re.findall(r"[\d.]+ (?:h|min|s|days)\b", sentence)
    assert "5 %" in sentence
    assert len(waits) >= 2, "the wait under the cap, and without one"
    assert re.search(r"[\d.,]+ times", sentence)


def test_units_fit_a_small_machine(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of(40), "120W..150W:15W", "1:10")
    units = {name.rpartition("(")[2].rstrip(")") for name in column_titles(answer)}
    assert "Wh" in units or "kWh" in units
    assert "MWh" not in units
    assert float(cells(answer, "Energy billed")[0].replace(",", "")) > 0.1


def test_an_axis_is_logarithmic_for_several_configurations_far_apart() -> None:
    high, low = np.array([90_000.0, 600.0]), np.array([3_600.0, 0.0])
    assert logarithmic([high, low])
    assert not logarithmic([high])  # the knee of one curve is defined on a linear axis
    assert not logarithmic([np.array([900.0, 600.0]), np.array([800.0, 500.0])])


def test_hours_never_lie_before_the_first_day(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of())
    said = [answer.setup.words(h.begin_s) for k in range(3) for h in answer.hours(answer.curves[0], k)]
    assert said
    assert not any("-" in text for text in said)
    assert answer.setup.words(answer.begin_s) == "day 1, 00:21"


def test_a_trace_with_dates_prints_dates(tmp_path: Path) -> None:
    answer = answer_of(tmp_path, jobs_of(first_s=EPOCH))
    hours = answer.hours(answer.curves[0], 0)
    assert all("2023-11-" in hour_sentence(answer, hour) for hour in hours)


def test_energy_of_jobs_states_how_much_is_measured(tmp_path: Path) -> None:
    jobs = jobs_of(first_s=EPOCH)
    jobs.extra["energy_quality"] = np.array(["measured", "attributed"] * 150, object)
    answer = answer_of(tmp_path, jobs)
    (line,) = [line for line in remarks(answer) if line.startswith("Energy of jobs")]
    shares = [float(share) for share in re.findall(r"([\d.]+) %", line)]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert "measured" in line


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_answer_fits_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], width: int) -> None:
    from rich.console import Console

    answer = answer_of(tmp_path, jobs_of(starts=36_000.0))
    print_document(document(answer), Console(width=width, force_terminal=True, color_system=None))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    wait = cells(answer, "Waiting time, mean")
    assert all(value in text for value in wait), "no figure is cut"
    assert not any(re.search(r"\w{3,}-$", line) for line in lines)


def with_a_wide_job() -> Jobs:
    """A queue of narrow jobs, and one as wide as the machine, whose predicted watts fit under no low cap."""
    narrow = jobs_of(120)
    assert narrow.mean_power_w is not None
    submit, nodes = np.append(narrow.submit_s, narrow.submit_s[40]), np.append(narrow.nodes, 16)
    runtime, watts = np.append(narrow.runtime_s, 4_000.0), np.append(narrow.mean_power_w, 340.0)
    return Jobs.build(submit, nodes, runtime, walltime_s=np.full(121, DAY), user=["ann"] * 121, mean_power_w=watts)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> CapAnalysis:
    """Under 60 % and 70 % the wide job never runs; under 100 % all do."""
    folder = tmp_path_factory.mktemp("left")
    return answer_of(folder, with_a_wide_job(), "60%,70%,100%", estimators=("oracle-mean",))


def test_a_cap_that_leaves_jobs_is_no_headline(left: CapAnalysis) -> None:
    curve = left.curves[0]
    assert [through.open for through in curve.gates] == [False, False, True]
    assert curve.detail_row == 2
    assert headline(left, curve).startswith("Under 100%")
    assert cells(left, "Jobs that never ran")[-2:] == ["1", "1"]
    assert all(cell.startswith("≥ ") for cell in cells(left, "Waiting time, all jobs")[-2:])
    assert left.delayed_users(curve, 0) == ()
    assert left.hours(curve, 0) == ()
    found = {row["cap"]: row for row in rows(left)}
    assert found["60%"]["extra_wait_s_mean"] is None
    assert found["60%"]["never_ran_reasons"] == "never fits under the cap: 1"
    assert "1 of 121 jobs never ran" in found["60%"]["not_comparable"]
    assert found["100%"]["not_comparable"] is None


def test_a_cap_that_was_asked_for_and_leaves_jobs_does_not_hold(tmp_path: Path) -> None:
    found = answer_of(tmp_path, with_a_wide_job(), "60%,100%", estimators=("oracle-mean",), detail_cap="60%")
    said = headline(found, found.curves[0])
    assert "does not hold: " in said
    assert "60%: 1 of 121 jobs never ran (never fits under the cap)" in said
    page = document(found).html()
    assert "does not hold" in page
    assert 'id="fig-hours"' not in page
    assert "instead of" not in said


def test_gaps_and_hollow_points_where_jobs_never_ran(left: CapAnalysis) -> None:
    drawn = {figure.key: figure for figure, _ in pictures(left)}
    assert drawn["wait"].extra["never_ran"] == [[1, 1, 0]]
    for key in ("slowdown", "energy"):
        assert np.isnan(drawn[key].columns["value_0"]).tolist() == [True, True, False]


def test_power_above_a_cap_is_named_in_the_headline(tmp_path: Path) -> None:
    found = answer_of(tmp_path, jobs_of(), "60%", estimators=("history-mean",), risk=1e-6, detail_cap="60%")
    curve = found.curves[0]
    assert curve.evidence[0].share > 0
    assert "No cap that was tried holds" in headline(found, curve)
    assert "power is above it" in headline(found, curve)


def test_a_mean_that_falls_is_explained_beside_the_mean_by_nodes() -> None:
    class Run:
        def __init__(self, mean: float, nodes: float) -> None:
            self.metrics = {"wait_s_mean": mean, "node_wait_s_mean": nodes}

    class Fake:
        plain, gates = Run(100.0, 100.0), (OPEN, Gate(open=False, why="other jobs"))

        def __init__(self, *means: float) -> None:
            self.ran = tuple(Run(mean, 200.0) for mean in means)

    assert mean_falls(Fake(90.0, 200.0))  # type: ignore[arg-type]
    assert not mean_falls(Fake(110.0, 10.0))  # type: ignore[arg-type]
