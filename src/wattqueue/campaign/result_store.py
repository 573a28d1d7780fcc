"""The result store: rows of finished cells in one append-only file; cells found in it do not run again.

``finished.jsonl`` has one line per cell: its key and its row. A line is appended as soon as its cell is finished. A
line that a crash or a full disk cut short is removed, or ignored when the file is read again. All cells share one file
because parallel file systems of clusters handle many small files badly. A lock on the file excludes a second campaign;
the kernel releases it when the process ends in whatever way.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from wattqueue.campaign.cell import Row
from wattqueue.errors import OutputError
from wattqueue.formats.atomic_write import not_written

FINISHED = "finished.jsonl"


class ResultStore:
    """Rows of finished cells by key; made by ``open_result_store``, which locks the file for one process.

    ``_end`` is the length of the part of the file that is known to be whole lines; every failed write truncates to it.
    """

    def __init__(self, path: Path | None, file: IO[bytes] | None) -> None:
        """Read the rows of an open, locked file; None keeps rows in memory only."""
        self.path, self._file = path, file
        self.rows: dict[str, Row] = {}
        self._end = 0
        if file is not None:
            self._read(file)

    def _read(self, file: IO[bytes]) -> None:
        """Read all whole lines and truncate the rest, so that the next line begins at a line's start."""
        for line in file:
            if not line.endswith(b"\n"):
                break
            self._end += len(line)
            try:
                entry = json.loads(line)
                self.rows[entry["key"]] = entry["row"]
            except (ValueError, TypeError, KeyError):
                continue  # left by a power failure: that cell runs again
        file.seek(self._end)
        file.truncate()

    def put(self, key: str, row: Row) -> None:
        """Store the row of a finished cell.

        The line is written with plain ``write`` calls and not flushed to disk one by one: a crash of the process loses
        nothing, a power failure the last rows, which then run again.

        Raises: OutputError if it cannot be written; earlier rows stay.
        """
        self.rows[key] = row
        if self._file is None or self.path is None:
            return
        line = json.dumps({"key": key, "row": row}).encode() + b"\n"
        try:
            rest = memoryview(line)
            while rest:  # the file is unbuffered: a nearly full disk accepts a part of the line, then refuses
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._drop_partial_line()
            raise _not_stored(self.path, error) from error
        self._end += len(line)

    def _drop_partial_line(self) -> None:
        """Truncate the file to its last whole line."""
        if self._file is not None:
            os.ftruncate(self._file.fileno(), self._end)

    def sync(self) -> None:
        """Flush stored rows to the disk. Raises: OutputError."""
        if self._file is not None and self.path is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise _not_stored(self.path, error) from error


@contextmanager
def open_result_store(folder: Path | None) -> Iterator[ResultStore]:
    """Open the store of a folder; without a folder, rows are kept in memory only.

    The lock is held until the block ends. It belongs to the open file, so that no lock file can be left behind. A store
    in which nothing was ever kept is removed at the end, with its folder if that was made here and is empty: a campaign
    that fails at its first workload leaves nothing behind.

    Raises: OutputError if the folder cannot be written, or another campaign writes to it at the moment.
    """
    if folder is None:
        yield ResultStore(None, None)
        return
    path, made = folder / FINISHED, not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise not_written(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = os.fstat(file.fileno()).st_nlink > 0  # else the other one has just removed the file
        except BlockingIOError:
            locked = False
        if not locked:
            raise OutputError(
                "another campaign is writing here", where=folder, hint="wait for it, or name another folder"
            )
        file.seek(0)
        store = ResultStore(path, file)
        try:
            yield store
        finally:
            store.sync()
            if not store.rows:
                _remove_empty(path, folder if made else None)


def _remove_empty(path: Path, folder: Path | None) -> None:
    """Remove the file of a store that holds no row, and its folder if nothing else is in it."""
    with suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()
        if folder is not None:
            folder.rmdir()


def _not_stored(path: Path, error: OSError) -> OutputError:
    """Return the error for a store that could not be written."""
    return OutputError(
        f"could not be written: {error.strerror or error}",
        where=path,
        hint="finished runs are kept; free space and start again",
    )
