"""The import packages of the distribution, from the one list: what the wheel holds (pyproject.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = "wattqueue"
"""The package that imports none of the others."""


@cache
def packages(root: Path = ROOT) -> tuple[str, ...]:
    """Return the names of the import packages, the core first."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return tuple(Path(folder).name for folder in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def folders_named(name: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield the folders of sources that a name means: an import package, or a folder directly below one."""
    for package in packages(root):
        folder = root / "src" / package
        folder = folder if name == package else folder / name
        if folder.is_dir():
            yield folder
