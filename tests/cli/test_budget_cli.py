"""``wattqueue budget``: what a user sees, warnings, what is asked wrongly, and the file that ``set`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.site import MACHINE
from tests.program import wattqueue
from wattqueue.formats.budgets import read_budgets, set_budget
from wattqueue.live.files.energy_records import BUDGETS, EnergyFolder
from wattqueue.model.budgets import MJ_PER_KWH

ONE = {
    "name": "phys", "unit": "kWh", "mode": "maximum", "account": "phys", "users": [], "amount": 100 * MJ_PER_KWH,
    "used": 40 * MJ_PER_KWH, "held": 5 * MJ_PER_KWH, "renewal_s": 1_790_000_000.0, "barred": 2,
    "forecast": [60 * MJ_PER_KWH, 70 * MJ_PER_KWH, 80 * MJ_PER_KWH],
}  # fmt: skip


def site(folder: Path, *budgets: dict[str, Any], section: str = '[energy]\n[budgets]\nfile = "budgets.toml"\n') -> str:
    (folder / "m.toml").write_text(MACHINE)
    config = folder / "live.toml"
    config.write_text(f'machine = "m.toml"\ncap = "1800W"\nrun_dir = "run"\n{section}')
    (folder / "run").mkdir()
    if budgets:
        EnergyFolder(folder / "run/energy").put_budgets(None, json.dumps({"time_s": 1, "budgets": budgets}))
    return str(config)


def test_a_budget_in_two_lines(tmp_path: Path) -> None:
    done = wattqueue("budget", "--config", site(tmp_path, ONE))
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first.startswith(
        "budget phys (account phys): 40.00 kWh used, 5.00 kWh set aside, of 100 kWh; it renews 2026-"
    )
    assert first.endswith("2 jobs wait for it")
    assert second == "  forecast of what will be used then: 70.00 kWh (8 of 10 times 60.00 kWh to 80.00 kWh)"


def test_what_was_kept_was_set_aside_for_nothing_and_used_in_spare_hours(tmp_path: Path) -> None:
    more = {"account": "", "project": "climate", "kept": [11, 12], "idle": 0.123, "beyond": 3 * MJ_PER_KWH}
    out = wattqueue("budget", "--config", site(tmp_path, ONE | more)).stdout
    assert "budget phys (project climate)" in out
    assert "3.00 kWh were used in spare hours, beyond it" in out
    assert "11 of 12 periods before were kept" in out
    assert "on average 12.3 % of it were set aside for ended jobs and never used" in out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"held": 55 * MJ_PER_KWH}, "warning: 95 % of it"),
        ({"forecast": [80 * MJ_PER_KWH, 120 * MJ_PER_KWH, 160 * MJ_PER_KWH]}, "used up before it renews"),
    ],
)
def test_a_warning_before_it_is_used_up(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    assert says in wattqueue("budget", "--config", site(tmp_path, ONE | change)).stdout


def test_a_script_at_login_shows_what_is_nearly_used_up_and_nothing_else(tmp_path: Path) -> None:
    full = ONE | {"name": "full", "used": 95 * MJ_PER_KWH}
    config = site(tmp_path, ONE, full)
    done = wattqueue("budget", "--warnings", "--config", config)
    assert done.returncode == 0
    assert done.stdout.startswith("budget full ")
    assert "budget phys" not in done.stdout
    other = tmp_path / "other"
    other.mkdir()
    quiet = wattqueue("budget", "--warnings", "--config", site(other, ONE))
    assert (quiet.returncode, quiet.stdout) == (0, "")


def test_who_has_none_and_a_site_without(tmp_path: Path) -> None:
    assert wattqueue("budget", "--config", site(tmp_path)).returncode == 1
    other = tmp_path / "other"
    other.mkdir()
    done = wattqueue("budget", "--config", site(other, section=""))
    assert done.returncode == 2
    assert "the site has no budgets" in done.stderr
    third = tmp_path / "third"
    third.mkdir()
    done = wattqueue("budget", "--config", site(third, section='[budgets]\nfile = "b.toml"\n'))
    assert "needs [energy]" in done.stderr


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    config = site(tmp_path, ONE)
    (tmp_path / "run/energy" / BUDGETS).write_text("{")
    done = wattqueue("budget", "--config", config)
    assert done.returncode == 2
    assert BUDGETS in done.stderr


def test_set_writes_a_budget_and_replaces_one_of_its_name(tmp_path: Path) -> None:
    config = site(tmp_path)
    for amount in ("10", "20"):
        done = wattqueue("budget", "set", "phys", "--amount", amount, "--account", "phys", "--config", config)
        assert done.returncode == 0, done.stderr
    wattqueue("budget", "set", "ann", "--amount", "3", "--user", "ann", "--period", "week", "--config", config)
    found = read_budgets(tmp_path / "budgets.toml")
    assert [(one.name, one.account, sorted(one.users), one.amount) for one in found] == [
        ("phys", "phys", [], 20 * MJ_PER_KWH), ("ann", "", ["ann"], 3 * MJ_PER_KWH)
    ]  # fmt: skip


def test_set_a_project_whose_jobs_run_in_spare_hours(tmp_path: Path) -> None:
    config = site(tmp_path)
    asked = ("budget", "set", "c", "--amount", "3", "--project", "climate", "--over", "spare-hours", "--config", config)
    assert "no spare hours are stated" in wattqueue(*asked).stderr
    (tmp_path / "budgets.toml").write_text('spare_hours = ["Sat-Sun"]\n')
    assert wattqueue(*asked).returncode == 0
    (found,) = read_budgets(tmp_path / "budgets.toml")
    assert found.project == "climate"
    assert found.spare is not None


def test_a_budget_that_cannot_be_used_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "budgets.toml"
    set_budget(path, {"name": "phys", "amount": 5.0})
    before = path.read_text()
    done = wattqueue("budget", "set", "x", "--amount", "5", "--unit", "EUR", "--config", site(tmp_path))
    assert done.returncode == 2
    assert "budgets.toml: budget x: unit EUR and prices do not fit" in done.stderr
    assert path.read_text() == before
    assert sorted(one.name for one in tmp_path.iterdir() if "trial" in one.name) == []
