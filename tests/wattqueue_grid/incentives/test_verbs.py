"""`wattqueue incentives` from files to the ledger, also from the recording of a live controller; and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.live.test_recorded_schedule import record
from wattqueue.api.simulate import simulate
from wattqueue.errors import InputError
from wattqueue.formats.rundir.folder import read_run, write_run
from wattqueue.live.recordings.recorded_schedule import read_recording
from wattqueue.model.jobs import Jobs
from wattqueue.model.machine import plain_machine
from wattqueue.model.signals import Cap
from wattqueue_grid.cli.incentives.design import run as design
from wattqueue_grid.cli.incentives.offer import run as offer
from wattqueue_grid.cli.incentives.settle import run as settle
from wattqueue_grid.cli.incentives.statement import run as statement
from wattqueue_grid.incentives.ledger import IncentiveLedger

HOUR = 3_600.0
MODEL = """
name = "Discount"
currency = "EUR"
fee_per_node_h = 1.00

[[rewards]]
index = "added_wait"
kind = "linear"
rate = 0.05
"""
TABLE = """submit_s,nodes,runtime_s,user,mean_power_w,allowed
0,10,3600,ada,1100,1
3600,10,3600,bob,1100,1
7200,10,3600,ada,1100,1
10800,10,3600,bob,1100,0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four jobs of an hour on ten nodes; in hour 2 a load target lets none start."""
    (tmp_path / "model.toml").write_text(MODEL, encoding="utf-8")
    (tmp_path / "jobs.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "consent.toml").write_text("others = true\n", encoding="utf-8")
    (tmp_path / "targets.csv").write_text(
        "start_s,end_s,limit,unit,correlation_id\n7200,10800,5000,W,event-1\n", encoding="utf-8"
    )
    jobs = Jobs.build(HOUR * np.arange(4), [10] * 4, [HOUR] * 4, user=["ada", "bob"] * 2, mean_power_w=[1_100.0] * 4)
    run = simulate(jobs, plain_machine(10, 100.0, 1_100.0), targets=str(tmp_path / "targets.csv"))
    write_run(tmp_path / "run", run.record)
    return tmp_path


def given(folder: Path) -> dict[str, Any]:
    return {"targets": folder / "targets.csv", "model": folder / "model.toml"}


def test_a_run_is_settled_against_a_simulation_and_stated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = str(folder / "ledger.db")
    for said in ("Settled.", "nothing was changed"):
        settle(folder / "run", **given(folder), ledger=ledger, jobs=str(folder / "jobs.csv"))
        assert said in capsys.readouterr().out
    # Two jobs wait an hour longer on ten nodes; only that of ada consents: 10 node-hours at 0.05.
    assert [(t.user_name, t.jobs, t.reward) for t in IncentiveLedger.open(ledger).totals()] == [("ada", 1, 500_000)]
    statement(ledger=ledger)
    assert "0.50 EUR" in capsys.readouterr().out
    statement("ada", ledger=ledger, time_zone="Europe/Berlin", out=folder / "ada.html")
    assert "You get 0.50 EUR back: instead of 10.00 EUR you pay 9.50 EUR" in capsys.readouterr().out
    assert "difference to a simulation" in (folder / "ada.html").read_text(encoding="utf-8")


def test_runs_that_did_other_work_are_not_settled(folder: Path) -> None:
    """Without a job that never ran the others would wait less, and be paid for it."""
    run = read_run(folder / "run")
    cap = Cap(np.array([-np.inf, 10_000.0]), np.array([20_000.0, 6_000.0]))  # too low for the last job
    other = simulate(run.jobs, plain_machine(10, 100.0, 1_100.0), cap=cap)
    assert other.work.never_ran == 1
    write_run(folder / "other", other.record)
    files, ledger = given(folder) | {"jobs": str(folder / "jobs.csv")}, folder / "ledger.db"
    with pytest.raises(InputError) as error:
        settle(folder / "run", **files, ledger=str(ledger), counterfactual=folder / "other")
    assert "without the event: 1 of 4 jobs never ran" in str(error.value)
    assert not ledger.exists()


def test_a_run_with_physics_needs_its_own_counterfactual(folder: Path) -> None:
    """A simulation without the physics would pay for what the jobs draw and take elsewhere."""
    (folder / "physics.toml").write_text('table = "cells.csv"\n')
    (folder / "cells.csv").write_text("app,partition,watts,time_s\ncg,batch,900,60\n")
    jobs = read_run(folder / "run").jobs
    for name, targets in (("run", str(folder / "targets.csv")), ("other", None)):
        more: dict[str, Any] = {"targets": targets, "physics": str(folder / "physics.toml")}
        write_run(folder / name, simulate(jobs, plain_machine(10, 100.0, 1_100.0), **more).record)
    files = given(folder) | {"jobs": str(folder / "jobs.csv"), "ledger": str(folder / "ledger.db")}
    with pytest.raises(InputError) as error:
        settle(folder / "run", **files)
    assert "--counterfactual" in str(error.value)
    settle(folder / "run", **files, counterfactual=folder / "other")
    assert [t.reward for t in IncentiveLedger.open(str(folder / "ledger.db")).totals()] == [500_000]


def test_consent_withdrawn_midway_ends_what_counts(folder: Path) -> None:
    # At 9,000 s half of the hour that ada's job waits longer has passed.
    (folder / "withdrawn.csv").write_text("time_s,user,job_id\n9000,ada,\n", encoding="utf-8")
    ledger = str(folder / "ledger.db")
    settle(folder / "run", **given(folder), ledger=ledger, consent=folder / "consent.toml",
           withdrawn=folder / "withdrawn.csv")  # fmt: skip
    totals = {t.user_name: t.reward for t in IncentiveLedger.open(ledger).totals()}
    assert totals == {"ada": 250_000, "bob": 500_000}


def test_the_recording_of_a_controller_is_settled_against_a_simulation_of_its_jobs(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record(tmp_path)[0]
    began = float(read_recording(path).jobs.submit_s.min())
    (folder / "live.csv").write_text(
        f"start_s,end_s,limit,unit,correlation_id\n{began + 5},{began + 20},5000,W,live-1\n", encoding="utf-8"
    )
    files: dict[str, Any] = {
        "targets": folder / "live.csv",
        "model": folder / "model.toml",
        "consent": folder / "consent.toml",
    }
    ledger = str(folder / "ledger.db")
    with pytest.raises(InputError) as error:
        settle(path, **files, ledger=ledger)
    assert error.value.where == "--policy"
    settle(path, **files, ledger=ledger, policy="easy")
    assert "differences to a simulation without the event" in capsys.readouterr().out
    event = IncentiveLedger.open(ledger).events()[0]
    assert event.event_id == "live-1"
    assert "counterfactual" in event.basis


def test_what_cannot_be_settled_is_refused_with_its_place(folder: Path) -> None:
    files, ledger = given(folder), str(folder / "ledger.db")
    with pytest.raises(InputError) as error:  # nobody consents
        settle(folder / "run", **files, ledger=ledger)
    assert error.value.where == folder / "run"
    with pytest.raises(InputError) as error:
        settle(folder / "run", **files, ledger="mysql://host/name", consent=folder / "consent.toml")
    with pytest.raises(InputError) as error:
        statement("ada", ledger=str(folder / "none.db"))
    assert error.value.where == folder / "none.db"
    IncentiveLedger.open(ledger)
    with pytest.raises(InputError) as error:
        statement(ledger=ledger, out=folder / "all.html")
    assert error.value.where == "--out"


CONTRACT = """
name = "c"
currency = "EUR"
time_zone = "UTC"
baseline = "pjm-same-day"
committed_kw = 10

