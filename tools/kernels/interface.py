"""The types that each entry kernel takes: ``interface.json``, and numba's types made of it.

Entries are compiled for these types and no others: what a program happens to pass decides nothing. ``layouts`` has the
members of every named tuple, by the name of its layout (``kernels/_numba/addresses.py``): ``[class, members]``, where a
member is a layout, ``[dtype, dimensions]`` of an array, or ``[type]`` of a number or a record of scalars. ``entries``
has the argument lists of every entry; an entry whose arrays may be of several types has several.

:func:`record` adds to the file what a test run has met (``pytest -p tools.kernels.interface``).
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("interface.json")
NUMBERS = {"int": int, "float": float}


@cache
def interface() -> dict[str, Any]:
    """Return the content of ``interface.json``."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def entries() -> dict[str, Any]:
    """Return every entry kernel of WattQueue by its name, ``module.function``. Imports all kernels."""
    from wattqueue import kernels

    found: dict[str, Any] = {}
    for info in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        if "._numba" in info.name:
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if type(value).__name__ == "EntryKernel":
                found[name_of(value)] = value
    return found


def name_of(entry: Any) -> str:
    """Return the name of an entry: its module's without the package's, and its own."""
    return f"{entry.__module__.removeprefix('wattqueue.kernels.')}.{entry.__name__}"


def layout_of(text: list[Any]) -> Any:
    """Return the layout that ``interface.json`` states as lists."""
    if isinstance(text[0], str) and len(text) == 2 and isinstance(text[1], list):
        return _class(text[0]), tuple(map(layout_of, text[1]))
    if len(text) == 1:
        return (NUMBERS.get(text[0]) or _class(text[0]),)
    return text[0], text[1]


def text_of(layout: Any) -> list[Any]:
    """Return a layout as ``interface.json`` states it."""
    if not isinstance(layout[0], type):
        return list(layout)
    kind = layout[0].__name__ if layout[0] in NUMBERS.values() else f"{layout[0].__module__}:{layout[0].__name__}"
    return [kind] if len(layout) == 1 else [kind, [text_of(member) for member in layout[1]]]


def _class(path: str) -> Any:
    """Return a class by ``module:name``."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def words_of(layout: Any) -> int:
    """Return how many 64-bit words stand for a layout (``addresses.py``)."""
    if not isinstance(layout[0], type):
        return 1 + int(layout[1])
    return 1 if len(layout) == 1 else sum(map(words_of, layout[1]))


def pytest_sessionfinish() -> None:
    """Add to ``interface.json`` what a test run in fast mode has compiled or loaded; a plugin of pytest."""
    import fcntl

    with FILE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record()
    FILE.with_suffix(".lock").unlink(missing_ok=True)


def record() -> None:
    """Add the argument types that entries of this process were called with; drop layouts that no entry takes.

    Where a tuple has changed, take its entries' lists out of the file first.
    """
    from wattqueue.kernels._numba.addresses import LAYOUTS

    known = json.loads(FILE.read_text()) if FILE.exists() else {"layouts": {}, "entries": {}}
    for name, entry in entries().items():
        lists = known["entries"].setdefault(name, [])
        for signature in entry.dispatcher.signatures:
            kinds = [_kind(kind) for kind in signature]
            for kind in kinds:
                if kind in LAYOUTS:
                    known["layouts"][kind] = text_of(LAYOUTS[kind])
            if kinds not in lists:
                lists.append(kinds)
        lists.sort()
    used = {kind for lists in known["entries"].values() for kinds in lists for kind in kinds}
    known["layouts"] = {name: layout for name, layout in known["layouts"].items() if name in used}
    FILE.write_text(_written(known))


def _kind(kind: Any) -> str:
    """Return one argument type as text: a layout's name, ``dtype:dimensions`` of an array, or a number's name."""
    from numba import types
    from numba.np.numpy_support import as_dtype

    if isinstance(kind, types.Array) and isinstance(kind.dtype, types.Record):
        return str(next(iter(kind.dtype.fields)))
    if isinstance(kind, types.Array):
        return f"{as_dtype(kind.dtype).str}:{kind.ndim}"
    return "bool" if isinstance(kind, types.Boolean) else "int" if isinstance(kind, types.Integer) else "float"


def _written(known: dict[str, Any]) -> str:
    """Return the file's text: a line for each layout and each entry."""
    parts = []
    for part in ("layouts", "entries"):
        rows = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(known[part].items())]
        parts.append(f' "{part}": {{\n' + ",\n".join(rows) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"
