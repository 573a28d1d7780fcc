"""The systemd units: written only where the unit sees what it needs, and its account can run the program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattqueue.errors import InputError
from wattqueue.live import units
from wattqueue.live.config import LiveConfig
from wattqueue.live.units import UNITS, render, require_usable, write_units

FILE = Path("/etc/wattqueue/live.toml")
HIDDEN = ["/tmp/wq", "/var/tmp/wq", "/home/me/wq", "/root/wq"]  # noqa: S108 - named, not used


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that units see, with a program that states its version."""
    folder = Path(tempfile.mkdtemp(prefix="wattqueue-units-", dir="/var/lib" if os.geteuid() == 0 else None))
    if folder.is_relative_to(tempfile.gettempdir()):
        monkeypatch.setattr(units, "_HIDDEN", {Path("/home"): "ProtectHome=yes"})
    folder.chmod(0o755)
    program = folder / "wattqueue"
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(units, "executable", lambda: program)
    monkeypatch.setattr(units, "__file__", str(folder / "package/live/units.py"))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    yield folder
    shutil.rmtree(folder)


def config(**more: object) -> LiveConfig:
    return LiveConfig.model_validate(
        {"machine": "quartz", "user": "nobody", "run_dir": "/var/lib/wattqueue/run", **more}
    )


def test_units_are_written_with_the_program_and_the_account(place: Path) -> None:
    out = place / "system"
    out.mkdir()
    assert len(write_units(out, config(), FILE)) == len(UNITS)
    text = (out / "wattqueue-live.service").read_text()
    assert f"ExecStart={place}/wattqueue live --config {FILE}" in text
    assert "User=nobody" in text


@pytest.mark.parametrize(("given", "group"), [({}, "nobody"), ({"guard": None}, "nobody"), ("guard", "bin")])
def test_a_page_has_an_account_of_its_own(place: Path, given: dict[str, object] | str, group: str) -> None:
    """It reads what the controller's group may read, and writes nothing."""
    out = place / "system"
    out.mkdir()
    more = {"guard": {**GUARD["guard"], "planner": "bin"}} if isinstance(given, str) else given
    write_units(out, config(page={"port": 8436}, **more), FILE)
    text = (out / units.PAGE_UNIT).read_text()
    assert f"ExecStart={place}/wattqueue live serve --config {FILE}" in text
    assert "User=wattqueue-page\nGroup=wattqueue-page\n" in text
    assert f"SupplementaryGroups={group}\n" in text
    assert "ReadWritePaths" not in text


def test_budgets_that_name_a_qos_have_a_unit(place: Path) -> None:
    """It runs as root, and may do no more than read."""
    out, file = place / "system", place / "budgets.toml"
    out.mkdir()
    settings = config(energy={}, budgets={"file": str(file)})
    for qos, written in (("", False), ('qos = "phys"', True)):
        file.write_text(f'[[budgets]]\nname = "phys"\namount = 1.0\n{qos}\n')
        write_units(out, settings, FILE)
        assert (out / units.BUDGETS_UNIT).exists() is written
    text = (out / units.BUDGETS_UNIT).read_text()
    assert f"ExecStart={place}/wattqueue budget keep --config {FILE} --journal /var/lib/wattqueue-budgets/" in text
    assert "User=" not in text
    assert "CapabilityBoundingSet=CAP_DAC_READ_SEARCH\n" in text


GUARD = {"guard": {"socket": "/run/wq/socket", "run_dir": "/var/lib/wattqueue-guard/run", "planner": "nobody"}}
ELSEWHERE = {
    "frequency_dir": "/shared/frequencies", "slurm": {"pool_file": "/etc/slurm/pool.conf"},
    "record": "/data/views.jsonl", "state": "/data/state/live.db",
}  # fmt: skip
PATHS = {
    "the default": ({}, dict.fromkeys(UNITS, "")),
    "a run folder elsewhere": ({"run_dir": "/srv/run"}, dict.fromkeys(UNITS, " -/srv/run")),
    "files elsewhere": (
        ELSEWHERE, dict.fromkeys(UNITS, " -/data -/data/state -/etc/slurm -/shared/frequencies"),
    ),
    "a guard": (
        {**GUARD, **ELSEWHERE},
        {
            "wattqueue-live.service": " -/data -/data/state",
            "wattqueue-live-release.service":
                " -/data -/data/state -/etc/slurm -/shared/frequencies -/var/lib/wattqueue-guard/run",
            units.GUARD_UNIT: " -/etc/slurm -/run/wq -/shared/frequencies",
        },
    ),
    "limits of nodes": (
        {"guard": {**GUARD["guard"], "limits_socket": "/run/wl/socket"}},
        {units.LIMITS_UNIT: " -/run/wl"},
    ),
    "a database elsewhere": ({"state": "postgresql://host/live"}, dict.fromkeys(UNITS, "")),
}  # fmt: skip
"""What is written where, and what each unit has to let be written beside its own folder."""
OWN = {units.GUARD_UNIT: "-guard", units.LIMITS_UNIT: "-limits"}
"""End of the state folder of a unit with rights."""


