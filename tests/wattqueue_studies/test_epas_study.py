"""The study of paper 3: measures on a small case, Algorithm 1 by itself, the report and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install 'wattqueue[ml]'")

from tests.program import wattqueue
from wattqueue.errors import InputError
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.workload.lightesp import APPS
from wattqueue_studies.epas.algorithm import growth, growth_table
from wattqueue_studies.epas.study import EpasStudy
from wattqueue_studies.epas.trial import BASE, CAPS_W, ORACLE, EspCase, measured, paper_machine, policies

RUN = ("study", "epas")


def test_machines_have_520_cores_and_the_watts_of_the_paper() -> None:
    for name, watts in (("bull", 5200.0), ("montblanc", 3120.0)):
        machine = paper_machine(name, 0.3)
        assert machine.units == 520
        assert machine.scope_max_w() == pytest.approx(watts)
        assert machine.idle_w == pytest.approx(0.3 * watts)
        assert CAPS_W[name] / watts == pytest.approx(0.8, abs=0.01)


def test_measures_of_two_jobs_by_hand() -> None:
    """Jobs of mp2c on bull without idle watts: a core is estimated at 10 W and draws 7.6 W."""
    apps = tuple(a.name for a in APPS)
    codes = np.full(2, apps.index("mp2c"), np.int32)
    jobs = Jobs.build([0, 0], [260, 240], [100.0, 100.0], walltime_s=[200.0] * 2, app=Labels(codes, apps))
    machine = paper_machine("bull", 0.0)
    found = measured(jobs, machine, policies()["pas-highest"], 4200.0)
    # 5,000 W exceed 4,200 W: one after the other.
    assert found["makespan_s"] == 200.0
    assert found["wait_s"] == 50.0
    assert found["energy_j"] == pytest.approx(500 * 7.6 * 100)
    assert found["utilization_percent"] == pytest.approx(100 * 500 / 1040)
    assert found["gap_percent"] == pytest.approx(100 * 500 * 2.4 / (2 * 4200))
    # By what they really draw both fit at once; an oracle.
    known = measured(jobs, machine, policies()[ORACLE], 4200.0)
    assert known["makespan_s"] == 100.0
    assert known["gap_percent"] == pytest.approx(0.0)
    # With windows the second one starts at once, at 2.2 GHz: 1,481 of the 1,600 W left.
    lower = measured(jobs, machine, policies()[BASE], 4200.0)
    assert lower["makespan_s"] == pytest.approx(100 * (0.6 * (2.8 / 2.2 - 1) + 1))
    assert lower["over_s"] == 0.0


def test_without_class_z_the_other_jobs_are_the_same() -> None:
    whole, fewer = EspCase("bull", 0.3), EspCase("bull", 0.3, whole_machine=False)
    assert fewer.name == f"{whole.name}, without Z"
    assert EspCase("bull", 0.3, load=1.0, first=0).name == f"{whole.name}, load 1, 0 at 0"
    jobs, others = whole.jobs(3), fewer.jobs(3)
    assert len(jobs) == len(others) + 2 == 230
    assert (jobs.submit_s[jobs.nodes < 520] == others.submit_s).all()
    assert others.nodes.max() < 520


def test_the_sum_of_the_caps_grows_as_printed_only() -> None:
    rng = np.random.default_rng(3)
    idle, busy = growth((0.2, 0.9), 20, rng), growth((0.5, 1.5), 20, rng)
    assert idle.printed_percent == 0.0
    assert busy.printed_percent == 100.0
    assert 5.0 < busy.printed_most < 25.0
    assert busy.corrected_percent == 0.0
    assert len(growth_table(5)[0].rows) == 4
    with pytest.raises(InputError):
        growth((0.5, 1.5), 0, rng)


@pytest.mark.compiled
def test_the_report_has_tables_claims_and_figures(data_dir: Path) -> None:
    study = EpasStudy(data_dir / "power/gridpilot_v100_parsed_results.csv", seeds=2, idle_shares=(0.3,))
    report = study.run()
    lines = list(report.lines())
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("bull, idle 30 %") for line in lines) >= 2
    document = report.document()
    assert {"results", "algorithm", "fitted", "claims", "oracles"} <= document.keys()
    # 2 settings with all policies; 14 with other submissions, and 2 without class Z.
    assert len(document["results"]) == 12 * (2 * 9 + 14 * 2 + 2 * 3)
    assert len(document["claims"]) == 22
    assert "E-PAS against PAS by submissions" in "\n".join(lines)
    pas = [
        each["values"] for each in document["results"] if each["metric"] == "over_s" and "e-pas" not in each["policy"]
    ]
    assert pas == [[0.0, 0.0]] * (2 * 4 + 14 + 2 * 2)
    limited = [e for e in document["results"] if e["metric"] == "over_s" and e["policy"] == "e-pas-intel"]
    assert [each["values"] for each in limited] == [[0.0, 0.0]] * (1 + 7 + 1)
    assert "Figure 8: power, e-pas-intel on bull" in report.html()
    assert "Algorithm 1" in report.html()


@pytest.mark.parametrize("shares", [(), (1.0,), (-0.1,)])
def test_idle_shares_out_of_range_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(InputError) as refused:
        EpasStudy(seeds=1, idle_shares=shares).run()
    assert str(refused.value.where) == "--idle"


@pytest.mark.compiled
def test_the_command(tmp_path: Path) -> None:
    done = wattqueue(*RUN, "--seeds", "1", "--idle", "45", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "montblanc, idle 45 %" in done.stdout
    assert json.loads((tmp_path / "study.json").read_text())["study"] == "epas"
    wrong = wattqueue(*RUN, "--cells", str(tmp_path / "none.csv"))
    assert wrong.returncode == 2
    assert "none.csv" in wrong.stderr
