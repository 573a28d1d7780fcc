"""The first finding of pydantic in a TOML file, in words, with a hint.

pydantic lists all findings in its own terms. A user corrects one at a time, and an unknown key explains a missing
one, so the first finding is reported, unknown keys before all others.

Used by ``checked_toml``, by the reader of machines, which has errors of its own kind, and for messages of agents.
The caller raises the error, since it knows the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wattqueue.errors import nearest

if TYPE_CHECKING:
    from pydantic import ValidationError

Place = tuple[int | str, ...]


def first_finding(error: ValidationError, known: Callable[[Place], Sequence[str]]) -> tuple[str, str]:
    """Return what is wrong, and the hint.

    ``known`` returns the keys that may stand in the table of a place; the nearest one is suggested for a misspelt
    key. Places are written as people count: ``partitions[1]`` is the first partition. Values are shown in at most
    40 letters.
    """
    found = error.errors(include_url=False)
    first = next((f for f in found if f["type"] == "extra_forbidden"), found[0])
    place = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        keys = known(first["loc"])
        return f"unknown key {place}", nearest(str(first["loc"][-1]), keys).rstrip() or f"known: {', '.join(keys)}"
    if first["type"] == "missing":
        return f"no {place}", "add the key"
    problem = first["msg"].removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    return (f"{place} = {repr(first['input'])[:40]}: {problem}" if place else problem), "correct the value"
