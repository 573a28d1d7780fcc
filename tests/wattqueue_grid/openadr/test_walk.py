"""The guide's walk runs as printed, and the verb's errors are one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.procs import MARKER, end_all
from tests.live.slurmlab import free_ports, wait_for
from tests.program import wattqueue
from tests.wattqueue_grid.openadr.grid import SECRET, VTN, Grid, limit, soon
from wattqueue.formats.load_target import read_load_targets
from wattqueue.formats.series import read_steps

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "openadr.md"
VERB = [sys.executable, "-W", "error", "-c", "from wattqueue.cli import main; main()", "openadr"]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the repository's examples; what is started in it is ended."""
    (tmp_path / "examples").symlink_to(VTN.parents[1])
    yield tmp_path
    end_all(str(tmp_path))


def test_the_walk_is_true(folder: Path) -> None:
    (port,) = free_ports(1)
    (folder / "live.toml").write_text(blocks("toml")[0].replace("8080", str(port)))
    for name, words in (("wattqueue", "-m wattqueue"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", MARKER: str(folder)}
    first, second = blocks("sh")
    first = first.replace("8080", str(port)).replace("--example &\n", "--example > vtn.log 2>&1 &\n")
    first = first.replace("wattqueue", "while ! grep -q 'VTN at' vtn.log; do sleep 0.1; done\nwattqueue", 1)
    for script, expected in zip((first, second), blocks("text"), strict=True):
        done = subprocess.run(
            ["bash", "-e", "-c", script], capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == expected.splitlines()
    targets = read_load_targets(folder / "targets.csv")
    assert list(targets.limit) == [407_000.0, 450_000.0]
    assert list(read_steps(folder / "prices.csv").value) == [210.0, 340.0, -20.0]


def config(folder: Path, url: str, **more: str) -> Path:
    """A configuration in a folder."""
    values = {"vtn": url, "client_id": "ven", "client_secret_file": "secret", "ven_name": "hpc-centre", **more}
    lines = "\n".join(f'{key} = "{value}"' for key, value in values.items())
    (folder / "live.toml").write_text(f'machine = "osaka"\nrun_dir = "run"\n\n[openadr]\n{lines}\n')
    if not (folder / "secret").exists():
        (folder / "secret").touch(0o600)
        (folder / "secret").write_text(f"{SECRET}\n")
    return folder / "live.toml"


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return wattqueue("openadr", *arguments, "-c", folder / "live.toml", cwd=folder)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"vtn": "http://vtn.example"}, "https"),
        ({"currency": "euro"}, "currency"),
        ({"pol_s": "5"}, "poll_s"),
        ({"client_secret_file": "nowhere"}, "nowhere"),
        ({"ca_file": "live.toml"}, "no certificate"),
        ({"baseline": "live.toml"}, "live.toml"),
        ({"vtn": "https://localhost:1"}, "ConnectError"),
    ],
)
def test_what_cannot_be_used_is_one_line(folder: Path, more: dict[str, str], place: str) -> None:
    config(folder, "https://localhost:1", **more)
    done = call(folder, "poll")
    assert done.returncode == 2
    assert place in done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_secret_that_others_can_read_is_refused(folder: Path) -> None:
    config(folder, "https://localhost:1")
    (folder / "secret").chmod(0o644)
    done = call(folder, "poll")
    assert (done.returncode, SECRET in done.stderr) == (2, False)
    assert "readable by others" in done.stderr


def test_a_configuration_without_the_section_is_refused(folder: Path) -> None:
    (folder / "live.toml").write_text('machine = "osaka"\n')
    done = call(folder, "poll")
    assert done.returncode == 2
    assert "[openadr]" in done.stderr


def test_following_writes_the_files_whenever_they_change(grid: Grid, folder: Path) -> None:
    config(folder, grid.url, ramp_kw_per_s="5").write_text(
        (folder / "live.toml").read_text().replace('ramp_kw_per_s = "5"', "ramp_kw_per_s = 5\npoll_s = 1.0")
    )
    program, path = grid.program(), folder / "targets.csv"
    argv = [*VERB, "follow", "-c", "live.toml", "--out", "targets.csv"]
    env = {**os.environ, MARKER: str(folder)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=folder, env=env)
    wait_for("the first file", path.exists, 60.0)
    start_s = soon(600)
    event = grid.event(program, **limit("IMPORT_CAPACITY_LIMIT", 400, start_s=start_s))
    wait_for("the target", lambda: event in path.read_text(), 30.0)
    targets = read_load_targets(path)
    assert (list(targets.start_s), list(targets.limit), list(targets.ramp_w_per_s)) == ([start_s], [4e5], [5e3])
    refused = call(folder, "poll")
    assert refused.returncode == 2
    assert "another process" in refused.stderr
    grid.delete(event)
    wait_for("its end", lambda: event not in path.read_text(), 30.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    text = (folder / "log").read_text()
    assert "Traceback" not in text
    assert SECRET not in text
