"""Read a JSON file as a whole, with clear words where it is none."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats._source import opened

MOST_BYTES = 2 << 30
"""JSON is read as a whole and takes some ten times its size."""


def load_json(path: Path) -> Any:
    """The document in a file, plain or gzip. Raises: InputError."""
    with opened(path) as source:
        data = source.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError("JSON of more than 2 GiB", where=path, mend="dump with sacct --parsable2, which is streamed")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON that can be read: {error}", where=path, mend="is the file complete?") from error


def figure(value: Any) -> float | None:
    """A number, or text that is one, as finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
