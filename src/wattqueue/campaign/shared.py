"""Big inputs of a campaign: saved once in a folder that all workers see, mapped into memory by each.

What is saved is named by its content, so that equal columns (one library of power profiles under thirty
workloads) lie there once, and a name in a cell's identity says what went in.
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
KEPT = 256
"""Opened tables a process keeps: mapped ones cost address space, not memory."""


@dataclass(frozen=True)
class Shared:
    """A folder of columns. Cheap to make and to pickle: it holds the path alone. Equal ones are one folder."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder.absolute())

    def mark(self) -> None:
        """Leave a mark by which others know that they see this very folder. Raises: OutputError."""
        columns.put_mark(self.folder)

    def marked(self) -> bool:
        """Whether the mark is there."""
        return columns.marked(self.folder)

    def has(self, name: str) -> bool:
        """Whether something of this name lies here."""
        return columns.holds(self.folder, name)

    def put_jobs(self, jobs: Jobs) -> str:
        """Save a job table; the name to open it by. Raises: OutputError."""
        return columns.put_jobs(self.folder, jobs)

    def jobs(self, name: str) -> Jobs:
        """A saved job table, mapped; the same object to every cell of a process, so nobody may change it.

        Raises: InputError where it is not there.
        """
        return _jobs(self.folder, name)

    def put_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Save named arrays of numbers; the name to open them by. Raises: OutputError."""
        return columns.put_arrays(self.folder, arrays)

    def arrays(self, name: str) -> Arrays:
        """Saved arrays, mapped, under the rule of ``jobs``. Raises: InputError where they are not there."""
        return _arrays(self.folder, name)


@lru_cache(KEPT)
def _jobs(folder: Path, name: str) -> Jobs:
    return columns.open_jobs(folder, name)


@lru_cache(KEPT)
def _arrays(folder: Path, name: str) -> Arrays:
    return columns.open_arrays(folder, name)
