"""One run of a campaign: described by plain values, identified by a hash of all that determines its result.

Identity of the program: what determines a run's result beside its inputs.

A campaign keeps finished rows across invocations; rows of another version must not be reused. A version number is not
enough while people edit sources, so the hash of all sources that can affect a figure is part of each key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol, runtime_checkable

from wattqueue.campaign.shared import Shared
from wattqueue.version import __version__

Value = float | int | str | list[float] | None
"""Value of a column of results."""
Row = dict[str, Value]
"""Result of a cell, its columns in the order in which the table shows them."""
WITHOUT_EFFECT = "without_effect"
"""Column with a line for each part of a run's policy that could not act; left out where all could."""


@runtime_checkable
class Cell(Protocol):
    """One run. Workers receive cells pickled: a cell holds names and numbers, large inputs lie in ``Shared``.

    A frozen dataclass at the top level of a module, with these two methods, is a cell. ``str(cell)`` is its name in
    error messages.
    """

    def identity(self) -> Mapping[str, object]:
        """Return all inputs as JSON can hold them: two cells of equal identity give equal rows."""
        ...

    def perform(self, shared: Shared) -> Row:
        """Run the cell and return its row.

        Raises: WattQueueError for a run that cannot be done; the other cells still run.
        """
        ...


def key_of(cell: Cell) -> str:
    """Return the key of a cell: a hash of its class, its identity and the program.

    The program is part of it so that a new version never mixes its rows with those of another.
    """
    kind = f"{type(cell).__module__}.{type(cell).__qualname__}"
    text = json.dumps([kind, dict(cell.identity()), program()], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


UNRELATED = {"checks", "cli", "live", "report", "store", "terminal.py", "wattqueue_agent"}
"""Subpackages and packages that no figure of a run depends on: presentation, live control, checks."""
DEPENDENCIES = ("numpy", "numba", "scikit-learn")
"""Packages whose version can change a figure."""


@cache
def program() -> str:
    """Return the version of this program, a hash of its sources, and the versions of numerical packages."""
    found = [f"wattqueue {__version__} (sources {_source_hash()})"]
    for name in DEPENDENCIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} missing")
    return ", ".join(found)


def _source_hash() -> str:
    """Return 12 digits of a hash over names and contents of the sources, in order of their paths.

    Packages beside this one count, too: cells of a campaign may be theirs (``wattqueue_studies``).
    """
    core = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for package in sorted(file.parent for file in core.parent.glob(f"{core.name}*/__init__.py")):
        for path in sorted(package.rglob("*")):
            name = path.relative_to(core.parent)
            if path.suffix in {".py", ".toml", ".csv"} and not UNRELATED.intersection(name.parts[:2]):
                digest.update(str(name).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
