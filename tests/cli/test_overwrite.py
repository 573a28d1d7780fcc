"""What a command replaces is reported, what it reads is never replaced, and damaged files are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wattqueue.cli import _app
from wattqueue.errors import InputError

JOBS = "submit_s,nodes,runtime_s,mean_power_w,user\n" + "".join(f"{i},1,10,{200 + i},a\n" for i in range(30))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a table of jobs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return tmp_path


def call(*words: str) -> str:
    """What a command prints; errors come out here."""
    found = CliRunner().invoke(_app.build(words), words)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.output


SIMULATE = ("simulate", "jobs.csv", "--nodes", "4", "--no-report", "--out", "run")
PREDICT = ("predict", "eval", "jobs.csv", "--estimator", "last-job", "--node-watts", "90:300", "-o", "scores")


@pytest.mark.parametrize("words", [SIMULATE, PREDICT, ("import", "jobs.csv", "-o", "new.csv")], ids=lambda w: w[0])
def test_the_second_time_is_an_overwrite(folder: Path, words: tuple[str, ...]) -> None:
    """The first time nothing was there."""
    first, second = call(*words), call(*words)
    assert "wrote" in first
    assert "overwrote" not in first
    assert "overwrote" in second
    assert folder.exists()


def test_a_run_is_not_compared_with_itself(folder: Path) -> None:
    """``rerun run --out run`` would replace the recorded run and then find it identical."""
    call(*SIMULATE)
    before = (folder / "run" / "jobs.csv").stat().st_mtime_ns
    with pytest.raises(InputError) as caught:
        call("rerun", "run", "--out", "./run")
    assert caught.value.where == Path("run")
    assert (folder / "run" / "jobs.csv").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", b'{"jobs": ' + b"9" * 400 + b"}"),
        ("jobs.csv", b"\x1f\x8b\x08\x00job_id,submit"),
        ("jobs.csv", b""),
        ("power.parquet", b"PAR1"),
    ],
)
def test_damaged_files_of_a_run_are_named(folder: Path, name: str, content: bytes) -> None:
    """Found by the fuzzer: an integer that no float holds, a file that begins like gzip."""
    call(*SIMULATE)
    (folder / "run" / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        call("report", "run")
    assert name in str(caught.value.where)
