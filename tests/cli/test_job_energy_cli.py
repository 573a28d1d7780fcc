"""``wattqueue job`` and ``wattqueue jobs``: lines, JSON, page, and what is asked wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.site import MACHINE
from tests.program import wattqueue
from wattqueue.live.files.energy_records import EnergyFolder, EnergyRecord
from wattqueue.report.job_energy import month_of

BEGIN_S = month_of("2026-10", "Europe/Berlin")[0]
RECORD = EnergyRecord(
    job="7", submit_s=BEGIN_S, first_s=BEGIN_S, start_s=BEGIN_S + 600, end_s=BEGIN_S + 4200, uid=1000, account="phys",
    partition="p1", nodes=2, energy_j=3.6e6, low_j=3.5e6, high_j=3.9e6, label="measured", source="meters",
    watts_wait_s=300.0, lower=(1.8e9, 0.09, 0.06), cost=0.25, cost_unit="EUR", carbon=400.0, carbon_unit="gCO2",
)  # fmt: skip


def site(folder: Path, energy: str = '[energy]\ntime_zone = "Europe/Berlin"\n') -> Path:
    (folder / "m.toml").write_text(MACHINE)
    config = folder / "live.toml"
    config.write_text(f'machine = "m.toml"\ncap = "1800W"\nrun_dir = "run"\n{energy}')
    (folder / "run").mkdir()
    files = EnergyFolder(folder / "run/energy")
    files.append(RECORD, [])
    for k in (1, 2):
        other: dict[str, Any] = {
            "uid": 1001,
            "label": "modelled",
            "cost": None,
            "cost_unit": "",
            "lower": None,
            "project": "climate",
        }
        files.append(replace(RECORD, job=f"8_{k}", **other))
    files.append(replace(RECORD, job="9", submit_s=1.0, start_s=BEGIN_S - 90, first_s=1.0, end_s=BEGIN_S - 60))
    files.put_running(1000, [replace(RECORD, job="10")])
    return config


def test_one_line_for_a_job(tmp_path: Path) -> None:
    config = str(site(tmp_path))
    done = wattqueue("job", "7", "--config", config)
    assert done.stdout == (
        "job 7: 1 kWh (measured; 972 Wh to 1.08 kWh), 0.25 EUR, 400 gCO2, 50 % of a wait of 10 min was for watts, "
        "at 1.8 GHz 9 % less energy and 6 % longer (modelled)\n"
    )
    found = json.loads(wattqueue("job", "7", "--config", config, "--json").stdout)
    assert found["runs"][0]["energy_j"] == 3.6e6
    array = wattqueue("job", "8", "--config", config).stdout.splitlines()
    assert [line.partition(":")[0] for line in array] == ["job 8_1", "job 8_2", "job 8 (2 runs)"]
    assert "2 kWh (modelled" in array[2]
    assert "EUR" not in array[2], "no cost of one is no cost of the sum"
    assert "until now, preliminary" in wattqueue("job", "10", "--config", config).stdout
    none = wattqueue("job", "99", "--config", config)
    assert none.returncode == 1
    assert "no job 99" in none.stdout


def test_one_line_and_a_page_for_a_month(tmp_path: Path) -> None:
    config = str(site(tmp_path))
    done = wattqueue("jobs", "--month", "2026-10", "--config", config)
    assert done.stdout == (
        "2026-10, all users: 3 jobs, 3 kWh (33.3 % measured, 66.7 % modelled; 2.92 kWh to 3.25 kWh), "
        "0.25 EUR (2 runs without), 1,200 gCO2, avoidable waits 15 min\n"
    )
    mine = wattqueue("jobs", "--month", "2026-10", "--user", "1000", "--config", config).stdout
    assert mine.startswith("2026-10, user 1000: 1 job, 1 kWh")
    of_project = ("jobs", "--month", "2026-10", "--project", "climate", "--config", config)
    assert wattqueue(*of_project).stdout.startswith("2026-10, project climate: 2 jobs, 2 kWh (100 % modelled")
    found = json.loads(wattqueue("jobs", "--month", "2026-09", "--config", config, "--json").stdout)
    assert [one["job"] for one in found["records"]] == ["9"], "it ended a minute before the month in the site's zone"
    page = tmp_path / "page.html"
    wattqueue("jobs", "--account", "phys", "--month", "2026-10", "-o", str(page), "--config", config)
    text = page.read_text()
    assert "account phys" in text
    assert "8_2" in text
    assert "no job ended" in wattqueue("jobs", "--month", "2020-01", "--config", config).stdout
    assert "no job ended" in wattqueue("jobs", "--account", "other", "--month", "2026-10", "--config", config).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("jobs", "--month", "2026-13"), "'2026-13' is no month"),
        (("jobs", "--user", "no-such-user-here"), "no user 'no-such-user-here'"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = wattqueue(*words, "--config", str(site(tmp_path)))
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_site_without_records_says_so(tmp_path: Path) -> None:
    done = wattqueue("job", "7", "--config", str(site(tmp_path, "")))
    assert done.returncode == 2
    assert "no energies of jobs are recorded" in done.stderr


@pytest.mark.parametrize(
    ("energy", "says"),
    [
        ('[energy]\ntime_zone = "Mars/Olympus"\n', "must be a time zone"),
        ("[energy]\nkeep_months = 0\n", "keep_months"),
        ('[energy]\nprice = "x"\n', "price"),
    ],
)
def test_a_section_that_cannot_be_used_is_named(tmp_path: Path, energy: str, says: str) -> None:
    done = wattqueue("jobs", "--config", str(site(tmp_path, energy)))
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("module", ["wattqueue.live.config", "wattqueue.report.job_energy", "wattqueue.page.recorded"])
def test_what_reads_files_alone_needs_no_database(module: str) -> None:
    """A login node has no reason to install the extra ``live``."""
    blocked = ("sqlalchemy", "alembic", "httpx", "prometheus_client", "psycopg", "pymysql")
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r})); import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