[payment]
per_mwh = 1000.0
"""
ACCEPTANCE = """
name = "Assumed"
origin = "generated"
source = "nobody was asked"
value_per_node_h = 0.10
points = [[0.0, 0.0], [1.0, 1.0]]
"""


def test_a_design_and_an_offer_from_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "contract.toml").write_text(CONTRACT, encoding="utf-8")
    (folder / "acceptance.toml").write_text(ACCEPTANCE, encoding="utf-8")
    files: dict[str, Any] = {
        **given(folder),
        "contract": folder / "contract.toml",
        "acceptance": folder / "acceptance.toml",
    }
    site: dict[str, Any] = {"node_watts": "100:1100", "policy": "easy"}
    jobs = str(folder / "jobs.csv")
    design(jobs, **files, nodes=10, **site, rates="0,1", draws=1, start="2023-03-01T00:00Z", out=folder / "design")
    said = capsys.readouterr().out
    # 10 kWh at 1,000 EUR/MWh; 20 node-hours of added wait at 0.10
    assert "10.00 EUR" in said
    assert "is generated: nobody was asked" in said
    assert (folder / "design" / "design.csv").is_file()
    with pytest.raises(InputError) as error:
        offer(jobs, nodes=10, **site)
    assert error.value.where == "workload"
    with pytest.raises(InputError) as error:
        offer(jobs, nodes=10, **site, begin="25:00")
    assert error.value.where == "--from"
    with pytest.raises(InputError) as error:
        design(jobs, **files, nodes=10, **site, rates="one", start="2023-03-01T00:00Z")
    assert error.value.where == "--rates"
    priced = {"nodes": 10, **site, "contract": folder / "contract.toml"}
    with pytest.raises(InputError, match="give --model"):
        offer(jobs, **priced)
    text = (folder / "model.toml").read_text(encoding="utf-8")
    (folder / "dollars.toml").write_text(text.replace("EUR", "USD"), encoding="utf-8")
    with pytest.raises(InputError, match="is in EUR, and the rewards in USD"):
        offer(jobs, **priced, model=folder / "dollars.toml")
    (folder / "contract.toml").write_text(CONTRACT.replace("per_mwh = 1000.0", "series = true", 1), encoding="utf-8")
    with pytest.raises(InputError, match="pays by a series of prices"):
        offer(jobs, **priced, model=folder / "model.toml")
