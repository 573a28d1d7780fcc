"""The controller keeps the data file of job_submit.lua as the cluster is, beside its rounds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.live.recordings import Recorded
from tests.live.slurmlab import wait_for
from tests.live.test_guard import make_config, make_slurm
from wattqueue.live.assemble import assemble
from wattqueue.live.config import LiveConfig
from wattqueue.live.managed import managed_machine
from wattqueue.live.slurm.cluster import SlurmCluster
from wattqueue.live.slurm.commands import CommandResult, Slurm, SlurmError
from wattqueue.live.slurm.connect import connect
from wattqueue.live.slurm.guard import Guard, layout_of
from wattqueue.live.slurm.install import install
from wattqueue.live.slurm.submit_data import body_of
from wattqueue.live.slurm.submit_file import SubmitFile, submit_extension, submit_file_of
from wattqueue.live.slurm.submit_text import SUBMIT_DATA, read_data, staff_in
from wattqueue.live.world import Layout


class Accounting(Recorded):
    """A recorded Slurm whose sacctmgr prints ``users``, or fails."""

    users: str | None = ""

    def run(self, argv: Sequence[str]) -> CommandResult:
        if argv[0] != "sacctmgr":
            return super().run(argv)
        if self.users is None:
            raise SlurmError("sacctmgr: no answer in 10 s")
        return CommandResult(0 if self.users else 1, self.users, "", 0.0)


OPERATORS = "daemon|Operator\nbin|Administrator\nnews|None\n"


def make(folder: Path, more: str = "") -> tuple[Accounting, SubmitFile, LiveConfig]:
    """The file of a controller that has seen its Slurm once and holds the lease; ``more`` of its configuration."""
    config, slurm = make_config(folder, f'mode = "control"\n{more}'), Accounting(make_slurm().texts)
    config.run_dir.mkdir()
    file = file_of(config, slurm, connect(config, slurm, lambda: 1e6))
    see(file)
    return slurm, file, config


def file_of(config: LiveConfig, slurm: Slurm, cluster: SlurmCluster) -> SubmitFile:
    machine = managed_machine(config)

    def matched(nodes: Sequence[object]) -> Layout:
        return layout_of(config, slurm, machine)

    file = submit_file_of(config, cluster, matched, lambda: True, lambda: 1e6)
    assert file is not None
    return file


def see(file: SubmitFile) -> None:
    """The part of a round that looks for other nodes."""
    file.cluster.observe()
    file.look()


def expected(config: LiveConfig, slurm: Recorded) -> str:
    return body_of(Guard.of(config, slurm).settings.data)


def body(file: SubmitFile) -> str:
    found = read_data(file.path)
    assert not isinstance(found, str), found
    return found.body


def test_states_of_nodes_change_nothing_and_their_equipment_does(tmp_path: Path) -> None:
    slurm, file, _ = make(tmp_path)
    observer, before = file.cluster.observer, file.cluster.observer.equipment
    lines = slurm.texts["nodes"]
    for text in (
        lines.replace("idle", "allocated"),
        lines.replace(
            "n[1-2]|idle|p1|16|64000|2|8|(null)", "n1|idle|p1|16|64000|2|8|(null)\nn2|down|p1|16|64000|2|8|(null)"
        ),
        "\n".join(reversed(lines.splitlines())) + "\n",
    ):
        assert text != lines
        slurm.texts["nodes"] = text
        file.cluster.observe()
        assert observer.equipment == before
    seen = {before}
    for text in (
        lines.replace("n[1-2]", "n[1-3]"),
        lines.replace("64000", "32000", 1),
        lines.replace("(null)", "gpu:1", 1),
        lines.replace("n[1-2]", "x").replace("m[1-2]", "n[1-2]").replace("x", "m[1-2]"),
        lines + "n1|idle|debug|16|64000|2|8|(null)\n",
    ):
        slurm.texts["nodes"] = text
        file.cluster.observe()
        seen.add(observer.equipment)
    assert len(seen) == 6


def test_the_file_says_what_an_installation_would(tmp_path: Path) -> None:
    slurm, file, config = make(tmp_path)
    slurm.users = OPERATORS
    file.refresh()
    assert body(file) == expected(config, slurm)
    assert len(staff_in(file.path)) == 2
    slurm.texts["nodes"] += "n1,m1|idle|debug|16|64000|2|8|(null)\n"
    see(file)
    file.refresh()
    assert "partition debug 200 200 2 no\n" in body(file)
    assert body(file) == expected(config, slurm)


def test_it_is_written_again_only_where_it_says_something_else(tmp_path: Path) -> None:
    slurm, file, _ = make(tmp_path)
    file.refresh()
    first = file.path.stat()
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("idle", "down")
    see(file)
    file.refresh()
    assert file.path.stat() == first
    whole = file.path.read_text()
    for damage in (whole[:-9], "", whole.replace("wattqueue-submit 1", "wattqueue-submit 9")):
        file.path.write_text(damage)
        file.refresh()
        assert file.path.read_text() == whole
    file.path.unlink()
    file.refresh()
    assert file.path.read_text() == whole
    assert [path.name for path in file.path.parent.iterdir()] == [SUBMIT_DATA], "no temporary file is left"


def test_a_failing_sacctmgr_keeps_the_last_staff_also_over_a_restart(tmp_path: Path) -> None:
    slurm, file, config = make(tmp_path)
    slurm.users = OPERATORS
    file.refresh()
    staff = staff_in(file.path)
    assert len(staff) == 2
    slurm.users = None
    file.refresh()
    assert staff_in(file.path) == staff
    again = file_of(config, slurm, file.cluster)
    see(again)
    again.refresh()
    assert staff_in(file.path) == staff
    assert Guard.of(config, slurm).settings.data.staff == staff, "and at an installation"
    slurm.users = "daemon|Operator\n"
    again.refresh()
    assert len(staff_in(file.path)) == 1


def test_nobody_but_the_holder_of_the_lease_writes(tmp_path: Path) -> None:
    _, file, _ = make(tmp_path)
    file.may_write = lambda: False
    file.refresh()
    assert not file.path.exists()


@pytest.mark.parametrize("fault", ["slurm", "disk"])
def test_what_fails_leaves_the_file_and_is_reported(tmp_path: Path, fault: str) -> None:
    slurm, file, _ = make(tmp_path)
    lines = submit_extension(file).lines
    file.refresh()
    before = file.path.read_text()
    slurm.texts["nodes"] = slurm.texts["nodes"].replace("n[1-2]", "n[1-3]")
    see(file)
    if fault == "slurm":
        slurm.fault = lambda argv: "fail" if argv[0] == "scontrol" else None
    else:
        file.path, there = file.path / "no", file.path
    file.refresh()
    assert ["job_submit.lua may count other nodes" in line for line in lines()] == [True]
    slurm.fault = lambda _: None
    if fault == "disk":
        file.path = there
    assert file.path.read_text() == before
    file.refresh()
    assert list(lines()) == []
    assert file.path.read_text() != before


def test_a_round_only_wakes_the_thread(tmp_path: Path) -> None:
    """sacctmgr hangs: rounds look on, and the end does not wait for it."""
    slurm, file, _ = make(tmp_path)
    hangs, asked = threading.Event(), threading.Event()
    run = slurm.run

    def wait(argv: Sequence[str]) -> CommandResult:
        if argv[0] == "sacctmgr":
            asked.set()
            hangs.wait(60.0)
        return run(argv)

    slurm.run = wait  # type: ignore[method-assign]
    extension = submit_extension(file)
    extension.start(lambda _: None)
    assert asked.wait(30.0)
    see(file)
    assert not file.path.exists()
    hangs.set()
    wait_for("the file", file.path.exists, step_s=0.01)
    extension.close()


@pytest.mark.parametrize(("mode", "keeps"), [("control", True), ("advise", False), ("observe", False)])
def test_a_controller_in_control_mode_keeps_it(tmp_path: Path, mode: str, keeps: bool) -> None:
    slurm = make_slurm()
    config = make_config(tmp_path, f'mode = "{mode}"\n')
    guard = Guard.of(config, slurm)
    install(tmp_path, guard.settings, None)
    slurm.texts["config"] = slurm.texts["config"].replace("/etc/slurm/slurm.conf", str(tmp_path / "slurm.conf"))
    controller = assemble(config, SlurmCluster(slurm, clock=lambda: 1e6), clock=lambda: 1e6)
    kept = [one.keeps for one in controller.extensions if isinstance(one.keeps, SubmitFile)]
    assert len(kept) == keeps
    path = config.run_dir / SUBMIT_DATA
    path.unlink()
    for one in kept:
        one.refresh()
        assert not path.exists(), "before the first round there is no lease"
    assert controller.round() is not None
    for one in kept:
        one.refresh()
    assert path.exists() == keeps
    controller.run_dir.release()
