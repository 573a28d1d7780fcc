"""Read JSON whose numbers Python's reader cannot hold: such a number is a text, so that it spoils one field alone.

JSON bounds no number. Python refuses a document with an integer of more than 4,300 digits, reads shorter ones that no
float holds as integers, on which arithmetic with floats fails, and accepts NaN and Infinity, which JSON does not have.
"""

from __future__ import annotations

import json
import math
from typing import Any


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
