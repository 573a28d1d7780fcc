"""Read TOML with the error that names file and line, and write it: tables, arrays of tables, scalars, comments.

The standard library reads TOML and does not write it. What ``dumps`` writes, ``tomllib`` reads back to the same
values; floats are written with ``repr``, so that they are equal to the last bit.

Only what WattQueue itself writes is supported: machines, run recipes, policy rows. Dates, inline tables and
multi-line strings are read by the standard library and never written. Keys keep the order of the mapping, so that the
same data gives identical files.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.source import MAX_LINE_BYTES, opened


def dumps(data: Mapping[str, Any], marks: Mapping[str, str] | None = None) -> str:
    """Return TOML of nested mappings, lists and scalars; None is left out.

    ``marks`` puts comments behind keys; a mark's key is the path to the value: ``partitions.0.idle_w``.

    Example: ``{"partitions": [{"idle_w": 95.0}]}`` becomes a header ``[[partitions]]`` and a line ``idle_w = 95.0``,
    with the mark as a comment at its end.
    """
    return "\n".join(_table(data, "", marks or {}, "")) + "\n"


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


def _table(data: Mapping[str, Any], name: str, marks: Mapping[str, str], path: str) -> Iterator[str]:
    """Yield the lines of a table: its scalars first, then its tables, since a TOML table ends at the next header.

    ``name`` is the dotted name for headers, ``path`` the path for ``marks``, which numbers the tables of an array.
    """
    tables: list[tuple[str, Any]] = []
    for key, value in data.items():
        if isinstance(value, Mapping) or (isinstance(value, list) and value and isinstance(value[0], Mapping)):
            tables.append((key, value))
        elif value is not None:
            mark = marks.get(path + key)
            yield f"{_key(key)} = {_scalar(value)}" + (f"  # {mark}" if mark else "")
    for key, value in tables:
        full = f"{name}.{_key(key)}" if name else _key(key)
        if isinstance(value, Mapping):
            yield f"\n[{full}]"
            yield from _table(value, full, marks, f"{path}{key}.")
            continue
        for i, item in enumerate(value):
            yield f"\n[[{full}]]"
            yield from _table(item, full, marks, f"{path}{key}.{i}.")


def _key(key: str) -> str:
    """Return a key bare where TOML allows it, else quoted.

    Bare keys are ASCII letters, digits, underscores and dashes; a partition called ``gpu.large`` would otherwise
    become a nested table.
    """
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else _scalar(key)


def _scalar(value: Any) -> str:
    """Return a value as TOML.

    Floats are written with ``repr`` (``inf`` and ``nan`` are TOML words), text as JSON quotes it, with DEL escaped,
    which TOML forbids and JSON allows. bool comes before int: in Python, True is an int.

    A list or tuple of scalars stays on one line. Anything else, a path for example, is written as text.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_scalar(v) for v in value)}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
