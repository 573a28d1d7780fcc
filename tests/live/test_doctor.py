"""The doctor only looks, and never fails, whatever a machine lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattqueue.cli import _app
from wattqueue.live.doctor import Check, Find, Run, ask
from wattqueue.live.doctor import examine as examine_areas
from wattqueue.live.slurm.examine import examine_slurm, sacct_line


def examine(root: Path, run: Run, find: Find) -> tuple[Check, ...]:
    """As ``wattqueue doctor`` examines a host."""
    return examine_areas({"Slurm": examine_slurm}, root, run, find)


def nothing(name: str) -> str | None:
    return None


def everything(name: str) -> str | None:
    return f"/usr/bin/{name}"


def silent(argv: Sequence[str]) -> tuple[int, str]:
    return -1, ""


def well(argv: Sequence[str]) -> tuple[int, str]:
    return 0, ""


def by_name(checks: Sequence[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_a_bare_machine_lacks_everything_and_each_lack_has_its_price(tmp_path: Path) -> None:
    checks = examine(tmp_path, silent, nothing)
    found = by_name(checks)
    for name in (
        "sacct",
        "squeue",
        "slurm.conf",
        "RAPL powercap",
        "Cray pm_counters",
        "IPMI",
        "CPU frequency",
        "GPU tool",
    ):
        assert found[name].state == "no"
        assert found[name].cost
    assert all(check.cost for check in checks if check.state == "no")


def test_a_full_machine(tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    for name, text in (("name", "package-0"), ("energy_uj", "12"), ("max_energy_range_uj", "262143328850")):
        (zone / name).write_text(text + "\n")
    for path, text in (
        ("sys/cray/pm_counters/power", "300 W"),
        ("sys/class/hwmon/hwmon0/power1_input", "1"),
        ("dev/ipmi0", ""),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
        ("etc/slurm/slurm.conf", "SelectType=select/linear\nAcctGatherEnergyType = acct_gather_energy/ipmi\n"),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = by_name(examine(tmp_path, well, everything))
    for name in (
        *("sacct", "accounting", "slurm.conf", "energy plugin", "whole nodes", "RAPL powercap", "Cray pm_counters"),
        *("power sensors", "IPMI", "CPU frequency", "GPU tool"),
    ):
        assert found[name].state == "yes", name
    assert found["energy plugin"].found == "ipmi"


def test_no_energy_plugin_and_shared_nodes_have_their_price(tmp_path: Path) -> None:
    def run(argv: Sequence[str]) -> tuple[int, str]:
        shown = "AcctGatherEnergyType    = (null)\nSelectType              = select/cons_tres\n"
        return (0, shown) if argv[0] == "scontrol" else (1, "sacct: error: slurmdbd is down\n")

    found = by_name(examine(tmp_path, run, everything))
    assert found["slurm.conf"].found == "scontrol show config"
    assert found["energy plugin"].state == "no"
    assert "AcctGatherEnergyType" in found["energy plugin"].cost
    assert "attributed" in found["whole nodes"].cost
    assert found["accounting"].found == "sacct: error: slurmdbd is down"


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        ("OverSubscribe=EXCLUSIVE", "Exclusive=NODE OverSubscribe=NO", "yes"),
        ("OverSubscribe=EXCLUSIVE", "OverSubscribe=NO", "part"),
    ],
)
def test_partitions_that_are_exclusive_share_no_nodes(tmp_path: Path, first: str, second: str, state: str) -> None:
    def run(argv: Sequence[str]) -> tuple[int, str]:
        if "partition" in argv:
            return 0, f"PartitionName=p1 {first} State=UP\nPartitionName=p2 {second} State=UP\n"
        return (0, "SelectType              = select/cons_tres\n") if argv[0] == "scontrol" else (1, "")

    found = by_name(examine(tmp_path, run, everything))["whole nodes"]
    assert found.state == state
    assert ("p2" in found.found) == (state == "part")
    assert "p1" not in found.found
    assert bool(found.cost) == (state == "part")


def test_files_that_cannot_be_looked_at_are_a_finding(tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0")
    (zone / "energy_uj").mkdir()  # reading it fails, whoever asks
    (tmp_path / "etc/slurm/slurm.conf").mkdir(parents=True)
    found = by_name(examine(tmp_path, silent, nothing))
    assert found["RAPL powercap"].state == "no"
    assert found["slurm.conf"].state == "no"


def test_the_line_asks_for_what_this_sacct_knows() -> None:
    def run(argv: Sequence[str]) -> tuple[int, str]:
        return 0, "Account  JobID  JobName\nSubmit Start End Elapsed ElapsedRaw NNodes NodeList\n"

    line = sacct_line("2026-10-01", run, everything)
    assert line.startswith("SLURM_TIME_FORMAT=%s sacct -a --parsable2 -S 2026-10-01 --format=JobID,JobName,Account,")
    assert "ConsumedEnergyRaw" not in line
    assert "ConsumedEnergyRaw" in sacct_line("2026-10-01", silent, nothing)


def test_commands_that_fail_hang_or_are_missing_are_answers() -> None:
    assert ask(["true"])[0] == 0
    assert ask(["false"])[0] == 1
    assert ask(["no-such-command-here"])[0] == -1
    assert ask(["sh", "-c", "printf '\\377'"])[1].strip() == "\ufffd"


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "--json"]])
def test_the_verb_ends_well_anywhere(words: list[str]) -> None:
    result = CliRunner().invoke(_app.build(words), words)
    assert result.exit_code == 0
    assert "sacct -a --parsable2" in result.output
    if words[-1] == "--json":
        assert {check["area"] for check in json.loads(result.output)["checks"]} >= {"Slurm", "Meters", "Packages"}


@pytest.mark.parametrize(
    ("version", "requeue", "state"),
    [
        ("22.05.8", "1", "yes"),
        ("24.11.5", "1", "yes"),
        ("25.05.8", "1", "part"),
        ("25.05.8", "0", "yes"),
        ("25.11.0", "1", "part"),
        ("25.11.6", "1", "part"),
        ("25.11.7", "1", "yes"),
        ("26.05.0", "1", "yes"),
    ],
)
def test_a_release_that_loses_licences_at_a_requeue_is_named_with_the_way_out(
    tmp_path: Path, version: str, requeue: str, state: str
) -> None:
    def run(argv: Sequence[str]) -> tuple[int, str]:
        if list(argv) == ["scontrol", "show", "config"]:
            return 0, f"JobRequeue              = {requeue}\nSLURM_VERSION           = {version}\n"
        return 0, ""

    found = by_name(examine(tmp_path, run, everything))["release"]
    assert (found.state, found.found) == (state, version)
    assert ("JobRequeue=0" in found.cost) == (state == "part")
