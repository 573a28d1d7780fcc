"""The wheel of the core alone: the packages beside it cannot be imported, and the README's commands work."""

from __future__ import annotations

import re
import shlex
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tools.core_wheel import build, install
from tools.packages import CORE, ROOT, packages
from wattqueue.cli import _app

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HEAD = (
    "JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|AllocTRES|NodeList|ConsumedEnergyRaw"
)
LIVE = 'machine = "site.toml"\npolicy = "easy"\ncap = "80%"\n'


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the core's wheel."""
    folder = tmp_path_factory.mktemp("core")
    return install(build(folder), folder / "venv")


def wattqueue(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "wattqueue", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def commands() -> list[list[str]]:
    """The words of each line of the README that calls the program."""
    blocks = re.findall(r"```\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("wattqueue ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def sacct() -> str:
    """Forty jobs of two users on eight nodes, half an hour each, with energies."""
    rows = []
    for i in range(1, 41):
        start = datetime.fromisoformat("2026-10-01T00:00:00") + timedelta(minutes=15 * i)
        end, node = start + timedelta(minutes=30), 2 * (i % 4) + 1
        times = f"{start.isoformat()}|{start.isoformat()}|{end.isoformat()}|00:30:00|01:00:00"
        what = f"{i}|app|{'ann' if i % 2 else 'bob'}|batch|{times}|COMPLETED|2|node=2|n[{node}-{node + 1}]"
        rows.append(f"{what}|{300_000 + 150_000 * (i % 7)}")
    return "\n".join([HEAD, *rows, ""])


def test_the_packages_beside_it_cannot_be_imported(python: Path, tmp_path: Path) -> None:
    for name in packages():
        done = subprocess.run(
            [str(python), "-c", f"import {name}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == (name == CORE), done.stderr


def test_every_verb_says_its_help_or_what_to_install(python: Path, tmp_path: Path) -> None:
    for name, verb in _app.verbs().items():
        done = wattqueue(python, tmp_path, name, "--help")
        if verb.module.startswith(f"{CORE}."):
            assert (done.returncode, done.stderr) == (0, ""), name
        else:
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), name
            assert f"{name}: needs the package {verb.module.partition('.')[0]} (" in done.stderr


def test_the_readmes_commands(python: Path, tmp_path: Path) -> None:
    (tmp_path / "sacct.psv").write_text(sacct())
    (tmp_path / "live.toml").write_text(LIVE)
    lines = commands()
    assert {words[0] for words in lines} >= {"doctor", "import", "machine", "whatif", "simulate", "compare", "live"}
    for words in lines:
        done = wattqueue(python, tmp_path, *words)
        if words[0] == "live":  # no Slurm is there to observe
            assert done.returncode in (0, 2)
            assert "Traceback" not in done.stderr
            assert "needs the package" not in done.stderr
        else:
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert (tmp_path / "out/capped/jobs.csv").read_text().count("\n") == 41
