"""``wattqueue doctor --live`` with a guard: whether it answers, whom it serves, and what it checks against."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.guard.test_checks import guard_of
from tests.live.guard.test_process import Served
from tests.live.guard.world import NaiveSlurm
from tests.live.test_guard import installed, make_config, make_slurm
from wattqueue.live.doctor import Check
from wattqueue.live.files.lease import write_beat
from wattqueue.live.guard import sockets
from wattqueue.live.guard.settings import read_settings
from wattqueue.live.guard.wire import Packet
from wattqueue.live.slurm.examine_guard import examine_guard
from wattqueue.live.slurm.examine_live import examine_live
from wattqueue.live.slurm.guard import Guard, guard_lines


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, Served]]:
    """A site as ``live install`` leaves it, whose guard serves."""
    run_dir = tmp_path / "guard"
    run_dir.mkdir()
    section = f'mode = "control"\n[guard]\nsocket = "{run_dir}/socket"\nrun_dir = "{run_dir}"\nplanner = "nobody"\n'
    config, slurm, file = make_config(tmp_path, section), make_slurm(), tmp_path / "live.toml"
    guard = Guard.of(config, slurm)
    installed(tmp_path, slurm, guard)
    guard_lines(guard, config, file, write=True)
    write_beat(run_dir, "control", time.time())
    own = read_settings(tmp_path / "guard.toml")
    served = Served(
        guard_of(
            NaiveSlurm(now_s=time.time()), run_dir, cap=own.cap, node_w=own.node_w, without_jobs_w=own.without_jobs_w
        )
    )
    yield file, served
    served.end()


def examined(file: Path) -> dict[str, list[Check]]:
    """Checks by name."""
    slurm = make_slurm()
    config = make_config(file.parent, file.read_text().partition("\n")[2].partition("\n")[2])
    installed(file.parent, slurm, Guard.of(config, slurm))
    found: dict[str, list[Check]] = {}
    for check in examine_live(config, slurm, time.time, file):
        found.setdefault(check.name, []).append(check)
    return found


def test_a_guard_that_answers_and_fits(site: tuple[Path, Served]) -> None:
    file, served = site
    served.connection().ask(Packet({"do": "alive"}))
    found = examined(file)
    assert "rest" not in found
    (guard,), (planner,), (settings,) = found["guard"], found["planner"], found["guard settings"]
    assert (guard.state, planner.state, settings.state) == ("yes", "yes", "yes")
    assert "cap 1,000 W" in guard.found
    assert "sign of life" in planner.found
    (beat,), (data,) = found["heartbeat"], found["submit data"]
    assert beat.state == "yes"
    assert " s old" in beat.found
    assert data.state == "yes"
    assert " s old" in data.found


def test_the_doctor_takes_no_place_and_names_a_planner_that_is_missing(site: tuple[Path, Served]) -> None:
    file, served = site
    (planner,) = examined(file)["planner"]
    assert (planner.state, planner.found) == ("part", "none is connected")
    assert "wattqueue-live.service" in planner.cost
    assert served.connection().ask(Packet({"do": "status"})).header["silent_s"] is None


def test_no_guard_and_an_account_that_it_does_not_serve(
    site: tuple[Path, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, served = site
    monkeypatch.setattr(sockets, "peer_uid", lambda _: 4_242)
    (check,) = examined(file)["guard"]
    assert check.state == "no"
    assert "it serves root" in check.cost
    served.end()
    served.guard.settings.socket.unlink()
    (check,) = examined(file)["guard"]
    assert check.state == "no"
    assert "No such file" in check.found
    assert "systemctl start wattqueue-guard.service" in check.cost
    assert "planner" not in examined(file)


CHANGES = {
    "a higher cap": ('cap = "1000W"', 'cap = "1200W"', "no", "cap is 1,200 W, this configuration gives 1,000 W"),
    "a lower cap": ('cap = "1000W"', 'cap = "900W"', "part", "cap is 900 W"),
    "no cap": ('cap = "1000W"', 'cap = "none"', "no", "cap is inf W"),
    "a file": ('cap = "1000W"', 'cap = "/etc/cap.csv"', "no", "cap is /etc/cap.csv"),
    "fewer watts of a node": ("p1 = 200", "p1 = 199", "no", "node_w.p1 is 199 W, this configuration gives 200 W"),
    "more watts of a node": ("p1 = 200", "p1 = 201", "part", "node_w.p1 is 201 W"),
    "a partition that is not named": ("p1 = 200\n", "", "no", "node_w.p1 is 150 W"),
    "fewer watts without jobs": ("without_jobs_w = 400", "without_jobs_w = 300", "no", "without_jobs_w is 300 W"),
    "a free partition": ("free = []", 'free = ["p2"]', "no", "partition p2 is free of watts"),
    "a wrong key": ("free = []", "fre = []", "no", "unknown key"),
    "no TOML": ("free = []", "free = [", "no", "TOML"),
}


@pytest.mark.parametrize(("old", "new", "state", "text"), CHANGES.values(), ids=CHANGES)
def test_what_the_guards_file_says_otherwise(
    site: tuple[Path, Served], old: str, new: str, state: str, text: str
) -> None:
    file, _ = site
    path = file.parent / "guard.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    first = examined(file)["guard settings"][0]
    assert first.state == state
    assert text in first.found
    assert first.cost


def test_a_file_that_was_changed_since_the_guard_started(site: tuple[Path, Served]) -> None:
    """The guard reads its settings once; what it says of itself is compared with the file."""
    file, served = site
    served.guard.settings.node_w["p1"] = 199  # type: ignore[index]
    (check,) = examined(file)["guard settings"]
    assert (check.state, "restart" in check.cost) == ("part", True)
    assert "since the guard started" in check.found


def test_a_row_that_the_guard_does_not_accept(site: tuple[Path, Served]) -> None:
    file, _ = site
    (check,) = examined(file)["guard accepts"]
    assert (check.state, "policy easy" in check.found) == ("yes", True)
    for policy, state, text in (
        ("easy+pc-mean", "no", 'accepted = ["estimates"]'),
        ("no-such-row", "part", "the row cannot be read"),
    ):
        guard = file.read_text().partition("[guard]")[2]
        file.write_text(f'machine = "m.toml"\ncap = "1000W"\nmode = "control"\npolicy = "{policy}"\n[guard]{guard}')
        (check,) = examined(file)["guard accepts"]
        assert (check.state, text in check.cost) == (state, True)


def test_a_cap_that_cannot_be_read_and_a_file_that_is_missing(site: tuple[Path, Served]) -> None:
    file, served = site
    served.guard.cap.text = str(file.parent / "none.csv")
    (check,) = examined(file)["guard cap"]
    assert (check.state, "No such file" in check.found) == ("part", True)
    served.guard.cap.text = "none"
    answer, checks = examine_guard(served.guard.settings.socket)
    assert answer["cap_w"] is None
    assert "cap none" in checks[0].found
    assert math.isinf(served.guard.cap.in_force_w(0.0))
    (file.parent / "guard.toml").unlink()
    (check,) = examined(file)["guard settings"]
    assert (check.state, "live install --write" in check.cost) == ("no", True)
