"""Job tables and arrays as columns in a folder, one .npy file each, named by content: written once, mapped by many.

A campaign starts many processes on one workload. Each maps the columns instead of reading the trace again, so the
pages are in memory once per machine. A table is a JSON file with the names of its columns; a column that two tables
share is stored once. A name is a hash of the content, so a file never changes once it exists and writers need no
lock.

The flow: the process that starts a campaign calls ``put_jobs`` or ``put_arrays``, and hands folder and name to the
workers, which call ``open_jobs`` or ``open_arrays``. Workers on other machines see the folder through a shared file
system; they check with ``marked`` that it is the same one.

Races: two processes that write one column at the same time write identical content under one name, each by an atomic
rename, so either may win. Nothing here deletes or changes a file that exists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats.atomic_write import atomic_write
from wattqueue.formats.source import opened
from wattqueue.model.codec import made, plain
from wattqueue.model.jobs import Jobs

Array = NDArray[Any]
MARK = "README"
"""A file by which a worker on another machine recognises that it sees the same folder."""
_MOST_BYTES = 64 << 20
"""Largest table description that is read."""
_MOST_OPEN = 256
"""Columns that one process keeps mapped. Each holds a file descriptor, of which a process commonly has 1,024; what uses
``select`` fails above that."""


def put_mark(folder: Path) -> None:
    """Leave a file by which other machines recognise this folder. Raises: OutputError."""
    with atomic_write(folder / MARK) as part:
        part.write_text("Columns that workers share while a campaign runs.\n", encoding="utf-8")


def marked(folder: Path) -> bool:
    """Return whether ``put_mark`` was called on the folder, as this machine sees it."""
    return (folder / MARK).is_file()


def holds(folder: Path, name: str) -> bool:
    """Return whether the folder has a table of this name."""
    return (folder / f"{name}.json").is_file()


def put_arrays(folder: Path, arrays: Mapping[str, Array]) -> str:
    """Write arrays of numbers or text, and return the name to open them by.

    Arrays may have any shape, and shapes may differ. The same arrays under the same keys give the same name.

    Raises: OutputError.
    """
    return _put_table(folder, {name: _put(folder, array) for name, array in arrays.items()})


def open_arrays(folder: Path, name: str) -> dict[str, Array]:
    """Return the arrays of ``put_arrays``, mapped: memory is shared between processes until one writes.

    Raises: InputError where they are not there.
    """
    return {key: _get(folder, column) for key, column in _table(folder, name).items()}


def put_jobs(folder: Path, jobs: Jobs) -> str:
    """Write a job table with its profiles, and return the name to open it by.

    The fields of ``Jobs`` become entries of a JSON object (``model.codec``), each column as ``{"column": name}``.

    Raises: OutputError.
    """
    table: dict[str, Any] = plain(jobs, lambda array: _put(folder, array))
    return _put_table(folder, table)


def open_jobs(folder: Path, name: str) -> Jobs:
    """Return the job table of ``put_jobs``, its columns mapped. Raises: InputError where it is not there."""
    return made(Jobs, _table(folder, name), lambda column, _: _get(folder, column))


def _put(folder: Path, array: Array) -> dict[str, Any]:
    """Write one column unless it exists; objects become text, which they are read back as.

    Returns the entry of the table's description: the column's name and whether it was objects. The name is a hash
    of type, shape and content, so two processes that write the same column write the same file, and either may win.
    """
    words = array.dtype == object
    # Objects cannot be mapped, and unpickling them would run code: text of a fixed width can.
    plain = np.ascontiguousarray(array.astype(np.str_) if words else array)
    digest = hashlib.sha256(f"{plain.dtype.str} {plain.shape}".encode())
    digest.update(plain.view(np.uint8).data if plain.size and plain.ndim else plain.tobytes())
    name = digest.hexdigest()[:32]
    path = folder / f"{name}.npy"
    if not path.is_file():
        with atomic_write(path) as part, part.open("wb") as file:
            np.save(file, plain, allow_pickle=False)
    return {"column": name, "words": bool(words)}


def _get(folder: Path, column: Mapping[str, Any]) -> Array:
    """Return one column; two tables that share it get the same array, mapped once per process."""
    return _opened(folder / f"{column['column']}.npy", bool(column["words"]))


@lru_cache(_MOST_OPEN)
def _opened(path: Path, words: bool) -> Array:
    """Return a column, copied only if it was objects.

    It is mapped copy-on-write: kernels need writable arrays, since a read-only one is another type to numba, which
    would compile every kernel again. A write by one process copies the page for this process and leaves the file as it
    is. The cache keeps one mapping per column and process, so that many cells of a campaign share it.
    """
    try:
        found: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    except ValueError:  # an empty array cannot be mapped
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise _missing(path) from error
    found = np.asarray(found)
    return found.astype(object) if words else found


def _put_table(folder: Path, table: Mapping[str, Any]) -> str:
    """Write the description of a table under the hash of its text, and return that name."""
    # Sorted keys make the text, and so the name, independent of the order in which columns were put.
    text = json.dumps(table, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    path = folder / f"{name}.json"
    if not path.is_file():
        with atomic_write(path) as part:
            part.write_text(text, encoding="utf-8")
    return name


def _table(folder: Path, name: str) -> dict[str, Any]:
    """Return the description of a table: what ``_put_table`` wrote under this name.

    Raises: InputError where it is missing.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        raise _missing(path)
    with opened(path) as source:
        table: dict[str, Any] = json.loads(source.read(_MOST_BYTES))
    return table


def _missing(path: Path) -> InputError:
    """Return the error for a column or table that does not exist in the folder."""
    return InputError("a shared column is missing", where=path, hint="every worker must see this folder")
