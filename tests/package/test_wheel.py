"""The wheel holds everything, and installed alone in a new environment it works."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import wattqueue
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
        for p in (tree / "wattqueue").rglob("*")
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
