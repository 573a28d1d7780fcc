"""Load targets from a file: what is wrong in it leaves the last ones in force, and the cap holds whatever it says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.live.drive import lab_machine, make_controller
from tests.live.fakeslurm import FakeSlurm
from wattqueue.errors import InputError
from wattqueue.live.config import load_config
from wattqueue.live.features.configured import targets_of
from wattqueue.live.features.target_file import TargetFile
from wattqueue.model.signals import Cap

HEAD = "start_s,end_s,limit,unit,correlation_id\n"
IDLE_W, CAP_W = 800.0, 2000.0


def source(folder: Path, text: str | None = None) -> TargetFile:
    file = folder / "targets.csv"
    if text is not None:
        write(file, text)
    (folder / "run").mkdir(exist_ok=True)
    return TargetFile(file, lab_machine(), lambda: Cap.constant(CAP_W), folder / "run")


def write(file: Path, text: str) -> None:
    part = file.with_suffix(".part")
    part.write_text(HEAD + text)
    part.rename(file)


def test_a_file_is_read_again_when_it_changes_and_percent_become_watts(tmp_path: Path) -> None:
    file = source(tmp_path)
    assert len(file.targets()) == 0
    assert file.problems() == ()
    write(file.path, "100,200,1000,W,a\n200,300,60,% of cap,b\n300,400,50,% of maximum,c\n")
    found = file.targets()
    assert found.limit.tolist() == [1000.0, 1200.0, 1200.0]
    assert file.targets() is found
    file.path.unlink()
    assert len(file.targets()) == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("100,200,700,W,a\n", "draws idle"),
        ("100,200,1000,W,a\n150,300,1000,W,b\n", "before the one"),
        ("200,100,1000,W,a\n", "ends at"),
        ("100,200,1000,kW,a\n", "unit"),
        ("100,200,-5,W,a\n", "limit"),
        ("100,200,10", "fields"),
        ("", "no load target"),
    ],
)
def test_what_is_wrong_leaves_the_last_targets_in_force_after_a_restart_too(
    tmp_path: Path, wrong: str, says: str
) -> None:
    file = source(tmp_path, "100,200,1000,W,a\n")
    before = file.targets()
    write(file.path, wrong)
    assert file.targets() is before
    assert says in file.problems()[0]
    again = source(tmp_path)
    assert again.targets().limit.tolist() == [1000.0]
    assert again.problems()
    write(file.path, "100,200,1100,W,a\n")
    assert again.targets().limit.tolist() == [1100.0]
    assert again.problems() == ()


def test_a_target_that_came_while_nobody_looked_is_in_force_and_one_that_is_over_is_not(tmp_path: Path) -> None:
    slurm = FakeSlurm({"p1": [f"n{i}" for i in range(1, 5)], "p2": [f"m{i}" for i in range(1, 5)]}, 1600)
    now = slurm.now_s
    file = source(tmp_path, f"{now - 500},{now - 400},900,W,over\n{now - 100},{now + 20},1000,W,begun\n")
    controller = make_controller(slurm, tmp_path, lambda: slurm.now_s, cap=Cap.constant(CAP_W), targets=file)
    controller.round()
    assert slurm.open_w == 1000 - IDLE_W
    write(file.path, f"{now - 100},{now + 20},100,W,begun\n")  # below idle
    report = controller.round()
    assert slurm.open_w == 1000 - IDLE_W
    assert report is not None
    assert any("draws idle" in line for line in report.problems)
    slurm.step(25.0)
    controller.round()
    assert slurm.open_w == CAP_W - IDLE_W


def test_the_configuration_names_one_source(tmp_path: Path) -> None:
    live = tmp_path / "live.toml"
    live.write_text('machine = "m.toml"\ntargets = "targets.csv"\n')
    config = load_config(live)
    assert config.targets == tmp_path / "targets.csv"
    assert isinstance(targets_of(config, lab_machine()), TargetFile)
    live.write_text(
        'machine = "m.toml"\ntargets = "t.csv"\n[openadr]\nvtn = "https://vtn.example/openadr3/3.1.0"\n'
        'ven_name = "site"\nclient_id = "site"\nclient_secret_file = "s"\n'
    )
    with pytest.raises(InputError, match="both state load targets"):
        load_config(live)


def test_a_file_that_cannot_be_kept_is_used_all_the_same(tmp_path: Path) -> None:
    file = source(tmp_path, "100,200,1000,W,a\n")
    (tmp_path / "run").rmdir()
    assert file.targets().limit.tolist() == [1000.0]
    assert not math.isnan(file.targets().start_s[0])
