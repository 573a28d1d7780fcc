"""Read TOML with the error that names file and line, and write it: tables, arrays of tables, scalars, comments.

The standard library reads TOML and does not write it; tomlkit, which takes a while to import, is loaded to write. What
``dumps`` writes, ``tomllib`` reads back to the same values, to the last bit of a float. Keys keep the order of the
mapping, so that the same data gives identical files.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattqueue.errors import InputError
from wattqueue.formats.source import MAX_LINE_BYTES, opened

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table


def dumps(data: Mapping[str, Any], marks: Mapping[str, str] | None = None) -> str:
    """Return TOML of nested mappings, lists and scalars; None is left out, or a comment to fill in where it has a mark.

    ``marks`` puts comments behind keys; a mark's key is the path to the value: ``partitions.0.idle_w``.

    Example: ``{"partitions": [{"idle_w": 95.0}]}`` becomes a header ``[[partitions]]`` and a line ``idle_w = 95.0``,
    with the mark as a comment at its end.
    """
    import tomlkit

    document = tomlkit.document()
    _fill(document, data, marks or {}, "")
    return tomlkit.dumps(document)


def one_line(value: Any) -> str:
    """Return a value as TOML on one line: a scalar, a list, or a mapping as an inline table, with what these hold."""
    import tomlkit

    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_of(key)} = {one_line(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(one_line, value)) + "]"
    return str(tomlkit.item(value).as_string())


def key_of(name: str) -> str:
    """Return a name as a key of TOML: in quotes unless it has none but letters, digits, ``_`` and ``-``."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else one_line(name)


def read_toml(path: Path, most_bytes: int = MAX_LINE_BYTES) -> dict[str, Any]:
    """Return the whole file as nested dictionaries. Raises: InputError naming file and line.

    ``most_bytes`` bounds what is read into memory: a path to a trace, given by mistake, is refused after that many
    bytes.
    """
    with opened(path) as source:
        raw = source.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise InputError(f"is larger than {most_bytes >> 20} MiB", where=path, hint="is it a TOML file?")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    # One message for all of them, with the position that tomllib states.
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, numbers or brackets without end
        raise InputError(f"is not TOML: {error}", where=path, hint="see https://toml.io") from error


def _fill(table: Table | TOMLDocument, data: Mapping[str, Any], marks: Mapping[str, str], path: str) -> None:
    """Add the values of a mapping to a table: scalars first, since a TOML table ends at the next header.

    ``path`` is the path for ``marks``, which numbers the tables of an array.
    """
    import tomlkit

    tables: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, Mapping) or (isinstance(value, list) and value and isinstance(value[0], Mapping)):
            tables.append((key, value))
        elif value is not None:
            item = tomlkit.item(value if isinstance(value, (bool, int, float, list, tuple)) else str(value))
            if mark := marks.get(path + key):
                item.comment(" ".join(mark.split()))  # a name may hold a line break, a comment may not
            table.add(key, item)
        elif mark := marks.get(path + key):
            table.add(tomlkit.comment(f"{key} = ...  # {mark}"))
    for key, value in tables:
        if isinstance(value, Mapping):
            inner = tomlkit.table()
            _fill(inner, value, marks, f"{path}{key}.")
            table.add(key, inner)
            continue
        array = tomlkit.aot()
        for i, each in enumerate(value):
            inner = tomlkit.table()
            _fill(inner, each, marks, f"{path}{key}.{i}.")
            array.append(inner)
        table.add(key, array)
