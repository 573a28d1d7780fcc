"""Every verb that reads the folder of a run refuses one whose recipe or whose figures were changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.formats.test_run_follows import figure, made
from tests.fuzz.commands import prepare
from tests.fuzz.templates import LINES
from wattqueue.cli import _app
from wattqueue.errors import InputError

__all__ = ["made"]

READERS = (
    *(words for words in LINES if "run" in words and words[0] != "agent"),
    ("settle", "targets.csv", "--contract", "contract.toml", "--meter", "run", "--start", "2024-01-01"),
    (
        "settle",
        "targets.csv",
        "--contract",
        "contract.toml",
        "--counterfactual",
        "run",
        "--meter",
        "meter.csv",
        "--start",
        "2024-01-01",
    ),
)
"""A valid line of each verb that takes the folder of a run; a verb that is added later has its line there, too."""


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_every_verb_refuses(
    made: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "case"
    prepare(folder, None, [], made)
    figure("wait_s_mean")(folder / "run")
    text = (folder / "run" / "run.toml").read_text()
    (folder / "run" / "run.toml").write_text(text.replace('policy = "easy"', 'policy = "conservative"'))
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(_app.build(list(words)), words)
    assert isinstance(done.exception, InputError), (done.output, done.exception)
    assert done.exception.what.startswith("the policy")
    (folder / "run" / "run.toml").write_text(text)
    done = CliRunner().invoke(_app.build(list(words)), words)
    if words[0] == "rerun":  # asks for the recipe only, and compares files
        assert (done.exit_code, "metrics.json differ" in done.output) == (1, True)
        return
    assert isinstance(done.exception, InputError), (done.output, done.exception)
    assert "wait_s_mean" in done.exception.what