@pytest.mark.parametrize(("given", "more"), PATHS.values(), ids=PATHS)
def test_a_unit_may_write_what_its_service_writes(place: Path, given: dict[str, object], more: dict[str, str]) -> None:
    """A release that could not take the guard's lease would leave jobs held for ever."""
    for name, paths in more.items():
        if name.endswith(".service"):
            text = render(name, config(**{"state": "/var/lib/wattqueue/live.db", **given}), FILE, place / "wattqueue")
            own = f"/var/lib/wattqueue{OWN.get(name, '')}"
            assert [line for line in text.splitlines() if line.startswith("ReadWritePaths=")] == [
                f"ReadWritePaths={own}{paths}"
            ]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_every_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    """Each line is one that systemd knows; what is left open is what the services need (network, writing files)."""
    section = {**GUARD["guard"], "planner": "bin", "limits_socket": "/run/wl/socket", "limits_user": "games"}
    own = config(user="daemon", state="/var/lib/wattqueue/live.db", guard=section)
    names = (*UNITS, units.GUARD_UNIT, units.LIMITS_UNIT, units.PAGE_UNIT, units.BUDGETS_UNIT)
    for name in names:
        text = render(name, own, FILE, Path("/usr/bin/env"))
        # a program that is there, under whatever name this installation has it
        (tmp_path / name).write_text(re.sub(r"^ExecStart=.*$", "ExecStart=/bin/sh", text, flags=re.MULTILINE))
    files = [str(tmp_path / name) for name in names]
    said = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    for file in files:
        if file.endswith(".service"):
            ask = ["systemd-analyze", "security", "--offline=true", "--no-pager", file]
            rated = subprocess.run(ask, capture_output=True, text=True, check=False, env={**os.environ, "LANG": "C"})
            assert re.search(r"Overall exposure level for \S+: [0-9.]+ OK", rated.stdout), rated.stdout[-200:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what another account can run")
@pytest.mark.parametrize("what", ["folder", "program", "interpreter"])
def test_a_program_that_the_account_cannot_run_is_refused(place: Path, what: str) -> None:
    program = place / "wattqueue"
    if what == "folder":
        place.chmod(0o700)
    elif what == "program":
        program.chmod(0o700)
    else:
        secret = place / "secret"
        secret.mkdir(mode=0o700)
        shutil.copy("/bin/sh", secret / "sh")
        program.write_text(f"#!{secret}/sh\necho 1\n")
    assert subprocess.run([program, "--version"], check=False, capture_output=True).returncode == 0, "root can"
    out = place / "system"
    out.mkdir()
    with pytest.raises(InputError, match="nobody cannot run it"):
        write_units(out, config(), FILE)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_path_that_the_unit_does_not_see_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(units, "executable", lambda: place / "wattqueue")
    monkeypatch.setattr(units, "__file__", "/opt/wattqueue/package/live/units.py")
    monkeypatch.setattr(sys, "executable", "/opt/wattqueue/bin/python")
    if os.geteuid() != 0:
        pytest.skip("the folder of the test itself lies in /tmp")
    require_usable(config(), FILE)
    cases = [
        (config(), Path(hidden) / "live.toml"),
        (config(cap=f"{hidden}/cap.csv"), FILE),
        (config(run_dir=f"{hidden}/run"), FILE),
        (config(telemetry={"prometheus_url": "https://m", "prometheus_token_file": f"{hidden}/token"}), FILE),
        (config(telemetry={"powercap": {"n1": f"{hidden}/powercap"}}), FILE),
    ]
    for settings, file in cases:
        with pytest.raises(InputError, match="cannot see"):
            require_usable(settings, file)
    link = place / "link"
    link.symlink_to(hidden)
    with pytest.raises(InputError, match="cannot see"):
        require_usable(config(state=str(link / "state.db")), FILE)
    monkeypatch.setattr(sys, "executable", str(place / "python"))
    (place / "python").symlink_to(f"{hidden}/python3")
    with pytest.raises(InputError, match="cannot see"):
        require_usable(config(), FILE)


def test_what_an_uninstallation_removes_has_the_guards_unit(tmp_path: Path) -> None:
    """A guard that is left would be started again, with a configuration whose controller is gone."""
    with_rights = (units.GUARD_UNIT, units.LIMITS_UNIT, units.PAGE_UNIT, units.BUDGETS_UNIT)
    for name in (*UNITS, *with_rights, "other.service"):
        (tmp_path / name).touch()
    assert {path.name for path in units.units_in(tmp_path)} == {*UNITS, *with_rights}
    assert units.units_in(tmp_path / "missing") == []
