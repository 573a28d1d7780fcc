"""The wheel holds everything, and installed alone in a new environment it works."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import wattqueue
from tests.wattqueue_agent.powercap_tree import PowercapTree
from tools.packages import packages
from wattqueue.cli import _app

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return path


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    tree = ROOT / "src"
    wanted = {
        str(p.relative_to(tree))
        for name in packages()
        for p in (tree / name).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    held = set(zipfile.ZipFile(wheel).namelist())
    assert wanted <= held
    for name in ("policy/policies.toml", "model/quantities.csv", "report/vendor/echarts.min.js", "formats/machines/"):
        assert any(h.startswith(f"wattqueue/{name}") for h in held)
    assert any(h.endswith("licenses/LICENSE") for h in held)
    assert any(h.endswith("licenses/NOTICE") for h in held)
    assert not [h for h in held if not h.startswith("wattqueue")]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and its dependencies, no extras."""
    folder = tmp_path_factory.mktemp("alone")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    locked = [*pip, "install", "--no-deps", "--require-hashes", "-r", str(ROOT / "requirements.lock")]
    subprocess.run(locked, check=True, capture_output=True)
    subprocess.run([*pip, "install", "--no-index", str(wheel)], check=True, capture_output=True)
    return folder / "bin" / "wattqueue"


def run(command: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command where no source tree is in sight."""
    return subprocess.run([str(command), *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_installed_alone_it_works(installed: Path, tmp_path: Path) -> None:
    version = run(installed, tmp_path, "--version")
    assert version.stdout == f"wattqueue {wattqueue.__version__}\n"
    assert run(installed, tmp_path, "--help").returncode == 0
    swf = tmp_path / "three.swf"
    swf.write_text("".join(f"{i} {10 * i} -1 100 2 -1 -1 2 200 -1 1 1 1 -1 1 -1 -1 -1\n" for i in (1, 2, 3)))
    done = run(installed, tmp_path, "simulate", swf.name, "--nodes", "4", "--policy", "easy", "--out", "out")
    assert done.stderr.count("Traceback") == 0
    assert done.returncode == 0
    assert (tmp_path / "out" / "jobs.csv").read_text().count("\n") == 4


@pytest.mark.parametrize("verb", _app.verbs())
def test_every_verb_says_its_help_without_the_extras(installed: Path, tmp_path: Path, verb: str) -> None:
    done = run(installed, tmp_path, verb, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def pins(folder: Path) -> Path:
    """Write the versions of the lock file as constraints for pip."""
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    (folder / "pins.txt").write_text("\n".join(re.findall(r"^[\w.\[\]-]+==[\w.+!-]+", lock, re.MULTILINE)))
    return folder / "pins.txt"


def test_an_agent_installs_and_runs_without_numba_and_polars(wheel: Path, tmp_path: Path) -> None:
    """With the packages of the guide alone, in the versions of the lock file."""
    guide = (ROOT / "docs/guide/agent.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^pip install (typer .*)$", guide, re.MULTILINE)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "node")], check=True)
    python = str(tmp_path / "node/bin/python")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "-c", str(pins(tmp_path)), *line.split()], check=True, capture_output=True)
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    for name in ("numba", "polars"):
        assert subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 1
    tree = PowercapTree(tmp_path / "powercap", [120.0], 150.0)
    config = tmp_path / "agent.toml"
    config.write_text(
        'powercap = "powercap"\ncpufreq = "cpufreq"\nstate_dir = "state"\ngpus = false\nperiod_s = 0.1\n'
        '[broker]\nhost = "localhost"\nport = 1\n[[allow]]\nlimit = "package-*"\nlow = 60.0\nhigh = 150.0\n'
    )
    command = tmp_path / "node/bin/wattqueue"
    check = run(command, tmp_path, "agent", "check", "-c", "agent.toml")
    assert (check.returncode, check.stderr) == (0, "")
    assert "package-0" in check.stdout
    done = run(command, tmp_path, "agent", "run", "-c", "agent.toml", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert tree.limits_w() == [150.0]
