"""The study of paper 5: the workloads, measures by hand, the report and the command."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue.model.comparability import OPEN
from wattqueue.model.steps import Steps
from wattqueue_studies.demand_response.study import (
    ALPHAS,
    LIMIT_W,
    RULES,
    SHARES,
    DemandResponseStudy,
    announced_cases,
    announced_rules,
)
from wattqueue_studies.demand_response.trial import (
    DAY_S,
    HIGH_W,
    MIXES,
    WITHOUT,
    SavingCase,
    generate,
    greatest_rise,
    machine_for,
    named,
    power_figures,
    saved_figures,
    with_share,
)

RUN = ("study", "demand-response")


@pytest.mark.parametrize(("experiment", "load"), [("1", 0.94), ("2", 0.89)])
def test_workloads_have_the_numbers_of_the_tables_and_the_load_that_follows(experiment: str, load: float) -> None:
    mix, offered = MIXES[experiment], []
    for seed in range(30):
        jobs, place = generate(experiment, seed)
        assert len(jobs) == len(place) == mix.jobs
        assert mix.run_s[0] <= jobs.runtime_s.min() < jobs.runtime_s.max() <= mix.run_s[1]
        assert (jobs.nodes.min(), jobs.nodes.max()) == mix.nodes
        assert 0 <= jobs.submit_s.min() < jobs.submit_s.max() <= DAY_S
        offered.append(float((jobs.nodes * jobs.runtime_s).sum()) / (151 * DAY_S))
    assert np.mean(offered) == pytest.approx(load, abs=0.02)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_busy_machine_stays_within_the_limit_at_the_chosen_frequency(alpha: float) -> None:
    machine = machine_for(LIMIT_W, alpha)
    part = machine.partitions[0]
    full, slow = part.frequencies_hz
    busy = machine.idle_w + 151 * (3_360 - 924) * (slow / full) ** alpha
    assert busy <= LIMIT_W < 151 * 3_360 < HIGH_W
    assert slow / full == pytest.approx({1.0: 0.72, 2.0: 0.85, 3.0: 0.89}[alpha], abs=1e-9)


def test_a_stated_clock_is_how_far_dvfs_goes() -> None:
    full, slow = machine_for(LIMIT_W, 2.0, 0.8).partitions[0].frequencies_hz
    assert slow == 0.8 * full
    case = SavingCase("2", 0.0, 24.0, LIMIT_W, 2.0, clock=0.8)
    assert case.name == "experiment 2, 0-24 h, 407 kW, alpha 2, clock 0.8"


def test_allowed_jobs_of_a_smaller_share_are_allowed_in_a_greater_one() -> None:
    jobs, place = generate("2", 3)
    given = [with_share(jobs, place, share).consent for share in SHARES]
    counts = [0 if each is None else int(each.given.sum()) for each in given]
    assert counts[0] == 0
    assert counts[-1] == len(jobs)
    assert counts[3] == pytest.approx(0.75 * len(jobs), rel=0.05)
    assert all((~a.given | b.given).all() for a, b in itertools.pairwise(given) if a and b)


def test_measures_of_a_power_series_by_hand() -> None:
    """One hour at a limit of 100 kW: 20 minutes at 130, 40 at 90; without saving 150 throughout."""
    case = SavingCase("1", 1.0, 2.0, 100e3, 3.0)
    power = Steps(np.array([0.0, 3_600, 4_800, 7_200, 9_000]), np.array([150e3, 130e3, 90e3, 170e3, 140e3]))
    base = Steps(np.array([0.0]), np.array([150e3]))
    found = power_figures(case, power) | saved_figures(case, power, base, OPEN)
    assert found["unserved_kwh"] == pytest.approx(10.0)
    assert found["over_kw"] == pytest.approx(30.0)
    assert found["to_target_s"] == 1_200.0
    assert found["held_percent"] == pytest.approx(100 * 2 / 3)
    assert found["freed_kwh"] == pytest.approx(150 - (130 / 3 + 60))
    assert found["depth_percent"] == pytest.approx(100 * (1 - (130 / 3 + 60) / 150))
    assert found["rebound_kw"] == pytest.approx(20.0)


@pytest.mark.compiled
def test_no_disallowed_job_is_slowed_and_the_added_wait_is_split() -> None:
    trial = SavingCase("2", 9.0, 17.0, LIMIT_W, 3.0).draw(0)
    for rule in RULES:
        for share in SHARES:
            found = trial(named(rule, share))
            assert found["slowed_disallowed"] == found["not_run"] == 0.0
            bound = (1 - share) * (found["bound_cap_s"] + found["bound_fallback_s"])
            assert bound + share * found["allowed_wait_s"] == pytest.approx(found["added_wait_s"], rel=0.1, abs=1.0)
    assert trial(WITHOUT)["added_wait_s"] == 0.0
    assert trial(WITHOUT)["over_kw"] > 50.0


@pytest.mark.compiled
def test_an_announced_target_is_within_its_limit_from_the_begin_and_costs_no_disallowed_job_its_speed() -> None:
    case = next(iter(announced_cases().values()))
    trial = case.draw(0)
    found = {name: trial(name) for name in announced_rules()}
    assert {row["slowed_disallowed"] for row in found.values()} == {row["not_run"] for row in found.values()} == {0.0}
    assert found["dr-easy 25 %"]["unserved_kwh"] > 0.0
    for rule in ("dr-easy-ahead", "dr-easy-ramp"):
        for share in SHARES[1:]:
            row = found[named(rule, share)]
            assert row["unserved_kwh"] == row["to_target_s"] == 0.0
            assert row["held_percent"] == 100.0
    assert found["dr-easy-ramp 100 %"]["rise_kw"] < found["dr-easy-ahead 100 %"]["rise_kw"]


def test_the_greatest_rise_is_that_within_ten_minutes() -> None:
    # 100 at 0, 120 at 300 s, 90 at 500 s, 140 at 1,000 s (50 above 500 s before), 150 at 1,700 s.
    power = Steps(np.array([0.0, 300, 500, 1_000, 1_700]), np.array([100.0, 120, 90, 140, 150]))
    assert greatest_rise(power, 0.0, 7_200.0) == 50.0
    assert greatest_rise(power, 1_000.0, 7_200.0) == 0.0


@pytest.mark.compiled
def test_the_report_has_tables_claims_and_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattqueue_studies.demand_response.depth.CLOCKS", (0.89, 0.8))
    study = DemandResponseStudy(seeds=2, windows_h=((0.0, 24.0), (9.0, 17.0)), limits_w=(LIMIT_W,), announced=False)
    report = study.run()
    lines = list(report.lines())
    assert max(map(len, lines)) <= 80
    document = report.document()
    assert {"results", "claims", "generated"} <= document.keys()
    assert len(document["claims"]) == 5 + 4  # those on five windows need all of them; Figure 7 with a fitted clock
    assert {c["verdict"] for c in document["claims"] if "clock 0.8" in c["key"]} == {"with a fitted constant"}
    assert "Figure 7 by how far DVFS goes" in "\n".join(lines)
    over = {c["policy"]: c["ours"] for c in document["claims"] if "0-24" in str(c)}
    assert over["dr-fcfs 100 %"] == 0.0
    assert over["no saving"] > 0.0
    slowed = [each["values"] for each in document["results"] if each["metric"] == "slowed_disallowed"]
    assert set(np.concatenate(slowed)) == {0.0}
    page = report.html()
    assert "Node stop" in page
    assert "Figure 6: response to power saving, experiment 1, 0-24 h" in page
    assert "Figure 7: added wait by share of consent, experiment 2, 0-24 h, 407 kW, alpha 2, clock 0.8" in page


def test_no_window_is_refused() -> None:
    with pytest.raises(InputError):
        DemandResponseStudy(seeds=1, windows_h=()).run()


@pytest.mark.compiled
def test_the_command_writes_its_files(tmp_path: Path) -> None:
    done = wattqueue(*RUN, "--seeds", "1", "--no-node-stop", "--no-depth", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))["study"] == "demand_response"
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
