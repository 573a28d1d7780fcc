"""Finished cells in one file that only grows: what is in it is not done again.

``finished.jsonl`` has a line a cell: its key, its row. A line is written whole the moment its cell is known to be
finished; one that a crash or a full disk cut short is taken back, or left out when the file is read again. One
file, not one a cell: file systems of clusters suffer from many small ones.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from wattqueue.campaign.cell import Row
from wattqueue.errors import OutputError
from wattqueue.formats._aside import not_written

FINISHED = "finished.jsonl"


class Shelf:
    """Rows of finished cells by key; made by ``opened_shelf``, which holds the file for one process alone."""

    def __init__(self, path: Path | None, file: IO[bytes] | None) -> None:
        self.path, self._file = path, file
        self.rows: dict[str, Row] = {}
        self._end = 0
        if file is not None:
            self._read(file)

    def _read(self, file: IO[bytes]) -> None:
        for line in file:
            if not line.endswith(b"\n"):
                break
            self._end += len(line)
            try:
                entry = json.loads(line)
                self.rows[entry["key"]] = entry["row"]
            except (ValueError, TypeError, KeyError):
                continue  # a machine that lost its power left it so: that cell is done again
        file.seek(self._end)
        file.truncate()

    def put(self, key: str, row: Row) -> None:
        """Keep a finished cell. Raises: OutputError where it cannot be written; what was kept stays."""
        self.rows[key] = row
        if self._file is None or self.path is None:
            return
        line = json.dumps({"key": key, "row": row}).encode() + b"\n"
        try:
            rest = memoryview(line)
            while rest:  # a disk that is nearly full takes a part, and refuses the rest
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._take_back()
            raise _full(self.path, error) from error
        self._end += len(line)

    def _take_back(self) -> None:
        """Leave no half of a line behind."""
        if self._file is not None:
            os.ftruncate(self._file.fileno(), self._end)

    def settle(self) -> None:
        """Bring what was kept to disk. Raises: OutputError."""
        if self._file is not None and self.path is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise _full(self.path, error) from error


@contextmanager
def opened_shelf(folder: Path | None) -> Iterator[Shelf]:
    """The shelf of a folder; without one, rows are kept in memory alone.

    Raises: OutputError where the folder cannot be written, or another campaign writes to it just now.
    """
    if folder is None:
        yield Shelf(None, None)
        return
    path = folder / FINISHED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise not_written(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                "another campaign is writing here", where=folder, mend="wait for it, or name another folder"
            ) from None
        file.seek(0)
        shelf = Shelf(path, file)
        try:
            yield shelf
        finally:
            shelf.settle()


def _full(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"could not be written: {error.strerror or error}",
        where=path,
        mend="what was finished is kept; make room and start again",
    )
