"""wattqueue import and machine: what they write, and what they say."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattqueue.cli import _app
from wattqueue.errors import InputError, MachineError
from wattqueue.formats.machine.file import parse_node_watts, read_machine
from wattqueue.formats.table.job_table import read_table
from wattqueue.formats.times import duration_s
from wattqueue.formats.workloads.swf import read_swf
from wattqueue.model.bounds import DURATION_S

NASTY = Path(__file__).parents[1] / "formats" / "nasty_sacct.psv"


def call(*arguments: object) -> str:
    """Run a verb in this process; what it raises comes out here."""
    words = [str(a) for a in arguments]
    result = CliRunner().invoke(_app.build(words), words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", ["jobs.parquet", "jobs.csv", "jobs.csv.gz"])
def test_a_dump_becomes_a_table_and_a_list_of_what_was_left_out(tmp_path: Path, name: str) -> None:
    said = call("import", NASTY, "-o", tmp_path / name)
    jobs = read_table(tmp_path / name)
    assert len(jobs) == 16
    assert jobs.extra["energy_quality"].tolist().count("measured") == 2
    assert jobs.extra["alone"].tolist().count("no") == 1
    with (tmp_path / "jobs.unusable.csv").open() as listed:
        rows = list(csv.DictReader(listed))
    assert len(rows) == 16
    assert rows[2] == {"line": "10", "job_id": "3", "reason": "never ran"}
    for words in (
        "sacct, 35 rows",
        "16 jobs, 16 unusable",
        "2 never ran",
        "watts of 2 jobs (12 %)",
        "energy: 2 measured, 0 attributed, 0 modelled",
        "14 alone (88 %), 1 shared (6 %), 1 unknown (6 %)",
        "1 energy counters left out",
    ):
        assert words in said


def test_the_summary_as_json(tmp_path: Path) -> None:
    found = json.loads(call("import", NASTY, "-o", tmp_path / "jobs.csv", "--json"))
    assert (found["jobs"], found["unusable"], found["rows"]) == (16, 16, 35)
    assert found["unusable_by_reason"]["never ran"] == 2
    assert found["energy_j"] == pytest.approx(3.6e6 + 300_500)


def test_a_dump_as_swf(tmp_path: Path) -> None:
    call("import", NASTY, "-o", tmp_path / "jobs.swf", "--default-walltime", "24h", "--time-zone", "Europe/Berlin")
    trace = read_swf(tmp_path / "jobs.swf")
    assert len(trace.jobs) == 16
    assert 86_400.0 in trace.jobs.walltime_s


def test_an_swf_as_a_table(tmp_path: Path, data_dir: Path) -> None:
    said = call("import", data_dir / "swf/KTH-SP2.swf.gz", "-o", tmp_path / "kth.parquet")
    assert "28,481 jobs, 8 unusable" in said
    assert "energy" not in said
    assert len(read_table(tmp_path / "kth.parquet")) == 28_481


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-o", "jobs.xlsx"], "jobs.xlsx"),
        (["-o", "jobs.csv", "--node-watts", "200"], "--node-watts"),
        (["-o", "jobs.csv", "--node-watts", "500:200"], "--node-watts"),
        (["-o", "jobs.csv", "--default-walltime", "soon"], "--default-walltime"),
        (["-o", "jobs.csv", "--time-zone", "Nowhere"], "Nowhere"),
        (["-o", "jobs.csv", "--from", "pbs"], "pbs"),
    ],
)
def test_wrong_options_are_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        call("import", NASTY, *arguments)
    assert named in str(caught.value)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(NASTY.read_bytes())
    with pytest.raises(InputError) as caught:
        call("import", path, "-o", path)
    assert caught.value.where == path
    assert path.read_bytes() == NASTY.read_bytes()


def test_an_error_is_one_line_and_status_two(tmp_path: Path) -> None:
    bad = tmp_path / "bad.psv"
    bad.write_text("1|2026-09-01T00:00:00|3\n")
    program = "from wattqueue.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "import", str(bad), "-o", str(tmp_path / "x.csv")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"wattqueue: {bad}:1: the rows have no header (run sacct without --noheader")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    ("text", "seconds"), [("24h", 86_400.0), ("90min", 5_400.0), ("2d", 172_800.0), ("30", 30.0), ("1.5h", 5_400.0)]
)
def test_times_on_the_command_line(text: str, seconds: float) -> None:
    assert duration_s(text, "--x") == seconds
    assert duration_s(None, "--x") is None


def test_times_at_the_limits_are_taken_and_beyond_them_refused() -> None:
    for seconds in (DURATION_S.low, DURATION_S.high):
        assert duration_s(f"{seconds!r}s", "--x") == seconds
    for text in (f"{DURATION_S.high + 1:.0f}", "9e-7", "0", "-1h"):
        with pytest.raises(InputError, match="is not a time"):
            duration_s(text, "--x")


def test_watts_on_the_command_line() -> None:
    assert parse_node_watts("95:240.5") == (95.0, 240.5)
    for text in ("", "95", "95:", "240:95", "-1:5", "1:inf", "nan:5"):
        with pytest.raises(InputError) as caught:
            parse_node_watts(text)
        assert caught.value.where == "--node-watts"


def test_a_machine_is_drafted_and_read_back(tmp_path: Path) -> None:
    call("import", NASTY, "-o", tmp_path / "jobs.parquet")
    text = call("machine", "guess", tmp_path / "jobs.parquet")
    assert text.count("# please confirm") >= 4
    call("machine", "guess", tmp_path / "jobs.parquet", "--name", "here", "-o", tmp_path / "here.toml")
    machine = read_machine(tmp_path / "here.toml")
    assert machine.name == "here"
    assert machine.units == 1_519
    assert "please confirm" in (tmp_path / "here.toml").read_text()


def test_a_machine_file_is_replaced_with_force_only(tmp_path: Path) -> None:
    call("import", NASTY, "-o", tmp_path / "jobs.parquet")
    guess = ("machine", "guess", tmp_path / "jobs.parquet", "-o", tmp_path / "here.toml")
    printed = call(*guess)
    assert "p50" in printed
    assert "p95" in printed
    assert f"wrote {tmp_path / 'here.toml'}" in printed
    assert "overwrote" in call(*guess), "the same draft again replaces nothing"
    confirmed = (tmp_path / "here.toml").read_text().replace("max_w", "max_w = 640.0 # by the vendor\n# max_w")
    (tmp_path / "here.toml").write_text(confirmed)
    with pytest.raises(InputError) as caught:
        call(*guess)
    assert caught.value.where == tmp_path / "here.toml"
    assert "--force" in str(caught.value.hint)
    assert (tmp_path / "here.toml").read_text() == confirmed
    call(*guess, "--force")
    assert (tmp_path / "here.toml").read_text() != confirmed


def test_two_imports_into_one_folder_keep_their_lists_apart(tmp_path: Path) -> None:
    assert "wrote" in call("import", NASTY, "-o", tmp_path / "a.csv.gz")
    call("import", NASTY, "-o", tmp_path / "b.parquet")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "a.csv.gz",
        "a.unusable.csv",
        "b.parquet",
        "b.unusable.csv",
    ]
    printed = call("import", NASTY, "-o", tmp_path / "a.csv.gz")
    assert f"overwrote {tmp_path / 'a.csv.gz'} and {tmp_path / 'a.unusable.csv'}" in printed


def test_an_output_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "jobs.csv").symlink_to(tmp_path / "data" / "jobs.csv")
    call("import", NASTY, "-o", tmp_path / "jobs.csv")
    assert (tmp_path / "jobs.csv").is_symlink()
    assert len(read_table(tmp_path / "data" / "jobs.csv")) == 16


def test_the_catalogue_is_listed_and_shown(tmp_path: Path) -> None:
    assert "marconi100" in call("machine", "list")
    shown = call("machine", "show", "marconi100")
    assert shown.startswith("# 980 units in 1 partitions; idle ")
    (tmp_path / "copy.toml").write_text(shown)
    assert read_machine(tmp_path / "copy.toml").units == 980
    with pytest.raises(MachineError) as caught:
        call("machine", "show", "marconi10")
    assert "marconi100" in str(caught.value.hint)
