"""The night report: what a day's cap cost by hand, equal work, 30 nights, records that are cut, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.test_recorded_schedule import record
from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue_studies.bound import prove
from wattqueue_studies.nightly import night as night_module
from wattqueue_studies.nightly.day import Day, zone_of
from wattqueue_studies.nightly.night import Night, RowNight
from wattqueue_studies.nightly.nights import NIGHTS, kept_nights, verdict
from wattqueue_studies.nightly.page import document, others_sentence, sentence

HEAD = "JobID|User|JobName|Partition|Submit|Start|End|ElapsedRaw|Timelimit|State|NNodes|ConsumedEnergyRaw"
SITE = 'name = "site"\ncap_w = {cap}\n\n[[partitions]]\nname = "batch"\nnodes = 4\nidle_w = 0.0\nmax_w = 100.0\n'
HOUR = 3_600


def job(name: str, submit: str, start: str, end: str, *, nodes: int = 2, hours: float = 1.0, state: str = "") -> str:
    joules = int(100 * nodes * hours * HOUR) if not state else ""
    times = (f"2026-11-{t}" if t[0].isdigit() else t for t in (submit, start, end))
    run = int(hours * HOUR)
    return "|".join(
        [name, "u", "a", "batch", *times, str(run), "02:00:00", state or "COMPLETED", str(nodes), str(joules)]
    )


NIGHT = (
    job("1", "25T20:00:00", "25T20:00:00", "25T21:00:00"),  # ended the day before
    job("2", "25T23:00:00", "25T23:00:00", "26T01:00:00", hours=2),
    job("3", "25T22:00:00", "26T01:00:00", "26T02:00:00"),
    job("4", "26T00:30:00", "26T02:00:00", "26T03:00:00"),
    job("5", "27T00:30:00", "27T00:30:00", "27T01:30:00"),  # the next day's
)
"""Two of these jobs run beside each other, by nodes; the cap of 200 W leaves room for one."""


def nightly(folder: Path, *more: object, rows: tuple[str, ...] = NIGHT, cap: float = 200.0, bound: int = 0) -> Any:
    (folder / "site.toml").write_text(SITE.format(cap=cap))
    (folder / "sacct.psv").write_text("\n".join([HEAD, *rows]) + "\n")
    words = ("--machine", "site.toml", "--day", "2026-11-26", "--time-zone", "UTC", "--bound", bound, *more)
    return wattqueue("nightly", "sacct.psv", *words, cwd=folder)


def figures(folder: Path, *more: object, **given: Any) -> Any:
    done = nightly(folder, "--json", *more, **given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_the_cap_cost_is_that_of_a_day_by_hand(tmp_path: Path) -> None:
    found = figures(tmp_path, "--row", "fcfs")
    assert (found["jobs"], found["running"]) == (2, 1)
    assert found["own"]["wait_s"] == 1.25 * HOUR  # 3 waits from midnight to 01:00, 4 from 00:30 to 02:00
    assert found["plain"]["wait_s"] == 0.25 * HOUR
    assert found["cost_s"] == HOUR
    assert found["recorded"]["wait_s_mean"] == 1.25 * HOUR
    assert [row["row"] for row in found["others"]] == ["fcfs"]
    text = nightly(tmp_path).stdout
    first = " ".join(text.split(":")[0].split())
    assert first == "On Thursday, 26 November 2026 the power cap of 200 W made jobs wait 1 h longer on average"


def test_a_cap_that_delays_nobody_costs_nothing(tmp_path: Path) -> None:
    done = nightly(tmp_path, cap=400.0)
    assert "the power cap of 400 W cost jobs no waiting time" in " ".join(done.stdout.split())


def test_jobs_that_are_cut_run_to_their_limits_in_every_replay(tmp_path: Path) -> None:
    cut = (
        *NIGHT[:3],
        job("6", "25T21:30:00", "25T23:30:00", "Unknown", nodes=1, hours=0.5, state="RUNNING"),
        job("7", "26T05:00:00", "Unknown", "Unknown", hours=0, state="PENDING"),
    )
    found = figures(tmp_path, rows=cut, cap=300.0)
    assert (found["jobs"], found["running"]) == (2, 2)
    assert "2 jobs had not ended when the record was made: run to the limit in every replay" in found["notes"]
    assert any(note.startswith("2 jobs without known watts") for note in found["notes"])
    assert found["own"]["wait_s"] == 0.5 * HOUR  # 3 waits for 2; 6 runs until 01:30 beside it
    late = figures(tmp_path, rows=cut, cap=200.0)["notes"]
    assert any(note.startswith("1 job that ran at midnight without room beside the others") for note in late)


def test_a_job_that_never_runs_under_the_cap_leaves_nothing_to_compare(tmp_path: Path) -> None:
    found = nightly(tmp_path, rows=(*NIGHT, job("8", "26T01:00:00", "26T04:00:00", "26T05:00:00", nodes=4)))
    text = " ".join(found.stdout.split())
    assert "What the power cap of 200 W cost on Thursday, 26 November 2026 cannot be said: easy: 1 of 4 jobs" in text
    waits = job("8", "26T01:00:00", "Unknown", "Unknown", nodes=4, hours=0, state="PENDING")
    assert figures(tmp_path, rows=(*NIGHT, waits))["cost_s"] is None


def test_the_bound_has_its_certificate_in_the_night_s_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("highspy", reason="bounds need the package highspy (extra: bounds)")
    monkeypatch.setattr(prove, "FEW_INTERVALS", 8)  # every grid is a proof; plain kernels take minutes for a fine one
    done = nightly(tmp_path, "--row", "fcfs", "--out", "nights", bound=50)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "nights/2026-11-26.json").read_text())["nightly"]
    bound = kept["bound"]
    assert bound["bound_s"] <= bound["best_known_s"] <= bound["policy_s"] == 2.25 * HOUR
    verified = wattqueue("bound", "--verify", "nights/2026-11-26.json", cwd=tmp_path)
    assert verified.returncode == 0
    assert "all numbers proven again" in verified.stdout
    assert "no schedule is below" in (tmp_path / "nights/2026-11-26.html").read_text()


def test_without_the_extra_the_night_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(night_module, "find_spec", {"highspy": None}.get)
    found = figures(tmp_path, bound=50)
    assert found["bound"] is None
    assert "wattqueue[bounds]" in found["no_bound"]
    assert found["cost_s"] == HOUR


def test_a_recording_brings_machine_row_and_cap(tmp_path: Path) -> None:
    path, kept = record(tmp_path, 40)
    done = wattqueue("nightly", path, "--day", "1970-01-12", "--bound", 0, "--row", "fcfs", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["jobs"] == len(kept)
    assert found["cap_w"][1] == 1600.0
    assert found["recorded"]["jobs"] == len(kept)
    refused = wattqueue("nightly", path, "--machine", "marconi100", "--day", "1970-01-12")
    assert "a recording has its own machine" in refused.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--day", "2026-10-01"), "no job waited or was submitted on 2026-10-01"),
        (("--day", "tomorrow"), "'tomorrow' is no date"),
        (("--cap", "none"), "no cap was in force on 2026-11-26"),
        (("--policy", "nobody"), "nobody"),
    ],
)
def test_what_cannot_be_answered_is_refused(tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    done = nightly(tmp_path, *more)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_record_without_a_machine_or_watts_is_refused(tmp_path: Path) -> None:
    nightly(tmp_path)
    none = wattqueue("nightly", "sacct.psv", "--day", "2026-11-26", cwd=tmp_path)
    assert "a run needs a machine" in none.stderr
    plain = [row.rpartition("|")[0] + "|" for row in NIGHT]
    (tmp_path / "sacct.psv").write_text("\n".join([HEAD, *plain]) + "\n")
    words = ("--machine", "kth-sp2", "--cap", "1kW", "--day", "2026-11-26")
    done = wattqueue("nightly", "sacct.psv", *words, cwd=tmp_path)
    assert "neither the record nor the machine states watts" in done.stderr


def test_a_night_is_recorded_once(tmp_path: Path) -> None:
    assert nightly(tmp_path, "--row", "fcfs", "--out", "nights").returncode == 0
    again = nightly(tmp_path, "--out", "nights")
    assert again.returncode == 2
    assert "2026-11-26 is recorded already" in again.stderr
    (tmp_path / "nights/copy.json").write_text((tmp_path / "nights/2026-11-26.json").read_text())
    twice = nightly(tmp_path, "--out", "nights", "--day", "2026-11-27")
    assert "holds 2026-11-26, which nights/2026-11-26.json holds too" in twice.stderr
    with pytest.raises(InputError, match="is no whole night"):
        kept_nights([("x.json", {"nightly": {"day": "2026-11-26"}})])
    assert kept_nights([("other.json", {"format": "else"}), ("list.json", [1])]) == []


def kept(change_s: float | None, day: int = 0, compared: bool = True) -> dict[str, Any]:
    row = {"row": "fcfs", "change_s": change_s}
    names = ["fcfs"] if compared else []
    return {"day": f"d{day}", "plain": {"row": "no cap", "change_s": -1.0}, "others": [row], "compared": names}


def test_better_is_said_over_thirty_nights_only_and_with_an_interval_without_zero() -> None:
    pytest.importorskip("scipy", reason="intervals need scipy (extra: ml)")
    clear = [kept(-60.0 - k % 5, k) for k in range(NIGHTS)]
    assert verdict("fcfs", clear[:-1]).word == "no difference shown"
    assert verdict("fcfs", clear).word == "better"
    assert verdict("fcfs", [kept(60.0 + k % 5, k) for k in range(NIGHTS)]).word == "worse"
    noise = np.random.default_rng(1).normal(-1.0, 60.0, NIGHTS)
    assert verdict("fcfs", [kept(float(v), k) for k, v in enumerate(noise)]).word == "no difference shown"
    gaps = [*clear[:-1], kept(None, 29), kept(-60.0, 30, compared=False)]
    assert (verdict("fcfs", gaps).nights, verdict("fcfs", gaps).word) == (NIGHTS - 1, "no difference shown")


def a_night() -> Night:
    own = RowNight("easy", 100.0, 1.0, 0.0, 0.0)
    others = (
        RowNight("greedy", 10.0, 1.0, 600.0, -90.0),
        RowNight("other", 20.0, 1.0, 0.0, None, "the runs are not of the same jobs"),
        RowNight("fair", 90.0, 1.0, 0.0, -10.0),
    )
    plain = RowNight("no cap", 40.0, 1.0, 0.0, -60.0)
    return Night("2026-11-26", "site", "easy", (1e3, 2e3), 7, 1, None, own, plain, others, {}, None, "none", ())


def test_a_row_that_was_above_the_cap_or_ran_other_jobs_is_in_no_range() -> None:
    night = a_night()
    assert [row.row for row in night.fair()] == ["fair"]
    over = [verdict(row.row, []) for row in (night.plain, *night.others)]
    assert others_sentence(night, over[1:]).startswith("Under 1 other scheduling rule the average wait of the same")
    page = document(night, over).html()
    assert "greedy: longer above the cap than the row in use." in page
    assert "1 kW to 2 kW" in sentence(night)
    assert "No other scheduling rule" in others_sentence(replace(night, others=night.others[:2]), over[1:3])


def test_a_day_has_the_hours_of_its_zone() -> None:
    long = Day.of("2026-10-25", zone_of("Europe/Berlin"))
    assert long.end_s - long.begin_s == 25 * HOUR
    assert Day.of("2026-11-26", zone_of("+02:00")).begin_s % (24 * HOUR) == 22 * HOUR
