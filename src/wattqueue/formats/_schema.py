"""What pydantic finds wrong in a file, in our words: the first finding, and how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

Place = tuple[int | str, ...]


def first_finding(error: ValidationError, known: Callable[[Place], Sequence[str]]) -> tuple[str, str]:
    """What is wrong and how to mend it; an unknown key goes before all else, since it explains what is missing.

    ``known`` gives the keys that may stand in the table of a place.
    """
    found = error.errors(include_url=False)
    first = next((f for f in found if f["type"] == "extra_forbidden"), found[0])
    place = "".join(f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        keys = known(first["loc"])
        close = difflib.get_close_matches(str(first["loc"][-1]), keys, 1, 0.6)
        return f"unknown key {place}", f"did you mean {close[0]}?" if close else f"known: {', '.join(keys)}"
    if first["type"] == "missing":
        return f"no {place}", "state it"
    said = first["msg"].removeprefix("Value error, ")
    said = said[:1].lower() + said[1:]
    return (f"{place} = {repr(first['input'])[:40]}: {said}" if place else said), "mend the value"
