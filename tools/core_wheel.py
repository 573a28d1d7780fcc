"""Build the wheel of the core alone, and an environment that holds it: ``python -m tools.core_wheel FOLDER``.

FOLDER becomes an environment in which the packages beside the core cannot be imported. Everything else is what the
running Python has: its folders of packages are added as plain folders, in which no ``.pth`` file is read, so that an
editable installation of this repository stays out.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import tomlkit

from tools.packages import CORE, ROOT


def build(out: Path) -> Path:
    """Build the wheel of the core into ``out``, and return it: pyproject.toml without the other packages."""
    tree = out / "tree"
    shutil.copytree(ROOT / "src" / CORE, tree / "src" / CORE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tree)
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8")).unwrap()
    project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = [f"src/{CORE}"]
    del project["project"]["entry-points"]
    (tree / "pyproject.toml").write_text(tomlkit.dumps(project), encoding="utf-8")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)
    (wheel,) = out.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Make an environment in ``folder`` that holds a wheel beside the packages of this Python; returns its Python."""
    venv.create(folder, clear=True, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run([*command, "--no-index", "--target", str(packages), str(wheel)], check=True)
    others = [path for path in sys.path if path.endswith("-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    return folder / "bin" / "python"


def main() -> None:
    """Build the wheel, and make the environment."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the environment; what is there is replaced")
    folder = parser.parse_args().folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    out = folder.with_name(f"{folder.name}.dist")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    install(build(out), folder)
    shutil.rmtree(out)


if __name__ == "__main__":
    main()
