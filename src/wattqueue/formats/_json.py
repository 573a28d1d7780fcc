"""Read a JSON file as a whole, with an error that names the file where it is not JSON.

Used by the readers of Batsim workloads and of Slurm's ``sacct --json``. JSON of other programs is not checked against a
schema: a reader takes each field through ``figure`` or ``clean``, which accept any value, and decides per job whether
what it got is enough. So one odd field costs one job, and not the file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.json_text import read_json
from wattqueue.formats.source import opened
from wattqueue.model.bounds import number_of

MOST_BYTES = 2 << 30
"""JSON is read as a whole and takes about ten times its size in memory."""


def load_json(path: Path) -> Any:
    """Return the document in a file, plain or gzip.

    Raises: InputError for a file that cannot be read, is larger than ``MOST_BYTES`` (after decompression) or is not
    JSON.
    """
    with opened(path) as source:
        # One byte more than allowed is enough to see that a file is too large; a gzip file does not state its size.
        data = source.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError("JSON of more than 2 GiB", where=path, hint="dump with sacct --parsable2, which is streamed")
    try:
        return read_json(data)
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of nested brackets
        raise InputError(f"is not readable JSON: {error}", where=path, hint="is the file complete?") from error


def clean(text: str) -> str:
    """Return a text that can be written: JSON may hold halves of surrogate pairs, which UTF-8 has no form for.

    The escape of U+D800 alone is valid JSON, and encoding it would raise UnicodeEncodeError much later, when a table is
    written.
    Each such half becomes a question mark. Texts in ASCII, which nearly all are, are returned as they are.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def figure(value: Any) -> float | None:
    """Return a number, or a text that is one, as finite float; None for anything else.

    ``true`` is not a number here, although Python counts it as 1; integers beyond float64 are none either. Texts are
    accepted since some programs quote their numbers (``"nodes": "4"``); NaN, infinity and what is beyond float64 come
    as texts (``formats.json_text``) and give None.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = number_of(value) if isinstance(value, str) else float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None
