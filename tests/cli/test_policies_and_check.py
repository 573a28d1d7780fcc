"""``wattqueue policies`` and ``wattqueue check``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import typer

from wattqueue import cli
from wattqueue.cli import check, policies
from wattqueue.policy.policy import load_policy
from wattqueue.policy.rows import composed, find_row, published_rows

EXAMPLES = Path(__file__).parents[2] / "examples"

FAULTY = '''
from wattqueue.parts.contracts import Start

class Sound:
    """Starts the first in the queue where it fits."""
    def schedule(self, view):
        for entry in view.queue.tolist()[:1]:
            option = view.entry_options(entry)[0]
            job, p = view.entry_job(entry), view.entry_partition(entry)
            if view.jobs.nodes[job] <= view.free[p] and view.net_watts(job, option) <= view.available_w:
                return [Start(entry, option)]
        return []

class Faulty:
    def schedule(self, view):
        return [Start(entry, view.entry_options(entry)[0]) for entry in view.queue.tolist()]

class Breaks:
    period_s, events = 600.0, frozenset()
    def act(self, view):
        raise KeyError("a defect")

class Needy:
    period_s, events = 600.0, frozenset()
    def __init__(self, figure):
        self.figure = figure
    def act(self, view):
        return []
'''


def wattqueue(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["wattqueue", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code


def test_policies_lists_every_row_with_its_parts_and_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wide terminal gets one table."""
    monkeypatch.setenv("COLUMNS", "240")
    assert wattqueue(monkeypatch, "policies") in (0, None)
    out = capsys.readouterr().out
    for name, row in published_rows().items():
        assert f" {name} " in out
        assert row["source"].split()[0] in out
    for axis in ("estimator", "runtime", "order", "frequency", "placement", "backfill", "ledger", "controls", "source"):
        assert axis in out
    assert "chance, epsilon 0.01" in out


@pytest.mark.parametrize("columns", ["40", "80", None])
def test_a_narrow_terminal_and_a_pipe_get_one_paragraph_per_policy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str | None
) -> None:
    """No line is wider than the terminal, none is filled with blanks, nothing needs a terminal."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert wattqueue(monkeypatch, "policies") in (0, None)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns or policies.PLAIN)
    assert all(line == line.rstrip() for line in lines)
    text = " ".join(" ".join(lines).split())
    assert text.count("estimator maximum, runtime user-limit, order fcfs, frequency highest, placement lowest") == 1
    for name, row in published_rows().items():
        assert name in lines
        assert row["source"].split()[0] in text
    assert "no controls" in text


SETTINGS = (
    "controls=idle-off", "backfill=easy-sjbf", "order=wait-aware+placement=lowest", "estimator=history-max",
    "controls=none", "runtime=last-two+ledger=predicted",
)  # fmt: skip
COMPOSED = [f"{name}+{SETTINGS[k % len(SETTINGS)]}" for k, name in enumerate(sorted(published_rows()))]
ROWS = """
[plain]
controls = [{ part = "rapl-redistribution", lower = 0.7 }, "lower-measured"]
ledger = { part = "chance", epsilon = 0.02 }
source = 'of "mine"'
["odd name"]
extends = "plain"
controls = { part = "idle-off" }
"""
"""Rows of a file: controls with options, and a name that needs quotes."""


@pytest.fixture
def own_rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.toml").write_text(ROWS)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [*sorted(published_rows()), *COMPOSED, "rows.toml:plain", "rows.toml:odd name", "rows.toml:plain+order=wait-aware"],
)
def test_show_prints_a_row_that_can_be_used_again(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_rows: Path
) -> None:
    monkeypatch.chdir(own_rows)
    policies.show(name)
    out = capsys.readouterr().out
    ((shown, row),) = tomllib.loads(out).items()
    assert row == find_row(name)
    if name in published_rows():
        assert shown == name
    copy = own_rows / "mine.toml"
    copy.write_text(f"{out}\n[another]\n")
    assert load_policy(f"{copy}:{shown}").row == load_policy(name).row
    policies.show(name, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"name": composed(name), **row}


def test_show_of_an_unknown_policy_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wattqueue(monkeypatch, "policies", "show", "nope") == 2
    err = capsys.readouterr().err
    assert err.startswith("wattqueue: no policy 'nope' (one of ")
    assert err.count("\n") == 1


def test_show_of_a_part_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{EXAMPLES / 'custom_backfill.py'}:ShortestFirst"
    assert wattqueue(monkeypatch, "policies", "show", name) in (0, None)
    out = capsys.readouterr().out
    assert "shortest walltime first" in out
    assert tomllib.loads(out)["custom_backfill.py-ShortestFirst"]["backfill"] == name


@pytest.mark.parametrize("example", ["custom_backfill", "custom_estimator", "custom_control"])
def test_the_examples_pass_every_check(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    check.run(str(EXAMPLES / f"{example}.py"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "every check passed"
    assert len(lines) >= 7
    assert all(line.startswith("ok ") for line in lines[:-1])


def test_check_names_what_fails_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "parts.py"
    path.write_text(FAULTY)
    with pytest.raises(typer.Exit) as left:
        check.run(str(path))
    assert left.value.exit_code == 1
    out = capsys.readouterr().out
    assert "ok      Sound as backfill: pure\n" in out
    assert "FAILED  Faulty as backfill: answers: Faulty: starts what cannot start" in out
    assert "FAILED  Breaks as controls: answers: raised KeyError: 'a defect'" in out
    assert "FAILED  Needy as controls: made without arguments" in out
    assert out.splitlines()[-1].endswith("checks failed")
    check.run(f"{path}:Sound")
    assert capsys.readouterr().out.endswith("every check passed\n")


def test_check_of_a_file_without_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nothing.py"
    path.write_text("x = 1\n")
    assert wattqueue(monkeypatch, "check", str(path)) == 2
    assert "nothing.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "nearest"),
    [
        (("policies", "show", "easy+pc-maen"), "easy+pc-mean"),
        (("simulate", "fugaku:jobz=10", "--nodes", "8", "--policy", "fcfs"), "jobs"),
        (("simulate", "fugaku:jobs=10", "--machine", "osakka", "--policy", "fcfs"), "osaka"),
    ],
)
def test_a_misspelt_name_gets_the_nearest_one(
    argv: tuple[str, ...], nearest: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wattqueue(monkeypatch, *argv) == 2
    assert f"(did you mean {nearest}? one of " in capsys.readouterr().err
