"""Read JSON whose numbers Python's reader cannot hold: such a number is a text, so that it spoils one field alone.

JSON bounds no number. Python refuses a document with an integer of more than 4,300 digits, reads shorter ones that no
float holds as integers, on which arithmetic with floats fails, and accepts NaN and Infinity, which JSON does not have.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from wattqueue.errors import InputError
from wattqueue.formats.source import opened
from wattqueue.model.plain_numbers import number_of


def read_json(data: str | bytes) -> Any:
    """Return what a document holds; a number that is no finite float64 is the text of it.

    Raises:
        ValueError: For what is not JSON.
        RecursionError: For thousands of nested brackets.
    """
    return json.loads(data, parse_int=_integer, parse_float=_float, parse_constant=str)


def _integer(text: str) -> int | str:
    """Return an integer that a float holds, or the text."""
    return int(text) if math.isfinite(float(text)) else text


def _float(text: str) -> float | str:
    """Return a finite float, or the text."""
    value = float(text)
    return value if math.isfinite(value) else text


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
