"""What a command refuses instead of computing something else, in one line with exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattqueue.cli import _app, _words
from wattqueue.errors import InputError, PolicyError, WattQueueError
from wattqueue.parts.backfill.easy import Easy
from wattqueue.policy.policy import load_policy

POLICIES = """
[depth]
backfill = { part = "easy", queue_depth = 0 }
[whole]
backfill = { part = "easy", queue_depth = 2.5 }
[interval]
backfill = { part = "easy", pass_interval_s = nan }
[source]
source = nan
[unmeasured]
controls = ["app-check"]
[dated]
order = 1979-05-27
[listed]
order = ["fcfs", "earliest-end"]
[nested]
controls = [["app-check"]]
[trees]
estimator = { part = "random-forest", trees = "many" }
[alpha]
estimator = { part = "history-mean", alpha = nan }
[truth]
estimator = { part = "linear", fewest = true }
[chance]
ledger = "chance"
backfill = "conservative"
[unknown]
colour = "red"
"""
MACHINE = 'name = "m"\n[[partitions]]\nname = "a"\nnodes = 4\nmax_w = 300.0\nfrequencies_hz = [2e9, 1e9]\n'
ROWS = ("depth", "whole", "interval", "source", "unmeasured", "dated", "listed", "nested", "trees", "alpha", "truth")


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of two jobs in the current folder, policies and prices beside it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trace.csv"
    path.write_text("submit_s,nodes,runtime_s,mean_power_w\n0,1,10,200\n5,2,10,200\n")
    (tmp_path / "own.toml").write_text(POLICIES)
    return path


def error_of(*words: object) -> WattQueueError:
    """The error that a command line ends with."""
    arguments = [str(word) for word in words]

    def command() -> None:
        found = CliRunner().invoke(_app.build(arguments), arguments)
        assert found.exit_code != 0, found.output
        assert found.exception is not None
        raise found.exception

    with pytest.raises(WattQueueError) as caught:
        command()
    return caught.value


@pytest.mark.parametrize(
    "option",
    ["--cap", "--machine", "--policy", "--estimator", "--default-walltime", "--node-watts", "--out", "--nodes"],
)
@pytest.mark.parametrize("text", ["", " "])
def test_an_unset_shell_variable_is_not_left_out(trace: Path, option: str, text: str) -> None:
    """``--cap "$CAP"`` would run without a cap, ``--out "$OUT"`` write into the current folder."""
    assert error_of("simulate", trace, "--nodes", 8, option, text).where == option
    assert error_of("simulate", trace, "--nodes", 8, f"{option}={text}").where == option
    assert [p.name for p in trace.parent.iterdir()] in (["trace.csv", "own.toml"], ["own.toml", "trace.csv"])


@pytest.mark.parametrize("verb", ["simulate", "whatif", "import", "report", "compare", "plot", "campaign", "check"])
def test_an_empty_argument_is_not_the_current_folder(trace: Path, verb: str) -> None:
    """Every verb, by one rule: an empty path would be the current folder."""
    assert error_of(verb, "").hint
    assert error_of(verb, trace, "--out", "").where == "--out"


@pytest.mark.parametrize(
    "wrong",
    [
        ("--cap", "1e400kW"),
        ("--cap", "1e30kW"),
        ("--cap", "nan"),
        ("--cap", "-5kW"),
        ("--node-watts", "0:1e12"),
        ("--nodes", "2147483647"),
        ("--default-walltime", "1e300"),
        ("--default-walltime", "nan"),
    ],
)
def test_figures_beyond_every_limit(trace: Path, wrong: tuple[str, str]) -> None:
    """Each would wrap, take all memory, or run for ever."""
    plain = {"--nodes": "8", "--node-watts": "95:240"} | dict([wrong])
    found = error_of("simulate", trace, *(word for pair in plain.items() for word in pair))
    assert found.hint


@pytest.mark.parametrize("word", ["٨", "--nodes=٨", "²"])
def test_digits_of_other_scripts_are_no_numbers(word: str) -> None:
    with pytest.raises(InputError) as caught:
        _words.refuse_foreign_digits(["simulate", "trace-٨.swf", "--nodes", word])
    assert caught.value.where == word


@pytest.mark.parametrize("row", [*ROWS, "chance", "unknown"])
def test_rows_that_say_nothing_that_can_be_done(trace: Path, row: str) -> None:
    """The loader refuses them, so that simulate, campaign, whatif and live do."""
    name = f"{trace.parent / 'own.toml'}:{row}"
    found = error_of("simulate", trace, "--nodes", 8, "--node-watts", "95:240", "--policy", name)
    assert isinstance(found, PolicyError)
    assert found.hint
    with pytest.raises(PolicyError):
        load_policy(name)


def test_a_depth_of_all_needs_no_zero() -> None:
    """Left out, the whole queue is tried; 0 would be read as none at all."""
    assert Easy().queue_depth > 1_000_000_000
    with pytest.raises(PolicyError) as caught:
        Easy(queue_depth=0)
    assert caught.value.where == "queue_depth"


@pytest.mark.parametrize(
    ("key", "value"), [("dvfs_alpha", "1e300"), ("shutdown_s", "1e300"), ("nodes", "2147483647"), ("max_w", "1e12")]
)
def test_figures_of_a_machine_file(trace: Path, key: str, value: str) -> None:
    """With file and partition."""
    kept = "".join(line + "\n" for line in MACHINE.splitlines() if not line.startswith(f"{key} ="))
    path = trace.parent / "machine.toml"
    path.write_text(f"{kept}{key} = {value}\n")
    found = error_of("simulate", trace, "--machine", path)
    assert "machine.toml" in str(found.where)
    assert key in str(found)


@pytest.mark.parametrize("cap", ["150%", "1MW"])
def test_a_cap_above_the_machines_maximum_is_mentioned(trace: Path, cap: str) -> None:
    """It limits nothing, which is rarely what was meant."""
    words = ["simulate", str(trace), "--nodes", "8", "--node-watts", "95:240", "--cap", cap]
    found = CliRunner().invoke(_app.build(words), words)
    assert found.exit_code == 0
    assert "above the machine's maximum" in found.output
    words[-1] = "90%"
    assert "above the machine's maximum" not in CliRunner().invoke(_app.build(words), words).output
