"""Write TOML: tables, arrays of tables, scalars and comments behind them; what tomllib reads back."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats._source import MAX_LINE_BYTES, opened


def dumps(data: Mapping[str, Any], marks: Mapping[str, str] | None = None) -> str:
    """TOML of nested mappings, lists and scalars; None is left out. ``marks`` puts comments behind keys.

    A mark's key is the path to the value: ``partitions.0.idle_w``.
    """
    return "\n".join(_table(data, "", marks or {}, "")) + "\n"


def read_toml(path: Path, most_bytes: int = MAX_LINE_BYTES) -> dict[str, Any]:
    """The whole file as nested dictionaries. Raises: InputError naming file and line."""
    with opened(path) as source:
        raw = source.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise InputError(f"is larger than {most_bytes >> 20} MiB", where=path, mend="is it a TOML file?")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", where=path, mend="see https://toml.io") from error


def _table(data: Mapping[str, Any], name: str, marks: Mapping[str, str], path: str) -> Iterator[str]:
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
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key) else _scalar(key)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_scalar(v) for v in value)}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
