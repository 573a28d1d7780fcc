"""Wheels into ``dist``: ``make wheel`` (docs/adr/0025); ``python -m tools.wheel x86-64-v3`` for one level alone.

``py3-none-any`` has no machine code: numba compiles there. ``py3-none-manylinux_2_28_x86_64`` also carries the
libraries of ``tools/kernels``. Both have an SBOM (CycloneDX) in ``dist-info/sboms``. Equal sources, compilers and
``SOURCE_DATE_EPOCH`` (default: the last commit's time) give equal bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.kernels.build import build as build_kernels
from tools.packages import ROOT
from wattqueue.kernels.library import FOLDER, LEVELS, MANIFEST, sources_digest

PLATFORM = "manylinux_2_28_x86_64"


def build(out: Path, levels: tuple[str, ...] = LEVELS) -> list[Path]:
    """Write both wheels into ``out`` and return them, the one without machine code first."""
    out.mkdir(parents=True, exist_ok=True)
    if "SOURCE_DATE_EPOCH" not in os.environ:  # sources without a repository state it
        os.environ["SOURCE_DATE_EPOCH"] = _run("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(work / "built"), str(ROOT))
        (built,) = (work / "built").glob("*.whl")
        _run(sys.executable, "-m", "wheel", "unpack", "--dest", str(work), str(built))
        (tree,) = work.glob("wattqueue-*")
        shutil.rmtree(tree / FOLDER.relative_to(ROOT / "src"), ignore_errors=True)
        _add_sbom(tree, made_with={})
        plain = _packed(tree, out, "py3-none-any")
        libraries = tree / FOLDER.relative_to(ROOT / "src")
        build_kernels(libraries, levels)
        if json.loads((libraries / MANIFEST).read_text())["sources"] != sources_digest(libraries.parent):
            raise SystemExit("sources of kernels have changed during the build: build again")
        compiler = _run("cc", "--version").splitlines()[0]
        _add_sbom(tree, made_with={"numba": version("numba"), "llvmlite": version("llvmlite"), "cc": compiler})
        return [plain, _packed(tree, out, f"py3-none-{PLATFORM}")]


def _run(*command: str) -> str:
    """Run a command and return what it printed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _packed(tree: Path, out: Path, tag: str) -> Path:
    """Pack an unpacked wheel under a tag."""
    (about,) = tree.glob("*.dist-info/WHEEL")
    lines = [line for line in about.read_text().splitlines() if not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    pure = str(tag.endswith("-any")).lower()
    about.write_text("\n".join([*lines, f"Root-Is-Purelib: {pure}", f"Tag: {tag}"]) + "\n")
    _run(sys.executable, "-m", "wheel", "pack", "--dest-dir", str(out), str(tree))
    (packed,) = out.glob(f"*-{tag}.whl")
    return packed


def _add_sbom(tree: Path, made_with: dict[str, str]) -> None:
    """Write the wheel's bill of materials: what it needs, and what its machine code was made with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tools: list[dict[str, Any]] = [{"type": "application", "name": n, "version": v} for n, v in made_with.items()]
    shown = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {
            "component": {"type": "library", "name": "wattqueue", "version": version("wattqueue")},
            "tools": {"components": tools},
        },
        "components": [{"type": "library", "name": needed} for needed in project["dependencies"]],
    }
    (folder,) = tree.glob("*.dist-info")
    (folder / "sboms").mkdir(exist_ok=True)
    (folder / "sboms" / "wattqueue.cdx.json").write_text(json.dumps(shown, indent=1) + "\n")


if __name__ == "__main__":
    for made in build(ROOT / "dist", tuple(sys.argv[1:]) or LEVELS):
        print(f"{made.relative_to(ROOT)}  {made.stat().st_size / 1e6:.1f} MB")
