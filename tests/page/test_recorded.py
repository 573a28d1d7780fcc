"""A finished run on the page: what it shows at an instant is what the files of the run say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wattqueue as wq
from tests.page.served import Served, look, serving
from tests.report.chromium import Browser
from wattqueue.errors import InputError
from wattqueue.formats.rundir.folder import RunRecord, read_run
from wattqueue.model.schedule import Reason, State
from wattqueue.page.recorded import RecordedRun

USER, APP = "ada", "<img src=x onerror=alert(1)>"
DAY_S = 86_400
NEVER = "never"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 300 jobs under a cap that falls for a day."""
    rng = np.random.default_rng(3)
    n = 300
    runtime = rng.integers(600, 20_000, n)
    jobs = wq.Jobs.build(
        np.append(np.sort(rng.integers(0, 3 * DAY_S, n)), 50_000), np.append(rng.integers(1, 5, n), 2),
        np.append(runtime, 600), job_id=[*map(str, range(n)), NEVER],
        walltime_s=np.append(np.where(np.arange(n) % 9, runtime + 600, runtime - 300), 700),
        user=[USER] * (n + 1), app=[APP] * (n + 1), mean_power_w=np.append(rng.uniform(150.0, 290.0, n), 299.0),
    )  # fmt: skip
    place = tmp_path_factory.mktemp("recorded")
    (place / "cap.csv").write_text(f"time_s,cap_w\n0,3000\n{DAY_S},1800\n{2 * DAY_S},3000\n")
    run = wq.simulate(jobs, nodes=12, node_watts="90:300", cap=str(place / "cap.csv"), policy="easy")
    return run.save(place / "run")


@pytest.fixture(scope="module")
def run(folder: Path) -> RunRecord:
    return read_run(folder)


@pytest.mark.parametrize("at_s", [1000, 40_000, 86_399, 86_400, 100_000, 172_801, 230_000])
def test_an_instant_is_what_the_tables_say(run: RunRecord, at_s: int) -> None:
    found = RecordedRun(run, "run").sections(float(at_s))[1]
    jobs, schedule = run.jobs, run.schedule
    waits = (jobs.submit_s <= at_s) & (schedule.start_s > at_s)
    runs = (schedule.start_s <= at_s) & (schedule.end_s > at_s)
    cap_w = 1800.0 if DAY_S <= at_s < 2 * DAY_S else 3000.0
    free = 12 - int(jobs.nodes[runs].sum())
    counted_w = float(schedule.predicted_w[runs].sum()) + 90.0 * free
    left_w = int(cap_w - counted_w)
    short = waits & (jobs.nodes <= free) & (schedule.predicted_w - 90.0 * jobs.nodes > left_w)
    now = found["now"]
    assert now["jobs"] == {"waiting": int(waits.sum()), "running": int(runs.sum())}
    assert (now["cap_w"], now["limit_w"]) == (cap_w, cap_w)
    assert now["counted_w"] == pytest.approx(counted_w)
    assert now["measured_w"] == pytest.approx(_power(run, at_s))
    assert now["for_watts"] == int(short.sum())
    assert found["nodes"] == {"batch": {"allocated": 12 - free, "idle or off": free}}
    assert [row[0] for row in found["queue"]["rows"]] == jobs.job_id[waits].tolist()[:100]
    assert found["queue"]["total"] == int(waits.sum())
    starts = {row[0]: row[5] for row in found["queue"]["rows"]}
    for row in np.flatnonzero(waits).tolist()[:100]:
        assert abs(starts[str(jobs.job_id[row])] - schedule.start_s[row]) <= 30.0, "to the minute"
    assert {row[0]: row[5] for row in found["running"]} == {
        str(jobs.job_id[row]): int(np.ceil(schedule.end_s[row])) for row in np.flatnonzero(runs).tolist()
    }
    changes = [t for t in (DAY_S, 2 * DAY_S) if t <= at_s]
    assert [row[0] for row in found["events"]] == changes[::-1]
    assert [row[0] for row in found["ahead"]["limits"]] == [
        at_s, *(t for t in (DAY_S, 2 * DAY_S) if at_s < t <= at_s + DAY_S)
    ]  # fmt: skip


def _power(run: RunRecord, at_s: float) -> float:
    rows = run.power.time_s <= at_s
    return float(run.power.machine_w[rows][-1]) if rows.any() else float(run.power.machine_w[0])


def test_watts_are_waited_for(run: RunRecord) -> None:
    """The twin: under the low cap there are jobs that wait for watts, and in the run others that wait for nodes."""
    shown = RecordedRun(run, "run")
    kinds = {at: dict(shown.sections(float(at))[0]["queue"]["kinds"]) for at in range(3600, 3 * DAY_S, 3600)}
    assert any("watts" in found for at, found in kinds.items() if DAY_S <= at < 2 * DAY_S)
    assert any("nodes or their turn" in found for found in kinds.values())


def test_a_job_that_never_ran_says_why(run: RunRecord) -> None:
    row = run.jobs.job_id.tolist().index(NEVER)
    state, reason, start_s, end_s = (
        getattr(run.schedule, name).copy() for name in ("state", "reason", "start_s", "end_s")
    )
    state[row], reason[row], start_s[row], end_s[row] = State.NOT_STARTED, Reason.NEVER_FITS, np.nan, np.nan
    schedule = replace(run.schedule, state=state, reason=reason, start_s=start_s, end_s=end_s)
    run = replace(run, schedule=schedule)
    queue = RecordedRun(run, "run").sections(60_000.0)[0]["queue"]
    assert [one[6] for one in queue["rows"] if one[0] == NEVER] == ["never ran: never fits under the cap"]
    before = RecordedRun(run, "run").sections(49_000.0)[0]["queue"]
    assert NEVER not in [one[0] for one in before["rows"]]


