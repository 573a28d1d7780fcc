"""Users' records of misnamed jobs are read from the application database and applied to jobs that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import InputError
from wattqueue.live.config import MisnamedSection, load_config
from wattqueue.live.features.misnamed import READ_S, MisnamedRecord
from wattqueue.model.app_check import Ladder
from wattqueue.model.signals import Cap
from wattqueue.policy.policy import load_policy
from wattqueue.store.applications import ApplicationDatabase, Misfit

EVE, BOB = 1001, 1002
LADDER = Ladder(warning=1, lower_priority=2, no_choice=3, window_s=1e6)


def misfit(job: str, user: int, time_s: float) -> Misfit:
    return Misfit(job, f"u{user}", time_s, "lu", "stream", 5.0)


def test_a_record_lowers_priorities_and_ends_with_its_window(tmp_path: Path) -> None:
    """Eve's job came first and waits behind Bob's; after a third claim her applications are ignored."""
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    database = ApplicationDatabase.open(tmp_path / "apps.db")
    for job in ("91", "92"):
        database.record_misfit(misfit(job, EVE, slurm.now_s - 10.0))
    database.record_misfit(misfit("93", BOB, slurm.now_s - 10.0))
    record = MisnamedRecord(database, LADDER)
    controller = make_controller(
        slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(2400.0), machine=lab_machine(),
        policy=record.into(load_policy("easy")), misnamed=record,
    )  # fmt: skip
    hers, his = (slurm.submit(4, 200.0, watts=800, limit_s=200.0, uid=uid) for uid in (EVE, BOB))
    for _ in range(3):
        controller.round()
        slurm.step()
    assert (hers.state, his.state) == ("PENDING", "RUNNING")
    assert controller.last is not None
    lines = [line for line in controller.last.problems if "misnamed" in line]
    assert lines == ["users u1002: misnamed jobs", "users u1001: misnamed jobs, theirs rank behind all others"]
    database.record_misfit(misfit("94", EVE, slurm.now_s))
    controller.round()
    assert not record.ignores("u1001"), "read once a minute"
    slurm.step(READ_S)
    third = slurm.submit(4, 200.0, watts=800, limit_s=200.0, uid=EVE)
    controller.round()
    jobs = controller.planner.jobs
    assert [jobs.request[slot].app for key, slot in jobs.slot.items() if key.name == third.name] == [""]
    slurm.now_s += LADDER.window_s
    controller.round()
    assert record.record == {}
    database.engine.dispose()


def test_the_configuration_states_the_ladder(tmp_path: Path) -> None:
    section = "[applications]\ndatabase = 'a.db'\ncoefficients = 'c.csv'\n[applications.misnamed]\nwindow_days = 2\n"
    path = tmp_path / "live.toml"
    path.write_text(f"machine = 'm.toml'\nmode = 'observe'\n{section}")
    found = load_config(path).applications
    assert found is not None
    assert found.misnamed == MisnamedSection(window_days=2)
    assert found.misnamed.ladder() == Ladder(1, 3, 0, 172_800.0)
    path.write_text(path.read_text().replace("window_days = 2", "window_days = 0"))
    with pytest.raises(InputError, match="window_days"):
        load_config(path)


def test_an_order_of_the_site_is_refused(tmp_path: Path) -> None:
    database = ApplicationDatabase.open(tmp_path / "apps.db")
    with pytest.raises(InputError, match="not fixed"):
        MisnamedRecord(database, LADDER).into(load_policy("slurm-priority"))
    database.engine.dispose()
