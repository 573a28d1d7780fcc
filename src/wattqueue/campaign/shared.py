"""Large inputs of a campaign: saved once in a folder that all workers see, mapped into memory by each.

Names are hashes of contents, so that equal columns (one library of power profiles for thirty workloads) are stored
once, and a name in a cell's identity stands for the content. Mapping lets all workers of a machine share one copy in
the page cache; pickling tables into every task would not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from wattqueue.formats import columns
from wattqueue.model.jobs import Jobs

Arrays = dict[str, NDArray[Any]]
OPEN_TABLES = 8
"""Job tables, and sets of arrays, that a process keeps open, with the mapped columns (file descriptors) of each."""


@dataclass(frozen=True)
class Shared:
    """A folder of columns. Cheap to make and to pickle: it holds the path only."""

    folder: Path
    """The folder, made absolute, because workers may have another working directory."""

    def __post_init__(self) -> None:
        """Make the path absolute."""
        object.__setattr__(self, "folder", self.folder.absolute())

    def mark(self) -> None:
        """Write a mark by which workers verify that they see this folder. Raises: OutputError."""
        columns.put_mark(self.folder)

    def marked(self) -> bool:
        """Return whether the mark is there."""
        return columns.marked(self.folder)

    def has(self, name: str) -> bool:
        """Return whether a table or arrays of this name are here."""
        return columns.holds(self.folder, name)

    def put_jobs(self, jobs: Jobs) -> str:
        """Save a job table and return its name. Raises: OutputError."""
        return columns.put_jobs(self.folder, jobs)

    def jobs(self, name: str) -> Jobs:
        """Open a saved job table, mapped and read-only; all cells of a process get the same object.

        Raises: InputError if it is not there.
        """
        return _jobs(self.folder, name)

    def put_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Save named arrays of numbers and return the name of the set. Raises: OutputError."""
        return columns.put_arrays(self.folder, arrays)

    def arrays(self, name: str) -> Arrays:
        """Open saved arrays, mapped, as ``jobs`` does. Raises: InputError if they are not there."""
        return _arrays(self.folder, name)


@lru_cache(OPEN_TABLES)
def _jobs(folder: Path, name: str) -> Jobs:
    return columns.open_jobs(folder, name)


@lru_cache(OPEN_TABLES)
def _arrays(folder: Path, name: str) -> Arrays:
    return columns.open_arrays(folder, name)