def test_a_minute_of_the_history_is_its_greatest(run: RunRecord) -> None:
    rows = RecordedRun(run, "run").sections(100_000.0)[0]["history"]
    assert [row[0] for row in rows] == list(range(100_000 // 60 * 60 - DAY_S + 60, 100_000 // 60 * 60, 60))
    for time_s, cap_w, limit_w, _, measured_w, *_ in rows[::60]:
        inside = (run.power.time_s > time_s) & (run.power.time_s < time_s + 60)
        assert measured_w == round(max([_power(run, time_s), *run.power.machine_w[inside]]))
        assert cap_w == limit_w == (1800 if time_s >= DAY_S else 3000)


def test_counted_watts_never_exceed_the_cap(run: RunRecord) -> None:
    shown = RecordedRun(run, "run")
    counted = [shown.sections(float(at))[0]["now"] for at in range(0, int(shown.span[1]), 7_000)]
    assert all(one["counted_w"] <= 3000.0 + 1e-6 for one in counted)


@pytest.mark.parametrize(
    ("asked", "shown_s"), [("-5", "begin"), ("1e99", "end"), ("1e999", "end"), ("nan", None), ("x", None)]
)
def test_any_instant_has_an_answer(run: RunRecord, asked: str, shown_s: str | None) -> None:
    shown = RecordedRun(run, "run")
    expected = {"begin": shown.span[0], "end": shown.span[1], None: shown.instant(None)}[shown_s]
    assert shown.feed(asked).at_s == expected


def test_instants_that_are_kept_are_few(run: RunRecord) -> None:
    shown = RecordedRun(run, "run")
    for at_s in range(100):
        shown.feed(str(at_s))
    assert len(shown._feeds) <= 8


@pytest.fixture
def page(folder: Path, tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "log", "serve", str(folder), "--names") as found:
        yield found


def test_names_are_for_those_who_ask(folder: Path, tmp_path: Path, page: Served) -> None:
    named = page.events(("run", "now", "queue", "running"))
    assert named["now"]["names"]
    assert APP in json.dumps(named["running"])
    with serving(tmp_path / "plain", "serve", str(folder)) as plain:
        found = json.dumps(plain.events(("run", "now", "queue", "running", "events", "health")))
        assert USER not in found
        assert "img" not in found
        assert plain.ask("/events", Host="elsewhere.example").status == 421


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no run\.toml"):
        read_run(tmp_path)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, False), (400, True)])
def test_the_slider_shows_another_instant(page: Served, browser: Browser, width: int, dark: bool) -> None:
    look(browser, page.url + "#at=40000", width=width, dark=dark, token="")
    browser.wait("document.querySelector('#power-chart').dataset.ready")
    assert browser.js("wanted") == 40000
    assert browser.js("document.querySelector('#state').hidden")
    first = browser.js("document.querySelector('#summary').textContent")
    assert "of 3.00 kW" in first
    browser.js("document.querySelector('#instant').value = 100020")
    browser.js("document.querySelector('#instant').dispatchEvent(new Event('input'))")
    browser.wait("document.querySelector('#summary').textContent.includes('of 1.80 kW')")
    assert browser.js("location.hash").startswith("#at=1000")
    assert browser.js("document.querySelector('#signin').hidden") is True, "there is no token that shows names"
    assert browser.js("document.documentElement.scrollWidth") == width
    assert browser.js("document.querySelectorAll('main img').length") == 0
    browser.js("document.querySelector('#slider button').click()")
    browser.wait("document.querySelector('#summary').textContent.includes('of 3.00 kW')")
    assert browser.js("wattqueue.errors") == []
    assert browser.errors() == []


def test_power_domains_are_shown_with_limit_and_counted_watts(tmp_path: Path) -> None:
    """Two racks behind a feed, one of which has its limit for a day only; a machine without domains shows none."""
    (tmp_path / "m.toml").write_text(
        'name = "m"\n[[partitions]]\nname = "p"\nnodes = 4\nidle_w = 50.0\nmax_w = 200.0\n'
        '[[supply]]\nname = "feed"\nlimit_w = 700.0\n'
        '[[supply]]\nname = "a"\nparent = "feed"\nnodes = "p[1-2]"\nlimit_w = 300.0\n'
        '[[supply]]\nname = "b"\nparent = "feed"\nnodes = "p[3-4]"\nlimit_s = [0, 1000]\nlimits_w = [400.0, 350.0]\n'
    )
    jobs = wq.Jobs.build([0.0, 0.0], [1, 2], [2_000.0, 500.0], walltime_s=[2_000.0, 500.0], mean_power_w=[200.0, 150.0])
    run = wq.simulate(jobs, machine=str(tmp_path / "m.toml"), policy="easy")
    shown = RecordedRun(read_run(run.save(tmp_path / "run")), "run")
    begin, later, end = (shown.sections(at_s)[0]["domains"] for at_s in (100.0, 1_500.0, 2_000.0))
    assert [row[:2] for row in begin] == [["feed", ""], ["a", "feed"], ["b", "feed"]]
    busy_w = {name: watts for name, _, watts, _ in begin}
    assert busy_w["feed"] == busy_w["a"] + busy_w["b"] == 1 * 50 + 200 + 2 * 200, "counted is the stated maximum"
    assert [row[3] for row in begin] == [700, 300, 400]
    assert later[2] == ["b", "feed", 100, 350] or later[1] == ["a", "feed", 100, 300]
    assert end == [["feed", "", 200, 700], ["a", "feed", 100, 300], ["b", "feed", 100, 350]]
