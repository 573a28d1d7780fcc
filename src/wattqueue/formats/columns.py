"""Job tables and arrays as columns in a folder, a .npy file each, named by content: written once, mapped by many.

A table is a JSON file of its columns' names; a column that two tables share lies there once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattqueue.errors import InputError
from wattqueue.formats._aside import aside
from wattqueue.formats._source import opened
from wattqueue.model.jobs import Jobs, Labels
from wattqueue.model.profiles import Profiles

Array = NDArray[Any]
MARK = "README"
_MOST_BYTES = 64 << 20
_MOST_OPEN = 4096


def put_mark(folder: Path) -> None:
    """Leave a file by which other machines know that they see this folder. Raises: OutputError."""
    with aside(folder / MARK) as part:
        part.write_text("Columns that workers share while a campaign runs.\n", encoding="utf-8")


def marked(folder: Path) -> bool:
    """Whether ``put_mark`` was here."""
    return (folder / MARK).is_file()


def holds(folder: Path, name: str) -> bool:
    """Whether a table of this name lies in the folder."""
    return (folder / f"{name}.json").is_file()


def put_arrays(folder: Path, arrays: Mapping[str, Array]) -> str:
    """Write arrays of numbers or text; the name to open them by. Raises: OutputError."""
    return _put_table(folder, {name: _put(folder, array) for name, array in arrays.items()})


def open_arrays(folder: Path, name: str) -> dict[str, Array]:
    """The arrays of ``put_arrays``, mapped: memory is shared between processes until one writes.

    Raises: InputError where they are not there.
    """
    return {key: _get(folder, column) for key, column in _table(folder, name).items()}


def put_jobs(folder: Path, jobs: Jobs) -> str:
    """Write a job table with its profiles; the name to open it by. Raises: OutputError."""
    table: dict[str, Any] = {}
    for f in fields(jobs):
        value = getattr(jobs, f.name)
        if isinstance(value, Labels):
            table[f.name] = {"codes": _put(folder, value.codes), "names": list(value.names)}
        elif isinstance(value, Profiles):
            table[f.name] = {
                p.name: getattr(value, p.name) if p.name == "period_s" else _put(folder, getattr(value, p.name))
                for p in fields(value)
            }
        elif isinstance(value, dict):
            table[f.name] = {name: _put(folder, column) for name, column in value.items()}
        elif isinstance(value, np.ndarray):
            table[f.name] = _put(folder, value)
        else:
            table[f.name] = value
    return _put_table(folder, table)


def open_jobs(folder: Path, name: str) -> Jobs:
    """The job table of ``put_jobs``, its columns mapped. Raises: InputError where it is not there."""
    table = _table(folder, name)
    for f in fields(Jobs):
        value = table[f.name]
        if f.name in {"user", "app", "partition"}:
            table[f.name] = Labels(_get(folder, value["codes"]), tuple(value["names"]))
        elif f.name == "profiles" and value is not None:
            period = value.pop("period_s")
            table[f.name] = Profiles(**{k: _get(folder, v) for k, v in value.items()}, period_s=period)
        elif f.name == "extra":
            table[f.name] = {k: _get(folder, v) for k, v in value.items()}
        elif isinstance(value, dict):
            table[f.name] = _get(folder, value)
    return Jobs(**table)


def _put(folder: Path, array: Array) -> dict[str, Any]:
    """Write one column unless it lies there; objects become text, as which they come back."""
    words = array.dtype == object
    plain = np.ascontiguousarray(array.astype(np.str_) if words else array)
    digest = hashlib.sha256(f"{plain.dtype.str} {plain.shape}".encode())
    digest.update(plain.view(np.uint8).data if plain.size and plain.ndim else plain.tobytes())
    name = digest.hexdigest()[:32]
    path = folder / f"{name}.npy"
    if not path.is_file():
        with aside(path) as part, part.open("wb") as file:
            np.save(file, plain, allow_pickle=False)
    return {"column": name, "words": bool(words)}


def _get(folder: Path, column: Mapping[str, Any]) -> Array:
    """One column; two tables that share it get the same array, mapped once a process."""
    return _opened(folder / f"{column['column']}.npy", bool(column["words"]))


@lru_cache(_MOST_OPEN)
def _opened(path: Path, words: bool) -> Array:
    """A column, copied only if it was objects.

    Copy on write: kernels want writable arrays (a read-only one is another type and compiles them anew).
    """
    try:
        found: Array = np.load(path, mmap_mode="c", allow_pickle=False)
    except ValueError:  # nothing in it: there is nothing to map
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise _missing(path) from error
    found = np.asarray(found)
    return found.astype(object) if words else found


def _put_table(folder: Path, table: Mapping[str, Any]) -> str:
    text = json.dumps(table, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:32]
    path = folder / f"{name}.json"
    if not path.is_file():
        with aside(path) as part:
            part.write_text(text, encoding="utf-8")
    return name


def _table(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    if not path.is_file():
        raise _missing(path)
    with opened(path) as source:
        table: dict[str, Any] = json.loads(source.read(_MOST_BYTES))
    return table


def _missing(path: Path) -> InputError:
    return InputError("shared columns are not there", where=path, mend="workers must see this folder")
