"""What other packages add: their entry points, found without reading the metadata of every package.

``importlib.metadata`` imports 30 modules, and most installations add nothing.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, of all packages that can be imported."""
    if not _may_have(group, tuple(sys.path)):
        return ()
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _may_have(group: str, places: tuple[str, ...]) -> bool:
    """Return whether a package states something for a group, or lies where this cannot be seen: in an archive."""
    unseen = any(finder is not PathFinder and "find_distributions" in dir(finder) for finder in sys.meta_path)
    archives = any(Path(place).is_file() for place in places)
    return unseen or archives or any(f"[{group}]" in text for text in _stated(places))


@cache
def _stated(places: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of the files of entry points in folders of packages."""
    found = (path for place in places for path in Path(place).glob("*.*-info/entry_points.txt"))
    return tuple(path.read_text(errors="replace") for path in found)
